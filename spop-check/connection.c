/* connection.c - the connections of a check: send bytes with the cuts of the case, and receive
 * until nothing more matters or the time is up.
 *
 * All waits use poll() and a deadline, so an agent that neither reads nor answers costs one
 * timeout. Only the first connection of a case is shown in the report. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "spop-check/check_in.h"

/* Pauses between writes that should not be read as one. An agent may miss some cuts, so there are
 * many. */
#define BYTE_PAUSE_US	400
#define CUT_PAUSE_US	1500
#define BYTES_WRITES_MAX	1000	/* longer bodies are sent with several bytes per write */

struct check_conn {
	int fd;
	int timeout_ms;
	struct check_seen seen;
	struct check_plan plan;
	struct check_kept *sent;	/* NULL: not for the report */
	size_t unit;			/* bytes of the tested part: HELLO or body */
	uint8_t *memory;		/* in, hello, body: CHECK_BYTES_MAX each */
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void pause_us(long us)
{
	const struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

/* Returns true if <events> occur before <deadline>. */
static bool wait_for(int fd, short events, double deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	double left;
	int rc;

	do {
		left = deadline - now_ms();
		rc = poll(&p, 1, left > 0 ? (int)left + 1 : 0);
	} while (rc < 0 && errno == EINTR);
	return rc > 0;
}

/* ---- connecting ------------------------------------------------------------------------- */

/* Returns a connected non-blocking socket, or -1 with <error>. */
static int connect_to(const struct sockaddr *sa, socklen_t len, int timeout_ms, int *error)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	socklen_t n = sizeof(*error);

	*error = 0;
	if (fd < 0) {
		*error = errno;
		return -1;
	}
	if (connect(fd, sa, len) < 0 && errno != EINPROGRESS)
		*error = errno;
	else if (!wait_for(fd, POLLOUT, now_ms() + timeout_ms))
		*error = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &n);
	if (*error != 0) {
		close(fd);
		return -1;
	}
	if (sa->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static int open_unix(const char *path, int timeout_ms, char *why, size_t cap)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd, error = ENAMETOOLONG;

	if (strlen(path) >= sizeof(un.sun_path)) {
		fd = -1;
	} else {
		memcpy(un.sun_path, path, strlen(path) + 1);
		fd = connect_to((struct sockaddr *)&un, sizeof(un), timeout_ms, &error);
	}
	if (fd < 0)
		snprintf(why, cap, "%s", strerror(error));
	return fd;
}

/* Try every address of the name until one connects. */
static int open_tcp(const char *host, const char *port, int timeout_ms, char *why, size_t cap)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found, *one;
	int fd = -1, error = 0, rc;

	if ((rc = getaddrinfo(host, port, &hints, &found)) != 0) {
		snprintf(why, cap, "%s", gai_strerror(rc));
		return -1;
	}
	for (one = found; one != NULL && fd < 0; one = one->ai_next)
		fd = connect_to(one->ai_addr, one->ai_addrlen, timeout_ms, &error);
	freeaddrinfo(found);
	if (fd < 0)
		snprintf(why, cap, "%s", strerror(error));
	return fd;
}

static int open_socket(const struct check_target *t, char *why, size_t cap)
{
	const char *address = t->address, *colon = strrchr(address, ':');
	char host[256];
	size_t n;

	if (strncmp(address, "unix@", 5) == 0)
		return open_unix(address + 5, t->timeout_ms, why, cap);
	if (strchr(address, '/') != NULL)
		return open_unix(address, t->timeout_ms, why, cap);
	if (colon == NULL || colon[1] == '\0' || (n = (size_t)(colon - address)) >= sizeof(host)) {
		snprintf(why, cap, "an address is host:port, [v6]:port, unix@/path or a path");
		return -1;
	}
	if (n > 1 && address[0] == '[' && address[n - 1] == ']') {
		address++;
		n -= 2;
	}
	memcpy(host, address, n);
	host[n] = '\0';
	return open_tcp(n > 0 ? host : "127.0.0.1", colon + 1, t->timeout_ms, why, cap);
}

int check_reach(const struct check_target *t, char *why, size_t cap)
{
	int fd = open_socket(t, why, cap);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

/* ---- one connection --------------------------------------------------------------------- */

static bool conn_open(struct check_conn *k, const struct check_target *t,
    const struct check_case *c, unsigned round, struct check_kept *sent, char *why, size_t cap)
{
	*k = (struct check_conn){ .fd = -1, .timeout_ms = t->timeout_ms, .sent = sent };
	if ((k->memory = mem_alloc(3 * (size_t)CHECK_BYTES_MAX)) == NULL) {
		snprintf(why, cap, "not enough memory");
		return false;
	}
	k->seen.p = k->memory;
	k->plan.hello = (struct spop_wr){ .p = k->memory + CHECK_BYTES_MAX, .cap = CHECK_BYTES_MAX };
	k->plan.body = k->plan.hello;
	k->plan.body.p += CHECK_BYTES_MAX;
	check_plan_init(&k->plan, c, t->message, round);
	if (sent != NULL)
		sent->n = sent->all = 0;
	return (k->fd = open_socket(t, why, cap)) >= 0;
}

static void conn_close(struct check_conn *k, bool reset)
{
	const struct linger hard = { .l_onoff = 1, .l_linger = 0 };

	if (k->fd >= 0 && reset)
		setsockopt(k->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
	mem_free(k->memory);
	k->memory = NULL;
}

static void keep_bytes(struct check_kept *kept, const uint8_t *p, size_t n)
{
	size_t room;

	if (kept == NULL)
		return;
	room = CHECK_KEPT_MAX - kept->n;
	kept->all += n;
	memcpy(kept->p + kept->n, p, n < room ? n : room);
	kept->n += n < room ? n : room;
}

/* Do one read. */
static void conn_read(struct check_conn *k)
{
	uint8_t *to = k->memory + k->seen.n;
	ssize_t n;

	if (k->seen.n == CHECK_BYTES_MAX) {	/* no case needs as much */
		k->seen.end = CHECK_CLOSED;
		return;
	}
	n = recv(k->fd, to, CHECK_BYTES_MAX - k->seen.n, 0);
	if (n > 0) {
		if (k->seen.n == 0)
			k->seen.first = (size_t)n;
		k->seen.n += (size_t)n;
	} else if (n == 0) {
		k->seen.end = CHECK_CLOSED;
	} else if (errno != EAGAIN && errno != EINTR) {
		k->seen.end = CHECK_WAS_RESET;
	}
}

/* Send all bytes, unless the agent has closed the connection or reads nothing until the deadline.
 * Input is read meanwhile, because an agent may stop reading until its answers are read. */
static void conn_send(struct check_conn *k, const uint8_t *p, size_t n)
{
	double deadline = now_ms() + k->timeout_ms;
	struct pollfd w = { .fd = k->fd, .events = POLLIN | POLLOUT };
	ssize_t got;
	size_t at = 0;

	while (at < n && k->seen.end == CHECK_OPEN && now_ms() < deadline) {
		got = send(k->fd, p + at, n - at, MSG_NOSIGNAL);
		if (got > 0) {
			at += (size_t)got;
		} else if (got < 0 && errno != EAGAIN && errno != EINTR) {
			break;	/* the next read reports the end */
		} else if (poll(&w, 1, 10) > 0 && (w.revents & (POLLIN | POLLHUP))) {
			conn_read(k);
		}
	}
	keep_bytes(k->sent, p, at);
}

/* Send as the case requires. <cut>: where the first write ends. */
static void conn_deliver(
    struct check_conn *k, const struct spop_wr *w, enum check_how how, size_t cut)
{
	size_t step = w->n / BYTES_WRITES_MAX + 1, i;

	if (how == CHECK_BYTES) {
		for (i = 0; i < w->n && k->seen.end == CHECK_OPEN; i += step) {
			conn_send(k, w->p + i, w->n - i < step ? w->n - i : step);
			pause_us(BYTE_PAUSE_US);
		}
	} else if (how == CHECK_CUTS && cut < w->n) {
		conn_send(k, w->p, cut);
		pause_us(CUT_PAUSE_US);
		conn_send(k, w->p + cut, w->n - cut);
	} else if (w->n > 0) {
		conn_send(k, w->p, w->n);
	}
}

static void conn_wait_hello(struct check_conn *k)
{
	double deadline = now_ms() + k->timeout_ms;

	while (!check_hello_settled(&k->seen) && wait_for(k->fd, POLLIN, deadline))
		conn_read(k);
}

static void conn_wait_body(struct check_conn *k)
{
	double deadline = now_ms() + k->timeout_ms;

	while (!check_body_settled(&k->plan, &k->seen) && wait_for(k->fd, POLLIN, deadline))
		conn_read(k);
}

/* Send the HELLO and read the agreement. Returns false if no AGENT-HELLO came; then a body makes no
 * sense. */
static bool conn_hello(struct check_conn *k)
{
	const struct check_case *c = k->plan.c;
	enum check_how how = c->body == NULL ? c->how : CHECK_AT_ONCE;
	struct check_agent a;

	check_plan_hello(&k->plan);
	k->unit = k->plan.hello.n;
	if (k->plan.hello.n == 0)
		return true;
	conn_deliver(k, &k->plan.hello, how, k->plan.round + 1);
	conn_wait_hello(k);
	if (!check_agent_read(&k->seen, &a))
		return false;
	if (a.size >= SPOP_FRAME_MIN && a.size < k->plan.agreed)
		k->plan.agreed = a.size;
	return true;
}

static void conn_body(struct check_conn *k)
{
	const struct check_case *c = k->plan.c;

	if (k->plan.agreed < SPOP_FRAME_MIN)	/* the HELLO offered no valid size */
		k->plan.agreed = SPOP_FRAME_MIN;
	check_plan_body(&k->plan);
	if (c->body != NULL)
		k->unit = k->plan.body.n;
	conn_deliver(k, &k->plan.body, c->how, k->plan.round + 1);
	if (c->how == CHECK_HALF_CLOSE)
		shutdown(k->fd, SHUT_WR);
}

static void conn_together(struct check_conn *k)
{
	check_plan_hello(&k->plan);
	check_plan_body(&k->plan);
	check_put_bytes(&k->plan.hello, k->plan.body.p, k->plan.body.n);
	conn_deliver(k, &k->plan.hello, CHECK_AT_ONCE, 0);
}

/* Send a last plain NOTIFY if the connection may still be open. */
static void conn_probe(struct check_conn *k)
{
	const struct check_case *c = k->plan.c;

	if (c->no_probe || c->expect.outcome == CHECK_ENDED || c->how == CHECK_HALF_CLOSE ||
	    !check_body_settled(&k->plan, &k->seen) || k->seen.end != CHECK_OPEN)
		return;
	check_plan_probe(&k->plan);
	conn_send(k, k->plan.body.p, k->plan.body.n);
	conn_wait_body(k);
}

/* Send what follows only after the ACKs. */
static void conn_bye(struct check_conn *k)
{
	if (!k->plan.more || !check_body_settled(&k->plan, &k->seen) || k->seen.end != CHECK_OPEN)
		return;
	check_plan_bye(&k->plan);
	conn_send(k, k->plan.body.p, k->plan.body.n);
	conn_wait_body(k);
}

/* ---- rounds ----------------------------------------------------------------------------- */

static void round_end(struct check_conn *k, struct check_result *r)
{
	r->end = k->seen.end;
	r->got.n = r->got.all = 0;
	keep_bytes(&r->got, k->seen.p, k->seen.n);
}

/* Run one round on the connection <k>. */
static void round_talk(struct check_conn *k)
{
	if (k->plan.c->how == CHECK_TOGETHER)
		conn_together(k);
	else if (conn_hello(k))
		conn_body(k);
	else
		return;
	conn_wait_body(k);
	conn_bye(k);
	conn_probe(k);
}

/* Close without waiting. */
static void round_hang_up(struct check_conn *k)
{
	if (conn_hello(k))
		conn_body(k);
}

/* Run on two connections; each step on both before the next. */
static void round_twice(struct check_conn *k, struct check_conn *other)
{
	if (!conn_hello(k) || !conn_hello(other))
		return;
	conn_body(k);
	conn_body(other);
	conn_wait_body(other);
	conn_wait_body(k);
}

static void round_second(const struct check_target *t, struct check_conn *k, struct check_result *r)
{
	char why[160];
	struct check_conn other;

	if (conn_open(&other, t, k->plan.c, k->plan.round, NULL, why, sizeof(why))) {
		round_twice(k, &other);
		check_judge(&other.plan, &other.seen, &r->verdict);
	} else {
		check_find(&r->verdict, CHECK_MUST, "a second connection at the same time: %s", why);
	}
	conn_close(&other, false);
}

/* While <k> is left as it is, another connection must be served like before. */
static void round_beside(const struct check_target *t, struct check_conn *k, struct check_result *r)
{
	round_hang_up(k);
	if (check_alive(t, NULL) != CHECK_SERVES)
		check_find(&r->verdict, k->plan.c->level, "beside it, another connection is not served");
}

/* Returns the bytes of the tested part. */
static size_t round_run(const struct check_target *t, const struct check_case *c, unsigned round,
			struct check_result *r)
{
	char why[160];
	struct check_conn k;

	r->round = round;
	r->verdict.n = 0;
	if (!conn_open(&k, t, c, round, &r->sent, why, sizeof(why))) {
		check_find(&r->verdict, CHECK_MUST, "no connection: %s", why);
		conn_close(&k, false);
		return 0;
	}
	switch (c->how) {
	case CHECK_TWICE:
		round_second(t, &k, r);
		break;
	case CHECK_HANG_UP:
	case CHECK_RESET:
		round_hang_up(&k);
		break;
	case CHECK_BESIDE:
		round_beside(t, &k, r);
		break;
	default:
		round_talk(&k);
	}
	round_end(&k, r);
	if (c->how != CHECK_HANG_UP && c->how != CHECK_RESET && c->how != CHECK_BESIDE)
		check_judge(&k.plan, &k.seen, &r->verdict);
	conn_close(&k, c->how == CHECK_RESET);
	return k.unit;
}

void check_run(const struct check_target *t, const struct check_case *c, struct check_result *r)
{
	double start = now_ms();
	size_t rounds = c->rounds ? c->rounds : 1, unit;
	unsigned i;

	*r = (struct check_result){ .c = c };
	for (i = 0; i < rounds && check_worst(&r->verdict) == CHECK_NONE; i++) {
		unit = round_run(t, c, i, r);
		if (c->how == CHECK_CUTS)
			rounds = unit > 1 ? unit - 1 : 1;
	}
	r->ms = now_ms() - start;
}

/* ---- public functions ------------------------------------------------------------------- */

static const struct check_case plain = {
	.name = "alive", .level = CHECK_MUST, .clause = "", .sent = "", .expected = ""
};

enum check_life check_alive(const struct check_target *t, struct check_agent *a)
{
	enum check_life life = CHECK_DEAD;
	struct check_verdict v = { .n = 0 };
	struct check_agent agent;
	char why[160];
	struct check_conn k;

	if (conn_open(&k, t, &plain, 0, NULL, why, sizeof(why))) {
		life = CHECK_CONNECTS;
		if (conn_hello(&k)) {
			life = CHECK_GREETS;
			check_agent_read(&k.seen, a != NULL ? a : &agent);
			conn_probe(&k);
			check_judge(&k.plan, &k.seen, &v);
			if (check_worst(&v) < CHECK_MUST)
				life = CHECK_SERVES;
		}
	}
	conn_close(&k, false);
	return life;
}
