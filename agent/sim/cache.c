/* cache.c - an array with an entry for each block of the trace. No hashing is needed, because the
 * ids of a trace are small numbers. 16 bytes a block and engine. */
#include <assert.h>

#include "agent/base/mem.h"
#include "agent/sim/cache.h"

int cache_init(struct cache *c, uint32_t n_blocks, uint32_t cap, struct kvlog *log)
{
	uint32_t n_spare = 2 * cap + 1;		/* kept ones, and a whole answer before room is made for it */

	*c = (struct cache){ .cap = cap, .n_blocks = n_blocks, .log = log };
	c->b = mem_calloc((size_t)n_blocks + 1 + n_spare, sizeof(*c->b));
	c->spare = mem_calloc(n_spare, sizeof(*c->spare));
	c->names = log != NULL ? mem_calloc(n_spare, sizeof(*c->names)) : NULL;
	if (c->b == NULL || c->spare == NULL || (log != NULL && c->names == NULL)) {
		cache_fini(c);
		return -1;
	}
	for (uint32_t i = 0; i < n_blocks; i++)
		c->b[i].newer = CACHE_OUT;
	c->b[n_blocks].older = c->b[n_blocks].newer = n_blocks;
	while (c->n_spare < n_spare) {
		c->spare[c->n_spare] = n_blocks + n_spare - c->n_spare;
		c->n_spare++;
	}
	return 0;
}

void cache_fini(struct cache *c)
{
	mem_free(c->b);
	mem_free(c->spare);
	mem_free(c->names);
	*c = (struct cache){ 0 };
}

/* ---- what is kept ---- */

static bool is_kept(const struct cache *c, uint32_t id)
{
	return c->b[id].newer != CACHE_OUT;
}

static void keep(struct cache *c, uint32_t id)
{
	struct cache_block *b = c->b, *head = &b[c->n_blocks];

	b[id].older = head->older;
	b[id].newer = c->n_blocks;
	b[head->older].newer = id;
	head->older = id;
	c->kept++;
}

static void unkeep(struct cache *c, uint32_t id)
{
	struct cache_block *b = c->b;

	b[b[id].older].newer = b[id].newer;
	b[b[id].newer].older = b[id].older;
	b[id].newer = CACHE_OUT;
	c->kept--;
}

/* Return the name of a block that is cached, for the log. */
static uint64_t name_of(const struct cache *c, uint32_t id)
{
	return id < c->n_blocks ? id : c->names[id - c->n_blocks - 1];
}

static void drop_oldest(struct cache *c)
{
	uint32_t id = c->b[c->n_blocks].newer;

	assert(id != c->n_blocks);
	unkeep(c, id);
	if (c->log != NULL)
		kvlog_removed(c->log, name_of(c, id));
	if (id > c->n_blocks)
		c->spare[c->n_spare++] = id;
}

/* ---- a prompt ---- */

uint32_t cache_match(const struct cache *c, const uint32_t *ids, uint32_t max)
{
	uint32_t k = 0;

	while (k < max && (c->b[ids[k]].refs > 0 || is_kept(c, ids[k])))
		k++;
	return k;
}

uint32_t cache_match_wanted(const struct cache *c, const uint32_t *ids, uint32_t max)
{
	uint32_t k = 0;

	while (k < max && (c->b[ids[k]].refs > 0 || c->b[ids[k]].wanted > 0 || is_kept(c, ids[k])))
		k++;
	return k;
}

void cache_want(struct cache *c, const uint32_t *ids, uint32_t n, int more)
{
	for (uint32_t i = 0; i < n; i++)
		c->b[ids[i]].wanted += (uint32_t)more;
}

/* Blocks after the hit that are still cached are computed again in place. */
int64_t cache_admit(
    struct cache *c, const uint32_t *ids, uint32_t n, uint32_t max_hit, uint32_t more)
{
	uint32_t hit = cache_match(c, ids, max_hit), back = 0, fresh = more;

	for (uint32_t i = 0; i < n; i++) {
		if (is_kept(c, ids[i]))
			back++;
		else if (c->b[ids[i]].refs == 0)
			fresh++;
	}
	if ((uint64_t)c->used + back + fresh > c->cap)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (is_kept(c, ids[i]))
			unkeep(c, ids[i]);
		else if (c->log != NULL && c->b[ids[i]].refs == 0)
			c->log->fresh[ids[i]] = true;
	}
	c->used += back + fresh;
	for (uint32_t i = 0; i < n; i++)
		c->b[ids[i]].refs++;
	while (c->used + c->kept > c->cap)
		drop_oldest(c);
	return hit;
}

void cache_computed(struct cache *c, const uint32_t *ids, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; c->log != NULL && i < to; i++) {
		if (!c->log->fresh[ids[i]])
			continue;
		c->log->fresh[ids[i]] = false;
		kvlog_stored(c->log, ids[i], i > 0 ? ids[i - 1] : KVLOG_NO_PARENT);
	}
}

static void keep_generated(struct cache *c, uint32_t n, uint64_t parent)
{
	for (; n > 0; n--) {
		uint32_t id = c->spare[--c->n_spare];

		keep(c, id);
		if (c->log == NULL)
			continue;
		c->names[id - c->n_blocks - 1] = KVLOG_GENERATED + c->log->generated++;
		kvlog_stored(c->log, name_of(c, id), parent);
		parent = name_of(c, id);
	}
}

void cache_release(
    struct cache *c, const uint32_t *ids, uint32_t n, uint32_t more, uint32_t generated)
{
	c->used -= more;
	keep_generated(c, generated, n > 0 ? ids[n - 1] : KVLOG_NO_PARENT);
	for (uint32_t i = n; i-- > 0;) {
		if (--c->b[ids[i]].refs > 0)
			continue;
		c->used--;
		keep(c, ids[i]);
	}
	while (c->used + c->kept > c->cap)
		drop_oldest(c);
}
