/* process.h - figures and limits of this process, from the kernel. */
#ifndef KVROUTE_OS_PROCESS_H
#define KVROUTE_OS_PROCESS_H

#include <dirent.h>

#include "agent/base/types.h"

struct process_figures {
	uint64_t resident_bytes;
	uint64_t fds, max_fds;		/* open now, and the limit */
	double cpu_s;
};

/* Files that are read again and again. They stay open, because the sandbox allows no open later. */
struct process_files {
	int statm;		/* -1: not open */
	DIR *fds;		/* NULL: not open */
};

void process_open(struct process_files *f);
void process_close(struct process_files *f);

/* Read the figures to <p>. A figure that cannot be read is 0. O(open descriptors). Call it from one
 * thread only. */
void process_read(const struct process_files *f, struct process_figures *p);

/* Raise the limit of open files to the hard limit. Returns the limit. */
uint64_t process_raise_fds(void);

/* Returns true if <n> descriptors are free. This is checked before a loop is made, because libev
 * ends the process if it gets none for its wake-up. */
bool process_fds_left(unsigned n);

static inline bool process_fd_left(void)
{
	return process_fds_left(1);
}

/* Returns the number of CPUs that this process may run on, at least 1. */
unsigned process_cpus(void);

#endif
