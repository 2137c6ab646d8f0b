/* test_sock.c - a SPOP connection on its socket: the answers are sent before the last decision is
 * finished, and it is finished whatever becomes of the connection; spare buffers. This file
 * includes sock_answer.c with a send() of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/loop/sock_in.h"
#define send	world_send		/* of world.h */
#include "tests/unit/serve/peer.h"
#undef send

static struct {
	struct worker *w;
	unsigned n, unfinished;		/* calls; those with a decision that is not finished */
	int error;			/* instead of sending */
	size_t most;			/* bytes to send at once; 0: all */
	struct line *later;		/* its frames arrive while this one is sent */
} sending;

static void write_frames(struct line *l);

static ssize_t send_noted(int fd, const void *p, size_t n, int flags)
{
	sending.n++;
	sending.unfinished += sending.w->env.unfinished.any;
	if (sending.later != NULL)
		write_frames(sending.later);
	sending.later = NULL;
	if (sending.error != 0) {
		errno = sending.error;
		return -1;
	}
	return send(fd, p, sending.most > 0 && n > sending.most ? sending.most : n, flags);
}

#define send	send_noted
#include "agent/loop/sock_answer.c"
#undef send

struct line {
	struct world w;
	struct agent a;
	struct peer p;			/* writes frames */
	int fd;				/* HAProxy's end */
	union sockaddr_any from;
};

static void write_frames(struct line *l)
{
	if (l->p.in.n > 0)
		assert_int_equal(write(l->fd, l->p.in.p, l->p.in.n), l->p.in.n);
	l->p.in.n = 0;
}

static void some_turns(void)
{
	for (unsigned i = 0; i < 4; i++)
		ev_run(sending.w->loop, EVRUN_NOWAIT);
}

/* HAProxy's bytes so far arrive. */
static void arrive(struct line *l)
{
	write_frames(l);
	some_turns();
}

/* Read what came; returns false at the end of the connection. */
static bool came(struct line *l)
{
	ssize_t n = read(l->fd, l->p.out.p + l->p.out.n, l->p.out.cap - l->p.out.n);

	if (n > 0)
		l->p.out.n += (size_t)n;
	return n > 0 || (n < 0 && errno == EAGAIN);
}

static void line_open(struct line *l)
{
	struct err e;
	int fd[2];

	memset(l, 0, sizeof(*l));
	memset(&sending, 0, sizeof(sending));
	world_start(&l->w);
	l->a.route = l->w.r;
	l->a.tune = (struct tune){
		.max_connections = 8, .max_feeds = 8, .hello_timeout_ms = 10000, .idle_timeout_ms = 10000,
		.drain_ms = 1000, .timeout_processing_ms = 1000, .max_frame_size = 1 << 18,
		.max_joined = 65536, .max_open = 4, .send_buffer = 65536,
	};
	budget_set(&l->a.budget, 16 << 20);
	sending.w = worker_new(&l->a, 0, &e);
	assert_non_null(sending.w);
	l->a.worker[0] = sending.w;
	l->a.n_workers = l->a.n_accepting = 1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	l->from.sa.sa_family = AF_UNIX;
	l->fd = fd[0];
	sock_open(sending.w, fd[1], &l->from);
	peer_connect(&l->p, &l->w);		/* only its frames are used */
	say_hello(&l->p, 16380);
	arrive(l);
	assert_true(came(l));
	assert_true(answered(&l->p, "AGENT-HELLO"));
	forget(&l->p);
	sending.n = sending.unfinished = 0;
}

static void line_close(struct line *l)
{
	sock_close_all(sending.w);
	assert_int_equal(l->a.n_conns, 0);
	worker_free(sending.w);
	assert_int_equal(l->a.budget.used, 0);
	peer_end(&l->p);
	close(l->fd);
	world_end(&l->w);
}

static void the_answer_is_sent_first(void **state)
{
	struct line l;

	(void)state;
	line_open(&l);
	notify_route(&l.p, 1, "u", "ab");
	arrive(&l);
	assert_int_equal(sending.n, 1);
	assert_int_equal(sending.unfinished, 1);
	assert_false(sending.w->env.unfinished.any);
	assert_int_equal(stats(&l.w).index.claims, 1);
	assert_true(came(&l));
	assert_true(answered(&l.p, "txn.server=\"s1\""));
	line_close(&l);
}

static void frames_of_one_read_are_one_send(void **state)
{
	struct line l;

	(void)state;
	line_open(&l);
	notify_route(&l.p, 1, "u", "ab");
	notify_route(&l.p, 2, "v", "cd");
	notify_done(&l.p, 1, "u", "s1", 200);
	notify_route(&l.p, 3, "w", "ef");
	arrive(&l);
	assert_int_equal(sending.n, 1);
	assert_int_equal(sending.unfinished, 1);
	assert_true(came(&l));
	assert_int_equal(count_acks(&l.p), 4);
	assert_int_equal(stats(&l.w).index.claims, 2);
	assert_int_equal(stats(&l.w).open, 2);
	line_close(&l);
}

/* The peer has gone, or takes nothing more: the decision is finished before its bytes are freed. */
static void a_send_that_fails(void **state)
{
	static const struct { int error; size_t most; unsigned open; } cases[] = {
		{ ECONNRESET, 0, 0 }, { EPIPE, 0, 0 }, { EAGAIN, 0, 1 }, { 0, 5, 1 },
	};
	struct line l;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		line_open(&l);
		sending.error = cases[i].error;
		sending.most = cases[i].most;
		notify_route(&l.p, 1, "u", "ab");
		arrive(&l);
		assert_true(sending.unfinished >= 1);
		assert_false(sending.w->env.unfinished.any);
		assert_int_equal(stats(&l.w).index.claims, 1);
		assert_int_equal(sending.w->socks_count.open, cases[i].open);
		assert_int_equal(came(&l), cases[i].open > 0);
		line_close(&l);
	}
}

/* HAProxy sends a request and closes; or the frame after it is bad. */
static void the_connection_ends_with_the_request(void **state)
{
	struct line l;

	(void)state;
	line_open(&l);
	notify_route(&l.p, 1, "u", "ab");
	assert_int_equal(write(l.fd, l.p.in.p, l.p.in.n), l.p.in.n);
	l.p.in.n = 0;
	shutdown(l.fd, SHUT_WR);
	arrive(&l);
	assert_int_equal(sending.w->socks_count.open, 0);
	assert_int_equal(stats(&l.w).index.claims, 1);
	line_close(&l);

	line_open(&l);
	notify_route(&l.p, 1, "u", "ab");
	frame_bytes(&l.p, "GET / HTTP/1.1\r\n\r\n", 18);
	arrive(&l);
	assert_true(came(&l));
	assert_int_equal(count_acks(&l.p), 1);
	assert_true(answered(&l.p, "AGENT-DISCONNECT"));
	assert_false(sending.w->env.unfinished.any);
	assert_int_equal(stats(&l.w).index.claims, 1);
	line_close(&l);
}

/* In a drain the last answer and the goodbye are one send; then the decision is finished. */
static void a_drain(void **state)
{
	struct line l;

	(void)state;
	line_open(&l);
	sending.w->draining = true;
	notify_route(&l.p, 1, "u", "ab");
	arrive(&l);
	assert_int_equal(sending.n, 1);
	assert_int_equal(sending.unfinished, 1);
	assert_false(sending.w->env.unfinished.any);
	assert_int_equal(stats(&l.w).index.claims, 1);
	assert_true(came(&l));
	assert_true(answered(&l.p, "AGENT-DISCONNECT"));
	line_close(&l);
}

/* ---- how long frames waited ------------------------------------------------------------------ */

static struct sock *only_sock(void)
{
	return list_entry(sending.w->socks[SOCK_OPEN].next, struct sock, link);
}

static void *write_later(void *line)
{
	struct line *l = line;

	usleep(5000);
	assert_int_equal(write(l->fd, l->p.in.p, l->p.in.n), l->p.in.n);
	return NULL;
}

/* HAProxy's bytes so far arrive while the thread has nothing to do. */
static void arrive_later(struct line *l)
{
	uint64_t reads = only_sock()->arrivals.read;
	pthread_t writer;

	assert_int_equal(pthread_create(&writer, NULL, write_later, l), 0);
	while (only_sock()->arrivals.read == reads)
		ev_run(sending.w->loop, EVRUN_ONCE);
	pthread_join(writer, NULL);
	l->p.in.n = 0;
}

/* The last read filled the buffer with the last bytes, so the socket is listed, and then the thread
 * slept: what comes next is judged by its own age. */
static void a_listed_socket_rests(void **state)
{
	struct line l;
	struct sock *s;

	(void)state;
	line_open(&l);
	s = only_sock();
	s->arrivals.wait = SERVE_LATE;
	s->arrivals.more = true;
	list_append(&sending.w->ready, &s->ready);
	notify_route(&l.p, 1, "u", "ab");
	arrive_later(&l);
	assert_int_equal(s->arrivals.wait, SERVE_IN_TIME);
	line_close(&l);
}

/* While the peer reads no answers, what waits in the socket ages, and that is no rest. */
static void bytes_wait_in_a_pause(void **state)
{
	struct line l;
	struct sock *s;
	usec paused;

	(void)state;
	line_open(&l);
	s = only_sock();
	sending.error = EAGAIN;
	for (uint32_t i = 0; l.p.in.n < SOCK_IN_FIRST + 100; i++)
		notify_route(&l.p, i, "u", "ab");
	arrive(&l);
	assert_int_equal(sending.w->socks_count.paused, 1);
	paused = clock_usec();
	s->arrivals.wait = SERVE_HURRY;
	usleep(2000);
	sending.error = 0;
	arrive(&l);
	assert_true(s->arrivals.since < paused);
	assert_int_equal(s->arrivals.wait, SERVE_HURRY);
	line_close(&l);
}

/* The same if they came after the last read, which took all that was there. */
static void bytes_come_before_a_pause(void **state)
{
	struct line l;
	struct sock *s;

	(void)state;
	line_open(&l);
	s = only_sock();
	notify_route(&l.p, 1, "u", "ab");
	write_frames(&l);
	notify_route(&l.p, 2, "u", "ab");
	sending.later = &l;
	sending.error = EAGAIN;
	some_turns();
	assert_int_equal(sending.w->socks_count.paused, 1);
	assert_false(s->arrivals.more);
	s->arrivals.wait = SERVE_HURRY;
	usleep(2000);
	sending.error = 0;
	some_turns();
	assert_int_equal(s->arrivals.n, 0);
	assert_int_equal(s->arrivals.wait, SERVE_HURRY);
	line_close(&l);
}

/* ---- spare buffers -------------------------------------------------------------------------- */

#define LONG	100000u		/* bytes of a long frame */
#define HALF	60000u		/* of them in its first part */
#define CROWD	(LARGE_SPARES + 2)

struct crowd {
	struct line l;
	int fd[CROWD];
};

static void connect_another(struct line *l)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	sock_open(sending.w, fd[1], &l->from);
	l->fd = fd[0];
	say_hello(&l->p, 1 << 18);
	arrive(l);
}

static void crowd_open(struct crowd *c)
{
	line_open(&c->l);
	close(c->l.fd);
	for (unsigned i = 0; i < CROWD; i++) {
		connect_another(&c->l);
		c->fd[i] = c->l.fd;
	}
	forget(&c->l.p);
}

static void crowd_close(struct crowd *c)
{
	for (unsigned i = 1; i < CROWD; i++)
		close(c->fd[i]);
	c->l.fd = c->fd[0];
	line_close(&c->l);
}

static void write_long(struct peer *p)
{
	static char text[LONG];

	memset(text, 'p', sizeof(text));
	notify_begin(p, 1, 1);
	message(p, "unknown");
	arg_bin(p, "text", (struct span){ text, LONG });
	frame_end(p);
}

/* The first <n> connections send a part of a long frame. */
static void send_part(struct crowd *c, unsigned n, size_t from, size_t to)
{
	struct peer *p = &c->l.p;
	struct spop_wr all;

	write_long(p);
	all = p->in;
	if (to > all.n)
		to = all.n;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(write(c->fd[i], all.p + from, to - from), to - from);
		p->in.n = 0;
		arrive(&c->l);
	}
}

static void send_long_frames(struct crowd *c, unsigned n)
{
	send_part(c, n, 0, HALF);
	send_part(c, n, HALF, SIZE_MAX);
}

static void large_buffers_are_used_again(void **state)
{
	struct worker *w;
	struct crowd c;
	uint64_t used;

	(void)state;
	crowd_open(&c);
	w = sending.w;
	send_long_frames(&c, CROWD);
	assert_int_equal(w->n_large, LARGE_SPARES);
	assert_true(w->spare_in.cap > SOCK_IN_FIRST);
	used = c.l.a.budget.used;
	for (unsigned i = 0; i < 3; i++) {
		send_part(&c, LARGE_SPARES + 1, 0, HALF);
		assert_int_equal(w->n_large, 0);
		assert_int_equal(c.l.a.budget.used, used + w->spare_in.cap);
		assert_int_equal(w->spare_in.cap, SOCK_IN_FIRST);
		send_part(&c, LARGE_SPARES + 1, HALF, SIZE_MAX);
		assert_int_equal(w->n_large, LARGE_SPARES);
		assert_int_equal(c.l.a.budget.used, used);
	}
	assert_int_equal(w->count.notifies, CROWD + 3 * (LARGE_SPARES + 1));
	crowd_close(&c);
}

static void spare_buffers_are_wiped(void **state)
{
	static const uint8_t zero[LONG];
	struct crowd c;

	(void)state;
	crowd_open(&c);
	send_long_frames(&c, CROWD);
	for (unsigned i = 0; i < LARGE_SPARES; i++)
		assert_true(sending.w->large_in[i].top > HALF);
	sock_wipe_spares(sending.w);
	for (unsigned i = 0; i < LARGE_SPARES; i++)
		assert_memory_equal(sending.w->large_in[i].p, zero, LONG);
	assert_memory_equal(sending.w->spare_in.p, zero, LONG);
	crowd_close(&c);
}

static void large_buffers_are_freed_when_none_come(void **state)
{
	struct crowd c;

	(void)state;
	crowd_open(&c);
	send_long_frames(&c, CROWD);
	for (unsigned i = 0; i < 4; i++)
		sock_sweep(sending.w, 0);
	assert_int_equal(sending.w->n_large, LARGE_SPARES);
	sock_sweep(sending.w, 0);
	assert_int_equal(sending.w->n_large, 0);
	assert_int_equal(c.l.a.budget.used, SOCK_IN_FIRST + SOCK_OUT_BYTES);
	crowd_close(&c);
}

/* The first connection sends a long frame and 10 bytes of the next one. Returns it. */
static struct sock *send_frame_and_rest(struct crowd *c)
{
	struct peer *p = &c->l.p;
	size_t n;

	send_part(c, 1, 0, HALF);
	write_long(p);
	n = p->in.n;
	write_long(p);
	assert_int_equal(write(c->fd[0], p->in.p + HALF, n + 10 - HALF), n + 10 - HALF);
	p->in.n = 0;
	arrive(&c->l);
	return list_entry(sending.w->socks[SOCK_OPEN].prev, struct sock, link);
}

static void a_short_rest_leaves_its_large_buffer(void **state)
{
	struct worker *w;
	struct crowd c;
	struct sock *s;

	(void)state;
	crowd_open(&c);
	w = sending.w;
	s = send_frame_and_rest(&c);
	assert_int_equal(s->in.n, 10);
	assert_int_equal(s->in.cap, SOCK_IN_FIRST);
	assert_int_equal(s->in.top, 10);
	assert_true(w->spare_in.cap > SOCK_IN_FIRST);
	assert_true(w->spare_in.top > HALF);
	crowd_close(&c);
}

/* If there is no small buffer, the large one stays, without the bytes that were used. */
static void a_short_rest_stays_if_there_is_no_memory(void **state)
{
	static const uint8_t zero[LONG];
	struct crowd c;
	struct sock *s;

	(void)state;
	crowd_open(&c);
	send_long_frames(&c, CROWD);
	budget_set(&c.l.a.budget, c.l.a.budget.used);	/* all spare buffers are large */
	s = send_frame_and_rest(&c);
	assert_int_equal(s->in.n, 10);
	assert_true(s->in.cap > SOCK_IN_FIRST);
	assert_true(s->in.at > LONG);
	assert_memory_equal(s->in.p, zero, LONG);
	assert_int_equal(s->in.top, s->in.at + 10);
	crowd_close(&c);
}

static void large_buffers_are_freed_while_a_frame_waits(void **state)
{
	struct crowd c;

	(void)state;
	crowd_open(&c);
	send_long_frames(&c, CROWD);
	send_frame_and_rest(&c);
	for (unsigned i = 0; i < 6; i++)
		sock_sweep(sending.w, 0);
	assert_int_equal(sending.w->n_large, 0);
	assert_int_equal(sending.w->spare_in.cap, SOCK_IN_FIRST);
	assert_int_equal(c.l.a.budget.used, 2 * SOCK_IN_FIRST + SOCK_OUT_BYTES);
	crowd_close(&c);
}

static void no_large_buffer_is_kept_above_half_of_the_budget(void **state)
{
	struct crowd c;

	(void)state;
	crowd_open(&c);
	send_part(&c, CROWD, 0, HALF);
	budget_set(&c.l.a.budget, c.l.a.budget.used);
	send_part(&c, 2, HALF, SIZE_MAX);
	assert_int_equal(sending.w->n_large, 0);
	crowd_close(&c);

	crowd_open(&c);
	send_long_frames(&c, CROWD);
	assert_int_equal(sending.w->n_large, LARGE_SPARES);
	budget_set(&c.l.a.budget, c.l.a.budget.used);
	sock_sweep(sending.w, 0);
	assert_int_equal(sending.w->n_large, 0);
	crowd_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_is_sent_first),
		cmocka_unit_test(frames_of_one_read_are_one_send),
		cmocka_unit_test(a_send_that_fails),
		cmocka_unit_test(the_connection_ends_with_the_request),
		cmocka_unit_test(a_drain),
		cmocka_unit_test(a_listed_socket_rests),
		cmocka_unit_test(bytes_wait_in_a_pause),
		cmocka_unit_test(bytes_come_before_a_pause),
		cmocka_unit_test(large_buffers_are_used_again),
		cmocka_unit_test(spare_buffers_are_wiped),
		cmocka_unit_test(large_buffers_are_freed_when_none_come),
		cmocka_unit_test(a_short_rest_leaves_its_large_buffer),
		cmocka_unit_test(a_short_rest_stays_if_there_is_no_memory),
		cmocka_unit_test(large_buffers_are_freed_while_a_frame_waits),
		cmocka_unit_test(no_large_buffer_is_kept_above_half_of_the_budget),
	};

	return cmocka_run_group_tests_name("loop sock", tests, NULL, NULL);
}
