/* bpe_merge.c - merges by rank: the rule itself, with nothing assumed about a vocabulary.
 *
 * Two forms. merge_few(): the ranks of all neighbours in an array, the lowest and leftmost is looked for again after each merge;
 * quadratic, and the faster one up to some dozens of tokens. merger_step(): a list and a binary heap of (rank, place), from which the
 * lowest comes first and of equal ranks the leftmost. What a merge changes is not taken out of the heap; an entry counts only if its
 * place still has that rank. A place cannot get back a rank it once had: its pair only ever grows, and pairs of one rank make
 * the same bytes.
 * O(n log n); at most two entries are added for each merge, so that the heap has 3n in all. */
#include "agent/base/mem.h"
#include "agent/tok/bpe_impl.h"

#define NOWHERE UINT32_MAX

void syms_fini(struct syms *s)
{
	mem_free_wiped(s->p, s->cap * sizeof(*s->p));
	memset(s, 0, sizeof(*s));
}

/* Room for <cap> instead of <had> things of <size> bytes: they are tokens of a text, or tell them. */
static int grow(void *array, size_t had, size_t cap, size_t size)
{
	void *p, *old;

	memcpy(&old, array, sizeof(old));
	if (cap > SIZE_MAX / size || (p = mem_regrow(old, had * size, had * size, cap * size)) == NULL)
		return -1;
	memcpy(array, &p, sizeof(p));
	return 0;
}

int syms_grow(struct syms *s, size_t cap)
{
	size_t more = s->cap + s->cap / 2 + 64;

	cap = cap < more ? more : cap;
	if (grow(&s->p, s->cap, cap, sizeof(*s->p)) < 0)
		return -1;
	s->cap = cap;
	return 0;
}

void merger_fini(struct merger *m)
{
	syms_fini(&m->sym);
	mem_free_wiped(m->prev, m->cap * sizeof(*m->prev));
	mem_free_wiped(m->next, m->cap * sizeof(*m->next));
	mem_free_wiped(m->cand, m->cap * sizeof(*m->cand));
	mem_free_wiped(m->heap, m->heap_cap * sizeof(*m->heap));
	memset(m, 0, sizeof(*m));
}

/* Room for what belongs to each place. */
static int reserve(struct merger *m)
{
	size_t cap = m->sym.n + m->sym.n / 2 + MERGE_FEW;

	if (m->sym.n <= m->cap)
		return 0;
	if (grow(&m->prev, m->cap, cap, sizeof(*m->prev)) < 0 || grow(&m->next, m->cap, cap, sizeof(*m->next)) < 0 ||
	    grow(&m->cand, m->cap, cap, sizeof(*m->cand)) < 0)
		return -1;
	m->cap = cap;
	return 0;
}

/* ---- few ---------------------------------------------------------------------------------- */

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
	cand = m->cand;
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

/* ---- many --------------------------------------------------------------------------------- */

static int heap_push(struct merger *m, uint64_t entry)
{
	size_t i = m->n_heap, up;

	if (i == m->heap_cap) {
		size_t cap = 2 * m->heap_cap + 256;

		if (grow(&m->heap, m->heap_cap, cap, sizeof(*m->heap)) < 0)
			return -1;
		m->heap_cap = cap;
	}
	m->n_heap++;
	for (; i > 0; i = up) {
		up = (i - 1) / 2;
		if (m->heap[up] <= entry)
			break;
		m->heap[i] = m->heap[up];
	}
	m->heap[i] = entry;
	return 0;
}

static uint64_t heap_pop(struct merger *m)
{
	uint64_t top = m->heap[0], last = m->heap[--m->n_heap];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < m->n_heap) {
		if (k + 1 < m->n_heap && m->heap[k + 1] < m->heap[k])
			k++;
		if (m->heap[k] >= last)
			break;
		m->heap[i] = m->heap[k];
		i = k;
	}
	m->heap[i] = last;
	return top;
}

/* The merge of <at> with the one behind it. */
static int look(const struct bpe *b, struct merger *m, uint32_t at)
{
	m->cand[at] = m->next[at] == NOWHERE ? PAIR_NONE : pair_find(b, m->sym.p[at], m->sym.p[m->next[at]]);
	if (m->cand[at] == PAIR_NONE)
		return 0;
	return heap_push(m, (m->cand[at] >> 32) << 32 | at);
}

static int do_merge(const struct bpe *b, struct merger *m, uint32_t at)
{
	uint32_t gone = m->next[at];

	note_merge(m, m->sym.p[at], m->sym.p[gone], (uint32_t)(m->cand[at] >> 32));
	m->sym.p[at] = (uint32_t)m->cand[at];
	m->sym.p[gone] = SYM_NONE;
	m->cand[gone] = PAIR_NONE;
	m->next[at] = m->next[gone];
	if (m->next[at] != NOWHERE)
		m->prev[m->next[at]] = at;
	if (look(b, m, at) < 0)
		return -1;
	return m->prev[at] == NOWHERE ? 0 : look(b, m, m->prev[at]);
}

int merger_start(struct merger *m)
{
	m->n_heap = m->at = 0;
	no_merge_yet(m);
	return reserve(m);
}

/* The first look at every place. */
static int first_looks(const struct bpe *b, struct merger *m, size_t *budget)
{
	for (; m->at < m->sym.n && *budget > 0; m->at++, --*budget) {
		m->prev[m->at] = m->at > 0 ? (uint32_t)m->at - 1 : NOWHERE;
		m->next[m->at] = m->at + 1 < m->sym.n ? (uint32_t)m->at + 1 : NOWHERE;
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
	while (m->n_heap > 0 && m->at == m->sym.n) {
		if (*budget == 0)
			return 1;
		--*budget;
		e = heap_pop(m);
		if (m->cand[(uint32_t)e] >> 32 == e >> 32 && m->cand[(uint32_t)e] != PAIR_NONE && do_merge(b, m, (uint32_t)e) < 0)
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
