/* msgpack.h - read MessagePack (the format's specification:
 * github.com/msgpack/msgpack/blob/master/spec.md).
 *
 * A pull reader over borrowed bytes: it allocates nothing, never recurses, and compares every
 * length with the bytes that are left. An array or map that announces more elements than bytes are
 * left is an error, so a length costs nothing before its bytes are there. Any integer width is
 * accepted for any value, as encoders differ. */
#ifndef KVROUTE_FEED_MSGPACK_H
#define KVROUTE_FEED_MSGPACK_H

#include "agent/base/types.h"

struct msgpack {
	const uint8_t *p, *end;
};

enum msgpack_type {
	MSGPACK_NIL, MSGPACK_BOOL, MSGPACK_UINT, MSGPACK_NEGATIVE, MSGPACK_FLOAT, MSGPACK_STR,
	MSGPACK_BIN, MSGPACK_ARRAY, MSGPACK_MAP, MSGPACK_EXT
};

struct msgpack_value {
	enum msgpack_type type;
	union {
		bool is;		/* BOOL */
		uint64_t u;		/* UINT; NEGATIVE as two's complement */
		double f;		/* FLOAT */
		struct span s;		/* STR, BIN, EXT: borrowed from the input */
		uint32_t n;		/* ARRAY: elements; MAP: pairs. They follow. */
	};
};

static inline struct msgpack msgpack_of(struct span s)
{
	return (struct msgpack){ (const uint8_t *)s.p, (const uint8_t *)s.p + s.n };
}

/* Read one value; of an array or a map only its head. Returns false, and leaves <r> where it is, if
 * the value is damaged or incomplete. */
bool msgpack_next(struct msgpack *r, struct msgpack_value *v);

/* Skip one value with everything in it. Returns false if it is damaged or incomplete. O(bytes). */
bool msgpack_skip(struct msgpack *r);

/* Read an unsigned integer of at most 32 bits: the common case inline. */
static inline bool msgpack_u32(struct msgpack *r, uint32_t *out)
{
	struct msgpack_value v;
	size_t left = (size_t)(r->end - r->p);

	if (left >= 1 && r->p[0] < 0x80) {
		*out = r->p[0];
		r->p += 1;
		return true;
	}
	if (left >= 3 && r->p[0] == 0xcd) {
		*out = (uint32_t)r->p[1] << 8 | r->p[2];
		r->p += 3;
		return true;
	}
	if (left >= 5 && r->p[0] == 0xce) {
		*out = (uint32_t)r->p[1] << 24 | (uint32_t)r->p[2] << 16 | (uint32_t)r->p[3] << 8 | r->p[4];
		r->p += 5;
		return true;
	}
	if (!msgpack_next(r, &v) || v.type != MSGPACK_UINT || v.u > UINT32_MAX)
		return false;
	*out = (uint32_t)v.u;
	return true;
}

#endif
