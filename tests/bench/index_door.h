/* index_door.h - the calls of the index that its benches use.
 *
 * The agent makes the page keys of a prompt while it scans the body, so door_keys() is not part of
 * the time of an operation. A door_at belongs to one thread; the door may be shared. */
#ifndef TESTS_BENCH_INDEX_DOOR_H
#define TESTS_BENCH_INDEX_DOOR_H

#include <stdlib.h>

#include "agent/base/hash.h"
#include "agent/base/mem.h"
#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

struct door {
	struct index *ix;
	uint64_t empty_bytes;		/* bytes of the index while it is empty */
};

/* A prompt between match, commit and confirm. */
struct door_at {
	struct index_match m;
	page_key *keys;
	size_t n, cap;
	index_claim claim;
};

struct door_stats {
	uint64_t bytes, empty_bytes, pages, nodes, records, evicted_records, evicted_pages, refused;
};

static const struct space_key door_space = { .h = { 3, 4 } };

static inline int door_open(struct door *d, size_t max_bytes)
{
	struct index_opts o;
	struct index_stats st;

	index_defaults(&o);
	o.max_bytes = max_bytes;
	o.max_pages = 1u << 24;
	o.prefault = true;
	if ((d->ix = index_new(&o)) == NULL)
		return -1;
	index_stats(d->ix, &st);
	d->empty_bytes = st.bytes;
	return 0;
}

static inline void door_close(struct door *d)
{
	index_free(d->ix);
	d->ix = NULL;
}

static inline int door_at_init(struct door_at *a, size_t max_pages)
{
	memset(a, 0, sizeof(*a));
	a->cap = max_pages;
	a->keys = calloc(max_pages + 1, sizeof(*a->keys));
	return a->keys ? index_match_init(&a->m) : -1;
}

static inline void door_at_fini(struct door_at *a)
{
	index_match_fini(&a->m);
	free(a->keys);
}

/* Hash the whole pages of a prompt, as the scanner of the agent does. Leaves the keys in the
 * nearest caches. */
static inline void door_keys(struct door_at *a, const struct hash_key *key, const uint32_t *tokens,
			     size_t n_tokens, uint32_t page)
{
	size_t i;

	a->n = n_tokens / page < a->cap ? n_tokens / page : a->cap;
	for (i = 0; i < a->n; i++)
		a->keys[i] = hash64(key, tokens + i * page, page * sizeof(*tokens));
}

/* Match the prompt of the last door_keys(). Returns the pages of the server that holds most of it.
 */
static inline uint32_t door_match(struct door *d, struct door_at *a)
{
	index_match(d->ix, &door_space, a->keys, a->n, &a->m);
	return a->m.n_bands ? a->m.bands[0].depth : 0;
}

/* Return the pages of one server in the last match; for checks. */
static inline uint32_t door_depth(const struct door_at *a, server_id server)
{
	return index_match_depth(&a->m, server);
}

static inline uint32_t door_bands(const struct door_at *a)
{
	return a->m.n_bands;
}

/* Commit the prompt of the last match. Returns false if there is no room. */
static inline bool door_commit(struct door *d, struct door_at *a, server_id server, msec now)
{
	a->claim = index_commit(d->ix, &door_space, a->keys, a->n, &a->m, server, now, 0);
	return a->claim != 0;
}

static inline void door_confirm(struct door *d, struct door_at *a, msec now)
{
	index_confirm(d->ix, a->claim, now);
}

static inline void door_cancel(struct door *d, struct door_at *a)
{
	index_cancel(d->ix, a->claim);
}

/* ---- work that may come in slices --------------------------------------------------------- */

/* Do one slice of postponed work. Returns true if there is more. */
static inline bool door_slice(struct door *d, msec now)
{
	return index_tick(d->ix);
}

static inline void door_drop(struct door *d, server_id server)
{
	index_drop_server(d->ix, server);
}

/* Request that half of each server's pages be evicted; door_slice() does the work. */
static inline bool door_halve(struct door *d)
{
	server_id i;

	for (i = 0; i < SERVERS_MAX; i++)
		if (index_server_room(d->ix, i) > 1)
			index_set_capacity(d->ix, i, index_server_room(d->ix, i) / 2);
	return true;
}

/* ---- counters ----------------------------------------------------------------------------- */

static inline void door_stats(struct door *d, struct door_stats *s)
{
	struct index_stats st;

	index_stats(d->ix, &st);
	*s = (struct door_stats){ .bytes = st.bytes, .empty_bytes = d->empty_bytes, .pages = st.pages,
				  .nodes = st.nodes, .records = st.records,
				  .evicted_records = st.evicted_records,
				  .evicted_pages = st.evicted_pages, .refused = st.refused };
}

static inline uint64_t door_server_pages(struct door *d, server_id server)
{
	return index_server_room(d->ix, server);
}

#endif
