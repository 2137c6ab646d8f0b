/* sim.c - the order of time: the next arrival, or the next event of an engine. There are few
 * engines, and each has one next event, so a scan for the next of all costs less than a heap. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/sim/sim.h"

#define FAIL_S	0.002	/* time until a failing engine answers */

/* The answers of failing engines, in order of time. */
struct fail {
	struct sim_job **job;
	size_t head, n;
};

void sim_defaults(struct sim_opts *o)
{
	*o = (struct sim_opts){ .n = 1, .haste = 1, .profile = *engine_profile_at(0) };
	o->kv.delay_s = SIM_KV_DELAY_S;
	o->transfer_ms = 20;
	o->transfer_1k_ms = 10;
	for (unsigned i = 0; i < SIM_ENGINES_MAX; i++)
		o->speed[i] = 1;
}

/* ---- life ---- */

static void on_first(void *arg, struct sim_job *j, double now)
{
	struct sim *f = arg;

	if (f->chooser->first != NULL)
		f->chooser->first(f->chooser->state, f, j, now);
}

/* <j> waits for one answer less. */
static void answered(struct sim *f, struct sim_job *j, double now)
{
	if (--j->waits == 0)
		due_add(&f->due, j, now + j->q->pause_s);
}

static void on_done(void *arg, struct sim_job *j, double now)
{
	struct sim *f = arg;

	f->conns[j->engine]--;
	f->n_done++;
	for (struct sim_job *k = j->then; k != NULL; k = k->sibling)
		answered(f, k, now);
	if (j->join != NULL)
		answered(f, j->join, now);
	if (f->chooser->done != NULL)
		f->chooser->done(f->chooser->state, f, j, now);
}

static int too_large(const struct sim_trace *t, const struct engine_profile *p, struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		if (engine_need(&t->r[i], t->block) > engine_room(p, t->block))
			return err_set(e,
			    "a request has %u + %u tokens and an engine has room for %u: raise --kv-tokens",
			    t->r[i].n_in, t->r[i].n_out, engine_room(p, t->block) * t->block);
	}
	return 0;
}

static int make_engine(const struct sim *f, unsigned i)
{
	const struct sim_opts *o = f->opts;
	const struct sim_trace *t = f->trace;

	if (i >= o->kv.publishers || f->chooser->heard == NULL)
		return engine_init(&f->engines[i], &o->profile, t->block, t->n_blocks, o->speed[i]);
	return engine_init_publisher(
	    &f->engines[i], &o->profile, t->block, t->n_blocks, o->speed[i], o->kv.delay_s);
}

static int make_engines(struct sim *f)
{
	const struct sim_opts *o = f->opts;

	f->engines = mem_calloc(o->n, sizeof(*f->engines));
	f->jobs = mem_calloc(f->trace->n, sizeof(*f->jobs));
	f->failures = mem_alloc(sizeof(*f->failures));
	if (f->engines == NULL || f->jobs == NULL || f->failures == NULL ||
	    due_init(&f->due, f->trace->n) < 0 ||
	    (f->failures->job = mem_calloc(f->trace->n, sizeof(struct sim_job *))) == NULL)
		return -1;
	for (unsigned i = 0; i < o->n; i++) {
		struct engine *e = &f->engines[i];

		if (make_engine(f, i) < 0)
			return -1;
		e->on_first = on_first;
		e->on_done = on_done;
		e->arg = f;
	}
	return split_init(f);
}

static void link_job(struct sim_job **by_number, struct sim_job *j)
{
	const struct sim_request *q = j->q;

	if (q->after != SIM_ALONE) {
		j->sibling = by_number[q->after]->then;
		by_number[q->after]->then = j;
		j->waits++;
	}
	if (q->join != SIM_ALONE) {
		j->join = by_number[q->join];
		j->join->waits++;
	}
}

/* Returns -1 if there is no memory. */
static int link_turns(struct sim *f)
{
	const struct sim_trace *t = f->trace;
	struct sim_job **by_number = mem_calloc(t->n, sizeof(struct sim_job *));

	if (by_number == NULL)
		return -1;
	for (size_t i = 0; i < t->n; i++)
		by_number[t->r[i].number] = &f->jobs[i];
	for (size_t i = 0; i < t->n; i++)
		link_job(by_number, &f->jobs[i]);
	mem_free(by_number);
	return 0;
}

static int start(struct sim *f)
{
	if (make_engines(f) < 0)
		return -1;
	rng_init(&f->lose, f->opts->kv.seed);
	for (unsigned i = 0; i < f->opts->n; i++)
		f->up[i] = true;
	/* an engine that comes up later is down before */
	for (unsigned i = f->opts->n_events; i-- > 0;) {
		if (f->opts->events[i].change == SIM_UP)
			f->up[f->opts->events[i].engine] = false;
	}
	for (size_t i = 0; i < f->trace->n; i++) {
		f->jobs[i] = (struct sim_job){
			.q = &f->trace->r[i], .ids = f->trace->ids + f->trace->r[i].first, .engine = -1,
			.prefill = -1,
		};
	}
	return link_turns(f);
}

void sim_fini(struct sim *f)
{
	for (unsigned i = 0; f->engines != NULL && i < f->opts->n; i++)
		engine_fini(&f->engines[i]);
	if (f->failures != NULL)
		mem_free(f->failures->job);
	mem_free(f->failures);
	due_fini(&f->due);
	split_fini(&f->split);
	mem_free(f->engines);
	mem_free(f->jobs);
	f->engines = NULL;
	f->jobs = NULL;
	f->failures = NULL;
}

/* ---- time ---- */

static double arrival_of(const struct sim *f, size_t i)
{
	return i < f->trace->n ? f->trace->r[i].at / f->opts->haste : INFINITY;
}

static void change(struct sim *f, const struct sim_event *ev)
{
	if (ev->change == SIM_UP || ev->change == SIM_DOWN)
		f->up[ev->engine] = ev->change == SIM_UP;
	else
		f->failing[ev->engine] = ev->change == SIM_FAIL;
}

static void pass_time(struct sim *f, double now)
{
	const struct sim_opts *o = f->opts;
	double span = arrival_of(f, f->trace->n - 1);

	while (f->n_events < o->n_events && o->events[f->n_events].at * span <= now)
		change(f, &o->events[f->n_events++]);
	for (; f->chooser->tick != NULL && f->next_tick <= now; f->next_tick += SIM_TICK_S)
		f->chooser->tick(f->chooser->state, f->next_tick);
}

static int in_turn(struct sim *f)
{
	for (unsigned i = 0; i < sim_decodes(f->opts); i++) {
		f->turn = (f->turn + 1) % sim_decodes(f->opts);
		if (f->up[f->turn])
			break;
	}
	return (int)f->turn;
}

static int pick(struct sim *f, struct sim_job *j, double now)
{
	const struct sim_opts *o = f->opts;
	double start_us = o->clock_us != NULL ? o->clock_us(o->clock_arg) : 0;
	int e = f->chooser->pick(f->chooser->state, f, j, now);

	if (o->clock_us != NULL)
		f->pick_us += o->clock_us(o->clock_arg) - start_us;
	if (e >= 0)
		return e;
	f->n_fallback++;
	return in_turn(f);
}

static void arrive(struct sim *f, struct sim_job *j, double now)
{
	j->t_arrived = now;
	j->expected_s = -1;
	j->engine = pick(f, j, now);
	f->conns[j->engine]++;
	if (f->chooser->sent != NULL)
		f->chooser->sent(f->chooser->state, f, j, now);
	if (!f->failing[j->engine]) {
		if (j->prefill >= 0)
			split_arrive(f, j, now);
		else
			engine_arrive(&f->engines[j->engine], j, now);
		return;
	}
	j->failed = true;
	j->t_first = j->t_done = now + FAIL_S;
	f->failures->job[f->failures->n++] = j;
	f->n_failed++;
}

static struct engine *next_engine(struct sim *f)
{
	struct engine *e = &f->engines[0];

	for (unsigned i = 1; i < f->opts->n; i++) {
		if (f->engines[i].next < e->next)
			e = &f->engines[i];
	}
	return e;
}

static double next_failure(const struct sim *f)
{
	const struct fail *x = f->failures;

	return x->head < x->n ? x->job[x->head]->t_done : INFINITY;
}

/* ---- events of engines ---- */

/* Return the engine whose next batch arrives first, and set <at>; INFINITY: there is none. */
static unsigned next_publisher(const struct sim *f, double *at)
{
	unsigned first = 0;

	*at = INFINITY;
	for (unsigned i = 0; i < f->opts->n && i < f->opts->kv.publishers; i++) {
		double t = kvlog_next(&f->engines[i].log);

		if (t < *at) {
			*at = t;
			first = i;
		}
	}
	return first;
}

static void hear(struct sim *f, unsigned engine, double now)
{
	struct kvlog_batch *b = kvlog_take(&f->engines[engine].log);
	bool lost = rng_below(&f->lose, 1u << 20) < f->opts->kv.lost * (1u << 20);

	f->n_batches++;
	f->n_lost += lost;
	if (!lost)
		f->chooser->heard(f->chooser->state, f, engine, b, now);
	mem_free(b);
}

static bool events_missing(const struct sim *f)
{
	bool missing = false;

	for (unsigned i = 0; i < f->opts->n; i++)
		missing |= f->engines[i].log.no_memory;
	return missing;
}

/* ---- the order ---- */

static double next_act(const struct sim *f)
{
	return f->chooser->next != NULL ? f->chooser->next(f->chooser->state) : INFINITY;
}

/* Return the first request from the <i>-th on that waits for no answer. */
static size_t next_alone(const struct sim *f, size_t i)
{
	while (i < f->trace->n && f->trace->r[i].after != SIM_ALONE)
		i++;
	return i;
}

static void run(struct sim *f)
{
	size_t i = 0;

	while (f->n_done < f->trace->n) {
		struct engine *e = next_engine(f);
		double fail = next_failure(f), event = e->next < fail ? e->next : fail;
		double fresh = arrival_of(f, i = next_alone(f, i)), due = due_at(&f->due), heard;
		double arrival = fresh < due ? fresh : due, now = arrival <= event ? arrival : event;
		double act = next_act(f), moved = due_at(&f->split.moving);
		unsigned publisher = next_publisher(f, &heard);

		now = moved <= now ? moved : now;
		assert(now < INFINITY);
		now = act <= now ? act : now;
		pass_time(f, heard <= now ? heard : now);
		if (heard <= now)
			hear(f, publisher, heard);
		else if (act <= now)
			f->chooser->act(f->chooser->state, now);
		else if (moved <= now)
			split_moved(f, now);
		else if (arrival <= event)
			arrive(f, due <= fresh ? due_take(&f->due) : &f->jobs[i++], now);
		else if (e->next < fail)
			engine_event(e, now);
		else
			on_done(f, f->failures->job[f->failures->head++], now);
	}
}

int sim_run(struct sim *f, const struct sim_opts *o, const struct sim_trace *t,
	      const struct chooser *c, struct err *e)
{
	*f = (struct sim){ .opts = o, .trace = t, .chooser = c, .turn = sim_decodes(o) - 1 };
	if (too_large(t, &o->profile, e) < 0)
		return -1;
	if (start(f) < 0) {
		sim_fini(f);
		return err_set(e, "not enough memory for %u engines", o->n);
	}
	run(f);
	if (!events_missing(f))
		return 0;
	sim_fini(f);
	return err_set(e, "not enough memory for the events of %u engines", o->n);
}

/* ---- result ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double share(const double *sorted, size_t n, double p)
{
	size_t i = (size_t)(p * (double)n);

	return n == 0 ? 0 : sorted[i < n ? i : n - 1];
}

static void result_times(struct sim_result *r, double *t, size_t n)
{
	double sum = 0;

	qsort(t, n, sizeof(*t), by_size);
	for (size_t i = 0; i < n; i++)
		sum += t[i];
	r->ttft_mean = n > 0 ? sum / (double)n : 0;
	r->ttft_p50 = share(t, n, .5);
	r->ttft_p90 = share(t, n, .9);
	r->ttft_p99 = share(t, n, .99);
}

/* Set the error of the expected times; <t> has room for all jobs. */
static void result_waits(
    const struct sim *f, size_t from, size_t to, double *t, struct sim_result *r)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const struct sim_job *j = &f->jobs[i];
		double real = j->t_first - j->t_arrived;

		if (!j->failed && j->expected_s >= 0 && real > 0)
			t[n++] = fabs(j->expected_s - real) / real;
	}
	qsort(t, n, sizeof(*t), by_size);
	r->wait_error = n > 0 ? share(t, n, .5) : -1;
}

static void result_engines(const struct sim *f, struct sim_result *r)
{
	double sum = 0, off = 0, mean, span = arrival_of(f, f->trace->n - 1);

	for (unsigned i = 0; i < f->opts->n; i++)
		sum += f->engines[i].busy_s;
	mean = sum / f->opts->n;
	for (unsigned i = 0; i < f->opts->n; i++)
		off += (f->engines[i].busy_s - mean) * (f->engines[i].busy_s - mean);
	for (unsigned i = 0; i < f->opts->n; i++)
		r->served[i].busy_s = f->engines[i].busy_s;
	r->busy_cv = mean > 0 ? sqrt(off / f->opts->n) / mean : 0;
	r->offered = span > 0 ? sum / (f->opts->n * span) : 0;
}

static void count_served(const struct sim *f, const struct sim_job *j, struct sim_served *s)
{
	s->requests++;
	if (j->failed)
		return;
	s->tokens += j->q->n_in;
	s->cached += (uint64_t)j->hit * f->trace->block;
}

static void result_tokens(const struct sim *f, size_t from, size_t to, struct sim_result *r)
{
	double between = 0, whole = 0;
	uint64_t tokens = 0;
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const struct sim_job *j = &f->jobs[i];

		if (j->failed)
			continue;
		n++;
		r->split += j->prefill >= 0;
		tokens += j->q->n_out - 1;
		between += j->t_done - j->t_first;
		whole += j->t_done - j->t_arrived;
	}
	r->itl_mean = tokens > 0 ? between / (double)tokens : 0;
	r->e2e_mean = n > 0 ? whole / (double)n : 0;
}

static void result_shares(const struct sim *f, struct sim_result *r)
{
	uint64_t most = 0, most_computed = 0, computed, in = 0, cached = 0;

	for (unsigned i = 0; i < f->opts->n; i++) {
		const struct sim_served *s = &r->served[i];

		in += s->tokens;
		cached += s->cached;
		most = s->requests > most ? s->requests : most;
		computed = s->tokens - s->cached;
		most_computed = computed > most_computed ? computed : most_computed;
	}
	r->most_sent = r->n > 0 ? (double)most * f->opts->n / (double)r->n : 0;
	r->most_computed = in > cached ? (double)most_computed * f->opts->n / (double)(in - cached) : 0;
	r->hit = in > 0 ? (double)cached / (double)in : 0;
}

int sim_result(const struct sim *f, size_t from, size_t to, struct sim_result *r)
{
	double *t = mem_calloc(f->trace->n, sizeof(*t));
	size_t n = 0;

	if (t == NULL)
		return -1;
	*r = (struct sim_result){ .fallback = f->n_fallback };
	for (size_t i = from; i < to && i < f->trace->n; i++) {
		const struct sim_job *j = &f->jobs[i];

		r->n++;
		r->failed += j->failed;
		count_served(f, j, &r->served[j->engine]);
		if (!j->failed)
			t[n++] = j->t_first - j->t_arrived;
	}
	result_shares(f, r);
	result_times(r, t, n);
	result_tokens(f, from, to < f->trace->n ? to : f->trace->n, r);
	result_waits(f, from, to < f->trace->n ? to : f->trace->n, t, r);
	result_engines(f, r);
	r->decide_us = f->pick_us / (double)f->trace->n;
	mem_free(t);
	return 0;
}

#define CALIBRATE_ROUNDS	6

int sim_calibrate(const struct sim_opts *o, const struct sim_trace *t, const struct chooser *c,
		    double load, double *haste, struct err *e)
{
	struct sim_opts own = *o;
	struct sim_result r;
	struct sim f;
	double by;
	int bad;

	own.haste = 1;
	own.n_events = 0;
	own.kv.publishers = 0;
	own.prefills = 0;
	own.clock_us = NULL;
	for (int i = 0; i < CALIBRATE_ROUNDS; i++) {
		if (sim_run(&f, &own, t, c, e) < 0)
			return -1;
		bad = sim_result(&f, 0, t->n, &r);
		sim_fini(&f);
		if (bad < 0)
			return err_set(e, "not enough memory");
		by = load / (r.offered > 1e-9 ? r.offered : 1e-9);
		own.haste *= fabs(by - 1) > .2 ? pow(by, 0.9) : by;
		if (fabs(by - 1) < 0.01)
			break;
	}
	*haste = own.haste;
	return 0;
}
