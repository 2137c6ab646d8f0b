/* noop_spoa ADDR [SERVER] - a minimal SPOE agent: it ACKs every NOTIFY without reading it.
 *
 * It measures the cost of any agent in HAProxy, for comparison. The ACK sets txn.server (SERVER,
 * default s1), txn.why and txn.more, so that the rules of the recipe run as with kvroute. One
 * thread, one read and one write for each wakeup, TCP_NODELAY. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "spoe/spop.h"
#include "tests/tools/lib/addr.h"

#define IN_MAX	(1u << 20)
#define OUT_MAX	(1u << 16)

struct conn {
	int fd;
	struct spop_conn spop;
	uint8_t *in;
	size_t n;
};

static const char *server = "s1";

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void conn_open(int ep, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	struct spop_conn_opts o;
	int on = 1;

	if (c == NULL || (c->in = malloc(IN_MAX)) == NULL)
		die("noop_spoa");
	spop_conn_defaults(&o);
	spop_conn_init(&c->spop, &o);
	c->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		die("epoll_ctl");
}

static void conn_close(struct conn *c)
{
	close(c->fd);
	spop_conn_fini(&c->spop);
	free(c->in);
	free(c);
}

static void ack(struct conn *c, const struct spop_event *ev, struct spop_wr *out)
{
	struct spop_ack a;

	spop_ack_begin(&a, &c->spop, out, ev->stream_id, ev->frame_id);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "server", server, strlen(server));
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "more", 0);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "why", "noop", 4);
	spop_ack_end(&a);
}

/* False: the connection is over. */
static bool conn_work(struct conn *c)
{
	static uint8_t reply[OUT_MAX];
	struct spop_wr out = { reply, 0, sizeof(reply), false };
	ssize_t got = read(c->fd, c->in + c->n, IN_MAX - c->n), used;
	struct spop_event ev;
	size_t at = 0;

	if (got <= 0)
		return false;
	c->n += (size_t)got;
	while ((used = spop_conn_next(&c->spop, c->in + at, c->n - at, &out, &ev)) > 0) {
		at += (size_t)used;
		if (ev.kind == SPOP_EV_NOTIFY)
			ack(c, &ev, &out);
	}
	memmove(c->in, c->in + at, c->n - at);
	c->n -= at;
	if (out.n > 0 && write(c->fd, reply, out.n) != (ssize_t)out.n)
		return false;
	return c->spop.state != SPOP_CONN_CLOSED;
}

int main(int argc, char **argv)
{
	struct epoll_event ev = { .events = EPOLLIN }, got[64];
	struct addr a;
	struct err e;
	int ep = epoll_create1(0), ls, n, fd;

	if (argc < 2 || addr_parse(&a, argv[1], &e) < 0 || (ls = addr_listen(&a, &e)) < 0) {
		fprintf(stderr, "noop_spoa ADDR [SERVER]: %s\n", argc < 2 ? "no address" : e.text);
		return 2;
	}
	if (argc > 2)
		server = argv[2];
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ev) < 0)
		die("epoll");
	for (;;) {
		n = epoll_wait(ep, got, 64, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = got[i].data.ptr;

			if (c != NULL) {
				if (!conn_work(c))
					conn_close(c);
			} else if ((fd = accept(ls, NULL, NULL)) >= 0) {
				conn_open(ep, fd);
			}
		}
	}
}
