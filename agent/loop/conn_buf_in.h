/* conn_buf_in.h - buffers that are lent: their user has one only while bytes wait in it.
 *
 * They carry prompts, so a buffer is wiped, as far up as anything was written to it, when it is given
 * back, exchanged or freed. All of them count against one budget. */
#ifndef KVROUTE_LOOP_CONN_BUF_IN_H
#define KVROUTE_LOOP_CONN_BUF_IN_H

#include "agent/loop/budget_in.h"

struct conn_buf {
	uint8_t *p;		/* NULL: none lent */
	size_t n, cap;
	size_t top;		/* bytes behind this were not written since it was wiped */
};

/* Give <b> a buffer, empty, unless it has one: the <spare> one, or a new one of <cap> bytes.
 * False: no memory, or not in the budget. */
bool conn_buf_borrow(struct conn_buf *b, struct conn_buf *spare, size_t cap, struct budget *from);

/* <n> more bytes were written behind those there are. */
void conn_buf_wrote(struct conn_buf *b, size_t n);

/* Drop the first <n> bytes. O(what is left). */
void conn_buf_drop(struct conn_buf *b, size_t n);

/* Give it back. Of two the larger is kept as <spare>, the other is freed. */
void conn_buf_return(struct conn_buf *b, struct conn_buf *spare, struct budget *to);

/* Exchange it for one of <cap> >= n bytes, with what is in it; <kind> is for the budget. On false,
 * no memory or not in the budget, it stays as it is. O(n). */
bool conn_buf_exchange(struct conn_buf *b, size_t cap, enum budget_kind kind, struct budget *from);

void conn_buf_fini(struct conn_buf *b, struct budget *to);

#endif
