/* sandbox_refused.h - count the system calls that the filter refuses.
 *
 *      a call that is not allowed  ->  SIGSYS in its thread  ->  counted; the call returns EPERM
 *
 * Serving makes no such call. So one means a mistake of ours, a newer libc, or foreign code in this
 * process. The counters are shared with the opener, which has no metrics. A signal handler has no
 * argument, so its counter is a static variable, the only one of the process. */
#ifndef KVROUTE_OS_SANDBOX_REFUSED_H
#define KVROUTE_OS_SANDBOX_REFUSED_H

#include <pthread.h>

#include "agent/base/types.h"

struct refused_count {
	uint64_t n;		/* atomic; number of calls */
	int32_t last;		/* atomic; system call number of the last one */
};

/* Counters in a shared page, written by both processes. */
struct sandbox_refused {
	struct refused_count agent, opener;
};

/* Returns NULL if there is no memory. */
struct sandbox_refused *sandbox_refused_new(void);
void sandbox_refused_free(struct sandbox_refused *r);

/* Count SIGSYS in <c>, and let the refused call return EPERM. <c> must live as long as the process.
 * Returns 0 or an errno. */
int sandbox_refused_watch(struct refused_count *c);

/* Tell that this thread is about to request executable memory but can do without, as PCRE2's JIT
 * does. A refused mmap() is not counted then. */
void sandbox_refused_expect_mmap(bool yes);

static inline uint64_t refused_read(const struct refused_count *c)
{
	return __atomic_load_n(&c->n, __ATOMIC_RELAXED);
}

#endif
