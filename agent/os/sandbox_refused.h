/* sandbox_refused.h - count the system calls that the filter refuses.
 *
 *      a call that is not allowed  ->  SIGSYS in the thread that made it  ->  counted; the call returns EPERM
 *
 * Serving makes no such call, so one of them is a mistake of ours, a newer libc, or somebody else's
 * code in this process. The counters are shared with the opener, which has no metrics of its own. A
 * signal handler has no argument of ours: its counter is the only variable here that belongs to the
 * process. */
#ifndef KVROUTE_OS_SANDBOX_REFUSED_H
#define KVROUTE_OS_SANDBOX_REFUSED_H

#include <pthread.h>

#include "agent/base/types.h"

struct refused_count {
	uint64_t n;		/* atomic; calls */
	int32_t last;		/* atomic; number of the last one */
};

/* Both processes write to it; a page that is shared. */
struct sandbox_refused {
	struct refused_count agent, opener;
};

/* NULL: no memory. */
struct sandbox_refused *sandbox_refused_new(void);
void sandbox_refused_free(struct sandbox_refused *r);

/* Have SIGSYS counted in <c>, and the call return EPERM. <c> lives as long as the process. 0, or
 * errno. */
int sandbox_refused_watch(struct refused_count *c);

/* Whether this thread is about to ask for executable memory without need of it, as PCRE2's JIT
 * does: a refused mmap() is not counted then. */
void sandbox_refused_expect_mmap(bool yes);

static inline uint64_t refused_read(const struct refused_count *c)
{
	return __atomic_load_n(&c->n, __ATOMIC_RELAXED);
}

#endif
