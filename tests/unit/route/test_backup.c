/* test_backup.c - servers with the keyword "backup" get requests when HAProxy itself would send
 * them some. */
#include "tests/unit/route/world.h"

static const struct { const char *name, *load, *want; } cases[] = {
	{ "no marks", "p;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1", "123" },
	{ "others are up", "p;s1=1,0,0,1;s2=b1,0,0,1;s3=1,0,0,1;s4=b1,0,0,1", "13" },
	{ "the backup server is first", "p;s1=b1,0,0,1;s2=1,0,0,1", "2" },
	{ "others are busy", "p;s1=1,900,90,1;s2=b1,0,0,1", "1" },
	{ "one other is up", "p;s1=0,0,0,1;s2=b1,0,0,1;s3=1,0,0,1;s4=b1,0,0,1", "3" },
	{ "no other is up: the first one", "p;s1=0,0,0,1;s2=b1,0,0,1;s3=0,0,0,1;s4=b1,0,0,1", "2" },
	{ "no other has weight", "p;s1=1,0,0,0;s2=b1,0,0,1;s3=0,0,0,1;s4=b1,0,0,1", "2" },
	{ "the first of them is down", "p;s1=0,0,0,1;s2=b0,0,0,1;s3=b1,0,0,1;s4=b1,0,0,1", "3" },
	{ "the first of them has no weight", "p;s1=0,0,0,1;s2=b1,0,0,0;s3=b1,0,0,1;s4=b1,0,0,1", "3" },
	{ "option allbackups", "p;s1=0,0,0,1;s2=B1,0,0,1;s3=0,0,0,1;s4=B1,0,0,1", "24" },
	{ "option allbackups, others are up", "p;s1=1,0,0,1;s2=B1,0,0,1;s3=1,0,0,1;s4=B1,0,0,1", "13" },
	{ "there is nothing else", "p;s1=b1,0,0,1;s2=b1,0,0,1", "1" },
	{ "none is up", "p;s1=0,0,0,1;s2=b0,0,0,1", "" },
};

static void by_the_load_string(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w;
		const char *got;

		world_start_unpunished(&w);
		w.q.load = span_str(cases[i].load);
		got = named(&w, 20);
		if (strcmp(got, cases[i].want) != 0)
			fail_msg("%s: requests went to \"%s\", not to \"%s\"", cases[i].name, got, cases[i].want);
		world_end(&w);
	}
}

static void row(struct world *w, const char *name, enum hastats_state state, bool backup)
{
	struct hastats_row r = {
		.pool = SPAN("pool"), .server = span_str(name), .state = state, .weight = 1, .backup = backup,
	};

	route_observe_server(w->r, SPAN("a"), &r, w->now, w->now + 100000);
}

static void by_a_stats_socket(void **state)
{
	struct world w;

	(void)state;
	world_start_unpunished(&w);
	ask(&w, "a", "a");
	w.q.load = SPAN("");
	row(&w, "s1", HASTATS_UP, false);
	row(&w, "s2", HASTATS_UP, true);
	row(&w, "s3", HASTATS_UP, true);
	row(&w, "s4", HASTATS_UP, false);
	assert_string_equal(named(&w, 20), "14");
	row(&w, "s1", HASTATS_DOWN, false);
	assert_string_equal(named(&w, 20), "4");
	row(&w, "s4", HASTATS_DRAIN, false);
	assert_string_equal(named(&w, 20), "2");
	row(&w, "s2", HASTATS_MAINT, true);
	assert_string_equal(named(&w, 20), "3");
	row(&w, "s1", HASTATS_UP, false);
	assert_string_equal(named(&w, 20), "1");
	world_end(&w);
}

/* The last load string called s2 a backup server. Later requests bring none, and the stats socket
 * says that s2 is not one. */
static void a_stats_socket_is_newer_than_the_last_load_string(void **state)
{
	struct world w;

	(void)state;
	world_start_unpunished(&w);
	w.q.load = SPAN("p;s1=1,0,0,1;s2=b1,0,0,1");
	assert_string_equal(named(&w, 20), "1");
	w.q.load = SPAN("");
	row(&w, "s1", HASTATS_UP, false);
	row(&w, "s2", HASTATS_UP, false);
	assert_string_equal(named(&w, 20), "12");
	world_end(&w);
}

/* A load line from before the marks: a stats socket tells, too. */
static void by_both(void **state)
{
	struct world w;

	(void)state;
	world_start_unpunished(&w);
	assert_string_equal(named(&w, 20), "1234");
	row(&w, "s2", HASTATS_UP, true);
	assert_string_equal(named(&w, 20), "134");
	row(&w, "s2", HASTATS_UP, false);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=b1,0,0,1;s3=1,0,0,1;s4=1,0,0,1");
	assert_string_equal(named(&w, 20), "134");
	w.q.load = SPAN(IDLE4);
	assert_string_equal(named(&w, 20), "1234");
	world_end(&w);
}

/* When other servers return, a conversation that a backup server holds returns to them. */
static void a_held_prompt_is_no_reason(void **state)
{
	struct world w;

	(void)state;
	world_start_unpunished(&w);
	w.q.load = SPAN("p;s1=0,0,0,1;s2=b1,0,0,1");
	ask(&w, "a", "abc");
	assert_span(w.a.server, "s2");
	served(&w, "a");
	ask(&w, "b", "abcd");
	assert_why(&w, WHY_CACHED);
	served(&w, "b");
	w.q.load = SPAN("p;s1=1,0,0,1;s2=b1,0,0,1");
	ask(&w, "c", "abcde");
	assert_span(w.a.server, "s1");
	assert_int_equal(w.a.alt.n, 0);
	world_end(&w);
}

static void list_backup(void *arg, const struct route_server_view *v)
{
	char *to = arg;

	if (v->backup)
		strcat(to, v->name);
}

static void views_tell_which_are_backup_servers(void **state)
{
	struct world w;
	char got[64] = "";

	(void)state;
	world_start_unpunished(&w);
	w.q.load = SPAN("p;s1=1,0,0,1;s2=b1,0,0,1;s3=B1,0,0,1;s4=1,0,0,1");
	ask(&w, "a", "a");
	row(&w, "s1", HASTATS_UP, false);
	row(&w, "s4", HASTATS_UP, true);
	route_each_server(w.r, w.now, list_backup, got);
	assert_string_equal(got, "s2s3s4");
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_load_string),
		cmocka_unit_test(by_a_stats_socket),
		cmocka_unit_test(a_stats_socket_is_newer_than_the_last_load_string),
		cmocka_unit_test(by_both),
		cmocka_unit_test(a_held_prompt_is_no_reason),
		cmocka_unit_test(views_tell_which_are_backup_servers),
	};

	return cmocka_run_group_tests_name("route backup", tests, NULL, NULL);
}
