/* copies.c - the share of the work at each candidate that later requests will use as well.
 *
 *        0        depth of b        depth of a            page
 *   a    [==========================]                     a holds the most
 *   b    [========]- - - - - - - - -                      b would compute this part again: a copy
 *                  n requests branch at or after its end, h candidates hold it
 *
 * With the copy, h + 1 servers share those requests. If each would get more than COPY_REQUESTS, all
 * but COPY_REQUESTS x (h + 1) / n of the copy's price is charged to them. Between two marks the
 * count of the deeper one holds, after the last mark its count.
 *
 * Figures: make bench-crowd. With n / h in place of n / (h + 1), or 1 in place of 3, more is copied
 * than pays off: with 8 engines, 64 equal system prompts, half busy, the mean time to first token
 * is 1.18 of the oracle's instead of 1.08. */
#include "agent/route/job_in.h"

#define COPY_REQUESTS	3	/* requests that a copy must serve before it is cheaper */

struct copies {
	uint32_t n;			/* segments: up to each mark, and one after the last */
	uint32_t end[MARKS_MAX + 1];	/* page at which each ends */
	float count[MARKS_MAX + 1];	/* requests that branch at or after its end */
	uint32_t holders[MARKS_MAX + 1];
	double shared[MARKS_MAX + 1];	/* pages up to its end that later requests pay for */
};

static uint32_t start_of(const struct copies *c, uint32_t k)
{
	return k > 0 ? c->end[k - 1] : 0;
}

/* Return the segment in which the page at <depth> lies. O(log n). */
static uint32_t segment_of(const struct copies *c, uint32_t depth)
{
	uint32_t low = 0, high = c->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (c->end[middle] <= depth)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static double shared_pages(const struct copies *c, uint32_t depth)
{
	uint32_t k = segment_of(c, depth), start = start_of(c, k);
	double before = k > 0 ? c->shared[k - 1] : 0;

	if (k == c->n)
		return before;
	return before + (c->shared[k] - before) * (depth - start) / (c->end[k] - start);
}

static uint32_t deepest_match(const struct job *j)
{
	uint32_t most = 0;

	for (size_t i = 0; i < j->n_candidates; i++) {
		if (j->scratch->candidates[i].depth > most)
			most = j->scratch->candidates[i].depth;
	}
	return most;
}

static void count_holders(struct copies *c, const struct job *j, uint32_t most)
{
	uint32_t held = 0;

	memset(c->holders, 0, c->n * sizeof(c->holders[0]));
	for (size_t i = 0; i < j->n_candidates; i++) {
		uint32_t depth = j->scratch->candidates[i].depth;

		if (depth >= most)
			c->holders[c->n - 1]++;
		else if (segment_of(c, depth) > 0)
			c->holders[segment_of(c, depth) - 1]++;
	}
	for (uint32_t k = c->n; k-- > 0;)
		c->holders[k] = held += c->holders[k];
}

static void sum_shared(struct copies *c)
{
	double sum = 0;

	for (uint32_t k = 0; k < c->n; k++) {
		double requests = c->count[k] / (COPY_REQUESTS * (c->holders[k] + 1.0));

		if (requests > 1)
			sum += (c->end[k] - start_of(c, k)) * (1 - 1 / requests);
		c->shared[k] = sum;
	}
}

/* Return the tokens that other prompts in use have as well; a cache holds them once for all. */
static uint64_t common_tokens(const struct copies *c, const struct job *j)
{
	uint32_t pages = 0;

	for (uint32_t k = 0; k < c->n && c->count[k] >= 2; k++)
		pages = c->end[k];
	return (uint64_t)pages * j->rq.page_tokens;
}

void job_share(struct route *r, struct job *j)
{
	const struct marks *m = &j->scratch->marks;
	uint32_t most = deepest_match(j);
	struct copies c;

	if (most == 0 || r->shared == NULL)
		return;
	c.n = shared_counts(r->shared, m, most, j->rq.now, c.count);
	if (c.n == 0 || c.count[0] <= 1)
		return;
	memcpy(c.end, m->depth, c.n * sizeof(c.end[0]));
	if (c.end[c.n - 1] < most) {
		c.count[c.n] = c.count[c.n - 1];
		c.end[c.n++] = most;
	}
	count_holders(&c, j, most);
	sum_shared(&c);
	j->common_tokens = common_tokens(&c, j);
	for (size_t i = 0; i < j->n_candidates; i++) {
		struct candidate *to = &j->scratch->candidates[i];
		double left = (double)j->asks.tokens - (double)to->cached, pages;

		if (to->depth >= most || left <= 0)
			continue;
		pages = c.shared[c.n - 1] - shared_pages(&c, to->depth);
		to->shared = pages * j->rq.page_tokens < left ? pages * j->rq.page_tokens / left : 1;
	}
}
