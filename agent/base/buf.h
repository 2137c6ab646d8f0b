/* buf.h - text that grows, with an optional bound. Blocks that it leaves are wiped.
 *
 *        0          n         top           cap       n: bytes in use
 *   p    |==========|---------|.............|         top: bytes written since the last wipe
 *
 * A failed append leaves the text unchanged and sets <failed>, so that a caller that appends many
 * pieces checks once, at the end. A buffer of zeros is empty and has no bound. */
#ifndef KVROUTE_BASE_BUF_H
#define KVROUTE_BASE_BUF_H

#include "agent/base/types.h"

struct buf {
	char *p;
	size_t n, cap;
	size_t top;		/* bytes written since the last wipe, if more than <n> */
	size_t max;		/* most bytes; 0: unbounded */
	bool failed;		/* an append failed since buf_start() */
	bool full;		/* it failed because of <max>, not for lack of memory */
};

/* Make room for <more> bytes after the text. Returns false, and sets <failed>, if <max> forbids it,
 * if there is no memory, or if an earlier append failed. */
bool buf_grow(struct buf *b, size_t more);

static inline bool buf_room(struct buf *b, size_t more)
{
	size_t most = b->max > 0 ? b->max : SIZE_MAX;

	return (more <= b->cap - b->n && more <= most - b->n && !b->failed) || buf_grow(b, more);
}

/* Count <n> bytes that the caller wrote after the text. */
static inline void buf_wrote(struct buf *b, size_t n)
{
	b->n += n;
	if (b->n > b->top)
		b->top = b->n;
}

static inline void buf_add(struct buf *b, const void *p, size_t n)
{
	if (n == 0 || !buf_room(b, n))
		return;
	memcpy(b->p + b->n, p, n);
	buf_wrote(b, n);
}

static inline void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

static inline void buf_span(struct buf *b, struct span s)
{
	buf_add(b, s.p, s.n);
}

/* Empty the text, forget failures and set the bound. Bytes that were written stay, until
 * buf_wipe(). */
void buf_start(struct buf *b, size_t max);

/* Empty the text and overwrite all that was written. A block of more than <kept> bytes is freed.
 * O(bytes written). */
void buf_wipe(struct buf *b, size_t kept);

/* Wipe and free the block. <b> is then a buffer of zeros. */
void buf_free(struct buf *b);

#endif
