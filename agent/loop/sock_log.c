/* Log lines about one SPOP connection. */
#include "agent/loop/sock_conn_in.h"
#include "agent/loop/wrong_protocol_in.h"

bool sock_log_begin(struct log_line *ln, struct sock *s, enum log_level level, enum log_kind kind,
		    const char *msg)
{
	char peer[ADDR_MAX];

	if (!log_begin(ln, &s->w->agent->log, level, kind, msg))
		return false;
	addr_print(&s->peer, peer, sizeof(peer));
	log_text(ln, "peer", peer);
	return true;
}

/* A mistake in most first configurations, so the line says what to change. */
static void log_frame_size(struct sock *s, const struct spop_event *ev)
{
	struct log_line ln;

	if (!sock_log_begin(&ln, s, LOG_ERROR, LOG_FRAME_SIZE, "HAProxy's max-frame-size rejected"))
		return;
	log_int(&ln, "status", ev->status);
	log_int(&ln, "offered", (int64_t)ev->offer);
	log_int(&ln, "limit", (int64_t)ev->limit);
	log_text(&ln, "remedy", ev->offer > ev->limit ?
		 "raise spop.max_frame_size here to the size offered, or lower tune.bufsize in HAProxy (it "
		 "offers tune.bufsize - 4)" :
		 "SPOP requires at least 256; raise tune.bufsize in HAProxy");
	log_end(&ln);
}

void sock_log_losing(struct sock *s, size_t bytes)
{
	struct log_line ln;

	if (!sock_log_begin(&ln, s, LOG_WARN, LOG_MEMORY,
			    "not enough buffer memory for a long frame; answered without routing"))
		return;
	log_int(&ln, "bytes", (int64_t)bytes);
	log_int(&ln, "max_bytes", (int64_t)__atomic_load_n(&s->w->agent->budget.max, __ATOMIC_RELAXED));
	log_text(&ln, "remedy", "raise spop.max_bytes");
	log_end(&ln);
}

void sock_log_closing(struct sock *s, const struct spop_rd *first)
{
	const struct spop_event *ev = &s->serve.why;
	bool usual = ev->by_peer && (ev->status == SPOP_STATUS_NORMAL ||
				     ev->status == SPOP_STATUS_TIMEOUT);
	struct log_line ln;

	if (!ev->by_peer && s->phase == SOCK_HELLO &&
	    wrong_protocol_note(s->w->agent, PORT_SPOP, first->p, first->left, &s->peer))
		return;
	if (!ev->by_peer && ev->status == SPOP_STATUS_BAD_FRAME_SIZE) {
		log_frame_size(s, ev);
		return;
	}
	if (!sock_log_begin(&ln, s, usual ? LOG_DEBUG : LOG_WARN, ev->by_peer ? LOG_PEER : LOG_FRAME,
			ev->by_peer ? "HAProxy closed the connection" : "connection closed"))
		return;
	log_int(&ln, "status", ev->status);
	log_text(&ln, "reason", ev->text != NULL ? ev->text : spop_status_text(ev->status));
	if (ev->offer != 0 || ev->limit != 0) {
		log_int(&ln, "met", (int64_t)ev->offer);
		log_int(&ln, "limit", (int64_t)ev->limit);
	}
	if (s->serve.conn.engine_id[0] != '\0')
		log_text(&ln, "engine_id", s->serve.conn.engine_id);
	log_end(&ln);
}

void sock_log_late(struct sock *s)
{
	struct log_line ln;

	if (!sock_log_begin(&ln, s, LOG_WARN, LOG_OVERLOAD, "requests waited too long in the agent"))
		return;
	log_int(&ln, "waited_ms", (clock_usec() - s->arrivals.since) / 1000);
	log_int(&ln, "bound_ms", s->w->overload.late_us / 1000);
	log_text(&ln, "effect",
		"they are answered with why=overload; HAProxy balances them as without the agent");
	log_text(&ln, "remedy", "raise threads, or divide the load among more agents");
	log_end(&ln);
}

void sock_log_full(struct worker *w, uint32_t max)
{
	struct log_line ln;

	if (log_begin(&ln, &w->agent->log, LOG_WARN, LOG_FULL,
		      "too many SPOP connections (health checks count); a new one was closed")) {
		log_int(&ln, "spop.max_connections", max);
		log_text(&ln, "effect", "HAProxy balances its requests as without the agent");
		log_end(&ln);
	}
}
