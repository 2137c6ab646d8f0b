/* protobuf.h - read a message of Protocol Buffers field by field, for SentencePiece's models.
 *
 * Bytes are from outside: every length is compared with what is left. */
#ifndef KVROUTE_TOK_FILE_PROTOBUF_H
#define KVROUTE_TOK_FILE_PROTOBUF_H

#include "agent/base/types.h"

struct pb {			/* what is left */
	const uint8_t *p, *end;
};

struct pb_field {
	uint32_t number;
	/* PB_GROUP and other wire types are not read */
	enum pb_wire { PB_VARINT = 0, PB_64 = 1, PB_BYTES = 2, PB_32 = 5 } wire;
	uint64_t value;		/* of PB_VARINT */
	struct span bytes;	/* of the others; borrowed */
};

static inline struct pb pb_of(struct span s)
{
	const uint8_t *p = (const uint8_t *)s.p;

	return (struct pb){ p, p + s.n };
}

/* Read the next field. Returns 1; 0 at the end; -1 if it is not one. */
int pb_next(struct pb *m, struct pb_field *f);

/* The float in a field of type PB_32. */
float pb_float(const struct pb_field *f);

#endif
