/* protobuf.c - fields of a message. */
#include "agent/tok/file/protobuf.h"

static bool varint(struct pb *m, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; m->p < m->end && shift < 64; shift += 7) {
		uint8_t b = *m->p++;

		*v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return true;
	}
	return false;
}

int pb_next(struct pb *m, struct pb_field *f)
{
	uint64_t tag, n;

	if (m->p == m->end)
		return 0;
	if (!varint(m, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return -1;
	*f = (struct pb_field){ .number = (uint32_t)(tag >> 3) };
	switch (tag & 7) {
	case PB_VARINT:
		f->wire = PB_VARINT;
		return varint(m, &f->value) ? 1 : -1;
	case PB_64:
		f->wire = PB_64;
		n = 8;
		break;
	case PB_32:
		f->wire = PB_32;
		n = 4;
		break;
	case PB_BYTES:
		f->wire = PB_BYTES;
		if (!varint(m, &n))
			return -1;
		break;
	default:
		return -1;
	}
	if (n > (size_t)(m->end - m->p))
		return -1;
	f->bytes = span_of((const char *)m->p, (size_t)n);
	m->p += n;
	return 1;
}

float pb_float(const struct pb_field *f)
{
	const uint8_t *p = (const uint8_t *)f->bytes.p;
	uint32_t bits = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}
