/* Compare a budget with the available memory, read from files that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/memory.h"

#define MIB	((uint64_t)1 << 20)

static char root[64];

static void put(const char *path, const char *text)
{
	char whole[512], *slash;
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (slash = strchr(whole + strlen(root) + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	f = fopen(whole, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int begin(void **state)
{
	strcpy(root, "/tmp/kvroute-memory-XXXXXX");
	return mkdtemp(root) == NULL;
}

static int one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int end(void **state)
{
	return nftw(root, one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A budget of <have> MiB is accepted, and one more is rejected with <words> as the reason. */
static void bound(uint64_t have, const char *words)
{
	struct err e = { "" };

	assert_int_equal(memory_enough_at(root, have * MIB, &e), 0);
	assert_int_equal(memory_enough_at(root, (have + 1) * MIB, &e), -1);
	if (strstr(e.text, words) == NULL || strstr(e.text, "index.max_bytes: ") != e.text)
		fail_msg("%s", e.text);
}

static void nothing_to_read(void **state)
{
	assert_int_equal(memory_enough_at(root, UINT64_MAX, NULL), 0);
}

static void the_machine(void **state)
{
	put("proc/meminfo", "MemTotal: 9999999 kB\nMemFree: 10 kB\nMemAvailable: 102400 kB\nSwapTotal: 1 "
		"kB\nSwapFree: 20480 kB\n");
	bound(120, "machine has 120 MiB");
}

static void version_2(void **state)
{
	put("proc/self/cgroup", "0::/system.slice/kvroute.service\n");
	put("sys/fs/cgroup/system.slice/kvroute.service/memory.max", "max\n");
	assert_int_equal(memory_enough_at(root, 1000000 * MIB, NULL), 0);
	put("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
	bound(1024, "/system.slice/memory.max)");
	put("sys/fs/cgroup/system.slice/kvroute.service/memory.max", "536870912\n");
	bound(512, "/system.slice/kvroute.service/memory.max)");
}

/* Its own group is the root there. */
static void version_2_in_a_container(void **state)
{
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "268435456\n");
	bound(256, "/sys/fs/cgroup/memory.max)");
}

static void version_1(void **state)
{
	put("proc/self/cgroup", "9:name=systemd:/\n8:pids:/x\n4:memory:/docker/abc\n0::/\n");
	put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "67108864\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	bound(64, "/memory/docker/abc/memory.limit_in_bytes)");
}

static void invalid_limits_are_ignored(void **state)
{
	put("proc/self/cgroup", "\n:\n::\nx\n0::\n4:memory\n4:memory:\n0::////\n");
	put("proc/meminfo", "MemAvailable:\nSwapFree: x kB\n");
	put("sys/fs/cgroup/memory.max", "no number\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "");
	assert_int_equal(memory_enough_at(root, UINT64_MAX, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_to_read, begin, end),
		cmocka_unit_test_setup_teardown(the_machine, begin, end),
		cmocka_unit_test_setup_teardown(version_2, begin, end),
		cmocka_unit_test_setup_teardown(version_2_in_a_container, begin, end),
		cmocka_unit_test_setup_teardown(version_1, begin, end),
		cmocka_unit_test_setup_teardown(invalid_limits_are_ignored, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
