/* bpe_merge.c - merge by rank: the definition itself, without assumptions about a vocabulary.
 *
 * Two forms. merge_few() keeps the ranks of all adjacent pairs in an array and searches the lowest,
 * leftmost one after each merge: quadratic, but faster up to some dozens of tokens. merger_step()
 * uses a list and a binary heap of (rank, place), which yields the lowest rank first and of equal
 * ranks the leftmost. Changed entries stay in the heap; one counts only if its place still has that
 * rank. A place never gets an old rank back, because its pair only grows, and pairs of one rank
 * make the same bytes. O(n log n). A merge adds at most two entries, so the heap has at most 3n. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_in.h"

#define NOWHERE UINT32_MAX

void merger_fini(struct merger *m)
{
	vec_free(&m->sym);
	vec_free(&m->prev);
	vec_free(&m->next);
	vec_free(&m->cand);
	vec_free(&m->heap);
	memset(m, 0, sizeof(*m));
}

/* Make room for the arrays by place. */
static int reserve(struct merger *m)
{
	if (vec_reserve(&m->prev, m->sym.n) < 0 || vec_reserve(&m->next, m->sym.n) < 0 ||
	    vec_reserve(&m->cand, m->sym.n) < 0)
		return -1;
	return 0;
}

/* ---- few ------------------------------------------------------------------------------------- */

static void no_merge_yet(struct merger *m)
{
	m->left = m->right = SYM_NONE;
	m->made = 0;
	m->in_order = true;
}

static void note_merge(struct merger *m, uint32_t left, uint32_t right, uint32_t rank)
{
	m->left = left;
	m->right = right;
	if (rank + 1 < m->made)
		m->in_order = false;
	m->made = rank + 1;
}

static size_t lowest(const uint64_t *cand, size_t n)
{
	size_t i, best = 0;

	for (i = 1; i < n; i++)
		if (cand[i] >> 32 < cand[best] >> 32)
			best = i;
	return best;
}

int merge_few(const struct bpe *b, struct merger *m)
{
	uint32_t *sym = m->sym.p;
	size_t i, n = m->sym.n;
	uint64_t *cand;

	if (reserve(m) < 0)
		return -1;
	cand = m->cand.p;
	no_merge_yet(m);
	for (i = 0; i + 1 < n; i++)
		cand[i] = pair_find(b, sym[i], sym[i + 1]);
	while (n > 1) {
		i = lowest(cand, n - 1);
		if (cand[i] == PAIR_NONE)
			break;
		note_merge(m, sym[i], sym[i + 1], (uint32_t)(cand[i] >> 32));
		sym[i] = (uint32_t)cand[i];
		if (i + 2 < n) {
			memmove(sym + i + 1, sym + i + 2, (n - i - 2) * sizeof(*sym));
			memmove(cand + i + 1, cand + i + 2, (n - i - 3) * sizeof(*cand));
		}
		n--;
		if (i + 1 < n)
			cand[i] = pair_find(b, sym[i], sym[i + 1]);
		if (i > 0)
			cand[i - 1] = pair_find(b, sym[i - 1], sym[i]);
	}
	m->sym.n = n;
	return 0;
}

/* ---- many ------------------------------------------------------------------------------------ */

static int heap_push(struct merger *m, uint64_t entry)
{
	size_t i = m->heap.n, up;

	if (vec_push(&m->heap, entry) < 0)
		return -1;
	for (; i > 0; i = up) {
		up = (i - 1) / 2;
		if (m->heap.p[up] <= entry)
			break;
		m->heap.p[i] = m->heap.p[up];
	}
	m->heap.p[i] = entry;
	return 0;
}

static uint64_t heap_pop(struct merger *m)
{
	uint64_t top = m->heap.p[0], last = m->heap.p[--m->heap.n];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < m->heap.n) {
		if (k + 1 < m->heap.n && m->heap.p[k + 1] < m->heap.p[k])
			k++;
		if (m->heap.p[k] >= last)
			break;
		m->heap.p[i] = m->heap.p[k];
		i = k;
	}
	m->heap.p[i] = last;
	return top;
}

/* Look up the merge of <at> with the next token. */
static int look(const struct bpe *b, struct merger *m, uint32_t at)
{
	m->cand.p[at] = m->next.p[at] == NOWHERE
	    ? PAIR_NONE
	    : pair_find(b, m->sym.p[at], m->sym.p[m->next.p[at]]);
	if (m->cand.p[at] == PAIR_NONE)
		return 0;
	return heap_push(m, (m->cand.p[at] >> 32) << 32 | at);
}

static int do_merge(const struct bpe *b, struct merger *m, uint32_t at)
{
	uint32_t gone = m->next.p[at];

	note_merge(m, m->sym.p[at], m->sym.p[gone], (uint32_t)(m->cand.p[at] >> 32));
	m->sym.p[at] = (uint32_t)m->cand.p[at];
	m->sym.p[gone] = SYM_NONE;
	m->cand.p[gone] = PAIR_NONE;
	m->next.p[at] = m->next.p[gone];
	if (m->next.p[at] != NOWHERE)
		m->prev.p[m->next.p[at]] = at;
	if (look(b, m, at) < 0)
		return -1;
	return m->prev.p[at] == NOWHERE ? 0 : look(b, m, m->prev.p[at]);
}

int merger_start(struct merger *m)
{
	m->heap.n = m->at = 0;
	no_merge_yet(m);
	return reserve(m);
}

/* Look up the merges of all places once. */
static int first_looks(const struct bpe *b, struct merger *m, size_t *budget)
{
	for (; m->at < m->sym.n && *budget > 0; m->at++, --*budget) {
		m->prev.p[m->at] = m->at > 0 ? (uint32_t)m->at - 1 : NOWHERE;
		m->next.p[m->at] = m->at + 1 < m->sym.n ? (uint32_t)m->at + 1 : NOWHERE;
		if (look(b, m, (uint32_t)m->at) < 0)
			return -1;
	}
	return 0;
}

int merger_step(const struct bpe *b, struct merger *m, size_t *budget)
{
	uint64_t e;

	if (first_looks(b, m, budget) < 0)
		return -1;
	while (m->heap.n > 0 && m->at == m->sym.n) {
		if (*budget == 0)
			return 1;
		--*budget;
		e = heap_pop(m);
		if (m->cand.p[(uint32_t)e] >> 32 == e >> 32 &&
		    m->cand.p[(uint32_t)e] != PAIR_NONE && do_merge(b, m, (uint32_t)e) < 0)
			return -1;
	}
	return m->at < m->sym.n;
}

/* ------------------------------------------------------------------------------------------- */

static void close_holes(struct syms *s)
{
	size_t i, n = 0;

	for (i = 0; i < s->n; i++)
		if (s->p[i] != SYM_NONE)
			s->p[n++] = s->p[i];
	s->n = n;
}

int merge_bytes(const struct bpe *b, struct merger *m, const uint8_t *p, size_t n)
{
	struct atoms a = { .p = p, .n = n, .room = n };
	size_t budget = SIZE_MAX;

	m->sym.n = 0;
	if (atoms_read(b, &a, &m->sym, &budget) < 0)
		return -1;
	if (m->sym.n <= MERGE_FEW)
		return merge_few(b, m);
	if (merger_start(m) < 0 || merger_step(b, m, &budget) < 0)
		return -1;
	close_holes(&m->sym);
	return 0;
}
