/* test_split.c - the hand-written scanners give the pieces of tokenizers 0.22.2: for texts of every
 * kind, whole, cut in two at every place, and byte by byte. Texts end at an unreadable page. */
#include "tests/unit/edge.h"
#include "tests/unit/tok/cases.h"

#define FAMILIES	"tests/data/tok/split_families.txt"
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const char *const deepseek[] = {
	"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
	("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]"
	  "+| ?[\\p{P}\\p{S}]+[\r\n]*|"
	 "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
};

static struct split_step regex(struct span pattern)
{
	return (struct split_step){ .kind = STEP_REGEX, .pattern = pattern, .behaviour = SPLIT_ISOLATED };
}

static struct split *split_of(const char *family)
{
	struct split_step step[4] = { { 0 } };
	struct split *s;
	size_t i, n = 1;

	step[0] = regex(split_known_pattern(family));
	if (strcmp(family, "deepseek") == 0)
		for (n = 0; n < 3; n++)
			step[n] = regex(span_str(deepseek[n]));
	for (i = 0; i < n; i++)
		assert_non_null(step[i].pattern.p);
	step[n++].kind = STEP_BYTE_LEVEL;
	s = split_new(step, n, NULL);
	assert_non_null(s);
	assert_string_equal(split_traits(s).name, family);
	assert_true(split_traits(s).streams && !split_traits(s).rewrites &&
	    !split_traits(s).first_differs);
	return s;
}

/* Split the text in two parts at <cut>, or <by> bytes at a time. Every piece must be right as soon
 * as it comes out, before the rest of the text is given. */
static void check_stream(const struct split *s, struct split_scratch *c,
    const struct case_text *want, size_t cut, size_t by)
{
	static struct pieces b;
	size_t have = 0, at = 0, k = 0, i, from;
	bool last;

	do {
		uint8_t *p;

		have = have == 0 && cut ? cut : by ? have + by : want->n;
		if (have > want->n)
			have = want->n;
		last = have == want->n;
		p = edge_copy(want->p + at, have - at);
		for (from = 0; from < have - at || b.n > 0; from += b.used) {
			assert_int_equal(split_next(s, c, p + from, have - at - from, at + from == 0, last, &b), 0);
			for (i = 0; i < b.n; i++, k++)
				if (k >= want->n_pieces || at + from + b.end[i] != want->end[k])
					fail_msg("cut %zu by %zu: piece %zu ends at %zu", cut, by, k, at + from + b.end[i]);
			assert_int_equal(b.used, b.n ? b.end[b.n - 1] : 0);
			if (b.n == 0)
				break;
		}
		b.n = 0;
		edge_free(p, have - at);
		at += from;
	} while (!last);
	assert_int_equal(k, want->n_pieces);
}

static void check(const struct split *s, struct split_scratch *c, const char *family,
    const struct case_text *want)
{
	static struct case_text got;
	uint8_t *p = edge_copy(want->p, want->n);
	size_t i;

	case_split(s, c, p, want->n, &got);
	if (!case_same(&got, want)) {
		case_print("want ", want);
		case_print("got  ", &got);
		fail_msg("family %s: other pieces", family);
	}
	edge_free(p, want->n);
	for (i = 1; i < want->n; i++)
		check_stream(s, c, want, i, 0);
	check_stream(s, c, want, 0, 1);
}

static void families_match_tokenizers(void **state)
{
	FILE *f = case_open(FAMILIES);
	static char line[CASE_MOST], family[32];
	static struct case_text want;
	struct split_scratch *c = split_scratch_new();
	struct split *s = NULL;
	const char *rest;
	size_t n = 0;

	while (case_line(f, line, sizeof(line)) != NULL) {
		if (case_is(line, "family", &rest)) {
			split_free(s);
			snprintf(family, sizeof(family), "%s", rest);
			s = split_of(family);
			continue;
		}
		assert_int_equal(line[0], '=');
		case_undo(line + 1, &want);
		check(s, c, family, &want);
		n++;
	}
	assert_true(n > 700);
	split_free(s);
	split_scratch_free(c);
	fclose(f);
}

/* Long runs exceed the 16 bytes of a step and the 512 pieces of a batch. */
static void long_runs(void **state)
{
	static const struct { const char *part, *family; size_t times, pieces; } cases[] = {
		{ "a", "cl100k", 3000, 1 }, { " a", "cl100k", 3000, 3000 }, { "7", "cl100k", 3001, 1001 },
		{ "7", "qwen2", 3000, 3000 },
		{ " ", "cl100k", 3000, 1 }, { "\n", "o200k", 3000, 1 }, { "aB", "o200k", 2000, 2001 },
		{ "AAAAAAAAAAAAAAAAA", "o200k", 100, 1 },
		{ "漢", "kimi", 2000, 1 }, { "漢a", "kimi", 1000, 2000 }, { "漢a", "deepseek", 1000, 2000 },
		{ "\x01", "deepseek", 2000, 1 },
		{ "'s", "gpt2", 2000, 2000 }, { "!", "gpt2", 2000, 1 }, { "é", "cl100k", 2000, 1 },
		{ "aé", "o200k", 2000, 1 },
	};
	static struct case_text got;
	static uint8_t text[CASE_MOST];
	struct split_scratch *c = split_scratch_new();
	size_t i, k, n;

	for (i = 0; i < COUNT(cases); i++) {
		struct split *s = split_of(cases[i].family);

		n = strlen(cases[i].part);
		assert_true(n * cases[i].times <= sizeof(text));
		for (k = 0; k < cases[i].times; k++)
			memcpy(text + k * n, cases[i].part, n);
		case_split(s, c, text, n * cases[i].times, &got);
		if (got.n_pieces != cases[i].pieces)
			fail_msg("%s of \"%s\": %zu pieces", cases[i].family, cases[i].part, got.n_pieces);
		check_stream(s, c, &got, 0, 501);
		split_free(s);
	}
	split_scratch_free(c);
}

static void names_and_patterns(void **state)
{
	struct split_step byte = { .kind = STEP_BYTE_LEVEL, .use_regex = true };
	struct split *s = split_new(&byte, 1, NULL);

	assert_string_equal(split_traits(s).name, "gpt2");
	split_free(s);
	s = split_new(NULL, 0, NULL);
	assert_string_equal(split_traits(s).name, "whole");
	assert_false(split_traits(s).streams);
	split_free(s);
	assert_null(split_known_pattern("no such family").p);
}

static void without_steps_a_text_is_one_piece(void **state)
{
	struct split *s = split_new(NULL, 0, NULL);
	struct split_scratch *c = split_scratch_new();
	static struct pieces b;

	assert_int_equal(split_next(s, c, (const uint8_t *)"a b", 3, true, false, &b), 0);
	assert_true(b.n == 0 && b.used == 0);
	assert_int_equal(split_next(s, c, (const uint8_t *)"a b", 3, true, true, &b), 0);
	assert_true(b.n == 1 && b.end[0] == 3 && b.used == 3);
	assert_int_equal(split_next(s, c, NULL, 0, true, true, &b), 0);
	assert_true(b.n == 0 && b.used == 0);
	split_free(s);
	split_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(families_match_tokenizers),
		cmocka_unit_test(long_runs),
		cmocka_unit_test(names_and_patterns),
		cmocka_unit_test(without_steps_a_text_is_one_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
