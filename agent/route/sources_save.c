/* sources_save.c - publishers of KV cache events with their blocks, as bytes after the snapshot of
 * the tree, and back.
 *
 *   head     magic[8]  u32 version, ids of a page  u64 key id  u32 sources, bytes of the list
 *            u64 checksum of the 32 bytes before
 *   list     of each source: u16 number, bytes of the pool's name, of the server's  u16 ranks
 *            u32 tokens of a block, of a page  names
 *            of each rank: u64 next, hash, blocks, full, other  u16 flags, tokens of a block stored
 *            apart  u32 tokens of a block
 *            u64 checksum of the list before
 *   blocks   events_save()                                  numbers: little endian
 *
 * A rank is continued only from the place of its last batch. No batch is applied while all this is
 * written; decisions go on. */
#include "agent/base/buf.h"
#include "agent/base/mem.h"
#include "agent/base/sections.h"
#include "agent/route/job_in.h"

#define MAGIC		"kvrevnt\n"
#define VERSION		1u
#define HEAD_BYTES	40u
#define SOURCE_BYTES	16u
#define RANK_BYTES	48u

enum { FLAG_PLACE = 1, FLAG_START = 2, FLAG_TIERS = 4, FLAG_DEVICE = 8, FLAG_ODD = 16 };
#define APART_SHIFT	16u
#define BLOCK_MAX	(sizeof(((struct sources *)0)->tokens) / sizeof(uint32_t))	/* tokens */

_Static_assert(BLOCK_MAX <= UINT16_MAX, "the size of blocks stored apart has 16 bits");

/* ---- writing ---- */

static void add_rank(struct buf *b, const struct source *s, const struct source_rank *k)
{
	bool placed = k->placed > 0 && k->placed == k->batches;

	add64(b, k->place.next);
	add64(b, k->place.hash);
	add64(b, k->place.blocks);
	add64(b, k->full);
	add64(b, k->other);
	add32(b, (placed ? FLAG_PLACE : 0) | (k->place.from_start ? FLAG_START : 0) |
		 (s->tiers ? FLAG_TIERS : 0) | (k->by_device ? FLAG_DEVICE : 0) |
		 (k->odd_size ? FLAG_ODD : 0) | k->apart_size << APART_SHIFT);
	add32(b, k->block_size);
}

static void add_source(struct buf *b, source_id id, const struct source *s)
{
	add16(b, (uint16_t)id);
	add16(b, (uint16_t)strlen(s->pool));
	add16(b, (uint16_t)strlen(s->server));
	add16(b, (uint16_t)s->n_ranks);
	add32(b, s->block_size);
	add32(b, s->page);
	buf_str(b, s->pool);
	buf_str(b, s->server);
	for (unsigned i = 0; i < s->n_ranks; i++)
		add_rank(b, s, &s->rank[i]);
}

static void add_head(struct buf *b, const struct route *r, uint32_t sources, size_t list)
{
	buf_add(b, MAGIC, 8);
	add32(b, VERSION);
	add32(b, r->sources.token_page);
	add64(b, hash_key_id(&r->key));
	add32(b, sources);
	add32(b, (uint32_t)list);
	add64(b, checksum(b->p, b->n));
}

/* Write the list. Returns the number of its sources; 0: none, or no memory. The lock is held. */
static uint32_t make_list(const struct sources *t, struct buf *list)
{
	uint32_t n = 0;

	for (source_id i = 0; i < t->n; i++) {
		if (t->of[i].server[0] == '\0' || t->of[i].restored != 0)
			continue;
		add_source(list, i, &t->of[i]);
		n++;
	}
	if (n > 0)
		add64(list, checksum(list->p, list->n));
	return list->failed ? 0 : n;
}

int route_save_events(struct route *r, snapshot_put *put, void *arg)
{
	struct sources *t = &r->sources;
	struct buf head = { 0 }, list = { 0 };
	uint32_t n;
	int rc = 0;

	if (atomic_load_explicit(&t->events, memory_order_acquire) == NULL)
		return 0;
	pthread_mutex_lock(&t->lock);
	n = make_list(t, &list);
	if (n > 0) {
		add_head(&head, r, n, list.n);
		rc = head.failed || put(arg, head.p, head.n) != 0 || put(arg, list.p, list.n) != 0 ||
			     events_save(t->events, put, arg) != 0 ? -1 : 0;
	}
	pthread_mutex_unlock(&t->lock);
	buf_free(&head);
	buf_free(&list);
	return rc;
}

/* A record takes fewer bytes in a file than in memory. */
uint64_t route_events_bytes_most(const struct route_opts *o)
{
	uint64_t list = SOURCE_BYTES + POOL_NAME_MAX + SERVER_NAME_MAX +
	    (uint64_t)SOURCE_RANKS_MAX * RANK_BYTES;

	return o->events_max_bytes > 0 ? o->events_max_bytes + SOURCES_MAX * list + 4096 : 0;
}

/* ---- reading ---- */

/* What is left of the list. */
struct list_left {
	const uint8_t *p;
	size_t n;
};

static const uint8_t *list_take(struct list_left *l, size_t n)
{
	const uint8_t *p = l->p;

	if (n > l->n)
		return NULL;
	l->p += n;
	l->n -= n;
	return p;
}

static int check_head(const struct route *r, const uint8_t *p, size_t n, struct err *e)
{
	size_t list;

	if (n < HEAD_BYTES || memcmp(p, MAGIC, 8) != 0 ||
	    get64(p + 32) != checksum(p, 32))
		return err_set(e, "the part with KV cache events is damaged");
	if (get32(p + 8) != VERSION)
		return err_set(e, "the part with KV cache events has version %u, not %u", get32(p + 8), VERSION);
	if (get32(p + 12) != r->sources.token_page || get64(p + 16) != hash_key_id(&r->key))
		return err_set(e, "the part with KV cache events has other pages or another key");
	list = get32(p + 28);
	if (list < 8 || list > n - HEAD_BYTES ||
	    get64(p + HEAD_BYTES + list - 8) != checksum(p + HEAD_BYTES, list - 8))
		return err_set(e, "the list of publishers of KV cache events is damaged");
	return 0;
}

/* Larger blocks are never stored apart; with such a size, all that come would seem to be parts. */
static bool apart_is_valid(const uint8_t *rank, unsigned ranks)
{
	for (unsigned i = 0; i < ranks; i++, rank += RANK_BYTES)
		if (get32(rank + 40) >> APART_SHIFT > BLOCK_MAX)
			return false;
	return true;
}

static void take_rank(struct source *s, struct source_rank *k, const uint8_t *p)
{
	uint32_t flags = get32(p + 40);

	*k = (struct source_rank){
		.place = { .next = get64(p), .hash = get64(p + 8), .blocks = get64(p + 16),
			   .from_start = (flags & FLAG_START) != 0 },
		.full = get64(p + 24), .other = get64(p + 32),
		.from_start = (flags & FLAG_START) != 0, .restored = (flags & FLAG_PLACE) != 0,
		.block_size = get32(p + 44), .by_device = (flags & FLAG_DEVICE) != 0,
		.odd_size = (flags & FLAG_ODD) != 0, .apart_size = flags >> APART_SHIFT,
		.batches = 1, .placed = (flags & FLAG_PLACE) != 0,
	};
	s->tiers |= (flags & FLAG_TIERS) != 0;
	s->apart = s->apart || k->apart_size > 0;
}

static bool take_source(struct route *r, struct list_left *l, int16_t *now_at, msec now)
{
	const uint8_t *p = list_take(l, SOURCE_BYTES), *pool, *server, *rank;
	struct source *s;
	unsigned ranks;
	source_id id;

	if (p == NULL || (pool = list_take(l, get16(p + 2))) == NULL ||
	    (server = list_take(l, get16(p + 4))) == NULL || (ranks = get16(p + 6)) == 0 ||
	    (rank = list_take(l, ranks * (size_t)RANK_BYTES)) == NULL || get16(p) >= SOURCES_MAX ||
	    !apart_is_valid(rank, ranks))
		return false;
	id = route_source_open(r, span_of((const char *)pool, get16(p + 2)),
	    span_of((const char *)server, get16(p + 4)), ranks, now);
	if (id == SOURCE_NONE)
		return true;
	s = &r->sources.of[id];
	s->restored = now;
	s->block_size = get32(p + 8);
	if (get32(p + 12) > PROMPT_TOKEN_PAGE_MAX)
		return false;
	if (get32(p + 12) > 0 && !source_use_page(&r->sources, s, get32(p + 12)))
		return true;
	for (unsigned i = 0; i < ranks; i++)
		take_rank(s, &s->rank[i], rank + i * (size_t)RANK_BYTES);
	now_at[get16(p)] = (int16_t)id;
	return true;
}

struct restored {
	int16_t now_at[SOURCES_MAX];	/* by the number in the list; -1: unknown */
};

static int source_now(void *arg, server_id saved)
{
	const struct restored *m = arg;

	return saved < SOURCES_MAX ? m->now_at[saved] : -1;
}

/* Blocks of a rank without a place cannot be continued. */
static void clear_unplaced(struct route *r)
{
	for (source_id i = 0; i < r->sources.n; i++) {
		struct source *s = &r->sources.of[i];

		for (unsigned k = 0; k < s->n_ranks; k++)
			if (!s->rank[k].restored)
				source_rank_forget(&r->sources, i, k);
		s->blocks = events_server_records(r->sources.events, (server_id)i);
	}
}

static void close_restored(struct route *r)
{
	for (source_id i = 0; i < r->sources.n; i++)
		if (r->sources.of[i].restored != 0)
			route_source_close(r, i);
}

int route_restore_events(
    struct route *r, const uint8_t *bytes, size_t n, msec now, struct err *e)
{
	struct list_left l = { bytes, n };
	struct events_loaded loaded;
	struct restored m;
	const uint8_t *blocks;

	if (check_head(r, bytes, n, e) != 0)
		return -1;
	l = (struct list_left){ bytes + HEAD_BYTES, get32(bytes + 28) - 8 };
	blocks = l.p + l.n + 8;
	memset(m.now_at, 0xff, sizeof(m.now_at));
	for (uint32_t i = get32(bytes + 24); i > 0; i--)
		if (!take_source(r, &l, m.now_at, now))
			goto malformed;
	if (r->sources.events == NULL)
		return 0;
	if (events_load(r->sources.events, blocks, (size_t)(bytes + n - blocks), source_now, &m, &loaded,
		e) == 0) {
		clear_unplaced(r);
		return 0;
	}
	close_restored(r);
	return -1;
malformed:
	close_restored(r);
	return err_set(e, "the list of publishers of KV cache events is malformed");
}
