/* bpe.c - encode pieces: the way of each piece.
 *
 *   in the cache of earlier pieces                 copy its ids                  bpe_cache_in.h
 *   a token as a whole                             one table lookup              bpe_find_in.h
 *   up to WALK_SHORT bytes                         walk from token to token      bpe_walk.c
 *   longer                                         the same, in steps
 *   a vocabulary whose unknown characters merge    merge in order of rank        bpe_merge.c
 *
 * All give the same ids at different cost. A piece is looked up whole only if the table says that
 * its own merges make it, or if merges are ignored. The code reads 16 bytes at the start of a
 * piece, so the last pieces of a call, with fewer bytes after them, take a separate path. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_cache_in.h"
#include "agent/tok/bpe/bpe_find_in.h"

struct bpe_scratch *bpe_scratch_new(void)
{
	struct bpe_scratch *c = mem_alloc(sizeof(*c));

	if (c != NULL && (c->cache = piece_cache_new()) == NULL) {
		mem_free(c);
		return NULL;
	}
	if (c != NULL)
		bpe_scratch_work(c, NULL);
	return c;
}

void bpe_scratch_work(struct bpe_scratch *c, struct work_left *w)
{
	work_unbound(&c->no_limit);
	c->work = w != NULL ? w : &c->no_limit;
}

void bpe_scratch_wipe(struct bpe_scratch *c)
{
	merger_fini(&c->m);
	merger_fini(&c->spare);
	vec_free(&c->walk.dead);
	mem_wipe(&c->walk, sizeof(c->walk));
	c->atoms = (struct atoms){ .n = 0 };
	c->phase = LONG_IDLE;
	c->out_at = 0;
	piece_cache_wipe(c->cache);
}

void bpe_scratch_free(struct bpe_scratch *c)
{
	if (c == NULL)
		return;
	bpe_scratch_wipe(c);
	piece_cache_free(c->cache);
	mem_free_wiped(c, sizeof(*c));
}

static size_t merger_bytes(const struct merger *m)
{
	return m->sym.cap * sizeof(*m->sym.p) + m->prev.cap * sizeof(*m->prev.p) +
	       m->next.cap * sizeof(*m->next.p) + m->cand.cap * sizeof(*m->cand.p) +
	       m->heap.cap * sizeof(*m->heap.p);
}

size_t bpe_scratch_bytes(const struct bpe_scratch *c)
{
	return sizeof(*c) + sizeof(*c->cache) + merger_bytes(&c->m) +
	    merger_bytes(&c->spare) + c->walk.dead.cap * sizeof(*c->walk.dead.p);
}

/* ---- one piece ------------------------------------------------------------------------------- */

/* Return the token that the whole piece is, or SYM_NONE. */
static uint32_t as_whole(const struct bpe *b, const uint8_t *p, size_t n, size_t room)
{
	uint32_t value = whole_find(b, p, n, room);

	return value & SLOT_ALONE || (value && b->head->flags & HEAD_IGNORE_MERGES)
	    ? value & SYM_NONE
	    : SYM_NONE;
}

static int start(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room)
{
	uint32_t sym = n ? as_whole(b, p, n, room) : SYM_NONE;

	c->atoms = (struct atoms){ .p = p, .n = n, .room = room };
	c->m.sym.n = 0;
	c->out_at = 0;
	c->phase = LONG_OUT;
	if (sym != SYM_NONE)
		return syms_add(&c->m.sym, sym);
	c->phase = b->head->flags & HEAD_WALK ? LONG_WALK : LONG_ATOMS;
	return c->phase == LONG_WALK ? walk_start(&c->walk, n) : 0;
}

int bpe_long_start(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n)
{
	return start(b, c, p, n, n);
}

static int write_out(const struct bpe *b, struct bpe_scratch *c, size_t *budget, struct ids *out)
{
	for (; c->out_at < c->m.sym.n; c->out_at++, --*budget) {
		if (*budget == 0)
			return 1;
		if (c->m.sym.p[c->out_at] == SYM_NONE)
			continue;
		if (ids_reserve(out, 1) < 0)
			return -1;
		out->p[out->n++] = sym_id(b, c->m.sym.p[c->out_at]);
	}
	return 0;
}

int bpe_long_step(const struct bpe *b, struct bpe_scratch *c, size_t budget, struct ids *out)
{
	size_t had = budget;
	int rc = 0;

	if (c->phase == LONG_WALK &&
	    (rc = walk_step(b, &c->walk, &c->atoms, &c->m.sym, &c->spare, &budget)) == 0)
		c->phase = LONG_OUT;
	if (c->phase == LONG_ATOMS && (rc = atoms_read(b, &c->atoms, &c->m.sym, &budget)) == 0) {
		if (merger_start(&c->m) < 0)
			return -1;
		c->phase = LONG_MERGE;
	}
	if (c->phase == LONG_MERGE && (rc = merger_step(b, &c->m, &budget)) == 0)
		c->phase = LONG_OUT;
	if (c->phase == LONG_OUT && (rc = write_out(b, c, &budget, out)) == 0)
		c->phase = LONG_IDLE;
	work_spend(c->work, STEPS_TRY * (had - budget));
	return rc;
}

/* ---- a piece that the cache does not have ---------------------------------------------------- */

/* Returns 1, without ids, if the work is used up. */
static int encode_long(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct ids *out)
{
	size_t had = out->n;
	int rc = start(b, c, p, n, room) < 0
	    ? -1
	    : bpe_long_step(b, c, c->work->left / STEPS_TRY + 1, out);

	if (rc > 0)
		out->n = had;
	return rc;
}

static int encode_piece(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct ids *out)
{
	struct found f;
	uint32_t value;
	ssize_t k;

	if (n - 1 >= WALK_SHORT || !(b->head->flags & HEAD_WALK))
		return encode_long(b, c, p, n, room, out);
	if (out->cap - out->n < n && ids_reserve(out, n) < 0)
		return -1;
	value = whole_find(b, p, n, room);
	if (value & SLOT_ALONE || (value && b->head->flags & HEAD_IGNORE_MERGES)) {
		out->p[out->n++] = sym_id(b, value & SYM_NONE);
		return 0;
	}
	f = longest_find(b, p, n, room);
	if ((k = walk_short(b, c, p, n, room, f, out->p + out->n)) <= 0)
		return k < 0 ? -1 : encode_long(b, c, p, n, room, out);
	out->n += (size_t)k;
	return 0;
}

/* ---- many pieces ----------------------------------------------------------------------------- */

/* Pieces are handled by the hundred. First look up all in the cache; then prefetch the table lines
 * of the misses, so that their loads overlap; then write all in order. New pieces enter the cache
 * last, because the entries that were found must stay until they are written. */
#define CHUNK 128u
#define CHUNK_IDS (CACHE_IDS * CHUNK + LONG_IDS)	/* of its hits, and of a long piece after them */

struct chunk {
	const uint8_t *text;
	const uint32_t *end;
	uint32_t begin;				/* of the first piece */
	uint32_t n, n_misses;
	const struct cached *hit[CHUNK];
	uint16_t miss[CHUNK];
	struct { size_t at, n; bool known; } ids[CHUNK];	/* of the misses, in the output */
};

static inline uint32_t piece_at(const struct chunk *h, size_t i)
{
	return i ? h->end[i - 1] : h->begin;
}

static void look_up(const struct piece_cache *cache, struct chunk *h)
{
	uint32_t at = h->begin, owner = cache->owner, i, n_misses = 0;

	for (i = 0; i < h->n; at = h->end[i++]) {
		struct piece k = piece_load(h->text + at, h->end[i] - at, owner);
		const struct cached *e = cache_find(cache, k);

		h->hit[i] = e;
		h->miss[n_misses] = (uint16_t)i;
		n_misses += !cache_is(e, k);
	}
	h->n_misses = n_misses;
}

static void fetch(const struct bpe *b, const struct chunk *h)
{
	uint64_t hash[CHUNK];
	uint32_t i;

	for (i = 0; i < h->n_misses; i++) {
		uint32_t at = piece_at(h, h->miss[i]), n = h->end[h->miss[i]] - at;

		hash[i] = key_hash(key_cut(key_load(h->text + at, 16), n <= SHORT_MOST ? n : LEN_GROUP));
		__builtin_prefetch(&b->tags[key_bucket(b, hash[i])]);
	}
	for (i = 0; i < h->n_misses; i++) {
		uint32_t at = key_bucket(b, hash[i]);
		uint64_t like = tags_like(b->tags[at], key_tag(hash[i]));

		if (like)
			__builtin_prefetch(&b->slots[(size_t)at * BUCKET + ((uint32_t)__builtin_ctzll(like) >> 3)]);
	}
}

/* Write the hits [from .. to). */
static void write_hits(const struct chunk *h, uint32_t from, uint32_t to, struct ids *out)
{
	token_id *p = out->p + out->n;
	uint32_t i;

	for (i = from; i < to; i++) {
		memcpy(p, h->hit[i]->id, sizeof(h->hit[i]->id));
		p += h->hit[i]->n;
	}
	out->n = (size_t)(p - out->p);
}

/* Write the ids of a piece that is cached as a long one; LONG_IDS of them have room. */
static bool write_long(
    const struct piece_cache *cache, const uint8_t *p, uint32_t n, struct ids *out)
{
	const struct cached_long *e = long_find(cache, p, n);

	if (e == NULL)
		return false;
	memcpy(out->p + out->n, e->id, sizeof(e->id));
	out->n += e->n;
	return true;
}

static int write_chunk(const struct bpe *b, struct bpe_scratch *c, struct chunk *h, size_t all,
    struct ids *out)
{
	uint32_t i, done = 0;
	int rc;

	work_spend(c->work, h->n * STEPS_PIECE / 2 + h->n_misses * STEPS_MISS);
	for (i = 0; i < h->n_misses; i++) {
		uint32_t k = h->miss[i], at = piece_at(h, k);

		if (out->cap - out->n < CHUNK_IDS && ids_reserve(out, CHUNK_IDS) < 0)
			return -1;
		write_hits(h, done, k, out);
		h->ids[i].at = out->n;
		h->ids[i].known = write_long(c->cache, h->text + at, h->end[k] - at, out);
		if (!h->ids[i].known && h->end[k] > at &&
		    (rc = work_spent(c->work) ? 1
					      : encode_piece(b, c, h->text + at, h->end[k] - at,
						    all - at, out)) != 0) {
			h->n_misses = i;
			return rc;
		}
		h->ids[i].n = out->n - h->ids[i].at;
		done = k + 1;
	}
	if (out->cap - out->n < CHUNK_IDS && ids_reserve(out, CHUNK_IDS) < 0)
		return -1;
	write_hits(h, done, h->n, out);
	return 0;
}

static void keep_misses(struct bpe_scratch *c, const struct chunk *h, const struct ids *out)
{
	uint32_t i;

	for (i = 0; i < h->n_misses; i++) {
		uint32_t at = piece_at(h, h->miss[i]), n = h->end[h->miss[i]] - at;

		if (n == 0 || h->ids[i].known)
			continue;
		if (n <= CACHE_PIECE && h->ids[i].n <= CACHE_IDS)
			cache_put(c->cache, piece_load(h->text + at, n, c->cache->owner), out->p + h->ids[i].at,
				  h->ids[i].n);
		else
			long_put(c->cache, h->text + at, n, out->p + h->ids[i].at, h->ids[i].n);
	}
}

/* Encode pieces [0 .. n), each of which starts where 16 bytes are readable. */
static int encode_pieces(const struct bpe *b, struct bpe_scratch *c, const uint8_t *text,
    const uint32_t *end, size_t n, size_t all, struct ids *out)
{
	struct chunk h;
	size_t i;
	int rc;

	for (i = 0; i < n; i += h.n) {
		h.text = text;
		h.end = end + i;
		h.begin = i ? end[i - 1] : 0;
		h.n = n - i < CHUNK ? (uint32_t)(n - i) : CHUNK;
		look_up(c->cache, &h);
		fetch(b, &h);
		if ((rc = write_chunk(b, c, &h, all, out)) < 0)
			return -1;
		keep_misses(c, &h, out);
		if (rc > 0)
			return rc;
	}
	return 0;
}

int bpe_encode(const struct bpe *b, struct bpe_scratch *c, const uint8_t *text, const uint32_t *end,
    size_t n, struct ids *out)
{
	size_t had = out->n, safe = n, all = n ? end[n - 1] : 0, i;
	int rc;

	piece_cache_own(c->cache, b->head->print);
	while (safe > 0 && all - (safe > 1 ? end[safe - 2] : 0) < 16)
		safe--;
	rc = encode_pieces(b, c, text, end, safe, all, out);
	for (i = safe; rc == 0 && i < n; i++) {
		uint32_t at = i ? end[i - 1] : 0;

		if (end[i] > at) {
			work_spend(c->work, STEPS_MISS);
			rc = encode_piece(b, c, text + at, end[i] - at, all - at, out);
		}
	}
	if (rc < 0)
		out->n = had;
	return rc;
}
