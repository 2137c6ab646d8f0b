/* split_block.h - the ends of pieces of the families, 64 bytes at a time.
 *
 * For the scanners (split_cl100k.c, ...), which find the pieces that these leave. The same for two
 * instruction sets on x86-64; the choice is made by a call. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_BLOCK_H
#define KVROUTE_TOK_SPLIT_SPLIT_BLOCK_H

#include "agent/base/simd16.h"
#include "agent/base/types.h"

#define BLOCK_BYTES	68u		/* fewer are left to the scanner */
#define BLOCK_PIECES	64u

/* Write the ends of the first pieces of the <n> bytes at <p>, where a piece starts, each plus <at>:
 * all that are certain, at most <most>. Returns their number; 0 if the first needs the scanner,
 * <n> is below BLOCK_BYTES or <most> below BLOCK_PIECES. */
typedef uint32_t split_block_fn(
    const uint8_t *p, size_t n, uint32_t at, uint32_t *to, uint32_t most);

#define BLOCK_DECLARE(set) \
	split_block_fn split_block_l3##set, split_block_q2##set, split_block_q35##set, \
	    split_block_digit_runs##set, split_block_o200k##set, split_block_tekken##set, \
	    split_block_kimi##set, split_block_gpt2##set, split_block_deepseek##set
BLOCK_DECLARE();
BLOCK_DECLARE(_avx2);			/* x86-64 only */

#if !SIMD16
#define BLOCK_BEST(family)	NULL
#elif defined(__x86_64__)
#define BLOCK_BEST(family) \
	(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && \
	    __builtin_cpu_supports("popcnt") ? split_block_##family##_avx2 : split_block_##family)
#else
#define BLOCK_BEST(family)	split_block_##family
#endif

#endif
