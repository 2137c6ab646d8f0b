/* test_socket.c - one line to a runtime socket: what answers without end, or not at all, is given
 * up when the time for the whole has passed. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/buf.h"
#include "agent/ctl/socket.h"

#define WHOLE_MS	300
#define PAUSE_US	10000	/* between the bytes of a slow answer, much less than a read waits */

struct peer {
	char dir[32], path[64];
	pid_t pid;
};

/* Answer on <fd> with one byte at a time, until the other side is gone. */
static void answer_slowly(int fd)
{
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1)
		usleep(PAUSE_US);
}

/* Answer on <fd> what came. */
static void answer_same(int fd)
{
	char text[64];
	ssize_t n;

	while ((n = recv(fd, text, sizeof(text), 0)) > 0)
		if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
			return;
}

static void peer_start(struct peer *p, void (*answer)(int fd))
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(p->dir, "/tmp/kvroute-unit-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/socket", p->dir);
	strcpy(un.sun_path, p->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 1), 0);
	p->pid = fork();
	if (p->pid == 0) {
		int one = accept(fd, NULL, NULL);

		answer(one);
		_exit(0);
	}
	close(fd);
}

static void peer_stop(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	unlink(p->path);
	rmdir(p->dir);
}

static void keep(void *arg, const char *p, size_t n)
{
	buf_add(arg, p, n);
}

static void test_answer(void **state)
{
	struct buf got = { 0 };
	const char *why = NULL;
	struct peer p;

	(void)state;
	peer_start(&p, answer_same);
	assert_int_equal(ctl_command(p.path, "show info", SPAN("body"), keep, &got, &why), 0);
	assert_int_equal(got.n, strlen("show info\nbody"));
	assert_memory_equal(got.p, "show info\nbody", got.n);
	buf_free(&got);
	peer_stop(&p);
}

/* Each read gets a byte long before its own limit. */
static void test_answer_without_end(void **state)
{
	struct buf got = { 0 };
	const char *why = NULL;
	struct peer p;

	(void)state;
	peer_start(&p, answer_slowly);
	assert_int_equal(ctl_command_within(p.path, "show info", SPAN(""), WHOLE_MS, keep, &got, &why),
	    -1);
	assert_string_equal(why, strerror(ETIMEDOUT));
	buf_free(&got);
	peer_stop(&p);
}

static void test_nobody(void **state)
{
	const char *why = NULL;

	(void)state;
	assert_int_equal(ctl_command("/nonexistent/socket", "show info", SPAN(""), keep, NULL, &why), -1);
	assert_non_null(strstr(why, strerror(ENOENT)));
	assert_non_null(strstr(why, "runtime.path"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_answer_without_end),
		cmocka_unit_test(test_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
