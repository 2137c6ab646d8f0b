/* Receives log lines, which end with a newline. A connection keeps only the start of one line. A
 * line longer than LOGLINE_MAX is dropped and counted, so a feed holds at most 8 KiB. Each wake
 * does one read, so that feeds and scrapes share the thread. Lines that come close together wait
 * for a few milliseconds to share a wake. A feed may be silent for days; TCP keepalive finds a dead
 * peer, so there is no timeout.
 *
 * Trust: if a token is required, a line without it is only counted. A connection that has sent no
 * accepted line is the first to be closed when all places are taken, so that idle clients cannot
 * keep HAProxy out.
 *
 * The receive buffer for UDP is enlarged for bursts. HAProxy never repeats a datagram that the
 * kernel drops. Such drops are counted, and the ledger closes their requests by load and by age. */
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/base/count.h"
#include "agent/loop/logrx_in.h"
#include "agent/loop/wrong_protocol_in.h"
#include "agent/os/clock.h"

#define UDP_FEW		64		/* datagrams in one wake */
#define UDP_BUFFER	(1 << 20)
#define READ_MAX	16384
/* A connection that had lines twice within this time is read only once in it, until a read finds
 * none. A wake of this thread costs about 16 us of cold caches, a line 2 us (EPYC). */
#define REST_S		0.004

struct feed {
	struct list link;
	struct logrx *rx;
	ev_io io;
	ev_timer rest;		/* active: instead of <io> */
	double read_at;		/* time of the loop */
	bool skipping;		/* inside a line that is too long */
	bool proven;		/* has sent an accepted line */
	bool checked;		/* the first bytes were checked for a wrong protocol */
	union sockaddr_any peer;
	size_t n;		/* bytes in <start> */
	char start[LOGLINE_MAX];
};

_Static_assert(sizeof(struct feed) <= FEED_BYTES, "loop_budget() counts too little");

static void log_bad_line(struct logrx *rx, const char *msg, size_t n)
{
	struct log_line ln;

	if (log_begin(&ln, &rx->agent->log, LOG_WARN, LOG_FEED, msg)) {
		log_int(&ln, "bytes", (int64_t)n);
		log_end(&ln);
	}
}

/* With "log global" in HAProxy's defaults, notices about servers and lines of other frontends
 * arrive here as well. They are only counted. */
static void count_bad_line(struct logrx *rx, const char *p, size_t n)
{
	if (memchr(p, '{', n) == NULL) {
		count_add(&rx->count.lines_other, 1);
		route_line_plain(rx->agent->route);
	} else {
		count_add(&rx->count.lines_bad, 1);
		log_bad_line(rx, "log feed line ignored: it is not JSON with a uid", n);
	}
}

static bool token_accepted(struct logrx *rx, const struct fact *f, size_t n)
{
	const struct token *t = &rx->agent->feed_token;

	if (t->n == 0 || token_same(t, f->token))
		return true;
	if (f->token.n == 0) {
		count_add(&rx->count.no_token, 1);
		log_bad_line(rx, "log feed line ignored: it has no token", n);
	} else {
		count_add(&rx->count.wrong_token, 1);
		log_bad_line(rx, "log feed line ignored: it has a wrong token", n);
	}
	return false;
}

/* Returns true if the line was accepted. */
static bool handle_line(struct logrx *rx, const char *p, size_t n)
{
	struct fact f;
	int rc;

	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n == 0)
		return false;
	if (n > LOGLINE_MAX) {
		count_add(&rx->count.lines_long, 1);
		return false;
	}
	rc = logline_parse(&rx->line, p, n, &f);
	if ((rc == 0 || rc == LOGLINE_NAMELESS) && !token_accepted(rx, &f, n))
		return false;
	if (rc != 0) {
		count_bad_line(rx, p, n);
		if (rc == LOGLINE_NAMELESS)
			route_line_nameless(rx->agent->route, &f);
		return false;
	}
	count_add(&rx->count.lines, 1);
	route_learn(rx->agent->route, &f, agent_msec(rx->agent));
	return true;
}

/* ---- TCP -------------------------------------------------------------------------------- */

/* Handle the rest of a line whose start is in <f>. */
static void finish_line(struct feed *f, const char *p, size_t n)
{
	if (f->skipping || n > sizeof(f->start) - f->n) {
		count_add(&f->rx->count.lines_long, 1);
	} else {
		memcpy(f->start + f->n, p, n);
		f->proven |= handle_line(f->rx, f->start, f->n + n);
		mem_wipe(f->start, f->n + n);
	}
	f->skipping = false;
	f->n = 0;
}

static void keep_partial_line(struct feed *f, const char *p, size_t n)
{
	if (f->skipping || n > sizeof(f->start) - f->n) {
		mem_wipe(f->start, f->n);
		f->skipping = true;
		f->n = 0;
		return;
	}
	memcpy(f->start + f->n, p, n);
	f->n += n;
}

static void feed_bytes(struct feed *f, const char *p, size_t n)
{
	const char *lf;
	size_t len;

	while (n > 0 && (lf = memchr(p, '\n', n)) != NULL) {
		len = (size_t)(lf - p);
		if (f->n == 0 && !f->skipping)
			f->proven |= handle_line(f->rx, p, len);
		else
			finish_line(f, p, len);
		p += len + 1;
		n -= len + 1;
	}
	keep_partial_line(f, p, n);
}

static void feed_free(struct feed *f)
{
	mem_wipe(f->start, sizeof(f->start));
	count_add(&f->rx->count.open, (uint64_t)-1);
	ev_io_stop(f->rx->loop, &f->io);
	ev_timer_stop(f->rx->loop, &f->rest);
	close(f->io.fd);
	list_remove(&f->link);
	mem_free(f);
}

/* Do one read and set <*came> to the bytes that came. Returns false if the peer has closed the
 * connection. */
static bool feed_read(struct feed *f, size_t *came)
{
	char buf[READ_MAX];
	ssize_t n = recv(f->io.fd, buf, sizeof(buf), 0);

	*came = n > 0 ? (size_t)n : 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	count_add(&f->rx->count.bytes, (uint64_t)n);
	if (!f->checked)
		wrong_protocol_note(f->rx->agent, PORT_FEED, buf, (size_t)n, &f->peer);
	f->checked = true;
	feed_bytes(f, buf, (size_t)n);
	mem_wipe(buf, (size_t)n);
	return true;
}

/* Read once, and free <f> if that was the end. Returns the bytes, or -1 if it was freed. */
static ssize_t feed_take(struct feed *f)
{
	size_t n;

	if (feed_read(f, &n)) {
		f->read_at = ev_now(f->rx->loop);
		return (ssize_t)n;
	}
	if (f->n > 0)
		handle_line(f->rx, f->start, f->n);
	feed_free(f);
	return -1;
}

static void feed_rest(struct feed *f)
{
	ev_timer_set(&f->rest, REST_S, 0.);
	ev_timer_start(f->rx->loop, &f->rest);
}

/* If messages tell the time, no line waits, because its time is that of its read. */
static void on_feed(struct ev_loop *loop, ev_io *io, int revents)
{
	struct feed *f = io->data;
	bool soon = ev_now(loop) - f->read_at < REST_S;
	ssize_t n = feed_take(f);

	if (n < 0 || n == READ_MAX || !soon || f->rx->agent->by_messages)
		return;
	ev_io_stop(loop, io);
	feed_rest(f);
}

static void on_rest(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct feed *f = t->data;
	ssize_t n = feed_take(f);

	if (n == 0 || n == READ_MAX)	/* no line since; or more than one read */
		ev_io_start(loop, &f->io);
	else if (n > 0)
		feed_rest(f);
}

static void set_keepalive(int fd)
{
	int on = 1, idle = 60, every = 10, times = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
}

static void refuse_feed(struct logrx *rx, int fd, uint32_t max)
{
	struct log_line ln;

	close(fd);
	count_add(&rx->count.refused_full, 1);
	if (log_begin(&ln, &rx->agent->log, LOG_WARN, LOG_FULL,
		"too many log feed connections; a new one was closed")) {
		log_int(&ln, "log_feed.max_connections", max);
		log_text(&ln, "effect", "how requests of that HAProxy process end is not learned");
		log_end(&ln);
	}
}

/* Close the oldest connection that has sent no accepted line, if there is one. Its pending bytes
 * are read before, because they may hold a line of HAProxy. */
static void close_oldest_feed(struct logrx *rx)
{
	struct list *l;
	size_t n;

	for (l = rx->conns.next; l != &rx->conns; l = l->next) {
		struct feed *f = list_entry(l, struct feed, link);

		if (!f->proven)
			feed_read(f, &n);
		if (f->proven)
			continue;
		count_add(&rx->count.pushed_out, 1);
		feed_free(f);
		return;
	}
}

static void feed_accept(void *arg, int fd, const union sockaddr_any *peer)
{
	struct logrx *rx = arg;
	uint32_t max = tune_get(rx->agent->tune.max_feeds);
	struct feed *f;

	if (rx->count.open >= max)
		close_oldest_feed(rx);
	if (rx->count.open >= max || (f = mem_alloc(sizeof(*f))) == NULL) {
		refuse_feed(rx, fd, max);
		return;
	}
	f->rx = rx;
	f->peer = *peer;
	if (peer->sa.sa_family != AF_UNIX)
		set_keepalive(fd);
	ev_io_init(&f->io, on_feed, fd, EV_READ);
	f->io.data = f;
	ev_timer_init(&f->rest, on_rest, REST_S, 0.);
	f->rest.data = f;
	list_append(&rx->conns, &f->link);
	count_add(&rx->count.open, 1);
	count_add(&rx->count.accepted, 1);
	ev_io_start(rx->loop, &f->io);
}

/* ---- UDP -------------------------------------------------------------------------------- */

static void read_datagram(struct logrx *rx, const char *p, size_t n)
{
	const char *lf;
	size_t len;

	count_add(&rx->count.datagrams, 1);
	count_add(&rx->count.bytes, n);
	while (n > 0 && (lf = memchr(p, '\n', n)) != NULL) {
		len = (size_t)(lf - p);
		handle_line(rx, p, len);
		p += len + 1;
		n -= len + 1;
	}
	handle_line(rx, p, n);
}

static void on_udp(struct ev_loop *loop, ev_io *io, int revents)
{
	struct logrx *rx = io->data;
	ssize_t n;
	int i;

	for (i = 0; i < UDP_FEW; i++) {
		n = recv(io->fd, rx->datagram, sizeof(rx->datagram), 0);
		if (n < 0)
			return;
		read_datagram(rx, rx->datagram, (size_t)n);
		mem_wipe(rx->datagram, (size_t)n);
	}
}

/* Reads the kernel's count of drops since the socket was created, which has 32 bits. Unix sockets
 * never drop, because they block the sender. */
void logrx_tick(struct logrx *rx)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t n;
	unsigned i;

	for (i = 0; i < rx->agent->log_udp.n; i++) {
		n = sizeof(info);
		if (getsockopt(rx->agent->log_udp.l[i].fd, SOL_SOCKET, SO_MEMINFO, info, &n) != 0 ||
		    n < sizeof(info))
			continue;
		count_add(&rx->count.dropped, info[SK_MEMINFO_DROPS] - rx->drops[i]);
		rx->drops[i] = info[SK_MEMINFO_DROPS];
	}
}

/* ---- start and stop --------------------------------------------------------------------- */

void logrx_start(struct logrx *rx, struct agent *a, struct ev_loop *loop)
{
	int size = UDP_BUFFER;
	unsigned i;

	rx->agent = a;
	rx->loop = loop;
	list_init(&rx->conns);
	for (i = 0; i < a->log_tcp.n; i++) {
		rx->acceptor[i].log = &a->log;
		rx->acceptor[i].name = "log";
		rx->acceptor[i].accepted = feed_accept;
		rx->acceptor[i].arg = rx;
		rx->acceptor[i].errors = &rx->count.accept_errors;
		acceptor_start(&rx->acceptor[i], loop, &a->log_tcp.l[i]);
	}
	for (i = 0; i < a->log_udp.n; i++) {
		setsockopt(a->log_udp.l[i].fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		ev_io_init(&rx->udp[i], on_udp, a->log_udp.l[i].fd, EV_READ);
		rx->udp[i].data = rx;
		ev_io_start(loop, &rx->udp[i]);
	}
}

void logrx_stop(struct logrx *rx)
{
	unsigned i;

	for (i = 0; i < rx->agent->log_tcp.n; i++)
		acceptor_stop(&rx->acceptor[i]);
	for (i = 0; i < rx->agent->log_udp.n; i++)
		ev_io_stop(rx->loop, &rx->udp[i]);
	while (!list_empty(&rx->conns)) {
		struct feed *f = list_entry(rx->conns.next, struct feed, link);

		if (!ev_is_active(&f->rest) || feed_take(f) >= 0)	/* what waited for the rest */
			feed_free(f);
	}
}
