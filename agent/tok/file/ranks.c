/* ranks.c - merges from ranks. tiktoken has no list of merges: it merges the two neighbours that
 * together are the entry of lowest rank. So each division of an entry into two entries is a merge
 * of that entry's rank, about two per entry. Within one rank the order is that of Hugging Face's
 * converter, by the ranks of the left and the right part, so that a model's rank file and its
 * tokenizer.json are equivalent. A piece that is an entry is that entry (ignore_merges). */
#include "agent/tok/file/ranks_in.h"

#include <stdlib.h>

#include "agent/base/mem.h"

static int digit64(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t ranks_base64(const char *p, size_t n, char *out)
{
	size_t m = 0;
	uint32_t v = 0;
	int d;

	if (n == 0 || n % 4 != 0)
		return -1;
	n -= p[n - 1] == '=' ? 1 + (p[n - 2] == '=') : 0;
	for (size_t i = 0; i < n; i++) {
		if ((d = digit64(p[i])) < 0)
			return -1;
		v = v << 6 | (uint32_t)d;
		if (i % 4 > 0)
			out[m++] = (char)(v >> (6 - 2 * (i % 4)));
	}
	return (ssize_t)m;
}

void ranks_begin(struct draft *d)
{
	d->byte_level = d->decoded = true;
	d->spec.ignore_merges = d->spec.equal_ranks = true;
}

static int by_rank(const void *a, const void *b)
{
	const struct vocab_entry *x = *(const struct vocab_entry *const *)a,
				 *y = *(const struct vocab_entry *const *)b;

	return (x->id > y->id) - (x->id < y->id);
}

static int by_parts(const void *a, const void *b)
{
	const struct bpe_merge *x = a, *y = b;

	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->right > y->right) - (x->right < y->right);
}

static int cuts(struct draft *d, const struct vocab_entry *v)
{
	uint32_t left, right;
	size_t from = d->merges.n;

	for (uint32_t n = 1; n < v->n; n++) {
		if ((left = vocab_find(&d->vocab, span_of(v->p, n))) == VOCAB_NONE ||
		    (right = vocab_find(&d->vocab, span_of(v->p + n, v->n - n))) == VOCAB_NONE)
			continue;
		if (draft_merge(d,
			(struct bpe_merge){
			    d->vocab.entries.p[left].id, d->vocab.entries.p[right].id, v->id }) < 0)
			return -1;
	}
	if (d->merges.n - from > 1)
		qsort(d->merges.p + from, d->merges.n - from, sizeof(d->merges.p[0]), by_parts);
	return 0;
}

int ranks_merges(struct draft *d, struct err *e)
{
	const struct vocab_entry **sorted = mem_calloc(d->vocab.entries.n, sizeof(*sorted));
	int r = sorted != NULL ? 0 : -1;

	for (uint32_t i = 0; r == 0 && i < d->vocab.entries.n; i++)
		sorted[i] = &d->vocab.entries.p[i];
	if (r == 0)
		qsort(sorted, d->vocab.entries.n, sizeof(*sorted), by_rank);
	for (uint32_t i = 0; r == 0 && i < d->vocab.entries.n; i++)
		r = cuts(d, sorted[i]);
	mem_free(sorted);
	return r < 0 ? err_set(e, "not enough memory") : 0;
}
