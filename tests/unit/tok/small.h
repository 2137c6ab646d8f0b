/* small.h - small tokenizers, generated here as tokenizer.json, and texts that exercise all of
 * their rules: for unit tests, fuzz targets and benches. They have byte tokens, random merges of
 * the characters of English, code, digits and CJK, and added tokens. */
#ifndef TESTS_TOK_SMALL_H
#define TESTS_TOK_SMALL_H

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/rng.h"
#include "agent/base/utf8.h"
#include "agent/tok/tok.h"
#include "tests/unit/tok/rows.h"

enum small_kind {
	SMALL_L3, SMALL_QWEN, SMALL_O200K, SMALL_TEKKEN, SMALL_KIMI, SMALL_DEEPSEEK, SMALL_GPT2,
	SMALL_ROWS,		/* the chains of rows.h */
	SMALL_FALCON = SMALL_ROWS + 2,
	SMALL_CUT,		/* the kinds before this one cut texts into chunks */
	SMALL_CHAIN = SMALL_CUT,/* a chain of two steps: digits, then GPT-2 */
	SMALL_PREFIX_SPACE,
	SMALL_STRIP,		/* added tokens with lstrip, rstrip, single_word or normalized */
	SMALL_SPM,		/* Prepend, Replace and byte_fallback; no splitter */
	SMALL_METASPACE,	/* the first segment differs */
	SMALL_KINDS
};

#define SMALL_MERGES	400u

/* ---- text that grows ------------------------------------------------------------------------- */

struct small_text {
	char *p;
	size_t n, cap;
};

static inline void small_add(struct small_text *t, const char *p, size_t n)
{
	if (t->cap - t->n <= n) {
		t->cap = (t->cap + n + 1) * 2;
		if ((t->p = realloc(t->p, t->cap)) == NULL)
			abort();
	}
	memcpy(t->p + t->n, p, n);
	t->n += n;
	t->p[t->n] = '\0';
}

static inline void small_say(struct small_text *t, const char *words)
{
	small_add(t, words, strlen(words));
}

static inline void small_id(struct small_text *t, unsigned id)
{
	char number[16];

	small_add(t, number, (size_t)snprintf(number, sizeof(number), "%u", id));
}

/* ---- tokenizer.json -------------------------------------------------------------------------- */

/* Append a byte as GPT-2 writes it: printable bytes as themselves, the others from U+0100 on. */
static inline void small_byte(struct small_text *t, uint8_t b)
{
	unsigned cp = b, before = 0;
	char c[UTF8_MAX];

	if (b <= 32 || (b >= 127 && b <= 160) || b == 173) {
		for (unsigned i = 0; i < b; i++)
			before += i <= 32 || (i >= 127 && i <= 160) || i == 173;
		cp = 256 + before;
	}
	if (cp == '"' || cp == '\\')
		small_add(t, "\\", 1);
	small_add(t, c, utf8_put(c, cp));
}

struct small_entry {
	uint8_t p[24];
	uint8_t n;
};

struct small_vocab {
	struct small_entry e[256 + SMALL_MERGES];
	unsigned n;
	unsigned left[SMALL_MERGES], right[SMALL_MERGES];	/* of entry 256 + i */
};

static inline unsigned small_common(struct rng *r, const struct small_vocab *v)
{
	static const char common[] = "etaoinshrdlu  EKN\n\n09.,'/\xe3\x80\x81\x82\xe4\xb8\xba\xc3\xa9";

	if (v->n > 256 && rng_below(r, 2) == 0)
		return 256 + rng_below(r, v->n - 256);
	return (uint8_t)common[rng_below(r, sizeof(common) - 1)];
}

static inline bool small_has(const struct small_vocab *v, const struct small_entry *e)
{
	for (unsigned i = 0; i < v->n; i++)
		if (v->e[i].n == e->n && memcmp(v->e[i].p, e->p, e->n) == 0)
			return true;
	return false;
}

static inline void small_merge(struct small_vocab *v, unsigned left, unsigned right)
{
	struct small_entry e = v->e[left];

	if (left >= v->n || right >= v->n || e.n + v->e[right].n > sizeof(e.p))
		return;
	memcpy(e.p + e.n, v->e[right].p, v->e[right].n);
	e.n = (uint8_t)(e.n + v->e[right].n);
	if (small_has(v, &e))
		return;
	v->left[v->n - 256] = left;
	v->right[v->n - 256] = right;
	v->e[v->n++] = e;
}

static inline void small_vocab(struct small_vocab *v, uint64_t seed)
{
	/* pairs that a correct cut separates: a wrong cut lets them merge and changes the ids */
	static const uint8_t across[] = "\n\n    \n\n .\n\n/\na\n99a e0109a,''s\xa0 \x80 "
		"\x80\xe3\xbc\xe3\x81\xe3";
	struct rng r;

	rng_init(&r, seed);
	memset(v, 0, sizeof(*v));
	for (; v->n < 256; v->n++)
		v->e[v->n] = (struct small_entry){ { (uint8_t)v->n }, 1 };
	for (unsigned i = 0; i + 2 < sizeof(across); i += 2)
		small_merge(v, across[i], across[i + 1]);
	for (unsigned tries = 0; tries < 4 * SMALL_MERGES && v->n < 256 + SMALL_MERGES; tries++)
		small_merge(v, small_common(&r, v), small_common(&r, v));
}

static inline void small_entry(struct small_text *t, const struct small_entry *e)
{
	small_say(t, "\"");
	for (unsigned i = 0; i < e->n; i++)
		small_byte(t, e->p[i]);
	small_say(t, "\"");
}

/* Both return the number of entries, which is the id of the first added token. */
static inline unsigned small_bytes_model(struct small_text *t, bool ignore_merges)
{
	static struct small_vocab v;

	small_vocab(&v, 5);
	small_say(t, "\"model\":{\"type\":\"BPE\",\"ignore_merges\":");
	small_say(t, ignore_merges ? "true" : "false");
	small_say(t, ",\"vocab\":{");
	for (unsigned i = 0; i < v.n; i++) {
		small_say(t, i ? "," : "");
		small_entry(t, &v.e[i]);
		small_say(t, ":");
		small_id(t, i);
	}
	small_say(t, "},\"merges\":[");
	for (unsigned i = 256; i < v.n; i++) {
		small_say(t, i > 256 ? ",[" : "[");
		small_entry(t, &v.e[v.left[i - 256]]);
		small_say(t, ",");
		small_entry(t, &v.e[v.right[i - 256]]);
		small_say(t, "]");
	}
	small_say(t, "]}}");
	return v.n;
}

/* Write a model of characters, <0x..> tokens for all other bytes, and merges of a few words. */
static inline unsigned small_spm_model(struct small_text *t)
{
	static const char *const merges[][2] = {
		{ "▁", "t" }, { "h", "e" }, { "▁t", "he" }, { "a", "n" }, { "▁", "an" }, { "▁", "▁" },
		{ "▁▁", "▁▁" }, { "i", "s" },
		{ "e", "r" }, { "t", "h" }, { "th", "er" }, { ".", "▁" }, { "0", "0" }, { "0", "1" },
		{ "q", "u" }, { "n", "t" },
	};
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzENT0129.,'\\n";
	unsigned id = 3;

	small_say(t, "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
		"\"byte_fallback\":true,\"vocab\":{"
		     "\"<unk>\":0,\"<s>\":1,\"</s>\":2");
	for (unsigned i = 0; i < 256; i++, id++) {
		char byte[32];

		small_add(t, byte, (size_t)snprintf(byte, sizeof(byte), ",\"<0x%02X>\":%u", i, id));
	}
	for (unsigned i = 0; i < sizeof(chars) - 1; i++, id++) {
		small_say(t, ",\"");
		small_add(t, chars + i, chars[i] == '\\' ? 2 : 1);
		i += chars[i] == '\\';
		small_say(t, "\":");
		small_id(t, id);
	}
	small_say(t, ",\"▁\":");
	small_id(t, id++);
	for (unsigned i = 0; i < sizeof(merges) / sizeof(merges[0]); i++, id++) {
		small_say(t, ",\"");
		small_say(t, merges[i][0]);
		small_say(t, merges[i][1]);
		small_say(t, "\":");
		small_id(t, id);
	}
	small_say(t, "},\"merges\":[");
	for (unsigned i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
		small_say(t, i ? ",\"" : "\"");
		small_say(t, merges[i][0]);
		small_say(t, " ");
		small_say(t, merges[i][1]);
		small_say(t, "\"");
	}
	small_say(t, "]}}");
	return id;
}

#define SMALL_SPACES	"\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SMALL_CON	"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SMALL_UP	"\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}"
#define SMALL_LOW	"\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}"
#define SMALL_FRONT	"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define SMALL_OTHERS	" ?[^\\\\s\\\\p{L}\\\\p{N}]+"
#define SMALL_WORDS(x, s) SMALL_FRONT "[" SMALL_UP x "]*[" SMALL_LOW x "]+" s "|" \
	SMALL_FRONT "[" SMALL_UP x "]+[" SMALL_LOW x "]*" s

static inline const char *small_pattern(enum small_kind kind)
{
	switch (kind) {
	case SMALL_QWEN:
		return SMALL_CON "|" SMALL_FRONT "\\\\p{L}+|\\\\p{N}|" SMALL_OTHERS "[\\\\r\\\\n]*|" SMALL_SPACES;
	case SMALL_O200K:
		return SMALL_WORDS("", SMALL_CON "?") "|\\\\p{N}{1,3}|" SMALL_OTHERS
						      "[\\\\r\\\\n/]*|" SMALL_SPACES;
	case SMALL_TEKKEN:
		return SMALL_WORDS("", "") "|\\\\p{N}|" SMALL_OTHERS "[\\\\r\\\\n/]*|" SMALL_SPACES;
	case SMALL_KIMI:
		return "[\\\\p{Han}]+|" SMALL_WORDS("&&[^\\\\p{Han}]",
		    SMALL_CON "?") "|\\\\p{N}{1,3}|" SMALL_OTHERS "[\\\\r\\\\n]*|" SMALL_SPACES;
	case SMALL_DEEPSEEK:
		return "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^\\\\r\\\\n\\\\p{L}"
			"\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+|"
			" ?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*|" SMALL_SPACES;
	default:
		return SMALL_CON "|" SMALL_FRONT "\\\\p{L}+|\\\\p{N}{1,3}|" SMALL_OTHERS
				 "[\\\\r\\\\n]*|" SMALL_SPACES;
	}
}

static inline void small_split(struct small_text *t, const char *pattern)
{
	small_say(t, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
	small_say(t, pattern);
	small_say(t, "\"},\"behavior\":\"Isolated\",\"invert\":false},");
}

/* Strings are in JSON form. */
static inline void small_row(struct small_text *t, const struct row_of_steps *r)
{
	static const char *const behaviours[] = { "Removed", "Isolated", "MergedWithPrevious",
		"MergedWithNext", "Contiguous" };

	for (size_t i = 0; i < r->n; i++) {
		const struct split_step *s = &r->step[i];

		small_say(t, i > 0 ? ",{\"type\":\"" : "{\"type\":\"");
		if (s->kind == STEP_REGEX) {
			small_say(t, "Split\",\"pattern\":{\"Regex\":\"");
			for (size_t k = 0; k < s->pattern.n; k++) {
				small_say(t, s->pattern.p[k] == '\\' ? "\\" : "");
				small_add(t, s->pattern.p + k, 1);
			}
			small_say(t, "\"},\"invert\":false,\"behavior\":\"");
			small_say(t, behaviours[s->behaviour]);
			small_say(t, "\"}");
		} else if (s->kind == STEP_PUNCTUATION) {
			small_say(t, "Punctuation\",\"behavior\":\"");
			small_say(t, behaviours[s->behaviour]);
			small_say(t, "\"}");
		} else if (s->kind == STEP_DIGITS) {
			small_say(t, s->individual ? "Digits\",\"individual_digits\":true}" : "Digits\","
				"\"individual_digits\":false}");
		} else {
			small_say(t, "ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":");
			small_say(t, s->use_regex ? "true}" : "false}");
		}
	}
}

static inline void small_pre_tokenizer(struct small_text *t, enum small_kind kind)
{
	bool regex = kind == SMALL_GPT2 || kind == SMALL_CHAIN, space = kind == SMALL_PREFIX_SPACE;

	if (kind == SMALL_SPM) {
		small_say(t, "\"pre_tokenizer\":null,");
		return;
	}
	if (kind == SMALL_METASPACE) {
		small_say(t, "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"▁\","
			"\"prepend_scheme\":\"first\","
			     "\"split\":false},");
		return;
	}
	small_say(t, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
	if (kind >= SMALL_ROWS && kind <= SMALL_FALCON) {
		small_row(t, &rows_of_steps[kind - SMALL_ROWS]);
		small_say(t, "]},");
		return;
	}
	if (kind == SMALL_CHAIN)
		small_say(t, "{\"type\":\"Digits\",\"individual_digits\":true},");
	if (kind == SMALL_DEEPSEEK) {
		small_split(t, "\\\\p{N}{1,3}");
		small_split(t, "[一-龥\xe3\x81\x80-ゟ゠-ヿ]+");
	}
	if (!regex)
		small_split(t, small_pattern(kind));
	small_say(t, "{\"type\":\"ByteLevel\",\"add_prefix_space\":");
	small_say(t, space ? "true" : "false");
	small_say(t, ",\"trim_offsets\":true,\"use_regex\":");
	small_say(t, regex ? "true}]}," : "false}]},");
}

static inline void small_normalizer(struct small_text *t, enum small_kind kind)
{
	if (kind == SMALL_QWEN || kind == SMALL_STRIP)
		small_say(t, "\"normalizer\":{\"type\":\"NFC\"},");
	else if (kind == SMALL_SPM)
		small_say(t, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
			"\"prepend\":\"▁\"},"
			     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},");
	else
		small_say(t, "\"normalizer\":null,");
}

static inline void small_token(struct small_text *t, unsigned *id, const char *content,
    const char *flags)
{
	static const char *const names[] = { "lstrip", "rstrip", "single_word", "normalized" };

	small_say(t, t->p[t->n - 1] == '}' ? ",{\"id\":" : "{\"id\":");
	small_id(t, (*id)++);
	small_say(t, ",\"content\":\"");
	small_say(t, content);
	small_say(t, "\"");
	for (unsigned i = 0; i < 4; i++) {
		small_say(t, ",\"");
		small_say(t, names[i]);
		small_say(t, strchr(flags, names[i][0]) != NULL ? "\":true" : "\":false");
	}
	small_say(t, ",\"special\":true}");
}

static inline void small_added(struct small_text *t, enum small_kind kind, unsigned id)
{
	small_say(t, "\"added_tokens\":[");
	small_token(t, &id, "<|im_start|>", "");
	small_token(t, &id, "<|im_end|>", "");
	small_token(t, &id, "<|", "");
	small_token(t, &id, "<<<", "");
	if (kind == SMALL_STRIP) {
		small_token(t, &id, "[L]", "l");
		small_token(t, &id, "[R]", "r");
		small_token(t, &id, "[LR]", "lr");
		small_token(t, &id, "[S]", "s");
		small_token(t, &id, "word", "s");
		small_token(t, &id, "[N]", "n");
		small_token(t, &id, "end_", "");
	}
	small_say(t, "],");
}

static inline void small_post(struct small_text *t, unsigned id)
{
	small_say(t, "\"post_processor\":{\"type\":\"TemplateProcessing\","
		"\"single\":[{\"SpecialToken\":{\"id\":\"a\",\"type_id\":0}},"
		     "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"b\","
		     "\"type_id\":0}}],\"pair\":[],"
		     "\"special_tokens\":{\"a\":{\"id\":\"a\",\"ids\":[");
	small_id(t, id);
	small_say(t, "],\"tokens\":[\"<|im_start|>\"]},\"b\":{\"id\":\"b\",\"ids\":[");
	small_id(t, id + 1);
	small_say(t, "],\"tokens\":[\"<|im_end|>\"]}}},");
}

/* Return the tokenizer.json of <kind>. The caller frees it. */
static inline struct small_text small_json(enum small_kind kind)
{
	struct small_text t = { 0 }, model = { 0 };
	unsigned n = kind == SMALL_SPM || kind == SMALL_METASPACE ? small_spm_model(&model) :
								   small_bytes_model(&model, kind == SMALL_L3);

	small_say(&t, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"decoder\":null,");
	small_added(&t, kind, n);
	small_normalizer(&t, kind);
	small_pre_tokenizer(&t, kind);
	small_post(&t, n);
	small_add(&t, model.p, model.n);
	free(model.p);
	return t;
}

/* Load the tokenizer of <kind>. Prints the error and aborts if it does not load, because these
 * files are correct. */
static inline struct tok *small_tok(enum small_kind kind)
{
	struct small_text file = small_json(kind);
	struct tok_source src = { .file = span_of(file.p, file.n), .name = "small" };
	struct err e = { 0 };
	struct tok *t = tok_load(&src, &e);

	if (t == NULL) {
		fprintf(stderr, "small tokenizer %u: line %u: %s\n", kind, (unsigned)e.line, e.text);
		abort();
	}
	free(file.p);
	return t;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Append about <n> bytes of random words. <flavour> 0: a mixture; 1: English; 2: CJK; 3: code; 4:
 * text without a place to cut; 5: random bytes. */
static inline void small_words(struct small_text *t, struct rng *r, unsigned flavour, size_t n)
{
	static const char *const words[][16] = {
		{ " ", "\n", "  ", "a1", "don't", "x", "\xe3", "\x80", "<|im_start|>", "<|", "[L]",
		  "[R] ", " word ", "é", "e\xcc\x81", "。" },
		{ "the ", "other ", "then ", "isn't ", "I'LL ", "one, ", "two. ", "2026 ", "end\n", "end.\n\n",
		  "(so) ", "état ", "STAR ",
		  "ant ", "an ", "x" },
		{ "日本語、", "中文。", "カタカナ", "ひらがな、", "今日は", "「はい」。", "！", "世界，", "　", "が", "か\xe3\x82\x99、", "〆、",
		  "㐀。",
		  "한국어 ", "\n", "ー、" },
		{ "if (", "x", " == ", "10", ") {\n", "\t", "return", ";\n", "}\n", "//",
		  " /* */", "\r\n", "0x1fA9", "\"", "a.b", "    " },
		{ "e", "t", "a", "o", "n", "s", "h", "r", "d", "l", "u", "E", "K", "N", "ee", "tt" },
		{ "\xff", "\xc3", "\xe4\xb8", "\xe3\x80\x81", "\xf0\x9f\x98", "\n9", "\n/", ".\n/a", "\n\n9",
		  "9\xcc\x81",
		  "'", "'s", "\xc2\xa0  ",
		  "\xe3\x80\x80  ", "\x7f ", "\xe2\x80\xa8  " },
	};
	size_t end = t->n + n;

	while (t->n < end) {
		unsigned f = flavour ? flavour : rng_below(r, 6);

		small_say(t, words[f][rng_below(r, 16)]);
		if (flavour == 0 && rng_below(r, 40) == 0)
			small_words(t, r, 1 + rng_below(r, 4), rng_below(r, 300));
	}
}

#endif
