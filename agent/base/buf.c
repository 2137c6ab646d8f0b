/* Room doubles, so appending n bytes copies O(n) of them. A block that is left is wiped only as far
 * as it was written. */
#include "agent/base/buf.h"
#include "agent/base/mem.h"

#define BUF_FIRST	1024

bool buf_grow(struct buf *b, size_t more)
{
	size_t most = b->max > 0 ? b->max : SIZE_MAX / 4, cap;
	char *p;

	if (b->max > 0 && (b->n > b->max || more > b->max - b->n))
		b->full = true;
	if (b->failed || b->full || b->n > most || more > most - b->n) {
		b->failed = true;
		return false;
	}
	if (more <= b->cap - b->n)
		return true;
	cap = b->cap < BUF_FIRST / 2 ? BUF_FIRST : b->cap * 2;
	if (cap > most)
		cap = most;
	if (cap < b->n + more)
		cap = b->n + more;
	if ((p = mem_regrow(b->p, b->n, b->top, cap)) == NULL) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	b->top = b->n;
	return true;
}

void buf_start(struct buf *b, size_t max)
{
	b->n = 0;
	b->max = max;
	b->failed = b->full = false;
}

void buf_wipe(struct buf *b, size_t kept)
{
	if (b->p != NULL)
		mem_wipe(b->p, b->top);
	b->n = b->top = 0;
	if (b->cap <= kept)
		return;
	mem_free(b->p);
	b->p = NULL;
	b->cap = 0;
}

void buf_free(struct buf *b)
{
	mem_free_wiped(b->p, b->top);
	*b = (struct buf){ .p = NULL };
}
