/* A cursor against a publisher that drops, repeats and loses batches, restarts and falls silent, at
 * random. The truth is the publisher's own list of batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "agent/feed/kvcursor.h"

#define QUEUE	4096
#define SEEDS	150
#define STEPS	3000

struct payload {
	uint32_t start;		/* which start of the engine */
	uint64_t sequence;
};

struct queue {
	struct kvframe f[QUEUE];
	struct payload body[QUEUE];
	uint32_t at, n;
};

struct world {
	struct rng rng;
	struct kvcursor c;
	msec now;
	/* the publisher */
	uint32_t start;
	uint64_t next, buffer;		/* batches published; the most that it keeps */
	unsigned drop, silent, cut;	/* percent: live frames, replays, replays cut off */
	bool up;
	struct queue live, replay;
	bool dealer;			/* the replay socket is open */
	/* what was applied since the last clear */
	struct payload first, last;
	uint64_t n;
	bool mixed;			/* of two starts */
	uint32_t zero_asked;		/* times, of this start of the engine, with an answer */
};

static bool chance(struct world *w, unsigned percent)
{
	return rng_below(&w->rng, 100) < percent;
}

static void push(struct queue *q, uint32_t start, uint64_t sequence, bool end)
{
	uint32_t i = (q->at + q->n) % QUEUE;

	if (q->n == QUEUE)
		return;
	q->n++;
	q->body[i] = (struct payload){ start, sequence };
	q->f[i] = (struct kvframe){ .has_sequence = true, .sequence = sequence, .end = end };
	if (!end)
		q->f[i].payload = span_of((const char *)&q->body[i], sizeof(q->body[i]));
}

static const struct kvframe *pop(struct queue *q)
{
	const struct kvframe *f = &q->f[q->at];

	if (q->n == 0)
		return NULL;
	q->at = (q->at + 1) % QUEUE;
	q->n--;
	return f;
}

/* ---- the core --------------------------------------------------------------------------- */

static bool apply(void *arg, struct span payload, struct kvcursor_effect *out)
{
	struct world *w = arg;
	struct payload p;

	assert_int_equal(payload.n, sizeof(p));
	memcpy(&p, payload.p, sizeof(p));
	if (w->n == 0)
		w->first = p;
	else if (p.start == w->last.start)
		assert_true(p.sequence > w->last.sequence);
	else
		w->mixed = true;
	w->last = p;
	w->n++;
	out->stored = 2;
	out->removed = p.sequence > 100 ? 2 : 0;
	return true;
}

static void clear(void *arg, bool from_start, bool restarted)
{
	struct world *w = arg;

	w->n = 0;
	w->mixed = false;
}

static const struct kvcursor_calls calls = { .apply = apply, .clear = clear };

/* ---- the publisher ---------------------------------------------------------------------- */

static void publish(struct world *w)
{
	if (w->up && !chance(w, w->drop)) {
		push(&w->live, w->start, w->next, false);
		if (chance(w, 2))
			push(&w->live, w->start, w->next, false);
	}
	w->next++;
}

static void serve_replay(struct world *w, uint64_t from)
{
	uint64_t oldest = w->next > w->buffer ? w->next - w->buffer : 0;

	w->dealer = true;
	if (chance(w, w->silent))
		return;
	if (from == 0 && w->next > 0)
		w->zero_asked++;
	for (uint64_t s = from > oldest ? from : oldest; s < w->next; s++) {
		if (chance(w, w->cut) && chance(w, 20))
			return;
		if (!chance(w, w->cut) || chance(w, 98))
			push(&w->replay, w->start, s, false);
	}
	push(&w->replay, 0, UINT64_MAX, true);
}

static void lose_connection(struct world *w)
{
	if (!w->up)
		return;
	w->up = false;
	kvcursor_disconnected(&w->c, w->now);
	if (chance(w, 50))
		w->live.n = 0;
}

static void restart(struct world *w)
{
	lose_connection(w);
	w->live.n = w->replay.n = 0;
	w->start++;
	w->next = chance(w, 50) ? 0 : rng_below(&w->rng, 200);
	w->zero_asked = 0;
}

static void connect_again(struct world *w)
{
	if (w->up)
		return;
	w->up = true;
	kvcursor_connected(&w->c, w->now);
}

/* ---- the agent -------------------------------------------------------------------------- */

static void tend_replay(struct world *w)
{
	uint64_t from;

	if (w->dealer && !kvcursor_replaying(&w->c) && !w->c.clean) {
		w->dealer = false;	/* closed, with all that is on its way */
		w->replay.n = 0;
	}
	if (!kvcursor_replay_due(&w->c, w->now))
		return;
	from = kvcursor_replay_begin(&w->c, w->now);
	if (!w->up || chance(w, w->silent))
		return;
	kvcursor_replay_sent(&w->c, w->now);
	serve_replay(w, from);
}

static void agent_turn(struct world *w, unsigned most)
{
	const struct kvframe *f;

	for (unsigned i = 0; i < most && w->live.n + w->replay.n > 0; i++) {
		if (chance(w, 50) && (f = pop(&w->live)) != NULL)
			kvcursor_live(&w->c, f, w->now);
		else if ((f = pop(&w->replay)) != NULL)
			kvcursor_replay_frame(&w->c, f, w->now);
		tend_replay(w);
	}
	kvcursor_tick(&w->c, w->now);
	tend_replay(w);
}

static void check(const struct world *w)
{
	const struct kvcursor *c = &w->c;

	assert_true(c->n_held <= c->o->hold_batches && c->store->used <= c->store->max);
	assert_true(c->replay == KVCURSOR_NONE || c->connected);
	assert_true(!c->from_start || !c->begun || w->n == 0 || w->first.sequence == 0);
	if (kvcursor_state(c) == KVCURSOR_SYNCED && c->numbered && w->n > 0)
		assert_true(w->last.sequence + 1 == c->next || !c->has_hash);
}

/* Without faults from now on, the cursor comes to what the publisher has. */
static void settle(struct world *w, bool replay)
{
	w->drop = w->silent = w->cut = 0;
	connect_again(w);
	for (int i = 0; i < 4000; i++) {
		w->now += 100;
		if (i % 10 == 0)
			publish(w);
		agent_turn(w, 400);
		check(w);
	}
	assert_int_equal(w->last.start, w->start);
	assert_int_equal(w->last.sequence + 1, w->next);
	assert_false(w->mixed);
	if (replay)
		assert_int_equal(kvcursor_state(&w->c), KVCURSOR_SYNCED);
	if (w->c.from_start) {
		assert_int_equal(w->first.sequence, 0);
		assert_int_equal(w->n, w->next);
	}
}

/* Nothing is on its way meanwhile, so that this is no silence. */
static void let_pass(struct world *w)
{
	for (int i = 0; i < 10 || (w->replay.n > 0 && i < 100); i++)
		agent_turn(w, UINT32_MAX);
	w->now += 5000;
}

static void step(struct world *w)
{
	unsigned what = rng_below(&w->rng, 1000);

	w->now += rng_below(&w->rng, 60);
	if (what < 600)
		publish(w);
	else if (what < 990)
		agent_turn(w, 1 + rng_below(&w->rng, 20));
	else if (what < 993)
		let_pass(w);
	else if (what < 995)
		lose_connection(w);
	else if (what < 999)
		connect_again(w);
	else
		restart(w);
	check(w);
}

/* <reliable>: the replay socket always answers, and keeps everything. */
static void run(uint64_t seed, bool replay, bool reliable)
{
	struct kvcursor_store store = { .max = 400 };
	struct hash_key key = { .secret = "random" };
	struct world *w = calloc(1, sizeof(*w));
	struct kvcursor_opts o;

	rng_init(&w->rng, seed);
	kvcursor_defaults(&o);
	o.replay = replay;
	o.hold_batches = 1 + rng_below(&w->rng, 40);
	o.lost_max = 200;
	w->buffer = reliable ? 1000000 : rng_below(&w->rng, 100);
	w->drop = rng_below(&w->rng, 2) ? 5 : 30;
	w->silent = reliable ? 0 : rng_below(&w->rng, 60);
	w->cut = reliable ? 0 : rng_below(&w->rng, 30);
	kvcursor_init(&w->c, &o, &calls, w, &key, &store, &w->rng);
	for (int i = 0; i < STEPS; i++) {
		step(w);
		assert_true(!reliable || !w->mixed);
		assert_true(!reliable || w->c.count.lost == 0);
	}
	if (!reliable)
		restart(w);
	settle(w, replay);
	if (reliable)
		assert_true(w->c.from_start && w->n == w->next);
	kvcursor_fini(&w->c);
	assert_int_equal(store.used, 0);
	free(w);
}

static void a_publisher_that_answers_is_followed_exactly(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(seed, true, true);
}

static void a_publisher_that_may_not_answer(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(seed, true, false);
}

static void a_publisher_without_replay(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(seed, false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_publisher_that_answers_is_followed_exactly),
		cmocka_unit_test(a_publisher_that_may_not_answer),
		cmocka_unit_test(a_publisher_without_replay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
