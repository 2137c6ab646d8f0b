/* events.c - making an index of events, clearing, and numbers about it. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define LEAST_BYTES	((size_t)1 << 20)
#define HEADS_SHARE	512u	/* one head for so many bytes */
#define RESERVE_SHARE	64u	/* one chunk of so many is for removals */

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
	size_t holders, expiring, who_is, born, live, by_own, by_parent, parked, heads;
	size_t fixed, infos, chunks, end;
};

static void plan_for(struct events *ev, size_t bytes, struct plan *p)
{
	size_t at = 0, left;

	p->holders = reserve_bytes(&at, ev->max_holders * sizeof(*ev->holders));
	p->expiring = reserve_bytes(&at, ev->max_holders * sizeof(*ev->expiring));
	p->who_is = reserve_bytes(&at, ev->max_holders * sizeof(*ev->who_is));
	p->born = reserve_bytes(&at, ev->max_holders * sizeof(*ev->born));
	p->live = reserve_bytes(&at, EVENTS_SIZES_MAX * ev->words * sizeof(*ev->live));
	p->by_own = reserve_bytes(&at, ev->parked_heads * sizeof(*ev->by_own));
	p->by_parent = reserve_bytes(&at, ev->parked_heads * sizeof(*ev->by_parent));
	p->parked = reserve_bytes(&at, ev->max_parked * sizeof(*ev->parked));
	p->heads = reserve_bytes(&at, ((size_t)1 << (64 - ev->head_shift)) * sizeof(*ev->heads));
	p->fixed = at + sizeof(*ev);
	left = bytes > p->fixed + 2 * CHUNK_BYTES ? bytes - p->fixed - 2 * CHUNK_BYTES : 0;
	ev->slab.max_chunks = (uint32_t)(left / (CHUNK_BYTES + sizeof(struct chunk)));
	p->infos = reserve_bytes(&at, ev->slab.max_chunks * sizeof(struct chunk));
	p->chunks = (at + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
	p->end = p->chunks + (size_t)ev->slab.max_chunks * CHUNK_BYTES;
}

static void size_up(struct events *ev, const struct events_opts *o, size_t bytes)
{
	uint32_t holders = o->max_holders > 0 ? o->max_holders : 1;
	size_t each = sizeof(struct parked) + 2 * 2 * sizeof(uint32_t), room = bytes / 16 / each;
	unsigned head_bits = 8, set_class = CLASS_64;

	ev->max_holders = holders < EVENTS_HOLDERS_MAX ? holders : EVENTS_HOLDERS_MAX;
	ev->words = (ev->max_holders + 63) / 64;
	while (LINE_BYTES << set_class < ev->words * sizeof(uint64_t))
		set_class++;
	ev->set_class = set_class;
	ev->max_parked = o->max_parked < room ? o->max_parked : (uint32_t)room;
	for (ev->parked_heads = 1; ev->parked_heads < ev->max_parked; ev->parked_heads *= 2)
		;
	while (head_bits < 31 && (size_t)HEADS_SHARE << (head_bits + 1) <= bytes)
		head_bits++;
	ev->head_shift = 64 - head_bits;
}

static void init_parts(struct events *ev, const struct plan *p)
{
	uint8_t *base = ev->region.base;
	uint32_t i;

	ev->holders = (struct holder *)(uintptr_t)(base + p->holders);
	ev->expiring = (uint16_t *)(uintptr_t)(base + p->expiring);
	ev->who_is = (_Atomic uint32_t *)(uintptr_t)(base + p->who_is);
	ev->born = (_Atomic uint32_t *)(uintptr_t)(base + p->born);
	ev->live = (_Atomic uint64_t *)(uintptr_t)(base + p->live);
	ev->by_own = (uint32_t *)(uintptr_t)(base + p->by_own);
	ev->by_parent = (uint32_t *)(uintptr_t)(base + p->by_parent);
	ev->parked = (struct parked *)(uintptr_t)(base + p->parked);
	ev->heads = (_Atomic uint32_t *)(uintptr_t)(base + p->heads);
	ev->slab.chunks = (struct chunk *)(uintptr_t)(base + p->infos);
	ev->slab.base = base + p->chunks - CHUNK_BYTES;
	ev->slab.fixed_bytes = p->fixed;
	ev->slab.reserve = ev->slab.max_chunks / RESERVE_SHARE;
	atomic_store(&ev->st.bytes, p->fixed);
	ev->dying.first = NO_HOLDER;
	ev->free_holders.first = 0;
	ev->free_holders.last = (uint16_t)(ev->max_holders - 1);
	for (i = 0; i < ev->max_holders; i++)
		ev->holders[i].next = (uint16_t)(i + 1 < ev->max_holders ? i + 1 : NO_HOLDER);
	for (i = 0; i < SERVERS_MAX; i++)
		ev->of_server[i] = NO_HOLDER;
}

struct events *events_new(const struct events_opts *o)
{
	size_t bytes = o->max_bytes > LEAST_BYTES ? o->max_bytes : LEAST_BYTES;
	struct events *ev;
	struct plan p;

	if (o->key == NULL || (ev = mem_alloc(sizeof(*ev))) == NULL)
		return NULL;
	bytes = bytes < REGION_BYTES_MAX / 2 ? bytes : REGION_BYTES_MAX / 2;
	ev->key = *o->key;
	size_up(ev, o, bytes);
	plan_for(ev, bytes, &p);
	if (region_take(&ev->region, p.end, o->prefault) < 0) {
		events_free(ev);
		return NULL;
	}
	ev->max_bytes = sizeof(*ev) + ev->region.bytes;
	init_parts(ev, &p);
	return ev;
}

void events_free(struct events *ev)
{
	uint32_t i;

	if (ev == NULL)
		return;
	for (i = 0; ev->holders != NULL && i < ev->max_holders; i++)
		mem_free(ev->holders[i].map.pieces);
	mem_free(ev->copies.at);
	mem_free(ev->several.at);
	region_give(&ev->region);
	mem_wipe(&ev->key, sizeof(ev->key));
	mem_free(ev);
}

/* ---- cleared ---- */

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
	atomic_store_explicit(&ev->lost[server], 0, memory_order_relaxed);
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
#define NOW(what)	atomic_load_explicit(&ev->st.what, memory_order_relaxed)
	*s = (struct events_stats){
		.max_bytes = ev->max_bytes, .bytes = NOW(bytes), .records = NOW(records),
		.holders = NOW(holders), .parked = NOW(parked), .runs = NOW(runs), .blocks = NOW(blocks),
		.sets = NOW(sets), .stored = NOW(stored), .removed = NOW(removed), .cleared = NOW(cleared),
		.joined = NOW(joined), .parked_dropped = NOW(parked_dropped), .evicted = NOW(evicted),
		.expired = NOW(expired), .unknown = NOW(unknown), .odd = NOW(odd), .refused = NOW(refused),
	};
#undef NOW
}

uint32_t events_server_records(const struct events *ev, server_id server)
{
	return server < SERVERS_MAX ? ev->server_recs[server] : 0;
}

uint64_t events_server_lost(const struct events *ev, server_id server)
{
	return server < SERVERS_MAX ? OWN(&ev->lost[server]) : 0;
}

const char *events_check(const struct events *ev)
{
	const char *why = slab_check(ev);

	if (why == NULL)
		why = run_check(ev);
	if (why == NULL)
		why = holder_check(ev);
	if (why == NULL)
		why = record_check(ev);
	return why != NULL ? why : park_check(ev);
}
