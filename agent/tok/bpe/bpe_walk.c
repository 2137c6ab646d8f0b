/* bpe_walk.c - find the result of merging by rank by a walk from token to token.
 *
 *   theorem: t1 .. tk is the result of merging the bytes of t1 .. tk if and only if each two
 *            neighbours are the result of merging their bytes, and each token is SYM_ALONE.
 *   walk:    try the longest token first. If it cannot follow the one before, try the next
 *            shorter. If none can, go back one token, try a shorter one there, and never enter
 *            this place again.
 *
 * Proof, for any ranks, also if a merge has a lower rank than those that make its parts. Merging
 * always takes the lowest (rank, place). As long as no merge crosses a border between t1 .. tk, the
 * steps inside a token depend on nothing outside, and which of two neighbours moves next depends on
 * these two alone; others only move in between. So two neighbours pass through the same states in
 * the whole text as alone. A merge across their border is the lowest of all at some state of the
 * whole if and only if it is the lowest of the two alone at that state, because it stays possible
 * until one of the two moves. So the result of merging has the property; and from a run of tokens
 * with the property no merge ever crosses a border, so it is the result: there is exactly one.
 *
 * A dead place stays dead, because the same holds for each prefix of the text. If tokens lead to a
 * place with all pairs correct, they are the result of merging the text up to there. So there is
 * only one way to that place, and the failure after it will repeat.
 *
 * Two tokens: check the pairs that meet at their border, in reverse order of time. Let x be the
 * last part of the left token and y the first part of the right one, starting with the tokens
 * themselves. If (x, y) has a merge that comes before the next change of x or y, it crosses.
 * Otherwise undo the later of the two and repeat. Of equal ranks the leftmost is first: a merge
 * inside the left token comes before one across, and that before one inside the right token. This
 * needs ranks that only grow inside a token (SYM_IN_ORDER, determined at load): then a merge across
 * is easiest at the last moment at which x and y both exist. Other tokens are merged to see: 107 of
 * Llama 3's 128,000, none in Qwen 3, gpt-oss and Llama 2.
 *
 * Cost: each place is entered once, with at most one try per token that starts there. Text of any
 * kind takes one to two tries per token of the result. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_find_in.h"

/* ---- two tokens ------------------------------------------------------------------------------ */

bool walk_meet(const struct bpe *b, uint32_t x, uint32_t y)
{
	uint32_t limit;

	for (;;) {
		const struct sym *left = &b->sym[x], *right = &b->sym[y];

		if (right->made >= left->made) {
			if (right->made == 0)
				return true;
			limit = right->made;
			y = right->left;
		} else {
			limit = left->made - 1;
			x = left->right;
		}
		if (pair_find(b, x, y) >> 32 < limit)
			return false;
	}
}

/* Returns 1, 0, or -1 if there is no memory. */
static int follows_by_merging(const struct bpe *b, struct merger *m, uint32_t x, uint32_t y)
{
	const struct sym *left = &b->sym[x], *right = &b->sym[y];
	uint8_t few[256], *both = few;
	int rc;

	if ((size_t)left->n + right->n > sizeof(few) &&
	    (both = mem_alloc((size_t)left->n + right->n)) == NULL)
		return -1;
	memcpy(both, b->text + left->at, left->n);
	memcpy(both + left->n, b->text + right->at, right->n);
	m->units += 4 * ((size_t)left->n + right->n);
	rc = merge_bytes(b, m, both, (size_t)left->n + right->n);
	if (both != few)
		mem_free_wiped(both, (size_t)left->n + right->n);
	if (rc < 0)
		return -1;
	return m->sym.n == 2 && m->sym.p[0] == x && m->sym.p[1] == y;
}

/* A try is one unit of work. It costs more if the signs do not decide and the merges of both tokens
 * are searched, and even more if both have to be merged. */
#define UNITS_MEET	3u

static inline int follows(const struct bpe *b, struct merger *spare, uint32_t x, uint32_t y)
{
	if (sign_apart(&b->sym[x], &b->sym[y]))
		return 1;
	spare->units += UNITS_MEET;
	if (b->sym[x].flags & b->sym[y].flags & SYM_IN_ORDER)
		return pair_find(b, x, y) == PAIR_NONE && walk_meet(b, x, y);
	return follows_by_merging(b, spare, x, y);
}

/* ---- the walk -------------------------------------------------------------------------------- */

#define DEAD_LEAST 1024u	/* words */

int walk_start(struct walk *w, size_t n)
{
	size_t words = n / 64 + 1;

	w->at = w->base = 0;
	w->open = false;
	if (vec_reserve(&w->dead, words < DEAD_LEAST ? DEAD_LEAST : words) < 0)
		return -1;
	memset(w->dead.p, 0, words * sizeof(*w->dead.p));
	return 0;
}

static inline bool is_dead(const struct walk *w, size_t at)
{
	return w->dead.p[at / 64] >> at % 64 & 1;
}

/* Go back to the token before: nothing fits after it. */
static void walk_back(const struct bpe *b, struct walk *w, struct syms *out)
{
	uint32_t sym = out->p[--out->n];

	w->dead.p[w->at / 64] |= 1ull << w->at % 64;
	w->at -= b->sym[sym].n;
	w->next.sym = b->sym[sym].prefix;
	w->next.n = w->next.sym == SYM_NONE ? 0 : b->sym[w->next.sym].n;
}

static void walk_shorter(const struct bpe *b, struct walk *w)
{
	w->next.sym = b->sym[w->next.sym].prefix;
	w->next.n = w->next.sym == SYM_NONE ? 0 : b->sym[w->next.sym].n;
}

/* Walk from the first known character up to an unknown one or the end. Returns 0: reached, 1: call
 * again, -1: no memory. */
static int walk_run(const struct bpe *b, struct walk *w, struct atoms *a, struct syms *out,
    struct merger *spare, size_t *budget)
{
	size_t left = *budget, end;
	int fits;

	for (; left > 0; left--) {
		if (w->next.sym == SYM_NONE) {
			if (out->n == w->base)
				break;
			walk_back(b, w, out);
			continue;
		}
		end = w->at + w->next.n;
		fits = !is_dead(w, end);
		if (fits && out->n > w->base) {
			spare->units = 0;
			if ((fits = follows(b, spare, out->p[out->n - 1], w->next.sym)) < 0)
				return -1;
			left -= spare->units < left - 1 ? spare->units : left - 1;
		}
		if (!fits) {
			walk_shorter(b, w);
			continue;
		}
		if (syms_add(out, w->next.sym) < 0)
			return -1;
		w->at = end;
		w->next.sym = SYM_NONE;
		if (end < a->n)
			w->next = longest_find(b, a->p + end, a->n - end, a->room - end);
		if (w->next.sym == SYM_NONE)
			break;
	}
	*budget = left;
	return left == 0;
}

int walk_step(const struct bpe *b, struct walk *w, struct atoms *a, struct syms *out,
    struct merger *spare, size_t *budget)
{
	int rc;

	for (;;) {
		if (!w->open) {
			if (w->at == a->n)
				return atoms_flush(b, a, out);
			w->next = longest_find(b, a->p + w->at, a->n - w->at, a->room - w->at);
			w->open = true;
			if (w->next.sym != SYM_NONE && atoms_flush(b, a, out) < 0)
				return -1;
			w->base = out->n;
		}
		if ((rc = walk_run(b, w, a, out, spare, budget)) != 0)
			return rc;
		w->open = false;
		if (w->at == a->n)
			continue;
		a->at = w->at;
		if (*budget == 0)
			return 1;
		--*budget;
		if (atoms_unknown(b, a, out) < 0)
			return -1;
		w->at = a->at;
	}
}

/* ---- short pieces ---------------------------------------------------------------------------- */

/* The same with its state in registers, and without a record of dead places until there is one. */
ssize_t walk_short(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct found f, token_id *out)
{
	uint64_t dead[WALK_SHORT / 64 + 1];
	struct syms *st = &c->m.sym;
	const struct sym *sym = b->sym;
	bool any_dead = false;
	size_t at = 0, k = 0, tries = 0, most = 32 * n + 64, i;
	int fits;

	st->n = 0;
	if (vec_reserve(st, n) < 0)
		return -1;
	c->spare.units = 0;
	for (;;) {
		size_t end = at + f.n;

		if (++tries + c->spare.units > most) {
			work_spend(c->work, STEPS_TRY * most);
			return 0;
		}
		if (f.sym == SYM_NONE) {
			if (k == 0)
				return 0;
			if (!any_dead)
				memset(dead, 0, (n / 64 + 1) * sizeof(*dead));
			any_dead = true;
			dead[at / 64] |= 1ull << at % 64;
			f.sym = st->p[--k];
			at -= sym[f.sym].n;
		} else if (!(any_dead && dead[end / 64] >> end % 64 & 1) &&
			   (fits = k == 0 ? 1 : follows(b, &c->spare, st->p[k - 1], f.sym)) != 0) {
			if (fits < 0)
				return -1;
			st->p[k++] = f.sym;
			if ((at = end) == n)
				break;
			f = longest_find(b, p + at, n - at, room - at);
			continue;
		}
		f.sym = sym[f.sym].prefix;
		f.n = f.sym == SYM_NONE ? 0 : sym[f.sym].n;
	}
	work_spend(c->work, STEPS_TRY * (tries + c->spare.units));
	for (i = 0; i < k; i++)
		out[i] = sym_id(b, st->p[i]);
	return (ssize_t)k;
}
