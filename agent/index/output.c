/* output.c - what a server generated: it fills the cache of its engine, and no prompt matches
 * it.
 *
 * Of each server a ring of 64 buckets, oldest first: so much room, the last of it at that tick.
 * A report within SAME_TICKS of the last joins it. When the ring is full, the two neighbours
 * that are least together become one, as old as the younger of them: so all buckets come to
 * about as much room, and nothing goes before its time. That is all the memory there is,
 * whatever is generated.
 *
 * It counts only where a capacity is known, and goes only for it: bytes of the index it has
 * none. */
#include "agent/index/evict_in.h"

#define SAME_TICKS	4u

static struct output_bucket *bucket_at(struct output *o, uint32_t i)
{
	return &o->ring[(o->first + i) % OUTPUT_BUCKETS];
}

static uint32_t add_saturated(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Make one place in a full ring. */
static void join_smallest(struct output *o)
{
	uint32_t best = 0, i;
	uint64_t least = UINT64_MAX, n;

	for (i = 0; i + 1 < o->n; i++) {
		n = (uint64_t)bucket_at(o, i)->room + bucket_at(o, i + 1)->room;
		if (n < least) {
			least = n;
			best = i;
		}
	}
	bucket_at(o, best)->room = add_saturated(bucket_at(o, best)->room, bucket_at(o, best + 1)->room);
	bucket_at(o, best)->tick = bucket_at(o, best + 1)->tick;
	for (i = best + 1; i + 1 < o->n; i++)
		*bucket_at(o, i) = *bucket_at(o, i + 1);
	o->n--;
}

/* What several threads report may come a little out of order; then it is as old as the last. */
static void add_generated(struct output *o, uint32_t room, uint32_t tick)
{
	struct output_bucket *last = o->n ? bucket_at(o, o->n - 1) : NULL;

	if (last != NULL && tick_before(tick, last->tick + SAME_TICKS)) {
		last->room = add_saturated(last->room, room);
		return;
	}
	if (o->n == OUTPUT_BUCKETS)
		join_smallest(o);
	*bucket_at(o, o->n++) = (struct output_bucket){ .tick = tick, .room = room };
}

static void recount(struct index *ix, server_id s, const struct output *o)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < o->n; i++)
		n += o->ring[(o->first + i) % OUTPUT_BUCKETS].room;
	atomic_store_explicit(&ix->servers[s].output, n, memory_order_relaxed);
}

void index_add_output(struct index *ix, server_id s, uint32_t room, msec now)
{
	struct output *o = &ix->outputs[s < SERVERS_MAX ? s : 0];
	uint32_t work = EVICT_MAX;

	if (room == 0 || !server_ready(ix, s) ||
	    atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed) == 0)
		return;
	small_lock(&o->locked);
	add_generated(o, room, tick_of(now));
	recount(ix, s, o);
	small_unlock(&o->locked);
	keep_capacity(ix, s, &work);
}

uint64_t index_server_output(struct index *ix, server_id s)
{
	return s < SERVERS_MAX ? atomic_load_explicit(&ix->servers[s].output, memory_order_relaxed) : 0;
}

bool output_cut(struct index *ix, server_id s, bool is_record, uint32_t used, uint64_t most)
{
	struct output *o = &ix->outputs[s];
	bool last = last_goes(order_of(ix, s)), goes;
	struct output_bucket *b;

	if (index_server_output(ix, s) == 0)
		return false;
	small_lock(&o->locked);
	b = o->n == 0 ? NULL : bucket_at(o, last ? o->n - 1 : 0);
	goes = b != NULL && (!is_record || (last ? tick_before(used, b->tick) : tick_before(b->tick, used)));
	if (goes && b->room > most) {
		b->room -= (uint32_t)most;
	} else if (goes) {
		o->n--;
		o->first = (o->first + !last) % OUTPUT_BUCKETS;
	}
	recount(ix, s, o);
	small_unlock(&o->locked);
	return goes;
}

void output_drop(struct index *ix, server_id s)
{
	struct output *o = &ix->outputs[s];

	small_lock(&o->locked);
	o->n = 0;
	recount(ix, s, o);
	small_unlock(&o->locked);
}
