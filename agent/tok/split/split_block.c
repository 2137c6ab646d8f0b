/* split_block.c - the ends of pieces with 16-byte registers. */
#define BLOCK_NAME(family)	split_block_##family
#include "agent/tok/split/split_block_in.h"
