/* arena.h - the memory of the index: one region taken at start, and parts of it that give out blocks.
 *
 *   region  |            one mmap; a ref is a place in it, in units of 16 bytes               |
 *   parts   | arena 0                      | arena 1                      | ...              |
 *   blocks  |tag payload |tag payload      |tag free     |tag payload ... |end|
 *                        '- ref points here: 16 * ref from the region's base
 *
 * A block is a tag of 8 bytes and a payload of 16 * n + 8: 40 bytes cost 48, 24 cost 32, and nothing
 * costs less than 32. A payload begins at a multiple of 16 and holds what its last owner left there.
 *
 * The region is not unmapped before region_give(), so who reads without the lock may read a payload that
 * was freed, or what has become of it: never a fault, but anything may be there. The arena writes inside
 * free payloads (links, tags of blocks split off) with relaxed atomic stores, so such reads, if atomic,
 * are no data race; that what was read was still true is for a version of the reader's own to say. */
#ifndef KVROUTE_INDEX_ARENA_H
#define KVROUTE_INDEX_ARENA_H

#include "agent/base/region.h"
#include "agent/base/types.h"

typedef uint32_t arena_ref;	/* 0 is none */

#define ARENA_UNIT		16
#define ARENA_TAG		8
#define ARENA_LEAST		(2 * ARENA_UNIT)	/* the smallest block, its tag included */
#define ARENA_BYTES_MAX		((size_t)4 << 30)	/* of one arena; more is left unused */

static inline void *region_at(const struct region *r, arena_ref ref)
{
	return r->base + (size_t)ref * ARENA_UNIT;
}

/* Lists of free blocks by size: 32 classes to a doubling, so each size below 1 KiB has its own. */
#define ARENA_ROWS	24
#define ARENA_COLS	32

/* Guarded by a lock of its owner. The fields are arena.c's own. */
struct arena {
	uint8_t *base;			/* the region's */
	arena_ref first, end;		/* first block; the tag behind the last */
	uint32_t used;			/* units in blocks that are taken */
	uint32_t rows;			/* bit r: cols[r] is not 0 */
	uint32_t cols[ARENA_ROWS];	/* bit c: heads[r][c] is not 0 */
	arena_ref heads[ARENA_ROWS][ARENA_COLS];
};

/* Make [<from>, <from> + <bytes>) of <r> one free block. 16 bytes of it are never given out, nor are odd
 * bytes at its ends; what is too small for a block is an arena without room. */
void arena_init(struct arena *a, struct region *r, size_t from, size_t bytes);

/* What a payload of <bytes> takes, its tag included. arena_alloc() may take ARENA_UNIT more, when what would be
 * split off is no block. */
static inline size_t arena_cost(size_t bytes)
{
	size_t n = (bytes + ARENA_TAG + ARENA_UNIT - 1) & ~(size_t)(ARENA_UNIT - 1);

	return n < ARENA_LEAST ? ARENA_LEAST : n;
}

/* A payload of at least <bytes>, with undefined contents; 0: no room. Room may be missed that is
 * larger than what is asked for by less than 1/32. All of these are O(1). */
arena_ref arena_alloc(struct arena *a, size_t bytes);
void arena_free(struct arena *a, arena_ref ref);	/* 0 is left alone */
size_t arena_size(const struct arena *a, arena_ref ref);	/* bytes of its payload */

size_t arena_room(const struct arena *a);	/* bytes of all blocks, taken or free, tags included */
size_t arena_used(const struct arena *a);	/* of those that are taken: 0 when all is freed */
size_t arena_largest(const struct arena *a);	/* arena_alloc() of this many works now; 0: of none does */

/* Walk everything: NULL, or a sentence about what is wrong. For tests; O(blocks). */
const char *arena_check(const struct arena *a);

#endif
