/* test_problems.c - when a problem begins, when it is logged again, and when it is over; and
 * that the manual lists all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/route/problems.h"

#define SHARE	PROBLEM_LOAD_UNSET	/* 50 percent, one window */
#define TWICE	PROBLEM_NOT_FOLLOWED	/* 20 percent, two windows */
#define RARE	PROBLEM_SPOE_TIMEOUT	/* 5 percent, two windows */
#define CERTAIN	PROBLEM_PROXY_ON_SPOP

struct story {
	struct problems p;
	struct problems_opts o;
	struct problem_pool *pool;
	struct problem_event e;		/* the last one */
	msec now;
};

static void begin(struct story *s)
{
	assert_int_equal(problems_init(&s->p), 0);
	problems_defaults(&s->o);
	assert_non_null(s->pool = problems_pool(&s->p, SPAN("pool")));
	s->now = 5000000;
}

static void end(struct story *s)
{
	problems_fini(&s->p);
}

/* Advance the clock of the side thread by <ms>. Returns the lines to log. */
static unsigned wait_ms(struct story *s, msec ms)
{
	msec until = s->now + ms;
	unsigned n = 0;

	for (;;) {
		while (problems_next(&s->p, &s->o, s->now, &s->e))
			n++;
		if (s->now >= until)
			return n;
		s->now += s->now + 100 < until ? 100 : until - s->now;
	}
}

static void observe(struct story *s, enum problem what, unsigned bad, unsigned good)
{
	for (unsigned i = 0; i < bad; i++)
		problems_bad(s->pool, what, SPAN("a"), SPAN("b"), 7);
	for (unsigned i = 0; i < good; i++)
		problems_good(s->pool, what);
}

/* Run one whole window. */
static unsigned window(struct story *s, enum problem what, unsigned bad, unsigned good)
{
	observe(s, what, bad, good);
	return wait_ms(s, s->o.window_ms + 2000);
}

static bool raised(const struct story *s, enum problem what)
{
	return s->pool->e[what].raised;
}

/* ---- begins --------------------------------------------------------------------------------- */

static void not_before_the_window_is_over(void **state)
{
	struct story s;

	begin(&s);
	observe(&s, SHARE, 1000, 0);
	assert_int_equal(wait_ms(&s, s.o.window_ms - 1), 0);
	assert_false(raised(&s, SHARE));
	assert_int_equal(wait_ms(&s, 2000), 1);
	assert_true(raised(&s, SHARE));
	assert_int_equal(s.e.what, SHARE);
	assert_string_equal(s.e.pool, "pool");
	assert_false(s.e.over);
	assert_int_equal(s.e.bad, 1000);
	assert_int_equal(s.e.seen, 1000);
	end(&s);
}

static void not_before_there_are_requests_enough(void **state)
{
	struct story s;

	begin(&s);
	observe(&s, SHARE, 9, 0);
	assert_int_equal(wait_ms(&s, 10 * s.o.window_ms), 0);
	observe(&s, SHARE, 1, 0);
	assert_int_equal(wait_ms(&s, 2000), 1);
	assert_int_equal(s.e.seen, 10);
	end(&s);
}

static void not_below_its_share(void **state)
{
	static const struct { unsigned bad, good, lines; } cases[] = {
		{ 0, 1000, 0 }, { 1, 9, 0 }, { 49, 51, 0 }, { 499, 501, 0 }, { 50, 50, 1 }, { 10, 0,
											      1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct story s;

		begin(&s);
		if (window(&s, SHARE, cases[i].bad, cases[i].good) != cases[i].lines)
			fail_msg("%u bad of %u", cases[i].bad, cases[i].bad + cases[i].good);
		end(&s);
	}
}

/* One client that disconnects within its body is a tenth of ten requests. */
static void two_of_few_are_an_accident(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, PROBLEM_BODY_EARLY, 1, 9), 0);
	assert_int_equal(window(&s, PROBLEM_BODY_EARLY, 2, 9), 0);
	assert_int_equal(window(&s, PROBLEM_BODY_EARLY, 3, 9), 1);
	end(&s);
}

static void one_bad_window_of_two_is_not_enough(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, TWICE, 100, 0), 0);
	assert_int_equal(window(&s, TWICE, 0, 100), 0);
	assert_int_equal(window(&s, TWICE, 100, 0), 0);
	assert_int_equal(window(&s, TWICE, 100, 0), 1);
	end(&s);
}

static void certain_problems_begin_with_the_third(void **state)
{
	struct story s;

	begin(&s);
	observe(&s, CERTAIN, 2, 0);
	assert_int_equal(wait_ms(&s, 2000), 0);
	observe(&s, CERTAIN, 1, 0);
	assert_int_equal(wait_ms(&s, 2000), 1);
	end(&s);
	begin(&s);		/* but two a day apart were accidents */
	observe(&s, CERTAIN, 2, 0);
	wait_ms(&s, 61 * s.o.window_ms);
	observe(&s, CERTAIN, 2, 0);
	assert_int_equal(wait_ms(&s, 2000), 0);
	end(&s);
}

/* ---- lasts ---------------------------------------------------------------------------------- */

static void logged_once_an_hour_while_it_lasts(void **state)
{
	struct story s;
	unsigned lines = 0;

	begin(&s);
	for (int i = 0; i < 3 * 3600 / 12; i++)
		lines += window(&s, SHARE, 20, 0);
	assert_in_range(lines, 3, 4);
	assert_true(raised(&s, SHARE));
	end(&s);
}

static void near_its_bound_it_does_not_come_and_go(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, SHARE, 50, 50), 1);
	for (int i = 0; i < 20; i++)
		assert_int_equal(window(&s, SHARE, 26, 74), 0);
	assert_true(raised(&s, SHARE));
	end(&s);
}

static void an_intermittent_problem_is_logged_once_an_hour(void **state)
{
	struct story s;
	unsigned lines = 0;

	begin(&s);
	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 2; k++)
			lines += window(&s, SHARE, 20, 0);
		assert_true(raised(&s, SHARE));
		for (int k = 0; k < 5; k++)
			lines += window(&s, SHARE, 0, 20);
		assert_false(raised(&s, SHARE));
	}
	assert_true(s.now - 5000000 < 3600000);
	assert_int_equal(lines, 2);		/* that it began, that it was over */
	end(&s);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void ends_with_good_windows(void **state)
{
	struct story s;

	begin(&s);
	window(&s, RARE, 20, 0);
	assert_int_equal(window(&s, RARE, 20, 0), 1);
	assert_int_equal(window(&s, RARE, 0, 20), 0);
	assert_int_equal(window(&s, RARE, 0, 20), 0);
	assert_true(raised(&s, RARE));
	assert_int_equal(window(&s, RARE, 0, 20), 1);
	assert_true(s.e.over);
	assert_int_equal(s.e.what, RARE);
	assert_false(raised(&s, RARE));
	assert_int_equal(wait_ms(&s, 7200000), 0);
	end(&s);
}

/* Whoever has cured it looks at once. */
static void ends_soon_with_good_observations_enough(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, SHARE, 20, 0), 1);
	observe(&s, SHARE, 0, 19);
	wait_ms(&s, 2000);
	assert_true(raised(&s, SHARE));
	observe(&s, SHARE, 0, 1);
	assert_int_equal(wait_ms(&s, 1500), 1);
	assert_true(s.e.over);
	assert_false(raised(&s, SHARE));
	end(&s);
	begin(&s);		/* but a bad one starts the count again, also within a window */
	assert_int_equal(window(&s, SHARE, 20, 0), 1);
	observe(&s, SHARE, 0, 19);
	wait_ms(&s, 2000);
	observe(&s, SHARE, 1, 0);
	wait_ms(&s, s.o.window_ms);
	observe(&s, SHARE, 0, 19);
	wait_ms(&s, 2000);
	assert_true(raised(&s, SHARE));
	end(&s);
}

/* One with no good observations ends after two minutes. */
static void ends_of_certain_ones(void **state)
{
	struct story s;

	begin(&s);
	observe(&s, CERTAIN, 3, 0);
	assert_int_equal(wait_ms(&s, 11 * s.o.window_ms), 1);
	assert_true(raised(&s, CERTAIN));
	assert_int_equal(wait_ms(&s, 2 * s.o.window_ms), 1);
	assert_true(s.e.over);
	end(&s);
}

static struct problem_view view(const struct story *s, enum problem what)
{
	return problem_view(s->pool, what, &s->o, s->now);
}

/* Readers see since when it lasts, and when it was seen last. */
static void has_ages(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(view(&s, SHARE).since_ms, 0);
	window(&s, SHARE, 20, 0);
	assert_in_range(view(&s, SHARE).since_ms, s.o.window_ms, s.o.window_ms + 2500);
	wait_ms(&s, 20000);
	observe(&s, SHARE, 10, 0);
	wait_ms(&s, 5000);
	assert_in_range(view(&s, SHARE).since_ms, s.o.window_ms + 25000, s.o.window_ms + 28000);
	assert_in_range(view(&s, SHARE).seen_ms, 3000, 5000);
	assert_false(view(&s, SHARE).quiet);
	wait_ms(&s, 30000);
	assert_true(raised(&s, SHARE));
	assert_true(view(&s, SHARE).quiet);
	assert_string_equal(view(&s, SHARE).example.text[0], "a");
	end(&s);
}

static void cleared_ones_begin_again_if_they_last(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, SHARE, 20, 0), 1);
	problems_clear(&s.p);
	assert_false(raised(&s, SHARE));
	assert_int_equal(wait_ms(&s, 2000), 0);
	assert_int_equal(window(&s, SHARE, 20, 0), 1);
	assert_false(s.e.over);
	end(&s);
}

/* A night without requests is no evidence, but the problem of a removed pool must end. */
static void ends_after_a_long_time_without_evidence(void **state)
{
	struct story s;

	begin(&s);
	assert_int_equal(window(&s, SHARE, 20, 0), 1);
	assert_int_equal(wait_ms(&s, 55 * s.o.window_ms), 0);
	assert_true(raised(&s, SHARE));
	observe(&s, SHARE, 1, 0);
	assert_int_equal(wait_ms(&s, 55 * s.o.window_ms), 0);
	assert_true(raised(&s, SHARE));
	assert_int_equal(wait_ms(&s, 10 * s.o.window_ms), 1);
	assert_true(s.e.over);
	end(&s);
}

/* ---- the log feed --------------------------------------------------------------------------- */

static void lines_that_are_owed(void **state)
{
	static const struct { const char *name; unsigned owed, unheard, lines, plain; int missing,
			      without_json; } cases[] = {
		{ "each has its line", 30, 0, 30, 0, 0, 0 },
		{ "a third is lost", 30, 0, 20, 0, 0, 0 },
		{ "a few are late", 30, 0, 27, 0, 0, 0 },
		{ "none, and answers were seen", 30, 0, 0, 0, 1, 0 },
		{ "none, and HAProxy has ended them", 0, 30, 0, 0, 1, 0 },
		{ "others, without JSON", 30, 0, 0, 30, 0, 1 },
		{ "all, beside a log for people", 30, 0, 30, 300, 0, 0 },
		{ "some end unheard", 0, 10, 30, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct story s;

		begin(&s);
		for (int k = 0; k < 4; k++) {
			for (unsigned n = 0; n < cases[i].owed; n++)
				problems_owed(s.pool);
			for (unsigned n = 0; n < cases[i].unheard; n++)
				problems_unheard(s.pool);
			for (unsigned n = 0; n < cases[i].lines; n++)
				problems_line(s.pool);
			s.p.plain += cases[i].plain;
			wait_ms(&s, s.o.window_ms + 3000);
		}
		if (raised(&s, PROBLEM_FEED_MISSING) != cases[i].missing ||
		    raised(&s, PROBLEM_FEED_PLAIN) != cases[i].without_json)
			fail_msg("%s", cases[i].name);
		end(&s);
	}
}

/* Otherwise a pool with few requests would keep the problem long after its feed came back. */
static void the_first_line_ends_it(void **state)
{
	struct story s;

	begin(&s);
	for (int k = 0; k < 2; k++) {
		for (unsigned n = 0; n < 30; n++)
			problems_unheard(s.pool);
		wait_ms(&s, s.o.window_ms + 3000);
	}
	assert_true(raised(&s, PROBLEM_FEED_MISSING));
	problems_line(s.pool);
	assert_false(raised(&s, PROBLEM_FEED_MISSING));
	assert_int_equal(wait_ms(&s, 2000), 1);
	assert_true(s.e.over);
	end(&s);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static void names_are_cut_and_pools_bounded(void **state)
{
	char name[300];
	struct story s;
	unsigned n = 0;

	begin(&s);
	memset(name, 'x', sizeof(name));
	for (int i = 0; i < 3; i++)
		problems_bad(s.pool, CERTAIN, span_of(name, sizeof(name)),
			     span_of(name, sizeof(name)), 1);
	assert_int_equal(wait_ms(&s, 2000), 1);
	assert_int_equal(strlen(s.e.example.text[0]), PROBLEM_NAME_MAX);
	assert_null(problems_pool(&s.p, span_of(name, 128)));
	assert_null(problems_pool(&s.p, span_of("a\0b", 3)));
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		n += problems_pool(&s.p, span_str(name)) != NULL;
	}
	assert_int_equal(n, PROBLEM_POOLS_MAX - 1);		/* and "pool" */
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		problems_backend(&s.p, span_str(name));
	}
	assert_int_equal(s.p.n, PROBLEM_PLACES);
	problems_good(NULL, SHARE);
	problems_bad(NULL, SHARE, SPAN(""), SPAN(""), 0);
	assert_true((uint64_t)s.p.n * sizeof(struct problem_pool) <= problems_bytes());
	end(&s);
}

static void backends_of_log_lines_leave_room_for_pools(void **state)
{
	struct story s;
	char name[20];

	begin(&s);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		assert_int_equal(problems_backend(&s.p, span_str(name)) == s.p.pool[0],
				 i >= PROBLEM_BACKENDS_MAX);
	}
	assert_ptr_equal(problems_pool(&s.p, SPAN("b0")), problems_backend(&s.p, SPAN("b0")));
	for (int i = 1; i < PROBLEM_POOLS_MAX; i++) {	/* and "pool" */
		snprintf(name, sizeof(name), "p%d", i);
		assert_non_null(problems_pool(&s.p, span_str(name)));
	}
	assert_null(problems_pool(&s.p, SPAN("q")));
	end(&s);
}

static void several_are_logged_one_by_one(void **state)
{
	struct story s;

	begin(&s);
	observe(&s, SHARE, 20, 0);
	observe(&s, PROBLEM_POOL_DIFFERS, 20, 0);
	observe(&s, CERTAIN, 3, 0);
	assert_int_equal(wait_ms(&s, s.o.window_ms + 2000), 3);
	end(&s);
}

static void a_feed_is_settled_after_a_window(void **state)
{
	struct story s;

	begin(&s);
	assert_false(problems_settled(&s.p, &s.o, s.now));
	wait_ms(&s, s.o.window_ms - 1);
	assert_false(problems_settled(&s.p, &s.o, s.now));
	wait_ms(&s, 1);
	assert_true(problems_settled(&s.p, &s.o, s.now));
	end(&s);
}

/* ---- the manual ----------------------------------------------------------------------------- */

/* Lines of the manual are filled, so a line break counts as a space. */
static char *unfold(char *s)
{
	for (char *p = s; (p = strchr(p, '\n')) != NULL;)
		*p = ' ';
	return s;
}

static char *manual(void)
{
	FILE *f = fopen("doc/kvroute.8", "r");
	static char text[1 << 20];

	if (f == NULL)
		fail_msg("doc/kvroute.8 cannot be read: run this at the top of the tree");
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return unfold(text);
}

static void every_problem_is_in_the_manual(void **state)
{
	const char *text = manual();
	unsigned found = 0;
	char item[1024];

	for (unsigned i = 0; i < PROBLEM_COUNT; i++) {
		const struct problem_row *r = &problem_rows[i];

		snprintf(item, sizeof(item), "\n.It Li %s\n%s:\n%s.\nRemedy: %s.\n", r->word,
			 r->message, r->effect, r->remedy);
		if (strstr(text, unfold(item)) == NULL)
			fail_msg("doc/kvroute.8 lacks:%s", item);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(problem_rows[k].word, r->word);
	}
	for (const char *p = text; (p = strstr(p, " Remedy: ")) != NULL; p++)
		found++;
	assert_int_equal(found, PROBLEM_COUNT);
}

static void every_error_of_haproxy_is_in_the_manual(void **state)
{
	const char *text = manual();
	char item[1024];

	for (unsigned i = 0; i < HAPROXY_ERRORS; i++) {
		const struct haproxy_error *e = &haproxy_errors[i];

		assert_int_equal(haproxy_error_index(e->code), i);
		snprintf(item, sizeof(item), "\n.It Li %d , %s\n%s:\n%s.\n", e->code,
			 problem_rows[e->what].word, e->cause, e->remedy);
		if (strstr(text, unfold(item)) == NULL)
			fail_msg("doc/kvroute.8 lacks:%s", item);
	}
	assert_int_equal(haproxy_error_index(0), HAPROXY_ERRORS);
	assert_int_equal(haproxy_error_index(400), HAPROXY_ERRORS);
}

static void each_code_has_a_remedy_of_its_own(void **state)
{
	struct problem_example x = { .number = 256 };

	(void)state;
	assert_non_null(strstr(problem_remedy(PROBLEM_SPOE_FAILED, &x), "while the agent restarts"));
	x.number = 3;
	assert_non_null(strstr(problem_remedy(PROBLEM_SPOE_TOO_BIG, &x), "bytes(0,N)"));
	for (unsigned i = 0; i < HAPROXY_ERRORS; i++) {
		x.number = haproxy_errors[i].code;
		assert_ptr_equal(problem_remedy(haproxy_errors[i].what, &x), haproxy_errors[i].remedy);
	}
	x.number = 400;		/* a code without a name */
	assert_string_equal(
	    problem_remedy(PROBLEM_SPOE_FAILED, &x), problem_rows[PROBLEM_SPOE_FAILED].remedy);
	x.number = 1;		/* bytes, not a code */
	assert_string_equal(
	    problem_remedy(PROBLEM_BODY_BUFFER, &x), problem_rows[PROBLEM_BODY_BUFFER].remedy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_before_the_window_is_over),
		cmocka_unit_test(not_before_there_are_requests_enough),
		cmocka_unit_test(not_below_its_share),
		cmocka_unit_test(two_of_few_are_an_accident),
		cmocka_unit_test(one_bad_window_of_two_is_not_enough),
		cmocka_unit_test(certain_problems_begin_with_the_third),
		cmocka_unit_test(logged_once_an_hour_while_it_lasts),
		cmocka_unit_test(near_its_bound_it_does_not_come_and_go),
		cmocka_unit_test(an_intermittent_problem_is_logged_once_an_hour),
		cmocka_unit_test(ends_with_good_windows),
		cmocka_unit_test(ends_soon_with_good_observations_enough),
		cmocka_unit_test(ends_of_certain_ones), cmocka_unit_test(has_ages),
		cmocka_unit_test(cleared_ones_begin_again_if_they_last),
		cmocka_unit_test(ends_after_a_long_time_without_evidence),
		cmocka_unit_test(lines_that_are_owed),
		cmocka_unit_test(the_first_line_ends_it),
		cmocka_unit_test(names_are_cut_and_pools_bounded),
		cmocka_unit_test(backends_of_log_lines_leave_room_for_pools),
		cmocka_unit_test(several_are_logged_one_by_one),
		cmocka_unit_test(a_feed_is_settled_after_a_window),
		cmocka_unit_test(every_problem_is_in_the_manual),
		cmocka_unit_test(every_error_of_haproxy_is_in_the_manual),
		cmocka_unit_test(each_code_has_a_remedy_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
