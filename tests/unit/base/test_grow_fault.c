/* Each allocation of a growing text and of a growing array fails once, in turn: their content stays
 * as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "tests/unit/fault.h"

/* Grow a text. Returns false if memory ran out. */
static bool text_story(void)
{
	struct buf b = { 0 };
	size_t had = 0, n = 0;

	for (; n < 1000; n++) {
		buf_add(&b, "0123456789", 10);
		if (b.failed)
			break;
		had = b.n;
	}
	assert_int_equal(b.n, had);
	assert_int_equal(b.n, n * 10);
	assert_false(b.full);
	for (size_t i = 0; i < b.n; i++)
		assert_int_equal(b.p[i], '0' + (int)(i % 10));
	buf_start(&b, 0);
	buf_str(&b, "good");	/* the story continues after the failure */
	assert_false(b.failed);
	buf_free(&b);
	return n == 1000;
}

static bool array_story(void)
{
	VEC(uint32_t) v = { 0 };
	uint32_t n = 0;

	for (; n < 1000; n++) {
		if (vec_push(&v, n) < 0)
			break;
	}
	assert_int_equal(v.n, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(v.p[i], i);
	assert_int_equal(vec_push(&v, 5), 0);
	vec_free(&v);
	return n == 1000;
}

static void fail_each(bool (*story)(void))
{
	unsigned long k;
	bool good;

	for (k = 1; ; k++) {
		fault_begin(k);
		good = story();
		if (!fault_end()) {
			assert_true(good);
			break;
		}
		assert_false(good);
	}
	assert_true(k > 4);
}

static void each_allocation_of_a_text_fails(void **state)
{
	fail_each(text_story);
}

static void each_allocation_of_an_array_fails(void **state)
{
	fail_each(array_story);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation_of_a_text_fails),
		cmocka_unit_test(each_allocation_of_an_array_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
