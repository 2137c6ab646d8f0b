/* wire.h - private to spoe/: bounded reading and writing, and the frame around every payload.
 *
 *      length  type  flags  stream-id  frame-id  payload
 *      4       1     4      varint     varint    up to the agreed frame size
 *      \____/  \______________________________________/
 *      SPOP_LENGTH_BYTES        <length> bytes                        (SPOE.txt 3.2) */
#ifndef SPOE_WIRE_H
#define SPOE_WIRE_H

#include "spoe/spop.h"

#define SPOP_HEADER_MIN		7u	/* type, flags, and two ids of one byte */
#define SPOP_FLAG_FIN		1u
#define SPOP_FLAG_ABORT		2u
#define SPOP_VARINT_LONG	240u	/* a varint that begins with a smaller byte is that byte */
#define SPOP_DATA_TRUE		0x10u	/* in the byte of a BOOL's type */

enum spop_frame_type {
	SPOP_FRAME_UNSET = 0,
	SPOP_FRAME_HAPROXY_HELLO = 1,
	SPOP_FRAME_HAPROXY_DISCONNECT = 2,
	SPOP_FRAME_NOTIFY = 3,
	SPOP_FRAME_AGENT_HELLO = 101,
	SPOP_FRAME_AGENT_DISCONNECT = 102,
	SPOP_FRAME_ACK = 103
};

enum spop_action { SPOP_ACTION_SET = 1, SPOP_ACTION_UNSET = 2 };

struct spop_frame {
	uint8_t type;
	uint32_t flags;
	uint64_t stream_id, frame_id;
	struct spop_rd payload;
	bool lost;		/* its payload was dropped for lack of memory */
};

/* ---- wire.c: numbers and bytes. Readers: 0 or -SPOP_E_... ------------------------------ */

int spop_get_bytes(struct spop_rd *r, uint64_t n, const uint8_t **p);
int spop_get_u8(struct spop_rd *r, uint8_t *v);
void spop_put_bytes(struct spop_wr *w, const void *p, size_t n);
void spop_put_u8(struct spop_wr *w, uint8_t v);
uint32_t spop_load_u32(const uint8_t p[4]);
void spop_store_u32(uint8_t p[4], uint32_t v);

/* Read a varint of at most 9 bytes. Returns the byte after it, or NULL if it is longer or cut off.
 * Its last step has shift 53, so nothing overflows. */
static inline const uint8_t *spop_usual_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	unsigned shift = 4;

	if (p == end || (*v = *p) < SPOP_VARINT_LONG)
		return p == end ? NULL : p + 1;
	do {
		if (++p == end || shift > 53)
			return NULL;
		*v += (uint64_t)*p << shift;
		shift += 7;
	} while (*p & 0x80);
	return p + 1;
}

/* Read an item as HAProxy's arguments are: a name of less than 240 bytes, and text, an integer of
 * 64 bits or nothing. Otherwise returns false and leaves <r> unchanged: spop_get_kv() tells. */
static inline bool spop_get_usual_kv(struct spop_rd *r, struct spop_str *name, struct spop_data *d)
{
	const uint8_t *p = r->p, *end = p + r->left;
	uint64_t v;

	if (r->left < 2 || *p >= SPOP_VARINT_LONG || *p > r->left - 2)
		return false;
	name->n = *p;
	name->p = (const char *)p + 1;
	p += 1 + name->n;
	d->type = (enum spop_type)(*p++ & 0x0f);
	if (d->type != SPOP_T_NULL) {
		if (d->type != SPOP_T_STR && d->type != SPOP_T_INT64 && d->type != SPOP_T_BIN)
			return false;
		if ((p = spop_usual_varint(p, end, &v)) == NULL)
			return false;
		if (d->type == SPOP_T_INT64) {
			d->i = (int64_t)v;
		} else {
			if (v > (size_t)(end - p))
				return false;
			d->s.p = (const char *)p;
			d->s.n = (size_t)v;
			p += v;
		}
	}
	r->p = p;
	r->left = (size_t)(end - p);
	return true;
}

/* Read one item of a KV-LIST: a name and its value. On failure <r> is unchanged. */
int spop_get_kv(struct spop_rd *r, struct spop_str *name, struct spop_data *d);
bool spop_str_is(struct spop_str s, const char *text);

/* ---- frame.c --------------------------------------------------------------------------- */

/* Decode the frame in <n> bytes, which start after the length word. Returns 0 or -SPOP_E_... */
int spop_frame_get(const uint8_t *p, size_t n, struct spop_frame *f);

/* Open a frame with FIN. Returns the offset of its length word for spop_frame_end(), which sets the
 * length, or removes the frame and returns false if something did not fit. */
size_t spop_frame_begin(struct spop_wr *w, enum spop_frame_type type, uint64_t stream_id,
			uint64_t frame_id);
bool spop_frame_end(struct spop_wr *w, size_t start);

void spop_put_disconnect(struct spop_wr *w, int status, const char *text);

/* Return the status code of a DISCONNECT's payload, or SPOP_STATUS_UNKNOWN. */
int spop_disconnect_status(struct spop_rd payload);

/* ---- hello.c --------------------------------------------------------------------------- */

struct spop_hello {
	bool has_versions, has_size, has_capabilities;
	bool speaks_2;			/* the list has a version 2.x */
	bool healthcheck, pipelining, async, fragmentation;
	int64_t size;
	struct spop_str engine_id;
};

int spop_hello_get(struct spop_rd payload, struct spop_hello *h);	/* 0 or -SPOP_E_... */

/* Check the HELLO. Returns SPOP_STATUS_NORMAL, or the status to reject it with: <text> says why,
 * and <limit> is the bound for a size. */
int spop_hello_judge(const struct spop_hello *h, uint32_t ceiling, const char **text,
		     uint64_t *limit);
void spop_put_agent_hello(struct spop_wr *w, uint32_t frame_size);

#endif
