/* conn_buf_in.h - buffers of connections, which a connection has only while bytes wait in them.
 *
 *      p         at              at + n              top                 cap
 *      |  zeros  |  bytes that wait |  used before    |  not written yet  |
 *
 * Buffers hold prompts. So a buffer is wiped, up to the highest byte written, when it is exchanged
 * or freed. A spare one keeps its bytes until its owner wipes it, at the next sweep. Until then it
 * may be borrowed: a borrower that keeps the buffer wipes all but the bytes that wait. So old bytes
 * are only where a sweep wipes them. All buffers are charged to one budget. */
#ifndef KVROUTE_LOOP_CONN_BUF_IN_H
#define KVROUTE_LOOP_CONN_BUF_IN_H

#include "agent/loop/budget_in.h"

struct conn_buf {
	uint8_t *p;		/* NULL: no buffer */
	size_t n, cap;
	uint32_t at;		/* where the <n> bytes begin; <cap> is at most SPOP_FRAME_CEILING + 4 */
	uint32_t top;		/* bytes from here on were not written since the last wipe */
};

static inline uint8_t *conn_buf_bytes(const struct conn_buf *b)
{
	return b->p + b->at;
}

/* Give <b> an empty buffer if it has none: <spare>, with its old bytes, or a new one of <cap>
 * bytes. Returns false if there is no memory or the budget is used up. */
bool conn_buf_borrow(struct conn_buf *b, struct conn_buf *spare, size_t cap, struct budget *from);

/* Tell that <n> bytes were written after the <n> that <b> had. */
void conn_buf_wrote(struct conn_buf *b, size_t n);

/* Drop the first <n> bytes, and wipe them if others stay, which are not moved. If none stay, the
 * buffer is to be returned. */
void conn_buf_drop(struct conn_buf *b, size_t n);

/* Wipe what is written after the bytes that wait. Each byte written is wiped once: O(1) if nothing
 * was written there since. */
void conn_buf_wipe_rest(struct conn_buf *b);

/* Move the bytes to the start of the buffer, to have all the room after them. O(n). */
void conn_buf_pack(struct conn_buf *b);

void conn_buf_wipe(struct conn_buf *b);		/* and drop all bytes */

/* Return the buffer. The larger one of it and <spare> becomes <spare>, and may hold bytes until it
 * is wiped; the other is freed. */
void conn_buf_return(struct conn_buf *b, struct conn_buf *spare, struct budget *to);

/* Exchange the buffer for one of <cap> >= n bytes with the same content. <kind>: for the budget.
 * Returns false, and keeps the old buffer, if there is no memory or the budget is used up. O(n). */
bool conn_buf_exchange(struct conn_buf *b, size_t cap, enum budget_kind kind, struct budget *from);

/* The same with the empty buffer <by>, but return the old one. */
void conn_buf_replace(
    struct conn_buf *b, const struct conn_buf *by, struct conn_buf *spare, struct budget *to);

/* Copy the last <n> bytes of <from> to the empty buffer <to>, and wipe the others of <to>. */
void conn_buf_copy_rest(struct conn_buf *to, const struct conn_buf *from, size_t n);

void conn_buf_fini(struct conn_buf *b, struct budget *to);

#endif
