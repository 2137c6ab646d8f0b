/* The opener: a file that is replaced, missing, back again; an opener that hangs, and one that is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/loop/clock.h"
#include "agent/loop/opener.h"

static char dir[64], path[96], next[96];
static struct opener o;
static pid_t child;

static void put(const char *to, const char *text)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* The only child that this program has. */
static pid_t only_child(void)
{
	char name[64];
	int pid = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/children", (int)getpid());
	if ((f = fopen(name, "re")) == NULL)
		return 0;
	if (fscanf(f, "%d", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid;
}

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-opener-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/conf", dir);
	snprintf(next, sizeof(next), "%s/conf.new", dir);
	put(path, "one");
	if (opener_start(&o, path) != 0)
		return -1;
	return (child = only_child()) > 0 ? 0 : -1;
}

static int teardown(void **state)
{
	int status;

	opener_stop(&o);
	unlink(path);
	rmdir(dir);
	return waitpid(child, &status, 0) == child ? 0 : -1;	/* it ends by itself */
}

static void expect(const char *text)
{
	char got[64];
	int fd = opener_open(&o);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, got, sizeof(got));
	assert_int_equal(n, (ssize_t)strlen(text));
	assert_memory_equal(got, text, (size_t)n);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
}

static void opens_what_is_there_now(void **state)
{
	usec start = clock_usec();
	int i;

	expect("one");
	put(path, "written over");
	expect("written over");
	put(next, "replaced");
	assert_int_equal(rename(next, path), 0);
	expect("replaced");
	unlink(path);
	assert_int_equal(opener_open(&o), -ENOENT);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(opener_open(&o), -ENOENT);
	unlink(path);
	put(path, "back");
	start = clock_usec();
	for (i = 0; i < 100; i++)
		expect("back");
	print_message("%lld us for each open and read\n", (long long)(clock_usec() - start) / 100);
}

/* Somebody else's writer may never come, and the file that takes its place must still be opened. */
static void a_pipe_does_not_hold_it(void **state)
{
	usec start = clock_usec();
	int fd;

	expect("one");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = opener_open(&o);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	put(path, "back");
	expect("back");
	print_message("%lld ms\n", (long long)(clock_usec() - start) / 1000);
}

static void signals_do_not_end_it(void **state)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	size_t i;

	expect("one");		/* it ignores them by now */
	for (i = 0; i < 3; i++)
		assert_int_equal(kill(child, signals[i]), 0);
	expect("one");
}

static void hanging_is_given_up(void **state)
{
	struct pollfd late = { .fd = o.fd, .events = POLLIN };
	usec start = clock_usec();

	expect("one");
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(opener_open(&o), -ETIMEDOUT);
	print_message("given up after %lld ms\n", (long long)(clock_usec() - start) / 1000);
	assert_true(clock_usec() - start < 20 * 1000000ll);
	put(path, "two");
	assert_int_equal(kill(child, SIGCONT), 0);
	assert_int_equal(poll(&late, 1, 20000), 1);
	put(next, "three");
	assert_int_equal(rename(next, path), 0);
	expect("three");	/* and not the late answer, which is "two" */
}

static void gone_is_told(void **state)
{
	expect("one");
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(opener_open(&o), -ESRCH);
	assert_int_equal(opener_open(&o), -ESRCH);
	opener_stop(&o);
	assert_int_equal(opener_open(&o), -ESRCH);
}

/* Beside the three that everybody has. */
static int fds_of_child(void)
{
	char name[64];
	struct stat st;
	int i, n = 0;

	for (i = 3; i < 64; i++) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)child, i);
		n += lstat(name, &st) == 0;
	}
	return n;
}

static void holds_nothing_else(void **state)
{
	int tries;

	expect("one");
	for (tries = 0; tries < 1000 && fds_of_child() != 1; tries++)
		usleep(5000);	/* it may not have closed what it sent yet */
	assert_int_equal(fds_of_child(), 1);
}

int main(void)
{
#define T(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(opens_what_is_there_now), T(a_pipe_does_not_hold_it), T(signals_do_not_end_it),
		T(hanging_is_given_up), T(gone_is_told), T(holds_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
