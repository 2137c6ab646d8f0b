/* due.c - a binary heap. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/sim/due.h"

int due_init(struct due *d, size_t cap)
{
	*d = (struct due){ .heap = mem_calloc(cap, sizeof(*d->heap)) };
	return d->heap != NULL ? 0 : -1;
}

void due_fini(struct due *d)
{
	mem_free(d->heap);
	*d = (struct due){ .heap = NULL };
}

void due_add(struct due *d, struct sim_job *j, double at)
{
	size_t i = d->n++, up;

	for (; i > 0 && d->heap[up = (i - 1) / 2].at > at; i = up)
		d->heap[i] = d->heap[up];
	d->heap[i].at = at;
	d->heap[i].job = j;
}

double due_at(const struct due *d)
{
	return d->n > 0 ? d->heap[0].at : INFINITY;
}

struct sim_job *due_take(struct due *d)
{
	struct sim_job *first = d->heap[0].job;
	double at = d->heap[--d->n].at;
	size_t i = 0, down;

	for (; (down = 2 * i + 1) < d->n; i = down) {
		if (down + 1 < d->n && d->heap[down + 1].at < d->heap[down].at)
			down++;
		if (d->heap[down].at >= at)
			break;
		d->heap[i] = d->heap[down];
	}
	d->heap[i] = d->heap[d->n];
	return first;
}
