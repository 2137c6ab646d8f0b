/* conn_buf_in.h - buffers of connections, which a connection has only while bytes wait in them.
 *
 * Buffers hold prompts. So a buffer is wiped, up to the highest byte written, when it is returned,
 * exchanged or freed. All of them are charged to one budget. */
#ifndef KVROUTE_LOOP_CONN_BUF_IN_H
#define KVROUTE_LOOP_CONN_BUF_IN_H

#include "agent/loop/budget_in.h"

struct conn_buf {
	uint8_t *p;		/* NULL: no buffer */
	size_t n, cap;
	size_t top;		/* bytes from here on were not written since the last wipe */
};

/* Give <b> an empty buffer if it has none: <spare>, or a new one of <cap> bytes. Returns false if
 * there is no memory or the budget is used up. */
bool conn_buf_borrow(struct conn_buf *b, struct conn_buf *spare, size_t cap, struct budget *from);

/* Tell that <n> bytes were written after the <n> that <b> had. */
void conn_buf_wrote(struct conn_buf *b, size_t n);

/* Drop the first <n> bytes. O(bytes that stay). */
void conn_buf_drop(struct conn_buf *b, size_t n);

/* Return the buffer. The larger one of it and <spare> becomes <spare>; the other is freed. */
void conn_buf_return(struct conn_buf *b, struct conn_buf *spare, struct budget *to);

/* Exchange the buffer for one of <cap> >= n bytes with the same content. <kind>: for the budget.
 * Returns false, and keeps the old buffer, if there is no memory or the budget is used up. O(n). */
bool conn_buf_exchange(struct conn_buf *b, size_t cap, enum budget_kind kind, struct budget *from);

void conn_buf_fini(struct conn_buf *b, struct budget *to);

#endif
