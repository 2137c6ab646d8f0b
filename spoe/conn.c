/* conn.c - the state of one connection: handshake, frames, fragments, the end.
 *
 *              HAPROXY-HELLO                 DISCONNECT, or nonsense
 *      NEW  ------------------>  READY  -----------------------------> CLOSED
 *       |                        NOTIFY, UNSET                           ^
 *       +---- health check, DISCONNECT, or nonsense ---------------------+
 *
 * A frame is decoded once all of it has arrived. The length word is checked as soon as its four
 * bytes have, so that a stray HTTP request ("GET " is a length of 1.2 GB) is rejected before any
 * of it is buffered. Every path to CLOSED goes through conn_close(): one AGENT-DISCONNECT, all
 * memory freed.
 *
 * Fragments: a NOTIFY without FIN opens a slot in <joining>, UNSET frames of the same ids fill
 * it, the one with FIN empties it. Slots are part of the connection and only payload is
 * allocated, because a NOTIFY without a slot could never be ACKed. If allocation fails, the slot
 * is marked lost and the rest of the payload is dropped. Invariants:
 *   joining_bytes = sum of n over the n_joining slots <= opts.max_joined
 *   a lost slot has no payload (p NULL, n and cap 0) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spoe/wire.h"

#define JOIN_FIRST	4096u	/* least size of a payload buffer */

void spop_conn_defaults(struct spop_conn_opts *o)
{
	*o = (struct spop_conn_opts){
		.max_frame_size = 1u << 20, .max_joined = 4u << 20, .max_open = SPOP_OPEN_CEILING,
	};
}

void spop_conn_init(struct spop_conn *c, const struct spop_conn_opts *o)
{
	memset(c, 0, sizeof(*c));
	c->opts = *o;
	if (c->opts.max_frame_size < SPOP_FRAME_MIN)
		c->opts.max_frame_size = SPOP_FRAME_MIN;
	if (c->opts.max_frame_size > SPOP_FRAME_CEILING)
		c->opts.max_frame_size = SPOP_FRAME_CEILING;
	if (c->opts.max_open > SPOP_OPEN_CEILING)
		c->opts.max_open = SPOP_OPEN_CEILING;
	c->state = SPOP_CONN_NEW;
	c->frame_size = SPOP_FRAME_FIRST;
	if (c->frame_size > c->opts.max_frame_size)
		c->frame_size = c->opts.max_frame_size;
}

/* ---- payload: a prompt, so it is wiped before it is freed ------------------------------- */

static void payload_free(struct spop_conn *c, struct spop_joining *j)
{
	const struct spop_memory *m = c->opts.memory;

	if (j->p == NULL)
		return;
	explicit_bzero(j->p, j->n);
	free(j->p);
	if (m != NULL)
		m->give(m->arg, j->cap);
	j->p = NULL;
	j->n = j->cap = 0;
}

/* Grow by a copy instead of realloc(), which may leave the old bytes in freed memory. */
static bool payload_exchange(struct spop_conn *c, struct spop_joining *j, size_t cap)
{
	const struct spop_memory *m = c->opts.memory;
	struct spop_joining old = *j;
	uint8_t *p;

	if (m != NULL && !m->take(m->arg, cap))
		return false;
	if ((p = malloc(cap)) == NULL) {
		if (m != NULL)
			m->give(m->arg, cap);
		return false;
	}
	if (old.n > 0)
		memcpy(p, old.p, old.n);
	payload_free(c, &old);
	j->p = p;
	j->cap = cap;
	return true;
}

void spop_conn_fini(struct spop_conn *c)
{
	while (c->n_joining)
		payload_free(c, &c->joining[--c->n_joining]);
	c->joining_bytes = 0;
	payload_free(c, &c->joined);
}

/* ---- fragments ------------------------------------------------------------------------- */

static struct spop_joining *joining_find(struct spop_conn *c, const struct spop_frame *f)
{
	unsigned i;

	for (i = 0; i < c->n_joining; i++)
		if (c->joining[i].stream_id == f->stream_id && c->joining[i].frame_id == f->frame_id)
			return &c->joining[i];
	return NULL;
}

/* Remove the slot <j>; its payload belongs to the caller. */
static void joining_close(struct spop_conn *c, struct spop_joining *j)
{
	c->joining_bytes -= j->n;
	*j = c->joining[--c->n_joining];
}

static void joining_drop(struct spop_conn *c, struct spop_joining *j)
{
	struct spop_joining gone = *j;

	joining_close(c, j);
	payload_free(c, &gone);
}

static void joining_lose(struct spop_conn *c, struct spop_joining *j)
{
	c->joining_bytes -= j->n;
	payload_free(c, j);
	j->lost = true;
	c->n_lost++;
}

/* Double the buffer, so that joining costs O(payload) in total and holds at most twice the
 * payload. */
static bool joining_grow(struct spop_conn *c, struct spop_joining *j, size_t need)
{
	size_t cap = j->cap;

	if (need <= j->cap)
		return true;
	if (cap < JOIN_FIRST)
		cap = JOIN_FIRST;
	while (cap < need)
		cap *= 2;
	return payload_exchange(c, j, cap);
}

/* ---- events ---------------------------------------------------------------------------- */

static void refuse(struct spop_event *ev, int status, const char *text)
{
	ev->kind = SPOP_EV_CLOSE;
	ev->status = status;
	ev->text = text ? text : spop_status_text(status);
}

static void refuse_size(struct spop_event *ev, int status, const char *text, uint64_t offer,
			uint64_t limit)
{
	refuse(ev, status, text);
	ev->offer = offer;
	ev->limit = limit;
}

static void give_notify(struct spop_conn *c, const struct spop_frame *f, struct spop_rd messages,
			struct spop_event *ev)
{
	ev->kind = SPOP_EV_NOTIFY;
	ev->stream_id = f->stream_id;
	ev->frame_id = f->frame_id;
	ev->messages = messages;
	c->n_notify++;
}

static void give_abort(const struct spop_frame *f, struct spop_event *ev)
{
	ev->kind = SPOP_EV_ABORT;
	ev->stream_id = f->stream_id;
	ev->frame_id = f->frame_id;
}

/* ---- frames ---------------------------------------------------------------------------- */

static void copy_printable(char *to, size_t cap, struct spop_str s)
{
	size_t i;

	for (i = 0; i < s.n && i + 1 < cap; i++)
		to[i] = s.p[i] > ' ' && s.p[i] < 0x7f ? s.p[i] : '?';
	to[i] = '\0';
}

static void on_hello(struct spop_conn *c, const struct spop_frame *f, struct spop_wr *out,
		     struct spop_event *ev)
{
	struct spop_hello h;
	const char *text;
	uint64_t limit;
	int status;

	if (!(f->flags & SPOP_FLAG_FIN)) {
		refuse(ev, SPOP_STATUS_NO_FRAGMENTATION, "HAPROXY-HELLO cannot be fragmented");
		return;
	}
	if (f->stream_id || f->frame_id || spop_hello_get(f->payload, &h) < 0) {
		refuse(ev, SPOP_STATUS_INVALID, "HAPROXY-HELLO cannot be read");
		return;
	}
	status = spop_hello_judge(&h, c->opts.max_frame_size, &text, &limit);
	if (status != SPOP_STATUS_NORMAL) {
		refuse_size(ev, status, text, limit && h.size > 0 ? (uint64_t)h.size : 0, limit);
		return;
	}
	c->frame_size = (uint32_t)h.size;
	c->healthcheck = h.healthcheck;
	c->peer_pipelining = h.pipelining;
	c->peer_async = h.async;
	c->peer_fragmentation = h.fragmentation;
	copy_printable(c->engine_id, sizeof(c->engine_id), h.engine_id);
	spop_put_agent_hello(out, c->frame_size);
	if (h.healthcheck) {
		refuse(ev, SPOP_STATUS_NORMAL, "health check answered");
		ev->by_peer = true;
	} else {
		c->state = SPOP_CONN_READY;
		ev->kind = SPOP_EV_HELLO;
	}
}

static void on_disconnect(const struct spop_frame *f, struct spop_event *ev)
{
	refuse(ev, spop_disconnect_status(f->payload), NULL);
	ev->by_peer = true;
}

/* Append the payload of <f> to <j>; report the whole NOTIFY if <f> is its last fragment. */
static void join(struct spop_conn *c, struct spop_joining *j, const struct spop_frame *f,
		 struct spop_event *ev)
{
	size_t n = f->payload.left;

	if (n > c->opts.max_joined - c->joining_bytes) {
		refuse_size(ev, SPOP_STATUS_TOO_BIG, "fragments are longer than this agent joins",
			    (uint64_t)c->joining_bytes + n, c->opts.max_joined);
		return;
	}
	c->n_fragments++;
	if (!j->lost && (f->lost || !joining_grow(c, j, j->n + n)))
		joining_lose(c, j);
	if (!j->lost && n) {
		memcpy(j->p + j->n, f->payload.p, n);
		j->n += n;
		c->joining_bytes += n;
	}
	if (f->flags & SPOP_FLAG_FIN) {
		c->joined = *j;
		ev->lost = j->lost;
		give_notify(c, f, (struct spop_rd){ j->p, j->n }, ev);
		joining_close(c, j);
	}
}

static void on_notify(struct spop_conn *c, const struct spop_frame *f, struct spop_event *ev)
{
	struct spop_joining *j;

	if (joining_find(c, f)) {
		refuse(ev, SPOP_STATUS_BAD_INTERLACED, "NOTIFY began anew before its last fragment");
	} else if (f->flags & SPOP_FLAG_FIN) {
		/* whole; ABORT "can be ignored for frames with an unfragmented payload" */
		ev->lost = f->lost;
		c->n_lost += f->lost;
		give_notify(c, f, f->payload, ev);
	} else if (f->flags & SPOP_FLAG_ABORT) {
		give_abort(f, ev);
	} else if (c->n_joining >= c->opts.max_open) {
		refuse_size(ev, SPOP_STATUS_BAD_INTERLACED, "too many fragmented NOTIFYs at once",
			    c->n_joining + 1u, c->opts.max_open);
	} else {
		j = &c->joining[c->n_joining++];
		*j = (struct spop_joining){ .stream_id = f->stream_id, .frame_id = f->frame_id };
		join(c, j, f, ev);
	}
}

static void on_unset(struct spop_conn *c, const struct spop_frame *f, struct spop_event *ev)
{
	struct spop_joining *j = joining_find(c, f);

	if (!j) {
		if (!(f->flags & SPOP_FLAG_ABORT))
			refuse(ev, SPOP_STATUS_NO_FRAME_ID, "fragment of a NOTIFY that is not open");
	} else if (f->flags & SPOP_FLAG_ABORT) {
		c->n_fragments++;
		joining_drop(c, j);
		give_abort(f, ev);
	} else {
		join(c, j, f, ev);
	}
}

static void on_frame(struct spop_conn *c, const uint8_t *p, size_t n, bool lost,
		     struct spop_wr *out, struct spop_event *ev)
{
	struct spop_frame f;

	if (spop_frame_get(p, n, &f) < 0) {
		refuse(ev, SPOP_STATUS_INVALID, "stream-id or frame-id cannot be read");
		return;
	}
	if (lost) {
		f.lost = true;
		f.payload.left = 0;
	}
	c->n_frames++;
	if (f.type == SPOP_FRAME_HAPROXY_DISCONNECT)
		on_disconnect(&f, ev);
	else if (c->state == SPOP_CONN_NEW && f.type == SPOP_FRAME_HAPROXY_HELLO)
		on_hello(c, &f, out, ev);
	else if (c->state == SPOP_CONN_NEW)
		refuse(ev, SPOP_STATUS_INVALID, "the first frame is not HAPROXY-HELLO");
	else if (f.type == SPOP_FRAME_HAPROXY_HELLO)
		refuse(ev, SPOP_STATUS_INVALID, "HAPROXY-HELLO came a second time");
	else if (f.type == SPOP_FRAME_NOTIFY)
		on_notify(c, &f, ev);
	else if (f.type == SPOP_FRAME_UNSET)
		on_unset(c, &f, ev);
}

/* ---- the connection -------------------------------------------------------------------- */

static void conn_close(struct spop_conn *c, const struct spop_event *ev, struct spop_wr *out)
{
	char text[SPOP_REPLY_MAX / 2];

	if (ev->by_peer && !c->healthcheck) {
		spop_put_disconnect(out, SPOP_STATUS_NORMAL, spop_status_text(SPOP_STATUS_NORMAL));
	} else if (!ev->by_peer) {
		snprintf(text, sizeof(text), ev->limit ? "%s (%llu, limit %llu)" : "%s", ev->text,
			 (unsigned long long)ev->offer, (unsigned long long)ev->limit);
		spop_put_disconnect(out, ev->status, text);
	}
	spop_conn_fini(c);
	c->state = SPOP_CONN_CLOSED;
}

static void judge(struct spop_conn *c, const uint8_t *buf, size_t here, bool lost,
		  struct spop_wr *out, struct spop_event *ev)
{
	uint32_t len = spop_load_u32(buf);

	if (len > c->frame_size)
		refuse_size(ev, SPOP_STATUS_TOO_BIG, "frame is longer than agreed", len,
			    c->frame_size);
	else if (len < SPOP_HEADER_MIN)
		refuse(ev, SPOP_STATUS_INVALID, "frame is shorter than its header");
	else if (lost || len <= here)
		on_frame(c, buf + SPOP_LENGTH_BYTES, len < here ? len : here, lost, out, ev);
}

/* Handle the next frame. <lost>: the frame is truncated to these <n> bytes. */
static ssize_t next(struct spop_conn *c, const uint8_t *buf, size_t n, bool lost,
		    struct spop_wr *out, struct spop_event *ev)
{
	size_t want;

	memset(ev, 0, sizeof(*ev));
	payload_free(c, &c->joined);
	if (c->state == SPOP_CONN_CLOSED || n < SPOP_LENGTH_BYTES)
		return 0;
	want = spop_load_u32(buf) + (size_t)SPOP_LENGTH_BYTES;
	judge(c, buf, n - SPOP_LENGTH_BYTES, lost, out, ev);
	if (ev->kind == SPOP_EV_CLOSE) {
		conn_close(c, ev, out);
		return (ssize_t)n;
	}
	if (lost)
		return (ssize_t)n;
	return want <= n ? (ssize_t)want : 0;
}

ssize_t spop_conn_next(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
		       struct spop_event *ev)
{
	return next(c, buf, n, false, out, ev);
}

ssize_t spop_conn_lose(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
		       struct spop_event *ev)
{
	return next(c, buf, n, true, out, ev);
}

size_t spop_conn_want(const struct spop_conn *c, const uint8_t *buf, size_t n)
{
	uint32_t len;

	if (n < SPOP_LENGTH_BYTES)
		return SPOP_LENGTH_BYTES;
	len = spop_load_u32(buf);
	if (len > c->frame_size)
		len = c->frame_size;
	return (size_t)len + SPOP_LENGTH_BYTES;
}

void spop_conn_disconnect(struct spop_conn *c, int status, struct spop_wr *out)
{
	if (c->state == SPOP_CONN_CLOSED)
		return;
	spop_put_disconnect(out, status, spop_status_text(status));
	spop_conn_fini(c);
	c->state = SPOP_CONN_CLOSED;
}
