/* cache.h - the paged prefix cache of an engine, in blocks of a trace.
 *
 *   in use (counted references) --last one released--> kept, oldest first --room needed--> gone
 *          ^                                                 |
 *          '---------------------- hit ----------------------'
 *
 * As in vLLM's block pool, a request holds the blocks of its prompt and of its answer from its
 * admission to its end. It releases the deepest first, so that of equal age the deepest is evicted
 * first. Generated blocks are kept for a while too, and no request of a trace can hit them. With a
 * log, what comes and goes is reported: a block of a prompt when cache_computed() says that it is
 * there. */
#ifndef KVROUTE_SIM_CACHE_H
#define KVROUTE_SIM_CACHE_H

#include "agent/sim/kvlog.h"

struct cache_block {
	uint32_t older, newer;	/* in the list of kept blocks; newer is CACHE_OUT: not in it */
	uint32_t refs;
	uint32_t wanted;	/* by requests that wait at the engine */
};

#define CACHE_OUT	0xffffffffu

struct cache {
	uint32_t cap, used, kept;	/* blocks: room, held by requests, kept beside them */
	struct cache_block *b;		/* [n_blocks]: of the trace; the list's head; spare ones for answers */
	uint32_t n_blocks;
	uint32_t *spare, n_spare;
	struct kvlog *log;		/* NULL: nothing is reported */
	uint64_t *names;		/* with a log: of the spare ones in use */
};

/* <log>: see above. Returns -1 if there is no memory. */
int cache_init(struct cache *c, uint32_t n_blocks, uint32_t cap, struct kvlog *log);
void cache_fini(struct cache *c);

/* Return how many blocks from the start of <ids>, <max> at most, are cached. */
uint32_t cache_match(const struct cache *c, const uint32_t *ids, uint32_t max);
/* Do the same, and count blocks that will be cached when the waiting requests have been served. */
uint32_t cache_match_wanted(const struct cache *c, const uint32_t *ids, uint32_t max);
void cache_want(struct cache *c, const uint32_t *ids, uint32_t n, int more);

/* Take <n> blocks of a prompt, and <more> for its part block and its answer. Returns the blocks
 * hit, <max_hit> at most. Returns -1, and changes nothing, if they do not fit now. */
int64_t cache_admit(
    struct cache *c, const uint32_t *ids, uint32_t n, uint32_t max_hit, uint32_t more);

/* Blocks <from> to <to> of an admitted prompt are computed. */
void cache_computed(struct cache *c, const uint32_t *ids, uint32_t from, uint32_t to);

/* Release them; <generated> of <more> are whole blocks, and are kept. */
void cache_release(
    struct cache *c, const uint32_t *ids, uint32_t n, uint32_t more, uint32_t generated);

#endif
