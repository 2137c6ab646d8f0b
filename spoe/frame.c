/* frame.c - the frame around every payload, and the DISCONNECT frame of both sides.
 *
 * The length word is written last, into a gap left for it, so that a frame is built in the
 * memory it is sent from and leaves in one write. HAProxy 3.2 resets a connection whose
 * AGENT-HELLO arrives in pieces. */
#include "spoe/wire.h"

int spop_frame_get(const uint8_t *p, size_t n, struct spop_frame *f)
{
	struct spop_rd r = { p, n };
	const uint8_t *flags;
	int rc;

	if ((rc = spop_get_u8(&r, &f->type)) < 0 || (rc = spop_get_bytes(&r, 4, &flags)) < 0)
		return rc;
	f->flags = spop_load_u32(flags);
	if ((rc = spop_get_varint(&r, &f->stream_id)) < 0 ||
	    (rc = spop_get_varint(&r, &f->frame_id)) < 0)
		return rc;
	f->payload = r;
	f->lost = false;
	return 0;
}

size_t spop_frame_begin(struct spop_wr *w, enum spop_frame_type type, uint64_t stream_id,
			uint64_t frame_id)
{
	size_t start = w->n;
	uint8_t b[SPOP_LENGTH_BYTES + 5] = { 0 };

	b[SPOP_LENGTH_BYTES] = type;
	spop_store_u32(b + SPOP_LENGTH_BYTES + 1, SPOP_FLAG_FIN);
	spop_put_bytes(w, b, sizeof(b));
	spop_put_varint(w, stream_id);
	spop_put_varint(w, frame_id);
	return start;
}

bool spop_frame_end(struct spop_wr *w, size_t start)
{
	if (w->full) {
		w->n = start;
		return false;
	}
	spop_store_u32(w->p + start, (uint32_t)(w->n - start - SPOP_LENGTH_BYTES));
	return true;
}

void spop_put_disconnect(struct spop_wr *w, int status, const char *text)
{
	struct spop_data d = { .type = SPOP_T_UINT32, .i = status };
	size_t start = spop_frame_begin(w, SPOP_FRAME_AGENT_DISCONNECT, 0, 0);
	size_t n = 0;

	while (text[n])
		n++;
	spop_put_str(w, "status-code", 11);
	spop_put_data(w, &d);
	spop_put_str(w, "message", 7);
	d = (struct spop_data){ .type = SPOP_T_STR, .s = { text, n } };
	spop_put_data(w, &d);
	spop_frame_end(w, start);
}

int spop_disconnect_status(struct spop_rd payload)
{
	struct spop_str name;
	struct spop_data d;
	int64_t v = SPOP_STATUS_UNKNOWN;

	while (payload.left && spop_get_kv(&payload, &name, &d) == 0)
		if (spop_str_is(name, "status-code") && spop_data_int(&d, &v))
			break;
	switch (v) {
#define X(name, number, text) case number:
	SPOP_STATUS_LIST(X)
#undef X
		return (int)v;
	default:
		return SPOP_STATUS_UNKNOWN;
	}
}
