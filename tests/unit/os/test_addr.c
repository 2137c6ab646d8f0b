/* Valid and invalid addresses; existing unix socket files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/addr.h"

struct parse_case {
	const char *text;
	int family;		/* 0: refused */
	const char *printed;
};

static const struct parse_case parse_cases[] = {
	{ "127.0.0.1:9400", AF_INET, "127.0.0.1:9400" },
	{ "0.0.0.0:0", AF_INET, "0.0.0.0:0" },
	{ "*:80", AF_INET, "0.0.0.0:80" },
	{ ":80", AF_INET, "0.0.0.0:80" },
	{ "1.2.3.4:65535", AF_INET, "1.2.3.4:65535" },
	{ "[::1]:9400", AF_INET6, "[::1]:9400" },
	{ "[2001:db8::7]:1", AF_INET6, "[2001:db8::7]:1" },
	{ "unix@/run/x.sock", AF_UNIX, "unix" },
	{ "", 0, NULL },
	{ "9400", 0, NULL },
	{ "127.0.0.1", 0, NULL },
	{ "127.0.0.1:", 0, NULL },
	{ "127.0.0.1:65536", 0, NULL },
	{ "127.0.0.1:99999999999999999999", 0, NULL },
	{ "127.0.0.1:-1", 0, NULL },
	{ "127.0.0.1:80x", 0, NULL },
	{ "127.0.0.1: 80", 0, NULL },
	{ "127.0.0:80", 0, NULL },
	{ "127.0.0.256:80", 0, NULL },
	{ "localhost:80", 0, NULL },
	{ "::1:9400", 0, NULL },
	{ "[::1]", 0, NULL },
	{ "[::1:80", 0, NULL },
	{ "[]:80", 0, NULL },
	{ "[127.0.0.1]:80", 0, NULL },
	{ "[1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:1111:2222]:80", 0, NULL },
	{ "unix@", 0, NULL },
	{ "unix@relative/path", 0, NULL },
};

static void parses(void **state)
{
	char printed[ADDR_MAX];
	struct addr a;
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(parse_cases) / sizeof(parse_cases[0]); i++) {
		const struct parse_case *c = &parse_cases[i];
		int rc = addr_parse(c->text, &a, &e);

		if (rc != (c->family ? 0 : -1))
			fail_msg("\"%s\" gave %d", c->text, rc);
		if (rc != 0) {
			if (strstr(e.text, c->text) == NULL)
				fail_msg("\"%s\": the sentence does not name it: %s", c->text, e.text);
			continue;
		}
		assert_int_equal(a.a.sa.sa_family, c->family);
		addr_print(&a.a, printed, sizeof(printed));
		assert_string_equal(printed, c->printed);
	}
}

/* 107 bytes and the NUL fill sun_path; one more does not fit. */
static void unix_path_length(void **state)
{
	char text[ADDR_MAX] = "unix@/";
	struct addr a;
	struct err e;

	memset(text + 6, 'a', 106);
	assert_int_equal(addr_parse(text, &a, &e), 0);
	text[6 + 106] = 'a';
	assert_int_equal(addr_parse(text, &a, &e), -1);
}

/* ---- sockets ---------------------------------------------------------------------------- */

static char dir[64], text[ADDR_MAX];
static const char *path;

static int dir_make(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-addr-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(text, sizeof(text), "unix@%s/s", dir);
	path = text + 5;
	return 0;
}

static int dir_remove(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static bool exists(void)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void mode_and_unlink(void **state)
{
	static const uint32_t modes[] = { 0660, 0600, 0777 };
	struct listener l;
	struct stat st;
	struct err e;
	size_t i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(listener_open(&l, text, SOCK_STREAM, modes[i], &e), 0);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, modes[i]);
		listener_close(&l, NULL);
		assert_false(exists());
	}
}

static void stale_is_replaced(void **state)
{
	struct listener old, l;
	struct err e;

	assert_int_equal(listener_open(&old, text, SOCK_STREAM, 0600, &e), 0);
	close(old.fd);		/* as a killed process leaves it */
	assert_true(exists());
	assert_int_equal(listener_open(&l, text, SOCK_STREAM, 0600, &e), 0);
	listener_close(&l, NULL);
}

static void living_is_an_error(void **state)
{
	struct listener first, second;
	struct err e;

	assert_int_equal(listener_open(&first, text, SOCK_STREAM, 0600, &e), 0);
	assert_int_equal(listener_open(&second, text, SOCK_STREAM, 0600, &e), -1);
	assert_non_null(strstr(e.text, "another process listens"));
	assert_int_equal(second.fd, -1);
	assert_true(exists());
	listener_close(&first, NULL);
}

#define RACERS	6

/* Listen in a child process as soon as <go> is closed. The child writes W if it got the socket, L
 * if another process answers there, else ?, and lives until <end> is closed. */
static pid_t racer(int type, const int *go, const int *said, const int *end)
{
	pid_t pid = fork();
	struct listener l;
	struct err e;
	char c;
	int rc;

	if (pid != 0)
		return pid;
	close(go[1]);
	close(end[1]);
	if (read(go[0], &c, 1) != 0)
		_exit(1);
	rc = listener_open(&l, text, type, 0600, &e);
	c = rc == 0 ? 'W' : strstr(e.text, "another process listens") != NULL ? 'L' : '?';
	_exit(write(said[1], &c, 1) != 1 || read(end[0], &c, 1) != 0);
}

/* If several processes find one stale socket at the same moment, one gets it, and the others report
 * that it is in use. */
static void racing_for_a_stale_one(void **state)
{
	int round, i, status;

	for (round = 0; round < 60; round++) {
		int type = round % 2 ? SOCK_DGRAM : SOCK_STREAM, go[2], said[2], end[2], won = 0, lost = 0;
		struct listener old;
		struct err e;
		char c;

		assert_int_equal(listener_open(&old, text, type, 0600, &e), 0);
		close(old.fd);
		assert_true(pipe(go) == 0 && pipe(said) == 0 && pipe(end) == 0);
		for (i = 0; i < RACERS; i++)
			assert_true(racer(type, go, said, end) > 0);
		close(go[0]);
		close(go[1]);
		close(said[1]);
		close(end[0]);
		for (i = 0; i < RACERS && read(said[0], &c, 1) == 1; i++) {
			won += c == 'W';
			lost += c == 'L';
		}
		close(end[1]);
		close(said[0]);
		while (waitpid(-1, &status, 0) > 0)
			assert_int_equal(status, 0);
		assert_int_equal(won, 1);
		assert_int_equal(lost, RACERS - 1);
	}
}

static void datagram_sockets_too(void **state)
{
	struct listener first, second;
	struct err e;

	assert_int_equal(listener_open(&first, text, SOCK_DGRAM, 0600, &e), 0);
	assert_int_equal(listener_open(&second, text, SOCK_DGRAM, 0600, &e), -1);
	close(first.fd);
	assert_int_equal(listener_open(&second, text, SOCK_DGRAM, 0600, &e), 0);
	listener_close(&second, NULL);
}

static void other_files_stay(void **state)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	struct listener l;
	struct err e;

	close(fd);
	assert_int_equal(listener_open(&l, text, SOCK_STREAM, 0600, &e), -1);
	assert_non_null(strstr(e.text, "not a socket"));
	assert_true(exists());
}

/* A socket of the same name that another process made is not removed. */
static void only_our_own_is_unlinked(void **state)
{
	struct listener first, second;
	struct err e;

	assert_int_equal(listener_open(&first, text, SOCK_STREAM, 0600, &e), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(listener_open(&second, text, SOCK_STREAM, 0600, &e), 0);
	listener_close(&first, NULL);
	assert_true(exists());
	listener_close(&second, NULL);
	assert_false(exists());
}

static void missing_directory(void **state)
{
	struct listener l;
	struct err e;

	assert_int_equal(listener_open(&l, "unix@/nonexistent-kvroute/s", SOCK_STREAM, 0600, &e), 1);
	assert_int_equal(l.fd, -1);
}

/* The text says what a second agent on the host has to set. */
static void port_taken(void **state)
{
	struct listener first, second;
	struct err e;

	assert_int_equal(listener_open(&first, "127.0.0.1:0", SOCK_STREAM, 0, &e), 0);
	assert_string_not_equal(first.text, "127.0.0.1:0");
	assert_int_equal(listener_open(&second, first.text, SOCK_STREAM, 0, &e), -1);
	assert_non_null(strstr(e.text, first.text));
	assert_non_null(strstr(e.text, "Address already in use"));
	assert_non_null(strstr(e.text, "spop.listen, log_feed.tcp and metrics.listen"));
	listener_close(&first, NULL);
	assert_int_equal(listener_open(&first, "127.0.0.1:0", SOCK_DGRAM, 0, &e), 0);
	assert_int_equal(listener_open(&second, first.text, SOCK_DGRAM, 0, &e), -1);
	assert_non_null(strstr(e.text, first.text));
	assert_non_null(strstr(e.text, "log_feed: {udp: []}"));
	listener_close(&first, NULL);
	/* another failure has another remedy */
	assert_int_equal(listener_open(&second, "192.0.2.1:9", SOCK_STREAM, 0, &e), -1);
	assert_null(strstr(e.text, "second agent"));
}

static void test_loopback(void **state)
{
	static const struct {
		const char *text;
		bool is;
	} cases[] = {
		{ "127.0.0.1:1", true }, { "127.8.9.1:1", true }, { "[::1]:1", true }, { "unix@/x", true },
		{ "[::ffff:127.0.0.1]:1", true }, { "0.0.0.0:1", false }, { "10.0.0.1:1", false },
		{ "[::]:1", false }, { "[::ffff:10.0.0.1]:1", false }, { "[2001:db8::1]:1", false },
	};
	union sockaddr_any none = { .sa.sa_family = AF_UNSPEC };
	struct addr a;
	struct err e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(addr_parse(cases[i].text, &a, &e), 0);
		assert_int_equal(sockaddr_is_loopback(&a.a), cases[i].is);
		assert_int_equal(addr_is_loopback(cases[i].text), cases[i].is);
	}
	assert_false(sockaddr_is_loopback(&none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(parses),
		cmocka_unit_test(unix_path_length),
		cmocka_unit_test_setup_teardown(mode_and_unlink, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(stale_is_replaced, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(living_is_an_error, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(racing_for_a_stale_one, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(datagram_sockets_too, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(other_files_stay, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(only_our_own_is_unlinked, dir_make, dir_remove),
		cmocka_unit_test(missing_directory),
		cmocka_unit_test(port_taken),
	};

	return cmocka_run_group_tests_name("os addr", tests, NULL, NULL);
}
