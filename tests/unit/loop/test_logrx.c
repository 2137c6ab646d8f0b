/* test_logrx.c - when a log feed is read. This file includes logrx.c with a recv() that counts. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define send	world_send		/* of world.h */
#include "tests/unit/route/world.h"
#undef send

static unsigned n_reads;

static ssize_t recv_counted(int fd, void *p, size_t n, int flags)
{
	n_reads++;
	return recv(fd, p, n, flags);
}

#define recv	recv_counted
#include "agent/loop/logrx.c"
#undef recv

struct fed {
	struct world w;
	struct agent a;
	struct logrx rx;
	int fd;			/* HAProxy's end */
};

static void fed_start(struct fed *t, bool by_messages)
{
	const union sockaddr_any from = { .sa.sa_family = AF_UNIX };
	int fd[2];

	memset(t, 0, sizeof(*t));
	n_reads = 0;
	world_start(&t->w);
	t->a.route = t->w.r;
	t->a.by_messages = by_messages;
	t->a.tune.max_feeds = 8;
	logrx_start(&t->rx, &t->a, ev_loop_new(EVFLAG_NOENV));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	t->fd = fd[0];
	feed_accept(&t->rx, fd[1], &from);
	assert_int_equal(t->rx.count.open, 1);
}

static void fed_end(struct fed *t)
{
	logrx_stop(&t->rx);
	ev_loop_destroy(t->rx.loop);
	close(t->fd);
	world_end(&t->w);
}

static const struct feed *the_feed(const struct fed *t)
{
	return list_entry(t->rx.conns.next, struct feed, link);
}

/* Send a line and handle what is ready. */
static void send_line(struct fed *t)
{
	static const char line[] = "{\"uid\":\"u\",\"be\":\"pool\",\"srv\":\"a\",\"st\":200}\n";

	assert_int_equal(write(t->fd, line, sizeof(line) - 1), sizeof(line) - 1);
	ev_run(t->rx.loop, EVRUN_NOWAIT);
}

/* Wait until the loop has no events for some time. */
static void pass(struct fed *t, unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		usleep(1000);
		ev_run(t->rx.loop, EVRUN_NOWAIT);
	}
}

/* A line that comes alone is read at once; of many in a row the first two are, the others together,
 * and after a quiet time the next one is read at once again. */
static void lines_share_a_read(void **state)
{
	struct fed t;
	unsigned reads;

	fed_start(&t, false);
	send_line(&t);
	assert_int_equal(t.rx.count.lines, 1);
	pass(&t, 10);
	send_line(&t);
	assert_int_equal(t.rx.count.lines, 2);
	for (unsigned i = 0; i < 100; i++)
		send_line(&t);
	pass(&t, 10);
	assert_int_equal(t.rx.count.lines, 102);
	assert_true(n_reads < 50);
	reads = n_reads;
	send_line(&t);
	assert_int_equal(t.rx.count.lines, 103);
	assert_int_equal(n_reads, reads + 1);
	fed_end(&t);
}

/* What waits is read before the end of the connection is seen, a part of a line included. */
static void the_end_waits_for_the_rest(void **state)
{
	static const char part[] = "{\"uid\":\"v\",\"be\":\"pool\",\"srv\":\"a\",\"st\":200}";
	struct fed t;

	fed_start(&t, false);
	for (unsigned i = 0; i < 10; i++)
		send_line(&t);
	assert_int_equal(write(t.fd, part, sizeof(part) - 1), sizeof(part) - 1);
	shutdown(t.fd, SHUT_WR);
	pass(&t, 20);
	assert_int_equal(t.rx.count.lines, 11);
	assert_int_equal(t.rx.count.open, 0);
	fed_end(&t);
}

/* Send more lines than one read takes. Returns how many. */
static unsigned send_many(struct fed *t)
{
	char lines[3 * READ_MAX];
	unsigned n = 0;
	size_t at = 0;

	for (; at + 64 < sizeof(lines); n++)
		at += (size_t)sprintf(lines + at, "{\"uid\":\"%u\",\"st\":200}\n", n);
	assert_int_equal(write(t->fd, lines, at), at);
	return n;
}

/* If a read is full, the next one follows at once, also of a connection that rested. */
static void much_is_read_at_once(void **state)
{
	struct fed t;
	unsigned n = 2;

	fed_start(&t, false);
	send_line(&t);
	send_line(&t);
	for (unsigned i = 0; i < 2; i++) {
		n += send_many(&t);
		while (t.rx.count.lines < n) {
			uint64_t read = t.rx.count.bytes;

			usleep(500);
			ev_run(t.rx.loop, EVRUN_NOWAIT);
			if (t.rx.count.bytes - read == READ_MAX)
				assert_true(ev_is_active(&the_feed(&t)->io));
		}
	}
	fed_end(&t);
}

/* What waits for the rest is read before the agent ends. */
static void a_stop_reads_what_waits(void **state)
{
	struct fed t;

	fed_start(&t, false);
	for (unsigned i = 0; i < 3; i++)
		send_line(&t);
	logrx_stop(&t.rx);
	assert_int_equal(t.rx.count.lines, 3);
	assert_int_equal(t.rx.count.open, 0);
	fed_end(&t);
}

/* With the time of messages no line may wait. */
static void simulations_read_each(void **state)
{
	struct fed t;

	fed_start(&t, true);
	for (unsigned i = 1; i <= 20; i++) {
		send_line(&t);
		assert_int_equal(t.rx.count.lines, i);
	}
	fed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_share_a_read),
		cmocka_unit_test(the_end_waits_for_the_rest),
		cmocka_unit_test(much_is_read_at_once),
		cmocka_unit_test(a_stop_reads_what_waits),
		cmocka_unit_test(simulations_read_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
