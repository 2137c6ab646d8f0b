/* Waits on a condition variable of the monotonic clock, so setting the time has no effect. */
#include <time.h>

#include "agent/os/thread_sleep.h"

void thread_sleep_init(struct thread_sleep *n)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&n->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&n->wake, &attr);
	n->stop = n->woken = false;
}

bool thread_sleep_ms(struct thread_sleep *n, msec ms)
{
	struct timespec until;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(ms / 1000);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&n->lock);
	while (!n->stop && !n->woken && pthread_cond_timedwait(&n->wake, &n->lock, &until) == 0)
		;
	stop = n->stop;
	n->woken = false;
	pthread_mutex_unlock(&n->lock);
	return stop;
}

void thread_sleep_wake(struct thread_sleep *n)
{
	pthread_mutex_lock(&n->lock);
	n->woken = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}

void thread_sleep_end(struct thread_sleep *n)
{
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}
