/* shared.c - decayed counts by prefix, in a table of fixed size.
 *
 * A count decays when it is read or written, so nothing walks the table. It has room for about 600
 * prompts of 100 marks each. If two keys share a place, each use of the other one takes one from
 * the count, and the place is free when less than one is left. So prompts that are used once, which
 * a client may invent, displace no prefix that is used more often than its place is met. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/route/shared_in.h"

#define TABLE_ENTRIES	65536u
#define DECAY_MS	600000.0	/* a count falls to 1/e in this time */

struct shared_entry {
	uint32_t tag;
	float n;
	msec at;
};

struct shared_table { struct shared_entry at[TABLE_ENTRIES]; };

struct shared_table *shared_table_new(void)
{
	return mem_alloc(sizeof(struct shared_table));
}

void shared_table_free(struct shared_table *t)
{
	mem_free(t);
}

size_t shared_table_bytes(void)
{
	return sizeof(struct shared_table);
}

static struct shared_entry *entry_of(const struct shared_table *t, uint64_t key, uint32_t *tag)
{
	*tag = (uint32_t)(key >> 32) | 1;	/* 0 means unused */
	return (struct shared_entry *)(uintptr_t)&t->at[key % TABLE_ENTRIES];
}

/* What is left of counts of one time. The marks of a prompt were mostly counted at the same time,
 * and exp() is most of the cost. */
struct left {
	msec at;
	float share;
};

/* Counts do not grow if simulated time starts again. */
static float decayed(const struct shared_entry *e, msec now, struct left *l)
{
	if (now <= e->at)
		return e->n;
	if (l->at != e->at)
		*l = (struct left){ e->at, (float)exp(-(double)(now - e->at) / DECAY_MS) };
	return e->n * l->share;
}

static struct shared_entry counted(const struct shared_entry *e, uint32_t tag, float n, msec now)
{
	if (e->tag != tag && n >= 1)
		return (struct shared_entry){ e->tag, n - 1, now };
	return (struct shared_entry){ tag, (e->tag == tag ? n : 0) + 1, now };
}

void shared_prefetch(const struct shared_table *t, const struct marks *m)
{
	uint32_t tag;

	for (uint32_t i = 0; t != NULL && i < m->n; i++)
		__builtin_prefetch(entry_of(t, m->key[i], &tag), 1);
}

void shared_branch(struct shared_table *t, const struct marks *m, uint32_t depth, msec now)
{
	struct left left = { now, 1 };

	for (uint32_t i = 0; i < m->n && m->depth[i] <= depth; i++) {
		uint32_t tag;
		struct shared_entry *e = entry_of(t, m->key[i], &tag);

		*e = counted(e, tag, decayed(e, now, &left), now);
	}
}

uint32_t shared_counts(const struct shared_table *t, const struct marks *m, uint32_t depth,
    msec now, float n[MARKS_MAX])
{
	struct left left = { now, 1 };
	uint32_t i;

	for (i = 0; i < m->n && m->depth[i] <= depth; i++) {
		uint32_t tag;
		const struct shared_entry *e = entry_of(t, m->key[i], &tag);

		n[i] = e->tag == tag ? decayed(e, now, &left) : 0;
	}
	return i;
}
