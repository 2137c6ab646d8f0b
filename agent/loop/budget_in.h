/* budget_in.h - how many bytes the buffers of all SPOP connections may have together.
 *
 * Shared by the threads: relaxed atomics are enough, because nothing else depends on the sum. Every
 * buffer is asked for before it is taken. First buffers, which every connection that speaks needs, may
 * take all of it; larger ones, for long frames and for fragments, three quarters: so peers with long
 * frames cannot keep others from short ones. */
#ifndef KVROUTE_LOOP_BUDGET_IN_H
#define KVROUTE_LOOP_BUDGET_IN_H

#include "agent/base/types.h"

struct budget {
	uint64_t max;		/* may be changed while in use: what is above it stays until given back */
	uint64_t used;
	uint64_t refused_first, refused_large;
};

enum budget_kind { BUDGET_FIRST, BUDGET_LARGE };

/* False: it would be more than there may be; counted. */
bool budget_take(struct budget *b, enum budget_kind kind, size_t n);
void budget_give(struct budget *b, size_t n);

void budget_set(struct budget *b, size_t max);

#endif
