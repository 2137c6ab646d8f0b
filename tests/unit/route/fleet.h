/* fleet.h - agents that share: worlds (world.h) joined by a queue, with a clock for all of them.
 *
 * What an agent puts is copied for each sibling and is due later: at once, after a random delay,
 * twice, or never, as the test wants. */
#ifndef TESTS_ROUTE_FLEET_H
#define TESTS_ROUTE_FLEET_H

#include "agent/route/share.h"
#include "tests/unit/route/world.h"

#define AGENTS_MAX	4
#define PARTS		4

struct parcel {
	struct parcel *next;		/* due at the same time or later */
	msec put, due;
	unsigned from, to;
	struct share_entry e;
	void *memory[8];		/* that <e> points to */
	unsigned n_memory;
};

struct agent {
	struct fleet_world *f;
	unsigned number;
	struct world w;
	bool cut;			/* nothing leaves it or reaches it */
};

struct fleet_world {
	struct agent a[AGENTS_MAX];
	unsigned n;
	msec now;
	struct rng rng;
	struct parcel *first;
	msec delay_least, delay_most;
	unsigned loss, twice;		/* per thousand */
	bool aged;			/* entries tell how late they come */
	uint64_t n_put, n_lost, n_twice, n_pages;
};

static inline share_agent agent_id(unsigned number)
{
	return 1000 + number;
}

/* ---- parcels ------------------------------------------------------------------------------- */

static inline void *packed(struct parcel *p, const void *bytes, size_t n)
{
	void *to = malloc(n + 1);

	assert_non_null(to);
	if (n > 0)
		memcpy(to, bytes, n);
	assert_true(p->n_memory < 8);
	return p->memory[p->n_memory++] = to;
}

static inline void pack_span(struct parcel *p, struct span *s)
{
	s->p = packed(p, s->p, s->n);
}

static inline void pack_at(struct parcel *p, struct share_server *at)
{
	pack_span(p, &at->pool);
	pack_span(p, &at->server);
}

static inline void pack_fact(struct parcel *p, struct fact *f)
{
	struct fact was = *f;

	fact_init(f, was.kind);		/* only these fields travel */
	f->pool = was.pool;
	f->server = was.server;
	f->type = fact_streams(&was) ? SPAN("text/event-stream") : (struct span){ 0 };
	f->status = was.status;
	f->end = was.end;
	f->queue_ms = was.queue_ms;
	f->connect_ms = was.connect_ms;
	f->response_ms = was.response_ms;
	f->total_ms = was.total_ms;
	f->bytes_out = was.bytes_out;
	f->bytes_in = was.bytes_in;
	f->retries = was.retries;
	f->redispatched = was.redispatched;
	f->prompt_tokens = was.prompt_tokens;
	f->output_tokens = was.output_tokens;
	f->stored = was.stored;
	pack_span(p, &f->pool);
	pack_span(p, &f->server);
}

static inline void pack(struct parcel *p)
{
	struct share_entry *e = &p->e;

	switch (e->kind) {
	case SHARE_PLACED:
		pack_at(p, &e->u.placed.at);
		e->u.placed.pages = packed(p, e->u.placed.pages, e->u.placed.n * sizeof(page_key));
		break;
	case SHARE_FACT:
		pack_fact(p, &e->u.fact.fact);
		break;
	case SHARE_HELD:
		pack_at(p, &e->u.held.at);
		e->u.held.pages = packed(p, e->u.held.pages, e->u.held.n * sizeof(page_key));
		break;
	case SHARE_CLEARED:
		pack_at(p, &e->u.cleared.at);
		break;
	case SHARE_SERVER:
		pack_at(p, &e->u.server.at);
		break;
	case SHARE_HEAD:
		pack_span(p, &e->u.head.bytes);
		break;
	case SHARE_DIGEST:
		pack_at(p, &e->u.digest.at);
		e->u.digest.sums = packed(p, e->u.digest.sums, e->u.digest.n * sizeof(uint64_t));
		break;
	case SHARE_ENDS:
		pack_at(p, &e->u.ends.at);
		e->u.ends.ends = packed(p, e->u.ends.ends, e->u.ends.n * sizeof(struct share_anchor));
		break;
	case SHARE_WANT:
		pack_at(p, &e->u.want.at);
		e->u.want.ends = packed(p, e->u.want.ends, e->u.want.n * sizeof(struct share_anchor));
		break;
	default:
		break;
	}
}

static inline void parcel_free(struct parcel *p)
{
	for (unsigned i = 0; i < p->n_memory; i++)
		free(p->memory[i]);
	free(p);
}

static inline void parcel_add(
    struct fleet_world *f, unsigned from, unsigned to, const struct share_entry *e)
{
	struct parcel *p = calloc(1, sizeof(*p)), **at = &f->first;
	msec spread = f->delay_most - f->delay_least;

	assert_non_null(p);
	p->from = from;
	p->to = to;
	p->e = *e;
	p->put = f->now;
	p->due = f->now + f->delay_least + (spread > 0 ? rng_below(&f->rng, (uint32_t)spread + 1) : 0);
	pack(p);
	while (*at != NULL && (*at)->due <= p->due)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
}

static inline bool by_thousand(struct fleet_world *f, unsigned n)
{
	return n > 0 && rng_below(&f->rng, 1000) < n;
}

static inline void fleet_put(void *arg, uint32_t part, const struct share_entry *e)
{
	struct agent *a = arg;
	struct fleet_world *f = a->f;

	assert_true(part < PARTS);
	f->n_put++;
	if (e->kind == SHARE_PLACED)
		f->n_pages += e->u.placed.n;
	for (unsigned i = 0; i < f->n; i++) {
		if (i == a->number)
			continue;
		if (a->cut || f->a[i].cut || by_thousand(f, f->loss)) {
			f->n_lost++;
			continue;
		}
		parcel_add(f, a->number, i, e);
		if (!by_thousand(f, f->twice))
			continue;
		f->n_twice++;
		parcel_add(f, a->number, i, e);
	}
}

/* Deliver all that is due. */
static inline void deliver(struct fleet_world *f)
{
	struct parcel *p;

	while ((p = f->first) != NULL && p->due <= f->now) {
		f->first = p->next;
		f->a[p->to].w.now = f->now;
		p->e.age_ms = f->aged ? f->now - p->put : 0;
		route_share_apply(f->a[p->to].w.r, agent_id(p->from), &p->e, f->now);
		parcel_free(p);
	}
}

static inline void pass(struct fleet_world *f, msec ms)
{
	f->now += ms;
	for (unsigned i = 0; i < f->n; i++)
		f->a[i].w.now = f->now;
	deliver(f);
}

/* Let all agents work for <ms>, in steps of <step>. */
static inline void work_for(struct fleet_world *f, msec ms, msec step)
{
	for (msec end = f->now + ms; f->now < end; pass(f, step)) {
		for (unsigned i = 0; i < f->n; i++) {
			unsigned slices = 0;

			while (route_share_work(f->a[i].w.r, f->now) && slices++ < 20000)
				;
			while (route_work(f->a[i].w.r))
				;
			route_tick(f->a[i].w.r, f->now);
		}
	}
}

/* ---- the fleet ----------------------------------------------------------------------------- */

static inline void fleet_begin(struct fleet_world *f, unsigned n)
{
	memset(f, 0, sizeof(*f));
	f->n = n;
	rng_init(&f->rng, 1);
	for (unsigned i = 0; i < n; i++) {
		f->a[i].f = f;
		f->a[i].number = i;
		world_options(&f->a[i].w);
		f->a[i].w.o.share = true;
	}
	f->now = f->a[0].w.now;
}

static inline void fleet_open(struct fleet_world *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct route_share to = {
			.put = fleet_put, .arg = &f->a[i], .parts = PARTS, .self = agent_id(i),
		};

		world_open(&f->a[i].w);
		assert_int_equal(route_share(f->a[i].w.r, &to), 0);
	}
}

static inline void fleet_new(struct fleet_world *f, unsigned n)
{
	fleet_begin(f, n);
	fleet_open(f);
}

static inline void fleet_end(struct fleet_world *f)
{
	while (f->first != NULL) {
		struct parcel *p = f->first;

		f->first = p->next;
		parcel_free(p);
	}
	for (unsigned i = 0; i < f->n; i++)
		world_end(&f->a[i].w);
}

static inline struct route_share_stats share_stats(struct agent *a)
{
	struct route_share_stats s;

	route_share_stats(a->w.r, &s);
	return s;
}

/* ---- what a tree holds, page by page -------------------------------------------------------- */

struct pair {
	uint64_t server, prefix;	/* hash of its name; of the space and all pages */
};

struct pairs {
	struct pair *p;
	size_t n, cap;
};

static inline void pair_add(struct pairs *l, uint64_t server, uint64_t prefix)
{
	if (l->n == l->cap) {
		l->cap = l->cap * 2 + 256;
		assert_non_null(l->p = realloc(l->p, l->cap * sizeof(*l->p)));
	}
	l->p[l->n++] = (struct pair){ server, prefix };
}

static inline int pair_order(const void *x, const void *y)
{
	const struct pair *a = x, *b = y;

	if (a->server != b->server)
		return a->server < b->server ? -1 : 1;
	return a->prefix == b->prefix ? 0 : a->prefix < b->prefix ? -1 : 1;
}

struct pairs_of {
	struct route *r;
	struct pairs l;
};

static inline void pair_see(void *arg, server_id server, uint64_t prefix)
{
	struct pairs_of *of = arg;

	pair_add(&of->l, of->r->fleet.by_id[server]->name_hash, prefix);
}

/* List all (server, page) that are held; with <claimed> also those that are only claimed. */
static inline struct pairs pairs_of(struct route *r, bool claimed)
{
	struct pairs_of of = { .r = r };

	index_each_pair(r->index, &r->key, claimed, pair_see, &of);
	if (of.l.n > 0)
		qsort(of.l.p, of.l.n, sizeof(*of.l.p), pair_order);
	return of.l;
}

/* Return how many pairs only one of the two agents has. */
static inline size_t pairs_differing(struct agent *a, struct agent *b, bool claimed)
{
	struct pairs x = pairs_of(a->w.r, claimed), y = pairs_of(b->w.r, claimed);
	size_t i = 0, k = 0, differ = 0;

	while (i < x.n || k < y.n) {
		int o = i == x.n ? 1 : k == y.n ? -1 : pair_order(&x.p[i], &y.p[k]);

		differ += o != 0;
		i += o <= 0;
		k += o >= 0;
	}
	free(x.p);
	free(y.p);
	return differ;
}

static inline size_t pairs_held(struct agent *a)
{
	struct pairs l = pairs_of(a->w.r, false);

	free(l.p);
	return l.n;
}

#endif
