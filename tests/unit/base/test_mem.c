/* test_mem.c - memory at cache lines and large pages, and tables of entries at lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/lines.h"

#define HUGE_PAGE	((size_t)2 << 20)

/* AddressSanitizer asks for this. Without it, it ends a program that asks for too much. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static bool is_zeroed(const uint8_t *p, size_t n)
{
	while (n > 0 && p[n - 1] == 0)
		n--;
	return n == 0;
}

static void lines_and_large_pages(void **state)
{
	static const struct { size_t n, align; } row[] = {
		{ 0, MEM_LINE }, { 1, MEM_LINE }, { 63, MEM_LINE }, { 4096, MEM_LINE },
		{ HUGE_PAGE - 1, MEM_LINE }, { HUGE_PAGE, HUGE_PAGE }, { 3 * HUGE_PAGE, HUGE_PAGE },
	};
	uint8_t *line, *huge;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		line = mem_alloc_line(row[i].n);
		huge = mem_alloc_huge(row[i].n);
		assert_non_null(line);
		assert_non_null(huge);
		assert_int_equal((uintptr_t)line % MEM_LINE, 0);
		assert_int_equal((uintptr_t)huge % row[i].align, 0);
		assert_true(is_zeroed(line, row[i].n) && is_zeroed(huge, row[i].n));
		memset(line, 1, row[i].n);
		memset(huge, 1, row[i].n);
		mem_free_line(line);
		mem_free_line(huge);
	}
	mem_free_line(NULL);
}

static void too_much_is_refused(void **state)
{
	volatile size_t most = SIZE_MAX;	/* the compiler must not see it */

	for (size_t less = 0; less < 200; less += 20) {
		assert_null(mem_alloc_line(most - less));
		assert_null(mem_alloc_huge(most - less));
	}
}

static void tables_fit_their_bytes(void **state)
{
	static const struct { size_t bytes, each, n; } row[] = {
		{ 0, 64, 1 }, { 64, 64, 1 }, { 127, 64, 1 }, { 128, 64, 2 }, { 1000, 64, 8 },
		{ 1024, 64, 16 }, { 1024, 192, 4 }, { 191, 192, 1 },
	};
	struct lines t;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_true(lines_alloc(&t, row[i].bytes, row[i].each));
		assert_int_equal(t.mask + 1, row[i].n);
		assert_int_equal((uintptr_t)t.at % MEM_LINE, 0);
		assert_true(is_zeroed(t.at, row[i].n * row[i].each));
		memset(t.at, 1, row[i].n * row[i].each);
		lines_free(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_and_large_pages),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(tables_fit_their_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
