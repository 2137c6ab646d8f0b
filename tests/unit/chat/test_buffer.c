/* A text that grows: what is kept of it, and what is overwritten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/chat/buffer.h"

static void a_large_one_does_not_stay(void **state)
{
	struct buffer b = { .p = NULL };
	static char text[65536];

	memset(text, 'x', sizeof(text));
	buffer_add(&b, text, 1000);
	buffer_wipe(&b);
	assert_int_equal(b.cap, 1024);
	for (unsigned i = 0; i < 32; i++)
		buffer_add(&b, text, sizeof(text));
	assert_false(b.failed);
	buffer_wipe(&b);
	assert_int_equal(b.cap, 0);
	assert_int_equal(b.n, 0);
	buffer_free(&b);
}

/* Also what a longer text before this one left behind it. */
static void all_is_wiped(void **state)
{
	struct buffer b = { .p = NULL };

	buffer_str(&b, "a long secret");
	buffer_start(&b, 0);
	buffer_str(&b, "short");
	buffer_wipe(&b);
	for (size_t i = 0; i < 13; i++)
		assert_int_equal(b.p[i], 0);
	buffer_free(&b);
}

static void a_bound(void **state)
{
	struct buffer b = { .p = NULL };

	buffer_start(&b, 5);
	buffer_str(&b, "12345");
	assert_false(b.failed);
	buffer_str(&b, "6");
	assert_true(b.failed && b.full);
	buffer_start(&b, 0);
	buffer_str(&b, "123456");
	assert_false(b.failed || b.full);
	assert_int_equal(b.n, 6);
	buffer_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_one_does_not_stay), cmocka_unit_test(all_is_wiped), cmocka_unit_test(a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
