/* due.h - jobs by the time at which something happens to them: a heap. */
#ifndef KVROUTE_SIM_DUE_H
#define KVROUTE_SIM_DUE_H

#include "agent/sim/engine.h"

struct due {
	struct due_job { double at; struct sim_job *job; } *heap;
	size_t n;
};

/* Make room for <cap> jobs at once. Returns -1 if there is no memory. */
int due_init(struct due *d, size_t cap);
void due_fini(struct due *d);

void due_add(struct due *d, struct sim_job *j, double at);
double due_at(const struct due *d);		/* of the next job; INFINITY: there is none */
struct sim_job *due_take(struct due *d);	/* there is one */

#endif
