/* agents_pairs.c - compare what the agents know: which server holds which prefix. The pairs are
 * read from snapshots, not from the digests that agents compare themselves. */
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/sim/agents_in.h"

struct pair_list {
	const struct hash_key *key;
	uint64_t *v;
	size_t n, cap;
	bool no_memory;
};

/* Return the part of a server's name in a snapshot that names it: after a second NUL follows what
 * was learned of it. */
static struct span name_only(struct span s)
{
	const char *nul = s.n > 0 ? memchr(s.p, '\0', s.n) : NULL;

	if (nul != NULL)
		nul = memchr(nul + 1, '\0', s.n - (size_t)(nul + 1 - s.p));
	return nul != NULL ? span_of(s.p, (size_t)(nul - s.p)) : s;
}

static void add_pair(void *arg, struct span server, uint64_t prefix)
{
	struct pair_list *l = arg;
	size_t cap = l->cap > 0 ? 2 * l->cap : 4096;
	uint64_t *more;

	if (l->n == l->cap) {
		if ((more = mem_resize(l->v, cap, sizeof(*more))) == NULL) {
			l->no_memory = true;
			return;
		}
		l->v = more;
		l->cap = cap;
	}
	l->v[l->n++] = hash_mix_span(l->key, prefix, name_only(server));
}

static int by_value(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return (a > b) - (a < b);
}

static void count_pairs(struct agents *a, struct pair_list *l, unsigned agents)
{
	size_t next;

	a->pairs = a->differing = 0;
	qsort(l->v, l->n, sizeof(*l->v), by_value);
	for (size_t i = 0; i < l->n; i = next) {
		for (next = i + 1; next < l->n && l->v[next] == l->v[i];)
			next++;
		a->pairs++;
		a->differing += next - i < agents;
	}
}

int pairs_compare(struct agents *a)
{
	struct pair_list l = { .key = &a->key };
	struct buf b = { 0 };
	size_t least = SIZE_MAX, before;
	unsigned agents = 0;
	bool bad = false;

	for (unsigned i = 0; !bad && i < a->opts.n; i++) {
		if (a->agent[i].router == NULL)
			continue;
		before = l.n;
		buf_start(&b, 0);
		bad = exchange_snapshot(a, i, &b) < 0 ||
		    snapshot_pairs((const uint8_t *)b.p, b.n, add_pair, &l) < 0 || l.no_memory;
		least = l.n - before < least ? l.n - before : least;
		agents++;
	}
	if (!bad && l.n > 0) {
		count_pairs(a, &l, agents);
		a->lacked = a->pairs - least;
	}
	buf_free(&b);
	mem_free(l.v);
	return bad ? -1 : 0;
}
