/* thread_sleep.h - an interruptible sleep, for threads that work from time to time. */
#ifndef KVROUTE_OS_THREAD_SLEEP_H
#define KVROUTE_OS_THREAD_SLEEP_H

#include <pthread.h>

#include "agent/base/types.h"

struct thread_sleep {
	pthread_mutex_t lock;		/* guards the flags */
	pthread_cond_t wake;
	bool stop, woken;
};

void thread_sleep_init(struct thread_sleep *n);
/* Sleep for <ms>, or until thread_sleep_end() or thread_sleep_wake(). Returns true if it was
 * ended. */
bool thread_sleep_ms(struct thread_sleep *n, msec ms);
/* From any thread: end this sleep, or the next one; end all of them. */
void thread_sleep_wake(struct thread_sleep *n);
void thread_sleep_end(struct thread_sleep *n);

#endif
