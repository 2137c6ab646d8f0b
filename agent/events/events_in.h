/* events_in.h - the data that the files of this folder share.
 *
 *   region:  [ holders | live | parked | tags of the map | lines | sets | records ]
 *
 *   map     handles -> records: groups of 15 records, each with a byte of tag   handle_map.c
 *   held    chains -> holders: lines of 15 entries, or a set of bits            chain_holders.c
 *   parked  blocks that wait for their parent                                   parked.c
 *
 * A record never moves from its place in the map. It is in the list of its holder, oldest first,
 * and among the holders of its chain: by an entry of its own, or by its holder's bits in the
 * chain's set. A record takes 24 bytes, its tag 1.1 and its share of lines 4.6, at a load of 96 %:
 * about 31 bytes.
 *
 * Readers read the live bits, the lines, the sets, and <chain> and <who> of a record. Each store to
 * them is a release and each load an acquire. So a reader that sees a change made after a line's
 * version went up also sees the new version, and looks again. No reader waits for the end of a
 * change, because every state that it can see is valid. */
#ifndef KVROUTE_EVENTS_IN_H
#define KVROUTE_EVENTS_IN_H

#include <stdatomic.h>

#include "agent/base/hash.h"
#include "agent/base/region.h"
#include "agent/events/events.h"

typedef uint32_t rec_ref;	/* number of a record + 1; 0: none */

#define REF_BITS	24u
#define REF_MASK	((1u << REF_BITS) - 1)
#define GROUP		15u	/* records of a group, entries of a line */
#define LOAD_PERCENT	96u
#define LINES_MAX	64u	/* that one lookup may pass */
#define WORDS_MAX	(EVENTS_HOLDERS_MAX / 64)
#define NO_HOLDER	0xffffu

struct rec {
	_Atomic uint64_t chain;
	_Atomic uint32_t who;	/* copies: 4 bits a tier | holder: 12 | in a set: 1 | 3 bits of the hash */
	uint32_t hash;		/* 32 bits of it */
	uint32_t older, newer;	/* refs; above each, 8 bits of the hash */
};

_Static_assert(sizeof(struct rec) == 24, "bytes a record are a promise");
_Static_assert(EVENTS_HOLDERS_MAX <= 1u << 12, "a holder is 12 bits of a record");

#define WHO_HOLDER_SHIFT	16u
#define WHO_IN_SET		(1u << 28)
#define WHO_HASH_SHIFT		29u

struct holder {
	server_id server;
	uint16_t rank;
	uint16_t next;		/* of the same server, or in its queue */
	uint8_t size;		/* number of its block size + 1; 0: none yet */
	bool used;
	uint32_t n;		/* records */
	uint32_t n_parked;
	rec_ref oldest, newest;
};

struct parked {
	uint64_t own, parent;	/* hashes of the handles */
	uint64_t pages;		/* hash of the block's pages; of one that is ready, its chain */
	/* numbers + 1; <older>: the next one that is ready or free */
	uint32_t next_own, next_parent, older, newer;
	uint16_t holder, copies;
	uint32_t spare;
};

struct line {
	/* tag: 8 | ref, or a number above all refs: of a set */
	_Alignas(64) _Atomic uint32_t entry[GROUP];
	_Atomic uint32_t head;				/* version: 24 | passed: 8 */
};

/* The holders of one chain: for each tier <words> words, a bit a holder. */
struct set {
	_Atomic uint64_t chain;
	uint32_t n;		/* records in it */
	uint32_t next;		/* free set */
	_Atomic uint64_t bits[];
};

struct queue {
	uint16_t first, last;
};

struct events {
	struct hash_key key;
	struct region region;
	size_t max_bytes;

	uint8_t *tags;			/* 16 a group: tags, and how many records have passed it; 255 stays */
	struct rec *recs;
	uint32_t n_groups, n_recs, max_recs;

	struct line *lines;
	uint32_t n_lines;
	uint8_t *sets;
	size_t set_bytes;
	/* <to_set>: holders from which a chain gets a set */
	uint32_t max_sets, sets_used, free_set, to_set;

	struct holder *holders;
	_Atomic uint32_t *who_is;	/* [holder]: server << 16 | rank */
	_Atomic uint32_t *born;		/* [holder]: <given> when it was given out last */
	uint32_t max_holders, words;
	struct queue dying, free_holders;
	uint16_t of_server[SERVERS_MAX];
	uint32_t server_recs[SERVERS_MAX], capacity[SERVERS_MAX];
	uint32_t servers_end;		/* one more than the highest server seen */

	_Atomic uint32_t sizes[EVENTS_SIZES_MAX];	/* block_pages; 0: free */
	uint32_t size_users[EVENTS_SIZES_MAX];
	_Atomic uint64_t *live;		/* [size * words]: holders that count */
	_Atomic uint32_t given;		/* times that a holder was given out */

	struct parked *parked;
	uint32_t *by_own, *by_parent;
	uint32_t max_parked, parked_heads, free_parked, oldest_parked, newest_parked;

	struct {
		_Atomic uint64_t records, holders, parked, sets, stored, removed, cleared, joined, parked_dropped,
			evicted, unknown, odd, refused;
	} st;
};

/* One thread writes, so this need not be an atomic addition. */
#define COUNT(ev, what, by)	atomic_store_explicit(&(ev)->st.what, \
		atomic_load_explicit(&(ev)->st.what, memory_order_relaxed) + (uint64_t)(by), memory_order_relaxed)

static inline struct rec *rec_at(const struct events *ev, rec_ref r)
{
	return &ev->recs[r - 1];
}

static inline uint32_t rec_who(const struct rec *r)
{
	return atomic_load_explicit(&r->who, memory_order_acquire);
}

static inline uint64_t rec_chain(const struct rec *r)
{
	return atomic_load_explicit(&r->chain, memory_order_acquire);
}

static inline uint32_t who_holder(uint32_t who)
{
	return who >> WHO_HOLDER_SHIFT & (EVENTS_HOLDERS_MAX - 1);
}

static inline unsigned copies_of(uint32_t copies, unsigned tier)
{
	return copies >> 4 * tier & 15;
}

/* Return a bit for each tier that has a copy. */
static inline unsigned tiers_of(uint32_t copies)
{
	unsigned any = copies | copies >> 1 | copies >> 2 | copies >> 3;

	return (any & 1) | (any >> 3 & 2) | (any >> 6 & 4) | (any >> 9 & 8);
}

static inline uint32_t copies_add(uint32_t copies, unsigned tier)
{
	return copies_of(copies, tier) == EVENTS_COPIES_MAX ? copies : copies + (1u << 4 * tier);
}

static inline struct set *set_at(const struct events *ev, uint32_t i)
{
	return (struct set *)(uintptr_t)(ev->sets + (size_t)i * ev->set_bytes);
}

/* ---- hashes ---- */

static inline uint64_t handle_hash(const struct events *ev, uint32_t holder, uint64_t handle)
{
	return hash_mix(&ev->key, holder, handle);
}

/* Return the chain before the first block. Blocks of different sizes never share a chain. */
static inline uint64_t chain_root(
    const struct events *ev, const uint64_t *space, uint32_t block_pages)
{
	uint64_t all[3] = { space[0], space[1], block_pages };

	return hash64(&ev->key, all, sizeof(all));
}

static inline uint64_t pages_hash(
    const struct events *ev, const page_key *keys, uint32_t block_pages)
{
	return hash64(&ev->key, keys, block_pages * sizeof(*keys));
}

static inline uint64_t chain_next(const struct events *ev, uint64_t chain, uint64_t pages)
{
	return hash_mix(&ev->key, chain, pages);
}

/* ---- handle_map.c ---- */

rec_ref map_find(const struct events *ev, uint32_t holder, uint64_t hash);	/* 0: none */
/* Prefetch the memory that map_find() needs: first the tags, for a few hashes, then the records. */
void map_ask_tags(const struct events *ev, uint64_t hash);
void map_ask_record(const struct events *ev, uint64_t hash);
void map_ask_list(const struct events *ev, rec_ref ref);
/* Add a record as the next older one of <before>; 0: as the newest. There must be room: fewer than
 * max_recs. It has no copies yet and is not among the holders of its chain. */
rec_ref map_add(struct events *ev, uint32_t holder, uint64_t hash, uint64_t chain, rec_ref before);
void map_remove(struct events *ev, rec_ref ref);
void map_touch(struct events *ev, rec_ref ref, rec_ref before);	/* move it there */
const char *map_check(const struct events *ev);

/* ---- chain_holders.c ---- */

/* Set the copies of a record and what it holds. Returns false if there is no room for a new one. */
bool held_update(struct events *ev, rec_ref ref, uint32_t copies);
const char *held_check(const struct events *ev);

/* Return a line of a chain. The lines of one chain are scattered, so those of two chains with many
 * holders do not queue up. <n_lines> is a prime, so a lookup meets each line once. */
static inline struct line *line_of(const struct events *ev, uint64_t chain, unsigned hop)
{
	uint32_t i = (uint32_t)((chain >> 32) * ev->n_lines >> 32);

	if (hop > 0)
		i = (uint32_t)((i + hop * (1 + (chain >> 8 & 0xffffff) % (ev->n_lines - 1))) % ev->n_lines);
	return &ev->lines[i];
}

static inline uint32_t chain_tag(uint64_t chain)
{
	return (uint32_t)chain << REF_BITS;
}

/* ---- parked.c ---- */

struct parked *park_find(const struct events *ev, uint32_t holder, uint64_t own);
/* Returns false if there is no room at all. */
bool park_add(struct events *ev, uint32_t holder, uint64_t own, uint64_t parent, uint64_t pages,
    uint32_t copies);
void park_remove(struct events *ev, struct parked *p);
void park_forget(struct events *ev, uint32_t holder);
/* Take the blocks that wait for <parent> out of the parked ones and put them before <ready>; their
 * <pages> become their chain after <chain>. Returns the first, by number + 1. park_give() frees
 * each. */
uint32_t park_take(
    struct events *ev, uint32_t holder, uint64_t parent, uint64_t chain, uint32_t ready);
uint32_t park_give(struct events *ev, uint32_t ready);		/* the next one that is ready */
const char *park_check(const struct events *ev);

/* ---- holder.c ---- */

/* NO_HOLDER: none */
uint32_t holder_find(const struct events *ev, server_id server, uint16_t rank);
/* NO_HOLDER: none is free */
uint32_t holder_get(struct events *ev, server_id server, uint16_t rank);
/* false: it has another size, or all sizes are in use */
bool holder_size(struct events *ev, uint32_t holder, uint32_t block_pages);
void holder_clear(struct events *ev, uint32_t holder);
/* removes records of cleared holders; true: there are more */
bool holder_reap(struct events *ev, uint32_t work);
void rec_drop(struct events *ev, rec_ref ref);		/* from everything */
void room_for_one(struct events *ev);			/* for one record */
void keep_to_capacity(struct events *ev, uint32_t holder, uint32_t work);
const char *holder_check(const struct events *ev);

#endif
