/* turns_grid.h - the grid of struct turns: where chunks of a body begin.
 *
 *   bytes    0   4   8   12  16  20  24  28  32      40      48 ...  KB, with chunks of 8 KB
 *   number   | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |   8   |   9   | ...
 *
 * The first eight are half as long. If the last message is another one than in the turn before,
 * what is read again is half a chunk on average, much of a short body; each chunk costs a look-up
 * and an item, little of a long one. With chunks of 8 KB from the start, bodies of 16 KB took 20 %
 * more instructions; with chunks of 4 KB to the end, those of 128 KB took 5 % more. */
#ifndef KVROUTE_PROMPT_TURNS_GRID_H
#define KVROUTE_PROMPT_TURNS_GRID_H

#include <stddef.h>
#include <stdint.h>

#define GRID_HALVES	8u

/* Return where chunk <k> begins. <chunk>: bytes of a long one, an even number. */
static inline size_t grid_at(size_t chunk, size_t k)
{
	return k < GRID_HALVES ? k * (chunk / 2) : (k - GRID_HALVES / 2) * chunk;
}

/* Return the number of the chunk that has byte <at>; so many bytes have as many whole chunks. */
static inline size_t grid_of(size_t chunk, uint64_t at)
{
	return at < GRID_HALVES / 2 * (uint64_t)chunk ? (size_t)(at / (chunk / 2)) :
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
	return k < GRID_HALVES ? chunk / 2 : chunk;
}

#endif
