/* tokfix.h - small byte-level tokenizers as files, with any number of merges. */
#ifndef TESTS_LOOP_TOKFIX_H
#define TESTS_LOOP_TOKFIX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The character that stands for byte <b> in a byte-level vocabulary, as JSON text. */
static inline void tokfix_byte(unsigned b, char out[8])
{
	unsigned n = 0;

	if ((b >= 33 && b <= 126) || (b >= 161 && b != 173)) {
		sprintf(out, "\\u%04x", b);
		return;
	}
	for (unsigned i = 0; i < b; i++)
		n += !((i >= 33 && i <= 126) || (i >= 161 && i != 173));
	sprintf(out, "\\u%04x", 256 + n);
}

/* The text of a tokenizer.json: merges "a a", "aa aa", ... of <letter>, <merges> (at most 12) of
 * them; malloc()ed. */
static inline char *tokfix_json(char letter, unsigned merges)
{
	char *s = malloc(1u << 20), c[8];
	size_t n = 0;

	n += (size_t)sprintf(s,
	    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[{\"id\":%u,"
	    "\"content\":\"<|end|>\","
	    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
	    "\"special\":true}],\n"
	    "\"normalizer\":null,\n\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
	    "\"trim_offsets\":true,"
	    "\"use_regex\":true},\n\"post_processor\":null,\n\"decoder\":{\"type\":\"ByteLevel\","
	    "\"add_prefix_space\":true,"
	    "\"trim_offsets\":true,\"use_regex\":true},\n\"model\":{\"type\":\"BPE\",\"dropout\":null,"
	    "\"unk_token\":null,"
	    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
	    "\"byte_fallback\":false,"
	    "\"ignore_merges\":false,\n\"vocab\":{",
	    256 + merges);
	for (unsigned b = 0; b < 256; b++) {
		tokfix_byte(b, c);
		n += (size_t)sprintf(s + n, "%s\"%s\":%u", b ? "," : "", c, b);
	}
	for (unsigned i = 0; i < merges; i++) {
		n += (size_t)sprintf(s + n, ",\"");
		memset(s + n, letter, 2u << i);
		n += 2u << i;
		n += (size_t)sprintf(s + n, "\":%u", 256 + i);
	}
	n += (size_t)sprintf(s + n, "},\n\"merges\":[");
	for (unsigned i = 0; i < merges; i++) {
		n += (size_t)sprintf(s + n, "%s\"", i ? "," : "");
		memset(s + n, letter, 1u << i);
		n += 1u << i;
		s[n++] = ' ';
		memset(s + n, letter, 1u << i);
		n += 1u << i;
		s[n++] = '"';
	}
	sprintf(s + n, "]}}\n");
	return s;
}

#endif
