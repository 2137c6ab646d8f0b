/* buf.c - the growing buffer of the test tools.
 *
 * One allocation; what is taken at the front is only skipped, and the rest moves down when room is
 * needed at the end. Every byte therefore moves at most as often as the buffer doubles. */
#include "tests/tools/lib/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *tool_resize(void *p, size_t count, size_t size)
{
	void *q = NULL;

	if (count <= SIZE_MAX / 2 / size)
		q = realloc(p, count ? count * size : 1);
	if (q == NULL) {
		fprintf(stderr, "out of memory for %zu times %zu bytes\n", count, size);
		abort();
	}
	return q;
}

char *buf_room(struct buf *b, size_t n)
{
	size_t front = b->mem ? (size_t)(b->p - b->mem) : 0;

	if (b->cap - front - b->n >= n && b->mem)
		return b->p + b->n;
	if (front && b->n)
		memmove(b->mem, b->p, b->n);
	if (b->cap - b->n < n || b->mem == NULL) {
		b->cap = b->n + n < 256 ? 256 : (b->n + n) * 3 / 2;
		b->mem = tool_resize(b->mem, b->cap, 1);
	}
	b->p = b->mem;
	return b->p + b->n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_room(b, n), p, n);
	b->n += n;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_putf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	size_t room = 160;
	int n;

	for (;;) {
		char *to = buf_room(b, room);

		va_start(ap, fmt);
		n = vsnprintf(to, room, fmt, ap);
		va_end(ap);
		if (n < 0)
			return;
		if ((size_t)n < room)
			break;
		room = (size_t)n + 1;
	}
	b->n += (size_t)n;
}

void buf_put_json(struct buf *b, struct span s)
{
	size_t from = 0;

	buf_put(b, "\"", 1);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_put(b, s.p + from, i - from);
		from = i + 1;
		if (c == '"' || c == '\\')
			buf_putf(b, "\\%c", c);
		else
			buf_putf(b, "\\u%04x", c);
	}
	buf_put(b, s.p ? s.p + from : "", s.n - from);
	buf_put(b, "\"", 1);
}

void buf_take(struct buf *b, size_t n)
{
	if (n > b->n)
		n = b->n;
	b->n -= n;
	b->p = b->n ? b->p + n : b->mem;
}

void buf_free(struct buf *b)
{
	free(b->mem);
	*b = (struct buf){ 0 };
}
