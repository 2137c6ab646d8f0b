/* bytes.h - buffers that are lent: their user has one only while bytes wait in it. */
#ifndef KVROUTE_LOOP_BYTES_H
#define KVROUTE_LOOP_BYTES_H

#include "agent/base/types.h"

struct bytes {
	uint8_t *p;		/* NULL: none lent */
	size_t n, cap;
};

/* Give <b> a buffer, empty, unless it has one: the <spare> one, or a new one of <cap> bytes.
 * False: no memory. */
bool bytes_borrow(struct bytes *b, struct bytes *spare, size_t cap);

/* Give it back. Of two the larger is kept as <spare>, the other is freed. */
void bytes_return(struct bytes *b, struct bytes *spare);

bool bytes_grow(struct bytes *b, size_t cap);	/* keeps what is in it; false: no memory */
void bytes_fini(struct bytes *b);

#endif
