/* agents_exchange.c - entries from agent to agent: the router puts them into its outbox, the stream
 * carries the batches, and the inbox of each sibling gives them to its router. All bytes are those
 * of production. */
#include <math.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/sim/agents_in.h"

#define PARTS		1u
#define OUTBOX_BYTES	((size_t)8 << 20)
#define WALL_MS		1700000000000	/* of the clock's 0 */
#define REPAIR_STEPS	10000		/* of route_share_work() at once */
#define SNAPSHOT_NODES	4096u

static msec now_ms(const struct agents *a)
{
	return router_msec(a->now);
}

/* A time of the core's clock in seconds of the simulation, and a little later, because the core
 * rounds down. */
static double seconds_of(msec at)
{
	return (double)(at - router_msec(0)) / 1000 + 1e-6;
}

/* ---- out ---- */

/* Count <e> for the request that it is about: alone in a batch, and after another entry that names
 * the same server. */
static void measure(struct agents *a, const struct share_entry *e)
{
	struct said *s;
	size_t alone;

	share_write_start(a->writer, &a->key, a->scratch, 2 * SHARE_BATCH_MAX);
	if (share_write(a->writer, e) < 0)
		return;
	alone = a->writer->n;
	if (share_write(a->writer, e) < 0)
		return;
	s = &a->said[a->asking];
	s->entries++;
	s->bytes += (uint32_t)(a->writer->n - alone);
	s->alone += (uint32_t)(alone + SHARE_EMPTY_BYTES - SHARE_HEADER_BYTES);
}

static void put(void *arg, uint32_t part, const struct share_entry *e)
{
	struct agent *g = arg;
	struct agents *a = g->all;
	double start_us = agents_clock_us(a);

	share_outbox_put(g->outbox, part, e, now_ms(a));
	a->flush_at = fmin(a->flush_at, a->now);
	if (a->asking == ALL_REQUESTS)
		return;
	g->asked = true;
	a->put_us += agents_took_us(a, start_us);
	measure(a, e);
	if (a->deciding)
		a->put_in_decision_us += agents_took_us(a, start_us);
}

static void flush_part(struct agents *a, struct agent *g, uint32_t part)
{
	struct span batch;
	double start_us;
	msec due_at;

	while (share_outbox_due(g->outbox, part, now_ms(a), &due_at)) {
		start_us = agents_clock_us(a);
		batch = share_outbox_take(g->outbox, part, now_ms(a), WALL_MS + now_ms(a));
		if (batch.n == 0)
			return;
		if (g->asked)
			a->take_us += agents_took_us(a, start_us);
		if (stream_write(&a->stream, g->i, part, batch, a->now) < 0)
			a->no_memory = true;
		share_outbox_sent(g->outbox, part);
	}
	g->asked = false;
	if (due_at != INT64_MAX)
		a->flush_at = fmin(a->flush_at, seconds_of(due_at));
}

static void flush(struct agents *a)
{
	a->flush_at = INFINITY;
	for (unsigned i = 0; i < a->opts.n; i++) {
		for (uint32_t part = 0; a->agent[i].router != NULL && part < PARTS; part++)
			flush_part(a, &a->agent[i], part);
	}
}

static void say_alive(struct agents *a)
{
	struct share_entry e = { .kind = SHARE_ALIVE, .u.alive = { .warm = true } };

	a->alive_at = a->now + SHARE_ALIVE_MS / 1000.;
	for (unsigned i = 0; i < a->opts.n; i++) {
		if (a->agent[i].router == NULL)
			continue;
		e.u.alive.open = route_share_open(router_core(a->agent[i].router));
		for (uint32_t part = 0; part < PARTS; part++)
			put(&a->agent[i], part, &e);
	}
}

/* ---- in ---- */

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	struct agent *g = arg;

	g->all->applied |= e->kind <= SHARE_TAKEN_BACK;
	route_share_apply(router_core(g->router), from, e, now_ms(g->all));
}

static void arrive(struct agents *a, const struct stream_copy *c)
{
	struct agent *g = &a->agent[c->to];
	double start_us = agents_clock_us(a);
	enum share_read got;

	if (g->router == NULL)
		return;
	a->applied = false;
	got = share_inbox_read(g->inbox, c->part, span_of(c->bytes, c->n), now_ms(a),
	    WALL_MS + now_ms(a), apply, g);
	if (a->applied)
		a->apply_us += agents_took_us(a, start_us);
	if (got != SHARE_READ_HOLE && got != SHARE_READ_JOINED)
		return;
	a->resyncs++;
	route_share_resync(router_core(g->router));
}

static void gone(void *arg, share_agent agent)
{
	struct agent *g = arg;

	while (route_share_gone(router_core(g->router), agent, now_ms(g->all)))
		;
}

/* ---- time ---- */

double exchange_next(const struct agents *a)
{
	return fmin(a->flush_at, stream_next(&a->stream));
}

void exchange_act(struct agents *a)
{
	struct stream_copy *c;

	while (stream_next(&a->stream) <= a->now) {
		c = stream_take(&a->stream);
		arrive(a, c);
		mem_free(c);
	}
	if (a->flush_at <= a->now)
		flush(a);
}

static void repair(struct agents *a, struct agent *g)
{
	unsigned steps = 0;
	bool more = true;

	while (more && steps++ < REPAIR_STEPS) {
		double start_us = agents_clock_us(a);

		more = route_share_work(router_core(g->router), now_ms(a));
		a->repair_us += agents_took_us(a, start_us);
	}
}

void exchange_tick(struct agents *a)
{
	for (unsigned i = 0; i < a->opts.n; i++) {
		struct agent *g = &a->agent[i];

		if (g->router == NULL)
			continue;
		share_inbox_age(g->inbox, now_ms(a), gone, g);
		repair(a, g);
	}
	if (a->alive_at <= a->now)
		say_alive(a);
}

/* ---- a fresh agent ---- */

static int add_bytes(void *arg, const void *p, size_t n)
{
	struct buf *b = arg;

	buf_add(b, p, n);
	return b->failed ? -1 : 0;
}

int exchange_snapshot(struct agents *a, unsigned i, struct buf *to)
{
	struct snapshot_writer *w =
	    route_snapshot(router_core(a->agent[i].router), now_ms(a), WALL_MS + now_ms(a),
		add_bytes, to);
	int state = w != NULL ? 0 : -1;

	while (state == 0)
		state = snapshot_write(w, SNAPSHOT_NODES);
	snapshot_writer_free(w);
	return state;
}

/* Load what the next sibling knows. */
static int warm_up(struct agents *a, unsigned i)
{
	unsigned from = (i + 1) % a->opts.n;
	struct route_saved saved = { .theirs = true, .now = now_ms(a), .wall_ms = WALL_MS + now_ms(a) };
	struct snapshot_stats st;
	struct buf b = { 0 };
	struct err e;
	int bad;

	if (from == i || a->agent[from].router == NULL)
		return 0;
	bad = exchange_snapshot(a, from, &b) < 0 ? -1 : 0;
	saved.bytes = (const uint8_t *)b.p;
	saved.n = b.n;
	if (bad == 0)
		bad = route_restore(router_core(a->agent[i].router), &saved, &st, &e);
	buf_free(&b);
	return bad;
}

int exchange_join(struct agents *a, unsigned i)
{
	struct agent *g = &a->agent[i];
	struct route_share to = { .put = put, .arg = g, .parts = PARTS };

	g->all = a;
	g->i = i;
	g->id = to.self = hash_mix(&a->key, i, g->lives++);
	g->outbox = share_outbox_new(&a->key, g->id, PARTS, OUTBOX_BYTES);
	g->inbox = share_inbox_new(&a->key, g->id, PARTS);
	if (g->outbox == NULL || g->inbox == NULL || route_share(router_core(g->router), &to) < 0)
		return -1;
	return a->sim != NULL ? warm_up(a, i) : 0;
}

static void add_stats(struct route_share_stats *to, const struct route_share_stats *s)
{
	uint64_t *sum = (uint64_t *)to;
	const uint64_t *one = (const uint64_t *)s;

	for (size_t i = 0; i < sizeof(*s) / sizeof(*one); i++)
		sum[i] += one[i];
}

void exchange_stats(struct agents *a, struct route_share_stats *sum)
{
	struct route_share_stats s;

	*sum = (struct route_share_stats){ 0 };
	for (unsigned i = 0; i < a->opts.n; i++) {
		add_stats(sum, &a->agent[i].before);
		if (a->agent[i].router == NULL)
			continue;
		route_share_stats(router_core(a->agent[i].router), &s);
		add_stats(sum, &s);
	}
}

void exchange_leave(struct agents *a, unsigned i)
{
	struct agent *g = &a->agent[i];
	struct route_share_stats s;

	if (g->router != NULL && g->outbox != NULL) {
		route_share_stats(router_core(g->router), &s);
		add_stats(&g->before, &s);
	}
	share_outbox_free(g->outbox);
	share_inbox_free(g->inbox);
	g->outbox = NULL;
	g->inbox = NULL;
}

/* ---- life ---- */

int exchange_new(struct agents *a)
{
	a->key = router_key(a->opts.router.seed);
	a->flush_at = INFINITY;
	a->asking = ALL_REQUESTS;
	a->said = mem_calloc(a->trace->n, sizeof(*a->said));
	a->writer = mem_alloc(sizeof(*a->writer));
	a->scratch = mem_alloc(2 * SHARE_BATCH_MAX);
	stream_init(&a->stream, &(struct stream_opts){ .n = a->opts.n });
	return a->said != NULL && a->writer != NULL && a->scratch != NULL ? 0 : -1;
}

void exchange_begin(struct agents *a)
{
	const struct agents_opts *o = &a->opts;

	stream_init(&a->stream, &(struct stream_opts){
		.n = o->n, .delay_s = o->delay_s, .loss = o->loss, .cut_from = o->cut_from * a->span_s,
		.cut_to = o->cut_to * a->span_s, .seed = o->router.seed + 2 });
}

void exchange_free(struct agents *a)
{
	stream_fini(&a->stream);
	mem_free(a->said);
	mem_free(a->writer);
	mem_free(a->scratch);
}
