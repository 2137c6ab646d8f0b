/* Buffers of connections: charged to the budget before they are allocated, wiped before they are
 * freed or used again. */
#include "agent/base/mem.h"
#include "agent/loop/conn_buf_in.h"

static bool buf_alloc(struct conn_buf *b, size_t cap, enum budget_kind kind, struct budget *from)
{
	if (!budget_take(from, kind, cap))
		return false;
	*b = (struct conn_buf){ .p = mem_resize(NULL, cap, 1), .cap = cap };
	if (b->p == NULL)
		budget_give(from, cap);
	return b->p != NULL;
}

static void buf_wipe(struct conn_buf *b)
{
	mem_wipe(b->p, b->top);
	b->n = b->top = 0;
}

bool conn_buf_borrow(struct conn_buf *b, struct conn_buf *spare, size_t cap, struct budget *from)
{
	if (b->p != NULL)
		return true;
	if (spare->p == NULL)
		return buf_alloc(b, cap, BUDGET_FIRST, from);
	*b = *spare;
	*spare = (struct conn_buf){ 0 };
	return true;
}

void conn_buf_wrote(struct conn_buf *b, size_t n)
{
	b->n += n;
	if (b->top < b->n)
		b->top = b->n;
}

void conn_buf_drop(struct conn_buf *b, size_t n)
{
	if (n == 0)
		return;
	b->n -= n;
	memmove(b->p, b->p + n, b->n);
}

void conn_buf_return(struct conn_buf *b, struct conn_buf *spare, struct budget *to)
{
	struct conn_buf other = *spare;

	if (b->p == NULL)
		return;
	buf_wipe(b);
	if (other.p == NULL || other.cap < b->cap) {
		*spare = *b;
		*b = other;
	}
	conn_buf_fini(b, to);
}

bool conn_buf_exchange(struct conn_buf *b, size_t cap, enum budget_kind kind, struct budget *from)
{
	struct conn_buf old = *b;

	if (!buf_alloc(b, cap, kind, from)) {
		*b = old;
		return false;
	}
	if (old.n > 0)
		memcpy(b->p, old.p, old.n);
	conn_buf_wrote(b, old.n);
	conn_buf_fini(&old, from);
	return true;
}

void conn_buf_fini(struct conn_buf *b, struct budget *to)
{
	if (b->p == NULL)
		return;
	buf_wipe(b);
	mem_free(b->p);
	budget_give(to, b->cap);
	*b = (struct conn_buf){ 0 };
}
