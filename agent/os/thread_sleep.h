/* thread_sleep.h - an interruptible sleep, for threads that work from time to time. */
#ifndef KVROUTE_OS_THREAD_SLEEP_H
#define KVROUTE_OS_THREAD_SLEEP_H

#include <pthread.h>

#include "agent/base/types.h"

struct thread_sleep {
	pthread_mutex_t lock;		/* guards <stop> */
	pthread_cond_t wake;
	bool stop;
};

void thread_sleep_init(struct thread_sleep *n);
/* Sleep for <ms>, or until thread_sleep_end(). Returns true if it was ended. */
bool thread_sleep_ms(struct thread_sleep *n, msec ms);
void thread_sleep_end(struct thread_sleep *n);	/* from any thread */

#endif
