/* test_forged.c - forged facts. For a uid that is not open they do nothing; for an open one they
 * do what one true fact could do, once. */
#include "tests/unit/route/world.h"

#define FORGED	1000

/* All inputs of a decision. */
struct seen {
	struct index_stats index;
	struct heads_stats heads;
	uint64_t open, failures, slices;
	struct server_find server[4];
	struct route_pool_view pool;
};

static struct seen look(struct world *w)
{
	static const char *const names[] = { "s1", "s2", "s3", "s4" };
	struct route_stats st = stats(w);
	struct seen s = {
		.index = st.index, .heads = st.heads, .open = st.open, .slices = st.slices_waiting
	};

	for (int v = 0; v < VERDICT_COUNT; v++)
		s.failures += st.failures[v];
	for (int i = 0; i < 4; i++)
		s.server[i] = server(w, names[i]);
	s.pool = pool(w);
	return s;
}

static bool same_server(const struct route_server_view *a, const struct route_server_view *b)
{
	return a->up == b->up && a->weight == b->weight && a->conn == b->conn &&
	    a->queue == b->queue && a->open == b->open && a->backlog_s == b->backlog_s &&
	    a->penalty == b->penalty && a->picked == b->picked && a->hit_tokens == b->hit_tokens &&
	    a->held_tokens == b->held_tokens && a->failures == b->failures;
}

static bool same(const struct seen *a, const struct seen *b)
{
	for (int i = 0; i < 4; i++)
		if (a->server[i].found != b->server[i].found || !same_server(&a->server[i].v, &b->server[i].v))
			return false;
	return memcmp(&a->index, &b->index, sizeof(a->index)) == 0 &&
	       memcmp(&a->heads, &b->heads, sizeof(a->heads)) == 0 && a->open == b->open &&
	       a->failures == b->failures && a->slices == b->slices &&
	       strcmp(a->pool.facts, b->pool.facts) == 0 && a->pool.pressure == b->pool.pressure;
}

/* Send every kind of false fact about <uid>, one after the other. */
static void lie(struct world *w, const char *uid, int i)
{
	static const char *const servers[] = { "s1", "s2", "s3", "nobody", "<NOSRV>", "" };
	static const int statuses[] = { 200, 503, 429, -1, 502 };
	static const char *const ends[] = { "--", "SC", "SH", "CD", "sQ", "PH" };
	struct fact f;

	fact_init(&f, i % 7 == 0 ? FACT_FIRST : FACT_DONE);
	f.uid = span_str(uid);
	f.pool = SPAN("pool");
	f.server = span_str(servers[i % 6]);
	f.status = statuses[i % 5];
	f.end = fact_end_of(span_str(ends[i / 6 % 6]));
	f.type = SPAN(STREAM);
	f.response_ms = i % 3 - 1;
	f.retries = i % 2;
	f.redispatched = i % 2;
	route_learn(w->r, &f, w->now);
}

static void unknown_uids_do_nothing(void **state)
{
	struct world w;
	struct seen before, after;
	uint64_t unknown;
	char uid[64];

	world_start(&w);
	ask(&w, "one", "ab");
	served(&w, "one");
	ask(&w, "two", "abc");		/* still open */
	w.q.visible = w.q.whole = 9000;
	w.q.seq = 0;
	w.q.uid = SPAN("sliced");
	w.q.body = SPAN("{\"messages\":[{\"role\":\"user\",\"content\":\"half");
	route_decide(w.r, w.s, &w.q, w.now, &w.a);
	before = look(&w);
	unknown = stats(&w).facts_unknown;
	assert_int_equal(before.slices, 1);
	assert_true(before.open >= 1);
	for (int i = 0; i < FORGED; i++) {
		snprintf(uid, sizeof(uid), "two%d", i);
		lie(&w, uid, i);
	}
	after = look(&w);
	assert_true(same(&before, &after));
	assert_int_equal(stats(&w).facts_unknown - unknown, FORGED);
	world_end(&w);
}

/* With a seen or guessed uid, forged facts can close its request, move it, or count a failure of
 * its server, and nothing else. */
static void one_uid_is_one_request(void **state)
{
	struct world w;
	struct seen before, after;

	world_start(&w);
	for (int first = 0; first < 42; first++) {
		char uid[32];

		snprintf(uid, sizeof(uid), "u%d", first);
		w.now += 100;
		ask(&w, uid, "xy");
		before = look(&w);
		for (int i = 0; i < FORGED; i++)
			lie(&w, uid, first + i);
		after = look(&w);
		assert_true(before.open - after.open <= 1);
		assert_true(after.failures - before.failures <= 2);	/* one rejected it, one broke off */
		assert_true(after.index.nodes <= before.index.nodes);
	}
	printf("42 uids, %d lies each: %u failures learned, %u requests open\n", FORGED,
	       (unsigned)after.failures, (unsigned)after.open);
	assert_true(after.failures > 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_uids_do_nothing),
		cmocka_unit_test(one_uid_is_one_request),
	};

	return cmocka_run_group_tests_name("route forged", tests, NULL, NULL);
}
