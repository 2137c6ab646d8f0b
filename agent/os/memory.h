/* memory.h - is there as much memory as a budget names? */
#ifndef KVROUTE_OS_MEMORY_H
#define KVROUTE_OS_MEMORY_H

#include "agent/base/err.h"
#include "agent/base/types.h"

/* What the index takes at start is touched at start: where a control group or the machine has less, the kernel
 * would end the process, not the call. So it is asked before. -1: <e> says whose limit it is, where that stands,
 * and what to do. What cannot be read bounds nothing. */
int memory_enough(uint64_t bytes, struct err *e);

/* The same against files below <root> instead of "/". */
int memory_enough_at(const char *root, uint64_t bytes, struct err *e);

#endif
