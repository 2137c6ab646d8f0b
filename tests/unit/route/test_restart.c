/* test_restart.c - state that a new agent loads from the snapshot of the previous one. */
#include "tests/unit/route/world.h"

#include "agent/base/mem.h"

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
	struct snapshot_writer *sw = route_snapshot(w->r, w->now, put, &b);
	int rc;

	assert_non_null(sw);
	while ((rc = snapshot_write(sw, 100)) == 0)
		;
	assert_int_equal(rc, 1);
	snapshot_writer_free(sw);
	return b;
}

static void read_back(struct world *w, const struct bytes *b)
{
	struct snapshot_stats st;
	struct err e;

	assert_int_equal(route_restore(w->r, b->p, b->n, w->now, &st, &e), 0);
	assert_int_equal(st.servers_skipped, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_learned_rate_outlives_the_agent),
		cmocka_unit_test(an_inferred_capacity_outlives_the_agent),
		cmocka_unit_test(too_few_answers_are_not_stored),
	};

	return cmocka_run_group_tests_name("route restart", tests, NULL, NULL);
}
