/* test_notify.c - messages to a service manager: path and abstract socket, watchdog, bad values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/os/notify.h"

static char dir[64], path[128];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-notify-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/socket", dir);
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void set(const char *socket_path, const char *limit, const char *pid)
{
	setenv("NOTIFY_SOCKET", socket_path, 1);
	setenv("WATCHDOG_USEC", limit != NULL ? limit : "", 1);
	if (limit == NULL)
		unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (pid != NULL)
		setenv("WATCHDOG_PID", pid, 1);
}

/* A manager's socket at <name>, which begins with @ if it is abstract. */
static int manager(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	size_t n = strlen(name);

	assert_true(fd >= 0);
	memcpy(a.sun_path, name, n);
	if (name[0] == '@')
		a.sun_path[0] = '\0';
	else
		unlink(name);
	assert_int_equal(bind(fd, (struct sockaddr *)&a,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)), 0);
	return fd;
}

static void assert_text(int fd, const char *want)
{
	char got[256];
	ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, want);
}

static void sends(void **state)
{
	char abstract[64];
	const char *name[] = { path, abstract };
	struct notify n;

	snprintf(abstract, sizeof(abstract), "@kvroute-notify-%ld", (long)getpid());
	for (unsigned i = 0; i < 2; i++) {
		int fd = manager(name[i]);

		set(name[i], NULL, NULL);
		assert_int_equal(notify_open(&n), 0);
		assert_null(getenv("NOTIFY_SOCKET"));
		assert_int_equal(n.watchdog_ms, 0);
		assert_true(notify_send(&n, "READY=1\nSTATUS=x"));
		assert_true(notify_try(&n, "WATCHDOG=1"));
		assert_text(fd, "READY=1\nSTATUS=x");
		assert_text(fd, "WATCHDOG=1");
		notify_close(&n);
		assert_int_equal(n.fd, -1);
		close(fd);
	}
}

static void no_manager(void **state)
{
	struct notify n;

	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify_open(&n), 0);
	assert_int_equal(n.fd, -1);
	assert_true(notify_send(&n, "READY=1"));
	notify_close(&n);
}

static void bad_sockets(void **state)
{
	char long_path[160] = "";
	const char *const bad[] = { "", "/", "@", "relative", "/nowhere/at/all", long_path };
	struct notify n;

	memset(long_path, '/', sizeof(long_path) - 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set(bad[i], "1000000", NULL);
		errno = 0;
		assert_int_equal(notify_open(&n), -1);
		assert_int_not_equal(errno, 0);
		assert_int_equal(n.fd, -1);
		assert_int_equal(n.watchdog_ms, 0);
	}
}

static void watchdog(void **state)
{
	char self[32], other[32];
	struct notify n;
	int fd = manager(path);
	struct {
		const char *limit, *pid;
		msec want;
	} c[] = {
		{ "10000000", NULL, 10000 }, { "10000000", self, 10000 }, { "10000000", other, 0 },
		{ "10s", NULL, 0 }, { "", NULL, 0 }, { "99999999999999999999", NULL, 0 }, { "999", NULL, 0 },
	};

	snprintf(self, sizeof(self), "%ld", (long)getpid());
	snprintf(other, sizeof(other), "%ld", (long)getpid() + 1);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		set(path, c[i].limit, c[i].pid);
		assert_int_equal(notify_open(&n), 0);
		assert_int_equal(n.watchdog_ms, c[i].want);
		notify_close(&n);
	}
	close(fd);
}

/* A manager that does not read must not stop the thread that tries. */
static void full(void **state)
{
	struct notify n;
	int fd = manager(path), i;

	set(path, NULL, NULL);
	assert_int_equal(notify_open(&n), 0);
	for (i = 0; i < 100000 && notify_try(&n, "WATCHDOG=1"); i++)
		;
	assert_true(i > 0 && i < 100000);
	assert_false(notify_send(&n, "READY=1"));	/* returns after a second */
	assert_text(fd, "WATCHDOG=1");
	assert_true(notify_try(&n, "WATCHDOG=1"));
	notify_close(&n);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends), cmocka_unit_test(no_manager), cmocka_unit_test(bad_sockets),
		cmocka_unit_test(watchdog), cmocka_unit_test(full),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
