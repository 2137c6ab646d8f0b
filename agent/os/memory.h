/* memory.h - is there enough memory for a budget, and may it be executed? */
#ifndef KVROUTE_OS_MEMORY_H
#define KVROUTE_OS_MEMORY_H

#include "agent/base/err.h"
#include "agent/base/types.h"

/* Check that <bytes> of memory are available. The index touches all its memory at the start; if a
 * control group or the machine has less, the kernel kills the process instead of failing a call. So
 * this is checked before. Returns 0, or -1 with <e>, which names the limit, its place and the
 * remedy. A limit that cannot be read counts as none. */
int memory_enough(uint64_t bytes, struct err *e);

/* The same with the files below <root> instead of "/", for tests. */
int memory_enough_at(const char *root, uint64_t bytes, struct err *e);

/* Returns true if this process may map memory that is writable and executable, as PCRE2's JIT
 * does. Call it before the sandbox, which refuses it always. */
bool memory_may_execute(void);

#endif
