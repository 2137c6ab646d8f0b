/* The budget is one atomic sum; a buffer is charged only if the sum stays within the limit. */
#include "agent/loop/budget_in.h"

static uint64_t limit_of(const struct budget *b, enum budget_kind kind)
{
	uint64_t max = __atomic_load_n(&b->max, __ATOMIC_RELAXED);

	return kind == BUDGET_FIRST ? max : max / 4 * 3;
}

/* <used> never exceeds the limit, not even for a moment, because /metrics may read it at any
 * time. */
bool budget_take(struct budget *b, enum budget_kind kind, size_t n)
{
	uint64_t used = __atomic_load_n(&b->used, __ATOMIC_RELAXED), limit = limit_of(b, kind);

	while (n <= limit && used <= limit - n)
		if (__atomic_compare_exchange_n(&b->used, &used, used + n, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
	__atomic_fetch_add(kind == BUDGET_FIRST ? &b->refused_first : &b->refused_large, 1,
			   __ATOMIC_RELAXED);
	return false;
}

void budget_give(struct budget *b, size_t n)
{
	__atomic_fetch_sub(&b->used, n, __ATOMIC_RELAXED);
}

bool budget_is_low(const struct budget *b)
{
	return __atomic_load_n(&b->used, __ATOMIC_RELAXED) <
	       __atomic_load_n(&b->max, __ATOMIC_RELAXED) / 2;
}

void budget_set(struct budget *b, size_t max)
{
	__atomic_store_n(&b->max, max, __ATOMIC_RELAXED);
}
