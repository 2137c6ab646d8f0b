/* turns_grid.h - the grid of struct turns: where chunks of a body begin.
 *
 *   bytes    0       8   12  16  20  24  28  32      40      48 ...  KB, with chunks of 8 KB
 *   number   |   0   | 1 | 2 | 3 | 4 | 5 | 6 |   7   |   8   | ...
 *
 * Six chunks are half as long. If a request has another last message than the turn before, half a
 * chunk of known bytes is read again on average, which is much of a short body. A chunk costs a
 * look-up and an item, which is little of a long body. The first chunk is long, because only there
 * texts are searched for that count for nothing. */
#ifndef KVROUTE_PROMPT_TURNS_GRID_H
#define KVROUTE_PROMPT_TURNS_GRID_H

#include <stddef.h>
#include <stdint.h>

#define GRID_HALVES	6u	/* after the first chunk */

/* Return where chunk <k> begins. <chunk>: bytes of a long one, an even number. */
static inline size_t grid_at(size_t chunk, size_t k)
{
	if (k == 0)
		return 0;
	return k <= GRID_HALVES ? (k + 1) * (chunk / 2) : (k - GRID_HALVES / 2) * chunk;
}

/* Return the number of the chunk that has byte <at>; so many bytes have as many whole chunks. */
static inline size_t grid_of(size_t chunk, uint64_t at)
{
	if (at < chunk)
		return 0;
	return at < (GRID_HALVES / 2 + 1) * (uint64_t)chunk ? (size_t)(at / (chunk / 2)) - 1 :
	    (size_t)(at / chunk) + GRID_HALVES / 2;
}

/* Return the number of the chunk that has the byte before <at>; 0 if there is none. */
static inline size_t grid_before(size_t chunk, uint64_t at)
{
	return at > 0 ? grid_of(chunk, at - 1) : 0;
}

/* Return the bytes of chunk <k>. */
static inline size_t grid_bytes(size_t chunk, size_t k)
{
	return k >= 1 && k <= GRID_HALVES ? chunk / 2 : chunk;
}

#endif
