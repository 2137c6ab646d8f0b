/* process.h - what the kernel says about this process. */
#ifndef KVROUTE_LOOP_PROCESS_H
#define KVROUTE_LOOP_PROCESS_H

#include "agent/base/types.h"

struct process_figures {
	uint64_t resident_bytes;
	uint64_t fds, max_fds;		/* open now; as many as may be */
	double cpu_s;
};

/* What cannot be read is 0. O(open descriptors). */
void process_read(struct process_figures *p);

/* Ask for as many descriptors as the hard limit allows; returns how many there may be now. */
uint64_t process_raise_fds(void);

/* CPUs this process may run on; at least 1. */
unsigned process_cpus(void);

#endif
