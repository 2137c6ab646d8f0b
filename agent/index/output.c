/* output.c - count generated tokens: they fill the cache of an engine, and no prompt matches them.
 *
 * Each server has a ring of 64 buckets, oldest first: an amount of room, and the tick of its last
 * report. A report in the same SAME_TICKS as the last one joins it. If the ring is full, the two
 * neighbors with the smallest sum become one, as old as the younger: so buckets are of similar
 * size, and nothing is evicted too early. The memory is fixed, whatever is generated.
 *
 * Of the same tick, output is evicted before pages, because an engine frees the blocks of a request
 * from the end of its answer.
 *
 * Output counts only if a capacity is known, and is evicted only for it, because it takes no bytes
 * of the index. */
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

/* Join two buckets of a full ring. */
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

/* Add to the newest bucket, or start one. Reports of several threads may come slightly out of
 * order; then they count as old as the last one. */
static void add_generated(struct output *o, uint32_t room, uint32_t tick)
{
	struct output_bucket *last = o->n ? bucket_at(o, o->n - 1) : NULL;

	if (last != NULL && (tick_before(tick, last->tick) ||
			     tick / SAME_TICKS == last->tick / SAME_TICKS)) {
		last->room = add_saturated(last->room, room);
		if (tick_before(last->tick, tick))
			last->tick = tick;
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

/* Tell if <room> more output of <s> counts. */
static bool may_add(struct index *ix, server_id s, uint32_t room)
{
	return room > 0 && server_ready(ix, s) &&
	    atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed) > 0;
}

void index_add_output(struct index *ix, server_id s, uint32_t room, msec now)
{
	struct output *o = &ix->outputs[s < SERVERS_MAX ? s : 0];
	uint32_t work = EVICT_MAX;

	if (!may_add(ix, s, room))
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
	goes = b != NULL &&
	    (!is_record || (last ? tick_before(used, b->tick) : !tick_before(used, b->tick)));
	if (goes && b->room > most) {
		b->room -= (uint32_t)most;
	} else if (goes) {
		o->gone = b->tick;
		o->any_gone |= !last;
		o->n--;
		o->first = (o->first + !last) % OUTPUT_BUCKETS;
	}
	recount(ix, s, o);
	small_unlock(&o->locked);
	return goes;
}

bool output_oldest(struct index *ix, server_id s, uint32_t *tick)
{
	struct output *o = &ix->outputs[s];
	bool any;

	if (index_server_output(ix, s) == 0)
		return false;
	small_lock(&o->locked);
	if ((any = o->n > 0))
		*tick = bucket_at(o, 0)->tick;
	small_unlock(&o->locked);
	return any;
}

/* Returns the number of the bucket that has the output of <tick>; o->n: none. */
static uint32_t bucket_of_tick(struct output *o, uint32_t tick)
{
	uint32_t i = 0;

	while (i < o->n && tick_before(bucket_at(o, i)->tick, tick))
		i++;
	return i;
}

bool index_output_gone(struct index *ix, server_id s, msec then)
{
	struct output *o = &ix->outputs[s];
	bool gone;

	small_lock(&o->locked);
	gone = o->any_gone && !tick_before(o->gone, tick_of(then));
	small_unlock(&o->locked);
	return gone;
}

bool index_output_is_past(struct index *ix, server_id s, msec then)
{
	return is_evicted(ix, s, tick_of(then)) || index_output_gone(ix, s, then);
}

void index_take_output(struct index *ix, server_id s, uint32_t room, msec then)
{
	struct output *o = &ix->outputs[s];
	struct output_bucket *b;
	uint32_t i;

	if (index_server_output(ix, s) == 0)
		return;
	small_lock(&o->locked);
	i = bucket_of_tick(o, tick_of(then));
	if (i < o->n) {
		b = bucket_at(o, i);
		b->room -= room < b->room ? room : b->room;
	}
	recount(ix, s, o);
	small_unlock(&o->locked);
}

void index_give_output(struct index *ix, server_id s, uint32_t room, msec then)
{
	struct output *o = &ix->outputs[s < SERVERS_MAX ? s : 0];
	uint32_t work = EVICT_MAX, tick = tick_of(then), i;

	if (!may_add(ix, s, room))
		return;
	small_lock(&o->locked);
	i = bucket_of_tick(o, tick);
	if (i < o->n)
		bucket_at(o, i)->room = add_saturated(bucket_at(o, i)->room, room);
	else
		add_generated(o, room, tick);
	recount(ix, s, o);
	small_unlock(&o->locked);
	keep_capacity(ix, s, &work);
}

void output_drop(struct index *ix, server_id s)
{
	struct output *o = &ix->outputs[s];

	small_lock(&o->locked);
	o->n = 0;
	o->any_gone = false;
	recount(ix, s, o);
	small_unlock(&o->locked);
}
