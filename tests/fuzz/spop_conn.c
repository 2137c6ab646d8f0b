/* spop_conn - one connection, from HELLO to the end, with any frames.
 *
 * Input: a byte of limits, two for the cuts, one for the answers (with the stream-id), then
 * HAProxy's bytes. The custom mutator changes single frames and then corrects their lengths,
 * because most changes would otherwise end the connection at the next length word.
 *
 *   - as a whole, by single bytes and in pieces: the same events, the same replies
 *   - a slow model of the connection, including fragments, expects each event and each payload
 *   - one ACK for each NOTIFY; no reply is larger than agreed, each can be read
 *   - the limits hold after every frame; the connection waits for more bytes than it has */
#include <inttypes.h>

#include "spoe/wire.h"
#include "tests/fuzz/lib/frames.h"
#include "tests/fuzz/lib/fuzz.h"

struct setup {
	struct spop_conn_opts o;
	uint8_t answer;
};

/* ---- the model --------------------------------------------------------------------------- */

struct model_open {
	uint64_t stream, frame;
	struct trace payload;
};

struct model {
	struct model_open open[SPOP_OPEN_CEILING];
	unsigned n_open;
	size_t held;
	struct trace payload;		/* of the NOTIFY just completed */
	uint64_t stream, frame;		/* of the frame just read */
};

static void model_fini(struct model *m)
{
	while (m->n_open > 0)
		free(m->open[--m->n_open].payload.p);
	free(m->payload.p);
}

/* As in the specification: below 240 one byte; else 4 bits of it and seven of each one that
 * follows. */
static bool model_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	unsigned shift = 4;

	if (*p == end)
		return false;
	*v = *(*p)++;
	if (*v < 240)
		return true;
	do {
		if (*p == end || shift > 60 || (shift == 60 && **p > 14) ||
		    __builtin_add_overflow(*v, (uint64_t)**p << shift, v))
			return false;
		shift += 7;
	} while (*(*p)++ >= 128);
	return true;
}

static struct model_open *model_find(struct model *m)
{
	for (unsigned i = 0; i < m->n_open; i++)
		if (m->open[i].stream == m->stream && m->open[i].frame == m->frame)
			return &m->open[i];
	return NULL;
}

static void model_drop(struct model *m, struct model_open *o, bool keep)
{
	m->held -= o->payload.n;
	if (keep) {
		free(m->payload.p);
		m->payload = o->payload;
	} else {
		free(o->payload.p);
	}
	*o = m->open[--m->n_open];
}

static enum spop_event_kind model_join(struct model *m, struct model_open *o,
    const struct spop_conn_opts *opts, const uint8_t *p, size_t n, bool last)
{
	if (n > opts->max_joined - m->held)
		return SPOP_EV_CLOSE;
	trace_bytes(&o->payload, p, n);
	m->held += n;
	if (!last)
		return SPOP_EV_NONE;
	model_drop(m, o, true);
	return SPOP_EV_NOTIFY;
}

static enum spop_event_kind model_notify(
    struct model *m, const struct spop_conn_opts *opts, unsigned flags, const uint8_t *p, size_t n)
{
	if (model_find(m))
		return SPOP_EV_CLOSE;
	if (flags & 1) {
		m->payload.n = 0;
		trace_bytes(&m->payload, p, n);
		return SPOP_EV_NOTIFY;
	}
	if (flags & 2)
		return SPOP_EV_ABORT;
	if (m->n_open >= opts->max_open)
		return SPOP_EV_CLOSE;
	m->open[m->n_open++] = (struct model_open){ .stream = m->stream, .frame = m->frame };
	return model_join(m, &m->open[m->n_open - 1], opts, p, n, false);
}

static enum spop_event_kind model_unset(
    struct model *m, const struct spop_conn_opts *opts, unsigned flags, const uint8_t *p, size_t n)
{
	struct model_open *o = model_find(m);

	if (!o)
		return flags & 2 ? SPOP_EV_NONE : SPOP_EV_CLOSE;
	if (flags & 2) {
		model_drop(m, o, false);
		return SPOP_EV_ABORT;
	}
	return model_join(m, o, opts, p, n, flags & 1);
}

/* Return the event expected of the frame at <p>, whose length is correct. HELLO means accepted or
 * rejected. */
static enum spop_event_kind model_frame(
    struct model *m, const struct spop_conn *c, const uint8_t *p, size_t n)
{
	const uint8_t *at = p + 9, *end = p + n;
	unsigned flags = p[8];

	if (!model_varint(&at, end, &m->stream) || !model_varint(&at, end, &m->frame))
		return SPOP_EV_CLOSE;
	if (p[4] == 2)
		return SPOP_EV_CLOSE;
	if (c->state == SPOP_CONN_NEW)
		return p[4] == 1 ? SPOP_EV_HELLO : SPOP_EV_CLOSE;
	if (p[4] == 1)
		return SPOP_EV_CLOSE;
	if (p[4] == 3)
		return model_notify(m, &c->opts, flags, at, (size_t)(end - at));
	if (p[4] == 0)
		return model_unset(m, &c->opts, flags, at, (size_t)(end - at));
	return SPOP_EV_NONE;
}

static void model_check(
    const struct model *m, enum spop_event_kind want, const struct spop_event *ev)
{
	must(ev->kind == want || (want == SPOP_EV_HELLO && ev->kind == SPOP_EV_CLOSE));
	if (ev->kind == SPOP_EV_NOTIFY || ev->kind == SPOP_EV_ABORT)
		must(ev->stream_id == m->stream && ev->frame_id == m->frame);
	if (ev->kind == SPOP_EV_NOTIFY)
		must(!ev->lost && ev->messages.left == m->payload.n &&
		     (m->payload.n == 0 || memcmp(ev->messages.p, m->payload.p, m->payload.n) == 0));
}

/* ---- one run ----------------------------------------------------------------------------- */

struct run {
	struct spop_conn c;
	const struct setup *setup;
	struct trace events, replies;
	unsigned n_notifies, n_acks;
};

/* An ACK whose actions are of many sizes. */
static void answer(struct run *r, const struct spop_event *ev)
{
	static const char text[300] = "0123456789";
	static const size_t room[] = { 4096, 40, 4096, 8 };
	size_t cap = room[r->setup->answer >> 6], n = ev->stream_id % 256;
	const struct spop_data ip = { .type = SPOP_T_IPV6 };
	struct spop_wr w = { .p = (uint8_t *)must_alloc(malloc(cap)), .cap = cap };
	struct spop_ack a;
	unsigned i;

	spop_ack_begin(&a, &r->c, &w, ev->stream_id, ev->frame_id);
	for (i = 0; i < (r->setup->answer & 7u); i++) {
		spop_ack_set_str(&a, SPOP_SCOPE_TXN, "server", text, n);
		spop_ack_set_int(&a, SPOP_SCOPE_TXN, "more", (int64_t)ev->messages.left);
		spop_ack_unset(&a, SPOP_SCOPE_REQ, "alt");
		spop_ack_set(&a, SPOP_SCOPE_SESS, "peer", &ip);
	}
	if (spop_ack_end(&a)) {
		must(a.n_actions == 4 * i || a.dropped);
		must(w.n <= r->c.frame_size + SPOP_LENGTH_BYTES);
		trace_bytes(&r->replies, w.p, w.n);
		r->n_acks++;
	} else {
		must(w.n == 0 && w.full && cap < 40);
		r->n_acks++;
	}
	free(w.p);
}

static void note_event(struct run *r, const struct spop_event *ev)
{
	struct spop_rd left = ev->messages;
	struct spop_message m;

	trace_say(&r->events, "%d %" PRIu64 " %" PRIu64 " %d %d %" PRIu64 " %" PRIu64 " %s\n",
		  (int)ev->kind, ev->stream_id, ev->frame_id, ev->status, ev->by_peer, ev->offer,
		  ev->limit, ev->text ? ev->text : "");
	trace_bytes(&r->events, left.p, left.left);
	while (spop_message_next(&left, &m) > 0)
		trace_say(&r->events, "%zu:%u\n", m.name.n, m.n_args);
}

static void check_limits(const struct spop_conn *c)
{
	size_t held = 0;

	must(c->n_joining <= c->opts.max_open && c->joining_bytes <= c->opts.max_joined);
	for (unsigned i = 0; i < c->n_joining; i++) {
		held += c->joining[i].n;
		must(c->joining[i].cap <= 2 * c->opts.max_joined + 4096);
	}
	must(held == c->joining_bytes);
	must(c->frame_size <= c->opts.max_frame_size);
	must(c->state != SPOP_CONN_CLOSED || (c->n_joining == 0 && c->joined.p == NULL));
}

/* Whole frames out of the <n> bytes that are here; returns the bytes used. */
static size_t take(struct run *r, const uint8_t *p, size_t n, struct model *model)
{
	uint8_t room[SPOP_REPLY_MAX];
	size_t used = 0;

	for (;;) {
		struct spop_wr out = { .p = room, .cap = sizeof(room) };
		size_t left = n - used, wanted = spop_conn_want(&r->c, p + used, left);
		bool closed = r->c.state == SPOP_CONN_CLOSED;
		enum spop_event_kind want = SPOP_EV_CLOSE;
		struct spop_event ev;
		ssize_t took;

		must(wanted >= SPOP_LENGTH_BYTES && wanted <= r->c.frame_size + SPOP_LENGTH_BYTES);
		if (model && !closed && left >= wanted && wanted >= SPOP_LENGTH_BYTES + SPOP_HEADER_MIN &&
		    spop_load_u32(p + used) + SPOP_LENGTH_BYTES == wanted)
			want = model_frame(model, &r->c, p + used, wanted);
		took = spop_conn_next(&r->c, p + used, left, &out, &ev);
		must(took >= 0 && (size_t)took <= left && !out.full);
		check_limits(&r->c);
		if (took == 0) {
			must(closed || wanted > left);
			return used;
		}
		must(!closed && ((size_t)took == wanted || ev.kind == SPOP_EV_CLOSE));
		if (model)
			model_check(model, want, &ev);
		trace_bytes(&r->replies, out.p, out.n);
		note_event(r, &ev);
		if (ev.kind == SPOP_EV_NOTIFY) {
			r->n_notifies++;
			answer(r, &ev);
		}
		used += (size_t)took;
	}
}

/* Check the replies: frames of an agent with FIN, each readable. */
static void check_replies(const struct run *r)
{
	const uint8_t *p = (const uint8_t *)r->replies.p;
	size_t left = r->replies.n;
	char text[8192];

	while (left > 0) {
		uint32_t n;

		must(left >= SPOP_LENGTH_BYTES);
		n = spop_load_u32(p);
		must(n <= left - SPOP_LENGTH_BYTES && n >= SPOP_HEADER_MIN);
		must(p[4] >= SPOP_FRAME_AGENT_HELLO && p[4] <= SPOP_FRAME_ACK && p[8] == SPOP_FLAG_FIN);
		must(p[4] != SPOP_FRAME_ACK || n <= r->c.frame_size);
		must(n <= SPOP_FRAME_MIN || n <= r->c.frame_size);
		spop_frame_print(p + SPOP_LENGTH_BYTES, n, text, sizeof(text));
		must(strstr(text, "bad=") == NULL);
		p += n + SPOP_LENGTH_BYTES;
		left -= n + SPOP_LENGTH_BYTES;
	}
	must(r->n_acks == r->n_notifies && r->n_notifies == r->c.n_notify);
}

static void run_init(struct run *r, const struct setup *s)
{
	memset(r, 0, sizeof(*r));
	r->setup = s;
	spop_conn_init(&r->c, &s->o);
}

static void run_end(struct run *r)
{
	uint8_t room[SPOP_REPLY_MAX];
	struct spop_wr out = { .p = room, .cap = sizeof(room) };

	if (r->setup->answer & 0x20) {
		spop_conn_disconnect(&r->c, SPOP_STATUS_TIMEOUT, &out);
		trace_bytes(&r->replies, out.p, out.n);
		must(r->c.state == SPOP_CONN_CLOSED);
	}
	check_replies(r);
	spop_conn_fini(&r->c);
}

static void run_free(struct run *r)
{
	free(r->events.p);
	free(r->replies.p);
}

/* Bytes come in pieces into a buffer from whose front frames are taken, as over a socket. */
static void run_pieces(
    struct run *r, const struct setup *s, const uint8_t *p, size_t n, uint32_t seed)
{
	size_t came = 0, used = 0;
	struct cutter cut;

	cutter_init(&cut, seed);
	run_init(r, s);
	while (came < n && r->c.state != SPOP_CONN_CLOSED) {
		uint8_t *copy;

		came += cutter_next(&cut, n - came);
		copy = (uint8_t *)exact(p + used, came - used);
		used += take(r, copy, came - used, NULL);
		free(copy);
	}
	run_end(r);
}

static void run_bytes(struct run *r, const struct setup *s, const uint8_t *p, size_t n)
{
	size_t came, used = 0;

	run_init(r, s);
	for (came = 1; came <= n && r->c.state != SPOP_CONN_CLOSED; came++)
		used += take(r, p + used, came - used, NULL);
	run_end(r);
}

static void check_same(const struct run *a, struct run *b)
{
	must(trace_eq(&a->replies, &b->replies));
	must(trace_eq(&a->events, &b->events));
	must(a->c.n_frames == b->c.n_frames && a->c.n_fragments == b->c.n_fragments);
	run_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t frame[] = { 16384, 0, 1000, UINT32_MAX };
	static const size_t joined[] = { 4u << 20, 64, 600, 5000 };
	static const unsigned open[] = { 40, 1, 2, 5 };
	struct model model = { .n_open = 0 };
	struct setup s;
	struct run whole, other;

	if (size < 4)
		return 0;
	s.o = (struct spop_conn_opts){ frame[data[0] & 3], joined[data[0] >> 2 & 3],
		open[data[0] >> 4 & 3] };
	s.answer = data[3];
	run_init(&whole, &s);
	take(&whole, data + 4, size - 4, &model);
	run_end(&whole);
	run_bytes(&other, &s, data + 4, size - 4);
	check_same(&whole, &other);
	run_pieces(&other, &s, data + 4, size - 4, (uint32_t)data[1] << 8 | data[2]);
	check_same(&whole, &other);
	run_free(&whole);
	model_fini(&model);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	return frames_mutate(data, size, max_size, seed, 4);
}
