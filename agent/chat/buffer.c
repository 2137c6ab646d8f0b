#include "agent/base/mem.h"
#include "agent/chat/buffer.h"

static bool grow(struct buffer *b, size_t n)
{
	size_t cap = b->cap > 0 ? b->cap : 1024;
	char *p;

	b->full |= b->max > 0 && n > b->max - b->n;
	if (b->failed || b->full || n > SIZE_MAX / 4 - b->n) {
		b->failed = true;
		return false;
	}
	while (cap < b->n + n)
		cap *= 2;
	if (cap == b->cap)
		return true;
	if ((p = mem_regrow(b->p, b->n, b->top, cap)) == NULL) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void buffer_add(struct buffer *b, const char *p, size_t n)
{
	if (n == 0 || !grow(b, n))
		return;
	memcpy(b->p + b->n, p, n);
	b->n += n;
	if (b->n > b->top)
		b->top = b->n;
}

void buffer_str(struct buffer *b, const char *s)
{
	buffer_add(b, s, strlen(s));
}

void buffer_span(struct buffer *b, struct span s)
{
	buffer_add(b, s.p, s.n);
}

void buffer_start(struct buffer *b, size_t max)
{
	b->n = 0;
	b->max = max;
	b->failed = b->full = false;
}

void buffer_wipe(struct buffer *b)
{
	if (b->p != NULL)
		mem_wipe(b->p, b->top);
	b->n = b->top = 0;
	if (b->cap <= BUFFER_KEPT)
		return;
	mem_free(b->p);
	b->p = NULL;
	b->cap = 0;
}

void buffer_free(struct buffer *b)
{
	buffer_wipe(b);
	mem_free(b->p);
	*b = (struct buffer){ .p = NULL };
}
