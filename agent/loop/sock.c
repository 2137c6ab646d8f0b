/* SPOP connections: read, answer, write.
 *
 * A wake reads once, as much as fits, lets serve answer every whole frame of it, and writes all
 * answers with one send(). While a peer does not take its answers we do not read from it either, so
 * a connection never holds more than one buffer of each kind.
 *
 * Buffers are lent: a connection has one only while bytes wait in it, and gives it back to its
 * worker, who keeps one of each kind. A thousand idle connections hold no buffer, and a busy one
 * reads into memory that is warm. The input buffer starts at 16 KiB and is exchanged for one of the
 * agreed frame size + 4 when a frame asks for it, and back when what waits is small; a spare one that
 * long frames have left is made small again after a second without any.
 *
 * All buffers of all connections share one budget (budget.h). When it is used up, or the heap is:
 *   - a frame too long for a first buffer is thrown away as it comes, and its NOTIFY is answered
 *     without a look (serve_lose)
 *   - between two events a worker always has a spare of each kind, so that whoever sends whole frames
 *     and reads its answers is served; the connection that would keep the last one is closed
 *
 * What holds bytes of prompts, in the whole agent: input buffers and the payload of fragments (spoe),
 * wiped when they are given back or freed; scanners, of a thread (route_scratch_wipe(), when nothing
 * has come for a sweep or two) and of requests that wait for slices (body_free()); and the stack
 * below what runs, wiped with the scanner. All else holds hashes and lengths.
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
 * machine a thread may stand still for that long with a single request to answer.
 *
 * A turn takes a bufferful from each connection. What is left in a socket behind that waits for further turns, and where peers
 * send without waiting for answers, for many: the place in the turn says nothing of it then. So what was seen to be left is
 * known by its bytes and the time, and is answered in the same way when its turn comes too late. */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/clock.h"
#include "agent/loop/count.h"
#include "agent/loop/sock.h"

#define LINGER_MS	1000
#define TRIM_SWEEPS	4
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
	size_t left;		/* bytes that were behind what was read, at <left_at>, and have not been read yet */
	usec left_at;
	uint64_t left_behind;	/* w->count.notifies then */
	bool late;		/* what is in <in> waited in the socket for too long */
	bool ending;		/* nothing more will be said behind <out> */
	bool losing;		/* of the frame in <in> only the head is kept; */
	size_t skip;		/* so many bytes of it are still to come */
	union sockaddr_any peer;
	struct serve serve;
};

_Static_assert(sizeof(struct sock) <= CONN_BYTES, "loop_budget() counts too little");

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

static void log_losing(struct sock *s, size_t bytes)
{
	struct log_line ln;

	if (!line_begin(&ln, s, LOG_WARN, LOG_MEMORY, "no memory for a long frame; it is answered without a look"))
		return;
	log_int(&ln, "bytes", (int64_t)bytes);
	log_int(&ln, "max_bytes", (int64_t)__atomic_load_n(&s->w->agent->budget.max, __ATOMIC_RELAXED));
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
	bytes_return(&s->in, &w->spare_in, &w->agent->budget);
	bytes_return(&s->out, &w->spare_out, &w->agent->budget);
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
	bytes_return(&s->in, &s->w->spare_in, &s->w->agent->budget);
	phase_set(s, SOCK_LINGER);
	watch(s, EV_READ);
}

/* Throw away what comes; true: more may come. */
static bool linger_read(struct sock *s)
{
	uint8_t waste[4096];
	ssize_t n = recv(s->io.fd, waste, sizeof(waste), 0);

	if (n > 0)
		mem_wipe(waste, (size_t)n);
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
	bytes_return(out, &s->w->spare_out, &s->w->agent->budget);
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
	bytes_wrote(&s->out, wr.n - s->out.n);
	s->ending = true;
}

/* Let serve take what it can of <rd>; returns how much that was. */
static size_t take_frames(struct sock *s, struct spop_rd *rd, struct spop_wr *wr)
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

/* False: nothing of <rd> was taken. */
static bool feed(struct sock *s, struct spop_rd *rd)
{
	struct spop_wr wr = { s->out.p, s->out.n, s->out.cap, false };
	struct worker *w = s->w;
	size_t all;

	w->overloaded = s->late || (w->fed_in_pass >= OVERLOAD_BEHIND && clock_usec() - w->pass_start > OVERLOAD_US);
	w->fed_in_pass++;
	all = take_frames(s, rd, &wr);
	bytes_wrote(&s->out, wr.n - s->out.n);
	w->dirty = true;
	if (s->serve.closing) {
		s->ending = true;
		count_add(s->serve.why.by_peer ? &w->socks_count.closed_peer :
			  &w->socks_count.closed_protocol, 1);
		log_closing(s);
	}
	if (all > 0 && !s->ending)
		phase_set(s, s->serve.conn.state == SPOP_CONN_READY ? SOCK_OPEN : SOCK_HELLO);
	return all > 0;
}

/* Keep of the input what is not used yet, in a large buffer only when it needs one. */
static void keep_rest(struct sock *s, const struct spop_rd *rd)
{
	struct budget *budget = &s->w->agent->budget;
	struct bytes *in = &s->in;

	bytes_drop(in, in->n - rd->left);
	if (in->n == 0)
		bytes_return(in, &s->w->spare_in, budget);
	else if (in->cap > SOCK_IN_FIRST && in->n < SOCK_IN_FIRST &&
		 spop_conn_want(&s->serve.conn, in->p, in->n) <= SOCK_IN_FIRST)
		bytes_exchange(in, SOCK_IN_FIRST, BUDGET_FIRST, budget);
}

/* Answer what has come, send it, and see what to wait for. May free <s>. */
static void sock_work(struct sock *s)
{
	struct spop_rd rd = { s->in.p, s->in.n };
	bool more = true, moved;
	int rc = 0;

	while (more && rc == 0 && !s->ending) {
		if (!bytes_borrow(&s->out, &s->w->spare_out, SOCK_OUT_BYTES, &s->w->agent->budget)) {
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

/* Room for the frame that has begun in <in>, and at least one byte; without memory for all of a long
 * one, for its head. False: not even that. */
static bool in_room(struct sock *s)
{
	size_t want, cap = (size_t)s->serve.conn.frame_size + SPOP_LENGTH_BYTES;
	struct budget *budget = &s->w->agent->budget;
	struct bytes *in = &s->in;

	if (!bytes_borrow(in, &s->w->spare_in, SOCK_IN_FIRST, budget))
		return false;
	want = spop_conn_want(&s->serve.conn, in->p, in->n);
	if (s->losing || want <= in->cap || bytes_exchange(in, cap, BUDGET_LARGE, budget))
		return true;
	if (in->n >= SPOP_HEAD_MAX) {
		s->losing = true;
		s->skip = want - in->n;
		in->n = SPOP_HEAD_MAX;
		log_losing(s, want);
	}
	return true;
}

static bool waited(const struct sock *s)
{
	return s->w->count.notifies - s->left_behind >= OVERLOAD_BEHIND && clock_usec() - s->left_at > OVERLOAD_US;
}

/* <n> bytes were read where <room> were asked for. Who was late stays so until its socket has been empty: what comes
 * behind may have waited with the sender for as long. */
static void note_left(struct sock *s, size_t n, size_t room)
{
	int more = 0;

	s->late = s->left > 0 && (s->late || waited(s));
	s->left = n == room && s->left > n ? s->left - n : 0;
	if (n < room || s->left > 0 || ioctl(s->io.fd, FIONREAD, &more) < 0 || more <= 0)
		return;
	s->left = (size_t)more;
	if (s->late)
		return;
	s->left_at = clock_usec();
	s->left_behind = s->w->count.notifies;
}

/* recv() behind what is there; of a frame that is lost, to be written over by the next. */
static ssize_t receive(struct sock *s)
{
	struct bytes *in = &s->in;
	size_t room = in->cap - in->n;
	ssize_t n;

	if (s->losing && room > s->skip)
		room = s->skip;
	n = recv(s->io.fd, in->p + in->n, room, 0);
	if (n <= 0)
		return n;
	count_add(&s->w->socks_count.bytes_in, (uint64_t)n);
	bytes_wrote(in, (size_t)n);
	note_left(s, (size_t)n, room);
	if (in->n > SOCK_IN_FIRST)
		s->w->sweeps_small = 0;
	if (s->losing) {
		in->n -= (size_t)n;
		s->skip -= (size_t)n;
	}
	return n;
}

/* May free <s>. */
static void sock_read(struct sock *s)
{
	ssize_t n;

	if (!in_room(s)) {
		no_memory(s);
		return;
	}
	n = receive(s);
	if (n == 0) {
		sock_free(s, &s->w->socks_count.closed_eof);
		return;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		sock_free(s, &s->w->socks_count.closed_error);
		return;
	}
	if (!s->losing || s->skip == 0)
		sock_work(s);
}

/* May free <s>. */
static void sock_write(struct sock *s)
{
	if (flush(s) != 0)
		return;
	if (s->ending)
		linger(s);
	else
		sock_work(s);
}

bool sock_spares(struct worker *w)
{
	struct budget *budget = &w->agent->budget;
	struct bytes none = { 0 };

	return bytes_borrow(&w->spare_in, &none, SOCK_IN_FIRST, budget) &&
	       bytes_borrow(&w->spare_out, &none, SOCK_OUT_BYTES, budget);
}

/* Behind every event of <s>: when a spare is missing and there is no other, <s> lives, and has it. */
static void keep_spares(struct worker *w, struct sock *s)
{
	if (!sock_spares(w))
		no_memory(s);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct sock *s = io->data;
	struct worker *w = s->w;

	if (io->events & EV_WRITE) {
		sock_write(s);
	} else if (s->phase == SOCK_LINGER) {
		if (!linger_read(s))
			sock_free(s, NULL);
	} else {
		sock_read(s);
	}
	keep_spares(w, s);
}

/* ---- beginning ----------------------------------------------------------------------------------- */

static void refuse(struct worker *w, int fd, uint32_t max)
{
	struct log_line ln;

	count_add(&w->socks_count.refused_full, 1);
	if (log_begin(&ln, &w->agent->log, LOG_WARN, LOG_FULL,
		      "too many SPOP connections, health checks count too; one is refused")) {
		log_int(&ln, "spop.max_connections", max);
		log_end(&ln);
	}
}

/* ACKs are short and HAProxy reads them at once. For who does not, the kernel would by itself let its
 * buffer grow to megabytes, which are nobody's budget; a failure leaves us with that. */
static void set_options(struct sock *s, int fd)
{
	int on = 1, size = (int)tune_get(s->w->agent->tune.send_buffer);

	if (s->peer.sa.sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

void sock_open(struct worker *w, int fd, const union sockaddr_any *peer)
{
	struct agent *a = w->agent;
	uint32_t max = tune_get(a->tune.max_connections);
	struct spop_conn_opts opts;
	struct sock *s = NULL;

	if (__atomic_add_fetch(&a->n_conns, 1, __ATOMIC_RELAXED) > max) {
		refuse(w, fd, max);
	} else if ((s = mem_alloc(sizeof(*s))) == NULL) {
		count_add(&w->socks_count.refused_memory, 1);
		log_msg(&a->log, LOG_ERROR, LOG_MEMORY, "no memory for a connection; it is refused");
	}
	if (s == NULL) {
		__atomic_fetch_sub(&a->n_conns, 1, __ATOMIC_RELAXED);
		close(fd);
		return;
	}
	opts.max_frame_size = tune_get(a->tune.max_frame_size);
	opts.max_joined = tune_get(a->tune.max_joined);
	opts.max_open = tune_get(a->tune.max_open);
	opts.memory = &w->fragments;
	serve_init(&s->serve, &w->env, &opts);
	s->w = w;
	s->peer = *peer;
	set_options(s, fd);
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
	if (s->out.n > s->sent ||
	    !bytes_borrow(&s->out, &w->spare_out, SOCK_OUT_BYTES, &w->agent->budget)) {
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

/* Long frames have left a large spare: when none came for a while, a small one will do. */
static void trim_spare(struct worker *w)
{
	if (w->spare_in.cap > SOCK_IN_FIRST && ++w->sweeps_small > TRIM_SWEEPS)
		bytes_exchange(&w->spare_in, SOCK_IN_FIRST, BUDGET_FIRST, &w->agent->budget);
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
	trim_spare(w);
}

/* Take what the kernel has, answer it, and end behind it. A peer that does not read its answers, or
 * has sent half a frame, is met again by its own wakes. */
static void drain_one(struct worker *w, struct sock *s)
{
	if (s->out.n == s->sent)
		sock_read(s);
	keep_spares(w, s);
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
		drain_one(w, s);
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
