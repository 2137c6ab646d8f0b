/* segcache_pad.h - hash and pad: what the cache of segments derives from a segment's key.
 *
 * ChaCha8 (D. J. Bernstein, 2008), eight blocks at a time in vectors. Its 256-bit key is the keyed
 * hash of the segment's text, the tokenizer and the tenant. The first output words are the hash of
 * the segment; the others are XORed with its ids. The function cannot be inverted: from the stored
 * hash and XORed ids, the ids are recovered only with the text itself. Words are used in the order
 * of the vectors, not of the RFC, because none leaves the process. */
#ifndef KVROUTE_TOK_SEGCACHE_PAD_H
#define KVROUTE_TOK_SEGCACHE_PAD_H

#include <string.h>

#include "agent/base/types.h"

#define PAD_LANES	8u
#define PAD_WORDS	(16u * PAD_LANES)	/* of one batch */

struct pad_seed {
	uint32_t word[10];		/* the key, and two words of the nonce */
};

typedef void segcache_pad_fn(const struct pad_seed *s, uint32_t batch, uint32_t out[PAD_WORDS]);

segcache_pad_fn segcache_pad_avx2;	/* x86-64 only */

typedef uint32_t pad_lanes __attribute__((vector_size(4 * PAD_LANES)));

#define PAD_TURN(v, n)	((v) = (v) << (n) | (v) >> (32 - (n)))
#define PAD_TURN_16(v)	PAD_TURN(v, 16)
#define PAD_TURN_8(v)	PAD_TURN(v, 8)
#ifdef __AVX2__		/* whole bytes: one shuffle */
#include <immintrin.h>
#undef PAD_TURN_16
#undef PAD_TURN_8
#define PAD_BYTES(v, ...) \
	((v) = (pad_lanes)_mm256_shuffle_epi8((__m256i)(v), _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)))
#define PAD_TURN_16(v)	PAD_BYTES(v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define PAD_TURN_8(v)	PAD_BYTES(v, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)
#endif
#define PAD_QUARTER(a, b, c, d) do { \
	(a) += (b); (d) ^= (a); PAD_TURN_16(d); \
	(c) += (d); (b) ^= (c); PAD_TURN(b, 12); \
	(a) += (b); (d) ^= (a); PAD_TURN_8(d); \
	(c) += (d); (b) ^= (c); PAD_TURN(b, 7); \
} while (0)

static inline void pad_batch(const struct pad_seed *s, uint32_t batch, uint32_t out[PAD_WORDS])
{
	/* "expand 32-byte k" */
	static const uint32_t sigma[4] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
	static const pad_lanes lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
	pad_lanes x[16], first[16];
	unsigned i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		first[i] = (pad_lanes){ 0 } + sigma[i];
#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		first[4 + i] = (pad_lanes){ 0 } + s->word[i];
	first[12] = lane + batch * PAD_LANES;
	first[13] = (pad_lanes){ 0 };
	first[14] = (pad_lanes){ 0 } + s->word[8];
	first[15] = (pad_lanes){ 0 } + s->word[9];
#pragma GCC unroll 16
	for (i = 0; i < 16; i++)
		x[i] = first[i];
	for (i = 0; i < 4; i++) {
		PAD_QUARTER(x[0], x[4], x[8], x[12]);
		PAD_QUARTER(x[1], x[5], x[9], x[13]);
		PAD_QUARTER(x[2], x[6], x[10], x[14]);
		PAD_QUARTER(x[3], x[7], x[11], x[15]);
		PAD_QUARTER(x[0], x[5], x[10], x[15]);
		PAD_QUARTER(x[1], x[6], x[11], x[12]);
		PAD_QUARTER(x[2], x[7], x[8], x[13]);
		PAD_QUARTER(x[3], x[4], x[9], x[14]);
	}
#pragma GCC unroll 16
	for (i = 0; i < 16; i++) {
		x[i] += first[i];
		memcpy(out + i * PAD_LANES, &x[i], sizeof(x[i]));
	}
}

#endif
