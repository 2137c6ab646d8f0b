/* test_sources_threads.c - events are applied, lost, cleared and closed while requests are decided.
 * For the thread sanitizer; without it, the invariants are checked afterwards. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/route/kv_batch.h"

#define DECIDERS	2
#define REQUESTS	1500u	/* of each, at least */
#define ROUNDS		300u	/* of the publisher */
#define BLOCKS		60u
#define NAMES		3u

static atomic_bool done;
static atomic_llong now_ms = 1000000;

struct shared {
	struct world w;
	atomic_uint hits, ticks;
};

static void *decide(void *arg)
{
	struct shared *s = arg;
	struct route_scratch *scratch = route_scratch_new(s->w.r);
	struct text *body = malloc(sizeof(*body));
	struct route_request q = s->w.q;
	struct route_answer a;
	char uid[48];

	for (unsigned i = 0; i < REQUESTS || !done; i++) {
		struct fact f;

		ids(body, 200 + i % 5 * 200);
		snprintf(uid, sizeof(uid), "%p-%u", (void *)scratch, i);
		q.uid = span_str(uid);
		q.seq = -1;
		q.body = span_of(body->p, body->n);
		route_decide(s->w.r, scratch, &q, now_ms++, &a);
		s->hits += a.pages > 0;
		f = served_fact(uid);
		f.server = a.server;
		route_learn(s->w.r, &f, now_ms++);
	}
	route_scratch_free(scratch);
	free(body);
	return NULL;
}

static void publish_round(struct shared *s, struct kv_batch *k, source_id *id, unsigned i)
{
	static const char *const names[NAMES] = { "s1", "s2", "s3" };
	unsigned n = i % NAMES, rank = i / NAMES % 2;
	struct world w = { .r = s->w.r, .now = now_ms };

	if (i % 50 == 49 && id[n] != SOURCE_NONE) {
		route_source_close(s->w.r, id[n]);
		id[n] = SOURCE_NONE;
	}
	if (id[n] == SOURCE_NONE)
		id[n] = route_source_open(s->w.r, SPAN("pool"), span_str(names[n]), 2, w.now);
	assert_int_not_equal(id[n], SOURCE_NONE);
	route_source_state(s->w.r, id[n], 0, i % 13 ? KVCURSOR_SYNCED : KVCURSOR_GAP, true, w.now);
	route_source_state(s->w.r, id[n], 1, i % 17 ? KVCURSOR_SYNCED : KVCURSOR_DEGRADED, true, w.now);
	kv_stored(k, &(struct kv_stored){
		.first_handle = 1, .blocks = BLOCKS, .block_size = 16, .first_token = 1000 });
	kv_publish(&w, k, id[n], rank);
	kv_removed(k, 1 + i % BLOCKS, BLOCKS - i % BLOCKS, NULL);
	if (i % 20 == 0)
		kv_cleared(k);
	kv_publish(&w, k, id[n], rank);
	if (i % 30 == 0)
		route_source_clear(s->w.r, id[n], rank, i % 60 == 0, i % 90 == 0, w.now);
}

static void look_source(void *arg, const struct source_view *v)
{
	*(uint64_t *)arg += v->blocks;
}

static void *publish(void *arg)
{
	source_id id[NAMES] = { SOURCE_NONE, SOURCE_NONE, SOURCE_NONE };
	struct shared *s = arg;
	struct kv_batch k = { 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		publish_round(s, &k, id, i);
		now_ms += 20;
	}
	kv_free(&k);
	done = true;
	return NULL;
}

/* What the thread in the background does: ticks, steps, figures. */
static void *tick(void *arg)
{
	struct shared *s = arg;
	struct events_stats es;
	uint64_t blocks = 0;

	while (!done) {
		route_tick(s->w.r, atomic_fetch_add(&now_ms, 500) + 500);
		while (route_work(s->w.r))
			;
		route_each_source(s->w.r, look_source, &blocks);
		route_events_stats(s->w.r, &es);
		s->ticks++;
	}
	return NULL;
}

static void events_change_while_requests_are_decided(void **state)
{
	pthread_t deciders[DECIDERS], publisher, background;
	static struct shared s;
	const char *broken;

	world_options(&s.w);
	s.w.o.events_max_bytes = 1u << 20;
	s.w.o.pool_default.capacity = 50 * 16;	/* so that the index is told bounds, too */
	s.w.q.path = SPAN("/v1/completions");
	world_open(&s.w);
	assert_int_equal(pthread_create(&publisher, NULL, publish, &s), 0);
	assert_int_equal(pthread_create(&background, NULL, tick, &s), 0);
	for (unsigned i = 0; i < DECIDERS; i++)
		assert_int_equal(pthread_create(&deciders[i], NULL, decide, &s), 0);
	for (unsigned i = 0; i < DECIDERS; i++)
		pthread_join(deciders[i], NULL);
	pthread_join(publisher, NULL);
	pthread_join(background, NULL);
	assert_true(s.hits > 0 && s.ticks > 0);
	if ((broken = events_check(s.w.r->sources.events)) != NULL)
		fail_msg("events: %s", broken);
	world_end(&s.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_change_while_requests_are_decided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
