/* Growing texts: bounds, failures that last until the next text, memory that is kept, and wiping.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/buf.h"

static void text_of_any_length(void **state)
{
	static const size_t pieces[] = { 0, 1, 7, 1000, 16, 1025, 100000, 3 };
	struct buf b = { 0 };
	char want[110000];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		memset(want + n, 'a' + (int)i, pieces[i]);
		buf_add(&b, want + n, pieces[i]);
		n += pieces[i];
		assert_int_equal(b.n, n);
		assert_true(b.cap >= n && b.top == n);
	}
	assert_memory_equal(b.p, want, n);
	buf_str(&b, "end");
	buf_span(&b, SPAN("!"));
	assert_memory_equal(b.p + n, "end!", 4);
	buf_free(&b);
	assert_true(b.p == NULL && b.n == 0 && b.cap == 0);
}

static void room_that_the_caller_fills(void **state)
{
	struct buf b = { 0 };

	assert_true(buf_room(&b, 5000));
	assert_true(b.cap >= 5000 && b.n == 0);
	memcpy(b.p, "abc", 3);
	buf_wrote(&b, 3);
	assert_true(b.n == 3 && b.top == 3);
	buf_free(&b);
}

static void a_large_block_is_freed_by_a_wipe(void **state)
{
	struct buf b = { 0 };
	static char text[65536];

	memset(text, 'x', sizeof(text));
	buf_add(&b, text, 1000);
	buf_wipe(&b, 1 << 20);
	assert_int_equal(b.cap, 1024);
	for (unsigned i = 0; i < 32; i++)
		buf_add(&b, text, sizeof(text));
	assert_false(b.failed);
	buf_wipe(&b, 1 << 20);
	assert_int_equal(b.cap, 0);
	assert_int_equal(b.n, 0);
	buf_free(&b);
}

/* A longer text before this one left bytes after its end. */
static void all_that_was_written_is_wiped(void **state)
{
	struct buf b = { 0 };

	buf_str(&b, "a long secret");
	buf_start(&b, 0);
	buf_str(&b, "short");
	assert_int_equal(b.top, 13);
	buf_wipe(&b, 4096);
	for (size_t i = 0; i < 13; i++)
		assert_int_equal(b.p[i], 0);
	buf_free(&b);
}

static void a_bound(void **state)
{
	struct buf b = { 0 };

	buf_start(&b, 5);
	buf_str(&b, "12345");
	assert_false(b.failed);
	buf_str(&b, "6");
	assert_true(b.failed && b.full);
	assert_int_equal(b.n, 5);
	buf_start(&b, 0);
	buf_str(&b, "123456");
	assert_false(b.failed || b.full);
	assert_int_equal(b.n, 6);
	buf_free(&b);
}

/* After a failure, a piece that would fit is not appended: the text would lack its middle. */
static void a_failure_lasts(void **state)
{
	struct buf b = { .max = 5 };

	buf_str(&b, "123456");
	buf_str(&b, "1");
	assert_true(b.failed && b.full && b.n == 0);
	buf_start(&b, 5);
	assert_false(buf_room(&b, 6));
	assert_false(buf_room(&b, 1));
	buf_start(&b, 0);
	assert_false(buf_room(&b, SIZE_MAX));
	assert_true(b.failed && !b.full);
	buf_free(&b);
}

/* A block of an unbounded text may be larger than the bound of the next one. */
static void a_bound_below_the_room(void **state)
{
	struct buf b = { 0 };

	assert_true(buf_room(&b, 2000));
	buf_start(&b, 10);
	assert_false(buf_room(&b, 11));
	buf_start(&b, 10);
	assert_true(buf_room(&b, 10));
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_of_any_length), cmocka_unit_test(room_that_the_caller_fills),
		cmocka_unit_test(a_large_block_is_freed_by_a_wipe),
		cmocka_unit_test(all_that_was_written_is_wiped), cmocka_unit_test(a_bound),
		cmocka_unit_test(a_failure_lasts), cmocka_unit_test(a_bound_below_the_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
