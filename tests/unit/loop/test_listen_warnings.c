/* test_listen_warnings.c - addresses that cause a warning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "agent/loop/listen_warnings.h"

struct told {
	int n;
	char last[LISTEN_WARNING_MAX];
};

static void tell(void *arg, const char *sentence)
{
	struct told *t = arg;

	t->n++;
	snprintf(t->last, sizeof(t->last), "%s", sentence);
}

static struct told look(const struct loop_opts *o)
{
	struct told t = { 0 };

	listen_warnings(o, tell, &t);
	return t;
}

static void defaults_are_silent(void **state)
{
	struct loop_opts o;

	loop_defaults(&o);
	assert_int_equal(look(&o).n, 0);
}

static const struct { const char *addr; bool local; } addrs[] = {
	{ "127.0.0.1:1", true }, { "127.255.0.9:1", true }, { "[::1]:1", true }, { "unix@/tmp/x", true },
	{ "[::ffff:127.0.0.1]:1", true },
	{ "0.0.0.0:1", false }, { "*:1", false }, { ":1", false }, { "10.0.0.1:1", false },
	{ "128.0.0.1:1", false }, { "[::]:1", false }, { "[fe80::1]:1", false }, { "[::2]:1", false },
	{ "[::ffff:10.0.0.1]:1", false }, { "[7f00::1]:1", false },
};

static void each_list(void **state)
{
	static const char *const names[] = { "spop.listen has ", "log_feed.tcp has ", "log_feed.udp has ",
					     "metrics.listen has " };
	struct loop_opts o;
	struct told t;

	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		for (size_t k = 0; k < 4; k++) {
			char (*const lists[])[ADDR_MAX] = { o.spop, o.log_tcp, o.log_udp, o.metrics };

			loop_defaults(&o);
			snprintf(lists[k][k == 0 ? 1 : 0], ADDR_MAX, "%s", addrs[i].addr);
			t = look(&o);
			if (t.n != !addrs[i].local)
				fail_msg("%s%s: %d warnings", names[k], addrs[i].addr, t.n);
			if (t.n == 0)
				continue;
			assert_true(strncmp(t.last, names[k], strlen(names[k])) == 0);
			assert_non_null(strstr(t.last, addrs[i].addr));
			assert_true(k != 3 || strstr(t.last, "decisions") != NULL);	/* /decisions */
			/* a token removes the warning about the feed and no other */
			snprintf(o.feed_token_file, sizeof(o.feed_token_file), "/x");
			assert_int_equal(look(&o).n, k == 0 || k == 3);
		}
	}
}

static void full_lists(void **state)
{
	struct loop_opts o;

	loop_defaults(&o);
	for (size_t i = 0; i < LISTEN_MAX; i++)
		snprintf(o.spop[i], ADDR_MAX, "*:%zu", i + 1);
	assert_int_equal(look(&o).n, LISTEN_MAX);
}

static void modes(void **state)
{
	struct loop_opts o;

	loop_defaults(&o);
	o.socket_mode = 0666;
	assert_int_equal(look(&o).n, 1);
	assert_non_null(strstr(look(&o).last, "0666"));
	o.socket_mode = 0664;
	assert_int_equal(look(&o).n, 0);
	o.socket_mode = 0662;
	assert_int_equal(look(&o).n, 1);
	o.spop[1][0] = '\0';	/* no address */
	assert_int_equal(look(&o).n, 0);
}

static void runtime_socket(void **state)
{
	struct loop_opts o;

	loop_defaults(&o);
	o.runtime_mode = 0666;
	assert_int_equal(look(&o).n, 0);	/* no socket */
	snprintf(o.runtime_path, sizeof(o.runtime_path), "/run/x");
	assert_int_equal(look(&o).n, 1);
	assert_non_null(strstr(look(&o).last, "runtime.mode 0666"));
	o.runtime_mode = 0600;
	assert_int_equal(look(&o).n, 0);
	snprintf(o.runtime_group, sizeof(o.runtime_group), "ops");
	assert_int_equal(look(&o).n, 1);
	assert_non_null(strstr(look(&o).last, "runtime.group ops"));
	o.runtime_mode = 0660;
	assert_int_equal(look(&o).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_silent),
		cmocka_unit_test(each_list),
		cmocka_unit_test(full_lists),
		cmocka_unit_test(modes),
		cmocka_unit_test(runtime_socket),
	};

	return cmocka_run_group_tests_name("loop listen_warnings", tests, NULL, NULL);
}
