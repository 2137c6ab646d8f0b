/* test_observe.c - rows of stats sockets, reports of engines: which count, and until when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/fleet/observe.h"

static void more_processes_than_places(void **state)
{
	struct hastats_row r = { .state = HASTATS_UP, .weight = 1, .sessions = 1 };
	struct watch w = { .n = 0 };

	(void)state;
	for (uint64_t p = 1; p <= WATCHERS_MAX + 3; p++)
		watch_row(&w, p, &r, 100, 200 + (msec)p);
	assert_int_equal(watch_sum(&w, 150).n, WATCHERS_MAX);
	assert_int_equal(watch_sum(&w, 150).load, WATCHERS_MAX);
	watch_row(&w, 99, &r, 203, 400);	/* three have gone stale by then */
	assert_int_equal(watch_sum(&w, 203).n, WATCHERS_MAX - 2);
	r.sessions = r.queue = INT32_MAX;
	for (uint64_t p = 1; p <= WATCHERS_MAX; p++)
		watch_row(&w, p + 50, &r, 500, 600);
	assert_int_equal(watch_sum(&w, 500).load, UINT32_MAX);
	assert_int_equal(watch_sum(&w, 600).n, 0);
}

/* ---- engines ---- */

static const struct engine_sent none_sent;

static void poll_at(
    struct engine_seen *s, msec at, int64_t waiting, int64_t running, double kv_used)
{
	struct engine_report r = { .waiting = waiting, .running = running, .kv_used = kv_used };

	engine_take(s, &r, &none_sent, at, at + 1000);
}

static bool pass_at(
    struct engine_seen *s, msec at, int64_t waiting, int64_t running, double kv_used)
{
	struct engine_load l = { .waiting = waiting, .running = running, .kv_used = kv_used };

	return engine_take_load(s, &l, &none_sent, at, at + 500);
}

#define assert_now(s, at, w, r, used) do { \
	struct engine_now n_ = engine_now(s, at); \
	assert_true(n_.waiting == (w) && n_.running == (r) && n_.kv_used == (used)); \
} while (0)

static void of_each_field_the_newer_report_counts(void **state)
{
	struct engine_seen s = { .capacity = 0 };

	assert_false(engine_now(&s, 0).holds);
	assert_now(&s, 0, -1, -1, -1);
	poll_at(&s, 1000, 1, 2, 0.3);
	assert_now(&s, 1999, 1, 2, 0.3);
	assert_true(pass_at(&s, 1400, 5, -1, 0.5));
	assert_now(&s, 1899, 5, 2, 0.5);		/* it told no running ones */
	assert_now(&s, 1900, 1, 2, 0.3);		/* it has expired */
	assert_true(engine_now(&s, 1999).polled);
	assert_false(engine_now(&s, 2000).holds);
	poll_at(&s, 1500, 7, 8, 0.9);
	assert_now(&s, 1600, 7, 8, 0.9);
	assert_true(pass_at(&s, 2300, 0, 3, -1));
	assert_now(&s, 2400, 0, 3, 0.9);
	assert_now(&s, 2500, 0, 3, -1);			/* the poll has expired */
	assert_false(engine_now(&s, 2500).polled);
	assert_false(pass_at(&s, 2299, 9, 9, 0.1));	/* came late */
	assert_true(pass_at(&s, 2300, 4, 4, 0.4));
	assert_now(&s, 2500, 4, 4, 0.4);
	assert_false(engine_now(&s, 2800).holds);
}

static void a_capacity_stays(void **state)
{
	struct engine_load l = ENGINE_LOAD_NONE;
	struct engine_seen s = { .capacity = 0 };

	l.capacity = 4096;
	assert_true(engine_take_load(&s, &l, &none_sent, 10, 20));
	l.capacity = 0;
	assert_true(engine_take_load(&s, &l, &none_sent, 11, 21));
	assert_true(s.capacity == 4096 && engine_now(&s, 100).kv_used < 0);
}

static void a_report_corrects_the_estimate(void **state)
{
	static const struct {
		const char *name;
		double kv_used;
		int64_t waiting, running;
		uint32_t open;
		uint64_t kv_then, kv_now, room, want;
	} cases[] = {
		{ "its use is not told", -1, 1, 1, 2, 2000, 2000, 10000, 2000 },
		{ "its queue is not told", 0.9, -1, 1, 2, 2000, 2000, 10000, 2000 },
		{ "the room is unknown", 0.9, 0, 1, 2, 2000, 2000, 0, 2000 },
		{ "the same", 0.2, 0, 2, 2, 2000, 2000, 10000, 2000 },
		{ "running ones have generated much", 0.9, 0, 2, 2, 2000, 2000, 10000, 9000 },
		{ "requests of other clients", 0.6, 0, 8, 2, 2000, 2000, 10000, 6000 },
		{ "requests that ended unseen", 0, 0, 0, 4, 5000, 5000, 10000, 0 },
		{ "one was sent since", 0.5, 0, 2, 2, 2000, 5000, 10000, 8000 },
		{ "one has ended since", 0.5, 0, 2, 2, 5000, 2000, 10000, 5000 },
		{ "one that had ended before is closed", 0.1, 0, 1, 2, 5000, 1000, 10000, 1000 },
		{ "half of them wait", 0.2, 2, 2, 4, 4000, 4000, 10000, 4000 },
		{ "all wait", 0, 4, 0, 4, 4000, 4000, 10000, 4000 },
		{ "others wait", 0.5, 8, 2, 2, 1000, 1000, 10000, 5800 },
		{ "more than all of the cache", 1, 3, 1, 4, 8000, 8000, 10000, 16000 },
		{ "nothing is sent, nothing is used", 0, 0, 0, 0, 0, 0, 10000, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct engine_sent sent = { .open = cases[i].open, .kv_tokens = cases[i].kv_then };
		struct engine_report r = {
			.waiting = cases[i].waiting, .running = cases[i].running, .kv_used = cases[i].kv_used,
		};
		struct engine_seen s = { .capacity = 0 };
		struct engine_now n;
		uint64_t got;

		engine_take(&s, &r, &sent, 1000, 2000);
		n = engine_now(&s, 1500);
		got = engine_kv_tokens(&n, cases[i].kv_now, cases[i].room);
		if (got != cases[i].want)
			fail_msg("%s: %llu", cases[i].name, (unsigned long long)got);
		n = engine_now(&s, 2000);
		assert_int_equal(engine_kv_tokens(&n, cases[i].kv_now, cases[i].room), cases[i].kv_now);
	}
}

static void told(struct engine_hits *h, double hit, double asked)
{
	struct engine_report r = { .hit_tokens = hit, .asked_tokens = asked };

	engine_count_hits(h, &r);
}

/* What was before the first report is not counted; a restart begins at 0. */
static void hits_since_the_first_report(void **state)
{
	struct engine_hits h = { .told = false };

	(void)state;
	told(&h, -1, -1);
	assert_false(h.told);
	told(&h, 5000, 9000);
	assert_true(h.told && h.hit_tokens == 0 && h.asked_tokens == 0);
	told(&h, 5100, 9300);
	told(&h, 5100, 9300);
	assert_true(h.hit_tokens == 100 && h.asked_tokens == 300);
	told(&h, -1, 9400);			/* half a report is none */
	told(&h, 30, 40);
	assert_true(h.hit_tokens == 130 && h.asked_tokens == 340);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_each_field_the_newer_report_counts),
		cmocka_unit_test(a_capacity_stays),
		cmocka_unit_test(a_report_corrects_the_estimate),
		cmocka_unit_test(hits_since_the_first_report),
		cmocka_unit_test(more_processes_than_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
