/* Each block that a growing text or array frees is all zeros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "tests/unit/wiped.h"

static void text(void **state)
{
	struct buf b = { 0 };

	wiped = (struct wiped){ 0 };
	for (unsigned k = 0; k < 1000; k++)
		buf_str(&b, "prompt text");
	assert_true(wiped.freed > 3);
	buf_start(&b, 0);
	buf_str(&b, "shorter");
	buf_wipe(&b, 16);
	assert_null(b.p);
	buf_str(&b, "another");
	buf_free(&b);
	assert_int_equal(wiped.dirty, 0);
	assert_true(wiped.freed > 5);
}

/* Elements after the last one were in use before. */
static void array(void **state)
{
	VEC(uint32_t) v = { 0 };

	wiped = (struct wiped){ 0 };
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(vec_push(&v, 0x5ec0de), 0);
	v.n = 3;
	assert_int_equal(vec_reserve(&v, 1000), 0);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(vec_push(&v, 0x5ec0de), 0);
	v.n = 0;
	vec_free(&v);
	assert_int_equal(wiped.dirty, 0);
	assert_true(wiped.freed > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(text), cmocka_unit_test(array) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
