/* test_sock.c - a SPOP connection on its socket: the answers are sent before the last decision is
 * finished, and it is finished whatever becomes of the connection. This file includes sock_answer.c
 * with a send() of its own. */
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
} sending;

static ssize_t send_noted(int fd, const void *p, size_t n, int flags)
{
	sending.n++;
	sending.unfinished += sending.w->env.unfinished.any;
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

/* HAProxy's bytes so far arrive. */
static void arrive(struct line *l)
{
	if (l->p.in.n > 0)
		assert_int_equal(write(l->fd, l->p.in.p, l->p.in.n), l->p.in.n);
	l->p.in.n = 0;
	for (unsigned i = 0; i < 4; i++)
		ev_run(sending.w->loop, EVRUN_NOWAIT);
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
		.drain_ms = 1000, .timeout_processing_ms = 1000, .max_frame_size = 16384,
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_is_sent_first),
		cmocka_unit_test(frames_of_one_read_are_one_send),
		cmocka_unit_test(a_send_that_fails),
		cmocka_unit_test(the_connection_ends_with_the_request),
		cmocka_unit_test(a_drain),
	};

	return cmocka_run_group_tests_name("loop sock", tests, NULL, NULL);
}
