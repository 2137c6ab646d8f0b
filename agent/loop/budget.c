#include "agent/loop/budget.h"

static uint64_t limit_of(const struct budget *b, enum budget_kind kind)
{
	uint64_t max = __atomic_load_n(&b->max, __ATOMIC_RELAXED);

	return kind == BUDGET_FIRST ? max : max / 4 * 3;
}

/* Added first and looked at then: two threads at once may both be refused, never both be let in. */
bool budget_take(struct budget *b, enum budget_kind kind, size_t n)
{
	if (__atomic_add_fetch(&b->used, n, __ATOMIC_RELAXED) <= limit_of(b, kind))
		return true;
	budget_give(b, n);
	__atomic_fetch_add(kind == BUDGET_FIRST ? &b->refused_first : &b->refused_large, 1,
			   __ATOMIC_RELAXED);
	return false;
}

void budget_give(struct budget *b, size_t n)
{
	__atomic_fetch_sub(&b->used, n, __ATOMIC_RELAXED);
}

void budget_set(struct budget *b, size_t max)
{
	__atomic_store_n(&b->max, max, __ATOMIC_RELAXED);
}
