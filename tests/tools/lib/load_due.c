/* load_due.c - talks by the time they are due: a binary heap, because pauses are random and a turn
 * must cost O(log n). */
#include "tests/tools/lib/load.h"

#include <stdlib.h>

static bool before(const struct talk *a, const struct talk *b)
{
	return a->ready_at < b->ready_at || (a->ready_at == b->ready_at && a->id < b->id);
}

void due_init(struct due *d, uint32_t max)
{
	*d = (struct due){ .heap = tool_resize(NULL, max, sizeof(struct talk *)) };
}

void due_fini(struct due *d)
{
	free(d->heap);
	*d = (struct due){ 0 };
}

void due_put(struct due *d, struct talk *t)
{
	uint32_t i = d->n++;

	for (; i > 0 && before(t, d->heap[(i - 1) / 2]); i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = t;
}

struct talk *due_first(const struct due *d)
{
	return d->n > 0 ? d->heap[0] : NULL;
}

void due_take(struct due *d)
{
	struct talk *last = d->heap[--d->n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < d->n) {
		if (child + 1 < d->n && before(d->heap[child + 1], d->heap[child]))
			child++;
		if (!before(d->heap[child], last))
			break;
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = last;
}
