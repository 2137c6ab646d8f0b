/* test_split_fault.c - each allocation of a splitter and of its work fails once, in turn: the call
 * returns an error, nothing leaks, and the next try gives the right pieces. */
#include "tests/unit/fault.h"
#include "tests/unit/tok/cases.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const uint8_t text[] = "it's \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa9\xb7 a1b22  c, d-e f__g "
	"\xc2\xb2 and so on";

/* Count the pieces of <text>. Returns false if memory runs out. */
static bool try_split(const struct split *s, struct split_scratch *c, size_t *pieces)
{
	static struct pieces out;
	const uint8_t *p = text;
	size_t n = sizeof(text) - 1;

	for (*pieces = 0; n > 0; p += out.used, n -= out.used) {
		if (split_next(s, c, p, n, p == text, true, &out) < 0) {
			split_scratch_forget(c);
			return false;
		}
		*pieces += out.n;
	}
	return true;
}

/* Split <text>, with a second try after each failure. Returns the number of pieces. */
static size_t story(const struct split_step *steps, size_t n)
{
	struct split_scratch *c = NULL;
	struct split *s = NULL;
	struct err e;
	size_t pieces = 0;
	int tries;

	for (tries = 0; s == NULL && tries < 2; tries++)
		if ((s = split_new(steps, n, &e)) == NULL)
			if (strstr(e.text, "no memory") == NULL)
				fail_msg("%s", e.text);
	for (tries = 0; c == NULL && tries < 2; tries++)
		c = split_scratch_new();
	assert_true(s != NULL && c != NULL);
	if (!try_split(s, c, &pieces))
		assert_true(try_split(s, c, &pieces));
	split_scratch_free(c);
	split_free(s);
	return pieces;
}

static void every_allocation_fails_once(void **state)
{
	static const struct split_step steps[] = {
		{ .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
		{ .kind = STEP_REGEX, .pattern = SPAN("(?>[\\w&&[^\\d]]+)|\\b\\p{Mn}"),
		  .behaviour = SPLIT_ISOLATED },
		{ .kind = STEP_REGEX, .pattern = SPAN("(?i:[\\p{L}[^ss]]|ss){2}+"),
		  .behaviour = SPLIT_MERGED_WITH_NEXT },
		{ .kind = STEP_STRING, .pattern = SPAN(" "), .behaviour = SPLIT_MERGED_WITH_PREVIOUS },
		{ .kind = STEP_METASPACE, .pattern = SPAN("\xe2\x96\x81"), .prepend = PREPEND_ALWAYS,
		  .split = true },
		{ .kind = STEP_WHITESPACE_SPLIT },
		{ .kind = STEP_BYTE_LEVEL, .use_regex = true, .add_prefix_space = true },
		{ .kind = STEP_DIGITS },
	};
	size_t want = story(steps, COUNT(steps)), got;
	unsigned long k;

	for (k = 1; ; k++) {
		fault_begin(k);
		got = story(steps, COUNT(steps));
		if (!fault_end())
			break;
		assert_int_equal(got, want);
	}
	assert_int_equal(got, want);
	assert_true(k > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
