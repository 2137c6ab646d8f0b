/* router.c - the agent's core as a chooser. Simulated seconds are the core's milliseconds. Bodies
 * and load strings are written out in full, so the code between the bytes of a body and the name of
 * a server is the code of production. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/num.h"
#include "agent/base/rng.h"
#include "agent/route/sources.h"
#include "agent/sim/kvwire.h"
#include "agent/sim/router.h"

#define START_MS	1000000		/* the core's clock at the first request */
#define HEADER_BYTES	600		/* of an answer */
#define EVENT_BYTES	250		/* a token in an event stream */
#define ENTRY_BYTES	48		/* of a load string, at most */
#define NAME_BYTES	24
#define POLL_MS		500		/* engine_feed.interval, and how long a report holds */
#define POLL_HOLDS_MS	(3 * POLL_MS)
#define PREFILL_POOL	"prefill"
#define PREFILL_PORT	8000u	/* of the first prefill server; the next ones follow */
#define EVENTS_MEMORY	((size_t)64 << 20)	/* if the options have none */

struct router {
	struct router_opts opts;
	const struct sim_trace *trace;
	struct route *route;
	struct route_scratch *scratch;
	struct buf body;
	char *load;
	/* of engines that publish */
	struct {
		source_id id;
		bool open;
		uint64_t next;		/* number of its next batch */
	} source[SIM_ENGINES_MAX];
	struct buf payload;
	struct router_heard heard;
	const struct sim *sim;		/* NULL until the first request */
	msec polled;
	msec rows_at;			/* of the prefill servers; 0: never yet */
	struct pool_opts pools[2];	/* if there are prefill servers */
	double decided_us;
};

msec router_msec(double now)
{
	return START_MS + (msec)(now * 1000);
}

struct hash_key router_key(uint64_t seed)
{
	struct hash_key key;
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	return key;
}

/* ---- a request ---- */

/* Write it as the frontend's log-format does: agent/fleet/loadstr.h. */
static struct span put_load(struct router *r, const struct sim *f)
{
	const uint32_t *conns = r->opts.conns != NULL ? r->opts.conns : f->conns;
	char *p = r->load;

	p += sprintf(p, "sim/%u", r->opts.process + 1);
	for (unsigned i = 0; i < sim_decodes(f->opts); i++)
		p += sprintf(p, ";s%u=%d,%u,0,1", i, f->up[i], conns[i]);
	return span_of(r->load, (size_t)(p - r->load));
}

/* HAProxy passes the bytes that fit its buffer, and the number of all. */
static void put_body(struct router *r, struct route_request *q)
{
	size_t n = r->body.n, limit = r->opts.body_limit;

	q->whole = (int64_t)n;
	q->visible = limit > 0 ? (int64_t)limit : -1;
	q->body = span_of(r->body.p, limit > 0 && n > limit ? limit : n);
}

static int engine_of(struct span name, unsigned n)
{
	char copy[NAME_BYTES];
	unsigned long i;

	if (name.n < 2 || name.n >= sizeof(copy) || name.p[0] != 's')
		return -1;
	memcpy(copy, name.p + 1, name.n - 1);
	copy[name.n - 1] = '\0';
	i = strtoul(copy, NULL, 10);
	return i < n ? (int)i : -1;
}

static struct span put_uid(char uid[NAME_BYTES], const struct sim_job *j)
{
	return span_of(uid, (size_t)snprintf(uid, NAME_BYTES, "r%u", j->q->number));
}

/* ---- prefill servers ---- */

/* HAProxy's stats socket shows them twice a second. */
static void put_rows(struct router *r, const struct sim *f, msec now)
{
	char name[NAME_BYTES], address[NAME_BYTES];

	if (f->opts->prefills == 0 || (r->rows_at > 0 && now - r->rows_at < POLL_MS))
		return;
	r->rows_at = now;
	for (unsigned i = sim_decodes(f->opts); i < f->opts->n; i++) {
		unsigned port = PREFILL_PORT + i - sim_decodes(f->opts);
		struct hastats_row row = {
			.pool = SPAN(PREFILL_POOL), .state = f->up[i] ? HASTATS_UP : HASTATS_DOWN, .weight = 1,
		};

		row.server = span_of(name, (size_t)snprintf(name, sizeof(name), "s%u", i));
		row.address = span_of(
		    address, (size_t)snprintf(address, sizeof(address), "10.0.0.1:%u", port));
		route_observe_server(r->route, SPAN("sim"), &row, now, now + POLL_HOLDS_MS);
	}
}

static int prefill_of(const struct sim *f, struct span address)
{
	struct span port = address;
	int64_t v;

	while (port.n > 0 && *port.p++ != ':')
		port.n--;
	if (port.n == 0)
		return -1;
	port.n--;
	if (!num_parse(port, &v) || v < PREFILL_PORT || v - PREFILL_PORT >= f->opts->prefills)
		return -1;
	return (int)(v - PREFILL_PORT + sim_decodes(f->opts));
}

/* Make the engines that answer a pool, and the others its prefill servers. */
static void set_pools(struct router *r)
{
	struct route_opts *o = &r->opts.route;

	for (int i = 0; i < 2; i++)
		r->pools[i] = o->pool_default;
	strcpy(r->pools[0].name, "sim");
	strcpy(r->pools[0].prefill, PREFILL_POOL);
	strcpy(r->pools[1].name, PREFILL_POOL);
	o->pools = r->pools;
	o->n_pools = 2;
}

static double clock_us(const struct sim *f)
{
	return f->opts->clock_us != NULL ? f->opts->clock_us(f->opts->clock_arg) : 0;
}

static int router_pick(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct router *r = state;
	struct route_request q = { .pool = SPAN("sim"), .seq = -1, .work = ROUTE_WORK_FULL };
	char uid[NAME_BYTES], session[NAME_BYTES];
	struct route_answer a;
	double start_us;
	int e;

	if (text_body(&r->body, r->trace, j->q, r->opts.text) < 0)
		return -1;
	q.path = span_str(text_path(r->opts.text));
	q.uid = put_uid(uid, j);
	if (!r->opts.no_session)
		q.session = span_of(
		    session, (size_t)snprintf(session, sizeof(session), "c%u", j->q->session));
	q.load = put_load(r, f);
	put_body(r, &q);
	put_rows(r, f, router_msec(now));
	start_us = clock_us(f);
	route_decide(r->route, r->scratch, &q, router_msec(now), &a);
	r->decided_us += router_took_us(start_us, clock_us(f));
	j->pages = a.pages;
	j->expected_s = a.wait_ms >= 0 ? (double)a.wait_ms / 1000 : -1;
	r->sim = f;
	j->prefill = prefill_of(f, a.prefill);
	e = engine_of(a.server, sim_decodes(f->opts));
	return e >= 0 && f->up[e] ? e : -1;
}

/* ---- load of engines ---- */

static double cache_use(const struct engine *e)
{
	return e->cache.cap > 0 ? (double)e->cache.used / e->cache.cap : 0;
}

/* An answer has ended: its engine tells what vLLM's load header does. */
static void tell_load(struct router *r, const struct sim *f, int engine, double now)
{
	const struct engine *e = &f->engines[engine];
	struct engine_load l = ENGINE_LOAD_NONE;
	char name[NAME_BYTES];

	l.waiting = e->n_waiting;
	l.kv_used = cache_use(e);
	route_observe_load(r->route, SPAN("sim"),
	    span_of(name, (size_t)snprintf(name, sizeof(name), "s%d", engine)), &l, router_msec(now));
}

static void poll_engines(struct router *r, msec now)
{
	char name[NAME_BYTES];

	r->polled = now;
	for (unsigned i = 0; i < r->sim->opts->n; i++) {
		const struct engine *e = &r->sim->engines[i];
		struct engine_report er = {
			.waiting = e->n_waiting, .running = (int64_t)e->n_prefill + e->n_decode,
			.kv_used = cache_use(e), .capacity = (uint64_t)e->cache.cap * e->block,
		};

		if (r->sim->up[i])
			route_observe_engine(r->route, SPAN("sim"),
			    span_of(name, (size_t)snprintf(name, sizeof(name), "s%u", i)), &er, now,
			    now + POLL_HOLDS_MS);
	}
}

/* ---- what became of it ---- */

static void learn(struct router *r, const struct sim_job *j, enum fact_kind kind, double now)
{
	char uid[NAME_BYTES], name[NAME_BYTES];
	struct fact f;

	fact_init(&f, kind);
	f.uid = put_uid(uid, j);
	f.pool = SPAN("sim");
	f.server = span_of(name, (size_t)snprintf(name, sizeof(name), "s%d", j->engine));
	f.status = j->failed ? 500 : 200;
	if (kind == FACT_FIRST) {
		f.type = j->failed ? SPAN("application/json") : SPAN("text/event-stream");
	} else {
		f.wanted = f.server;
		f.end = END_OK;
		f.queue_ms = f.connect_ms = 0;
		f.response_ms = (int64_t)((j->t_first - j->t_arrived) * 1000);
		f.total_ms = (int64_t)((now - j->t_arrived) * 1000);
		f.bytes_out = HEADER_BYTES + (j->failed ? 0 : (int64_t)j->q->n_out * EVENT_BYTES);
		f.retries = 0;
		f.line = r->opts.lines;
	}
	route_learn(r->route, &f, router_msec(now));
}

static void router_first(void *state, const struct sim *f, struct sim_job *j, double now)
{
	learn(state, j, FACT_FIRST, now);
}

/* An error has a first byte too. */
static void router_done(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct router *r = state;

	if (j->failed && r->opts.facts == ROUTER_FIRST)
		learn(r, j, FACT_FIRST, now);
	if (r->opts.facts != ROUTER_NONE)
		learn(r, j, FACT_DONE, now);
	if (r->opts.loads == ROUTER_LOADS_ANSWERS)
		tell_load(r, f, j->engine, now);
}

/* ---- events of engines ---- */

/* Return the source of <engine>, opened with its first batch as an agent does. */
static source_id source_of(struct router *r, unsigned engine, double now)
{
	char name[NAME_BYTES];

	if (!r->source[engine].open) {
		r->source[engine].open = true;
		r->source[engine].id = route_source_open(r->route, SPAN("sim"),
		    span_of(name, (size_t)snprintf(name, sizeof(name), "s%u", engine)), 1, router_msec(now));
		if (r->source[engine].id != SOURCE_NONE)
			route_source_state(r->route, r->source[engine].id, 0, KVCURSOR_SYNCED, true, router_msec(now));
	}
	return r->source[engine].id;
}

/* Engines of a simulation replay nothing, so a lost batch is lost for good. */
static void router_hears(
    void *state, const struct sim *f, unsigned engine, const struct kvlog_batch *b, double now)
{
	struct router *r = state;
	source_id id = source_of(r, engine, now);
	struct source_batch got;

	if (id == SOURCE_NONE || kvwire_put(&r->payload, b, engine, r->trace->block) < 0)
		return;
	if (b->seq != r->source[engine].next)
		route_source_state(r->route, id, 0, KVCURSOR_DEGRADED, false, router_msec(now));
	r->heard.lost += b->seq - r->source[engine].next;
	r->source[engine].next = b->seq + 1;
	if (route_source_batch(r->route, id, 0, span_of(r->payload.p, r->payload.n), router_msec(now),
		&got) < 0 || got.skipped)
		r->heard.bad++;
	r->heard.batches++;
	r->heard.stored += got.stored;
	r->heard.removed += got.removed;
}

void router_heard(const struct router *r, struct router_heard *h)
{
	*h = r->heard;
}

static void router_tick(void *state, double now)
{
	struct router *r = state;

	if (r->opts.loads == ROUTER_LOADS_POLLS && r->sim != NULL &&
	    router_msec(now) - r->polled >= POLL_MS)
		poll_engines(r, router_msec(now));
	route_tick(r->route, router_msec(now));
	while (route_work(r->route))
		;
}

/* ---- life ---- */

struct router *router_new(const struct router_opts *o, const struct sim_trace *t, struct chooser *c)
{
	struct hash_key key = router_key(o->seed);
	struct router *r = mem_alloc(sizeof(*r));

	if (r == NULL)
		return NULL;
	r->opts = *o;
	r->trace = t;
	if (o->prefills)
		set_pools(r);
	r->load = mem_alloc((SIM_ENGINES_MAX + 1) * ENTRY_BYTES);
	if (o->events && r->opts.route.events_max_bytes == 0)
		r->opts.route.events_max_bytes = EVENTS_MEMORY;
	r->route = route_new(&r->opts.route, &key, o->seed + o->agent);
	r->scratch = r->route != NULL ? route_scratch_new(r->route) : NULL;
	if (r->load == NULL || r->scratch == NULL) {
		router_free(r);
		return NULL;
	}
	*c = (struct chooser){ .name = o->name, .state = r, .pick = router_pick, .tick = router_tick };
	if (o->facts == ROUTER_FIRST)
		c->first = router_first;
	if (o->facts != ROUTER_NONE || o->loads == ROUTER_LOADS_ANSWERS)
		c->done = router_done;
	if (o->events)
		c->heard = router_hears;
	return r;
}

void router_free(struct router *r)
{
	if (r == NULL)
		return;
	route_scratch_free(r->scratch);
	route_free(r->route);
	buf_free(&r->body);
	buf_free(&r->payload);
	mem_free(r->load);
	mem_free(r);
}

struct route *router_core(struct router *r)
{
	return r->route;
}

double router_decided_us(struct router *r)
{
	double us = r->decided_us;

	r->decided_us = 0;
	return us;
}

void router_stats(struct router *r, struct route_stats *s)
{
	route_stats(r->route, s);
}

void router_each_server(
    struct router *r, void (*fn)(void *arg, const struct route_server_view *v), void *arg)
{
	route_each_server(r->route, START_MS, fn, arg);
}
