/* process.h - what the kernel says about this process. */
#ifndef KVROUTE_OS_PROCESS_H
#define KVROUTE_OS_PROCESS_H

#include <dirent.h>

#include "agent/base/types.h"

struct process_figures {
	uint64_t resident_bytes;
	uint64_t fds, max_fds;		/* open now; as many as may be */
	double cpu_s;
};

/* Files that are read again and again; the sandbox lets nothing be opened later. */
struct process_files {
	int statm;		/* -1: there is none */
	DIR *fds;		/* NULL: there is none */
};

void process_open(struct process_files *f);
void process_close(struct process_files *f);

/* What cannot be read is 0. O(open descriptors). From one thread. */
void process_read(const struct process_files *f, struct process_figures *p);

/* Ask for as many descriptors as the hard limit allows; returns how many there may be now. */
uint64_t process_raise_fds(void);

/* Are there <n> descriptors left? libev ends the process where it finds none for a loop's wake-up.
 */
bool process_fds_left(unsigned n);

static inline bool process_fd_left(void)
{
	return process_fds_left(1);
}

/* CPUs this process may run on; at least 1. */
unsigned process_cpus(void);

#endif
