/* test_drop.c - bytes that the vocabulary lacks: they vanish from pieces, and a text has the same
 * ids in steps as in one go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/drop.h"
#include "agent/tok/tok_steps.h"
#include "tests/unit/tok/small.h"

/* Only "a", "c", "ac" and "acac" are tokens; "x" and all other bytes have none. */
static struct tok *make(void)
{
	struct tok_source src = { .file = SPAN("{\"version\":\"1.0\",\"added_tokens\":[],"
		"\"normalizer\":null,"
		"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
		"\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
		"\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
		"\"unk_token\":null,\"vocab\":{\"a\":0,\"c\":1,\"ac\":2,\"acac\":3},"
		"\"merges\":[\"a c\",\"ac ac\"]}}"), .name = "drop" };
	struct err e;
	struct tok *t = tok_load(&src, &e);

	if (t == NULL)
		print_error("%s\n", e.text);
	assert_non_null(t);
	return t;
}

static void in_steps(const struct tok *t, struct span text, struct ids *out)
{
	struct tok_steps *s = tok_steps_start(t, text, PART_FIRST);
	uint64_t budget;
	int r;

	assert_non_null(s);
	do {
		budget = 50;
		r = tok_steps_run(s, &budget, false, out);
	} while (r == 1);
	assert_int_equal(r, 0);
	tok_steps_stop(s);
}

/* One run of letters is one piece: short ones, and one above BPE_LONG. */
static void same_in_steps(void **state)
{
	static const size_t times[] = { 1, 2, 100, 4000 };
	static const char *const words[] = { "axc", "xac", "xxacxx ", "x", "ax xc", "ac" };
	struct tok *t = make();
	struct tok_scratch *c = tok_scratch_new();
	struct ids want = { 0 }, got = { 0 };
	struct small_text a = { 0 };

	for (size_t k = 0; k < sizeof(words) / sizeof(words[0]) * 4; k++) {
		a.n = want.n = got.n = 0;
		for (size_t i = 0; i < times[k % 4]; i++)
			small_say(&a, words[k / 4]);
		assert_int_equal(tok_encode(t, c, span_of(a.p, a.n), 0, &want), 0);
		in_steps(t, span_of(a.p, a.n), &got);
		assert_int_equal(got.n, want.n);
		for (size_t i = 0; i < want.n; i++) {
			assert_true(want.p[i] <= 3);
			assert_int_equal(got.p[i], want.p[i]);
		}
		if (k / 4 == 0)			/* "acac..." */
			assert_int_equal(want.n, (times[k % 4] + 1) / 2);
		if (k / 4 == 3)
			assert_int_equal(want.n, 0);
	}
	free(a.p);
	ids_free(&want);
	ids_free(&got);
	tok_scratch_free(c);
	tok_unref(t);
}

/* Pieces keep their order; those without a byte are gone; text without such bytes is not copied. */
static void pieces_that_vanish(void **state)
{
	uint8_t dropped[32] = { ['x' / 8] = 1u << 'x' % 8 };
	const uint8_t text[] = "axxxbcx", *p = text;
	uint32_t end[] = { 2, 4, 5, 7 };
	struct buf kept = { 0 };
	size_t n = 4;

	assert_int_equal(drop_bytes(dropped, &kept, &p, end, &n), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(p, "abc", 3);
	assert_int_equal(end[0], 1);
	assert_int_equal(end[1], 2);
	assert_int_equal(end[2], 3);
	p = text + 4;
	n = 1;
	end[0] = 2;
	assert_int_equal(drop_bytes(dropped, &kept, &p, end, &n), 0);
	assert_ptr_equal(p, text + 4);
	assert_int_equal(end[0], 2);
	buf_free(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(same_in_steps),
		cmocka_unit_test(pieces_that_vanish) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
