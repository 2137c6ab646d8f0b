/* test_threads.c - decide, learn, tick, read and reconfigure at once, all on the same few
 * prefixes. For the thread sanitizer; without it, the invariants are checked afterwards. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/unit/route/world.h"

#define THREADS		4
#define REQUESTS	2000u	/* of each thread, at least */
#define LOOKS		100u	/* of the watcher */

static atomic_bool stop;
static atomic_llong now_ms = 1000000;

struct worker {
	struct world *w;		/* shared: only its router is used */
	unsigned id;
	uint64_t asked, named;
};

static const char *const talks[] = { "abcd", "abef", "abcdxy", "a", "abcdzw", "ghij" };

static void one_request(struct worker *me, struct route_scratch *s, struct text *body, unsigned i)
{
	struct route_request q = me->w->q;
	struct route_answer a;
	struct fact f;
	char uid[32], load[128];
	size_t half;

	chat(body, "\"model\":\"m\",", talks[(i + me->id) % 6], "");
	snprintf(uid, sizeof(uid), "%u-%u", me->id, i);
	snprintf(load, sizeof(load), "lb%u/1;s1=1,%u,0,1;s2=1,1,0,1;s3=%d,0,0,1;s4=1,0,0,%d",
		 me->id % 2, i % 5, i % 16 != 0, i % 8 != 0);
	q.uid = span_str(uid);
	q.tenant = i % 4 ? SPAN("acme") : SPAN("gamma");
	q.load = span_str(load);
	q.seq = -1;
	half = body->n / 2;
	if (i % 3 == 0) {
		q.seq = 0;
		q.visible = q.whole = (int64_t)body->n;
		q.body = span_of(body->p, half);
		route_decide(me->w->r, s, &q, now_ms++, &a);
		q = (struct route_request){
			.uid = q.uid, .seq = 1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL
		};
		q.body = span_of(body->p + half, body->n - half);
	} else {
		q.body = span_of(body->p, body->n);
	}
	route_decide(me->w->r, s, &q, now_ms++, &a);
	route_took(me->w->r, &a, i % 100);
	me->asked++;
	me->named += a.server.n > 0;
	fact_init(&f, i % 5 ? FACT_FIRST : FACT_DONE);
	f.uid = span_str(uid);
	f.server = i % 7 ? a.server : SPAN("s2");
	f.status = i % 11 ? 200 : 503;
	f.type = SPAN(STREAM);
	route_learn(me->w->r, &f, now_ms++);
	f.kind = FACT_DONE;
	f.response_ms = 5;
	f.bytes_out = i % 100 * 10000;
	route_learn(me->w->r, &f, now_ms++);
}

static void *work(void *arg)
{
	struct route_scratch *s;
	struct worker *me = arg;
	struct text *body = malloc(sizeof(*body));

	s = route_scratch_new(me->w->r);
	for (unsigned i = 0; i < REQUESTS || !stop; i++)
		one_request(me, s, body, i);
	route_scratch_free(s);
	free(body);
	return NULL;
}

static void look(void *arg, const struct route_server_view *v)
{
	*(uint64_t *)arg += v->picked;
}

static void look_compared(void *arg, const struct route_compare_view *v)
{
	*(uint64_t *)arg += v->same;
}

/* Numbers go down, and each record is whole. */
static void read_decisions(struct world *w)
{
	static struct decision x[64];
	static uint32_t blocks[DECISION_BLOCKS_MAX];
	struct decisions *d = route_decisions(w->r);
	size_t n = decisions_read(d, UINT64_MAX, x, 64);
	char name[SERVER_NAME_MAX + 1];

	for (size_t i = 0; i < n; i++) {
		assert_true(i == 0 || x[i].number == x[i - 1].number - 1);
		assert_true(x[i].n_kept <= DECISION_CANDIDATES && x[i].us < 100);
		decisions_name_of(d, x[i].chosen, name, sizeof(name));
		decisions_blocks_of(d, &x[i], blocks);
		route_uid_counts(w->r, x[i].uid_hash);
	}
}

static void *watch(void *arg)
{
	struct world *w = arg;
	struct tenant_opts t[2] = { { "acme", 4096 }, { "beta", 8192 } };
	struct route_opts o = w->o;

	for (unsigned i = 0; i < LOOKS; i++) {
		struct timespec pause = { .tv_nsec = 1000000 };
		uint64_t picked = 0;

		now_ms += 50;
		route_tick(w->r, now_ms);
		while (route_work(w->r))
			;
		route_each_server(w->r, now_ms, look, &picked);
		pool(w);
		stats(w);
		read_decisions(w);
		route_each_compared(w->r, look_compared, &picked);
		for (unsigned k = 0; k < COMPARE_MAX; k++)
			o.pool_default.compare[k] = (uint8_t)(i / 20 % 3 < 2 ? (i / 10 + k * 5) % RULE_COUNT + 1 : 0);
		o.pool_default.policy.rule = (enum policy_rule)(i / 10 % RULE_COUNT);
		o.pool_default.capacity = i / 10 % 3 * 400;
		o.pool_default.max_tree_size = i / 10 % 5 * 640;
		o.pool_default.eviction_interval_ms = i / 10 % 2 * 200;
		o.tenants = t;
		o.n_tenants = i / 10 % 3;
		o.server_max_age_ms = i % 20 == 0 ? 1 : 600000;
		if (i % 5 == 0)
			route_reconfigure(w->r, &o);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void all_at_once(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS], watcher;
	uint64_t asked = 0, named = 0;
	struct world w;

	(void)state;
	world_start(&w);
	stop = false;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .w = &w, .id = i };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&watcher, NULL, watch, &w), 0);
	pthread_join(watcher, NULL);
	stop = true;
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		asked += workers[i].asked;
		named += workers[i].named;
	}
	print_message("%llu requests\n", (unsigned long long)asked);
	assert_true(asked >= THREADS * REQUESTS);
	assert_true(named > asked / 2);
	assert_int_equal(stats(&w).requests, asked);
	assert_int_equal(stats(&w).open, 0);		/* each has got its end */
	assert_int_equal(stats(&w).index.claims, 0);
	assert_int_equal(stats(&w).slices_waiting, 0);
	world_end(&w);
}

/* ---- a reload while all threads are busy -------------------------------------------------- */

#define LONG_BYTES	200000
#define RELOADS		10
#define RELOADS_MS	600000	/* of sleep: then some thread is starved */

static char long_body[LONG_BYTES + 100];
static atomic_uint reloads;

/* Long prompts: some thread is deciding at any moment. */
static void *decide_long(void *arg)
{
	struct worker *me = arg;
	struct route_scratch *s = route_scratch_new(me->w->r);
	struct route_request q = me->w->q;
	struct route_answer a;
	char uid[32];

	q.seq = -1;
	q.body = span_str(long_body);
	while (!stop) {
		snprintf(uid, sizeof(uid), "%u-%llu", me->id, (unsigned long long)me->asked++);
		q.uid = span_str(uid);
		route_decide(me->w->r, s, &q, now_ms++, &a);
	}
	route_scratch_free(s);
	return NULL;
}

static void *reload(void *arg)
{
	struct world *w = arg;

	while (!stop && reloads < RELOADS) {
		route_reconfigure(w->r, &w->o);
		reloads++;
	}
	return NULL;
}

static void a_reload_has_its_turn(void **state)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	struct worker workers[THREADS];
	pthread_t threads[THREADS], reloader;
	int n = snprintf(long_body, sizeof(long_body),
	    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	unsigned waited = 0, done;
	struct world w;

	(void)state;
	memset(long_body + n, 'x', LONG_BYTES);
	strcpy(long_body + n + LONG_BYTES, "\"}]}");
	world_start(&w);
	stop = false;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .w = &w, .id = i };
		assert_int_equal(pthread_create(&threads[i], NULL, decide_long, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&reloader, NULL, reload, &w), 0);
	for (; reloads < RELOADS && waited < RELOADS_MS; waited += 10)
		nanosleep(&pause, NULL);
	done = reloads;
	stop = true;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(reloader, NULL);
	print_message("%u reloads beside %u busy threads\n", done, THREADS);
	assert_int_equal(done, RELOADS);
	world_end(&w);
}

/* ---- one uid on several threads ----------------------------------------------------------- */

#define ROUNDS		300u

/* Each request comes to all threads, and so do its facts. */
static void *same_uid(void *arg)
{
	struct worker *me = arg;
	struct route_scratch *s = route_scratch_new(me->w->r);
	struct text *body = malloc(sizeof(*body));
	struct route_request q = me->w->q;
	struct route_answer a;
	struct fact f;
	char uid[32];

	for (unsigned i = 0; i < ROUNDS; i++) {
		chat(body, "\"model\":\"m\",", talks[i % 6], "");
		snprintf(uid, sizeof(uid), "all-%u", i);
		q.uid = span_str(uid);
		q.seq = -1;
		q.body = span_of(body->p, body->n);
		route_begin(me->w->r, s, &q, now_ms++, &a);
		if ((i + me->id) % 3 == 0)
			sched_yield();
		route_finish(me->w->r, s);
		me->asked++;
		fact_init(&f, (i + me->id) % 4 == 0 ? FACT_DONE : FACT_FIRST);
		f.uid = q.uid;
		f.server = a.server;
		f.status = 200;
		f.type = SPAN(STREAM);
		f.response_ms = 5;
		route_learn(me->w->r, &f, now_ms++);
	}
	route_scratch_free(s);
	free(body);
	return NULL;
}

static void *reload_often(void *arg)
{
	struct world *w = arg;
	struct timespec pause = { .tv_nsec = 1000000 };
	struct route_opts o = w->o;

	for (unsigned i = 0; !stop; i++) {
		o.pool_default.mode = i % 2 ? MODE_ON : MODE_SHADOW;
		route_reconfigure(w->r, &o);
		route_tick(w->r, now_ms);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void one_uid_on_all_threads(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS], reloader;
	char uid[32];
	struct world w;

	(void)state;
	world_start(&w);
	stop = false;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .w = &w, .id = i };
		assert_int_equal(pthread_create(&threads[i], NULL, same_uid, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&reloader, NULL, reload_often, &w), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop = true;
	pthread_join(reloader, NULL);
	assert_int_equal(stats(&w).requests, THREADS * ROUNDS);
	assert_true(stats(&w).open <= ROUNDS);		/* one entry for each uid */
	for (unsigned i = 0; i < ROUNDS; i++) {
		snprintf(uid, sizeof(uid), "all-%u", i);
		tell_done(&w, uid, "s1", 200, "--", 20);
	}
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).index.claims, 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_at_once),
		cmocka_unit_test(one_uid_on_all_threads),
		cmocka_unit_test(a_reload_has_its_turn) };

	return cmocka_run_group_tests_name("route threads", tests, NULL, NULL);
}
