/* limit_avx512.c - compiled with -mavx512f; called only where the processor says that it can. */
#ifdef __x86_64__
#define LIMIT_ISA	"avx512"
#define LIMIT		limit_avx512
#define LIMIT_BYTES	64
#include "tests/bench/index/limit_body.h"
#else
extern int limit_avx512_is_for_x86;	/* no file is empty */
#endif
