/* budget_in.h - the limit of the bytes of all buffers of SPOP connections.
 *
 * All threads share it. Relaxed atomics are enough, because nothing else depends on the sum. A
 * buffer is charged before it is allocated. First buffers, which every active connection needs, may
 * use all of the budget. Larger ones, for long frames and for fragments, may use three quarters, so
 * peers with long frames cannot block peers with short ones. */
#ifndef KVROUTE_LOOP_BUDGET_IN_H
#define KVROUTE_LOOP_BUDGET_IN_H

#include "agent/base/types.h"

struct budget {
	uint64_t max;		/* may change while in use; what exceeds it stays until given back */
	uint64_t used;
	uint64_t refused_first, refused_large;
};

enum budget_kind { BUDGET_FIRST, BUDGET_LARGE };

/* Charge <n> bytes. Returns false, and counts it, if the limit of <kind> would be exceeded. */
bool budget_take(struct budget *b, enum budget_kind kind, size_t n);
void budget_give(struct budget *b, size_t n);

/* Return true if less than half is used, so that memory may be kept for later. */
bool budget_is_low(const struct budget *b);

void budget_set(struct budget *b, size_t max);

#endif
