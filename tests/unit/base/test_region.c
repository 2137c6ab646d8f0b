/* test_region.c - a region is whole pages, resident if the caller wants it, and unmapped if the
 * kernel refuses to make it resident. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* The errno that madvise() returns to region.c; -1: call the kernel. */
static int populate_says = -1, advice_says = -1, populated, given;
static int a_madvise(void *p, size_t n, int advice);
static int a_munmap(void *p, size_t n);

#define madvise	a_madvise
#define munmap	a_munmap
#include "agent/base/region.c"	/* to replace its system calls */
#undef madvise
#undef munmap

static int a_madvise(void *p, size_t n, int advice)
{
	int says = advice == MADV_POPULATE_WRITE ? populate_says : advice_says;

	populated += advice == MADV_POPULATE_WRITE;
	if (says == -1)
		return madvise(p, n, advice);
	errno = says;
	return -1;
}

static int a_munmap(void *p, size_t n)
{
	given++;
	errno = 0;
	return munmap(p, n);
}

#define MB	((size_t)1 << 20)

static size_t resident(const struct region *r)
{
	static unsigned char there[4096];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = r->bytes / page, sum = 0;

	assert_true(n <= sizeof(there));
	assert_int_equal(mincore(r->base, r->bytes, there), 0);
	for (size_t i = 0; i < n; i++)
		sum += there[i] & 1;
	return sum * page;
}

static int as_the_kernel_is(void **state)
{
	populate_says = advice_says = -1;
	populated = given = 0;
	return 0;
}

static void a_region_is_whole_resident_pages(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct region r;

	assert_int_equal(region_take(&r, 5 * MB + 1, true), 0);
	assert_int_equal(r.bytes, 5 * MB + page);
	assert_int_equal((uintptr_t)r.base % page, 0);
	assert_int_equal(resident(&r), r.bytes);
	assert_int_equal(populated, 1);
	region_give(&r);
	assert_null(r.base);
	assert_int_equal(given, 1);
	region_give(&r);
	assert_int_equal(given, 1);
	assert_int_equal(region_take(&r, 5 * MB, false), 0);
	assert_int_equal(populated, 1);
	assert_true(resident(&r) < r.bytes);
	region_give(&r);
}

static void a_kernel_without_populate_gets_writes(void **state)
{
	static const int says[] = { EINVAL, EPERM, ENOSYS };
	struct region r;

	advice_says = EINVAL;	/* nor does it know MADV_HUGEPAGE and MADV_DONTDUMP */
	for (unsigned i = 0; i < 3; i++) {
		populate_says = says[i];
		assert_int_equal(region_take(&r, 5 * MB, true), 0);
		assert_int_equal(resident(&r), r.bytes);
		assert_int_equal(populated, i + 1);
		region_give(&r);
	}
}

static void a_region_that_the_kernel_refuses(void **state)
{
	static const int says[] = { ENOMEM, EFAULT, EHWPOISON };
	struct region r;

	for (unsigned i = 0; i < 3; i++) {
		populate_says = says[i];
		r.base = (uint8_t *)1;
		errno = 0;
		assert_int_equal(region_take(&r, MB, true), -1);
		assert_int_equal(errno, says[i]);
		assert_int_equal(given, i + 1);
		assert_null(r.base);
	}
	assert_int_equal(region_take(&r, 0, true), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(region_take(&r, SIZE_MAX, true), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(region_take(&r, (size_t)64 << 30, false), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(given, 3);
	assert_null(r.base);
}

/* mmap() itself fails. */
static void a_region_over_the_limit(void **state)
{
	struct rlimit was, low;
	struct region r;

	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	low = (struct rlimit){ (rlim_t)8 << 20, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	r.base = (uint8_t *)1;
	errno = 0;
	assert_int_equal(region_take(&r, (size_t)1 << 30, true), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_null(r.base);
	assert_int_equal(populated, 0);
	assert_int_equal(given, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_region_is_whole_resident_pages, as_the_kernel_is),
		cmocka_unit_test_setup(a_kernel_without_populate_gets_writes, as_the_kernel_is),
		cmocka_unit_test_setup(a_region_that_the_kernel_refuses, as_the_kernel_is),
		cmocka_unit_test_setup(a_region_over_the_limit, as_the_kernel_is),
	};

	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
