/* test_poll_client.c - a peer that is polled repeatedly: kept and lost connections, timeouts,
 * refused connections. Peer and client share a loop; the peer follows its script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/loop/connect_ports_in.h"
#include "agent/loop/engine_url.h"
#include "agent/loop/poll_client_in.h"
#include "agent/os/clock.h"

static struct world {
	struct ev_loop *loop;
	struct listener listener;
	ev_io accept, peer;
	ev_timer limit;
	struct poll_client client;
	/* how the peer reacts to a request */
	bool closes;		/* after its answer */
	bool closes_first;	/* without an answer */
	bool silent;
	bool dribbles;		/* a byte at a time */
	enum poll_client_reply says;
	/* results */
	int accepted, questions, answered, failed, begun;
	char got[64], error[80];
	size_t n_got;
	int until;		/* stop after so many answers and failures */
} w;

#define ANSWER	"1 2 3."
#define HANG_MS	180000

/* ---- the peer --------------------------------------------------------------------------- */

static void answer(int fd)
{
	if (w.closes_first) {
		ev_io_stop(w.loop, &w.peer);
		close(fd);
		return;
	}
	for (size_t i = 0; !w.silent && i < strlen(ANSWER); i += w.dribbles ? 1 : strlen(ANSWER))
		assert_true(send(fd, &ANSWER[i], w.dribbles ? 1 : strlen(ANSWER), MSG_NOSIGNAL) > 0);
	if (w.closes) {
		ev_io_stop(w.loop, &w.peer);
		close(fd);
	}
}

static void on_peer(struct ev_loop *loop, ev_io *io, int revents)
{
	char buf[64];
	ssize_t n = recv(io->fd, buf, sizeof(buf), 0);

	if (n <= 0) {
		ev_io_stop(loop, io);
		close(io->fd);
		return;
	}
	assert_int_equal(n, 2);
	assert_memory_equal(buf, "?\n", 2);
	w.questions++;
	answer(io->fd);
}

static void on_accept(struct ev_loop *loop, ev_io *io, int revents)
{
	int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	assert_true(fd >= 0);
	w.accepted++;
	if (ev_is_active(&w.peer)) {
		ev_io_stop(loop, &w.peer);
		close(w.peer.fd);
	}
	ev_io_set(&w.peer, fd, EV_READ);
	ev_io_start(loop, &w.peer);
}

/* ---- the owner -------------------------------------------------------------------------- */

static void begin(void *arg)
{
	w.begun++;
	w.n_got = 0;
}

static enum poll_client_reply take(void *arg, const char *p, size_t n)
{
	if (n == 0)
		return POLL_CLIENT_BAD;
	assert_true(n < sizeof(w.got) - w.n_got);
	memcpy(w.got + w.n_got, p, n);
	w.n_got += n;
	return w.got[w.n_got - 1] == '.' ? w.says : POLL_CLIENT_MORE;
}

static void over(void *arg, const char *error)
{
	if (error == NULL) {
		assert_int_equal(w.n_got, strlen(ANSWER));
		assert_true(poll_client_holds_ms(&w.client) >= 3 * w.client.interval_ms);
		w.answered++;
	} else {
		snprintf(w.error, sizeof(w.error), "%s", error);
		w.failed++;
	}
	if (w.answered + w.failed >= w.until)
		ev_break(w.loop, EVBREAK_ALL);
}

static void on_limit(struct ev_loop *loop, ev_timer *t, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

/* ---- a story ---------------------------------------------------------------------------- */

static void start(const char *listen)
{
	struct err e;

	memset(&w, 0, sizeof(w));
	assert_non_null(w.loop = ev_loop_new(0));
	assert_int_equal(listener_open(&w.listener, listen, SOCK_STREAM, 0600, &e), 0);
	ev_io_init(&w.accept, on_accept, w.listener.fd, EV_READ);
	ev_io_start(w.loop, &w.accept);
	ev_io_init(&w.peer, on_peer, -1, EV_READ);
	ev_timer_init(&w.limit, on_limit, 0., 0.);
	w.says = POLL_CLIENT_KEEP;
	w.client = (struct poll_client){
		.loop = w.loop,
		.to = w.listener.addr,
		.request = SPAN("?\n"),
		.interval_ms = 10,
		.timeout_ms = HANG_MS,
		.begin = begin,
		.feed = take,
		.ended = over,
	};
}

/* Run until <until> polls have ended. The limit only matters if the loop hangs. */
static void go(int until)
{
	w.until = until;
	ev_now_update(w.loop);
	ev_timer_set(&w.limit, HANG_MS / 1e3, 0.);
	ev_timer_start(w.loop, &w.limit);
	poll_client_start(&w.client, 0);
	ev_run(w.loop, 0);
}

static void finish(void)
{
	poll_client_stop(&w.client);
	if (ev_is_active(&w.peer))
		close(w.peer.fd);
	listener_close(&w.listener, NULL);
	ev_loop_destroy(w.loop);
}

static void a_connection_is_kept(void **state)
{
	start("127.0.0.1:0");
	go(6);
	assert_int_equal(w.answered, 6);
	assert_int_equal(w.accepted, 1);
	assert_int_equal(w.questions, 6);
	finish();
}

static void on_a_unix_socket_too(void **state)
{
	char path[80];

	snprintf(path, sizeof(path), "unix@/tmp/kvroute-client-%d.sock", (int)getpid());
	start(path);
	w.dribbles = true;
	w.says = POLL_CLIENT_CLOSE;		/* the owner closes it */
	go(4);
	assert_int_equal(w.answered, 4);
	assert_int_equal(w.accepted, 4);
	finish();
}

/* The peer closes after each answer. The client notices at once, or with the next request, which
 * it then sends on a new connection. */
static void a_kept_connection_is_closed(void **state)
{
	start("127.0.0.1:0");
	w.closes = true;
	go(5);
	assert_int_equal(w.answered, 5);
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.accepted, 5);
	finish();
}

static void closed_during_a_request(void **state)
{
	start("127.0.0.1:0");
	go(1);
	assert_int_equal(w.answered, 1);
	w.closes_first = true;
	w.until = 2;
	ev_run(w.loop, 0);		/* lost, sent again on a new connection, lost again: a failure */
	assert_int_equal(w.questions, 3);
	assert_int_equal(w.accepted, 2);
	assert_int_equal(w.failed, 1);
	assert_string_equal(w.error, "closed without an answer");
	w.closes_first = false;
	w.until = 3;
	ev_run(w.loop, 0);
	assert_int_equal(w.answered, 2);
	finish();
}

static void peer_does_not_answer(void **state)
{
	usec began = clock_usec();

	start("127.0.0.1:0");
	w.silent = true;
	w.client.timeout_ms = 30;
	go(2);
	assert_int_equal(w.failed, 2);
	assert_string_equal(w.error, "no answer in time");
	assert_true(clock_usec() - began >= 2 * 30000);
	w.client.timeout_ms = HANG_MS;
	w.silent = false;
	w.until = 3;
	ev_run(w.loop, 0);
	assert_int_equal(w.answered, 1);
	assert_int_equal(w.client.failures, 0);
	finish();
}

/* Six attempts, with pauses of at least 10, 20, 40, 80 and 160 ms. */
static void no_peer_listens(void **state)
{
	usec began = clock_usec();

	start("127.0.0.1:0");
	ev_io_stop(w.loop, &w.accept);
	listener_close(&w.listener, NULL);
	go(6);
	assert_string_equal(w.error, strerror(ECONNREFUSED));
	assert_int_equal(w.failed, 6);
	assert_int_equal(w.begun, 6);
	assert_true(clock_usec() - began >= 310000);
	assert_int_equal(w.answered, 0);
	finish();
}

static void an_answer_that_makes_no_sense(void **state)
{
	start("127.0.0.1:0");
	w.says = POLL_CLIENT_BAD;
	go(2);
	assert_int_equal(w.failed, 2);
	assert_string_equal(w.error, "");
	assert_int_equal(w.accepted, 2);
	finish();
}

static void unrequested_bytes(void **state)
{
	start("127.0.0.1:0");
	w.client.interval_ms = 60;
	go(1);
	assert_int_equal(send(w.peer.fd, "hello", 5, MSG_NOSIGNAL), 5);
	w.until = 2;
	ev_run(w.loop, 0);
	assert_int_equal(w.answered, 2);
	assert_int_equal(w.accepted, 2);	/* earlier bytes are no answer */
	finish();
}

/* ---- where ------------------------------------------------------------------------------ */

static const struct { const char *text, *host, *path; int family, port;
} targets[] = {
	{ "127.0.0.1:8000", "127.0.0.1:8000", "/metrics", AF_INET, 8000 },
	{ "http://127.0.0.1:80", "127.0.0.1:80", "/metrics", AF_INET, 80 },
	{ "http://[::1]:8000/prometheus/metrics?x=1", "[::1]:8000", "/prometheus/metrics?x=1",
	    AF_INET6, 8000 },
	{ "10.0.0.1:8000/m", "10.0.0.1:8000", "/m", AF_INET, 8000 },
	{ "unix@/run/e/1.sock", "localhost", "/metrics", AF_UNIX, 0 },
};

static void where_to_ask(void **state)
{
	struct engine_url t;
	struct err e;

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		assert_int_equal(engine_url_parse(targets[i].text, &t, &e), 0);
		assert_string_equal(t.host, targets[i].host);
		assert_string_equal(t.path, targets[i].path);
		assert_int_equal(t.to.a.sa.sa_family, targets[i].family);
		if (targets[i].family != AF_UNIX)
			assert_int_equal(ntohs(t.to.a.in.sin_port), targets[i].port);
	}
	assert_int_equal(engine_url_parse("", &t, &e), -1);
	assert_int_equal(engine_url_parse("gpu1:8000", &t, &e), -1);
	assert_int_equal(engine_url_parse("http://", &t, &e), -1);
}

static void ports_that_a_reload_may_use(void **state)
{
	struct engine_opts engines[2] = { { .metrics = "10.0.0.1:8000" },
		{ .metrics = "http://10.0.0.2:8000/x" } };
	struct loop_opts o = { .n_engines = 2, .engines = engines }, none = { .n_engines = 0 };
	struct connect_ports have, want, nothing;
	struct err e;

	connect_ports_of(&none, &nothing);
	assert_false(nothing.any);
	connect_ports_of(&o, &have);
	assert_true(have.any);
	assert_true(connect_ports_has(&have, 8000));
	assert_false(connect_ports_has(&have, 8001));
	assert_int_equal(connect_ports_cover(&have, true, &nothing, &e), 0);
	assert_int_equal(connect_ports_cover(&nothing, true, &nothing, &e), 0);
	assert_int_equal(connect_ports_cover(&nothing, false, &have, &e), -1);
	strcpy(engines[0].metrics, "unix@/run/x.sock");
	strcpy(o.stats[0], "unix@/run/y.sock");
	connect_ports_of(&o, &want);
	assert_int_equal(connect_ports_cover(&have, true, &want, &e), 0);
	strcpy(o.stats[1], "127.0.0.1:9999");
	connect_ports_of(&o, &want);
	assert_int_equal(connect_ports_cover(&have, false, &want, &e), 0);
	assert_int_equal(connect_ports_cover(&have, true, &want, &e), -1);
	assert_non_null(strstr(e.text, "9999"));
}

static void ports_of_events(void **state)
{
	struct engine_opts engines[3] = {
		{ .events = { .endpoint = "tcp://10.0.0.1:5557", .replay = "tcp://10.0.0.1:6000", .ranks = 2 } },
		{ .metrics = "{address}:8000", .events = { .endpoint = "tcp://{address}:65530" } },
		{ .events = { .endpoint = "ipc:///run/x" } } };
	struct loop_opts o = { .n_engines = 3, .engines = engines };
	struct connect_ports have, want;
	uint32_t n = 0;
	struct err e;

	connect_ports_of(&o, &have);
	for (uint32_t p = 0; p <= UINT16_MAX; p++)
		n += connect_ports_has(&have, (uint16_t)p);
	assert_int_equal(n, 2 + 2 + 1 + 6);	/* the ranks of the second are not known */
	assert_true(connect_ports_has(&have, 5557) && connect_ports_has(&have, 5558));
	assert_true(connect_ports_has(&have, 6000) && connect_ports_has(&have, 6001));
	assert_true(connect_ports_has(&have, 8000) && connect_ports_has(&have, 65535));
	engines[0].events.ranks = 3;
	connect_ports_of(&o, &want);
	assert_int_equal(connect_ports_cover(&have, true, &want, &e), -1);
	assert_non_null(strstr(e.text, "5559"));
	strcpy(engines[1].metrics, "{address}:{port}");
	connect_ports_of(&o, &want);
	assert_true(want.every && connect_ports_has(&want, 1));
	assert_int_equal(connect_ports_cover(&have, true, &want, &e), -1);
	assert_non_null(strstr(e.text, "{port}"));
	assert_int_equal(connect_ports_cover(&have, false, &want, &e), 0);
	assert_int_equal(connect_ports_cover(&want, true, &have, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_is_kept),
		cmocka_unit_test(on_a_unix_socket_too),
		cmocka_unit_test(a_kept_connection_is_closed),
		cmocka_unit_test(closed_during_a_request),
		cmocka_unit_test(peer_does_not_answer),
		cmocka_unit_test(no_peer_listens),
		cmocka_unit_test(an_answer_that_makes_no_sense),
		cmocka_unit_test(unrequested_bytes),
		cmocka_unit_test(where_to_ask),
		cmocka_unit_test(ports_that_a_reload_may_use),
		cmocka_unit_test(ports_of_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
