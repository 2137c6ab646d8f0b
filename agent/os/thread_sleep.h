/* thread_sleep.h - the sleep of a thread that works now and then, and its end. */
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
/* Wait so long, or until thread_sleep_end(). True: it is the end. */
bool thread_sleep_ms(struct thread_sleep *n, msec ms);
void thread_sleep_end(struct thread_sleep *n);	/* from any thread */

#endif
