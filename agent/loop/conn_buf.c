/* Buffers of connections: charged to the budget before they are allocated, wiped before they are
 * freed. */
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

void conn_buf_wipe(struct conn_buf *b)
{
	if (b->top > 0)
		mem_wipe(b->p, b->top);
	b->n = b->at = b->top = 0;
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
	if (b->top < b->at + b->n)
		b->top = (uint32_t)(b->at + b->n);
}

void conn_buf_drop(struct conn_buf *b, size_t n)
{
	b->n -= n;
	if (b->n > 0 && n > 0)
		mem_wipe(conn_buf_bytes(b), n);
	b->at = b->n > 0 ? b->at + (uint32_t)n : 0;
}

void conn_buf_wipe_rest(struct conn_buf *b)
{
	uint32_t end = b->at + (uint32_t)b->n;

	if (b->top > end)
		mem_wipe(b->p + end, b->top - end);
	b->top = end;
}

void conn_buf_pack(struct conn_buf *b)
{
	if (b->at > 0 && b->n > 0)
		memmove(b->p, b->p + b->at, b->n);
	b->at = 0;
}

void conn_buf_return(struct conn_buf *b, struct conn_buf *spare, struct budget *to)
{
	struct conn_buf other = *spare;

	if (b->p == NULL)
		return;
	b->n = b->at = 0;
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
		memcpy(b->p, conn_buf_bytes(&old), old.n);
	conn_buf_wrote(b, old.n);
	conn_buf_fini(&old, from);
	return true;
}

void conn_buf_replace(
    struct conn_buf *b, const struct conn_buf *by, struct conn_buf *spare, struct budget *to)
{
	struct conn_buf old = *b;

	*b = *by;
	memcpy(b->p, conn_buf_bytes(&old), old.n);
	conn_buf_wrote(b, old.n);
	conn_buf_return(&old, spare, to);
}

void conn_buf_copy_rest(struct conn_buf *to, const struct conn_buf *from, size_t n)
{
	memcpy(to->p, conn_buf_bytes(from) + from->n - n, n);
	conn_buf_wrote(to, n);
	conn_buf_wipe_rest(to);
}

void conn_buf_fini(struct conn_buf *b, struct budget *to)
{
	if (b->p == NULL)
		return;
	conn_buf_wipe(b);
	mem_free(b->p);
	budget_give(to, b->cap);
	*b = (struct conn_buf){ 0 };
}
