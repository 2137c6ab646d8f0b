/* Passes received bytes to serve and sends the answers: those to one read in one send(). Only then
 * the last decision is finished (serve_finish()). Until that nothing is read or freed.
 *
 * While a peer does not read its answers, nothing is read from it. So a connection never holds more
 * than one buffer of each kind. Bytes that wait at the start of such a pause age from there. */
#include <errno.h>

#include "agent/loop/sock_conn_in.h"

/* Returns false if the connection is broken. */
static bool send_out(struct sock *s)
{
	struct conn_buf *out = &s->out;
	ssize_t n;

	if (out->n == s->sent)
		return true;
	n = send(s->io.fd, out->p + s->sent, out->n - s->sent, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	count_add(&s->w->socks_count.writes, 1);
	if (n > 0) {
		s->sent += (size_t)n;
		count_add(&s->w->socks_count.bytes_out, (uint64_t)n);
	}
	return true;
}

/* The answers are sent before the last decision is finished, which still needs its bytes in
 * <in>. */
int sock_flush(struct sock *s)
{
	struct conn_buf *out = &s->out;
	bool sent = send_out(s);

	serve_finish(&s->w->env);
	if (!sent) {
		sock_free(s, &s->w->socks_count.closed_error);
		return -1;
	}
	if (out->n > s->sent) {
		conn_buf_wipe_rest(out);
		return 1;
	}
	s->sent = 0;
	conn_buf_return(out, &s->w->spare_out, &s->w->agent->budget);
	return 0;
}

static bool whole_frame_waits(const struct sock *s, const struct spop_rd *rd)
{
	return rd->left >= SPOP_LENGTH_BYTES &&
	       rd->left >= spop_conn_want(&s->serve.conn, rd->p, rd->left);
}

/* Returns true if nothing is incomplete: no partial frame, and no fragment without its end. A
 * connection without HELLO has nothing to lose. */
static bool is_quiet(const struct sock *s, const struct spop_rd *rd)
{
	return s->serve.conn.state != SPOP_CONN_READY ||
	       (rd->left == 0 && s->serve.conn.n_joining == 0);
}

void sock_say_goodbye(struct sock *s, int status)
{
	struct spop_wr wr = { s->out.p, s->out.n, s->out.cap, false };

	if (s->serve.conn.state == SPOP_CONN_READY)
		serve_stop(&s->serve, status, &wr);
	conn_buf_wrote(&s->out, wr.n - s->out.n);
	s->ending = true;
}

/* Let serve take frames from <rd>. Returns the bytes that it took. */
static size_t serve_frames(struct sock *s, struct spop_rd *rd, struct spop_wr *wr)
{
	size_t used, all = 0;

	if (s->losing) {
		serve_lose(&s->serve, rd->p, rd->left, wr);
		s->losing = false;
		all = rd->left;
		rd->left = 0;
		return all;
	}
	do {
		used = serve_feed(&s->serve, rd->p, rd->left, wr);
		rd->p += used;
		rd->left -= used;
		all += used;
	} while (used > 0 && rd->left > 0 && !s->serve.closing);
	return all;
}

/* Returns false if nothing of <rd> was taken. */
static bool feed_serve(struct sock *s, struct spop_rd *rd)
{
	struct spop_wr wr = { s->out.p, s->out.n, s->out.cap, false };
	struct worker *w = s->w;
	bool was_late = s->arrivals.wait == SERVE_LATE;
	const struct spop_rd first = *rd;
	size_t all;

	w->judged = &s->arrivals;
	all = serve_frames(s, rd, &wr);
	if (s->arrivals.wait == SERVE_LATE && !was_late)
		sock_log_late(s);
	conn_buf_wrote(&s->out, wr.n - s->out.n);
	w->dirty = true;
	if (s->serve.closing) {
		s->ending = true;
		count_add(s->serve.why.by_peer ? &w->socks_count.closed_peer :
			  &w->socks_count.closed_protocol, 1);
		sock_log_closing(s, &first);
	}
	if (all > 0 && !s->ending)
		sock_set_phase(s, s->serve.conn.state == SPOP_CONN_READY ? SOCK_OPEN : SOCK_HELLO);
	return all > 0;
}

/* Tell if the unused input is to leave its large buffer: it fits a first buffer, and other bytes
 * were used, so that copying it costs less than wiping them; or its frame fits as well. */
static bool rest_is_small(const struct sock *s, const struct spop_rd *rd)
{
	return s->in.cap > SOCK_IN_FIRST && rd->left < SOCK_IN_FIRST &&
	       (rd->left < s->in.n ||
		spop_conn_want(&s->serve.conn, rd->p, rd->left) <= SOCK_IN_FIRST);
}

/* Keep the unused input and no other bytes. */
static void keep_rest(struct sock *s, const struct spop_rd *rd)
{
	if (rd->left == 0) {
		sock_return_in(s);
	} else if (!rest_is_small(s, rd) || !sock_shrink_in(s, rd->left)) {
		conn_buf_drop(&s->in, s->in.n - rd->left);
		conn_buf_wipe_rest(&s->in);
	}
}

/* Answer the received frames, send the answers, and decide what to wait for. */
void sock_answer(struct sock *s)
{
	struct spop_rd rd = { conn_buf_bytes(&s->in), s->in.n };
	bool more = true, moved;
	int rc = 0;

	while (more && rc == 0 && !s->ending) {
		if (!conn_buf_borrow(&s->out, &s->w->spare_out, SOCK_OUT_BYTES, &s->w->agent->budget)) {
			sock_no_memory(s);
			return;
		}
		moved = rd.left > 0 && feed_serve(s, &rd);
		more = !s->ending && whole_frame_waits(s, &rd);
		if (!s->ending && !more && s->w->draining && is_quiet(s, &rd)) {
			count_add(&s->w->socks_count.closed_drain, 1);
			sock_say_goodbye(s, SPOP_STATUS_NORMAL);
		}
		if (more && !moved && s->out.n == 0) {	/* serve must not do this; it would loop forever */
			sock_free(s, &s->w->socks_count.closed_error);
			return;
		}
		rc = sock_flush(s);
	}
	if (rc < 0)
		return;
	keep_rest(s, &rd);
	if (rc > 0) {
		count_add(&s->w->socks_count.paused, 1);
		if (s->ending)
			sock_set_phase(s, SOCK_LINGER);
		sock_watch(s, EV_WRITE);
		sock_look(s, clock_usec());
	} else if (s->ending) {
		sock_linger(s);
	} else {
		sock_watch(s, EV_READ);
		if (s->arrivals.more)
			list_append(&s->w->ready, &s->ready);
	}
}

void sock_write(struct sock *s)
{
	if (sock_flush(s) != 0)
		return;
	if (s->ending)
		sock_linger(s);
	else
		sock_answer(s);
}
