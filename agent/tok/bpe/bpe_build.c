/* bpe_build.c - build an encoder from a vocabulary and its merges.
 *
 * Sort tokens by id and fill the tables. Then determine for each token if its bytes alone become it
 * (SYM_ALONE), and by which last merge, because only such a piece may be looked up whole. Encoding
 * all of them would take 50 ms for 128,000. Instead: a merge makes its token if and only if both
 * parts are SYM_ALONE and nothing merges across their border before they exist, which bpe_walk.c
 * answers with a few lookups. So merges are processed by the length of their results. */
#include <stdlib.h>

#include "agent/base/hash.h"
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_find_in.h"

#define ID_MOST		0xffffffu
#define TOKEN_MOST	65535u		/* bytes */
#define AHEAD		12u		/* prefetch the tables for the merge this far ahead */

struct build {
	const struct bpe_spec *spec;
	struct err *e;
	struct bpe *b;
	struct head *head;		/* of the block; NULL before it is allocated */
	struct sym *sym;
	uint32_t *order;		/* tokens of <spec> by id */
	uint32_t *sym_of;		/* by id; SYM_NONE */
	token_id last_id;
	struct long_token *longs;	/* those above SHORT_MOST bytes, sorted by bytes, without duplicates */
	uint32_t n_longs, n_groups;
	struct ranked *merges;
	struct merger m;
};

struct long_token {
	const uint8_t *p;
	uint32_t n, sym;
};

/* ---- tokens ---------------------------------------------------------------------------------- */

struct id_at {
	token_id id;
	uint32_t at;
};

static int by_id(const void *a, const void *b)
{
	const struct id_at *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int check_counts(const struct build *d)
{
	const struct bpe_spec *s = d->spec;
	uint32_t i;

	if (s->n_tokens == 0 || s->n_tokens >= ID_MOST)
		return err_set(d->e, "A vocabulary of %u tokens: it has to have 1 to %u.",
		    s->n_tokens, ID_MOST - 1);
	if (s->n_merges >= ID_MOST)
		return err_set(d->e, "%u merges: at most %u can be used.", s->n_merges, ID_MOST - 1);
	for (i = 0; i < s->n_tokens; i++)
		if (s->tokens[i].id > ID_MOST)
			return err_set(d->e, "Token id %u is above %u.", s->tokens[i].id, ID_MOST);
		else if (s->tokens[i].n > TOKEN_MOST)
			return err_set(d->e, "Token id %u has %u bytes: at most %u.",
			    s->tokens[i].id, s->tokens[i].n, TOKEN_MOST);
	return 0;
}

/* Sort by id; mostly they are sorted already. */
static int sort_tokens(struct build *d)
{
	const struct bpe_spec *s = d->spec;
	struct id_at *ids = mem_calloc(s->n_tokens, sizeof(*ids));
	uint32_t i, unordered = 0;

	if (ids == NULL || (d->order = mem_calloc(s->n_tokens, sizeof(*d->order))) == NULL) {
		mem_free(ids);
		return err_set(d->e, "No memory for a vocabulary.");
	}
	for (i = 0; i < s->n_tokens; i++) {
		ids[i] = (struct id_at){ s->tokens[i].id, i };
		unordered += i > 0 && ids[i].id < ids[i - 1].id;
	}
	if (unordered)
		qsort(ids, s->n_tokens, sizeof(*ids), by_id);
	for (i = 0; i < s->n_tokens; i++)
		d->order[i] = ids[i].at;
	d->last_id = ids[s->n_tokens - 1].id;
	mem_free(ids);
	for (i = 1; i < s->n_tokens; i++)
		if (s->tokens[d->order[i]].id == s->tokens[d->order[i - 1]].id)
			return err_set(d->e, "Token id %u is there twice.", s->tokens[d->order[i]].id);
	return 0;
}

static uint32_t sym_of(const struct build *d, token_id id)
{
	return id <= d->last_id ? d->sym_of[id] : SYM_NONE;
}

static int number_tokens(struct build *d)
{
	uint32_t i;

	d->sym_of = mem_calloc((size_t)d->last_id + 1, sizeof(*d->sym_of));
	if (d->sym_of == NULL)
		return err_set(d->e, "No memory for a vocabulary.");
	for (i = 0; i <= d->last_id; i++)
		d->sym_of[i] = SYM_NONE;
	for (i = 0; i < d->spec->n_tokens; i++)
		d->sym_of[d->spec->tokens[d->order[i]].id] = i;
	return 0;
}

/* ---- tokens above SHORT_MOST bytes ----------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	const struct long_token *x = a, *y = b;
	int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	if (c == 0)
		c = x->n < y->n ? -1 : x->n > y->n;
	return c ? c : x->sym < y->sym ? -1 : x->sym > y->sym;
}

static bool same_long(const struct long_token *x, const struct long_token *y)
{
	return x->n == y->n && memcmp(x->p, y->p, x->n) == 0;
}

static bool same_group(const struct long_token *x, const struct long_token *y)
{
	return memcmp(x->p, y->p, SHORT_MOST) == 0;
}

static int sort_longs(struct build *d)
{
	const struct bpe_spec *s = d->spec;
	uint32_t i, n = 0;

	for (i = 0; i < s->n_tokens; i++)
		n += s->tokens[i].n > SHORT_MOST;
	if ((d->longs = mem_calloc(n, sizeof(*d->longs))) == NULL)
		return err_set(d->e, "No memory for a vocabulary.");
	for (i = n = 0; i < s->n_tokens; i++) {
		const struct bpe_token *t = &s->tokens[d->order[i]];

		if (t->n > SHORT_MOST)
			d->longs[n++] = (struct long_token){ s->bytes + t->at, t->n, i };
	}
	qsort(d->longs, n, sizeof(*d->longs), by_bytes);
	for (i = 0; i < n; i++)
		if (d->n_longs == 0 || !same_long(&d->longs[d->n_longs - 1], &d->longs[i])) {
			d->n_groups += d->n_longs == 0 || !same_group(&d->longs[d->n_longs - 1], &d->longs[i]);
			d->longs[d->n_longs++] = d->longs[i];
		}
	return 0;
}

/* ---- the block ------------------------------------------------------------------------------- */

static uint32_t spec_flags(const struct bpe_spec *s)
{
	return (s->ignore_merges ? HEAD_IGNORE_MERGES : 0) | (s->characters ? HEAD_CHARACTERS : 0) |
	       (s->byte_fallback ? HEAD_BYTE_FALLBACK : 0) | (s->fuse_unk ? HEAD_FUSE_UNK : 0);
}

static int make_block(struct build *d)
{
	const struct bpe_spec *s = d->spec;
	struct head h = { .magic = BPE_MAGIC };
	uint64_t text = 0;
	uint32_t i;

	for (i = 0; i < s->n_tokens; i++)
		text += s->tokens[i].n;
	if (text > UINT32_MAX / 2)
		return err_set(d->e, "The tokens of a vocabulary have %llu bytes: too many.",
		    (unsigned long long)text);
	h.flags = spec_flags(s);
	h.n_syms = s->n_tokens;
	h.n_lines = pairs_lines(s->n_merges);
	h.n_buckets = find_buckets(s->n_tokens - d->n_longs + d->n_groups);
	h.n_longs = d->n_longs + d->n_groups;
	h.n_text = (uint32_t)text;
	h.n_wide = wide_sets(s);
	if ((d->b->owned = d->head = mem_alloc_huge(bpe_layout(&h).end)) == NULL)
		return err_set(d->e, "No memory for a vocabulary.");
	*d->head = h;
	bpe_place(d->b, d->head);
	return 0;
}

static void *section(const struct build *d, const void *borrowed)
{
	return (uint8_t *)d->head + ((const uint8_t *)borrowed - (const uint8_t *)d->head);
}

static void fill_syms(struct build *d)
{
	uint8_t *text = section(d, d->b->text);
	uint32_t i, at = 0;

	d->sym = section(d, d->b->sym);
	for (i = 0; i < d->spec->n_tokens; i++) {
		const struct bpe_token *t = &d->spec->tokens[d->order[i]];

		d->sym[i] = (struct sym){ .id = t->id, .at = at, .n = t->n, .left = SYM_NONE, .right = SYM_NONE,
					   .prefix = SYM_NONE };
		if (t->n)
			memcpy(text + at, d->spec->bytes + t->at, t->n);
		at += t->n;
	}
}

/* ---- merges ---------------------------------------------------------------------------------- */

static bool adds_up(const struct build *d, uint32_t left, uint32_t right, uint32_t both)
{
	const struct sym *l = &d->sym[left], *r = &d->sym[right], *s = &d->sym[both];
	const uint8_t *text = d->b->text;

	return (uint64_t)l->n + r->n == s->n && memcmp(text + s->at, text + l->at, l->n) == 0 &&
	       memcmp(text + s->at + l->n, text + r->at, r->n) == 0;
}

static int bad_merge(const struct build *d, uint32_t i, const char *why)
{
	const struct bpe_merge *m = &d->spec->merges[i];

	return err_set(d->e, "Merge %u, of token %u with token %u to token %u: %s.", i + 1, m->left,
	    m->right, m->both, why);
}

/* In the order of bpe.h, so that parts come before wholes of the same rank: bpe_sign.c. */
static bool ranks_ascend(const struct build *d, uint32_t i)
{
	const struct ranked *m = &d->merges[i], *before = i > 0 ? m - 1 : m;

	return m->rank <= i && before->rank <= m->rank &&
	       (before->rank < m->rank || d->sym[before->both].n <= d->sym[m->both].n);
}

static int number_merges(struct build *d)
{
	uint32_t n = d->spec->n_merges, i;

	if ((d->merges = mem_calloc(n, sizeof(*d->merges))) == NULL)
		return err_set(d->e, "No memory for merges.");
	for (i = 0; i < n; i++) {
		const struct bpe_merge *m = &d->spec->merges[i];
		uint32_t l = sym_of(d, m->left), r = sym_of(d, m->right), both = sym_of(d, m->both);

		if (l == SYM_NONE || r == SYM_NONE || both == SYM_NONE)
			return bad_merge(d, i, "one of them is not in the vocabulary");
		d->merges[i] = (struct ranked){ l, r, both, d->spec->ranks != NULL ? d->spec->ranks[i] : i };
	}
	for (i = 0; i < n; i++) {
		const struct ranked *m = &d->merges[i], *soon = &d->merges[i + AHEAD < n ? i + AHEAD : i];

		__builtin_prefetch(&d->sym[soon->left]);
		__builtin_prefetch(&d->sym[soon->right]);
		__builtin_prefetch(&d->sym[soon->both]);
		if (!adds_up(d, m->left, m->right, m->both))
			return bad_merge(d, i, "the third is not the first with the second after it");
		if (d->spec->ranks != NULL && !ranks_ascend(d, i))
			return bad_merge(d, i, "its rank is out of order");
	}
	return 0;
}

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Give all merges to one token the rank of the first. */
static int equal_ranks(struct build *d)
{
	uint32_t *first = mem_calloc(d->head->n_syms, sizeof(*first)), i;

	if (first == NULL)
		return err_set(d->e, "No memory for merges.");
	for (i = d->spec->n_merges; i-- > 0; )
		first[d->merges[i].both] = i;
	for (i = 0; i < d->spec->n_merges; i++)
		d->merges[i].rank = first[d->merges[i].both];
	mem_free(first);
	qsort(d->merges, d->spec->n_merges, sizeof(*d->merges), by_rank);
	return 0;
}

static int fill_pairs(struct build *d)
{
	struct pair_line *lines = section(d, d->b->pairs);
	uint64_t *bits = section(d, d->b->pair_bits);
	uint32_t n = d->spec->n_merges, i;

	if (number_merges(d) < 0 || (d->spec->equal_ranks && equal_ranks(d) < 0))
		return -1;
	pairs_clear(lines, d->head->n_lines);
	for (i = 0; i < n; i++) {
		const struct ranked *m = &d->merges[i], *soon = &d->merges[i + AHEAD < n ? i + AHEAD : i];

		__builtin_prefetch(&lines[pair_place(pair_key(soon->left, soon->right), d->head->n_lines)]);
		pairs_put(lines, d->head->n_lines, pair_key(m->left, m->right), m->rank, m->both);
		bits[pair_word(pair_key(m->left, m->right), d->head->n_lines)] |=
		    pair_word_bits(pair_key(m->left, m->right));
	}
	return 0;
}

/* ---- bytes, <unk> and whole pieces ----------------------------------------------------------- */

static int fill_atoms(struct build *d)
{
	const struct bpe_spec *s = d->spec;
	uint32_t i;

	d->head->unk = s->has_unk ? sym_of(d, s->unk) : SYM_NONE;
	if (s->has_unk && d->head->unk == SYM_NONE)
		return err_set(d->e, "The unknown token, id %u, is not in the vocabulary.", s->unk);
	for (i = 0; i < 256; i++) {
		d->head->atom[i] = s->byte_id[i] == BPE_NO_ID ? SYM_NONE : sym_of(d, s->byte_id[i]);
		if (d->head->atom[i] == SYM_NONE && (!s->characters || s->byte_id[i] != BPE_NO_ID))
			return err_set(d->e, "Byte 0x%02x has no token in the vocabulary.", i);
		if (!s->characters &&
		    (d->sym[d->head->atom[i]].n != 1 ||
			d->b->text[d->sym[d->head->atom[i]].at] != i))
			return err_set(d->e, "The token of byte 0x%02x, id %u, is not that byte.", i, s->byte_id[i]);
	}
	return 0;
}

/* Tell if <sym> is the token of a byte in a vocabulary of characters: lookup by bytes must not find
 * it, only byte_fallback. */
static bool is_fallback(const struct build *d, uint32_t sym)
{
	return d->spec->characters && d->sym[sym].n == 1 &&
	    d->head->atom[d->b->text[d->sym[sym].at]] == sym;
}

static void fill_longs(struct build *d)
{
	uint32_t *out = section(d, d->b->longs), i, at = 0, group = 0;

	for (i = 0; i < d->n_longs; i++) {
		if (i == 0 || !same_group(&d->longs[i - 1], &d->longs[i])) {
			group = at++;
			find_put(d->b, key_load(d->longs[i].p, SHORT_MOST), LEN_GROUP, group);
		}
		out[at++] = d->longs[i].sym;
		out[group]++;
	}
}

static void fill_whole(struct build *d)
{
	uint32_t i;

	for (i = 0; i < d->head->n_syms; i++) {
		const struct sym *s = &d->sym[i];
		struct slot k = key_load(d->b->text + s->at, TEXT_BEHIND);

		if (s->n > 0 && s->n <= SHORT_MOST && !is_fallback(d, i) && slot_find(d->b, k, s->n) == 0)
			find_put(d->b, k, s->n, i);
	}
	fill_longs(d);
}

/* ---- what merges make of each token ---------------------------------------------------------- */

static int fill_signs(struct build *d)
{
	uint64_t *deep = mem_calloc(d->head->n_syms, 2 * sizeof(*deep));

	if (deep == NULL)
		return err_set(d->e, "No memory for a vocabulary.");
	sign_all(d->sym, d->head->n_syms, d->merges, d->spec->n_merges, deep);
	mem_free(deep);
	return 0;
}

/* Mark the tokens that a piece may start as. */
static void mark_atoms(struct build *d)
{
	uint32_t i;

	for (i = 0; i < d->head->n_syms; i++) {
		struct sym *s = &d->sym[i];
		const uint8_t *p = d->b->text + s->at;
		bool atom = d->spec->characters ? s->n > 0 && atoms_char_bytes(p, s->n) == s->n : s->n == 1;

		if (!atom || is_fallback(d, i))
			continue;
		if (d->spec->characters ? (whole_find(d->b, p, s->n, TEXT_BEHIND) & SYM_NONE) == i
					: d->head->atom[*p] == i)
			s->flags |= SYM_ALONE | SYM_IN_ORDER;
	}
}

/* Sort merges by the length of their results, so that parts come before wholes. */
static uint32_t *by_length(const struct build *d)
{
	uint32_t n = d->spec->n_merges, *order = mem_calloc(n, sizeof(*order)),
		 *count = mem_calloc(TOKEN_MOST + 2, sizeof(*count)), i;

	if (order == NULL || count == NULL) {
		mem_free(order);
		mem_free(count);
		return NULL;
	}
	for (i = 0; i < n; i++)
		count[d->sym[d->merges[i].both].n + 1]++;
	for (i = 0; i < TOKEN_MOST; i++)
		count[i + 1] += count[i];
	for (i = 0; i < n; i++)
		order[count[d->sym[d->merges[i].both].n]++] = i;
	mem_free(count);
	return order;
}

/* Tell if the bytes of <m>'s token, alone, become it, with this as the last merge. Returns 1, 0, or
 * -1 if there is no memory. */
static int try_merge(struct build *d, const struct ranked *m)
{
	struct sym *l = &d->sym[m->left], *r = &d->sym[m->right], *s = &d->sym[m->both];
	bool in_order = l->flags & r->flags & SYM_IN_ORDER;

	if (s->flags & SYM_ALONE || !(l->flags & r->flags & SYM_ALONE) ||
	    pair_find(d->b, m->left, m->right) != ((uint64_t)m->rank << 32 | m->both))
		return 0;
	if (in_order && !walk_meet(d->b, m->left, m->right))
		return 0;
	if (!in_order) {
		if (merge_bytes(d->b, &d->m, d->b->text + s->at, s->n) < 0)
			return -1;
		if (d->m.sym.n != 1 || d->m.sym.p[0] != m->both || d->m.left != m->left || d->m.right != m->right)
			return 0;
	}
	s->flags |= SYM_ALONE |
	    (in_order && m->rank + 1 >= l->made && m->rank + 1 >= r->made ? SYM_IN_ORDER : 0);
	s->left = m->left;
	s->right = m->right;
	s->made = m->rank + 1;
	return 1;
}

static int fill_alone(struct build *d)
{
	uint32_t *order = by_length(d), n = d->spec->n_merges, i;
	int rc = order ? 0 : -1;

	mark_atoms(d);
	for (i = 0; rc >= 0 && i < n; i++) {
		const struct ranked *soon = &d->merges[order[i + AHEAD < n ? i + AHEAD : i]];

		__builtin_prefetch(&d->sym[soon->left]);
		__builtin_prefetch(&d->sym[soon->right]);
		__builtin_prefetch(&d->sym[soon->both]);
		__builtin_prefetch(&d->b->pairs[pair_place(pair_key(soon->left, soon->right), d->head->n_lines)]);
		rc = try_merge(d, &d->merges[order[i]]);
	}
	mem_free(order);
	if (rc < 0)
		return err_set(d->e, "No memory for a vocabulary.");
	find_lens(d->b, section(d, d->b->lens), section(d, d->b->lens6), d->head->one);
	wide_fill(d->b, section(d, d->b->wide_by_char), section(d, d->b->wide_by_pair));
	find_prefixes(d->b, d->sym);
	return fill_signs(d);
}

/* Tell if <id> is unknown text: <unk> or the token of a byte. It must be in no merge for HEAD_WALK.
 */
static bool is_unknown(const struct build *d, token_id id)
{
	uint32_t i;

	if (d->spec->has_unk && id == d->spec->unk)
		return true;
	for (i = 0; i < 256 && d->spec->byte_fallback; i++)
		if (d->spec->byte_id[i] == id)
			return true;
	return false;
}

static bool unknown_may_merge(const struct build *d)
{
	const struct bpe_spec *s = d->spec;
	uint32_t i;

	if (!s->characters)
		return false;
	for (i = 0; i < 256 && !s->has_unk; i++)
		if (!s->byte_fallback || s->byte_id[i] == BPE_NO_ID)
			return true;
	for (i = 0; i < s->n_merges; i++)
		if (is_unknown(d, s->merges[i].left) || is_unknown(d, s->merges[i].right))
			return true;
	return false;
}

/* ------------------------------------------------------------------------------------------- */

static int build(struct build *d)
{
	if (check_counts(d) < 0 || sort_tokens(d) < 0 || number_tokens(d) < 0 ||
	    sort_longs(d) < 0 || make_block(d) < 0)
		return -1;
	fill_syms(d);
	if (fill_pairs(d) < 0 || fill_atoms(d) < 0)
		return -1;
	fill_whole(d);
	if (!unknown_may_merge(d))
		d->head->flags |= HEAD_WALK;
	if (d->last_id + 1 == d->head->n_syms)	/* they are sorted, and each is there once */
		d->head->flags |= HEAD_DENSE;
	if (fill_alone(d) < 0)
		return -1;
	d->head->print = XXH3_64bits(d->head, d->b->bytes) | 1;
	return 0;
}

struct bpe *bpe_new(const struct bpe_spec *spec, struct err *e)
{
	struct build d = { .spec = spec, .e = e };
	int rc;

	if ((d.b = mem_alloc(sizeof(*d.b))) == NULL) {
		err_set(e, "No memory for a vocabulary.");
		return NULL;
	}
	rc = build(&d);
	mem_free(d.order);
	mem_free(d.sym_of);
	mem_free(d.longs);
	mem_free(d.merges);
	merger_fini(&d.m);
	if (rc < 0) {
		bpe_free(d.b);
		return NULL;
	}
	return d.b;
}

void bpe_free(struct bpe *b)
{
	if (b == NULL)
		return;
	mem_free_line(b->owned);
	mem_free(b);
}

size_t bpe_bytes(const struct bpe *b)
{
	return sizeof(*b) + b->bytes;
}
