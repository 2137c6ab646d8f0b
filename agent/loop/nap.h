/* nap.h - the sleep of a thread that works now and then, and its end. */
#ifndef KVROUTE_LOOP_NAP_H
#define KVROUTE_LOOP_NAP_H

#include <pthread.h>

#include "agent/base/types.h"

struct nap {
	pthread_mutex_t lock;		/* guards <stop> */
	pthread_cond_t wake;
	bool stop;
};

void nap_init(struct nap *n);
/* Wait so long, or until nap_end(). True: it is the end. */
bool nap_ms(struct nap *n, msec ms);
void nap_end(struct nap *n);	/* from any thread */

#endif
