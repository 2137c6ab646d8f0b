/* Read MessagePack: a table of heads by first byte, and a skip that counts values instead of
 * recursing. */
#include "agent/feed/msgpack.h"

static bool take(struct msgpack *r, size_t n, const uint8_t **p)
{
	if ((size_t)(r->end - r->p) < n)
		return false;
	*p = r->p;
	r->p += n;
	return true;
}

static bool big_endian(struct msgpack *r, unsigned n, uint64_t *out)
{
	const uint8_t *p;
	uint64_t v = 0;

	if (!take(r, n, &p))
		return false;
	while (n-- > 0)
		v = v << 8 | *p++;
	*out = v;
	return true;
}

static bool bytes(struct msgpack *r, uint64_t n, enum msgpack_type type, struct msgpack_value *v)
{
	const uint8_t *p;

	if (n > (uint64_t)(r->end - r->p) || !take(r, (size_t)n, &p))
		return false;
	v->type = type;
	v->s = span_of((const char *)p, (size_t)n);
	return true;
}

static bool sized(struct msgpack *r, unsigned width, unsigned extra, enum msgpack_type type,
		  struct msgpack_value *v)
{
	uint64_t n;

	return big_endian(r, width, &n) && bytes(r, n + extra, type, v);
}

/* Read the head of an array or a map. Each element takes a byte at least, so more of them than
 * bytes are left is an error. */
static bool container(
    struct msgpack *r, uint64_t n, enum msgpack_type type, struct msgpack_value *v)
{
	if (n * (type == MSGPACK_MAP ? 2 : 1) > (uint64_t)(r->end - r->p))
		return false;
	v->type = type;
	v->n = (uint32_t)n;
	return true;
}

static bool counted(
    struct msgpack *r, unsigned width, enum msgpack_type type, struct msgpack_value *v)
{
	uint64_t n;

	return big_endian(r, width, &n) && container(r, n, type, v);
}

static bool unsigned_int(struct msgpack *r, unsigned width, struct msgpack_value *v)
{
	v->type = MSGPACK_UINT;
	return big_endian(r, width, &v->u);
}

static bool signed_int(struct msgpack *r, unsigned width, struct msgpack_value *v)
{
	uint64_t sign = 1ull << (8 * width - 1);

	if (!big_endian(r, width, &v->u))
		return false;
	v->u = (v->u ^ sign) - sign;
	v->type = v->u >> 63 ? MSGPACK_NEGATIVE : MSGPACK_UINT;
	return true;
}

static bool floating(struct msgpack *r, unsigned width, struct msgpack_value *v)
{
	uint64_t bits;
	uint32_t half;
	float single;

	if (!big_endian(r, width, &bits))
		return false;
	v->type = MSGPACK_FLOAT;
	if (width == 8) {
		memcpy(&v->f, &bits, 8);
	} else {
		half = (uint32_t)bits;
		memcpy(&single, &half, 4);
		v->f = (double)single;
	}
	return true;
}

static bool by_head(struct msgpack *r, uint8_t head, struct msgpack_value *v)
{
	switch (head) {
	case 0xc0:
		v->type = MSGPACK_NIL;
		return true;
	case 0xc2: case 0xc3:
		v->type = MSGPACK_BOOL;
		v->is = head & 1;
		return true;
	case 0xc4: case 0xc5: case 0xc6:
		return sized(r, 1u << (head - 0xc4), 0, MSGPACK_BIN, v);
	case 0xc7: case 0xc8: case 0xc9:
		return sized(r, 1u << (head - 0xc7), 1, MSGPACK_EXT, v);
	case 0xca: case 0xcb:
		return floating(r, head == 0xca ? 4 : 8, v);
	case 0xcc: case 0xcd: case 0xce: case 0xcf:
		return unsigned_int(r, 1u << (head - 0xcc), v);
	case 0xd0: case 0xd1: case 0xd2: case 0xd3:
		return signed_int(r, 1u << (head - 0xd0), v);
	case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8:
		return bytes(r, (1u << (head - 0xd4)) + 1, MSGPACK_EXT, v);
	case 0xd9: case 0xda: case 0xdb:
		return sized(r, 1u << (head - 0xd9), 0, MSGPACK_STR, v);
	case 0xdc: case 0xdd:
		return counted(r, 2u << (head - 0xdc), MSGPACK_ARRAY, v);
	case 0xde: case 0xdf:
		return counted(r, 2u << (head - 0xde), MSGPACK_MAP, v);
	default:	/* 0xc1 is never used */
		return false;
	}
}

static bool by_range(struct msgpack *r, uint8_t head, struct msgpack_value *v)
{
	if (head < 0x80) {
		v->type = MSGPACK_UINT;
		v->u = head;
		return true;
	}
	if (head >= 0xe0) {
		v->type = MSGPACK_NEGATIVE;
		v->u = (uint64_t)(int64_t)(int8_t)head;
		return true;
	}
	if (head < 0x90)
		return container(r, head & 0x0f, MSGPACK_MAP, v);
	if (head < 0xa0)
		return container(r, head & 0x0f, MSGPACK_ARRAY, v);
	return bytes(r, head & 0x1f, MSGPACK_STR, v);
}

bool msgpack_next(struct msgpack *r, struct msgpack_value *v)
{
	const uint8_t *start = r->p, *p;

	if (!take(r, 1, &p))
		return false;
	if (*p >= 0xc0 && *p < 0xe0 ? by_head(r, *p, v) : by_range(r, *p, v))
		return true;
	r->p = start;
	return false;
}

bool msgpack_skip(struct msgpack *r)
{
	const uint8_t *start = r->p;
	struct msgpack_value v;
	uint64_t left = 1;	/* at most the bytes that are left, as container() checks each sum */

	for (; left > 0; left--) {
		if (!msgpack_next(r, &v))
			break;
		if (v.type == MSGPACK_ARRAY)
			left += v.n;
		else if (v.type == MSGPACK_MAP)
			left += 2ull * v.n;
		if (left > (uint64_t)(r->end - r->p) + 1)
			break;
	}
	if (left == 0)
		return true;
	r->p = start;
	return false;
}
