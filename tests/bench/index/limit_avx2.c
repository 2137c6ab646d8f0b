/* limit_avx2.c - compiled with -mavx2; called only where the processor says that it can. */
#ifdef __x86_64__
#define LIMIT_ISA	"avx2"
#define LIMIT		limit_avx2
#define LIMIT_BYTES	32
#include "tests/bench/index/limit_body.h"
#else
extern int limit_avx2_is_for_x86;	/* no file is empty */
#endif
