/* test_restart.c - state that a new agent loads from the snapshot of the previous one. */
#include "tests/unit/route/fleet.h"

#include "agent/base/mem.h"

#define WALL_MS	1700000000000	/* of the clock's 0 */
#define DAY	(24 * 3600 * 1000)

struct bytes {
	uint8_t *p;
	size_t n;
};

static int put(void *arg, const void *p, size_t n)
{
	struct bytes *b = arg;

	b->p = realloc(b->p, b->n + n);
	memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

static struct bytes written(struct world *w)
{
	struct bytes b = { NULL, 0 };
	struct snapshot_writer *sw = route_snapshot(w->r, w->now, WALL_MS + w->now, put, &b);
	int rc;

	assert_non_null(sw);
	while ((rc = snapshot_write(sw, 100)) == 0)
		;
	assert_int_equal(rc, 1);
	snapshot_writer_free(sw);
	return b;
}

/* Load <b>, and return how many servers were skipped. */
static uint64_t load(struct world *w, const struct bytes *b, bool theirs, int64_t wall_ms)
{
	const struct route_saved saved = {
		.bytes = b->p, .n = b->n, .theirs = theirs, .now = w->now, .wall_ms = wall_ms,
	};
	struct snapshot_stats st;
	struct err e;

	assert_int_equal(route_restore(w->r, &saved, &st, &e), 0);
	return st.servers_skipped;
}

static void read_back(struct world *w, const struct bytes *b)
{
	assert_int_equal(load(w, b, false, WALL_MS + w->now), 0);
}

#define S1	SPAN("lb1/1;s1=1,0,0,1")

/* Send prompts without a common prefix, answered after <ms>. */
static void learn(struct world *w, unsigned from, unsigned n, msec ms)
{
	char uid[16];

	w->q.load = S1;
	w->q.path = SPAN("/v1/completions");
	for (unsigned i = from; i < from + n; i++) {
		snprintf(uid, sizeof(uid), "l%u", i);
		w->body.n = 0;
		say(&w->body, "{\"model\":\"m\",\"prompt\":\"%u %020000d\"}", i, 0);
		send(w, uid);
		w->now += ms;
		tell_first(w, uid, "s1", 200, STREAM);
		tell_done(w, uid, "s1", 200, "--", (int)ms);
		w->now += 1000;
	}
}

static void a_learned_rate_outlives_the_agent(void **state)
{
	struct world w, next;
	struct bytes b;
	double rate;

	(void)state;
	world_start(&w);
	learn(&w, 0, 40, 100);
	rate = server(&w, "s1").v.tokens_per_s;
	assert_true(rate > 20000);		/* 5000 tokens in 100 ms; configured are 8000 a second */
	b = written(&w);
	world_start(&next);
	read_back(&next, &b);
	next.now += 1000;
	learn(&next, 100, 2, 100);			/* facts are of first tokens again */
	assert_true(server(&next, "s1").v.tokens_per_s > 0.9 * rate);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

static struct server *inside(struct world *w, const char *name)
{
	return w->r->fleet.by_id[server(w, name).v.id];
}

static void an_inferred_capacity_outlives_the_agent(void **state)
{
	struct world w, next;
	struct bytes b;

	(void)state;
	world_start(&w);
	ask(&w, "a", "A");
	inside(&w, "s1")->inferred_here = 123456;
	inside(&w, "s1")->inferred = inside(&w, "s1")->inferred_there = 999999;	/* of a sibling */
	inside(&w, "s2")->inferred_here = 99;			/* below any real size */
	b = written(&w);
	world_start(&next);
	read_back(&next, &b);
	assert_int_equal(server(&next, "s1").v.capacity_source, CAPACITY_INFERRED);
	assert_int_equal(server(&next, "s1").v.capacity_tokens, 123456);
	assert_int_equal(server(&next, "s1").v.room_tokens, 123456);
	assert_true(server(&next, "s2").v.capacity_tokens > CAPACITY_LEAST);
	assert_int_equal(server(&next, "s3").v.capacity_source, CAPACITY_GUESS);
	assert_true(inside(&next, "s1")->capacity.salt != inside(&next, "s3")->capacity.salt);
	next.o.pool_default.capacity = 500000;			/* pinned */
	assert_int_equal(route_reconfigure(next.r, &next.o), 0);
	assert_int_equal(server(&next, "s1").v.capacity_tokens, 500000);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

/* The part after the name is used only if it is valid. */
static void too_few_answers_are_not_stored(void **state)
{
	struct world w, next;
	struct bytes b;

	(void)state;
	world_start(&w);
	learn(&w, 0, 2, 100);
	b = written(&w);
	world_start(&next);
	read_back(&next, &b);
	assert_true(server(&next, "s1").v.tokens_per_s == 8000);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

/* ---- clears, and siblings ------------------------------------------------------------------ */

static void put_nowhere(void *arg, uint32_t part, const struct share_entry *e)
{
	(void)arg, (void)part, (void)e;
}

/* Start an agent that shares, on a machine that booted <up_ms> ago. */
static void start_sharing(struct world *w, msec up_ms)
{
	struct route_share to = { .put = put_nowhere, .parts = 1, .self = 1 };

	world_options(w);
	w->o.share = true;
	w->now = up_ms;
	world_open(w);
	assert_int_equal(route_share(w->r, &to), 0);
}

static void serve_s1(struct world *w, const char *uid, const char *turns)
{
	w->q.load = S1;
	ask(w, uid, turns);
	tell_done(w, uid, "s1", 200, "--", 20);
}

static void sibling_tells_of_clear(struct world *w, msec ago)
{
	const struct share_entry e = { .kind = SHARE_CLEARED,
		.u.cleared = { .at = { SPAN("pool"), SPAN("s1") }, .ago_ms = ago } };

	route_share_apply(w->r, 77, &e, w->now);
	while (route_work(w->r))
		;
}

static size_t held(struct world *w)
{
	struct pairs l = pairs_of(w->r, false);

	free(l.p);
	return l.n;
}

/* The snapshot knows of the clear, also if the machine booted since. */
static void a_clear_of_days_ago_empties_nothing(void **state)
{
	struct world w, next;
	struct bytes b;

	(void)state;
	start_sharing(&w, 1000000);
	serve_s1(&w, "1", "a");
	sibling_tells_of_clear(&w, 400);
	assert_int_equal(held(&w), 0);
	w.now += 1000;
	serve_s1(&w, "2", "bc");
	w.now += 3 * DAY;
	sibling_tells_of_clear(&w, 3 * DAY + 1400);
	assert_int_equal(held(&w), 2 * TURN_PAGES);
	b = written(&w);
	start_sharing(&next, 30000);
	assert_int_equal(load(&next, &b, false, WALL_MS + w.now + 5000), 0);
	assert_int_equal(held(&next), 2 * TURN_PAGES);
	sibling_tells_of_clear(&next, 3 * DAY + 6400);
	assert_int_equal(held(&next), 2 * TURN_PAGES);
	sibling_tells_of_clear(&next, 2 * DAY);		/* while the agent was down */
	assert_int_equal(held(&next), 0);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

/* Pages from before a clear that is known here are not loaded, and not kept beside newer ones. */
static void a_clear_after_the_snapshot_counts(void **state)
{
	struct world w, next;
	struct bytes old, new;

	(void)state;
	start_sharing(&w, 1000000);
	serve_s1(&w, "1", "a");
	sibling_tells_of_clear(&w, 0);
	serve_s1(&w, "2", "ab");
	old = written(&w);
	w.now += 60000;
	sibling_tells_of_clear(&w, 0);
	w.now += 1000;
	serve_s1(&w, "3", "xyz");
	new = written(&w);
	start_sharing(&next, w.now);
	assert_int_equal(load(&next, &new, true, WALL_MS + next.now), 0);
	assert_int_equal(held(&next), 3 * TURN_PAGES);
	assert_int_equal(load(&next, &old, true, WALL_MS + next.now), 1);
	assert_int_equal(held(&next), 3 * TURN_PAGES);
	world_end(&next);
	start_sharing(&next, w.now);
	assert_int_equal(load(&next, &old, false, WALL_MS + next.now), 0);
	assert_int_equal(held(&next), 2 * TURN_PAGES);
	assert_int_equal(load(&next, &new, true, WALL_MS + next.now), 1);
	while (route_work(next.r))
		;
	assert_int_equal(held(&next), 0);
	assert_int_equal(load(&next, &new, true, WALL_MS + next.now), 0);
	assert_int_equal(held(&next), 3 * TURN_PAGES);
	world_end(&next);
	world_end(&w);
	free(old.p);
	free(new.p);
}

static void a_siblings_inference_remains_its_own(void **state)
{
	struct world w, next;
	struct bytes b;

	(void)state;
	world_start(&w);
	ask(&w, "a", "A");
	inside(&w, "s1")->inferred_here = 123456;
	b = written(&w);
	start_sharing(&next, w.now);
	assert_int_equal(load(&next, &b, true, WALL_MS + next.now), 0);
	assert_int_equal(inside(&next, "s1")->inferred_here, 0);
	assert_int_equal(inside(&next, "s1")->inferred_there, 123456);
	assert_int_equal(server(&next, "s1").v.capacity_tokens, 123456);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

/* s2 has left 8 minutes before the snapshot. It does not live longer because agents restart. */
static void a_server_that_left_is_not_kept_by_restarts(void **state)
{
	struct world w, next;
	struct bytes b;
	msec max_age;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	ask(&w, "1", "a");
	tell_done(&w, "1", "s1", 200, "--", 20);
	max_age = w.o.server_max_age_ms;
	w.now += max_age * 8 / 10;
	serve_s1(&w, "2", "b");
	b = written(&w);
	for (int theirs = 0; theirs < 2; theirs++) {
		start_sharing(&next, DAY);
		assert_int_equal(load(&next, &b, theirs, WALL_MS + w.now), 0);
		assert_true(server(&next, "s2").found);
		next.now += max_age * 3 / 10;
		serve_s1(&next, "3", "c");
		route_tick(next.r, next.now);
		assert_true(server(&next, "s1").found);
		assert_false(server(&next, "s2").found);
		world_end(&next);
	}
	start_sharing(&next, DAY);		/* a sibling reads it later */
	assert_int_equal(load(&next, &b, true, WALL_MS + w.now + max_age * 3 / 10), 0);
	serve_s1(&next, "3", "c");
	next.now += 61000;			/* s1 is named again, and nothing else in that time */
	serve_s1(&next, "4", "d");
	route_tick(next.r, next.now);
	assert_true(server(&next, "s1").found);
	assert_false(server(&next, "s2").found);
	world_end(&next);
	world_end(&w);
	free(b.p);
}

/* All agents were down for a day: what they knew is used until HAProxy has named its servers. */
static void a_long_pause_removes_no_server(void **state)
{
	struct world w, next;
	struct bytes b;

	(void)state;
	world_start(&w);
	serve_s1(&w, "1", "a");
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	ask(&w, "2", "b");
	b = written(&w);
	for (int theirs = 0; theirs < 2; theirs++) {
		start_sharing(&next, 30000);
		assert_int_equal(load(&next, &b, theirs, WALL_MS + w.now + DAY), 0);
		route_tick(next.r, next.now);
		serve_s1(&next, "3", "c");
		for (unsigned i = 0; i < 10; i++)
			route_tick(next.r, next.now += 1000);
		assert_true(server(&next, "s1").found);
		assert_true(server(&next, "s2").found);
		world_end(&next);
	}
	world_end(&w);
	free(b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_learned_rate_outlives_the_agent),
		cmocka_unit_test(an_inferred_capacity_outlives_the_agent),
		cmocka_unit_test(too_few_answers_are_not_stored),
		cmocka_unit_test(a_clear_of_days_ago_empties_nothing),
		cmocka_unit_test(a_clear_after_the_snapshot_counts),
		cmocka_unit_test(a_siblings_inference_remains_its_own),
		cmocka_unit_test(a_server_that_left_is_not_kept_by_restarts),
		cmocka_unit_test(a_long_pause_removes_no_server),
	};

	return cmocka_run_group_tests_name("route restart", tests, NULL, NULL);
}
