/* blocks.h - the block table of an engine's paged KV memory with its prefix cache.
 *
 *    in use        ref > 0                      a running sequence holds it
 *    free, cached  ref = 0, hash known          can be matched; evicted for new work, oldest first
 *    free, empty   ref = 0, no hash             allocated before any cached one
 *
 * A block's hash covers its own tokens and, through the chain, all tokens before them. */
#ifndef KVROUTE_TOOLS_BLOCKS_H
#define KVROUTE_TOOLS_BLOCKS_H

#include "agent/base/types.h"

struct blocks;

struct blocks *blocks_new(uint32_t n_blocks);
void blocks_free(struct blocks *b);

/* Return the hash of a block with the <n> tokens at <t> after the block (or space) <before>. */
uint64_t blocks_hash(uint64_t before, const uint32_t *t, size_t n);

/* How many of the <n> hashes, from the first, are cached; takes a reference to each of those and
 * writes it to <ids>. */
uint32_t blocks_match(struct blocks *b, const uint64_t *hashes, uint32_t n, uint32_t *ids);

uint32_t blocks_n_total(const struct blocks *b);
uint32_t blocks_n_free(const struct blocks *b);		/* cached ones included */
uint32_t blocks_n_cached(const struct blocks *b);	/* with a hash, in use or not */
uint64_t blocks_n_evicted(const struct blocks *b);

/* Return an empty block with one reference. There must be a free one. May evict a cached one. */
uint32_t blocks_take(struct blocks *b);

/* <id> is full now. Of two blocks with one hash the first is found and the second is a copy. */
void blocks_store(struct blocks *b, uint32_t id, uint64_t hash);
void blocks_unref(struct blocks *b, uint32_t id);
void blocks_forget_all(struct blocks *b);	/* blocks in use stay in use, unknown to any match */

#endif
