/* lock.c - one small lock a shard, taken in ascending order.
 *
 * The work under a lock takes less than a microsecond, so waiting means spinning a little. If the
 * holder lost its CPU, sched_yield() lets it run. A futex would cost more than the work it
 * guards. */
#include <sched.h>

#include "agent/index/lock_in.h"

#define LOOKS	200

static inline void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

void small_lock(_Atomic uint32_t *l)
{
	unsigned looks = 0;

	while (atomic_exchange_explicit(l, 1, memory_order_acquire) != 0) {
		while (atomic_load_explicit(l, memory_order_relaxed) != 0) {
			if (++looks % LOOKS == 0)
				sched_yield();
			else
				pause_a_little();
		}
	}
}

static bool try_lock(_Atomic uint32_t *l)
{
	return atomic_load_explicit(l, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(l, 1, memory_order_acquire) == 0;
}

void shards_lock(struct index *ix, uint64_t mask)
{
	for (; mask != 0; mask &= mask - 1)
		small_lock(&ix->shards[__builtin_ctzll(mask)].locked);
}

/* Out of ascending order a lock may only be tried, or two threads could wait for each other. */
bool shards_more(struct index *ix, uint64_t *locked, uint64_t want)
{
	uint64_t more = want & ~*locked, bit;

	for (; more != 0; more &= more - 1) {
		bit = more & -more;
		if (bit > *locked)
			small_lock(&ix->shards[__builtin_ctzll(bit)].locked);
		else if (!try_lock(&ix->shards[__builtin_ctzll(bit)].locked))
			break;
		*locked |= bit;
	}
	if (more == 0)
		return true;
	shards_unlock(ix, *locked);
	shards_lock(ix, *locked = want | *locked);
	return false;
}

bool shards_pass(struct index *ix, uint64_t *locked, uint64_t to)
{
	uint64_t more = to & ~*locked, taken = 0;

	for (; more != 0; more &= more - 1) {
		if (!try_lock(&ix->shards[__builtin_ctzll(more)].locked)) {
			shards_unlock(ix, taken);
			return false;
		}
		taken |= more & -more;
	}
	shards_unlock(ix, *locked & ~to);
	*locked = to;
	return true;
}

uint64_t shards_try(struct index *ix, uint64_t want)
{
	uint64_t got = 0;

	for (; want != 0; want &= want - 1)
		if (try_lock(&ix->shards[__builtin_ctzll(want)].locked))
			got |= want & -want;
	return got;
}

void claims_lock(struct index *ix, server_id s)
{
	small_lock(&ix->groups[s % CLAIM_GROUPS].locked);
}

void claims_unlock(struct index *ix, server_id s)
{
	small_unlock(&ix->groups[s % CLAIM_GROUPS].locked);
}
