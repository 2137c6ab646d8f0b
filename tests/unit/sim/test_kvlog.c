/* test_kvlog.c - what simulated engines publish, decoded: it is what their caches hold, in an order
 * that can be followed, with the tokens of the bodies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/feed/kvevent.h"
#include "agent/sim/kvwire.h"
#include "agent/sim/reference.h"
#include "agent/sim/text.h"
#include "agent/sim/workload.h"

#define ENGINES		3u
#define BLOCKS_MAX	65536u
#define BLOCK_TOKENS	64u

/* What one engine said it has. */
struct heard {
	uint64_t has[BLOCKS_MAX];
	uint32_t n, stored, removed, parts;
	uint64_t next;
	double last;
};

struct listener {
	struct reference ref;
	struct chooser inner;
	struct heard heard[ENGINES];
	struct buf payload;
	uint64_t holes;
};

static uint32_t place_of(const struct heard *h, uint64_t handle)
{
	uint32_t i = 0;

	while (i < h->n && h->has[i] != handle)
		i++;
	return i;
}

static void add(struct heard *h, uint64_t handle)
{
	assert_int_equal(place_of(h, handle), h->n);
	assert_true(h->n < BLOCKS_MAX);
	h->has[h->n++] = handle;
	h->stored++;
}

static void stored(struct heard *h, struct kvevent *e)
{
	uint32_t ids[BLOCK_TOKENS];
	uint64_t handle;

	assert_true(kvevent_dense(e));
	assert_int_equal(e->block_size, BLOCK_TOKENS);
	assert_int_equal(e->tier, TIER_DEVICE);
	if (e->has_parent)
		h->parts += place_of(h, e->parent) == h->n;
	while (kvevent_hash(&e->hashes, &handle)) {
		assert_true(kvevent_tokens(&e->tokens, ids, BLOCK_TOKENS));
		add(h, handle);
	}
}

static void removed(struct heard *h, struct kvevent *e)
{
	uint64_t handle;
	uint32_t i;

	while (kvevent_hash(&e->hashes, &handle)) {
		assert_true((i = place_of(h, handle)) < h->n);
		h->has[i] = h->has[--h->n];
		h->removed++;
	}
}

static void hear(void *state, const struct sim *f, unsigned engine, const struct kvlog_batch *b,
    double now)
{
	struct listener *l = state;
	struct heard *h = &l->heard[engine];
	struct kvevent_batch k;
	struct kvevent e;

	assert_true(now >= h->last);
	h->last = now;
	assert_int_equal(kvwire_put(&l->payload, b, engine, f->trace->block), 0);
	assert_int_equal(kvevent_open(&k, span_of(l->payload.p, l->payload.n)), 0);
	assert_true(k.has_rank && k.rank == 0 && k.time == now);
	l->holes += b->seq - h->next;
	h->next = b->seq + 1;
	while (l->holes == 0 && kvevent_next(&k, &e)) {
		assert_true(e.kind == KVEVENT_STORED || e.kind == KVEVENT_REMOVED);
		if (e.kind == KVEVENT_STORED)
			stored(h, &e);
		else
			removed(h, &e);
	}
}

static int pick(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct listener *l = state;

	return l->inner.pick(l->inner.state, f, j, now);
}

/* Run <name> on small caches, so that most blocks are evicted again. */
static struct listener *run(struct sim *f, struct sim_opts *o, struct workload *w,
    const char *name)
{
	struct listener *l = calloc(1, sizeof(*l));
	static struct chooser c;
	struct err e;

	assert_non_null(l);
	c = (struct chooser){ .name = "test", .state = l, .pick = pick, .heard = hear };
	assert_int_equal(reference_init(&l->ref, &l->inner, SPAN("leastconn"), 1), 0);
	assert_int_equal(workload_make(w, span_str(name), 400, ENGINES, 3, &e), 0);
	o->n = ENGINES;
	o->profile.kv_tokens = 90000;
	if (sim_run(f, o, &w->trace, &c, &e) < 0)
		fail_msg("%s", e.text);
	return l;
}

static void end(struct sim *f, struct workload *w, struct listener *l)
{
	sim_fini(f);
	workload_free(w);
	buf_free(&l->payload);
	free(l);
}

static void the_set_is_the_cache(void **state)
{
	static const char *const names[] = { "chat", "siblings", "system" };

	for (size_t i = 0; i < 3; i++) {
		struct listener *l;
		struct workload w;
		struct sim_opts o;
		struct sim f;

		sim_defaults(&o);
		o.kv.publishers = ENGINES;
		l = run(&f, &o, &w, names[i]);
		for (unsigned k = 0; k < ENGINES; k++) {
			struct engine *e = &f.engines[k];
			struct kvlog_batch *b;

			while (kvlog_next(&e->log) < INFINITY) {
				b = kvlog_take(&e->log);
				hear(l, &f, k, b, b->at);
				mem_free(b);
			}
			assert_int_equal(e->cache.used, 0);
			assert_int_equal(l->heard[k].n, e->cache.kept);
			assert_true(l->heard[k].stored > e->cache.kept || i == 2);
		}
		assert_int_equal(l->holes, 0);
		end(&f, &w, l);
	}
}

static void only_publishers_are_heard(void **state)
{
	struct listener *l;
	struct workload w;
	struct sim_opts o;
	struct sim f;

	sim_defaults(&o);
	o.kv.publishers = 1;
	l = run(&f, &o, &w, "chat");
	assert_true(l->heard[0].stored > 0);
	assert_true(l->heard[1].stored == 0 && l->heard[2].stored == 0);
	end(&f, &w, l);
}

static void lost_batches_leave_holes(void **state)
{
	struct listener *l;
	struct workload w;
	struct sim_opts o;
	struct sim f;

	sim_defaults(&o);
	o.kv.publishers = ENGINES;
	o.kv.lost = .2;
	o.kv.seed = 5;
	l = run(&f, &o, &w, "chat");
	assert_true(f.n_lost > f.n_batches / 8 && f.n_lost < f.n_batches / 3);
	assert_true(l->holes > 0 && l->holes <= f.n_lost);
	end(&f, &w, l);
}

/* ---- one engine, by hand ---- */

static const struct engine_profile round_numbers = {
	.name = "round", .kv_tokens = 1600, .budget = 300, .max_seqs = 4, .t0 = 1, .b = 0.01, .d = 0.5,
};

static const uint32_t up[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static void next_batch(struct engine *e, double at, const struct kvlog_event *want, size_t n)
{
	struct kvlog_batch *b;

	if (fabs(kvlog_next(&e->log) - at) > 1e-9)
		fail_msg("a batch at %.6f, not %.6f", kvlog_next(&e->log), at);
	b = kvlog_take(&e->log);
	assert_int_equal(b->n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(b->events[i].stored, want[i].stored);
		assert_int_equal(b->events[i].block, want[i].block);
		if (want[i].stored)
			assert_int_equal(b->events[i].parent, want[i].parent);
	}
	mem_free(b);
}

/* 500 tokens in chunks of 300 and 200, and 120 more generated, which fill one block. */
static void a_batch_a_step(void **state)
{
	struct sim_request q = { .n_in = 500, .n_out = 120, .n_full = 5, .n_ids = 5, .max_hit = 4 };
	struct sim_job j = { .q = &q, .ids = up };
	struct engine e;

	assert_int_equal(engine_init_publisher(&e, &round_numbers, 100, 64, 1, -.25), 0);
	engine_arrive(&e, &j, 0);
	while (e.next < INFINITY)
		engine_event(&e, e.next);
	next_batch(&e, 4 - .25, (struct kvlog_event[]){
		{ true, 0, KVLOG_NO_PARENT }, { true, 1, 0 }, { true, 2, 1 } }, 3);
	next_batch(&e, 7 - .25, (struct kvlog_event[]){ { true, 3, 2 }, { true, 4, 3 } }, 2);
	next_batch(&e, j.t_done, (struct kvlog_event[]){ { true, KVLOG_GENERATED, 4 } }, 1);
	assert_true(isinf(kvlog_next(&e.log)));
	engine_fini(&e);
}

/* Room for 16 blocks, of which the first request leaves six. The second needs 14, so four go: the
 * answer's, and the deepest of the prompt. */
static void the_deepest_go_first(void **state)
{
	static const uint32_t other[] = { 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 };
	struct sim_request q = { .n_in = 500, .n_out = 120, .n_full = 5, .n_ids = 5, .max_hit = 4 };
	struct sim_request q2 = { .n_in = 1310, .n_out = 1, .n_full = 13, .n_ids = 13, .max_hit = 13 };
	struct sim_job j = { .q = &q, .ids = up }, j2 = { .q = &q2, .ids = other };
	struct engine e;

	assert_int_equal(engine_init_publisher(&e, &round_numbers, 100, 64, 1, 0), 0);
	engine_arrive(&e, &j, 0);
	while (e.next < INFINITY)
		engine_event(&e, e.next);
	while (kvlog_next(&e.log) < INFINITY)
		mem_free(kvlog_take(&e.log));
	engine_arrive(&e, &j2, 100);
	next_batch(&e, 104, (struct kvlog_event[]){
		{ false, KVLOG_GENERATED }, { false, 4 }, { false, 3 }, { false, 2 },
		{ true, 20, KVLOG_NO_PARENT }, { true, 21, 20 }, { true, 22, 21 } }, 7);
	engine_fini(&e);
}

/* ---- tokens ---- */

static void bodies_have_the_same_ids(void **state)
{
	struct workload w;
	struct buf b = { 0 };
	struct err e;

	assert_int_equal(workload_make(&w, SPAN("chat"), 20, 2, 1, &e), 0);
	for (size_t i = 0; i < w.trace.n; i++) {
		const struct sim_request *q = &w.trace.r[i];
		const char *p;

		assert_int_equal(text_body(&b, &w.trace, q, SIM_TEXT_IDS), 0);
		p = strchr(b.p, '[');
		for (uint32_t k = 0; k < q->n_full; k++) {
			uint8_t ids[BLOCK_TOKENS];

			text_ids(ids, w.trace.ids[q->first + k], BLOCK_TOKENS);
			for (uint32_t t = 0; t < BLOCK_TOKENS; t++)
				assert_int_equal(strtoul(p + 1, (char **)&p, 10), ids[t]);
		}
	}
	buf_free(&b);
	workload_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_set_is_the_cache),
		cmocka_unit_test(only_publishers_are_heard),
		cmocka_unit_test(lost_batches_leave_holes),
		cmocka_unit_test(a_batch_a_step),
		cmocka_unit_test(the_deepest_go_first),
		cmocka_unit_test(bodies_have_the_same_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
