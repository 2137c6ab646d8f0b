/* bytes.h - buffers that are lent: their user has one only while bytes wait in it.
 *
 * They carry prompts, so a buffer is wiped, as far up as anything was written to it, when it is given
 * back, exchanged or freed. All of them count against one budget. */
#ifndef KVROUTE_LOOP_BYTES_H
#define KVROUTE_LOOP_BYTES_H

#include "agent/loop/budget.h"

struct bytes {
	uint8_t *p;		/* NULL: none lent */
	size_t n, cap;
	size_t top;		/* bytes behind this were not written since it was wiped */
};

/* Give <b> a buffer, empty, unless it has one: the <spare> one, or a new one of <cap> bytes.
 * False: no memory, or not in the budget. */
bool bytes_borrow(struct bytes *b, struct bytes *spare, size_t cap, struct budget *from);

/* <n> more bytes were written behind those there are. */
void bytes_wrote(struct bytes *b, size_t n);

/* Drop the first <n> bytes. O(what is left). */
void bytes_drop(struct bytes *b, size_t n);

/* Give it back. Of two the larger is kept as <spare>, the other is freed. */
void bytes_return(struct bytes *b, struct bytes *spare, struct budget *to);

/* Exchange it for one of <cap> >= n bytes, with what is in it; <kind> is for the budget. On false,
 * no memory or not in the budget, it stays as it is. O(n). */
bool bytes_exchange(struct bytes *b, size_t cap, enum budget_kind kind, struct budget *from);

void bytes_fini(struct bytes *b, struct budget *to);

#endif
