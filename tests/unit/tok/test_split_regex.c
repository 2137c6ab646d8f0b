/* test_split_regex.c - chains of steps on PCRE2: hand-written scanners against the same pattern,
 * refused patterns and their place, character sets, limits of work. Expected pieces are those of
 * tokenizers 0.22.2. */
#include "agent/base/rng.h"
#include "agent/tok/split/split_cost_in.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/cases.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define ISOLATED(re)	{ .kind = STEP_REGEX, .pattern = SPAN(re), .behaviour = SPLIT_ISOLATED }

static struct split *split_of(const struct split_step *step, size_t n)
{
	struct err e;
	struct split *s = split_new(step, n, &e);

	if (s == NULL)
		fail_msg("%s", e.text);
	return s;
}

/* ---- hand-written scanners against PCRE2 ----------------------------------------------------- */

static const char *const alphabet[] = {
	"a", "b", "Z", "Q", "s", "t", "r", "e", "l", "S", "E", "'", "'s", "'LL", "'\xc5\xbf", " ", "  ",
	"\t", "\n", "\r\n", "\r", "\xe3\x80\x80",
	"\xc2\xa0", "0", "7", "12345", "\xc2\xb2", "\xd9\xa3", "\xe3\x80\x87", "!", ".", "/", "(", "_",
	"-", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
	"\xf0\x9f\xa9\xb7", "\xc3\xa9", "\xc3\x9f", "\xc3\x89", "\xc7\x85", "\xca\xb0", "\xe6\xbc\xa2",
	"\xe5\xad\x97", "\xe3\x81\x8b",
	"\xe3\x82\xab", "\xe3\x83\xbb", "\xe3\x80\x85", "\xe2\xba\x80", "\xcc\x81", "\xe3\x82\x99",
	"\xe0\xa4\xbe", "\x01", "\x1f", "\x7f",
	"\xe2\x80\x8b", "\xef\xbb\xbf", "\xe1\xa0\x8e", "\xcd\xb8", "\xee\x80\x80", "\xe3\x81\x80",
	"\xf0\xb1\x8d\x90", "word", " The", "HELLO",
};

static size_t random_text(struct rng *rng, uint8_t *out, size_t most)
{
	size_t n = 0, parts = 1 + rng_below(rng, 40), base = rng_below(rng, COUNT(alphabet)),
	       width = 1 + rng_below(rng, COUNT(alphabet));

	for (; parts > 0; parts--) {
		const char *s = alphabet[(base + rng_below(rng, (uint32_t)width)) % COUNT(alphabet)];

		if (n + strlen(s) > most)
			break;
		memcpy(out + n, s, strlen(s));
		n += strlen(s);
	}
	return n;
}

#define CJK		"[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"
#define DEEPSEEK	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}" \
	"\\p{S}]?[\\p{L}\\p{M}]+|" \
			" ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static void check_family(const char *family, unsigned texts)
{
	static const struct split_step deepseek[] = {
		ISOLATED("\\p{N}{1,3}"), ISOLATED(CJK), ISOLATED(DEEPSEEK),
	};
	static const struct split_step wrapped[] = {
		ISOLATED("\\p{N}{1,3}"), ISOLATED(CJK), ISOLATED("(?:" DEEPSEEK ")"),
	};
	static struct case_text a, b;
	static char again[2048];
	static uint8_t text[CASE_MOST];
	struct split_step one = { .kind = STEP_REGEX,
		.pattern = split_known_pattern(family),
		.behaviour = SPLIT_ISOLATED };
	struct split_scratch *c = split_scratch_new();
	struct split *hand, *pcre;
	struct rng rng;
	size_t n;

	hand = one.pattern.p ? split_of(&one, 1) : split_of(deepseek, 3);
	one.pattern = span_of(again,
	    (size_t)snprintf(again, sizeof(again), "(?:%s)", one.pattern.p ? one.pattern.p : ""));
	pcre = split_known_pattern(family).p ? split_of(&one, 1) : split_of(wrapped, 3);
	assert_string_equal(split_traits(hand).name, family);
	assert_true(split_traits(hand).streams && !split_traits(pcre).streams);
	for (rng_init(&rng, 3); texts > 0; texts--) {
		n = random_text(&rng, text, 300);
		case_split(hand, c, text, n, &a);
		case_split(pcre, c, text, n, &b);
		if (!case_same(&a, &b)) {
			case_print("hand  ", &a);
			case_print("pcre2 ", &b);
			fail_msg("family %s: PCRE2 gives other pieces", family);
		}
	}
	split_free(hand);
	split_free(pcre);
	split_scratch_free(c);
}

static void hand_written_scanners_match_pcre2(void **state)
{
	static const char *const families[] = { "cl100k", "qwen2", "qwen3.5", "cl100k-digits",
		"o200k", "tekken", "kimi", "gpt2", "deepseek" };
	size_t i;

	for (i = 0; i < COUNT(families); i++)
		check_family(families[i], 300);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static void chains_match_tokenizers(void **state)
{
	static const struct {
		struct split_step step[4];
		size_t n;
		const char *text, *want;	/* pieces as in the files of tests/data/tok */
	} cases[] = {
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_REMOVED } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  b1\\xc2\\xbd22|c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_REMOVED } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|s 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x|y|z| |ok|  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_REMOVED } }, 1,
		    " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_REMOVED } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_REMOVED } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1|x" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  b1\\xc2\\xbd22|.|c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|'|s 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x|-|y|_|_|z|,| |(|ok|)|!|?|  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED } }, 1,
		    " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1|-|-|.|.|x" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_PREVIOUS } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  b1\\xc2\\xbd22.|c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_PREVIOUS } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it'|s 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-|y_|_|z,| (|ok)|!|?|  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_PREVIOUS } }, 1,
		    " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_PREVIOUS } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_PREVIOUS } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1-|-|.|.|x" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_NEXT } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  b1\\xc2\\xbd22|.c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_NEXT } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|'s 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x|-y|_|_z|, |(ok|)|!|?  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_NEXT } }, 1,
		    " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_NEXT } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_MERGED_WITH_NEXT } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1|-|-|.|.x" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  b1\\xc2\\xbd22|.|c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|'|s 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x|-|y|__|z|,| |(|ok|)!?|  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS } }, 1,
		    " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1|--..|x" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_REMOVED } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a|b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_REMOVED } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's|5\\xc2\\xb3|\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|x-y__z,|(ok)!?" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_REMOVED } }, 1,
		    " Hello\\x0aworld ", "Hello\\x0aworld" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_REMOVED } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81\\xe2\\x96\\x81b" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_REMOVED } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_ISOLATED } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a| | |b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_ISOLATED } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's| |5\\xc2\\xb3| |\\xe0\\xa7\\xbd\\xe2\\x80\\x8d| |x-y__z,| |(ok)!?| | " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_ISOLATED } }, 1,
		    " Hello\\x0aworld ", " |Hello\\x0aworld| " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_ISOLATED } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a| |\\xe2\\x96\\x81\\xe2\\x96\\x81b| " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_ISOLATED } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_PREVIOUS } },
		    1, "a  b1\\xc2\\xbd22.c", "a | |b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_PREVIOUS } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's |5\\xc2\\xb3 |\\xe0\\xa7\\xbd\\xe2\\x80\\x8d |x-y__z, |(ok)!? | " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_PREVIOUS } },
		    1, " Hello\\x0aworld ", " |Hello\\x0aworld " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_PREVIOUS } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a |\\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_PREVIOUS } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_NEXT } },
		    1, "a  b1\\xc2\\xbd22.c", "a| | b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_NEXT } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's| 5\\xc2\\xb3| \\xe0\\xa7\\xbd\\xe2\\x80\\x8d| x-y__z,| (ok)!?| | " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_NEXT } },
		    1, " Hello\\x0aworld ", " Hello\\x0aworld| " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_NEXT } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a| \\xe2\\x96\\x81\\xe2\\x96\\x81b| " },
		{ { { .kind = STEP_STRING,
		      .pattern = SPAN(" "),
		      .behaviour = SPLIT_MERGED_WITH_NEXT } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_CONTIGUOUS } },
		    1, "a  b1\\xc2\\xbd22.c", "a|  |b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_CONTIGUOUS } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's| |5\\xc2\\xb3| |\\xe0\\xa7\\xbd\\xe2\\x80\\x8d| |x-y__z,| |(ok)!?|  " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_CONTIGUOUS } },
		    1, " Hello\\x0aworld ", " |Hello\\x0aworld| " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_CONTIGUOUS } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a| |\\xe2\\x96\\x81\\xe2\\x96\\x81b| " },
		{ { { .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_CONTIGUOUS } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_DIGITS, .individual = true } }, 1, "a  b1\\xc2\\xbd22.c",
		    "a  b|1|\\xc2\\xbd|2|2|.c" },
		{ { { .kind = STEP_DIGITS, .individual = true } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's |5|\\xc2\\xb3| \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  " },
		{ { { .kind = STEP_DIGITS, .individual = true } }, 1, " Hello\\x0aworld ",
		    " Hello\\x0aworld " },
		{ { { .kind = STEP_DIGITS, .individual = true } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_DIGITS, .individual = true } }, 1, "\\xd9\\xa0\\xd9\\xa1--..x",
		    "\\xd9\\xa0|\\xd9\\xa1|--..x" },
		{ { { .kind = STEP_DIGITS } }, 1, "a  b1\\xc2\\xbd22.c", "a  b|1\\xc2\\xbd22|.c" },
		{ { { .kind = STEP_DIGITS } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)"
		    "!?  ",
		    "it's |5\\xc2\\xb3| \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  " },
		{ { { .kind = STEP_DIGITS } }, 1, " Hello\\x0aworld ", " Hello\\x0aworld " },
		{ { { .kind = STEP_DIGITS } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_DIGITS } }, 1, "\\xd9\\xa0\\xd9\\xa1--..x",
		    "\\xd9\\xa0\\xd9\\xa1|--..x" },
		{ { { .kind = STEP_WHITESPACE } }, 1, "a  b1\\xc2\\xbd22.c",
		    "a|b1|\\xc2\\xbd|22|.|c" },
		{ { { .kind = STEP_WHITESPACE } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, "
		    "(ok)!?  ",
		    "it|'|s|5|\\xc2\\xb3|\\xe0\\xa7\\xbd|\\xe2\\x80\\x8d|x|-|y__z|,|(|ok|)!?" },
		{ { { .kind = STEP_WHITESPACE } }, 1, " Hello\\x0aworld ", "Hello|world" },
		{ { { .kind = STEP_WHITESPACE } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81|a|\\xe2\\x96\\x81\\xe2\\x96\\x81|b" },
		{ { { .kind = STEP_WHITESPACE } }, 1, "\\xd9\\xa0\\xd9\\xa1--..x",
		    "\\xd9\\xa0\\xd9\\xa1|--..|x" },
		{ { { .kind = STEP_WHITESPACE_SPLIT } }, 1, "a  b1\\xc2\\xbd22.c",
		    "a|b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_WHITESPACE_SPLIT } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d "
		    "x-y__z, (ok)!?  ",
		    "it's|5\\xc2\\xb3|\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|x-y__z,|(ok)!?" },
		{ { { .kind = STEP_WHITESPACE_SPLIT } }, 1, " Hello\\x0aworld ", "Hello|world" },
		{ { { .kind = STEP_WHITESPACE_SPLIT } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81\\xe2\\x96\\x81b" },
		{ { { .kind = STEP_WHITESPACE_SPLIT } }, 1, "\\xd9\\xa0\\xd9\\xa1--..x",
		    "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_CHAR_DELIMITER, .pattern = SPAN("b") } }, 1,
		    "a  b1\\xc2\\xbd22.c", "a  |1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_CHAR_DELIMITER, .pattern = SPAN("b") } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  " },
		{ { { .kind = STEP_CHAR_DELIMITER, .pattern = SPAN("b") } }, 1, " Hello\\x0aworld ",
		    " Hello\\x0aworld " },
		{ { { .kind = STEP_CHAR_DELIMITER, .pattern = SPAN("b") } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81| " },
		{ { { .kind = STEP_CHAR_DELIMITER, .pattern = SPAN("b") } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = true } },
		    1, "a  b1\\xc2\\xbd22.c", "a|\\xe2\\x96\\x81|\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = true } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's|\\xe2\\x96\\x815\\xc2\\xb3|\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|"
		    "\\xe2\\x96\\x81x-y__z,|\\xe2\\x96\\x81(ok)!?|\\xe2\\x96\\x81|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = true } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = true } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81|\\xe2\\x96\\x81b|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = true } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = false } },
		    1, "a  b1\\xc2\\xbd22.c", "a\\xe2\\x96\\x81\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = false } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it's\\xe2\\x96\\x815\\xc2\\xb3\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d"
		    "\\xe2\\x96\\x81x-y__z,\\xe2\\x96\\x81(ok)!?\\xe2\\x96\\x81\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = false } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = false } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a\\xe2\\x96\\x81\\xe2\\x96\\x81\\xe2\\x96\\x81b\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_NEVER,
		      .split = false } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = true } },
		    1, "a  b1\\xc2\\xbd22.c",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = true } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "\\xe2\\x96\\x81it's|\\xe2\\x96\\x815\\xc2\\xb3|"
		    "\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|\\xe2\\x96\\x81x-y__z,|\\xe2\\x96\\x81(ok)!?|"
		    "\\xe2\\x96\\x81|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = true } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = true } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81|\\xe2\\x96\\x81b|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = true } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xe2\\x96\\x81\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = false } },
		    1, "a  b1\\xc2\\xbd22.c",
		    "\\xe2\\x96\\x81a\\xe2\\x96\\x81\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = false } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "\\xe2\\x96\\x81it's\\xe2\\x96\\x815\\xc2\\xb3\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d"
		    "\\xe2\\x96\\x81x-y__z,\\xe2\\x96\\x81(ok)!?\\xe2\\x96\\x81\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = false } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = false } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a\\xe2\\x96\\x81\\xe2\\x96\\x81\\xe2\\x96\\x81b\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_FIRST,
		      .split = false } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xe2\\x96\\x81\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = true } },
		    1, "a  b1\\xc2\\xbd22.c",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = true } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "\\xe2\\x96\\x81it's|\\xe2\\x96\\x815\\xc2\\xb3|"
		    "\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|\\xe2\\x96\\x81x-y__z,|\\xe2\\x96\\x81(ok)!?|"
		    "\\xe2\\x96\\x81|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = true } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = true } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81|\\xe2\\x96\\x81b|\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = true } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xe2\\x96\\x81\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = false } },
		    1, "a  b1\\xc2\\xbd22.c",
		    "\\xe2\\x96\\x81a\\xe2\\x96\\x81\\xe2\\x96\\x81b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = false } },
		    1, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "\\xe2\\x96\\x81it's\\xe2\\x96\\x815\\xc2\\xb3\\xe2\\x96\\x81\\xe0\\xa7\\xbd\\xe2\\x80\\x8d"
		    "\\xe2\\x96\\x81x-y__z,\\xe2\\x96\\x81(ok)!?\\xe2\\x96\\x81\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = false } },
		    1, " Hello\\x0aworld ", "\\xe2\\x96\\x81Hello\\x0aworld\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = false } },
		    1, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a\\xe2\\x96\\x81\\xe2\\x96\\x81\\xe2\\x96\\x81b\\xe2\\x96\\x81" },
		{ { { .kind = STEP_METASPACE,
		      .pattern = SPAN("\xe2\x96\x81"),
		      .prepend = PREPEND_ALWAYS,
		      .split = false } },
		    1, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xe2\\x96\\x81\\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true } }, 1,
		    "a  b1\\xc2\\xbd22.c", " a| | b|1\\xc2\\xbd22|.|c" },
		{ { { .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    " it|'s| 5\\xc2\\xb3| \\xe0\\xa7\\xbd\\xe2\\x80\\x8d| x|-|y|__|z|,| (|ok|)!?|  " },
		{ { { .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true } }, 1,
		    " Hello\\x0aworld ", " Hello|\\x0a|world| " },
		{ { { .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    " \\xe2\\x96\\x81|a| \\xe2\\x96\\x81\\xe2\\x96\\x81|b| " },
		{ { { .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", " \\xd9\\xa0\\xd9\\xa1|--..|x" },
		{ { { .kind = STEP_BYTE_LEVEL, .add_prefix_space = true } }, 1,
		    "a  b1\\xc2\\xbd22.c", " a  b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_BYTE_LEVEL, .add_prefix_space = true } }, 1,
		    "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    " it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  " },
		{ { { .kind = STEP_BYTE_LEVEL, .add_prefix_space = true } }, 1, " Hello\\x0aworld ",
		    " Hello\\x0aworld " },
		{ { { .kind = STEP_BYTE_LEVEL, .add_prefix_space = true } }, 1,
		    "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    " \\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b " },
		{ { { .kind = STEP_BYTE_LEVEL, .add_prefix_space = true } }, 1,
		    "\\xd9\\xa0\\xd9\\xa1--..x", " \\xd9\\xa0\\xd9\\xa1--..x" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true }, { .kind = STEP_DIGITS },
		      ISOLATED("[0-9][0-9][0-9]") },
		    4, "a  b1\\xc2\\xbd22.c", "a| | b|1|\\xc2|\\xbd22|.|c" },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true }, { .kind = STEP_DIGITS },
		      ISOLATED("[0-9][0-9][0-9]") },
		    4, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|'|s| |5|\\xc2|\\xb3| \\xe0\\xa7|\\xbd|\\xe2\\x80\\x8d| x|-|y|__|z|,| |(|ok|)!?|  " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true }, { .kind = STEP_DIGITS },
		      ISOLATED("[0-9][0-9][0-9]") },
		    4, " Hello\\x0aworld ", " Hello|\\x0a|world| " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true }, { .kind = STEP_DIGITS },
		      ISOLATED("[0-9][0-9][0-9]") },
		    4, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81|a| \\xe2\\x96\\x81\\xe2\\x96\\x81|b| " },
		{ { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true }, { .kind = STEP_DIGITS },
		      ISOLATED("[0-9][0-9][0-9]") },
		    4, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0\\xd9\\xa1|--..|x" },
		{ { { .kind = STEP_DIGITS, .individual = true },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true } },
		    2, "a  b1\\xc2\\xbd22.c", "a| | b|1|\\xc2\\xbd|2|2|.|c" },
		{ { { .kind = STEP_DIGITS, .individual = true },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true } },
		    2, "it's 5\\xc2\\xb3 \\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "it|'s| |5|\\xc2\\xb3| \\xe0\\xa7\\xbd\\xe2\\x80\\x8d| x|-|y|__|z|,| (|ok|)!?|  " },
		{ { { .kind = STEP_DIGITS, .individual = true },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true } },
		    2, " Hello\\x0aworld ", " Hello|\\x0a|world| " },
		{ { { .kind = STEP_DIGITS, .individual = true },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true } },
		    2, "\\xe2\\x96\\x81a \\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81|a| \\xe2\\x96\\x81\\xe2\\x96\\x81|b| " },
		{ { { .kind = STEP_DIGITS, .individual = true },
		      { .kind = STEP_BYTE_LEVEL, .use_regex = true } },
		    2, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xd9\\xa0|\\xd9\\xa1|--..|x" },
		{ { { .kind = STEP_WHITESPACE_SPLIT },
		      { .kind = STEP_METASPACE,
			  .pattern = SPAN("\xe2\x96\x81"),
			  .prepend = PREPEND_FIRST,
			  .split = true } },
		    2, "a  b1\\xc2\\xbd22.c", "\\xe2\\x96\\x81a|b1\\xc2\\xbd22.c" },
		{ { { .kind = STEP_WHITESPACE_SPLIT },
		      { .kind = STEP_METASPACE,
			  .pattern = SPAN("\xe2\x96\x81"),
			  .prepend = PREPEND_FIRST,
			  .split = true } },
		    2,
		    "it's 5\\xc2\\xb3 "
		    "\\xe0\\xa7\\xbd\\xe2\\x80\\x8d x-y__z, (ok)!?  ",
		    "\\xe2\\x96\\x81it's|5\\xc2\\xb3|\\xe0\\xa7\\xbd\\xe2\\x80\\x8d|x-y__z,|(ok)!?" },
		{ { { .kind = STEP_WHITESPACE_SPLIT },
		      { .kind = STEP_METASPACE,
			  .pattern = SPAN("\xe2\x96\x81"),
			  .prepend = PREPEND_FIRST,
			  .split = true } },
		    2, " Hello\\x0aworld ", "Hello|world" },
		{ { { .kind = STEP_WHITESPACE_SPLIT },
		      { .kind = STEP_METASPACE,
			  .pattern = SPAN("\xe2\x96\x81"),
			  .prepend = PREPEND_FIRST,
			  .split = true } },
		    2,
		    "\\xe2\\x96\\x81a "
		    "\\xe2\\x96\\x81\\xe2\\x96\\x81b ",
		    "\\xe2\\x96\\x81a|\\xe2\\x96\\x81|\\xe2\\x96\\x81b" },
		{ { { .kind = STEP_WHITESPACE_SPLIT },
		      { .kind = STEP_METASPACE,
			  .pattern = SPAN("\xe2\x96\x81"),
			  .prepend = PREPEND_FIRST,
			  .split = true } },
		    2, "\\xd9\\xa0\\xd9\\xa1--..x", "\\xe2\\x96\\x81\\xd9\\xa0\\xd9\\xa1--..x" },
	};
	static struct case_text text, want, got;
	struct split_scratch *c = split_scratch_new();
	size_t i;

	for (i = 0; i < COUNT(cases); i++) {
		struct split *s = split_of(cases[i].step, cases[i].n);

		case_undo(cases[i].text, &text);
		case_undo(cases[i].want, &want);
		case_split(s, c, text.p, text.n, &got);
		if (!case_same(&want, &got)) {
			case_print("want ", &want);
			case_print("got  ", &got);
			fail_msg("case %zu: other pieces", i);
		}
		split_free(s);
	}
	split_scratch_free(c);
}

/* Syntax that Oniguruma reads differently from PCRE2, with the behaviour Isolated. */
static void syntax_follows_oniguruma(void **state)
{
	static const struct { const char *pattern, *text, *want; } cases[] = {
		{ "a{2}?b", "aab b", "aab| |b" },
		{ "a{1,2}+c?", "aaaac", "aaaac" },
		{ "a{,2}b", "aaab", "a|aab" },
		{ "a{2,}?", "aaaaa", "aa|aa|a" },
		{ "(?>[ab]+|(?:[^ ]{2})+b)\\P{N}", "ab1bab a1b", "ab1|bab |a1b" },
		{ "(?>\\p{Alpha}+|(?:[^ ]{2})+\\p{Han})\\P{N}",
		  "a\\xe3\\x80\\x87\\xc2\\xbd\\xc3\\xa92XbYZbcb\\xca\\xb0\\xe3\\x80\\x87b",
		  "a\\xe3\\x80\\x87\\xc2\\xbd\\xc3\\xa92XbYZbcb\\xca\\xb0\\xe3\\x80\\x87b" },
		{ "(?:a|b)++a", "abab aba", "abab aba" },
		{ "(?m:a.b)", "a\\x0ab", "a\\x0ab" },
		{ "a.b", "a\\x0ab a\\x0db", "a\\x0ab |a\\x0db" },
		{ "^.", "a\\x0ab\\x0a", "a|\\x0a|b|\\x0a" },
		{ ".$", "a\\x0ab\\x0a", "a|\\x0a|b|\\x0a" },
		{ "(?i)a|B", "A b", "A| |b" },
		{ "[]a]+", "a]]", "a]]" },
		{ "[a-b-c]+", "ab-c", "ab-c" },
		{ "(?i:fi|k|ss)", "fi \\xef\\xac\\x81 FI K \\xc3\\x9f \\xe1\\xba\\x9e sS",
		  "fi| |\\xef\\xac\\x81| |FI| |K| |\\xc3\\x9f| |\\xe1\\xba\\x9e| |sS" },
		{ "\\R", "a\\x0d\\x0ab\\x0a\\xe2\\x80\\xa8\\x0b", "a|\\x0d\\x0a|b|\\x0a|\\xe2\\x80\\xa8|\\x0b" },
		{ "[^a&&b]", "abc", "a|b|c" },
		{ "[a-z&&[^b-d]x]+", "abcx", "a|bc|x" },
		{ "[[:punct:]]+|\\p{Punct}", "a$! +", "a|$!| |+" },
		{ "\\p{^L}+", "a$!", "a|$!" },
		{ "\\w+", "a\\xc2\\xb2_ \\xc2\\xbd\\xe2\\x91\\xa2\\xe2\\x80\\x8d",
		  "a\\xc2\\xb2_| |\\xc2\\xbd|\\xe2\\x91\\xa2\\xe2\\x80\\x8d" },
		{ "[\\w]+", "a\\xc2\\xb2_ \\xc2\\xbd", "a|\\xc2\\xb2|_| \\xc2\\xbd" },
		{ "\\b.", "\\xc2\\xb2a b", "\\xc2\\xb2|a| |b" },
		{ ".\\B", "ab c", "a|b c" },
		{ "(a|b)\\1", "aabab", "aa|bab" },
		{ "\\G\\d", "12a3", "1|2|a3" },
		{ "[[a-c]x&&[b-z]]+", "abcx", "a|bcx" },
		{ "[^\\s[.,]]+", "ab c.d", "ab| |c|.|d" },
		{ "\\x41\\u3042\\x{1F600}", "A\\xe3\\x81\\x82A \\xf0\\x9f\\x98\\x80A",
		  "A\\xe3\\x81\\x82A \\xf0\\x9f\\x98\\x80A" },
		{ "\\p{sc}|\\p{Greek}|\\p{lowercase letter}", "\\xce\\xb1$bB", "\\xce\\xb1|$|b|B" },
		{ "[^\\W_]+|\\H", "a_\\xc2\\xb2 g", "a|_|\\xc2\\xb2| |g" },
		{ "(?<=a|bc)d", "ad bcd d", "a|d| bc|d| d" },
		{ "", "ab", "a|b" },
		{ "\\z|\\Ab|b\\Z", "b b\\x0a", "b| |b|\\x0a" },
		{ "[\\w-]+", "a-b c", "a-b| |c" },
		{ "(?#x)a(?i:B)c", "aBc abc aBC", "aBc| |abc| aBC" },
	};
	static struct case_text text, want, got;
	struct split_scratch *c = split_scratch_new();
	size_t i;

	for (i = 0; i < COUNT(cases); i++) {
		struct split_step step = { .kind = STEP_REGEX,
			.pattern = span_str(cases[i].pattern),
			.behaviour = SPLIT_ISOLATED };
		struct split *s = split_of(&step, 1);

		case_undo(cases[i].text, &text);
		case_undo(cases[i].want, &want);
		case_split(s, c, text.p, text.n, &got);
		if (!case_same(&want, &got)) {
			case_print("want ", &want);
			case_print("got  ", &got);
			fail_msg("%s: other pieces", cases[i].pattern);
		}
		split_free(s);
	}
	split_scratch_free(c);
}

static void metaspace_prepends_to_the_first_segment_only(void **state)
{
	struct split_step m = {
		.kind = STEP_METASPACE, .pattern = SPAN("\xe2\x96\x81"), .prepend = PREPEND_FIRST
	};
	struct split *s = split_of(&m, 1);
	struct split_scratch *c = split_scratch_new();
	static struct pieces out;

	assert_true(split_traits(s).first_differs && split_traits(s).rewrites && !split_traits(s).streams);
	assert_int_equal(split_next(s, c, (const uint8_t *)"a b", 3, true, true, &out), 0);
	assert_true(out.n == 1 && out.used == 3 &&
	    memcmp(out.text,
		"\xe2\x96\x81"
		"a\xe2\x96\x81"
		"b",
		8) == 0 &&
	    out.end[0] == 8);
	assert_int_equal(split_next(s, c, (const uint8_t *)"a b", 3, false, true, &out), 0);
	assert_true(out.n == 1 && out.used == 3 &&
	    memcmp(out.text,
		"a\xe2\x96\x81"
		"b",
		5) == 0 &&
	    out.end[0] == 5);
	split_free(s);
	split_scratch_free(c);
}

/* More pieces than one batch holds come in several calls, and split_scratch_forget() drops the rest
 * of a text that was not finished. */
static void pieces_come_in_batches(void **state)
{
	static const struct split_step steps[] = { { .kind = STEP_DIGITS, .individual = true },
		{ .kind = STEP_WHITESPACE_SPLIT } };
	static uint8_t text[3000];
	static struct pieces out;
	struct split_scratch *c = split_scratch_new();
	size_t n, k, calls = 0, pieces = 0;

	memset(text, '5', sizeof(text));
	for (k = 1; k <= 2; k++) {		/* one step works in place, two rewrite the text */
		struct split *s = split_of(steps, k);
		const uint8_t *p = text;

		for (n = sizeof(text); n > 0; n -= out.used, p += out.used, calls++) {
			assert_int_equal(split_next(s, c, p, n, p == text, true, &out), 0);
			assert_true(out.n > 0);
			pieces += out.n;
		}
		assert_int_equal(calls, k * 6);
		assert_int_equal(pieces, k * 3000);
		assert_int_equal(split_next(s, c, text, 2000, true, true, &out), 0);
		split_scratch_forget(c);
		assert_int_equal(split_next(s, c, text + out.used, 2000 - out.used, true, true, &out), 0);
		assert_int_equal(out.n, SPLIT_BATCH);
		split_scratch_forget(c);
		split_free(s);
	}
	split_scratch_free(c);
}

/* ---- refused patterns and steps -------------------------------------------------------------- */

static void unsupported_patterns_are_refused(void **state)
{
	static const struct { const char *pattern, *why; } cases[] = {
		{ "a|*b", "byte 3: nothing to repeat" }, { "^*", "byte 2: nothing to repeat" },
		{ "(?=a)+", "byte 6: nothing to repeat" },
		{ "x(?i)a|b", "byte 2: options in the middle" }, { "(?x)a b", "byte 1: this kind of group" },
		{ "(?~ab)", "byte 1: this kind" },
		{ "(?s:.)", "this kind of group" }, { "\\X", "byte 1: this letter after a backslash" },
		{ "ab\\K", "byte 3: this letter" },
		{ "\\k<n>", "this letter" }, { "\\p{Emoji}", "byte 1: this property" },
		{ "\\pL", "a property stands in braces" },
		{ "[a-\\d]", "a range that ends in a class" }, { "[z-a]", "from its end" },
		{ "[]", "a class without an end" },
		{ "[a&&]", "a class of nothing" }, { "[&&a]", "nothing in front of &&" },
		{ "[[:emoji:]]", "this name" },
		{ "(a", "byte 1: a group without an end" }, { "a)", "byte 2: a parenthesis that closes nothing" },
		{ "a{100000}", "numbers" },
		{ "a{3,2}", "numbers of a repetition" }, { "\\8", "a reference to a group" },
		{ "(a)\\12", "above 9" },
		{ "(?<n>a)(b)\\1", "names of groups" }, { "\\xe3", "byte 3: \\x of a byte" },
		{ "\\u12", "four hexadecimal digits" },
		{ "\\x{110000}", "no such character" }, { "\\x{d800}", "no such character" },
		{ "(?i:\xc3\xa9)", "byte 5: (?i) on this character" },
		{ "(?i:ffi)", "three letters" }, { "(?i:s(?:s))", "a group between them" },
		{ "(?i:[\xc3\xa0-\xc3\xbf])", "(?i) on these" },
		{ "(?i:\\p{Lu})", "property of case" }, { "a+?*", "lazy" }, { "(?<=a+)b", "PCRE2" },
		{ "\\", "nothing after" },
		{ "(?#x", "a comment without an end" }, { "a(*FAIL)", "byte 2: this kind of group" },
	};
	struct split_step steps[2] = { { .kind = STEP_DIGITS },
		{ .kind = STEP_REGEX, .behaviour = SPLIT_ISOLATED } };
	struct err e;
	size_t i;

	for (i = 0; i < COUNT(cases); i++) {
		steps[1].pattern = span_str(cases[i].pattern);
		assert_null(split_new(steps, 2, &e));
		if (strstr(e.text, "step 2 of the pre-tokenizer, Split: the pattern is not understood") == NULL ||
		    (strcmp(cases[i].why, "PCRE2") != 0 && strstr(e.text, cases[i].why) == NULL))
			fail_msg("%s: %s", cases[i].pattern, e.text);
	}
}

static void invalid_steps_are_refused(void **state)
{
	struct split_step steps[2] = { { .kind = STEP_BYTE_LEVEL }, { .pattern = SPAN("_") } };
	struct split_step step = { .kind = STEP_METASPACE, .pattern = SPAN("ab") };
	struct err e;

	assert_null(split_new(&step, 1, &e));
	assert_string_equal(e.text, "step 1 of the pre-tokenizer, Metaspace: \"ab\" is not one character");
	steps[1].kind = STEP_METASPACE;
	assert_null(split_new(steps, 2, &e));
	assert_string_equal(e.text, "step 2 of the pre-tokenizer, Metaspace: after ByteLevel");
	steps[1].kind = STEP_BYTE_LEVEL;
	assert_null(split_new((struct split_step[]){ steps[0], steps[1], steps[1] }, 3, &e));
	assert_string_equal(e.text, "step 2 of the pre-tokenizer, ByteLevel: a second one in a row of "
		"steps");
	step.kind = (enum split_kind)77;
	assert_null(split_new(&step, 1, &e));
	step.kind = STEP_PUNCTUATION;
	step.behaviour = (enum split_behaviour)9;
	assert_null(split_new(&step, 1, &e));
	assert_string_equal(e.text, "step 1 of the pre-tokenizer, Punctuation: this behaviour is not "
		"known");
	assert_null(split_new(&step, 100000, &e));
}

/* The depth of groups and classes is bounded. */
static void deep_patterns(void **state)
{
	static char deep[2000];
	struct split_step step = { .kind = STEP_REGEX, .behaviour = SPLIT_ISOLATED };
	struct err e;
	size_t i, k;

	for (k = 0; k < 2; k++)
		for (i = 1; i < 1000; i += 17) {
			memset(deep, k ? '[' : '(', i);
			deep[i] = 'a';
			memset(deep + i + 1, k ? ']' : ')', i);
			step.pattern = span_of(deep, 2 * i + 1);
			if (i > 50)
				assert_null(split_new(&step, 1, &e));
			else
				split_free(split_of(&step, 1));
		}
}

/* A match that exceeds the limit of steps is an error, not a wrong answer. */
static void the_limit_of_steps(void **state)
{
	struct split_step step = {
		.kind = STEP_REGEX, .pattern = SPAN("(?:a|aa)+[bc]"), .behaviour = SPLIT_ISOLATED
	};
	struct split *s = split_of(&step, 1);
	struct split_scratch *c = split_scratch_new();
	static struct pieces out;
	uint8_t text[60];

	memset(text, 'a', sizeof(text));
	assert_int_equal(split_next(s, c, text, sizeof(text), true, true, &out), -1);
	assert_int_equal(split_next(s, c, (const uint8_t *)"aab", 3, true, true, &out), 0);
	assert_int_equal(out.n, 1);
	split_free(s);
	split_scratch_free(c);
}

/* A group may be repeated more often than the stack of the JIT can hold. */
static void long_repetitions(void **state)
{
	struct split_step step = { .kind = STEP_REGEX,
		.pattern = SPAN("(?:\\p{L}\\p{M}*)+"),
		.behaviour = SPLIT_ISOLATED };
	struct split *s = split_of(&step, 1);
	struct split_scratch *c = split_scratch_new();
	static uint8_t text[400000];
	static struct pieces out;

	memset(text, 'a', sizeof(text));
	assert_int_equal(split_next(s, c, text, sizeof(text), true, true, &out), 0);
	assert_int_equal(out.n, 1);
	split_free(s);
	split_scratch_free(c);
}

/* ---- work ------------------------------------------------------------------------------------ */

static uint64_t steps_of(const char *pattern, const uint8_t *text, size_t n, uint64_t budget,
    int *rc)
{
	struct split_step step = {
		.kind = STEP_REGEX, .pattern = span_str(pattern), .behaviour = SPLIT_ISOLATED
	};
	struct split *s = split_of(&step, 1);
	struct split_scratch *c = split_scratch_new();
	struct work_left w = { .left = budget };
	static struct pieces out;

	split_scratch_work(c, &w);
	*rc = split_next(s, c, text, n, PART_FIRST, true, &out);
	split_free(s);
	split_scratch_free(c);
	return budget - w.left;
}

/* A repeat of one character that fails at the end of a run, tried from each place of the run, is
 * counted here, because PCRE2 and its JIT do not count it. */
static void a_failing_repeat_is_counted(void **state)
{
	static const char *const patterns[] = {
		"(?: )+$", " +$", "\\s+$", " *[xy]", "(?: *)[xy]", "(?:\\s|x)+[yz]", "[^a]+[bc]", " {1,3000}$",
		" ++$", "(?> +)$", " +?$",
	};
	static uint8_t text[2001];
	uint64_t steps, half;
	size_t i;
	int rc;

	memset(text, ' ', sizeof(text));
	text[1000] = text[2000] = '.';
	for (i = 0; i < COUNT(patterns); i++) {
		half = steps_of(patterns[i], text, 1001, 100000000, &rc);
		assert_int_equal(rc, 0);
		steps = steps_of(patterns[i], text + 1001, 1000, 100000000, &rc);
		text[1000] = ' ';
		steps = steps_of(patterns[i], text, sizeof(text), 100000000, &rc);
		text[1000] = '.';
		/* half the square of a run of 2000 bytes; eight bytes are one step */
		if (rc != 0 || steps < 2000 * 2000 / 2 / 8 || steps < 3 * half)
			fail_msg("%s: result %d, %llu steps, %llu for half of the text", patterns[i], rc,
			    (unsigned long long)steps, (unsigned long long)half);
	}
}

static void work_stops_a_match(void **state)
{
	static const char *const patterns[] = { "(?: )+$", "\\s+$", "(?: |  |   )+[xy]", "(?> +)$" };
	static uint8_t text[65536];
	uint64_t steps;
	size_t i;
	int rc;

	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '.';
	for (i = 0; i < COUNT(patterns); i++) {
		steps = steps_of(patterns[i], text, sizeof(text), 50000, &rc);
		assert_int_equal(rc, -1);
		assert_int_equal(steps, 50000);
	}
}

/* A splitter of one pattern returns pieces as it finds them. The pieces before the work runs out
 * are those of the whole text. */
static void pieces_before_the_limit_are_kept(void **state)
{
	struct split_step step = {
		.kind = STEP_REGEX, .pattern = SPAN("\\p{L}+(?!x)|."), .behaviour = SPLIT_ISOLATED
	};
	static const size_t lengths[] = { 4, 1, 5, 1 };
	static uint8_t text[30000];
	static struct pieces out;
	struct split *s = split_of(&step, 1);
	struct split_scratch *c = split_scratch_new();
	struct work_left w = { .left = 20000 };
	size_t at = 0, pieces = 0, i;
	int rc;

	for (i = 0; i < sizeof(text); i++)
		text[i] = "some words "[i % 11];
	split_scratch_work(c, &w);
	while ((rc = split_next(s, c, text + at, sizeof(text) - at, PART_SEGMENT, true, &out)) ==
		0 &&
	    at < sizeof(text)) {
		for (i = 0; i < out.n; i++, pieces++)
			assert_int_equal(out.end[i] - (i > 0 ? out.end[i - 1] : 0), lengths[pieces % 4]);
		at += out.used;
	}
	assert_int_equal(rc, -1);
	assert_true(work_spent(&w) && pieces > 500 && at < sizeof(text));
	split_free(s);
	split_scratch_free(c);
}

static void cheap_patterns_are_recognized(void **state)
{
	static const struct { const char *pattern; bool counted; uint32_t least; } cases[] = {
		{ "a", false, 0 }, { "\\p{N}{1,3}", false, 1 }, { "[0-9][0-9][0-9]", false, 0 },
		{ "[^\\x{20}a]+", false, 1 },
		{ " ?[\\p{P}\\p{S}]+[\\r\\n]*", false, 1 }, { "(?i:'s|'t)|a+", false, 1 },
		{ "a+|b+|c*", false, 1 }, { "(?:a|b)?c+", false, 1 },
		{ "a++b*+", false, 1 }, { "a+?", false, 1 }, { "[[:alpha:]]+", false, 1 },
		{ "[a\\]]+", false, 1 }, { "a{16}", false, 16 },
		{ "a+b", true, 1 }, { "\\s+(?!\\S)", true, 1 }, { "a*(?m:$)", true, 0 }, { "(?:a)+", true, 1 },
		{ "(?:a+)?", true, 1 },
		{ "a+\\z", true, 1 }, { "(a)\\g{1}", true, 1 }, { "a{17}b{1,17}", true, 17 },
		{ "a{1,17}b", true, 1 }, { "a{1,16}b{1,16}", true, 1 },
		{ "a|b+c|d", true, 1 }, { "(?=a+)b", true, 1 }, { "a{3,}", false, 3 }, { "a{3,}b", true, 3 },
		{ "(?:a{2}){3}", true, 3 },
		{ "a+b?", false, 1 }, { "a+b?c", true, 1 }, { "a{", true, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct regex_cost k = regex_cost_of(span_str(cases[i].pattern));

		if (k.counted != cases[i].counted || k.least != cases[i].least)
			fail_msg("%s: counted %d, least %u", cases[i].pattern, k.counted, k.least);
	}
}

/* A text whose end is the end of a page has the pieces that it has elsewhere. Matches are searched
 * by one character, by either of two, with an offset, by a pair; one try fails at the last
 * character. */
static void texts_at_the_end_of_a_page(void **state)
{
	static const char *const pattern[] = { "[\\r\\n]", "x", "x(?=y)", "xy", "..x", "[a-m]..[xy]",
		"[a-m]{11}x", "[^x]x|[^\\n]\\n" };
	static const char end[] = "xy\nab x\r\ncdefabcdefghix\xc3\xa9x\n\n";
	static uint8_t text[2 * CASE_MOST];
	static struct case_text near, far;
	struct split_scratch *c = split_scratch_new();

	for (size_t i = 0; i < COUNT(pattern); i++) {
		struct split_step step = { .kind = STEP_REGEX,
			.pattern = span_of(pattern[i], strlen(pattern[i])),
			.behaviour = SPLIT_ISOLATED };
		struct split *s = split_of(&step, 1);

		for (size_t n = 1; n < sizeof(end); n++) {
			uint8_t *p = edge_copy(end, n);

			memcpy(text, end, n);
			case_split(s, c, p, n, &near);
			case_split(s, c, text, n, &far);
			edge_free(p, n);
			assert_true(case_same(&near, &far));
		}
		split_free(s);
	}
	split_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hand_written_scanners_match_pcre2),
		cmocka_unit_test(chains_match_tokenizers),
		cmocka_unit_test(syntax_follows_oniguruma),
		cmocka_unit_test(texts_at_the_end_of_a_page),
		cmocka_unit_test(metaspace_prepends_to_the_first_segment_only),
		cmocka_unit_test(pieces_come_in_batches),
		cmocka_unit_test(unsupported_patterns_are_refused),
		cmocka_unit_test(invalid_steps_are_refused),
		cmocka_unit_test(deep_patterns),
		cmocka_unit_test(the_limit_of_steps),
		cmocka_unit_test(long_repetitions),
		cmocka_unit_test(a_failing_repeat_is_counted),
		cmocka_unit_test(work_stops_a_match),
		cmocka_unit_test(pieces_before_the_limit_are_kept),
		cmocka_unit_test(cheap_patterns_are_recognized),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
