/* SPOP connections: readiness, reading, opening.
 *
 * A turn of the loop first notes which sockets are ready. Then it reads once from each, as much as
 * fits, answers the frames, and sends all answers with one send(). A socket with more bytes goes to
 * the end of the list, so that all drain at the same pace. After TURN_US the turn ends. The loop
 * then handles its other events, sees which sockets have become ready, and continues with the list.
 * So the waiting time of frames is known (overload_in.h).
 *
 * A connection has a buffer only while bytes wait in it, and then returns it to its worker, which
 * keeps one of each kind, and a few large ones (sock_spare.c). So a thousand idle connections hold
 * no buffer, and a busy one reads into warm memory. The input buffer starts at 16 KiB. It is
 * exchanged for one of the agreed frame size + 4 if a frame needs it, and back when little waits.
 *
 * All buffers of all connections share one budget (budget_in.h). When it or the heap is used up:
 *   - a frame too long for a first buffer is discarded while it arrives, and its NOTIFY is
 *     answered without routing (serve_lose)
 *   - between two events a worker always has a spare buffer of each kind, so peers that send whole
 *     frames and read their answers are served; a connection that would keep the last one is closed
 *
 * Bytes of prompts exist only in these places of the agent: input buffers, which hold frames that
 * wait and nothing else (keep_rest()); payloads of fragments (spoe), wiped when they are freed;
 * spare buffers (wipe_prompts(), at each sweep); scanners of a thread (the same, after a sweep or
 * two without traffic) and of requests that wait for slices (body_free()); and the free part of the
 * stack, wiped with the scanner. Everything else holds hashes and lengths. */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/sock_conn_in.h"

#define TURN_US		1000
#define TICK_MOST_US	10000	/* resolution of the kernel's arrival time */

_Static_assert(sizeof(struct sock) <= CONN_BYTES, "loop_budget() counts too little");

void sock_set_phase(struct sock *s, enum sock_phase phase)
{
	list_remove(&s->link);
	list_append(&s->w->socks[phase], &s->link);
	s->phase = phase;
	s->since = s->w->pass_start / 1000;
}

void sock_watch(struct sock *s, int events)
{
	if (events != EV_READ)
		list_remove(&s->ready);
	if ((s->io.events & (EV_READ | EV_WRITE)) == events && ev_is_active(&s->io))
		return;
	ev_io_stop(s->w->loop, &s->io);
	ev_io_set(&s->io, s->io.fd, events);
	ev_io_start(s->w->loop, &s->io);
}

/* ---- reading ---------------------------------------------------------------------------- */

/* Make room in <in> for the frame that has begun, and for at least one byte. If there is no memory
 * for a long frame, make room for its head. Returns false if even that fails. */
static bool in_room(struct sock *s)
{
	size_t want, cap = (size_t)s->serve.conn.frame_size + SPOP_LENGTH_BYTES;
	struct budget *budget = &s->w->agent->budget;
	struct conn_buf *in = &s->in;

	if (!conn_buf_borrow(in, &s->w->spare_in, SOCK_IN_FIRST, budget))
		return false;
	want = spop_conn_want(&s->serve.conn, conn_buf_bytes(in), in->n);
	if (want > in->cap - in->at || in->n == in->cap - in->at)
		conn_buf_pack(in);
	if (s->losing || want <= in->cap || sock_grow_in(s, cap))
		return true;
	if (in->n >= SPOP_HEAD_MAX) {
		s->losing = true;
		s->skip = want - in->n;
		in->n = SPOP_HEAD_MAX;
		sock_log_losing(s, want);
	}
	return true;
}

/* Note that a read of <room> bytes returned <n>. If it was full, more bytes may wait; the next read
 * or the next turn tells, so no call is needed here. */
static void note_read(struct sock *s, size_t n, size_t room)
{
	arrivals_read(&s->arrivals, n, n == room, clock_usec());
	s->read_turn = s->w->turns;
}

/* Read after the bytes of <in>. Bytes of a lost frame are overwritten by the next read. */
static ssize_t receive_bytes(struct sock *s)
{
	struct conn_buf *in = &s->in;
	size_t room = in->cap - in->at - in->n;
	ssize_t n;

	if (s->losing && room > s->skip)
		room = s->skip;
	n = recv(s->io.fd, conn_buf_bytes(in) + in->n, room, 0);
	if (n <= 0)
		return n;
	count_add(&s->w->socks_count.bytes_in, (uint64_t)n);
	conn_buf_wrote(in, (size_t)n);
	note_read(s, (size_t)n, room);
	if (in->n > SOCK_IN_FIRST)
		s->w->sweeps_small = 0;
	if (s->losing) {
		in->n -= (size_t)n;
		s->skip -= (size_t)n;
	}
	return n;
}

void sock_read(struct sock *s)
{
	ssize_t n;

	if (!in_room(s)) {
		sock_no_memory(s);
		return;
	}
	n = receive_bytes(s);
	if (n == 0) {
		sock_free(s, &s->w->socks_count.closed_eof);
		return;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		sock_free(s, &s->w->socks_count.closed_error);
		return;
	}
	if (n < 0)
		arrivals_read(&s->arrivals, 0, false, clock_usec());
	if (!s->losing || s->skip == 0)
		sock_answer(s);
}

/* Return a time before which the bytes of <s> arrived. After a long time without events the thread
 * may not have been running, and only the kernel knows when the bytes came. It counts in ticks of
 * up to 10 ms, and not for unix sockets. */
static usec arrival_time(const struct sock *s)
{
	struct worker *w = s->w;
	struct tcp_info info = { 0 };
	socklen_t n = sizeof(info);
	usec age;

	if (w->pass_start - w->looked <= w->overload.hurry_us || s->peer.sa.sa_family == AF_UNIX ||
	    getsockopt(s->io.fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0)
		return w->pass_start;
	age = (usec)info.tcpi_last_data_recv * 1000 - TICK_MOST_US;
	return w->pass_start - (age > 0 ? age : 0);
}

void sock_look(struct sock *s, usec now)
{
	int unread = 0;

	if (arrivals_look_due(&s->arrivals, now, s->w->overload.apart_us) &&
	    ioctl(s->io.fd, FIONREAD, &unread) == 0 && unread > 0)
		arrivals_seen(&s->arrivals, (size_t)unread, now);
}

/* Tell if no byte waited in <s> when the thread last waited. It may be listed all the same, because
 * a read that fills the buffer may have been the last. */
static bool has_rested(const struct sock *s)
{
	const struct worker *w = s->w;

	return s->arrivals.n == 0 &&
	       (w->rested || (list_empty(&s->ready) && w->turns - s->read_turn > 1));
}

/* Append <s> to the list of sockets to read, unless it is in it. */
static void get_ready(struct sock *s)
{
	if (has_rested(s))
		arrivals_rest(&s->arrivals);
	if (!list_empty(&s->ready)) {
		sock_look(s, s->w->pass_start);
		return;
	}
	list_append(&s->w->ready, &s->ready);
	if (!s->arrivals.more)
		arrivals_seen(&s->arrivals, 1, arrival_time(s));
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct sock *s = io->data;
	struct worker *w = s->w;

	w->found = true;
	if (io->events & EV_WRITE) {
		sock_write(s);
	} else if (s->phase == SOCK_LINGER) {
		if (!sock_linger_read(s))
			sock_free(s, NULL);
	} else {
		get_ready(s);
		return;
	}
	sock_keep_spares(w, s);
}

void sock_turn(struct worker *w)
{
	usec end = w->pass_start + TURN_US;
	struct sock *s;

	while (!list_empty(&w->ready)) {
		s = list_entry(w->ready.next, struct sock, ready);
		list_remove(&s->ready);
		sock_read(s);
		sock_keep_spares(w, s);
		if (clock_usec() >= end)
			break;
	}
}

/* ---- opening ---------------------------------------------------------------------------- */

/* Limit the send buffer. ACKs are short and HAProxy reads them at once. For a peer that does not
 * read, the kernel would grow its buffer to megabytes outside of any budget. If setting the limit
 * fails, that remains. */
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
		count_add(&w->socks_count.refused_full, 1);
		sock_log_full(w, max);
	} else if ((s = mem_alloc(sizeof(*s))) == NULL) {
		count_add(&w->socks_count.refused_memory, 1);
		log_msg(&a->log, LOG_ERROR, LOG_MEMORY,
			"not enough memory for a new SPOP connection; it was closed");
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
	list_init(&s->ready);
	sock_set_phase(s, SOCK_HELLO);
	count_add(&w->socks_count.open, 1);
	count_add(&w->socks_count.accepted, 1);
	sock_watch(s, EV_READ);
}
