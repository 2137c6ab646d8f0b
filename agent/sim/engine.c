/* engine.c - the steps of an engine and their effect on requests. Sums are taken in the order of
 * arrival, so that other programs with the same model get the same figures to the last digit. */
#include <math.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/sim/engine.h"

#define LEAST_BUDGET	256	/* tokens of prefill in a step, however many answers it computes */

/* 25,000 prompt tokens a second and 500,000 tokens of KV: an 8B model on one H100. */
static const struct engine_profile profiles[] = {
	{ "8b-h100", 500000, 8192, 256, 6e-3, 4e-5, 1.3e-9, 5e-5, 4e-8 },
	{ "8b-h100-bigkv", 2000000, 8192, 256, 6e-3, 4e-5, 1.3e-9, 5e-5, 4e-8 },
	{ "70b-tp4", 400000, 8192, 256, 1.2e-2, 1e-4, 2.4e-9, 8e-5, 6e-8 },
	{ "stub", 131072, 2048, 256, 8e-3, 1.25e-4, 0, 5e-5, 0 },	/* tests/tools/stub_engine.c */
};

const struct engine_profile *engine_profile_at(size_t i)
{
	return i < sizeof(profiles) / sizeof(profiles[0]) ? &profiles[i] : NULL;
}

const struct engine_profile *engine_profile_of(struct span name)
{
	const struct engine_profile *p;

	for (size_t i = 0; (p = engine_profile_at(i)) != NULL; i++) {
		if (span_eq(name, span_str(p->name)))
			return p;
	}
	return NULL;
}

static uint32_t blocks_of(uint64_t tokens, uint32_t block)
{
	return (uint32_t)((tokens + block - 1) / block);
}

uint32_t engine_need(const struct sim_request *q, uint32_t block)
{
	return blocks_of((uint64_t)q->n_in + q->n_out, block);
}

uint32_t engine_room(const struct engine_profile *p, uint32_t block)
{
	uint32_t n = p->kv_tokens / block;

	return n > 8 ? n : 8;
}

static int init(struct engine *e, const struct engine_profile *p, uint32_t block, uint32_t n_blocks,
    double speed, const double *delay_s)
{
	*e = (struct engine){ .p = p, .block = block, .speed = speed, .next = INFINITY };
	e->waiting_end = &e->waiting;
	e->publishes = delay_s != NULL;
	e->prefill = mem_calloc(p->max_seqs, sizeof(struct sim_job *));
	e->decode = mem_calloc(p->max_seqs, sizeof(struct sim_job *));
	if (e->prefill != NULL && e->decode != NULL &&
	    (delay_s == NULL || kvlog_init(&e->log, n_blocks, *delay_s) == 0) &&
	    cache_init(&e->cache, n_blocks, engine_room(p, block), delay_s != NULL ? &e->log : NULL) == 0)
		return 0;
	engine_fini(e);
	return -1;
}

int engine_init(struct engine *e, const struct engine_profile *p, uint32_t block, uint32_t n_blocks,
		double speed)
{
	return init(e, p, block, n_blocks, speed, NULL);
}

int engine_init_publisher(struct engine *e, const struct engine_profile *p, uint32_t block,
    uint32_t n_blocks, double speed, double delay_s)
{
	return init(e, p, block, n_blocks, speed, &delay_s);
}

void engine_fini(struct engine *e)
{
	mem_free(e->prefill);
	mem_free(e->decode);
	cache_fini(&e->cache);
	kvlog_fini(&e->log);
	e->prefill = e->decode = NULL;
}

/* ---- the answers being generated: a heap, the next to be done first ---- */

static bool sooner(const struct sim_job *a, const struct sim_job *b)
{
	return a->v_end < b->v_end || (a->v_end == b->v_end && a->turn < b->turn);
}

static void decode_push(struct engine *e, struct sim_job *j)
{
	uint32_t i = e->n_decode++;

	while (i > 0 && sooner(j, e->decode[(i - 1) / 2])) {
		e->decode[i] = e->decode[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	e->decode[i] = j;
}

static struct sim_job *decode_pop(struct engine *e)
{
	struct sim_job *top = e->decode[0], *j = e->decode[--e->n_decode];
	uint32_t i = 0, kid;

	while ((kid = 2 * i + 1) < e->n_decode) {
		if (kid + 1 < e->n_decode && sooner(e->decode[kid + 1], e->decode[kid]))
			kid++;
		if (!sooner(e->decode[kid], j))
			break;
		e->decode[i] = e->decode[kid];
		i = kid;
	}
	e->decode[i] = j;
	return top;
}

static double decode_s(const struct engine *e)
{
	double n = e->n_decode, context = (double)e->sum_in + n * e->v - e->sum_start;

	return e->n_decode == 0 ? 0 : (e->p->d * n + e->p->e * context) / e->speed;
}

/* ---- arrival ---- */

double engine_work_s(const struct engine *e, uint64_t cached, uint64_t tokens)
{
	const struct engine_profile *p = e->p;
	double u = (double)(tokens - cached);

	return (p->b * u + p->c * u * ((double)cached + u * 0.5) + p->t0 * ceil(u / p->budget)) / e->speed;
}

static double v_now(const struct engine *e, double now)
{
	return e->v + (now - e->v_at) / e->step_s;
}

/* End a phase of decode only at its next step, or before if an answer ends. */
static void cut_decode(struct engine *e, double now)
{
	double v = v_now(e, now), step = ceil(v - 1e-9), left = step - v, end = e->decode[0]->v_end;

	e->next = now + (left > 0 ? left : 0) * e->step_s;
	if (end <= step)
		e->next = e->v_at + (end - e->v) * e->step_s;
}

static void start_step(struct engine *e, double now);

void engine_arrive(struct engine *e, struct sim_job *j, double now)
{
	uint32_t k = cache_match_wanted(&e->cache, j->ids, j->q->max_hit);

	j->work_s = engine_work_s(e, j->given ? j->q->n_in - 1 : (uint64_t)k * e->block, j->q->n_in);
	j->need = engine_need(j->q, e->block) - k;
	j->more = engine_need(j->q, e->block) - j->q->n_full;
	j->next = NULL;
	j->chunk = 0;
	e->waiting_s += j->work_s;
	e->waiting_need += j->need;
	cache_want(&e->cache, j->ids, j->q->n_full, 1);
	*e->waiting_end = j;
	e->waiting_end = &j->next;
	if (++e->n_waiting > e->max_waiting)
		e->max_waiting = e->n_waiting;
	if (e->mode == ENGINE_IDLE)
		start_step(e, now);
	else if (e->mode == ENGINE_DECODE)
		cut_decode(e, now);
}

/* ---- a step ---- */

struct step { struct engine *e; int64_t budget, tokens; double attention; };

/* Blocks that the chunk of <j> completes are in the cache's log before they are computed, because
 * the batch of a step is sent when it ends. */
static void log_chunk(struct engine *e, const struct sim_job *j)
{
	uint32_t from = j->done_tokens / e->block, to = (j->done_tokens + j->chunk) / e->block;

	if (e->publishes)
		cache_computed(&e->cache, j->ids, from, to < j->q->n_full ? to : j->q->n_full);
}

static void add_chunk(struct step *s, struct sim_job *j)
{
	int64_t n = (int64_t)j->q->n_in - j->done_tokens;

	if (n > s->budget)
		n = s->budget;
	j->chunk = (uint32_t)n;
	log_chunk(s->e, j);
	s->attention += (double)n * (j->done_tokens + (double)n * 0.5);
	s->tokens += n;
	s->budget -= n;
}

static void leave_waiting(struct engine *e, struct sim_job *j)
{
	e->waiting = j->next;
	if (e->waiting == NULL)
		e->waiting_end = &e->waiting;
	e->n_waiting--;
	e->waiting_s -= j->work_s;
	e->waiting_need -= j->need;
	cache_want(&e->cache, j->ids, j->q->n_full, -1);
}

/* Admit the first waiting request. Returns false if there is no room for it. */
static bool admit(struct engine *e, struct sim_job *j)
{
	int64_t hit = cache_admit(&e->cache, j->ids, j->q->n_full, j->q->max_hit, j->more);

	if (hit < 0)
		return false;
	leave_waiting(e, j);
	if (j->given) {
		j->done_tokens = j->q->n_in - 1;
	} else {
		j->hit = (uint32_t)hit;
		j->done_tokens = j->hit * e->block;
		e->hit_tokens += j->done_tokens;
		e->in_tokens += j->q->n_in;
	}
	e->n_served++;
	e->prefill[e->n_prefill++] = j;
	return true;
}

static void fill_step(struct engine *e, struct step *s)
{
	struct sim_job *j;

	for (uint32_t i = 0; i < e->n_prefill && s->budget > 0; i++)
		add_chunk(s, e->prefill[i]);
	while ((j = e->waiting) != NULL && s->budget > 0 && e->n_decode + e->n_prefill < e->p->max_seqs &&
	       admit(e, j))
		add_chunk(s, j);
	if (e->waiting == NULL)
		e->waiting_s = 0;	/* remove the rest of rounding */
}

static void start_step(struct engine *e, double now)
{
	struct step s = { .e = e, .budget = (int64_t)e->p->budget - e->n_decode };
	double took;

	if (s.budget < LEAST_BUDGET)
		s.budget = LEAST_BUDGET;
	fill_step(e, &s);
	e->next = INFINITY;
	e->mode = ENGINE_IDLE;
	if (s.tokens > 0) {
		took = (e->p->t0 + e->p->b * (double)s.tokens + e->p->c * s.attention) / e->speed + decode_s(e);
		e->mode = ENGINE_PREFILL;
		e->next = e->step_end = now + took;
		e->busy_s += took;
	} else if (e->n_decode > 0) {
		e->mode = ENGINE_DECODE;
		e->v_at = now;
		e->step_s = e->p->t0 / e->speed + decode_s(e);
		e->next = now + (e->decode[0]->v_end - e->v) * e->step_s;
	}
	if (e->publishes)
		kvlog_publish(&e->log, now, e->mode == ENGINE_PREFILL ? e->step_end : now);
}

/* The prompt of <j> is computed, and with it the first token. */
static void start_decode(struct engine *e, struct sim_job *j, double now)
{
	j->t_first = now;
	j->v_start = e->v;
	j->v_end = e->v + j->q->n_out - 1;
	j->turn = ++e->turns;
	e->sum_in += j->q->n_in;
	e->sum_start += j->v_start;
	decode_push(e, j);
	if (e->on_first != NULL)
		e->on_first(e->arg, j, now);
}

static void end_step(struct engine *e, double now)
{
	uint32_t left = 0, n = e->n_prefill;

	e->v += 1;
	e->n_prefill = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sim_job *j = e->prefill[i];

		j->done_tokens += j->chunk;
		j->chunk = 0;
		if (j->done_tokens >= j->q->n_in)
			start_decode(e, j, now);
		else
			e->prefill[left++] = j;
	}
	e->n_prefill = left;
}

static void end_answers(struct engine *e, double now)
{
	while (e->n_decode > 0 && e->decode[0]->v_end <= e->v + 1e-6) {
		struct sim_job *j = decode_pop(e);
		uint64_t whole = ((uint64_t)j->q->n_in + j->q->n_out) / e->block;

		e->sum_in -= j->q->n_in;
		e->sum_start -= j->v_start;
		j->t_done = now;
		cache_release(&e->cache, j->ids, j->q->n_full, j->more, (uint32_t)whole - j->q->n_full);
		if (e->on_done != NULL)
			e->on_done(e->arg, j, now);
	}
}

void engine_event(struct engine *e, double now)
{
	if (e->mode == ENGINE_PREFILL) {
		end_step(e, now);
	} else if (e->mode == ENGINE_DECODE) {
		double v = v_now(e, now), r = rint(v);

		e->v = fabs(v - r) < 1e-6 ? r : v;
	}
	end_answers(e, now);
	if (e->publishes)
		kvlog_publish(&e->log, now, now);
	start_step(e, now);
}

/* ---- foresight ---- */

static int by_end(const void *a, const void *b)
{
	const struct sim_job *x = *(struct sim_job *const *)a, *y = *(struct sim_job *const *)b;

	return sooner(x, y) ? -1 : sooner(y, x);
}

/* Return the seconds until ending answers have released <blocks>; until all have ended if they do
 * not suffice. */
static double until_room(const struct engine *e, int64_t blocks)
{
	struct sim_job *order[ENGINE_SEQS_MAX];
	double step = e->p->t0 / e->speed + decode_s(e), t = 0;

	memcpy(order, e->decode, e->n_decode * sizeof(order[0]));
	qsort(order, e->n_decode, sizeof(order[0]), by_end);
	for (uint32_t i = 0; i < e->n_decode && blocks > 0; i++) {
		blocks -= order[i]->need;
		t = (order[i]->v_end - e->v) * step;
	}
	return t;
}

static double until_step(const struct engine *e, double now)
{
	double v;

	if (e->mode == ENGINE_PREFILL)
		return e->step_end - now;
	if (e->mode == ENGINE_IDLE)
		return 0;
	v = v_now(e, now);
	return (ceil(v - 1e-9) - v) * e->step_s;
}

static double queued_s(const struct engine *e)
{
	double w = e->waiting_s;

	for (uint32_t i = 0; i < e->n_prefill; i++) {
		const struct sim_job *j = e->prefill[i];
		int64_t left = (int64_t)j->q->n_in - j->done_tokens - j->chunk;

		if (left > 0)
			w += engine_work_s(e, j->q->n_in - (uint64_t)left, j->q->n_in);
	}
	return w;
}

double engine_predict(const struct engine *e, const struct sim_job *j, double now, double *own)
{
	uint32_t k = cache_match_wanted(&e->cache, j->ids, j->q->max_hit);
	double t = until_step(e, now), total, dec = decode_s(e), room, ratio;
	int64_t over = (int64_t)e->cache.used + engine_need(j->q, e->block) - k +
		       (int64_t)e->waiting_need - e->cache.cap;

	*own = engine_work_s(e, (uint64_t)k * e->block, j->q->n_in);
	total = queued_s(e) + *own;
	if (dec > 0) {
		ratio = total / (e->p->budget * e->p->b);
		total += dec * (ratio > 1 ? ratio : 1);
	}
	if (over > 0 && e->n_decode > 0 && (room = until_room(e, over)) > t)
		t = room;
	return t + total;
}
