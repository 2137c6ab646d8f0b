/* frames.c - write frames that HAProxy sends, and frames that it never sends.
 *
 * The library writes numbers, strings and typed data. It does not write these frames, because it
 * only writes an agent's, and only correct ones. */
#include <string.h>

#include "spop-check/check_in.h"

#define LENGTH_BYTES	4u

void check_put_bytes(struct spop_wr *w, const void *p, size_t n)
{
	if (w->full || n > w->cap - w->n) {
		w->full = true;
		return;
	}
	if (n > 0)
		memcpy(w->p + w->n, p, n);
	w->n += n;
}

void check_put_u8(struct spop_wr *w, uint8_t v)
{
	check_put_bytes(w, &v, 1);
}

void check_put_u32(struct spop_wr *w, uint32_t v)
{
	const uint8_t b[4] = { v >> 24, v >> 16, v >> 8, v };

	check_put_bytes(w, b, sizeof(b));
}

void check_put_fill(struct spop_wr *w, uint8_t v, size_t n)
{
	while (n-- > 0 && !w->full)
		check_put_u8(w, v);
}

void check_put_kv_str(struct spop_wr *w, const char *name, const char *value)
{
	const struct spop_data d = { .type = SPOP_T_STR, .s = { value, strlen(value) } };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

void check_put_kv_int(struct spop_wr *w, const char *name, enum spop_type type, int64_t v)
{
	const struct spop_data d = { .type = type, .i = v };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

void check_put_kv_bool(struct spop_wr *w, const char *name, bool v)
{
	const struct spop_data d = { .type = SPOP_T_BOOL, .b = v };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

/* ---- frames ----------------------------------------------------------------------------- */

size_t check_frame_begin(struct spop_wr *w, uint8_t type, uint32_t flags, uint64_t stream,
			 uint64_t frame)
{
	size_t start = w->n;

	check_put_u32(w, 0);
	check_put_u8(w, type);
	check_put_u32(w, flags);
	spop_put_varint(w, stream);
	spop_put_varint(w, frame);
	return start;
}

void check_frame_end(struct spop_wr *w, size_t start)
{
	struct spop_wr length = { w->p + start, 0, LENGTH_BYTES, false };

	if (!w->full)
		check_put_u32(&length, (uint32_t)(w->n - start - LENGTH_BYTES));
}

void check_put_disconnect(struct spop_wr *w, uint32_t status, const char *text)
{
	size_t start = check_frame_begin(w, CHECK_T_HAPROXY_DISCONNECT, CHECK_F_FIN, 0, 0);

	check_put_kv_int(w, "status-code", SPOP_T_UINT32, status);
	check_put_kv_str(w, "message", text);
	check_frame_end(w, start);
}

void check_put_message(struct spop_wr *w, const struct check_message *m, size_t max)
{
	size_t start = w->n;
	unsigned i;

	spop_put_str(w, m->name, strlen(m->name));
	check_put_u8(w, (uint8_t)m->n_args);
	for (i = 0; i < m->n_args; i++) {
		spop_put_str(w, m->args[i].name.p, m->args[i].name.n);
		spop_put_data(w, &m->args[i].value);
	}
	if (!w->full && w->n - start <= max)
		return;
	w->n = start;
	w->full = false;
	spop_put_str(w, m->name, strlen(m->name));
	check_put_u8(w, 0);
}

/* ---- HELLO ------------------------------------------------------------------------------ */

/* HAProxy's "option spop-check", the same from 2.6 to 3.5. */
static const uint8_t raw_healthcheck[] =
	"\x00\x00\x00\x4e" "\x01" "\x00\x00\x00\x01" "\x00" "\x00"
	"\x12" "supported-versions" "\x08\x03" "2.0"
	"\x0e" "max-frame-size" "\x03\xfc\xf0\x06"
	"\x0c" "capabilities" "\x08\x00"
	"\x0b" "healthcheck" "\x11";

static void put_versions(struct spop_wr *w, const struct check_hello *h)
{
	if (h->odd & CHECK_VERSIONS_INT)
		check_put_kv_int(w, "supported-versions", SPOP_T_UINT32, 2);
	else if (!(h->odd & CHECK_NO_VERSIONS))
		check_put_kv_str(w, "supported-versions", h->versions ? h->versions : "2.0");
}

static void put_size(struct spop_wr *w, const struct check_hello *h)
{
	if (h->odd & CHECK_SIZE_STR)
		check_put_kv_str(w, "max-frame-size", "16380");
	else if (!(h->odd & CHECK_NO_SIZE))
		check_put_kv_int(w, "max-frame-size", SPOP_T_UINT32, check_offered(h));
}

static void put_capabilities(struct spop_wr *w, const struct check_hello *h)
{
	if (!(h->odd & CHECK_NO_CAPABILITIES))
		check_put_kv_str(w, "capabilities", h->capabilities ? h->capabilities : "pipelining");
}

static void put_rest(struct spop_wr *w, const struct check_hello *h)
{
	if (h->odd & (CHECK_HEALTHCHECK | CHECK_HEALTHCHECK_FALSE))
		check_put_kv_bool(w, "healthcheck", h->odd & CHECK_HEALTHCHECK);
	if (h->odd & CHECK_EXTRA_KEY)
		check_put_kv_str(w, "x-not-known", "yes");
	if (!(h->odd & CHECK_NO_ENGINE))
		check_put_kv_str(w, "engine-id", "6b76726f-7574-6563-746c-000000000001");
}

void check_put_hello(struct spop_wr *w, const struct check_hello *h)
{
	void (*const order[])(struct spop_wr *, const struct check_hello *) = {
		put_versions, put_size, put_capabilities, put_rest
	};
	const size_t n = sizeof(order) / sizeof(order[0]);
	size_t i, start;

	if (h->odd & CHECK_RAW_HEALTHCHECK) {
		check_put_bytes(w, raw_healthcheck, sizeof(raw_healthcheck) - 1);
		return;
	}
	start = check_frame_begin(w, CHECK_T_HAPROXY_HELLO, h->odd & CHECK_NO_FIN ? 0 : CHECK_F_FIN,
				  h->odd & CHECK_STREAM_ID ? 1 : 0, h->odd & CHECK_STREAM_ID ? 1 : 0);
	for (i = 0; i < n; i++)
		order[h->odd & CHECK_REVERSED ? n - 1 - i : i](w, h);
	if (h->odd & CHECK_CUT_SHORT)
		w->n -= 3;
	check_frame_end(w, start);
}

uint32_t check_offered(const struct check_hello *h)
{
	if (h->odd & CHECK_SIZE_ZERO)
		return 0;
	return h->size ? (uint32_t)h->size : CHECK_FRAME_SIZE;
}
