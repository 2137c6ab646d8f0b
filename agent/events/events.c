/* events.c - the effect of each event on records, holders and parked blocks.
 *
 * events_stored() walks a run block by block and keeps the chain of the block before. It hashes the
 * next AHEAD blocks first and prefetches their memory, so that it waits for memory once a batch. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define LEAST_BYTES	((size_t)256 << 10)
#define PAGE_BYTES	4096u	/* by which the region may be rounded up */
#define SETS_SHARE	80u	/* one byte of so many is for sets */
/* of the groups: a lookup ends at a line that no entry has passed, and spare room makes such
 * lines */
#define LINES_PERCENT	107u
#define TO_SET		8u	/* holders from which a chain gets a set, plus one for each word of it */

void events_defaults(struct events_opts *o)
{
	*o = (struct events_opts){
		.max_bytes = (size_t)64 << 20, .max_holders = 1024, .max_parked = 4096
	};
}

/* ---- making ---- */

static size_t reserve_bytes(size_t *at, size_t bytes)
{
	size_t from = (*at + 63) & ~(size_t)63;

	*at = from + bytes;
	return from;
}

/* Offsets of everything in the region, in the order of events_in.h. */
struct plan {
	size_t holders, who_is, born, live, parked, by_own, by_parent, tags, lines, sets, recs, end;
};

static void plan_for(struct events *ev, struct plan *p)
{
	size_t at = 0;

	p->holders = reserve_bytes(&at, ev->max_holders * sizeof(*ev->holders));
	p->who_is = reserve_bytes(&at, ev->max_holders * sizeof(*ev->who_is));
	p->born = reserve_bytes(&at, ev->max_holders * sizeof(*ev->born));
	p->live = reserve_bytes(&at, EVENTS_SIZES_MAX * ev->words * sizeof(*ev->live));
	p->parked = reserve_bytes(&at, ev->max_parked * sizeof(*ev->parked));
	p->by_own = reserve_bytes(&at, ev->parked_heads * sizeof(*ev->by_own));
	p->by_parent = reserve_bytes(&at, ev->parked_heads * sizeof(*ev->by_parent));
	p->tags = reserve_bytes(&at, (size_t)ev->n_groups * 16);
	p->lines = reserve_bytes(&at, (size_t)ev->n_lines * sizeof(*ev->lines));
	p->sets = reserve_bytes(&at, (size_t)ev->max_sets * ev->set_bytes);
	p->recs = reserve_bytes(&at, (size_t)ev->n_groups * GROUP * sizeof(*ev->recs));
	p->end = at;
}

static uint32_t prime_up_to(uint32_t n)
{
	uint32_t d;

	for (;; n--) {
		for (d = 2; d <= n / d && n % d != 0; d++)
			;
		if (d > n / d)
			return n;
	}
}

/* Take as many groups as fit, and enough lines for an entry a record. */
static void size_up(struct events *ev, const struct events_opts *o)
{
	size_t bytes = o->max_bytes > LEAST_BYTES ? o->max_bytes : LEAST_BYTES, left;
	uint32_t holders = o->max_holders > 0 ? o->max_holders : 1;
	size_t each = sizeof(struct parked) + 2 * 2 * sizeof(uint32_t), room = bytes / 16 / each;
	struct plan p;

	ev->max_holders = holders < EVENTS_HOLDERS_MAX ? holders : EVENTS_HOLDERS_MAX;
	ev->words = (ev->max_holders + 63) / 64;
	ev->set_bytes = sizeof(struct set) + EVENTS_TIERS * ev->words * sizeof(uint64_t);
	ev->to_set = TO_SET + ev->words;
	ev->max_parked = o->max_parked < room ? o->max_parked : (uint32_t)room;
	for (ev->parked_heads = 1; ev->parked_heads < ev->max_parked; ev->parked_heads *= 2)
		;
	if (bytes > (size_t)512 << 20)
		bytes = (size_t)512 << 20;
	ev->max_sets = (uint32_t)(bytes / SETS_SHARE / ev->set_bytes);
	plan_for(ev, &p);
	left = sizeof(*ev) + p.end + PAGE_BYTES + 4 * 64;
	left = bytes > left ? bytes - left : 0;
	ev->n_groups = (uint32_t)(left / (16 + GROUP * sizeof(struct rec) +
				     sizeof(struct line) * LINES_PERCENT / 100 + 1));
	if (ev->n_groups < 3)
		ev->n_groups = 3;
	if ((size_t)ev->n_groups * GROUP + ev->max_sets >= REF_MASK)
		ev->n_groups = (REF_MASK - ev->max_sets) / GROUP;
	ev->n_lines = prime_up_to((uint32_t)((uint64_t)ev->n_groups * LINES_PERCENT / 100));
	ev->max_recs = (uint32_t)((uint64_t)ev->n_groups * GROUP * LOAD_PERCENT / 100);
}

static void init_lists(struct events *ev, const struct plan *p)
{
	uint8_t *base = ev->region.base;
	uint32_t i;

	ev->holders = (struct holder *)(uintptr_t)(base + p->holders);
	ev->who_is = (_Atomic uint32_t *)(uintptr_t)(base + p->who_is);
	ev->born = (_Atomic uint32_t *)(uintptr_t)(base + p->born);
	ev->live = (_Atomic uint64_t *)(uintptr_t)(base + p->live);
	ev->parked = (struct parked *)(uintptr_t)(base + p->parked);
	ev->by_own = (uint32_t *)(uintptr_t)(base + p->by_own);
	ev->by_parent = (uint32_t *)(uintptr_t)(base + p->by_parent);
	ev->tags = base + p->tags;
	ev->lines = (struct line *)(uintptr_t)(base + p->lines);
	ev->sets = base + p->sets;
	ev->recs = (struct rec *)(uintptr_t)(base + p->recs);
	ev->dying.first = NO_HOLDER;
	ev->free_holders.first = 0;
	ev->free_holders.last = (uint16_t)(ev->max_holders - 1);
	for (i = 0; i < ev->max_holders; i++)
		ev->holders[i].next = (uint16_t)(i + 1 < ev->max_holders ? i + 1 : NO_HOLDER);
	for (i = 0; i < SERVERS_MAX; i++)
		ev->of_server[i] = NO_HOLDER;
	for (i = ev->max_parked; i > 0; i--) {
		ev->parked[i - 1].older = ev->free_parked;
		ev->free_parked = i;
	}
}

struct events *events_new(const struct events_opts *o)
{
	struct events *ev;
	struct plan p;

	if (o->key == NULL || (ev = mem_alloc(sizeof(*ev))) == NULL)
		return NULL;
	ev->key = *o->key;
	size_up(ev, o);
	plan_for(ev, &p);
	if (region_take(&ev->region, p.end, o->prefault) < 0) {
		events_free(ev);
		return NULL;
	}
	ev->max_bytes = sizeof(*ev) + ev->region.bytes;
	init_lists(ev, &p);
	return ev;
}

void events_free(struct events *ev)
{
	if (ev == NULL)
		return;
	region_give(&ev->region);
	mem_wipe(&ev->key, sizeof(ev->key));
	mem_free(ev);
}

/* ---- stored ---- */

#define AHEAD	16u	/* blocks whose memory is prefetched before the first of them is read */

/* The position in a run. */
struct course {
	struct events *ev;
	const struct events_run *run;
	uint32_t holder;
	bool known;		/* <chain> is that of the block before */
	uint64_t chain, before;	/* <before>: hash of the handle of the block before */
	rec_ref at;		/* its record: the next record is listed as just older; 0: as the newest */
	uint64_t hash[AHEAD], pages[AHEAD];	/* of the blocks from the last multiple of AHEAD on */
};

enum taken { TAKEN, IGNORED, ODD, REFUSED };

static enum taken store_known(struct course *c, rec_ref ref)
{
	struct events *ev = c->ev;
	struct rec *r = rec_at(ev, ref);

	held_update(ev, ref, copies_add(rec_who(r) & 0xffff, c->run->tier));
	map_touch(ev, ref, c->at);
	c->known = true;
	c->chain = rec_chain(r);
	c->at = ref;
	return TAKEN;
}

static rec_ref add_record(struct events *ev, uint32_t holder, uint64_t hash, uint64_t chain,
    uint32_t copies, rec_ref before)
{
	rec_ref ref = map_add(ev, holder, hash, chain, before);

	if (held_update(ev, ref, copies))
		return ref;
	map_remove(ev, ref);
	return 0;
}

/* Store the parked blocks that wait for <hash>, those that wait for them, and so on. */
static void join_parked(struct events *ev, uint32_t holder, uint64_t hash, uint64_t chain)
{
	uint32_t ready = park_take(ev, holder, hash, chain, 0);

	while (ready != 0) {
		const struct parked p = ev->parked[ready - 1];

		ready = park_give(ev, ready);
		room_for_one(ev);
		if (add_record(ev, holder, p.own, p.pages, p.copies, 0) == 0) {
			COUNT(ev, refused, 1);
			continue;
		}
		COUNT(ev, joined, 1);
		ready = park_take(ev, holder, p.own, p.pages, ready);
	}
}

static enum taken store_new(struct course *c, uint64_t hash, uint64_t chain)
{
	struct events *ev = c->ev;
	struct parked *p;

	if (ev->n_recs >= ev->max_recs) {
		room_for_one(ev);
		c->at = c->at != 0 ? map_find(ev, c->holder, c->before) : 0;
	}
	if (ev->holders[c->holder].n_parked > 0 && (p = park_find(ev, c->holder, hash)) != NULL) {
		/* it was stored after another parent before: one of the two reports was wrong */
		park_remove(ev, p);
		COUNT(ev, odd, 1);
	}
	c->at = add_record(ev, c->holder, hash, chain, copies_add(0, c->run->tier), c->at);
	if (c->at == 0)
		return REFUSED;
	c->known = true;
	c->chain = chain;
	if (ev->holders[c->holder].n_parked > 0) {
		join_parked(ev, c->holder, hash, chain);
		c->at = map_find(ev, c->holder, hash);
	}
	return TAKEN;
}

static enum taken store_parked(struct course *c, uint64_t hash, uint64_t pages)
{
	struct parked *p = park_find(c->ev, c->holder, hash);

	if (p != NULL) {
		if (p->parent != c->before || p->pages != pages)
			return ODD;
		p->copies = (uint16_t)copies_add(p->copies, c->run->tier);
		return TAKEN;
	}
	if (hash == c->before)
		return ODD;
	return park_add(c->ev, c->holder, hash, c->before, pages, copies_add(0, c->run->tier))
	    ? TAKEN
	    : REFUSED;
}

static enum taken without_keys(struct course *c, uint64_t hash)
{
	struct events *ev = c->ev;
	rec_ref ref = map_find(ev, c->holder, hash);
	struct parked *p;

	if (ref != 0)
		return store_known(c, ref);
	if ((p = park_find(ev, c->holder, hash)) == NULL)
		return IGNORED;
	p->copies = (uint16_t)copies_add(p->copies, c->run->tier);
	return TAKEN;
}

static enum taken with_keys(struct course *c, uint64_t hash, uint64_t pages)
{
	struct events *ev = c->ev;
	uint64_t chain;
	rec_ref ref = map_find(ev, c->holder, hash);

	if (!c->known && ref == 0)
		return store_parked(c, hash, pages);
	if (!c->known)			/* its parent is gone, but its chain is known from an earlier report */
		return store_known(c, ref);
	chain = chain_next(ev, c->chain, pages);
	if (ref == 0)
		return store_new(c, hash, chain);
	return rec_chain(rec_at(ev, ref)) == chain ? store_known(c, ref) : ODD;
}

static void begin_run(struct course *c)
{
	const struct events_run *run = c->run;
	struct events *ev = c->ev;

	if (run->keys == NULL)
		return;
	if (!run->has_parent) {
		c->known = true;
		c->chain = chain_root(ev, run->space, run->block_pages);
		return;
	}
	c->before = handle_hash(ev, c->holder, run->parent);
	c->at = map_find(ev, c->holder, c->before);
	if (c->at == 0)
		return;
	c->known = true;
	c->chain = rec_chain(rec_at(ev, c->at));
	map_touch(ev, c->at, 0);
}

/* Hash the next blocks and prefetch the memory of all of them. */
static void look_ahead(struct course *c, uint32_t from)
{
	const struct events_run *run = c->run;
	uint32_t i, n = run->n - from < AHEAD ? run->n - from : AHEAD;
	struct events *ev = c->ev;
	uint64_t chain = c->chain;

	for (i = 0; i < n; i++) {
		c->hash[i] = handle_hash(ev, c->holder, run->handles[from + i]);
		map_ask_tags(ev, c->hash[i]);
		if (run->keys == NULL)
			continue;
		c->pages[i] = pages_hash(ev, run->keys + (size_t)(from + i) * run->block_pages, run->block_pages);
		chain = chain_next(ev, chain, c->pages[i]);
		if (c->known)
			__builtin_prefetch(line_of(ev, chain, 0), 1);
	}
	for (i = 0; i < n; i++)
		map_ask_record(ev, c->hash[i]);
}

uint32_t events_stored(struct events *ev, const struct events_run *run)
{
	struct course c = { .ev = ev, .run = run };
	enum taken how = TAKEN;
	uint32_t i, n = 0;

	if ((unsigned)run->tier >= EVENTS_TIERS || (run->keys != NULL && run->block_pages == 0)) {
		COUNT(ev, odd, run->n);
		return 0;
	}
	c.holder = run->keys != NULL ? holder_get(ev, run->server, run->rank) :
				       holder_find(ev, run->server, run->rank);
	if (c.holder == NO_HOLDER) {
		if (run->keys != NULL)
			COUNT(ev, refused, run->n);
		else
			COUNT(ev, unknown, run->n);
		return 0;
	}
	if (run->keys != NULL && !holder_size(ev, c.holder, run->block_pages)) {
		if (ev->holders[c.holder].size != 0)
			COUNT(ev, odd, run->n);
		else
			COUNT(ev, refused, run->n);
		return 0;
	}
	begin_run(&c);
	for (i = 0; i < run->n; i++) {
		if (i % AHEAD == 0)
			look_ahead(&c, i);
		how = run->keys == NULL ? without_keys(&c, c.hash[i % AHEAD]) :
					  with_keys(&c, c.hash[i % AHEAD], c.pages[i % AHEAD]);
		if (how == ODD || how == REFUSED)
			break;
		if (how == IGNORED)
			COUNT(ev, unknown, 1);
		n += how == TAKEN;
		c.before = c.hash[i % AHEAD];
	}
	if (how == ODD)
		COUNT(ev, odd, run->n - i);
	else if (how == REFUSED)
		COUNT(ev, refused, run->n - i);
	COUNT(ev, stored, n);
	keep_to_capacity(ev, c.holder, run->n);
	return n;
}

/* ---- removed, cleared ---- */

static bool remove_copy(struct events *ev, uint32_t holder, uint64_t hash, unsigned tier)
{
	rec_ref ref = map_find(ev, holder, hash);
	uint32_t copies, one = 1u << 4 * tier;
	struct parked *p;

	if (ref != 0) {
		copies = rec_who(rec_at(ev, ref)) & 0xffff;
		if (copies_of(copies, tier) == 0)
			return false;
		if (copies == one)
			rec_drop(ev, ref);
		else
			held_update(ev, ref, copies - one);
		return true;
	}
	if (ev->holders[holder].n_parked == 0 || (p = park_find(ev, holder, hash)) == NULL ||
	    copies_of(p->copies, tier) == 0)
		return false;
	p->copies = (uint16_t)(p->copies - one);
	if (p->copies == 0)
		park_remove(ev, p);
	return true;
}

static uint32_t remove_some(
    struct events *ev, uint32_t holder, const uint64_t *handles, uint32_t n, unsigned tier)
{
	uint64_t hash[AHEAD];
	uint32_t i, known = 0;
	rec_ref ref;

	for (i = 0; i < n; i++) {
		hash[i] = handle_hash(ev, holder, handles[i]);
		map_ask_tags(ev, hash[i]);
	}
	for (i = 0; i < n; i++)
		map_ask_record(ev, hash[i]);
	for (i = 0; i < n; i++) {
		if ((ref = map_find(ev, holder, hash[i])) == 0)
			continue;
		__builtin_prefetch(line_of(ev, rec_chain(rec_at(ev, ref)), 0), 1);
		map_ask_list(ev, ref);
	}
	for (i = 0; i < n; i++)
		known += remove_copy(ev, holder, hash[i], tier);
	return known;
}

uint32_t events_removed(struct events *ev, server_id server, uint16_t rank, const uint64_t *handles,
    uint32_t n, enum events_tier tier)
{
	uint32_t holder = holder_find(ev, server, rank), i, known = 0;

	if (holder != NO_HOLDER && (unsigned)tier < EVENTS_TIERS)
		for (i = 0; i < n; i += AHEAD)
			known += remove_some(ev, holder, handles + i, n - i < AHEAD ? n - i : AHEAD, tier);
	COUNT(ev, removed, known);
	COUNT(ev, unknown, n - known);
	return known;
}

void events_cleared(struct events *ev, server_id server, uint16_t rank)
{
	uint32_t holder = holder_find(ev, server, rank);

	if (holder == NO_HOLDER)
		return;
	holder_clear(ev, holder);
	COUNT(ev, cleared, 1);
}

void events_drop_server(struct events *ev, server_id server)
{
	if (server >= SERVERS_MAX)
		return;
	while (ev->of_server[server] != NO_HOLDER)
		holder_clear(ev, ev->of_server[server]);
	ev->capacity[server] = 0;
}

void events_set_capacity(struct events *ev, server_id server, uint32_t blocks)
{
	if (server < SERVERS_MAX)
		ev->capacity[server] = blocks;
}

bool events_tick(struct events *ev, uint32_t work)
{
	return holder_reap(ev, work);
}

/* ---- seeing inside ---- */

void events_stats(const struct events *ev, struct events_stats *s)
{
#define GET(what)	atomic_load_explicit(&ev->st.what, memory_order_relaxed)
	*s = (struct events_stats){
		.max_bytes = ev->max_bytes, .records = GET(records), .max_records = ev->max_recs,
		.holders = GET(holders), .parked = GET(parked), .sets = GET(sets), .max_sets = ev->max_sets,
		.stored = GET(stored), .removed = GET(removed), .cleared = GET(cleared), .joined = GET(joined),
		.parked_dropped = GET(parked_dropped), .evicted = GET(evicted), .unknown = GET(unknown),
		.odd = GET(odd), .refused = GET(refused),
	};
#undef GET
}

uint32_t events_server_records(const struct events *ev, server_id server)
{
	return server < SERVERS_MAX ? ev->server_recs[server] : 0;
}

const char *events_check(const struct events *ev)
{
	const char *wrong;

	if ((wrong = map_check(ev)) != NULL || (wrong = holder_check(ev)) != NULL ||
	    (wrong = held_check(ev)) != NULL)
		return wrong;
	return park_check(ev);
}
