/* buf.h - a byte buffer that grows at the end and shrinks at the front, for test tools. If memory
 * is exhausted, the program prints a sentence and exits. The caller checks limits by <n>. */
#ifndef KVROUTE_TOOLS_BUF_H
#define KVROUTE_TOOLS_BUF_H

#include "agent/base/types.h"

struct buf {
	char *p;	/* the first byte not yet taken; moves when the buffer changes */
	size_t n;
	char *mem;
	size_t cap;
};

/* realloc() that never returns NULL; <size> is not 0. */
void *tool_resize(void *p, size_t count, size_t size);

void buf_put(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* <s> as a JSON string with its quotes. Bytes above 0x7f stay as they are. */
void buf_put_json(struct buf *b, struct span s);

/* Make room for <n> more bytes at the end. The caller adds the bytes it wrote to <b->n>. */
char *buf_room(struct buf *b, size_t n);
void buf_take(struct buf *b, size_t n);	/* <n> bytes at the front are done with */
void buf_free(struct buf *b);		/* empty again, and usable */

static inline struct span buf_span(const struct buf *b)
{
	return span_of(b->p, b->n);
}

#endif
