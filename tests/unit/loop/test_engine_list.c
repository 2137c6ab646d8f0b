/* The list of engines, from the configuration and the addresses of servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/loop/engine_list.h"
#include "agent/loop/server_addresses.h"

/* ---- addresses of rows ------------------------------------------------------------------ */

static void addresses_of_rows(void **state)
{
	static const struct { const char *text, *host; unsigned port; } good[] = {
		{ "10.0.0.7:8000", "10.0.0.7", 8000 }, { "[fd00::7]:8000", "[fd00::7]", 8000 },
		{ "[::1]:1", "[::1]", 1 }, { "127.0.0.1:65535", "127.0.0.1", 65535 },
		{ "[::ffff:10.0.0.1]:8006", "[::ffff:10.0.0.1]", 8006 },
		{ "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:80",
		    "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]", 80 },
	};
	static const char *const bad[] = { "", "unix", ":", ":80", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0",
		"10.0.0.7:65536", "10.0.0.7:080000", "10.0.0.7:8a", "10.0.0.7: 80", "10.0.0:80",
		"010.0.0.7:80", "gpu1:80", "[]:80", "[fd00::7]", "fd00::7:80", "[fd00::7:80", "fd00::7]:80",
		"[10.0.0.7]:80", "0.0.0.0:80", "[::]:80", "[fe80::1%eth0]:80", "10.0.0.7:80:80", "\"",
		"[fd00::7]]:80", "<nil>", "{address}:80",
		"[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255ffff]:80" };
	char host[ENGINE_HOST_MAX];
	uint16_t port;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(engine_server_address(span_str(good[i].text), host, &port), 0);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (engine_server_address(span_str(bad[i]), host, &port) == 0)
			fail_msg("\"%s\" is taken as %s %u", bad[i], host, port);
	assert_int_equal(engine_server_address(span_of("10.0.0.7\0:80", 12), host, &port), -1);
	assert_int_equal(engine_server_address(span_of(NULL, 0), host, &port), -1);
}

static void place_holders(void **state)
{
	char out[32];

	assert_int_equal(engine_url_fill(SPAN("http://{address}:{port}/x"), "[::1]", 80, out, 32), 0);
	assert_string_equal(out, "http://[::1]:80/x");
	assert_int_equal(engine_url_fill(SPAN("{port}{port}{address"), "x", 65535, out, 32), 0);
	assert_string_equal(out, "6553565535{address");
	assert_int_equal(engine_url_fill(SPAN("12345678{address}"), "1234567", 1, out, 16), 0);
	assert_string_equal(out, "123456781234567");
	assert_int_equal(engine_url_fill(SPAN("12345678{address}"), "12345678", 1, out, 16), -1);
	assert_int_equal(engine_url_fill(SPAN(""), "x", 1, out, 1), 0);
	assert_string_equal(out, "");
}

/* ---- the list --------------------------------------------------------------------------- */

static const struct engine_opts conf[] = {
	{ "chat", "*", "http://{address}:{port}/metrics",
	    { "tcp://{address}:5557", "tcp://{address}:5558", "kv", 2 } },
	{ "chat", "gpu2", "10.9.9.9:1", { "" } },
	{ "chat", "gpu3", "", { "tcp://{address}:7000" }, "tcp://{address}:7001" },
	{ "code", "only", "127.0.0.1:8000", { "" } },
	{ "star", "*", "", { "tcp://{address}:1" } },
};

/* Only the address of its load socket is that of the server. */
static const struct engine_opts load_only = { "chat", "gpu1", "", { "tcp://10.9.9.9:1" },
	"tcp://{address}:5570" };

static const struct engine_server servers[] = {
	{ "chat", "gpu1", "10.0.0.1", 8001 }, { "chat", "gpu2", "10.0.0.2", 8002 },
	{ "chat", "gpu3", "[fd00::3]", 8003 }, { "chat", "gpu4", "[fd00::4]", 8004 },
	{ "code", "only", "10.0.0.5", 8005 }, { "code", "other", "10.0.0.6", 8006 },
	{ "none", "gpu1", "10.0.0.7", 8007 },
};

#define N(a)	(sizeof(a) / sizeof(a[0]))

static void say(char *out, size_t cap, const struct engine_opts *list, size_t n)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < n && at < cap; i++)
		at += (size_t)snprintf(out + at, cap - at, "%s/%s %s %s %s %s %u%s%s\n", list[i].pool,
		    list[i].name, list[i].metrics, list[i].events.endpoint, list[i].events.replay,
		    list[i].events.topic, list[i].events.ranks, list[i].load[0] ? " " : "",
		    list[i].load);
}

static void a_star_stands_for_the_others(void **state)
{
	struct engine_opts list[8];
	char text[2000];

	assert_int_equal(engine_list_make(conf, N(conf), servers, N(servers), list, 8), 5);
	say(text, sizeof(text), list, 5);
	assert_string_equal(text,
	    "chat/gpu2 10.9.9.9:1    0\n"
	    "code/only 127.0.0.1:8000    0\n"
	    "chat/gpu1 http://10.0.0.1:8001/metrics tcp://10.0.0.1:5557 tcp://10.0.0.1:5558 kv 2\n"
	    "chat/gpu3  tcp://[fd00::3]:7000   0 tcp://[fd00::3]:7001\n"
	    "chat/gpu4 http://[fd00::4]:8004/metrics tcp://[fd00::4]:5557 tcp://[fd00::4]:5558 kv 2\n");
}

static void without_rows_only_fixed_ones(void **state)
{
	struct engine_opts list[8];

	assert_int_equal(engine_list_make(conf, N(conf), NULL, 0, list, 8), 2);
	assert_string_equal(list[0].name, "gpu2");
	assert_string_equal(list[1].name, "only");
	assert_int_equal(engine_list_make(&load_only, 1, servers, N(servers), list, 8), 1);
	assert_string_equal(list[0].load, "tcp://10.0.0.1:5570");
	assert_int_equal(engine_list_make(NULL, 0, servers, N(servers), list, 8), 0);
	assert_int_equal(engine_list_make(NULL, 0, NULL, 0, NULL, 0), 0);
}

static void beyond_the_room_they_are_counted(void **state)
{
	struct engine_opts list[3];

	memset(list, 0x55, sizeof(list));
	assert_int_equal(engine_list_make(conf, N(conf), servers, N(servers), list, 2), 5);
	assert_string_equal(list[1].name, "only");
	assert_int_equal(list[2].pool[0], 0x55);
}

/* The configuration leaves room for the longest address; a text that has none is left out. */
static void an_address_too_long_is_left_out(void **state)
{
	static const struct engine_server far[] = {
		{ "chat", "short", "10.0.0.1", 1 }, { "chat", "fits", "[d::7]", 1 },
		{ "chat", "long", "[fd00:1111:2222:3333::7]", 1 }, { "chat", "nine", "[fd00::7]", 1 } };
	struct engine_opts e = { "chat", "*", "", { "" } }, list[8];

	memset(e.metrics, 'x', ENGINE_URL_MAX);
	memcpy(e.metrics + ENGINE_URL_MAX - 9, "{address}", 9);
	assert_int_equal(engine_list_make(&e, 1, far, N(far), list, 8), 3);
	assert_string_equal(list[0].name, "short");
	assert_string_equal(list[1].name, "fits");
	assert_string_equal(list[2].name, "nine");
	assert_int_equal(strlen(list[2].metrics), ENGINE_URL_MAX);
}

static void pools_that_need_addresses(void **state)
{
	assert_true(engine_list_needs(conf, N(conf), SPAN("chat")));
	assert_true(engine_list_needs(conf, N(conf), SPAN("star")));
	assert_false(engine_list_needs(conf, N(conf), SPAN("code")));
	assert_false(engine_list_needs(conf, N(conf), SPAN("cha")));
	assert_false(engine_list_needs(conf, N(conf), SPAN("")));
}

/* ---- what engines tell ------------------------------------------------------------------ */

static const struct {
	const char *name;
	struct engine_opts e;
	bool polled;
	struct engine_told told;
	const char *want;	/* NULL: not read */
} fills[] = {
	{ "no events", { .metrics = "10.0.0.1:8000" }, true, { .answered = true }, NULL },
	{ "all is given", { .events = { "tcp://10.0.0.1:1", "tcp://10.0.0.1:9", "t", 3 } }, false, { 0 },
	    "tcp://10.0.0.1:1 tcp://10.0.0.1:9 t 3" },
	{ "one rank", { .events = { "tcp://10.0.0.1:1" } }, false, { 0 }, "tcp://10.0.0.1:1   1" },
	{ "its metrics come first", { .events = { "tcp://10.0.0.1:1" } }, true, { 0 }, NULL },
	{ "unless the ranks are given", { .events = { "tcp://10.0.0.1:1", "", "", 2 } }, true, { 0 },
	    "tcp://10.0.0.1:1   2" },
	{ "ranks by its metrics", { .events = { "tcp://10.0.0.1:1" } }, true,
	    { .answered = true, .ranks = 4 }, "tcp://10.0.0.1:1   4" },
	{ "metrics without ranks", { .events = { "tcp://10.0.0.1:1" } }, true, { .answered = true },
	    "tcp://10.0.0.1:1   1" },
	{ "more ranks than ports", { .events = { "tcp://10.0.0.1:65530" } }, true,
	    { .answered = true, .ranks = 7 }, NULL },
	{ "as many as ports", { .events = { "tcp://10.0.0.1:65530" } }, true,
	    { .answered = true, .ranks = 6 }, "tcp://10.0.0.1:65530   6" },
	{ "more than ports of the replay", { .events = { "tcp://10.0.0.1:1", "tcp://10.0.0.1:65535" } },
	    true, { .answered = true, .ranks = 2 }, NULL },
	{ "more than ports of the load", { .events = { "tcp://10.0.0.1:1" },
	    .load = "tcp://10.0.0.1:65535" }, true, { .answered = true, .ranks = 2 }, NULL },
	{ "auto", { .metrics = "http://10.0.0.1:30000/metrics", .events = { "auto" } }, true,
	    { .answered = true, .ranks = 4, .info = { 5557, 5600, 2, 64, "kv" } },
	    "tcp://10.0.0.1:5557 tcp://10.0.0.1:5600 kv 2" },
	{ "auto and own keys",
	    { .metrics = "[fd00::1]:30000", .events = { "auto", "tcp://10.0.0.9:1", "x", 1 } }, true,
	    { .answered = true, .info = { 5557, 5600, 2, 64, "kv" } },
	    "tcp://[fd00::1]:5557 tcp://10.0.0.9:1 x 1" },
	{ "auto, ranks by its metrics", { .metrics = "10.0.0.1:3", .events = { "auto" } }, true,
	    { .answered = true, .ranks = 4, .info = { 5557, 0, 0, 0, "" } }, "tcp://10.0.0.1:5557   4" },
	{ "auto with a load socket", { .metrics = "10.0.0.1:3", .events = { "auto" } }, true,
	    { .answered = true, .info = { 5557, 0, 2, 0, "", 5559 } },
	    "tcp://10.0.0.1:5557   2 tcp://10.0.0.1:5559" },
	{ "auto and a load socket that is given",
	    { .metrics = "10.0.0.1:3", .events = { "auto" }, .load = "tcp://10.0.0.8:7" }, true,
	    { .answered = true, .info = { 5557, 0, 2, 0, "", 5559 } },
	    "tcp://10.0.0.1:5557   2 tcp://10.0.0.8:7" },
	{ "a load socket with too few ports", { .metrics = "10.0.0.1:3", .events = { "auto" } }, true,
	    { .answered = true, .info = { 5557, 0, 2, 0, "", 65535 } }, "tcp://10.0.0.1:5557   2" },
	{ "auto, and nothing is told", { .metrics = "10.0.0.1:3", .events = { "auto" } }, true,
	    { .answered = true }, NULL },
	{ "auto, and it is not polled", { .metrics = "10.0.0.1:3", .events = { "auto" } }, false, { 0 },
	    NULL },
	{ "auto at a unix socket", { .metrics = "unix@/run/a:1", .events = { "auto" } }, true,
	    { .answered = true, .info = { 5557, 0, 1, 0, "" } }, NULL },
};

static void what_engines_tell_is_filled_in(void **state)
{
	char text[600];

	for (size_t i = 0; i < N(fills); i++) {
		struct engine_opts e = fills[i].e;
		bool read = engine_events_fill(&e, fills[i].polled ? &fills[i].told : NULL);

		if (read != (fills[i].want != NULL))
			fail_msg("%s: it is %sread", fills[i].name, read ? "" : "not ");
		snprintf(text, sizeof(text), "%s %s %s %u", e.events.endpoint, e.events.replay,
		    e.events.topic, e.events.ranks);
		if (e.load[0] != '\0')
			snprintf(text + strlen(text), 250, " %s", e.load);
		if (read && strcmp(text, fills[i].want) != 0)
			fail_msg("%s: got %s", fills[i].name, text);
	}
}

/* ---- the table of addresses ------------------------------------------------------------- */

static struct server_addresses t;

static int begin(void **state)
{
	memset(&t, 0, sizeof(t));
	return 0;
}

static int finish(void **state)
{
	server_addresses_free(&t);
	return 0;
}

static bool row(unsigned socket, const char *server, const char *address)
{
	struct hastats_row r = { .pool = SPAN("p"), .server = span_str(server),
		.address = span_str(address) };

	return server_addresses_row(&t, socket, &r);
}

static const char *host_of(const char *server)
{
	for (size_t i = 0; i < t.n; i++)
		if (strcmp(t.servers[i].name, server) == 0)
			return t.servers[i].host;
	return "none";
}

static bool changed(void)
{
	bool was = t.changed;

	t.changed = false;
	return was;
}

static void servers_come_move_and_go(void **state)
{
	assert_true(row(0, "a", "10.0.0.1:80"));
	assert_true(row(0, "b", "10.0.0.2:80"));
	assert_false(row(0, "c", "unix"));
	server_addresses_end(&t, 0, true);
	assert_true(changed());
	assert_int_equal(t.n, 2);
	for (int i = 0; i < 3; i++) {
		row(0, "a", "10.0.0.1:80");
		row(0, "b", "10.0.0.2:80");
		server_addresses_end(&t, 0, true);
		assert_false(changed());
	}
	row(0, "a", "10.0.0.9:80");
	assert_true(changed());
	assert_string_equal(host_of("a"), "10.0.0.9");
	server_addresses_end(&t, 0, true);		/* the first without b */
	assert_false(changed());
	row(0, "a", "10.0.0.9:81");
	assert_true(changed());
	row(0, "b", "");			/* its name is not resolved any more */
	server_addresses_end(&t, 0, true);
	assert_string_equal(host_of("b"), "10.0.0.2");
	row(0, "a", "10.0.0.9:81");
	server_addresses_end(&t, 0, true);
	assert_true(changed());
	assert_string_equal(host_of("b"), "none");
	assert_int_equal(t.n, 1);
}

static void answers_that_are_cut_off_do_not_count(void **state)
{
	row(0, "a", "10.0.0.1:80");
	server_addresses_end(&t, 0, true);
	for (int i = 0; i < 9; i++)
		server_addresses_end(&t, 0, false);
	assert_string_equal(host_of("a"), "10.0.0.1");
	for (int i = 0; i < 2; i++)
		server_addresses_end(&t, 0, true);
	row(0, "a", "10.0.0.1:80");		/* seen, but not to the end: neither here nor missing */
	server_addresses_end(&t, 0, false);
	assert_string_equal(host_of("a"), "10.0.0.1");
	server_addresses_end(&t, 0, true);
	assert_string_equal(host_of("a"), "none");
}

static void two_sockets_one_server(void **state)
{
	row(0, "a", "10.0.0.1:80");
	server_addresses_end(&t, 0, true);
	assert_true(changed());
	for (int i = 0; i < 5; i++) {
		row(1, "a", "10.0.0.2:80");	/* moved there first */
		server_addresses_end(&t, 1, true);
		row(0, "a", "10.0.0.1:80");
		server_addresses_end(&t, 0, true);
		assert_false(changed());
	}
	row(0, "a", "10.0.0.2:80");
	assert_true(changed());
	server_addresses_end(&t, 0, true);
	assert_string_equal(host_of("a"), "10.0.0.2");
	for (int i = 0; i < 5; i++) {		/* the first drops it, the second does not */
		server_addresses_end(&t, 0, true);
		row(1, "a", "10.0.0.2:80");
		server_addresses_end(&t, 1, true);
		assert_false(changed());
	}
	assert_int_equal(t.state[0].owner, 1);
	row(1, "a", "10.0.0.3:80");
	assert_true(changed());
	for (int i = 0; i < 4; i++) {		/* the first has it */
		assert_int_equal(t.n, 1);
		server_addresses_end(&t, 1, true);
	}
	assert_int_equal(t.n, 0);
}

static void a_socket_that_leaves(void **state)
{
	row(0, "a", "10.0.0.1:80");
	row(0, "b", "10.0.0.2:80");
	server_addresses_end(&t, 0, true);
	row(1, "b", "10.0.0.2:80");
	server_addresses_end(&t, 1, true);
	changed();
	server_addresses_leave(&t, 0);
	assert_int_equal(t.n, 2);
	row(1, "b", "10.0.0.7:80");
	assert_true(changed());
	server_addresses_end(&t, 1, true);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(host_of("a"), "10.0.0.1");
		row(1, "b", "10.0.0.7:80");
		server_addresses_end(&t, 1, true);
	}
	assert_string_equal(host_of("a"), "none");	/* no socket of those left shows it */
	assert_string_equal(host_of("b"), "10.0.0.7");
	server_addresses_leave(&t, 1);
	row(2, "b", "10.0.0.8:80");
	assert_string_equal(host_of("b"), "10.0.0.8");
}

/* The table is bounded, and servers that were there keep their place. */
static void more_servers_than_allowed(void **state)
{
	char name[160], address[40];

	for (int round = 0; round < 2; round++)
		for (int i = 0; i < ENGINES_MAX + 10; i++) {
			sprintf(name, "s%d", i);
			sprintf(address, "10.1.%d.%d:80", i / 250, i % 250 + 1);
			assert_true(row(0, name, address));
		}
	assert_int_equal(t.n, ENGINES_MAX);
	assert_int_equal(t.refused, 20);
	assert_string_equal(host_of("s0"), "10.1.0.1");
	assert_string_equal(host_of("s1023"), "10.1.4.24");
	memset(name, 's', 150);
	name[150] = '\0';
	server_addresses_free(&t);
	assert_true(row(0, name, "10.0.0.1:80"));
	assert_int_equal(t.n, 0);
}

static void only_pools_in_use_are_kept(void **state)
{
	static const struct engine_opts p[] = { { "p", "*", "{address}:1", { "" } } };

	row(0, "a", "10.0.0.1:80");
	row(0, "b", "10.0.0.1:80");
	server_addresses_keep(&t, p, 1);
	assert_int_equal(t.n, 2);
	server_addresses_keep(&t, p, 0);
	assert_int_equal(t.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_rows),
		cmocka_unit_test(place_holders),
		cmocka_unit_test(a_star_stands_for_the_others),
		cmocka_unit_test(without_rows_only_fixed_ones),
		cmocka_unit_test(beyond_the_room_they_are_counted),
		cmocka_unit_test(an_address_too_long_is_left_out),
		cmocka_unit_test(pools_that_need_addresses),
		cmocka_unit_test(what_engines_tell_is_filled_in),
		cmocka_unit_test_setup_teardown(servers_come_move_and_go, begin, finish),
		cmocka_unit_test_setup_teardown(answers_that_are_cut_off_do_not_count, begin, finish),
		cmocka_unit_test_setup_teardown(two_sockets_one_server, begin, finish),
		cmocka_unit_test_setup_teardown(a_socket_that_leaves, begin, finish),
		cmocka_unit_test_setup_teardown(more_servers_than_allowed, begin, finish),
		cmocka_unit_test_setup_teardown(only_pools_in_use_are_kept, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
