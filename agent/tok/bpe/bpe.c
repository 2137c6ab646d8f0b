/* bpe.c - encode pieces: the way of each piece.
 *
 *   in the cache of earlier pieces                 copy its ids                  bpe_cache_in.h
 *   a token as a whole                             one table lookup              bpe_find_in.h
 *   up to WALK_SHORT bytes                         walk from token to token      bpe_walk.c
 *   longer                                         the same, in steps
 *   a vocabulary whose unknown characters merge    merge in order of rank        bpe_merge.c
 *
 * All give the same ids at different cost. A piece is looked up whole only if the table says that
 * its own merges make it, or if merges are ignored. Many pieces: bpe_chunk.c. */
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

int encode_piece(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct ids *out)
{
	struct found f;
	uint32_t whole = SYM_NONE;
	bool wide;
	ssize_t k;

	if (n - 1 >= WALK_SHORT || !(b->head->flags & HEAD_WALK))
		return encode_long(b, c, p, n, room, out);
	if (out->cap - out->n < n && ids_reserve(out, n) < 0)
		return -1;
	wide = p[0] >= 0xe0 || (n > 1 && p[1] >= 0xe0);		/* mostly of several tokens */
	f = wide ? longest_find(b, p, n, room) : (struct found){ SYM_NONE, 0 };
	if (f.n == n)
		whole = f.sym;
	else if (!wide || (b->head->flags & HEAD_IGNORE_MERGES && whole_others(b, p, n, room)))
		whole = as_whole(b, p, n, room);
	if (whole != SYM_NONE) {
		out->p[out->n++] = sym_id(b, whole);
		return 0;
	}
	if (!wide)
		f = longest_other(b, p, n > 1 ? n - 1 : 1, room);
	if ((k = walk_short(b, c, p, n, room, f, out->p + out->n)) <= 0)
		return k < 0 ? -1 : encode_long(b, c, p, n, room, out);
	out->n += (size_t)k;
	return 0;
}
