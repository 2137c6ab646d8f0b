/* limit_base.c - the instruction set that every machine of the kind has. */
#ifdef __x86_64__
#define LIMIT_ISA	"sse2"
#else
#define LIMIT_ISA	"base"
#endif
#define LIMIT		limit_base
#define LIMIT_BYTES	16
#include "tests/bench/index/limit_body.h"
