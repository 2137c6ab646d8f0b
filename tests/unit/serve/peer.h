/* peer.h - HAProxy's end of a connection in memory: it writes frames, feeds them to a serve, and
 * prints each answer as a line of text with spop_frame_print(). */
#ifndef TESTS_SERVE_PEER_H
#define TESTS_SERVE_PEER_H

#include "agent/serve/serve.h"
#include "tests/unit/hex.h"
#include "tests/unit/route/world.h"

struct peer {
	struct world *w;		/* the router */
	struct serve_env env;
	struct serve_counters count;
	struct serve serve;
	enum serve_wait wait;		/* returned for every frame */
	msec asked;			/* <asked> of the last call of peer_wait() */
	usec now, step;			/* the clock, and its step at each reading */
	struct spop_wr in;		/* frames to send */
	struct spop_wr out;		/* answers */
	size_t frame;			/* offset of the frame being written */
	size_t count_at;		/* offset of the argument count of its last message */
};

static inline usec peer_clock(void *arg)
{
	struct peer *p = arg;

	p->now += p->step;
	return p->now;
}

static inline enum serve_wait peer_wait(void *arg, usec now, msec asked)
{
	struct peer *p = arg;

	p->asked = asked;
	return p->wait;
}

static inline void peer_connect(struct peer *p, struct world *w)
{
	static const size_t cap = 1u << 20;
	struct spop_conn_opts o;

	memset(p, 0, sizeof(*p));
	p->w = w;
	p->now = w->now * 1000;
	p->env = (struct serve_env){
		.route = w->r, .scratch = w->s, .count = &p->count, .clock = peer_clock,
		.clock_arg = p, .wait = peer_wait, .wait_arg = p,
	};
	p->in = (struct spop_wr){ .p = malloc(cap), .cap = cap };
	p->out = (struct spop_wr){ .p = malloc(cap), .cap = cap };
	if (p->in.p == NULL || p->out.p == NULL)
		exit(2);
	spop_conn_defaults(&o);
	serve_init(&p->serve, &p->env, &o);
}

static inline void peer_end(struct peer *p)
{
	serve_fini(&p->serve);
	free(p->in.p);
	free(p->out.p);
}

/* ---- frames to send ----------------------------------------------------------------------- */

static inline void frame_bytes(struct peer *p, const void *bytes, size_t n)
{
	assert_true(n <= p->in.cap - p->in.n);
	memcpy(p->in.p + p->in.n, bytes, n);
	p->in.n += n;
}

static inline void frame_hex(struct peer *p, const char *text)
{
	struct hex h = hex(text);

	frame_bytes(p, h.p, h.n);
	free(h.p);
}

static inline void frame_end(struct peer *p)
{
	size_t n = p->in.n - p->frame - 4;

	for (int i = 0; i < 4; i++)
		p->in.p[p->frame + (size_t)i] = (uint8_t)(n >> (24 - 8 * i));
}

static inline void frame_begin(struct peer *p, const char *type_and_flags)
{
	p->frame = p->in.n;
	frame_hex(p, "00000000");
	frame_hex(p, type_and_flags);
}

/* Write the HELLO of an ordinary HAProxy with a max-frame-size of <size>. */
static inline void say_hello(struct peer *p, uint32_t size)
{
	frame_begin(p, "01 00000001 00 00");
	frame_hex(p, "12 \"supported-versions\" 08 03 \"2.0\" 0e \"max-frame-size\" 03");
	spop_put_varint(&p->in, size);
	frame_hex(p, "0c \"capabilities\" 08 0a \"pipelining\"");
	frame_end(p);
}

static inline void notify_begin(struct peer *p, uint64_t stream, uint64_t frame)
{
	frame_begin(p, "03 00000001");
	spop_put_varint(&p->in, stream);
	spop_put_varint(&p->in, frame);
}

static inline void message(struct peer *p, const char *name)
{
	spop_put_str(&p->in, name, strlen(name));
	p->count_at = p->in.n;
	frame_hex(p, "00");
}

static inline void arg(struct peer *p, const char *name, const struct spop_data *d)
{
	p->in.p[p->count_at]++;
	spop_put_str(&p->in, name, strlen(name));
	spop_put_data(&p->in, d);
}

static inline void arg_str(struct peer *p, const char *name, struct span s)
{
	arg(p, name, &(struct spop_data){ .type = SPOP_T_STR, .s = { s.p, s.n } });
}

static inline void arg_bin(struct peer *p, const char *name, struct span s)
{
	arg(p, name, &(struct spop_data){ .type = SPOP_T_BIN, .s = { s.p, s.n } });
}

static inline void arg_int(struct peer *p, const char *name, int64_t v)
{
	arg(p, name, &(struct spop_data){ .type = SPOP_T_INT32, .i = v });
}

/* Write a "route" message with the arguments of the shipped SPOE configuration. */
static inline void message_route(struct peer *p, const char *uid, struct span body)
{
	message(p, "route");
	arg_str(p, "uid", span_str(uid));
	arg_str(p, "pool", SPAN("pool"));
	arg_str(p, "load", p->w->q.load);
	arg_str(p, "path", SPAN("/v1/chat/completions"));
	arg(p, "tenant", &(struct spop_data){ .type = SPOP_T_NULL });
	arg(p, "model", &(struct spop_data){ .type = SPOP_T_NULL });
	arg(p, "session", &(struct spop_data){ .type = SPOP_T_NULL });
	arg_int(p, "blen", (int64_t)body.n);
	arg_int(p, "bsize", (int64_t)body.n);
	arg_bin(p, "body", body);
}

/* Write a NOTIFY with a "route" message. <turns> is the prompt, in the form of world.h. */
static inline void notify_route(struct peer *p, uint64_t stream, const char *uid, const char *turns)
{
	chat(&p->w->body, "", turns, ",\"model\":\"m\"");
	notify_begin(p, stream, 1);
	message_route(p, uid, span_of(p->w->body.p, p->w->body.n));
	frame_end(p);
}

static inline void notify_first(struct peer *p, uint64_t stream, const char *uid, const char *srv,
				int st)
{
	notify_begin(p, stream, 2);
	message(p, "first");
	arg_str(p, "uid", span_str(uid));
	arg_str(p, "srv", span_str(srv));
	arg_int(p, "st", st);
	arg_str(p, "ct", SPAN(STREAM));
	frame_end(p);
}

static inline void message_done(struct peer *p, const char *uid, const char *srv, int st)
{
	message(p, "done");
	arg_str(p, "uid", span_str(uid));
	arg_str(p, "srv", span_str(srv));
	arg_int(p, "st", st);
	arg_str(p, "ts", SPAN("--"));
	arg_int(p, "tr", 20);
}

static inline void notify_done(struct peer *p, uint64_t stream, const char *uid, const char *srv,
			       int st)
{
	notify_begin(p, stream, 3);
	message_done(p, uid, srv, st);
	frame_end(p);
}

/* ---- delivery and answers ----------------------------------------------------------------- */

/* Deliver all bytes written, <piece> at a time; unused bytes are delivered again. */
static inline void deliver_pieces(struct peer *p, size_t piece)
{
	size_t used = 0, came = 0;

	while (came < p->in.n && !p->serve.closing) {
		came = p->in.n - came > piece ? came + piece : p->in.n;
		used += serve_feed(&p->serve, p->in.p + used, came - used, &p->out);
		serve_finish(p->serve.env);
		assert_true(used <= came);
	}
	p->in.n = 0;
}

static inline void deliver(struct peer *p)
{
	deliver_pieces(p, SIZE_MAX);
}

/* Return the next frame of p->out from <at> as text; "" if there is none. */
static inline const char *answer_at(const struct peer *p, size_t *at, char *text, size_t cap)
{
	const uint8_t *f = p->out.p + *at;
	size_t left = p->out.n - *at, n;

	text[0] = '\0';
	if (left < 4)
		return text;
	n = (size_t)f[0] << 24 | (size_t)f[1] << 16 | (size_t)f[2] << 8 | f[3];
	assert_true(n <= left - 4 && n <= p->serve.conn.frame_size);
	spop_frame_print(f + 4, n, text, cap);
	*at += n + 4;
	return text;
}

/* Drop all answers so far. */
static inline void forget(struct peer *p)
{
	p->out.n = 0;
}

/* Return the last answer as text. */
static inline const char *last_answer(const struct peer *p)
{
	static char text[4096];
	char next[4096];

	text[0] = '\0';
	for (size_t at = 0; answer_at(p, &at, next, sizeof(next))[0] != '\0';)
		memcpy(text, next, sizeof(text));
	return text;
}

/* Count the ACKs among the answers. Each must have at least one action. */
static inline unsigned count_acks(const struct peer *p)
{
	char text[4096];
	unsigned n = 0;

	for (size_t at = 0; answer_at(p, &at, text, sizeof(text))[0] != '\0';) {
		if (strncmp(text, "ACK ", 4) != 0)
			continue;
		if (strstr(text, "set txn.") == NULL || strstr(text, "bad=") != NULL)
			fail_msg("no action or a bad one: %s", text);
		n++;
	}
	return n;
}

static inline bool answered(const struct peer *p, const char *what)
{
	return strstr(last_answer(p), what) != NULL;
}

static inline void peer_hello(struct peer *p, struct world *w, uint32_t size)
{
	peer_connect(p, w);
	say_hello(p, size);
	deliver(p);
	assert_true(answered(p, "AGENT-HELLO"));
	forget(p);
}

#endif
