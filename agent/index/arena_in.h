/* arena_in.h - allocate blocks in parts of one region.
 *
 *   region  |            one mmap; a ref is a place in it, in units of 16 bytes               |
 *   parts   | arena 0                      | arena 1                      | ...              |
 *   blocks  |tag payload |tag payload      |tag free     |tag payload ... |end|
 *                        '- ref points here: 16 * ref from the region's base
 *
 * A block is a tag of 8 bytes and a payload of 16 * n + 8 bytes: 40 bytes cost 48, 24 cost 32, and
 * nothing costs less than 32. A payload starts at a multiple of 16 and has undefined contents.
 *
 * The region stays mapped until region_give(), so a reader without the lock may read a payload that
 * was freed or reused: it never faults, but it may read anything. The arena writes inside free
 * payloads (links, tags of split blocks) with relaxed atomic stores, so atomic reads of them are no
 * data race. Readers need a version of their own to know if what they read was valid. */
#ifndef KVROUTE_INDEX_ARENA_H
#define KVROUTE_INDEX_ARENA_H

#include "agent/base/region.h"
#include "agent/base/types.h"

typedef uint32_t arena_ref;	/* 0: none */

#define ARENA_UNIT		16
#define ARENA_TAG		8
#define ARENA_LEAST		(2 * ARENA_UNIT)	/* the smallest block, with its tag */
#define ARENA_BYTES_MAX		((size_t)4 << 30)	/* of one arena; more is left unused */

static inline void *region_at(const struct region *r, arena_ref ref)
{
	return r->base + (size_t)ref * ARENA_UNIT;
}

/* Lists of free blocks by size: 32 classes a doubling, so each size below 1 KiB has its own. */
#define ARENA_ROWS	24
#define ARENA_COLS	32

/* Guarded by a lock of its owner. The fields are private to arena.c. */
struct arena {
	uint8_t *base;			/* the base of the region */
	arena_ref first, end;		/* first block; the tag after the last */
	uint32_t used;			/* units in allocated blocks */
	uint32_t rows;			/* bit r: cols[r] is not 0 */
	uint32_t cols[ARENA_ROWS];	/* bit c: heads[r][c] is not 0 */
	arena_ref heads[ARENA_ROWS][ARENA_COLS];
};

/* Make [<from>, <from> + <bytes>) of <r> one free block. 16 bytes of it are never allocated, nor
 * are odd bytes at its ends. If it is too small for a block, the arena has no room. */
void arena_init(struct arena *a, struct region *r, size_t from, size_t bytes);

/* Return the bytes that a payload of <bytes> takes with its tag. arena_alloc() may take ARENA_UNIT
 * more, if the rest would be too small for a block. */
static inline size_t arena_cost(size_t bytes)
{
	size_t n = (bytes + ARENA_TAG + ARENA_UNIT - 1) & ~(size_t)(ARENA_UNIT - 1);

	return n < ARENA_LEAST ? ARENA_LEAST : n;
}

/* Allocate a payload of at least <bytes>; its contents are undefined. Returns 0 if there is no
 * room. May miss free blocks that are less than 1/32 larger than <bytes>. O(1), as all that
 * follow. */
arena_ref arena_alloc(struct arena *a, size_t bytes);
void arena_free(struct arena *a, arena_ref ref);	/* 0 is ignored */
size_t arena_size(const struct arena *a, arena_ref ref);	/* bytes of its payload */

/* Prefetch the tags that arena_free(<ref>) reads. */
void arena_ahead(const struct arena *a, arena_ref ref);

size_t arena_room(const struct arena *a);	/* bytes of all blocks, with their tags */
size_t arena_used(const struct arena *a);	/* bytes of allocated blocks */
size_t arena_largest(const struct arena *a);	/* arena_alloc() of this many succeeds; 0: none does */

/* Check every block and list. Returns NULL, or a sentence. For tests; O(blocks). */
const char *arena_check(const struct arena *a);

#endif
