/* kvlog.c - pending events in an array, published batches in a queue. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/sim/kvlog.h"

int kvlog_init(struct kvlog *l, uint32_t n_blocks, double delay_s)
{
	*l = (struct kvlog){ .delay_s = delay_s };
	l->fresh = mem_calloc((size_t)n_blocks + 1, sizeof(*l->fresh));
	return l->fresh != NULL ? 0 : -1;
}

void kvlog_fini(struct kvlog *l)
{
	while (l->first != NULL)
		mem_free(kvlog_take(l));
	mem_free(l->fresh);
	mem_free(l->pending);
	*l = (struct kvlog){ 0 };
}

static void add(struct kvlog *l, struct kvlog_event e)
{
	if (l->n == l->cap) {
		size_t cap = l->cap > 0 ? 2 * l->cap : 256;
		struct kvlog_event *more = mem_resize(l->pending, cap, sizeof(*more));

		if (more == NULL) {
			l->no_memory = true;
			return;
		}
		l->pending = more;
		l->cap = cap;
	}
	l->pending[l->n++] = e;
}

void kvlog_stored(struct kvlog *l, uint64_t block, uint64_t parent)
{
	add(l, (struct kvlog_event){ .stored = true, .block = block, .parent = parent });
}

void kvlog_removed(struct kvlog *l, uint64_t block)
{
	add(l, (struct kvlog_event){ .block = block });
}

void kvlog_publish(struct kvlog *l, double start, double end)
{
	struct kvlog_batch *b;
	double at = end + l->delay_s;

	if (l->n == 0)
		return;
	if ((b = mem_alloc(sizeof(*b) + l->n * sizeof(b->events[0]))) == NULL) {
		l->no_memory = true;
		return;
	}
	at = at > start ? at : start;
	if (l->first == NULL)
		l->end = &l->first;
	else if (at < l->latest)
		at = l->latest;
	l->latest = at;
	*b = (struct kvlog_batch){ .at = at, .seq = l->seq++, .n = l->n };
	memcpy(b->events, l->pending, l->n * sizeof(b->events[0]));
	l->n = 0;
	*l->end = b;
	l->end = &b->next;
}

double kvlog_next(const struct kvlog *l)
{
	return l->first != NULL ? l->first->at : INFINITY;
}

struct kvlog_batch *kvlog_take(struct kvlog *l)
{
	struct kvlog_batch *b = l->first;

	l->first = b->next;
	return b;
}
