/* pages_base.c - with what the compiler's own flags allow: SSE2 on x86-64. */
#define PAGES_OPS	pages_ops_base
#ifdef __x86_64__
#define PAGES_ISA	"sse2"
#else
#define PAGES_ISA	"generic"
#endif
#include "agent/index/pages_isa.h"
