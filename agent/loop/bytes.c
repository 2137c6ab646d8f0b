#include "agent/base/mem.h"
#include "agent/loop/bytes.h"

static bool make(struct bytes *b, size_t cap, enum budget_kind kind, struct budget *from)
{
	if (!budget_take(from, kind, cap))
		return false;
	*b = (struct bytes){ .p = mem_resize(NULL, cap, 1), .cap = cap };
	if (b->p == NULL)
		budget_give(from, cap);
	return b->p != NULL;
}

static void wipe(struct bytes *b)
{
	mem_wipe(b->p, b->top);
	b->n = b->top = 0;
}

bool bytes_borrow(struct bytes *b, struct bytes *spare, size_t cap, struct budget *from)
{
	if (b->p != NULL)
		return true;
	if (spare->p == NULL)
		return make(b, cap, BUDGET_FIRST, from);
	*b = *spare;
	*spare = (struct bytes){ 0 };
	return true;
}

void bytes_wrote(struct bytes *b, size_t n)
{
	b->n += n;
	if (b->top < b->n)
		b->top = b->n;
}

void bytes_drop(struct bytes *b, size_t n)
{
	if (n == 0)
		return;
	b->n -= n;
	memmove(b->p, b->p + n, b->n);
}

void bytes_return(struct bytes *b, struct bytes *spare, struct budget *to)
{
	struct bytes other = *spare;

	if (b->p == NULL)
		return;
	wipe(b);
	if (other.p == NULL || other.cap < b->cap) {
		*spare = *b;
		*b = other;
	}
	bytes_fini(b, to);
}

bool bytes_exchange(struct bytes *b, size_t cap, enum budget_kind kind, struct budget *from)
{
	struct bytes old = *b;

	if (!make(b, cap, kind, from)) {
		*b = old;
		return false;
	}
	if (old.n > 0)
		memcpy(b->p, old.p, old.n);
	bytes_wrote(b, old.n);
	bytes_fini(&old, from);
	return true;
}

void bytes_fini(struct bytes *b, struct budget *to)
{
	if (b->p == NULL)
		return;
	wipe(b);
	mem_free(b->p);
	budget_give(to, b->cap);
	*b = (struct bytes){ 0 };
}
