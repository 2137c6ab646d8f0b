/* test_admin.c - the metrics listener on a loop that the test runs turn by turn: a long page of
 * /decisions is written one step a turn, so that other watchers run in every turn. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <ev.h>

#include "agent/base/mem.h"
#include "agent/loop/admin_in.h"
#include "agent/loop/decisions_page_in.h"

/* world.h has its own <text> and <send> */
#define text	body_text
#define send	send_to_core
#include "tests/unit/route/world.h"
#undef send
#undef text

#define ASKED		4000u
#define TURNS_MOST	100000

static struct {
	struct world w;
	struct agent *agent;
	struct admin admin;
	struct ev_loop *loop;
	ev_io beside;		/* another watcher: one datagram a turn */
	int pair[2];
	unsigned turns, served;
	usec longest;		/* turn: printed, not judged */
} at;

static void on_beside(struct ev_loop *loop, ev_io *io, int revents)
{
	char c;

	at.served += recv(io->fd, &c, 1, 0) == 1;
}

static void render(void *arg, struct metric_page *p)
{
	page_addf(p->t, "figures%s%s\n", p->openmetrics ? " open" : "", p->shards ? " shards" : "");
}

static int setup(void **state)
{
	struct err e;
	char uid[16];

	memset(&at, 0, sizeof(at));
	signal(SIGPIPE, SIG_IGN);
	world_options(&at.w);
	at.w.o.decisions_keep = 4096;
	world_open(&at.w);
	for (unsigned i = 0; i < ASKED; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		ask(&at.w, uid, "a");
	}
	at.agent = mem_alloc(sizeof(*at.agent));
	at.loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	assert_true(at.agent != NULL && at.loop != NULL);
	at.agent->route = at.w.r;
	log_init(&at.agent->log, STDERR_FILENO, LOG_INFO);
	assert_int_equal(listener_open(&at.agent->metrics.l[0], "127.0.0.1:0", SOCK_STREAM, 0, &e), 0);
	at.agent->metrics.n = 1;
	at.admin.render = render;
	admin_start(&at.admin, at.agent, at.loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at.pair), 0);
	ev_io_init(&at.beside, on_beside, at.pair[1], EV_READ);
	ev_io_start(at.loop, &at.beside);
	return 0;
}

static int teardown(void **state)
{
	admin_stop(&at.admin);
	ev_io_stop(at.loop, &at.beside);
	ev_loop_destroy(at.loop);
	listener_close(&at.agent->metrics.l[0], NULL);
	log_fini(&at.agent->log);
	mem_free(at.agent);
	close(at.pair[0]);
	close(at.pair[1]);
	world_end(&at.w);
	return 0;
}

static int ask_for(const char *request)
{
	const struct addr *to = &at.agent->metrics.l[0].addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, &to->a.sa, to->len), 0);
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	return fd;
}

static struct buf got;

/* Run the loop until all <n> answers have come, with a datagram for the other watcher in each turn.
 * Returns the total bytes of the answers. */
static size_t turn_until_answered(const int *fd, size_t n)
{
	static char room[65536];
	usec start, took;
	size_t bytes = 0;
	ssize_t k;

	at.turns = at.served = 0;
	at.longest = 0;
	buf_free(&got);
	buf_start(&got, 64u << 20);
	for (size_t i = 0; i < n; at.turns++) {
		assert_true(at.turns < TURNS_MOST);
		assert_int_equal(send(at.pair[0], "x", 1, 0), 1);
		start = clock_usec();
		ev_run(at.loop, EVRUN_NOWAIT);
		took = clock_usec() - start;
		at.longest = took > at.longest ? took : at.longest;
		while (i < n && (k = recv(fd[i], room, sizeof(room), MSG_DONTWAIT)) >= 0) {
			buf_add(&got, room, (size_t)k);
			bytes += (size_t)k;
			if (k == 0)
				close(fd[i++]);
		}
	}
	return bytes;
}

static unsigned count(const struct buf *t, const char *what)
{
	unsigned n = 0;
	size_t len = strlen(what);

	for (const char *p = t->p; (p = memmem(p, t->n - (size_t)(p - t->p), what, len)) != NULL; p += len)
		n++;
	return n;
}

/* Counted in turns: the other watcher waits for one step and not for a page. */
static void a_long_page_takes_many_turns(void **state)
{
	int fd = ask_for("GET /decisions?n=4096 HTTP/1.1\r\n\r\n");
	size_t bytes = turn_until_answered(&fd, 1);

	assert_int_equal(count(&got, "{\"decision\":"), ASKED);
	assert_int_equal(count(&got, "HTTP/1.1 200 OK"), 1);
	assert_true(at.turns >= ASKED / DECISIONS_STEP);
	assert_true(at.turns >= bytes / ADMIN_SEND);
	assert_int_equal(at.served, at.turns);
	print_message(
	    "%zu bytes in %u turns, the longest %lld us\n", bytes, at.turns, (long long)at.longest);
}

/* All pages together get one step a turn, and each page gets its share. */
static void many_pages_share_turns(void **state)
{
	int fd[ADMIN_CONNS_MAX];
	size_t n = ADMIN_CONNS_MAX;

	for (size_t i = 0; i < n; i++)
		fd[i] = ask_for(i % 2 ? "GET /decisions?n=500 HTTP/1.1\r\n\r\n"
				      : "GET /decisions?n=500&format=lines HTTP/1.1\r\n\r\n");
	turn_until_answered(fd, n);
	assert_int_equal(count(&got, "HTTP/1.1 200 OK"), n);
	assert_int_equal(count(&got, "{\"decision\":") + count(&got, "{\"timestamp\":"), n * 500);
	assert_true(at.turns >= n * 500 / DECISIONS_STEP);
	assert_int_equal(at.served, at.turns);
}

/* Other pages are not delayed. A peer that disconnects, or closes its half, does no harm. */
static void others_are_answered_meanwhile(void **state)
{
	int gone = ask_for("GET /decisions?n=4096 HTTP/1.1\r\n\r\n"), fd[2];

	fd[1] = ask_for("GET /decisions?n=4096 HTTP/1.1\r\n\r\n");
	shutdown(fd[1], SHUT_WR);
	for (int i = 0; i < 20; i++)
		ev_run(at.loop, EVRUN_NOWAIT);
	assert_false(list_empty(&at.admin.pages));
	close(gone);
	fd[0] = ask_for("GET /metrics HTTP/1.1\r\n\r\n");
	turn_until_answered(fd, 1);
	assert_int_equal(count(&got, "figures\n"), 1);
	assert_false(list_empty(&at.admin.pages));
	turn_until_answered(fd + 1, 1);
	assert_int_equal(count(&got, "{\"decision\":"), ASKED);
	while (!list_empty(&at.admin.pages))
		ev_run(at.loop, EVRUN_NOWAIT);
}

/* The format and the rows of /metrics are as asked for. */
static void formats_of_metrics(void **state)
{
	static const struct { const char *request, *head, *body; } cases[] = {
		{ "GET /metrics HTTP/1.1\r\n\r\n", "text/plain; version=0.0.4; charset=utf-8",
		  "\r\n\r\nfigures\n" },
		{ "GET /metrics?shards=1 HTTP/1.1\r\nAccept: */*\r\n\r\n",
		  "text/plain; version=0.0.4; charset=utf-8", "\r\n\r\nfigures shards\n" },
		{ "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n",
		  "application/openmetrics-text; version=1.0.0; charset=utf-8", "\r\n\r\nfigures open\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = ask_for(cases[i].request);
		char type[128];

		turn_until_answered(&fd, 1);
		snprintf(type, sizeof(type), "\r\nContent-Type: %s\r\n", cases[i].head);
		assert_int_equal(count(&got, type), 1);
		assert_int_equal(count(&got, cases[i].body), 1);
	}
}

static void an_end_in_the_middle(void **state)
{
	int fd = ask_for("GET /decisions?n=4096 HTTP/1.1\r\n\r\n");

	for (int i = 0; i < 20; i++)
		ev_run(at.loop, EVRUN_NOWAIT);
	assert_false(list_empty(&at.admin.pages));
	admin_sweep(&at.admin, clock_msec() + ADMIN_MS);
	assert_true(list_empty(&at.admin.pages));
	close(fd);
	fd = ask_for("HEAD /decisions?n=4096 HTTP/1.1\r\n\r\n");
	turn_until_answered(&fd, 1);
	assert_int_equal(count(&got, "{\"decision\":"), 0);
	assert_int_equal(count(&got, "HTTP/1.1 200 OK"), 1);
	buf_free(&got);
}

int main(void)
{
#define T(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_long_page_takes_many_turns),
		T(many_pages_share_turns),
		T(others_are_answered_meanwhile),
		T(an_end_in_the_middle),
		T(formats_of_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
