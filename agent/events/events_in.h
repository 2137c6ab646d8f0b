/* events_in.h - the data that the files of this folder share.
 *
 *   region:  [ holders | live | parked | heads | chunk infos | chunks of 4 KiB ... ]
 *
 *   slab     chunks, cut into objects of 64 to 4096 bytes              slab.c
 *   run      up to 64 blocks in a row, and where each chain goes on    run.c
 *   member   which holders have which blocks of a run                  member.c
 *   pen      the blocks of one holder in one run, being changed        pen.c
 *   handles  handles of one holder -> run and block                    handles.c
 *   extras   copies and handles beyond the usual one                   extras.c
 *   parked   blocks that wait for their parent                         parked.c
 *   ages     when records were stored, if they expire                  expire.c
 *
 * A run is 64 bytes and, for each 16 blocks, 128 bytes of keys. A record is a slot of 12.8 bytes in
 * the table of its holder, 14.4 at the usual load, and one bit of a member. With 40 blocks a run,
 * each at one holder, that is 26 bytes.
 *
 * Only runs, keys, members and sets are read without a lock. Each store to them is a release and
 * each load an acquire. Every state that a reader can see is valid by itself, so no reader waits
 * for the end of a change. What a change makes free is used again only after the version of its run
 * went up: a reader loads the version first and again at the end, and looks again if it differs.
 * The memory of a run stays a run's for ever, so that its version can always be read. */
#ifndef KVROUTE_EVENTS_IN_H
#define KVROUTE_EVENTS_IN_H

#include <stdatomic.h>

#include "agent/base/hash.h"
#include "agent/base/region.h"
#include "agent/events/events.h"

#define LINE_BYTES	64u
#define CHUNK_LINES	64u
#define CHUNK_BYTES	(LINE_BYTES * CHUNK_LINES)
#define RUN_BLOCKS	64u
#define SEG_KEYS	16u
#define SEGS		(RUN_BLOCKS / SEG_KEYS)
#define WORDS_MAX	(EVENTS_HOLDERS_MAX / 64)
#define NO_HOLDER	0xffffu

typedef uint32_t line_ref;	/* 64 bytes of the region; 0: none */

/* Class of an object: 64 bytes << class. Runs have their own chunks of 64-byte objects. */
enum { CLASS_64, CLASS_128, CLASS_256, CLASS_512, CLASS_1024, CLASS_2048, CLASS_CHUNK, CLASS_RUN,
       CLASSES };

struct chunk {
	uint64_t free;			/* bits of free objects */
	uint32_t next;			/* chunk number + 1, in the list of its class or of free chunks */
	uint32_t prev : 28, class : 4;
};

struct slab {
	uint8_t *base;			/* of line 0, which is not there: the first chunk begins at line 64 */
	struct chunk *chunks;
	uint32_t max_chunks, cut_chunks, used_chunks;	/* <cut>: used once, and free ones are listed */
	uint32_t free_chunks;
	uint32_t partial[CLASSES];	/* chunks with free objects */
	uint32_t reserve;		/* chunks that only removals may take */
	size_t fixed_bytes, heap_bytes, max_bytes;
};

/* The blocks of one holder in one run, or other facts about the run; by <desc>:
 *   bits 0-2 kind; ONE: 3-14 holder, 15 it has several handles for a block, 32-63 stamp
 *   TIER: 3-14 holder, 16-17 tier; SET: 3-15 holders in it, 32-63 ref; ARRAY: 3-12 members,
 *   13-15 class, 32-63 ref */
struct member {
	_Atomic uint64_t mask, desc;
};

enum member_kind {
	MEMBER_NONE,
	MEMBER_ONE,		/* <mask>: the blocks that the holder has in any tier */
	MEMBER_SET,		/* <mask>: those that each holder in a set of bits has */
	MEMBER_TIER,		/* <mask>: those it has in a tier; device: those it does not have there */
	MEMBER_ARRAY,		/* more members; first in an array: of an older array */
	MEMBER_ROOT		/* not a run: the start of a space, <mask> is its hash */
};

/* <shape>: blocks: 0-7 | block of the parent that it follows: 8-15 */
struct run {
	_Atomic uint32_t version, shape;
	_Atomic uint32_t parent;	/* 0: a root, or none */
	_Atomic uint32_t chained;	/* next one of the same head */
	_Atomic uint32_t keys[SEGS];	/* refs */
	struct member member;		/* or an array of them */
	_Atomic uint32_t next;		/* one of the runs after its last block, as a hint */
	uint32_t n_children;
	_Atomic uint64_t child_at;	/* blocks that a run follows, and perhaps others */
};

_Static_assert(sizeof(struct run) == LINE_BYTES, "a run is a line");
_Static_assert(EVENTS_HOLDERS_MAX <= 1u << 12, "a holder is 12 bits of a member");

/* A block: number <off> of a run; a root is the place before the first block. */
struct place {
	line_ref run;
	uint32_t off;
};

/* Slots of one holder: an even number of lines of 5. word: 51 bits of the hash | 3 age | 6 <off> |
 * 4 tiers with one copy each; 0: the copies are in the extras. */
struct handles {
	uint32_t n, n_lines;
	uint32_t *pieces;		/* refs of chunks with 64 lines each; below 64 lines, one object */
	uint32_t n_pieces, kick;
	uint32_t age;			/* of new slots: expire.c; 0 where none expire */
};

#define LINE_SLOTS	5u
#define WORD_HASH	(~0x1fffull)

struct slots {
	_Atomic uint64_t word[LINE_SLOTS];
	_Atomic uint32_t run[LINE_SLOTS];
	/* slots of which this is the home line and that are in another: 8 counts by 3 bits of the hash; 15
	 * stays */
	_Atomic uint32_t away;
};

_Static_assert(sizeof(struct slots) == LINE_BYTES, "slots are a line");

struct slot {
	struct slots *line;		/* NULL: none */
	uint32_t i;
};

struct extras {
	struct { uint64_t key, value; } *at;	/* key 0: free */
	uint32_t n, room;
};

struct holder {
	server_id server;
	uint16_t rank;
	uint16_t next;		/* of the same server, or in its queue */
	uint8_t size;		/* number of its block size + 1; 0: none yet */
	bool used;
	uint32_t n_parked;
	uint32_t reaped;	/* lines of a cleared holder that are done */
	struct handles map;
	/* records expire: expire.c */
	msec ttl, aged_at;	/* <ttl> 0: they do not; <aged_at>: <map.age> is in use since then */
	uint32_t swept;		/* lines that were looked at since then */
	uint32_t expiring_at;	/* in events.expiring */
};

struct parked {
	uint64_t own, parent;	/* hashes of the handles */
	uint64_t key;		/* of the block */
	/* numbers + 1; <older>: the next one that is ready or free */
	uint32_t next_own, next_parent, older, newer;
	uint16_t holder, copies;
	uint32_t spare;
};

struct queue {
	uint16_t first, last;
};

struct events {
	struct hash_key key;
	struct region region;
	struct slab slab;
	size_t max_bytes;

	_Atomic uint32_t *heads;		/* of runs, by parent and first key */
	unsigned head_shift;
	_Atomic uint32_t unlinked;		/* times that a run left its head */
	struct place pinned;			/* stays, though it has no holder */

	struct holder *holders;
	_Atomic uint32_t *who_is;	/* [holder]: server << 16 | rank */
	_Atomic uint32_t *born;		/* [holder]: <given> when it was given out last */
	uint32_t max_holders, words, n_recs, stamp;
	unsigned set_class;
	struct queue dying, free_holders;
	uint16_t of_server[SERVERS_MAX];
	uint32_t server_recs[SERVERS_MAX], capacity[SERVERS_MAX];
	_Atomic uint64_t lost[SERVERS_MAX];	/* records and blocks, for lack of room */
	uint32_t servers_end;		/* one more than the highest server seen */
	struct extras copies, several;

	uint16_t *expiring;		/* holders with a time to live, in no order */
	uint32_t n_expiring, expire_next;
	msec now;

	_Atomic uint32_t sizes[EVENTS_SIZES_MAX];	/* block_pages; 0: free */
	uint32_t size_users[EVENTS_SIZES_MAX];
	_Atomic uint64_t *live;		/* [size * words]: holders that count */
	_Atomic uint32_t given;		/* times that a holder was given out */

	struct parked *parked;
	uint32_t *by_own, *by_parent;
	uint32_t max_parked, parked_heads, free_parked, cut_parked, oldest_parked, newest_parked;

	struct {
		_Atomic uint64_t bytes, records, holders, parked, runs, blocks, sets, stored, removed, cleared,
			joined, parked_dropped, evicted, expired, unknown, odd, refused;
	} st;
};

/* One thread writes, so this need not be an atomic addition. */
#define COUNT(ev, what, by)	atomic_store_explicit(&(ev)->st.what, \
		atomic_load_explicit(&(ev)->st.what, memory_order_relaxed) + (uint64_t)(by), memory_order_relaxed)

static inline void server_lose(struct events *ev, server_id server, uint32_t n)
{
	_Atomic uint64_t *lost = &ev->lost[server];

	atomic_store_explicit(
	    lost, atomic_load_explicit(lost, memory_order_relaxed) + n, memory_order_relaxed);
}

#define GET(p)		atomic_load_explicit((p), memory_order_acquire)
#define OWN(p)		atomic_load_explicit((p), memory_order_relaxed)	/* by the thread that writes */
#define SET(p, v)	atomic_store_explicit((p), (v), memory_order_release)

/* ---- copies: 4 bits a tier; tiers: a bit each ---- */

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

static inline uint32_t copies_in(unsigned tiers)
{
	return (tiers & 1) | (tiers & 2) << 3 | (tiers & 4) << 6 | (tiers & 8) << 9;
}

static inline uint32_t copies_add(uint32_t copies, unsigned tier)
{
	return copies_of(copies, tier) == EVENTS_COPIES_MAX ? copies : copies + (1u << 4 * tier);
}

/* ---- hashes ---- */

static inline uint64_t handle_hash(const struct events *ev, uint64_t handle)
{
	uint64_t h = hash_mix(&ev->key, 0x68616e646c65ull, handle);

	return h & WORD_HASH ? h : h | 1ull << 32;
}

/* Return the hash of a root. Blocks of different sizes never share a chain. */
static inline uint64_t root_hash(
    const struct events *ev, const uint64_t *space, uint32_t block_pages)
{
	uint64_t all[3] = { space[0], space[1], block_pages };

	return hash64(&ev->key, all, sizeof(all));
}

static inline uint64_t block_key(
    const struct events *ev, const page_key *keys, uint32_t block_pages)
{
	return block_pages == 1 ? keys[0] : hash64(&ev->key, keys, block_pages * sizeof(*keys));
}

/* ---- slab.c ---- */

static inline void *line_at(const struct events *ev, line_ref ref)
{
	return ev->slab.base + (size_t)ref * LINE_BYTES;
}

/* Tell if a reader may follow <ref>, which may come from memory that is used for something else. */
static inline bool line_is_there(const struct events *ev, line_ref ref)
{
	return ref >= CHUNK_LINES && ref < (ev->slab.max_chunks + 1) * CHUNK_LINES;
}

enum slab_need { TAKE_MORE, TAKE_TO_REMOVE };	/* removals may use the reserve */

/* Returns 0 if there is no room. The object has old bytes in it. */
line_ref slab_take(struct events *ev, unsigned class, enum slab_need need);
void slab_give(struct events *ev, line_ref ref, unsigned class);
/* Resize a block of the heap that counts in the budget. NULL: no room or no memory. */
void *heap_resize(struct events *ev, void *p, size_t old_bytes, size_t bytes);
void heap_give(struct events *ev, void *p, size_t bytes);
const char *slab_check(const struct events *ev);

/* ---- run.c ---- */

static inline struct run *run_at(const struct events *ev, line_ref ref)
{
	return line_at(ev, ref);
}

static inline uint32_t shape_len(uint32_t shape)
{
	return shape & 0xff;
}

static inline uint32_t shape_off(uint32_t shape)
{
	return shape >> 8 & 0xff;
}

static inline unsigned desc_kind(uint64_t desc)
{
	return (unsigned)desc & 7;
}

static inline bool run_is_root(const struct run *r)
{
	return desc_kind(OWN(&r->member.desc)) == MEMBER_ROOT;
}

static inline _Atomic uint64_t *key_at(const struct events *ev, const struct run *r, uint32_t off)
{
	return (_Atomic uint64_t *)line_at(ev, OWN(&r->keys[off / SEG_KEYS])) + off % SEG_KEYS;
}

static inline uint32_t head_of(const struct events *ev, line_ref parent, uint32_t off, uint64_t key)
{
	uint64_t h = (key ^ ((uint64_t)parent << 8 | off) * 0xff51afd7ed558ccdull) *
	    0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> ev->head_shift);
}

static inline void run_bump(struct run *r)
{
	SET(&r->version, OWN(&r->version) + 1);
}

static inline uint64_t bit_of(uint32_t off)
{
	return 1ull << off;
}

/* Find the root of a space, or make it. Returns 0 if there is none or no room. */
line_ref root_find(struct events *ev, uint64_t hash, bool make);
/* Move <p> to the block with <key> that follows it. Returns false if there is none, or none can be
 * made. A new block has no holder: give it one, or run_trim(). */
bool run_step(struct events *ev, struct place *p, uint64_t key, bool make);
/* Free the blocks at the end of a run that have no holder and no child, then the run itself,
 * then the end of its parent, and so on. */
void run_trim(struct events *ev, line_ref ref);
void run_pin(struct events *ev, struct place p);	/* instead of the one before; run 0: none */
const char *run_check(const struct events *ev);

/* ---- member.c ---- */

static inline uint32_t desc_holder(uint64_t desc)
{
	return (uint32_t)(desc >> 3) & (EVENTS_HOLDERS_MAX - 1);
}

static inline uint32_t desc_ref(uint64_t desc)
{
	return (uint32_t)(desc >> 32);
}

static inline uint32_t desc_array_n(uint64_t desc)
{
	return (uint32_t)(desc >> 3) & 0x3ff;
}

static inline unsigned desc_array_class(uint64_t desc)
{
	return (unsigned)(desc >> 13) & 7;
}

static inline uint32_t desc_set_n(uint64_t desc)
{
	return (uint32_t)(desc >> 3) & 0x1fff;
}

static inline unsigned desc_tier(uint64_t desc)
{
	return (unsigned)(desc >> 16) & 3;
}

#define DESC_SEVERAL	(1ull << 15)
#define DESC_STAMP	(0xffffffffull << 32)

/* Walk over all members of a run, with unused ones, whose mask is 0. */
struct member_walk {
	struct member *at;
	uint32_t left;
	uint64_t more;			/* an array that follows */
};

void member_first(const struct events *ev, struct run *r, struct member_walk *w);
struct member *member_next(const struct events *ev, struct member_walk *w);

uint64_t members_mask(const struct events *ev, struct run *r);	/* blocks that anybody holds */
/* Add a member; its desc may equal no other's. Members may move. Returns false if there is no
 * room. */
bool member_add(struct events *ev, struct run *r, uint64_t desc, uint64_t mask,
    enum slab_need need);
void member_remove(struct events *ev, struct run *r, struct member *m);		/* others may move */
/* Find the member of a holder: its own, or the set it is in, or NULL. */
struct member *member_find(const struct events *ev, struct run *r, uint32_t holder);
struct member *member_tier(const struct events *ev, struct run *r, uint32_t holder, unsigned tier);
/* Move a holder with a member of its own into a set with the same mask, if there is one. */
void member_join_set(struct events *ev, struct run *r, struct member *m);
void member_leave_set(struct events *ev, struct run *r, struct member *set, uint32_t holder);
const char *members_check(const struct events *ev, struct run *r);

static inline bool set_has(const struct events *ev, line_ref set, uint32_t holder)
{
	const _Atomic uint64_t *bits = line_at(ev, set);

	return OWN(&bits[holder / 64]) >> holder % 64 & 1;
}

/* ---- pen.c ---- */

/* The blocks of <holder> in run <ref>; changes of <mask> are visible after pen_close(). Nothing
 * else may change the members of that run meanwhile. */
struct pen {
	uint32_t holder;
	line_ref ref;			/* 0: closed */
	struct run *r;
	struct member *own, *set;	/* at most one of them */
	uint64_t mask;
	bool dirty, shrunk;
	bool fresh;			/* <own> was made by this pen */
	bool tiers;			/* the holder has members for tiers there */
};

void pen_open(struct events *ev, struct pen *p, uint32_t holder, line_ref ref);
void pen_close(struct events *ev, struct pen *p);
/* Set the tiers of a block for one of its handles; 0 before: a new handle, 0 after: it goes.
 * Returns false and changes nothing if there is no room. */
bool pen_tiers(struct events *ev, struct pen *p, uint32_t off, unsigned was, unsigned now);
/* Set the stamp of the holder's member. */
void pen_stamp(struct events *ev, struct pen *p);
/* Remove everything that the holder has in the run, without its slots. */
void pen_drop_all(struct events *ev, uint32_t holder, line_ref ref);
/* Return the number of handles for a block; for tests. */
uint32_t pen_several(const struct events *ev, uint32_t holder, struct place p);

/* ---- handles.c ---- */

#define WORD_OFF(w)	((uint32_t)((w) >> 4) & 63)
#define WORD_TIERS(w)	((unsigned)(w) & 15)
#define WORD_AGE(w)	((uint32_t)((w) >> 10) & (AGES - 1))
#define WORD_PLACED	(WORD_HASH | 0x3f0)	/* hash and <off> */
#define AGES		8u

static inline struct slots *handles_line(
    const struct events *ev, const struct handles *h, uint32_t line)
{
	return (struct slots *)line_at(ev, h->pieces[line / CHUNK_LINES]) + line % CHUNK_LINES;
}

static inline uint32_t handles_first(const struct handles *h, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * h->n_lines >> 32);
}

static inline uint32_t handles_second(const struct handles *h, uint64_t hash)
{
	uint32_t x = (uint32_t)(hash >> 13) * 0x9e3779b1u;

	return (uint32_t)((uint64_t)x * h->n_lines >> 32);
}

static inline uint32_t handles_away(const struct slots *first, uint64_t hash)
{
	return OWN(&first->away) >> 4 * (hash >> 13 & 7) & 15;
}

/* Prefetch the line that handles_find() reads, well before it; and half the way, the second one if
 * it is needed, too. <add>: to add a slot. Inlined by force: gcc 12 takes a function that only
 * prefetches for one without effect, and removes the call. */
static inline __attribute__((always_inline)) void handles_ask(
    const struct events *ev, const struct handles *h, uint64_t hash)
{
	if (h->n_lines > 0)
		__builtin_prefetch(handles_line(ev, h, handles_first(h, hash)));
}

void handles_ask_second(const struct events *ev, const struct handles *h, uint64_t hash, bool add);
struct slot handles_find(const struct events *ev, const struct handles *h, uint64_t hash);
/* Returns false if there is no room; changes nothing then. */
bool handles_add(
    struct events *ev, struct handles *h, uint64_t hash, struct place p, unsigned tiers);
void handles_remove(const struct events *ev, struct handles *h, struct slot s);
bool handles_fit(struct events *ev, struct handles *h, uint32_t records);	/* to its size */
void handles_free(struct events *ev, struct handles *h);
const char *handles_check(const struct events *ev, const struct handles *h);

static inline struct place slot_place(struct slot s)
{
	return (struct place){ OWN(&s.line->run[s.i]), WORD_OFF(OWN(&s.line->word[s.i])) };
}

/* ---- extras.c ---- */

uint64_t extras_get(const struct extras *x, uint64_t key);	/* 0: none */
bool extras_put(struct events *ev, struct extras *x, uint64_t key, uint64_t value);	/* 0: remove */
void extras_free(struct events *ev, struct extras *x);

static inline uint64_t extra_key(const struct events *ev, uint64_t a, uint64_t b)
{
	uint64_t k = hash_mix(&ev->key, a, b);

	return k != 0 ? k : 1;
}

/* ---- record.c: a slot and its block's bit, together ---- */

/* Return all copies of a record, 4 bits a tier. */
uint32_t record_copies(const struct events *ev, uint32_t holder, struct slot s);
/* Add a record with <copies>. Returns false if there is no room. */
bool record_add(struct events *ev, struct pen *p, uint64_t hash, struct place at, uint32_t copies);
/* Set the copies of a record; 0: remove it. Returns false and changes nothing if there is no
 * room. */
bool record_set(struct events *ev, struct pen *p, struct slot s, uint32_t copies);
const char *record_check(const struct events *ev);

/* ---- parked.c ---- */

struct parked *park_find(const struct events *ev, uint32_t holder, uint64_t own);
/* Returns false if there is no room at all. */
bool park_add(struct events *ev, uint32_t holder, uint64_t own, uint64_t parent, uint64_t key,
    uint32_t copies);
void park_remove(struct events *ev, struct parked *p);
void park_forget(struct events *ev, uint32_t holder);
/* Take the blocks that wait for <parent> out of the parked ones and put them before <ready>.
 * Returns the first, by number + 1. park_give() frees each. */
uint32_t park_take(struct events *ev, uint32_t holder, uint64_t parent, uint32_t ready);
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
const char *holder_check(const struct events *ev);

static inline void holder_count(struct events *ev, uint32_t holder, int by)
{
	ev->n_recs += (uint32_t)by;
	ev->server_recs[ev->holders[holder].server] += ev->holders[holder].used ? (uint32_t)by : 0;
	COUNT(ev, records, by);
}

/* ---- expire.c ---- */

/* Set the time to live of the records of a holder. */
void holder_expires(struct events *ev, uint32_t holder, msec ttl_ms);

/* A record was stored again. */
static inline void slot_renew(const struct handles *h, struct slot s)
{
	uint64_t word = OWN(&s.line->word[s.i]);

	if (WORD_AGE(word) != h->age)
		SET(&s.line->word[s.i], (word & ~(uint64_t)((AGES - 1) << 10)) | h->age << 10);
}

/* ---- evict.c ---- */

/* Free memory of cleared holders, or else of the largest one. Returns false if there is nothing to
 * free. No pen may be open. */
bool evict_some(struct events *ev);
void keep_to_capacity(struct events *ev, uint32_t holder);

#endif
