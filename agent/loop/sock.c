/* SPOP connections: read, answer, write.
 *
 * A wake reads once, as much as fits, lets serve answer every whole frame of it, and writes all
 * answers with one send(). While a peer does not take its answers we do not read from it either, so
 * a connection never holds more than one buffer of each kind.
 *
 * Buffers are lent: a connection has one only while bytes wait in it, and gives it back to its
 * worker, who keeps one of each kind. A thousand idle connections hold no buffer, and a busy one
 * reads into memory that is warm. The input buffer starts at 16 KiB and grows to the agreed frame
 * size + 4 when a frame asks for it; a hostile peer can make us hold that and no more.
 *
 * Ending: whatever we have to say is sent, then our side is shut down and what still comes is thrown
 * away until the peer closes, at most a second. close() with unread bytes would send a reset, and a
 * reset makes the peer forget the answer it has not read yet.
 *
 * Timeouts: each phase has a list ordered by when the last frame came, so that a sweep only looks at
 * its head; no timer per connection. A byte a second is no frame: such a peer is as idle as a
 * silent one.
 *
 * Overload: one turn of the loop deals with all ready connections, one behind the other. Who has
 * waited longer than OVERLOAD_US for its place in the turn, behind OVERLOAD_BEHIND others, is answered
 * "overload" without a look at the prompt: HAProxy will not wait much longer, and more are waiting. It
 * may have waited through the end of the turn before, which was cut short in the same way, so the
 * bound is below half of the recipes' "timeout processing" of 50 ms. Time alone is no sign: on a busy
 * machine a thread may stand still for that long with a single request to answer. */
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/clock.h"
#include "agent/loop/count.h"
#include "agent/loop/sock.h"

#define IN_FIRST	(16384u + SPOP_LENGTH_BYTES)
#define OUT_BYTES	(16384u + SERVE_OUT_MIN)
#define LINGER_MS	1000
#define OVERLOAD_US	20000
#define OVERLOAD_BEHIND	16

struct sock {
	struct list link;	/* in worker->socks[phase] */
	enum sock_phase phase;
	struct worker *w;
	ev_io io;
	msec since;		/* last frame; or when the phase began */
	struct bytes in, out;
	size_t sent;		/* of out */
	bool ending;		/* nothing more will be said behind <out> */
	union sockaddr_any peer;
	struct serve serve;
};

/* ---- small helpers ------------------------------------------------------------------------------- */

/* Room for the frame that has begun in <in>, and at least one byte. */
static bool in_room(struct sock *s)
{
	struct bytes *in = &s->in;
	size_t want, cap = (size_t)s->serve.conn.frame_size + SPOP_LENGTH_BYTES;

	if (!bytes_borrow(in, &s->w->spare_in, IN_FIRST))
		return false;
	want = spop_conn_want(&s->serve.conn, in->p, in->n);
	if (want <= in->cap)
		return in->n < in->cap;
	return want <= cap && bytes_grow(in, cap);
}

/* ---- the log's words -------------------------------------------------------------------------- */

static bool line_begin(struct log_line *ln, struct sock *s, enum log_level level,
		       enum log_kind kind, const char *msg)
{
	char peer[ADDR_MAX];

	if (!log_begin(ln, &s->w->agent->log, level, kind, msg))
		return false;
	addr_print(&s->peer, peer, sizeof(peer));
	log_text(ln, "peer", peer);
	return true;
}

/* The one mistake every operator makes once, with what to change. */
static void log_frame_size(struct sock *s, const struct spop_event *ev)
{
	struct log_line ln;

	if (!line_begin(&ln, s, LOG_ERROR, LOG_FRAME_SIZE, "max-frame-size refused"))
		return;
	log_int(&ln, "status", ev->status);
	log_int(&ln, "offered", (int64_t)ev->offer);
	log_int(&ln, "limit", (int64_t)ev->limit);
	log_text(&ln, "hint", ev->offer > ev->limit ?
		 "raise spop.max_frame_size here to what is offered, or lower tune.bufsize in "
		 "HAProxy (it offers tune.bufsize - 4)" :
		 "SPOP asks for at least 256; raise tune.bufsize in HAProxy");
	log_end(&ln);
}

static void log_closing(struct sock *s)
{
	const struct spop_event *ev = &s->serve.why;
	bool usual = ev->by_peer && (ev->status == SPOP_STATUS_NORMAL ||
				     ev->status == SPOP_STATUS_TIMEOUT);
	struct log_line ln;

	if (!ev->by_peer && ev->status == SPOP_STATUS_BAD_FRAME_SIZE) {
		log_frame_size(s, ev);
		return;
	}
	if (!line_begin(&ln, s, usual ? LOG_DEBUG : LOG_WARN, ev->by_peer ? LOG_PEER : LOG_FRAME,
			ev->by_peer ? "HAProxy ended the connection" : "connection ended"))
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

/* ---- life ---------------------------------------------------------------------------------------- */

static void phase_set(struct sock *s, enum sock_phase phase)
{
	list_remove(&s->link);
	list_append(&s->w->socks[phase], &s->link);
	s->phase = phase;
	s->since = s->w->pass_start / 1000;
}

static void watch(struct sock *s, int events)
{
	if ((s->io.events & (EV_READ | EV_WRITE)) == events && ev_is_active(&s->io))
		return;
	ev_io_stop(s->w->loop, &s->io);
	ev_io_set(&s->io, s->io.fd, events);
	ev_io_start(s->w->loop, &s->io);
}

static void sock_free(struct sock *s, uint64_t *reason)
{
	struct worker *w = s->w;

	if (reason != NULL)
		count_add(reason, 1);
	count_add(&w->socks_count.open, (uint64_t)-1);
	__atomic_fetch_sub(&w->agent->n_conns, 1, __ATOMIC_RELAXED);
	ev_io_stop(w->loop, &s->io);
	close(s->io.fd);
	list_remove(&s->link);
	bytes_return(&s->in, &w->spare_in);
	bytes_return(&s->out, &w->spare_out);
	serve_fini(&s->serve);
	mem_free(s);
}

static void no_memory(struct sock *s)
{
	log_msg(&s->w->agent->log, LOG_ERROR, LOG_MEMORY, "no memory for a connection; it is closed");
	sock_free(s, &s->w->socks_count.closed_memory);
}

/* Everything is sent: wait for the peer to see it. */
static void linger(struct sock *s)
{
	shutdown(s->io.fd, SHUT_WR);
	bytes_return(&s->in, &s->w->spare_in);
	phase_set(s, SOCK_LINGER);
	watch(s, EV_READ);
}

/* Throw away what comes; true: more may come. */
static bool linger_read(struct sock *s)
{
	uint8_t waste[4096];
	ssize_t n = recv(s->io.fd, waste, sizeof(waste), 0);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- writing ------------------------------------------------------------------------------------- */

/* One send() of all there is. 0: all sent; 1: the peer must read first; -1: the connection is gone
 * and freed. */
static int flush(struct sock *s)
{
	struct bytes *out = &s->out;
	ssize_t n;

	if (out->n > s->sent) {
		n = send(s->io.fd, out->p + s->sent, out->n - s->sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			sock_free(s, &s->w->socks_count.closed_error);
			return -1;
		}
		count_add(&s->w->socks_count.writes, 1);
		if (n > 0) {
			s->sent += (size_t)n;
			count_add(&s->w->socks_count.bytes_out, (uint64_t)n);
		}
	}
	if (out->n > s->sent)
		return 1;
	s->sent = 0;
	bytes_return(out, &s->w->spare_out);
	return 0;
}

/* ---- answering ----------------------------------------------------------------------------------- */

static bool whole_frame_waits(const struct sock *s, const struct spop_rd *rd)
{
	return rd->left >= SPOP_LENGTH_BYTES &&
	       rd->left >= spop_conn_want(&s->serve.conn, rd->p, rd->left);
}

/* Nothing half-way: no part of a frame, no fragment that others must follow. Before its HELLO a
 * connection has nothing to lose. */
static bool quiet(const struct sock *s, const struct spop_rd *rd)
{
	return s->serve.conn.state != SPOP_CONN_READY ||
	       (rd->left == 0 && s->serve.conn.n_joining == 0);
}

/* An AGENT-DISCONNECT behind what <out> holds. */
static void say_goodbye(struct sock *s, int status)
{
	struct spop_wr wr = { s->out.p, s->out.n, s->out.cap, false };

	if (s->serve.conn.state == SPOP_CONN_READY)
		serve_stop(&s->serve, status, &wr);
	s->out.n = wr.n;
	s->ending = true;
}

/* Let serve take what it can of <rd>. False: it took nothing. */
static bool feed(struct sock *s, struct spop_rd *rd)
{
	struct spop_wr wr = { s->out.p, s->out.n, s->out.cap, false };
	struct worker *w = s->w;
	size_t used, all = 0;

	w->overloaded = w->fed_in_pass++ >= OVERLOAD_BEHIND &&
			clock_usec() - w->pass_start > OVERLOAD_US;
	do {
		used = serve_feed(&s->serve, rd->p, rd->left, &wr);
		rd->p += used;
		rd->left -= used;
		all += used;
	} while (used > 0 && rd->left > 0 && !s->serve.closing);
	s->out.n = wr.n;
	if (s->serve.closing) {
		s->ending = true;
		count_add(&w->socks_count.closed_protocol, 1);
		log_closing(s);
	}
	if (all > 0 && !s->ending)
		phase_set(s, s->serve.conn.state == SPOP_CONN_READY ? SOCK_OPEN : SOCK_HELLO);
	return all > 0;
}

/* Keep of the input what is not used yet. */
static void keep_rest(struct sock *s, const struct spop_rd *rd)
{
	if (rd->left > 0 && rd->p != s->in.p)
		memmove(s->in.p, rd->p, rd->left);
	s->in.n = rd->left;
	if (rd->left == 0)
		bytes_return(&s->in, &s->w->spare_in);
}

/* Answer what has come, send it, and see what to wait for. May free <s>. */
static void sock_work(struct sock *s)
{
	struct spop_rd rd = { s->in.p, s->in.n };
	bool more = true, moved;
	int rc = 0;

	while (more && rc == 0 && !s->ending) {
		if (!bytes_borrow(&s->out, &s->w->spare_out, OUT_BYTES)) {
			no_memory(s);
			return;
		}
		moved = rd.left > 0 && feed(s, &rd);
		more = !s->ending && whole_frame_waits(s, &rd);
		if (!s->ending && !more && s->w->draining && quiet(s, &rd)) {
			count_add(&s->w->socks_count.closed_drain, 1);
			say_goodbye(s, SPOP_STATUS_NORMAL);
		}
		if (more && !moved && s->out.n == 0) {	/* would turn for ever: not by contract */
			sock_free(s, &s->w->socks_count.closed_error);
			return;
		}
		rc = flush(s);
	}
	if (rc < 0)
		return;
	keep_rest(s, &rd);
	if (rc > 0) {
		count_add(&s->w->socks_count.paused, 1);
		if (s->ending)
			phase_set(s, SOCK_LINGER);
		watch(s, EV_WRITE);
	} else if (s->ending) {
		linger(s);
	} else {
		watch(s, EV_READ);
	}
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* May free <s>. */
static void sock_read(struct sock *s)
{
	ssize_t n;

	if (!in_room(s)) {
		no_memory(s);
		return;
	}
	n = recv(s->io.fd, s->in.p + s->in.n, s->in.cap - s->in.n, 0);
	if (n == 0) {
		sock_free(s, &s->w->socks_count.closed_eof);
		return;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		sock_free(s, &s->w->socks_count.closed_error);
		return;
	}
	if (n > 0) {
		s->in.n += (size_t)n;
		count_add(&s->w->socks_count.bytes_in, (uint64_t)n);
	}
	sock_work(s);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct sock *s = io->data;

	if (io->events & EV_WRITE) {
		if (flush(s) != 0)
			return;
		if (s->ending)
			linger(s);
		else
			sock_work(s);
	} else if (s->phase == SOCK_LINGER) {
		if (!linger_read(s))
			sock_free(s, NULL);
	} else {
		sock_read(s);
	}
}

/* ---- beginning ----------------------------------------------------------------------------------- */

static void refuse(struct worker *w, int fd, uint32_t max)
{
	struct log_line ln;

	__atomic_fetch_sub(&w->agent->n_conns, 1, __ATOMIC_RELAXED);
	close(fd);
	count_add(&w->socks_count.refused_full, 1);
	if (log_begin(&ln, &w->agent->log, LOG_WARN, LOG_FULL, "too many connections; one is refused")) {
		log_int(&ln, "max_connections", max);
		log_end(&ln);
	}
}

void sock_open(struct worker *w, int fd, const union sockaddr_any *peer)
{
	struct agent *a = w->agent;
	uint32_t max = tune_get(a->tune.max_connections);
	struct spop_conn_opts opts;
	struct sock *s;
	int on = 1;

	if (__atomic_add_fetch(&a->n_conns, 1, __ATOMIC_RELAXED) > max ||
	    (s = mem_alloc(sizeof(*s))) == NULL) {
		refuse(w, fd, max);
		return;
	}
	opts.max_frame_size = tune_get(a->tune.max_frame_size);
	opts.max_joined = tune_get(a->tune.max_joined);
	opts.max_open = tune_get(a->tune.max_open);
	serve_init(&s->serve, &w->env, &opts);
	s->w = w;
	s->peer = *peer;
	if (peer->sa.sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ev_io_init(&s->io, on_io, fd, EV_READ);
	s->io.data = s;
	list_init(&s->link);
	phase_set(s, SOCK_HELLO);
	count_add(&w->socks_count.open, 1);
	count_add(&w->socks_count.accepted, 1);
	watch(s, EV_READ);
}

/* ---- ending -------------------------------------------------------------------------------------- */

static void end_hello(struct sock *s)
{
	struct log_line ln;

	if (line_begin(&ln, s, LOG_WARN, LOG_TIMEOUT, "no HELLO in time; connection closed"))
		log_end(&ln);
	sock_free(s, &s->w->socks_count.closed_hello);
}

static void end_idle(struct sock *s)
{
	struct worker *w = s->w;

	count_add(&w->socks_count.closed_idle, 1);
	if (s->out.n > s->sent || !bytes_borrow(&s->out, &w->spare_out, OUT_BYTES)) {
		sock_free(s, NULL);	/* it does not read: there is no use in saying more */
		return;
	}
	say_goodbye(s, SPOP_STATUS_TIMEOUT);
	switch (flush(s)) {
	case 0:
		linger(s);
		break;
	case 1:
		sock_free(s, NULL);
		break;
	}
}

static struct sock *oldest(struct worker *w, enum sock_phase phase, msec now, msec age)
{
	struct list *head = &w->socks[phase];
	struct sock *s;

	if (list_empty(head))
		return NULL;
	s = list_entry(head->next, struct sock, link);
	return now - s->since >= age ? s : NULL;
}

void sock_sweep(struct worker *w, msec now)
{
	struct tune *t = &w->agent->tune;
	struct sock *s;

	while ((s = oldest(w, SOCK_HELLO, now, tune_get(t->hello_timeout_ms))) != NULL)
		end_hello(s);
	while ((s = oldest(w, SOCK_OPEN, now, tune_get(t->idle_timeout_ms))) != NULL)
		end_idle(s);
	while ((s = oldest(w, SOCK_LINGER, now, LINGER_MS)) != NULL)
		sock_free(s, NULL);
}

/* Take what the kernel has, answer it, and end behind it. A peer that does not read its answers, or
 * has sent half a frame, is met again by its own wakes. */
static void drain_one(struct sock *s)
{
	if (s->out.n == s->sent)
		sock_read(s);
}

void sock_drain_all(struct worker *w)
{
	enum sock_phase phase;
	struct list todo, *l;
	struct sock *s;

	list_init(&todo);	/* each once: answering moves them about in their own lists */
	for (phase = SOCK_HELLO; phase < SOCK_LINGER; phase++) {
		while (!list_empty(&w->socks[phase])) {
			l = w->socks[phase].next;
			list_remove(l);
			list_append(&todo, l);
		}
	}
	while (!list_empty(&todo)) {
		s = list_entry(todo.next, struct sock, link);
		list_remove(&s->link);
		list_append(&w->socks[s->phase], &s->link);
		drain_one(s);
	}
}

void sock_close_all(struct worker *w)
{
	enum sock_phase phase;

	for (phase = SOCK_HELLO; phase < SOCK_PHASES; phase++)
		while (!list_empty(&w->socks[phase]))
			sock_free(list_entry(w->socks[phase].next, struct sock, link), NULL);
}

bool sock_any(const struct worker *w)
{
	return !list_empty(&w->socks[SOCK_HELLO]) || !list_empty(&w->socks[SOCK_OPEN]) ||
	       !list_empty(&w->socks[SOCK_LINGER]);
}
