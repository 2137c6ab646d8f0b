/* bpe.c - pieces into ids. */
#include "agent/base/mem.h"
#include "agent/tok/bpe_find.h"

struct bpe_scratch *bpe_scratch_new(void)
{
	return mem_alloc(sizeof(struct bpe_scratch));
}

void bpe_scratch_free(struct bpe_scratch *c)
{
	if (c == NULL)
		return;
	merger_fini(&c->m);
	merger_fini(&c->spare);
	walk_fini(&c->walk);
	mem_wipe(c, sizeof(*c));
	mem_free(c);
}

int ids_reserve(struct ids *v, size_t more)
{
	size_t cap = v->cap + v->cap / 2;
	token_id *p;

	if (v->cap - v->n >= more)
		return 0;
	cap = cap < v->n + more ? v->n + more : cap;
	if ((p = mem_resize(v->p, cap, sizeof(*p))) == NULL)
		return -1;
	v->p = p;
	v->cap = cap;
	return 0;
}

void ids_free(struct ids *v)
{
	mem_free(v->p);
	memset(v, 0, sizeof(*v));
}

struct span bpe_token_bytes(const struct bpe *b, token_id id)
{
	uint32_t low = 0, high = b->head->n_syms, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (b->sym[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == b->head->n_syms || b->sym[low].id != id)
		return span_of(NULL, 0);
	return span_of(b->text + b->sym[low].at, b->sym[low].n);
}

/* ---- one piece ---------------------------------------------------------------------------- */

/* The token that the piece is as a whole, SYM_NONE. */
static uint32_t as_whole(const struct bpe *b, const uint8_t *p, size_t n, size_t room)
{
	uint32_t value = whole_find(b, p, n, room);

	return value & SLOT_ALONE || (value && b->head->flags & HEAD_IGNORE_MERGES) ? value & SYM_NONE : SYM_NONE;
}

static int start(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n, size_t room)
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
		out->p[out->n++] = b->sym[c->m.sym.p[c->out_at]].id;
	}
	return 0;
}

int bpe_long_step(const struct bpe *b, struct bpe_scratch *c, size_t budget, struct ids *out)
{
	int rc = 0;

	if (c->phase == LONG_WALK && (rc = walk_step(b, &c->walk, &c->atoms, &c->m.sym, &c->spare, &budget)) == 0)
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
	return rc;
}

int bpe_encode(const struct bpe *b, struct bpe_scratch *c, const uint8_t *text, const uint32_t *end, size_t n,
	       struct ids *out)
{
	size_t had = out->n, i;
	uint32_t at = 0;

	for (i = 0; i < n; i++) {
		if (start(b, c, text + at, end[i] - at, end[n - 1] - at) < 0 || bpe_long_step(b, c, SIZE_MAX, out) < 0) {
			out->n = had;
			return -1;
		}
		at = end[i];
	}
	return 0;
}
