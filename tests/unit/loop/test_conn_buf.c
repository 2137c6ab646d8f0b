/* Borrowed buffers: the larger one is kept as the spare, and the budget counts each buffer once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/loop/conn_buf_in.h"

static struct budget roomy(void)
{
	return (struct budget){ .max = 1 << 20 };
}

static void lent_and_returned(void **state)
{
	struct conn_buf spare = { 0 }, a = { 0 }, b = { 0 };
	struct budget all = roomy();
	uint8_t *p;

	assert_true(conn_buf_borrow(&a, &spare, 100, &all));
	assert_int_equal(a.cap, 100);
	assert_int_equal(a.n, 0);
	p = a.p;
	conn_buf_wrote(&a, 7);
	assert_true(conn_buf_borrow(&a, &spare, 100, &all));	/* has a buffer: unchanged */
	assert_ptr_equal(a.p, p);
	assert_int_equal(a.n, 7);
	conn_buf_return(&a, &spare, &all);
	assert_null(a.p);
	assert_ptr_equal(spare.p, p);
	assert_true(conn_buf_borrow(&b, &spare, 50, &all));	/* the spare one, empty */
	assert_ptr_equal(b.p, p);
	assert_int_equal(b.n, 0);
	assert_null(spare.p);
	assert_int_equal(all.used, 100);
	conn_buf_return(&b, &spare, &all);
	conn_buf_return(&b, &spare, &all);			/* no buffer: no effect */
	assert_ptr_equal(spare.p, p);
	conn_buf_fini(&spare, &all);
	assert_int_equal(all.used, 0);
}

static void larger_is_kept(void **state)
{
	struct conn_buf spare = { 0 }, a = { 0 }, b = { 0 };
	struct budget all = roomy();

	assert_true(conn_buf_borrow(&a, &spare, 100, &all));
	assert_true(conn_buf_borrow(&b, &spare, 100, &all));
	memcpy(b.p, "start", 5);
	conn_buf_wrote(&b, 5);
	assert_true(conn_buf_exchange(&b, 5000, BUDGET_LARGE, &all));
	assert_int_equal(all.used, 5100);
	assert_int_equal(b.n, 5);
	assert_memory_equal(b.p, "start", 5);
	conn_buf_return(&a, &spare, &all);
	assert_int_equal(spare.cap, 100);
	conn_buf_return(&b, &spare, &all);
	assert_int_equal(spare.cap, 5000);
	assert_int_equal(all.used, 5000);
	assert_true(conn_buf_borrow(&a, &spare, 100, &all));
	assert_true(conn_buf_borrow(&b, &spare, 100, &all));
	conn_buf_return(&a, &spare, &all);
	conn_buf_return(&b, &spare, &all);
	assert_int_equal(spare.cap, 5000);
	conn_buf_fini(&spare, &all);
	conn_buf_fini(&spare, &all);
	assert_int_equal(all.used, 0);
}

static const uint8_t zero[300];

/* Give <a> 300 bytes, 200 of them written, of which the last 50 wait. */
static void half_used(struct conn_buf *a, struct conn_buf *spare, struct budget *all)
{
	assert_true(conn_buf_borrow(a, spare, 300, all));
	memset(a->p, 0, 300);
	memset(a->p, 'x', 150);
	memset(a->p + 150, 'y', 50);
	conn_buf_wrote(a, 200);
	conn_buf_drop(a, 150);
	assert_int_equal(a->n, 50);
	assert_int_equal(*conn_buf_bytes(a), 'y');
}

static void spare_is_wiped(void **state)
{
	struct conn_buf spare = { 0 }, a = { 0 }, b = { 0 };
	struct budget all = roomy();

	half_used(&a, &spare, &all);
	conn_buf_return(&a, &spare, &all);
	assert_true(conn_buf_borrow(&b, &spare, 300, &all));
	assert_int_equal(b.n, 0);
	assert_ptr_equal(conn_buf_bytes(&b), b.p);
	conn_buf_wrote(&b, 10);		/* below the highest byte written before, which stays */
	conn_buf_return(&b, &spare, &all);
	conn_buf_wipe(&spare);
	assert_memory_equal(spare.p, zero, 300);
	conn_buf_fini(&spare, &all);
}

static void dropped_and_packed(void **state)
{
	struct conn_buf spare = { 0 }, a = { 0 };
	struct budget all = roomy();
	uint8_t *p;

	half_used(&a, &spare, &all);
	p = a.p;
	assert_ptr_equal(conn_buf_bytes(&a), p + 150);
	conn_buf_drop(&a, 0);
	assert_int_equal(a.n, 50);
	conn_buf_wrote(&a, 100);		/* up to its end */
	assert_int_equal(a.top, 300);
	conn_buf_pack(&a);
	assert_ptr_equal(conn_buf_bytes(&a), p);
	assert_int_equal(a.n, 150);
	assert_int_equal(*p, 'y');
	conn_buf_drop(&a, 150);			/* an empty one begins at its start */
	assert_ptr_equal(conn_buf_bytes(&a), p);
	conn_buf_wipe(&a);
	assert_memory_equal(p, zero, 300);
	conn_buf_fini(&a, &all);
}

/* Bytes from <from> to <to> of <b> are zero. */
static void assert_wiped(const struct conn_buf *b, size_t from, size_t to)
{
	assert_memory_equal(b->p + from, zero, to - from);
}

static void only_the_rest_is_kept(void **state)
{
	struct conn_buf spare = { 0 }, a = { 0 }, b = { 0 };
	struct budget all = roomy();

	half_used(&a, &spare, &all);
	assert_wiped(&a, 0, 150);		/* dropped, and others stay */
	assert_int_equal(a.p[150], 'y');
	conn_buf_return(&a, &spare, &all);
	assert_true(conn_buf_borrow(&b, &spare, 300, &all));
	memset(b.p, 'z', 5);
	conn_buf_wrote(&b, 5);
	conn_buf_wipe_rest(&b);			/* bytes of <a> were after it */
	assert_memory_equal(b.p, "zzzzz", 5);
	assert_wiped(&b, 5, 300);
	assert_int_equal(b.top, 5);
	conn_buf_wipe_rest(&b);
	assert_int_equal(b.n, 5);
	conn_buf_fini(&b, &all);
}

/* The last bytes that wait go to another buffer, whose old bytes are wiped. */
static void rest_copied(void **state)
{
	struct conn_buf spare = { 0 }, none = { 0 }, a = { 0 }, b = { 0 };
	struct budget all = roomy();

	(void)state;
	half_used(&a, &spare, &all);
	assert_true(conn_buf_borrow(&b, &none, 60, &all));
	memset(b.p, 'z', 60);
	conn_buf_wrote(&b, 60);
	conn_buf_return(&b, &spare, &all);
	assert_true(conn_buf_borrow(&b, &spare, 60, &all));
	conn_buf_copy_rest(&b, &a, 20);
	assert_int_equal(b.n, 20);
	assert_int_equal(conn_buf_bytes(&b)[0], 'y');
	assert_int_equal(conn_buf_bytes(&b)[19], 'y');
	assert_wiped(&b, 20, 60);
	assert_int_equal(a.n, 50);		/* as before */
	conn_buf_fini(&a, &all);
	conn_buf_fini(&b, &all);
	assert_int_equal(all.used, 0);
}

static void budget_holds(void **state)
{
	struct budget all = { .max = 1000 };
	struct conn_buf none = { 0 }, a = { 0 }, b = { 0 };

	assert_true(conn_buf_borrow(&a, &none, 500, &all));
	assert_false(conn_buf_borrow(&b, &none, 501, &all));
	assert_null(b.p);
	assert_true(conn_buf_borrow(&b, &none, 100, &all));
	memcpy(b.p, "kept", 4);
	conn_buf_wrote(&b, 4);
	assert_false(conn_buf_exchange(&b, 151, BUDGET_LARGE, &all));	/* above three quarters */
	assert_memory_equal(b.p, "kept", 4);
	assert_int_equal(b.n, 4);
	assert_int_equal(all.used, 600);
	assert_true(conn_buf_exchange(&b, 150, BUDGET_LARGE, &all));
	assert_int_equal(all.used, 650);
	assert_int_equal(all.refused_first, 1);
	assert_int_equal(all.refused_large, 1);
	budget_set(&all, 100);			/* buffers above it stay */
	assert_false(budget_take(&all, BUDGET_FIRST, 1));
	conn_buf_fini(&a, &all);
	conn_buf_fini(&b, &all);
	assert_int_equal(all.used, 0);
	assert_true(budget_take(&all, BUDGET_FIRST, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lent_and_returned),
		cmocka_unit_test(larger_is_kept),
		cmocka_unit_test(spare_is_wiped),
		cmocka_unit_test(dropped_and_packed),
		cmocka_unit_test(only_the_rest_is_kept),
		cmocka_unit_test(rest_copied),
		cmocka_unit_test(budget_holds),
	};

	return cmocka_run_group_tests_name("loop conn_buf", tests, NULL, NULL);
}
