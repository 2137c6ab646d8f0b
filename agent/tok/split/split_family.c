/* split_family.c - the known patterns as text, and the scanner of each.
 *
 * Patterns are compared as text, because equality of regular expressions is not decidable in
 * practice; others use PCRE2. Variants of one meaning are listed if models have them: with literal
 * CR and LF, or with possessive quantifiers and shorter last alternatives, which change no match
 * (the character after a run is not in its class). */
#include "agent/tok/split/split_family_in.h"

#define CONTRACTION	"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SHORTER		"'(?i:[sdmt]|ll|ve|re)"
#define LETTERS		"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS		" ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES		"\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define FRONT		"[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER		"\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER		"\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define WORDS(u, l, s)	FRONT "[" u "]*[" l "]+" s "|" FRONT "[" u "]+[" l "]*" s
#define NOT_HAN		"&&[^\\p{Han}]"

#define L3		CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|" SPACES
#define O200K		WORDS(UPPER, LOWER, CONTRACTION "?") \
			"|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define KIMI		"[\\p{Han}]+|" WORDS(UPPER NOT_HAN, LOWER NOT_HAN, CONTRACTION "?") \
			"|\\p{N}{1,3}|" OTHERS "|" SPACES
#define GPT2		"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" \
			"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
			" ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES

const struct family family_gpt2 = { "gpt2", split_scan_gpt2 };

static const struct known {
	const char *pattern;
	struct family family;
} known[] = {
	{ L3, { "cl100k", split_scan_l3 } },
	{ SHORTER "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
	    { "cl100k", split_scan_l3 } },
	{ CONTRACTION "|" LETTERS "|\\p{N}|" OTHERS "|" SPACES, { "qwen2", split_scan_q2 } },
	{ SHORTER
	    "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
	    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
	    { "qwen2", split_scan_q2 } },
	{ CONTRACTION
	    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
	    { "qwen3.5", split_scan_q35 } },
	{ CONTRACTION "|" LETTERS "|\\p{N}+|" OTHERS "|" SPACES,
	    { "cl100k-digits", split_scan_digit_runs } },
	{ O200K, { "o200k", split_scan_o200k } },
	{ WORDS(UPPER, LOWER, "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
	    { "tekken", split_scan_tekken } },
	{ KIMI, { "kimi", split_scan_kimi } },
	{ GPT2, { "gpt2", split_scan_gpt2 } },
};
#define KNOWN	(sizeof(known) / sizeof(known[0]))

static const char *const deepseek[3] = { "\\p{N}{1,3}",
					 "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
					 DEEPSEEK };

/* The first DeepSeek models. NULL: Digits, "": the letters of split_deepseek1.c. */
#define EAST		"[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"
static const struct row {
	const char *pattern[6];
	size_t n;
	struct family family;
} rows[] = {
	{ { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST, NULL }, 5,
	    { "deepseek-coder", split_scan_deepseek_coder, 1 } },
	{ { "[\\r\\n]", "",
	      "\\s?[!-/:-~\xef\xbc\x81-\xef\xbc\x8f\xef\xbc\x9a-\xef\xbd\x9e"
	      "\xe2\x80\x98-\xe2\x80\x9f\xe3\x80\x80-\xe3\x80\x82]+",
	      "\\s+$", EAST, NULL },
	    6, { "deepseek-llm", split_scan_deepseek_llm, 1 } },
};

const uint8_t scan_joins[256] = {
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,
	1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1,
	1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1,
};

/* Tell if <p> is <text>; a literal CR or LF in it equals \r or \n. */
static bool same(struct span p, const char *text)
{
	size_t i;

	for (i = 0; i < p.n; i++) {
		if (p.p[i] == '\r' || p.p[i] == '\n') {
			if (text[0] != '\\' || text[1] != (p.p[i] == '\r' ? 'r' : 'n'))
				return false;
			text += 2;
		} else if (*text++ != p.p[i]) {
			return false;
		}
	}
	return *text == '\0';
}

struct family family_of_pattern(struct span pattern)
{
	size_t i;

	for (i = 0; i < KNOWN; i++)
		if (same(pattern, known[i].pattern))
			return known[i].family;
	return (struct family){ NULL, NULL };
}

static bool is_step(struct span p, const char *want)
{
	if (want == NULL)
		return span_eq(p, FAMILY_DIGITS);
	return *want == '\0' ? split_is_alphabets(p) : same(p, want);
}

static bool is_row(const struct row *r, const struct span *patterns, size_t n)
{
	for (size_t i = 0; i < n && n == r->n; i++)
		if (!is_step(patterns[i], r->pattern[i]))
			return false;
	return n == r->n;
}

struct family family_of_sequence(const struct span *patterns, size_t n)
{
	size_t i;

	if (n == 1)
		return family_of_pattern(patterns[0]);
	for (i = 0; n == 3 && i < n; i++)
		if (!same(patterns[i], deepseek[i]))
			break;
	if (n == 3 && i == n)
		return (struct family){ "deepseek", split_scan_deepseek };
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (is_row(&rows[i], patterns, n))
			return rows[i].family;
	return (struct family){ NULL, NULL };
}

struct span split_known_pattern(const char *name)
{
	size_t i;

	for (i = 0; i < KNOWN; i++)
		if (strcmp(known[i].family.name, name) == 0)
			return span_str(known[i].pattern);
	return (struct span){ NULL, 0 };
}
