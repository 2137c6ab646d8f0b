/* test_share_threads.c - threads that decide and learn at two agents, while a thread of each
 * applies what the other has put and compares digests. For ThreadSanitizer above all. */
#include <pthread.h>

#include "tests/unit/route/fleet.h"

#define DECIDERS	2
#define ROUNDS		1000

struct box {			/* a queue between agents, with a lock */
	pthread_mutex_t lock;
	struct parcel *first, **last;
};

struct member {
	struct world w;
	unsigned number;
	struct box *out;
	struct route_scratch *s[DECIDERS];
};

static struct member member[2];
static struct box box[2];	/* to each */
static _Atomic int deciding;

static void put(void *arg, uint32_t part, const struct share_entry *e)
{
	struct member *m = arg;
	struct parcel *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->e = *e;
	pack(p);
	pthread_mutex_lock(&m->out->lock);
	*m->out->last = p;
	m->out->last = &p->next;
	pthread_mutex_unlock(&m->out->lock);
}

static struct parcel *taken(struct box *b)
{
	struct parcel *p;

	pthread_mutex_lock(&b->lock);
	if ((p = b->first) != NULL && (b->first = p->next) == NULL)
		b->last = &b->first;
	pthread_mutex_unlock(&b->lock);
	return p;
}

/* Apply all that has come. */
static void apply_all(struct member *m, msec now)
{
	struct parcel *p;

	while ((p = taken(&box[m->number])) != NULL) {
		route_share_apply(m->w.r, agent_id(1 - m->number), &p->e, now);
		parcel_free(p);
	}
}

static void *apply_thread(void *arg)
{
	struct member *m = arg;
	struct route_share_stats s;

	for (msec now = m->w.now; deciding > 0; now += 5) {
		apply_all(m, now);
		for (unsigned i = 0; i < 50 && route_share_work(m->w.r, now); i++)
			;
		if (now % 500 == 0)
			route_share_resync(m->w.r);
		route_tick(m->w.r, now);
		while (route_work(m->w.r))
			;
		route_share_stats(m->w.r, &s);
		sched_yield();
	}
	return NULL;
}

struct decider {
	struct member *m;
	unsigned number;
};

static void tell(
    struct member *m, const char *uid, struct span server, enum fact_kind kind, msec now)
{
	struct fact f = served_fact(uid);

	f.kind = kind;
	f.server = server;
	f.line = kind == FACT_DONE;
	f.type = SPAN(STREAM);
	route_learn(m->w.r, &f, now);
}

static void *decide_thread(void *arg)
{
	struct decider *d = arg;
	struct member *m = d->m;
	struct text *body = malloc(sizeof(*body));
	struct route_request q = m->w.q;
	struct route_answer a;
	struct rng rng;
	char uid[32], turns[8];
	msec now = m->w.now;

	assert_non_null(body);
	rng_init(&rng, d->number * 2 + m->number + 1);
	for (unsigned i = 0; i < ROUNDS; i++, now += 3) {
		snprintf(uid, sizeof(uid), "%u-%u-%u", m->number, d->number, i);
		snprintf(turns, sizeof(turns), "%c%c%c", 'a' + rng_below(&rng, 3), 'a' + rng_below(&rng, 3),
		    'a' + rng_below(&rng, 9));
		chat(body, "", turns, ",\"model\":\"m\"");
		q.uid = span_str(uid);
		q.body = span_of(body->p, body->n);
		q.seq = -1;
		route_decide(m->w.r, m->s[d->number], &q, now, &a);
		if (a.server.n == 0)
			continue;
		if (i % 4 > 0)
			tell(&member[rng_below(&rng, 2)], uid, a.server, FACT_FIRST, now);
		for (unsigned k = 0; k < 2; k++)
			tell(&member[k], uid, a.server, FACT_DONE, now + 1);
	}
	free(body);
	deciding--;
	return NULL;
}

static void two_agents_at_once(void **state)
{
	struct decider d[2 * DECIDERS];
	pthread_t t[2 * DECIDERS], apply[2];
	msec now;

	for (unsigned i = 0; i < 2; i++) {
		struct member *m = &member[i];
		struct route_share to = { .put = put, .arg = m, .parts = PARTS, .self = agent_id(i) };

		pthread_mutex_init(&box[i].lock, NULL);
		box[i].last = &box[i].first;
		m->number = i;
		m->out = &box[1 - i];
		world_options(&m->w);
		m->w.o.share = true;
		world_open(&m->w);
		assert_int_equal(route_share(m->w.r, &to), 0);
		for (unsigned k = 0; k < DECIDERS; k++)
			assert_non_null(m->s[k] = route_scratch_new(m->w.r));
	}
	deciding = 2 * DECIDERS;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&apply[i], NULL, apply_thread, &member[i]);
	for (unsigned i = 0; i < 2 * DECIDERS; i++) {
		d[i] = (struct decider){ &member[i % 2], i / 2 };
		pthread_create(&t[i], NULL, decide_thread, &d[i]);
	}
	for (unsigned i = 0; i < 2 * DECIDERS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(apply[i], NULL);
	now = member[0].w.now + 700000;		/* what is open is too old by then */
	for (unsigned i = 0; i < 2000; i++, now += 10) {
		for (unsigned k = 0; k < 2; k++) {
			apply_all(&member[k], now);
			route_tick(member[k].w.r, now);
			while (route_work(member[k].w.r))
				;
			if (i == 1000)
				route_share_resync(member[k].w.r);
			while (route_share_work(member[k].w.r, now))
				;
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		struct pairs x = pairs_of(member[0].w.r, true), y = pairs_of(member[i].w.r, true);

		assert_true(x.n > 100);
		assert_int_equal(x.n, y.n);
		assert_memory_equal(x.p, y.p, x.n * sizeof(*x.p));
		assert_int_equal(stats(&member[i].w).open, 0);
		free(x.p);
		free(y.p);
	}
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < DECIDERS; k++)
			route_scratch_free(member[i].s[k]);
		world_end(&member[i].w);
		pthread_mutex_destroy(&box[i].lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_agents_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
