/* Lent buffers: one spare is kept, the larger; nothing is lost, nothing is kept twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/loop/bytes.h"

static void lent_and_returned(void **state)
{
	struct bytes spare = { 0 }, a = { 0 }, b = { 0 };
	uint8_t *p;

	assert_true(bytes_borrow(&a, &spare, 100));
	assert_int_equal(a.cap, 100);
	assert_int_equal(a.n, 0);
	p = a.p;
	a.n = 7;
	assert_true(bytes_borrow(&a, &spare, 100));	/* has one: stays as it is */
	assert_ptr_equal(a.p, p);
	assert_int_equal(a.n, 7);
	bytes_return(&a, &spare);
	assert_null(a.p);
	assert_ptr_equal(spare.p, p);
	assert_true(bytes_borrow(&b, &spare, 50));	/* the spare one, empty */
	assert_ptr_equal(b.p, p);
	assert_int_equal(b.n, 0);
	assert_null(spare.p);
	bytes_return(&b, &spare);
	bytes_return(&b, &spare);			/* nothing to give back: no harm */
	assert_ptr_equal(spare.p, p);
	bytes_fini(&spare);
}

static void larger_is_kept(void **state)
{
	struct bytes spare = { 0 }, a = { 0 }, b = { 0 };

	assert_true(bytes_borrow(&a, &spare, 100));
	assert_true(bytes_borrow(&b, &spare, 100));
	memcpy(b.p, "start", 5);
	b.n = 5;
	assert_true(bytes_grow(&b, 5000));
	assert_int_equal(b.n, 5);
	assert_memory_equal(b.p, "start", 5);
	bytes_return(&a, &spare);
	assert_int_equal(spare.cap, 100);
	bytes_return(&b, &spare);
	assert_int_equal(spare.cap, 5000);
	assert_true(bytes_borrow(&a, &spare, 100));
	assert_true(bytes_borrow(&b, &spare, 100));
	bytes_return(&a, &spare);
	bytes_return(&b, &spare);
	assert_int_equal(spare.cap, 5000);
	bytes_fini(&spare);
	bytes_fini(&spare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lent_and_returned),
		cmocka_unit_test(larger_is_kept),
	};

	return cmocka_run_group_tests_name("loop/bytes", tests, NULL, NULL);
}
