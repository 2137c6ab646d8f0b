/* tok.h - a small tokenizer for fuzz targets, made where it is used: inputs are replayed in any
 * directory. */
#ifndef TESTS_FUZZ_TOK_H
#define TESTS_FUZZ_TOK_H

#include "agent/tok/tok.h"
#include "tests/fuzz/lib/fuzz.h"

/* The character that stands for byte <b> in the vocabulary of a byte-level model, for JSON. */
static inline void tok_char(char *out, unsigned b)
{
	bool itself = (b >= 33 && b < 127) || (b >= 0xa1 && b != 0xad);
	unsigned c = b, k;

	for (k = 0; !itself && k < b; k++)
		c += !((k >= 33 && k < 127) || (k >= 0xa1 && k != 0xad));
	snprintf(out, 8, "\\u%04x", itself ? b : 256 + c - b);
}

/* One for the life of the process. */
static inline struct tok *fuzz_tok(void)
{
	static const char *const merges[] = { "t h", "th e", "s e", "r v", "se rv", "serv e",
		"serve r", "a a", "aa aa", "1 2" };
	static struct tok *tok;
	struct tok_source src = { .name = "fuzz" };
	struct trace t = { 0 };
	char name[16];
	struct err e;
	unsigned i;

	if (tok != NULL)
		return tok;
	trace_say(&t,
	    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":266,\"content\":\"<|end|>\",\"special\":true,"
	    "\"single_word\":false,"
	    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],");
	trace_say(&t,
	    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
	    "\"use_regex\":true,\"trim_offsets\":true},");
	trace_say(&t, "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\",\"vocab\":{");
	for (i = 0; i < 256; i++) {
		tok_char(name, i);
		trace_say(&t, "\"%s\":%u,", name, i);
	}
	for (i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
		const char *space = strchr(merges[i], ' ');

		trace_say(&t, "\"%.*s%s\":%u%s", (int)(space - merges[i]), merges[i], space + 1,
		    256 + i, i == 9 ? "" : ",");
	}
	trace_say(&t, "},\"merges\":[");
	for (i = 0; i < sizeof(merges) / sizeof(merges[0]); i++)
		trace_say(&t, "%s\"%s\"", i ? "," : "", merges[i]);
	trace_say(&t, "]}}");
	src.file = span_of(t.p, t.n);
	if ((tok = tok_load(&src, &e)) == NULL)
		fprintf(stderr, "%s\n", e.text);
	must(tok != NULL);
	free(t.p);
	return tok;
}

#endif
