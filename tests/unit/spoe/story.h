/* story.h - run bytes through a connection the way an agent would, and write down what happened:
 *
 *	event hello size=16380 engine="" pipelining
 *	event NOTIFY stream=1 frame=1 fin msg=route ...		(the frame as spop_frame_print() shows it)
 *	event abort stream=1 frame=1
 *	event close status=0 peer ...
 *	reply AGENT-HELLO ...					(each frame written, likewise)
 *
 * Every NOTIFY is ACKed with one action: txn.n, the bytes of its messages. The connection sees each
 * delivery end at an unreadable page. */
#ifndef TESTS_SPOE_STORY_H
#define TESTS_SPOE_STORY_H

#include "spoe/spop.h"
#include "tests/unit/edge.h"
#include "tests/unit/hex.h"

struct story {
	struct spop_conn conn;
	uint8_t *in;		/* came, not yet taken */
	size_t n_in;
	uint8_t out[16384];
	size_t n_out;
	char log[65536];
	size_t n_log;
	unsigned n_notify, n_lost, n_abort;
	struct spop_event last;	/* of the last event other than SPOP_EV_NONE */
};

__attribute__((format(printf, 2, 3)))
static inline void story_log(struct story *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s->log + s->n_log, sizeof(s->log) - s->n_log, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(s->log) - s->n_log) {
		fprintf(stderr, "story.h: the log is too small\n");
		exit(2);
	}
	s->n_log += (size_t)n;
}

static inline void story_begin(struct story *s, const struct spop_conn_opts *o)
{
	struct spop_conn_opts defaults;

	spop_conn_defaults(&defaults);
	memset(s, 0, sizeof(*s));
	spop_conn_init(&s->conn, o ? o : &defaults);
}

static inline void story_end(struct story *s)
{
	spop_conn_fini(&s->conn);
	free(s->in);
	s->in = NULL;
}

static inline void story_log_notify(struct story *s, const struct spop_event *ev)
{
	size_t cap = ev->messages.left + 64;
	uint8_t *frame = malloc(cap);
	struct spop_wr w = { frame, 0, cap, false };
	char text[4096];

	/* the frame this event would be, had it come whole; the payload is no string: written by hand */
	memcpy(w.p, "\x03\0\0\0\x01", 5);
	w.n = 5;
	spop_put_varint(&w, ev->stream_id);
	spop_put_varint(&w, ev->frame_id);
	if (ev->messages.left)
		memcpy(w.p + w.n, ev->messages.p, ev->messages.left);
	spop_frame_print(w.p, w.n + ev->messages.left, text, sizeof(text));
	free(frame);
	story_log(s, "event %s%s\n", text, ev->lost ? " lost" : "");
}

static inline void story_log_event(struct story *s, const struct spop_event *ev)
{
	const struct spop_conn *c = &s->conn;

	switch (ev->kind) {
	case SPOP_EV_NONE:
		return;
	case SPOP_EV_HELLO:
		story_log(s, "event hello size=%u engine=\"%s\"%s%s%s\n", c->frame_size,
			  c->engine_id, c->peer_pipelining ? " pipelining" : "",
			  c->peer_async ? " async" : "",
			  c->peer_fragmentation ? " fragmentation" : "");
		break;
	case SPOP_EV_NOTIFY:
		story_log_notify(s, ev);
		s->n_notify++;
		s->n_lost += ev->lost;
		break;
	case SPOP_EV_ABORT:
		story_log(s, "event abort stream=%llu frame=%llu\n",
			  (unsigned long long)ev->stream_id, (unsigned long long)ev->frame_id);
		s->n_abort++;
		break;
	case SPOP_EV_CLOSE:
		story_log(s, "event close status=%d%s", ev->status, ev->by_peer ? " peer" : "");
		if (ev->limit)
			story_log(s, " offer=%llu limit=%llu", (unsigned long long)ev->offer,
				  (unsigned long long)ev->limit);
		story_log(s, " \"%s\"\n", ev->text);
		break;
	}
	s->last = *ev;
}

static inline void story_log_replies(struct story *s, size_t from)
{
	char text[1024];
	size_t n;

	while (from + 4 <= s->n_out) {
		n = (size_t)s->out[from] << 24 | (size_t)s->out[from + 1] << 16 |
		    (size_t)s->out[from + 2] << 8 | s->out[from + 3];
		from += 4;
		if (n > s->n_out - from)
			break;
		spop_frame_print(s->out + from, n, text, sizeof(text));
		story_log(s, "reply %s\n", text);
		from += n;
	}
	if (from != s->n_out)
		story_log(s, "reply that is no frame\n");
}

/* Make one call, which reduces <left>. Returns false if it used no bytes. */
static inline bool story_step(struct story *s, const uint8_t **p, size_t *left)
{
	struct spop_wr out = { s->out, s->n_out, sizeof(s->out), false };
	struct spop_event ev;
	struct spop_ack a;
	size_t from = s->n_out;
	ssize_t used;

	used = spop_conn_next(&s->conn, *p, *left, &out, &ev);
	if (used == 0 && *left >= 4 && s->conn.state != SPOP_CONN_CLOSED &&
	    spop_conn_want(&s->conn, *p, *left) <= *left)
		story_log(s, "it wants no more than there is, and takes nothing\n");
	if (used < 0 || (size_t)used > *left)
		story_log(s, "it took %zd of %zu\n", used, *left);
	story_log_event(s, &ev);
	if (ev.kind == SPOP_EV_NOTIFY) {
		spop_ack_begin(&a, &s->conn, &out, ev.stream_id, ev.frame_id);
		spop_ack_set_int(&a, SPOP_SCOPE_TXN, "n", (int64_t)ev.messages.left);
		if (!spop_ack_end(&a))
			story_log(s, "the ACK did not fit\n");
	}
	s->n_out = out.n;
	story_log_replies(s, from);
	if (used > 0) {
		*p += used;
		*left -= (size_t)used;
	}
	return used > 0;
}

/* <n> more bytes arrive. */
static inline void story_feed(struct story *s, const void *bytes, size_t n)
{
	const uint8_t *edge, *p;
	size_t left, all;

	if (s->conn.state == SPOP_CONN_CLOSED)
		return;
	s->in = realloc(s->in, s->n_in + n + 1);
	if (!s->in)
		exit(2);
	memcpy(s->in + s->n_in, bytes, n);
	all = left = s->n_in + n;
	p = edge = edge_copy(s->in, all);
	while (story_step(s, &p, &left))
		;
	memcpy(s->in, p, left);
	s->n_in = left;
	edge_free(edge, all);
}

static inline void story_feed_hex(struct story *s, const char *text)
{
	struct hex h = hex(text);

	story_feed(s, h.p, h.n);
	free(h.p);
}

/* The same with the length word worked out. */
static inline void story_feed_frame(struct story *s, const char *text)
{
	struct hex h = hex("00000000");

	hex_parse(&h, text);
	hex_length(&h, 0);
	story_feed(s, h.p, h.n);
	free(h.p);
}

/* HELLO of an ordinary HAProxy with max-frame-size 16380. */
#define STORY_HELLO \
	"01 00000001 00 00 12 \"supported-versions\" 08 03 \"2.0\" " \
	"0e \"max-frame-size\" 03 fc f0 06 0c \"capabilities\" 08 0a \"pipelining\""

static inline void story_hello(struct story *s)
{
	story_feed_frame(s, STORY_HELLO);
}

#endif
