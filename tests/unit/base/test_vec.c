/* Growing arrays: elements of several sizes, room, sizes that overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/vec.h"

struct large {
	uint64_t word[13];
};

static void elements_keep_their_values(void **state)
{
	VEC(uint8_t) bytes = { 0 };
	VEC(struct large) larges = { 0 };

	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(vec_push(&bytes, (uint8_t)i), 0);
		assert_int_equal(vec_push(&larges, (struct large){ .word = { i, [12] = ~i } }), 0);
		assert_true(bytes.n == i + 1 && bytes.cap >= bytes.n && larges.n == i + 1);
	}
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(bytes.p[i], (uint8_t)i);
		assert_true(larges.p[i].word[0] == i && larges.p[i].word[12] == ~i && larges.p[i].word[5] == 0);
	}
	vec_free(&bytes);
	vec_free(&larges);
	assert_true(bytes.p == NULL && bytes.n == 0 && bytes.cap == 0);
	vec_free(&bytes);
}

static void room_is_made_once(void **state)
{
	VEC(int) v = { 0 };
	size_t none = 0;
	int *p;

	assert_int_equal(vec_reserve(&v, none), 0);
	assert_null(v.p);
	assert_int_equal(vec_reserve(&v, 1000), 0);
	assert_int_equal(v.cap, 1000);
	p = v.p;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(vec_push(&v, i), 0);
	assert_ptr_equal(v.p, p);
	assert_int_equal(vec_reserve(&v, 1), 0);
	assert_int_equal(v.cap, 1500);
	assert_int_equal(v.p[999], 999);
	vec_free(&v);
}

/* The number of elements, or of their bytes, does not fit into a size_t. */
static void sizes_that_overflow(void **state)
{
	VEC(struct large) v = { 0 };

	assert_int_equal(vec_push(&v, (struct large){ .word = { 7 } }), 0);
	assert_int_equal(vec_reserve(&v, SIZE_MAX), -1);
	assert_int_equal(vec_reserve(&v, SIZE_MAX / 4 - 1), -1);
	assert_int_equal(vec_reserve(&v, SIZE_MAX / sizeof(*v.p)), -1);
	assert_true(v.n == 1 && v.p[0].word[0] == 7);
	vec_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_keep_their_values), cmocka_unit_test(room_is_made_once),
		cmocka_unit_test(sizes_that_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
