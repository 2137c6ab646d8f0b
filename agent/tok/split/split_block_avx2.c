/* split_block_avx2.c - the ends of pieces with 32-byte registers and the instructions on bits that
 * came with them. */
#ifdef __AVX2__
#define BLOCK_NAME(family)	split_block_##family##_avx2
#include "agent/tok/split/split_block_in.h"
#endif
