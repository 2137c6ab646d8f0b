/* pages_avx2.c - with AVX2 and BMI2. Elsewhere than on x86-64 a table that pages.c never gives out. */
#define PAGES_OPS	pages_ops_avx2
#define PAGES_ISA	"avx2"
#include "agent/index/pages_isa.h"
