/* One request a connection, then it ends. All of it is bounded: the request by HTTP_REQUEST_MAX, the
 * answer by ADMIN_TEXT_MAX, a connection by ADMIN_MS whatever it does, their number by
 * ADMIN_CONNS_MAX: one more pushes out the oldest, so that those who connect and say nothing cannot
 * keep a probe from being answered. */
#include <errno.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/admin.h"
#include "agent/loop/clock.h"
#include "agent/loop/count.h"
#include "agent/loop/decisions_page.h"
#include "agent/loop/http.h"

#define ADMIN_TEXT_MAX	(8u << 20)
#define TYPE_TEXT	"text/plain; charset=utf-8"
#define TYPE_METRICS	"text/plain; version=0.0.4; charset=utf-8"

struct admin_conn {
	struct list link;
	struct admin *ad;
	ev_io io;
	msec since;
	size_t n;			/* of <request> */
	char request[HTTP_REQUEST_MAX];
	size_t sent;			/* of <answer> */
	struct text answer;
	bool said;			/* all sent; waiting for the peer to close */
};

static void conn_free(struct admin_conn *c)
{
	ev_io_stop(c->ad->loop, &c->io);
	close(c->io.fd);
	list_remove(&c->link);
	c->ad->n_conns--;
	text_fini(&c->answer);
	mem_wipe(c->request, sizeof(c->request));
	mem_free(c);
}

/* ---- answers --------------------------------------------------------------------------------------- */

static int64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int page(struct admin *ad, const struct http_request *r, struct text *body, const char **type)
{
	struct span path = r->path;
	bool ready = __atomic_load_n(&ad->agent->ready, __ATOMIC_ACQUIRE);

	*type = TYPE_TEXT;
	if (span_eq(path, SPAN("/metrics"))) {
		*type = TYPE_METRICS;
		ad->render(ad->arg, body);
		return body->failed ? 500 : 200;
	}
	if (span_eq(path, SPAN("/live"))) {
		text_addf(body, "live\n");
		return 200;
	}
	if (span_eq(path, SPAN("/ready"))) {
		text_addf(body, ready ? "ready\n" : "not ready: starting or draining\n");
		return ready ? 200 : 503;
	}
	if (span_eq(path, SPAN("/decisions")))
		return decisions_page(ad->agent->route, r->query, agent_msec(ad->agent), wall_ms(), body, type);
	text_addf(body, "not found: there are /metrics, /decisions, /live and /ready\n");
	return 404;
}

/* Fill the answer of <c> for a whole head, or for the status it is refused with. */
static bool answer(struct admin_conn *c, int status, const struct http_request *r)
{
	bool head_only = status == 0 && span_eq(r->method, SPAN("HEAD"));
	const char *type = TYPE_TEXT;
	char head[HTTP_HEAD_MAX];
	struct text body;

	text_init(&body, ADMIN_TEXT_MAX);
	if (status == 0 && !head_only && !span_eq(r->method, SPAN("GET")))
		status = 405;
	if (status == 0)
		status = page(c->ad, r, &body, &type);
	else
		text_addf(&body, "%s\n", status == 405 ? "only GET and HEAD are known" :
			  "this is no request that is understood here");
	if (body.failed) {
		text_fini(&body);
		text_init(&body, ADMIN_TEXT_MAX);
		text_addf(&body, "the text is larger than its bound, or memory is short\n");
	}
	count_add(status == 200 ? &c->ad->count.requests : &c->ad->count.refused, 1);
	text_init(&c->answer, ADMIN_TEXT_MAX + HTTP_HEAD_MAX);
	text_add(&c->answer, head, http_head(head, status, type, body.n));
	if (!head_only)
		text_add(&c->answer, body.p, body.n);
	text_fini(&body);
	return !c->answer.failed;
}

/* ---- sockets --------------------------------------------------------------------------------------- */

static void wait_for(struct admin_conn *c, int events)
{
	ev_io_stop(c->ad->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, events);
	ev_io_start(c->ad->loop, &c->io);
}

static void conn_write(struct admin_conn *c)
{
	ssize_t n = send(c->io.fd, c->answer.p + c->sent, c->answer.n - c->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		conn_free(c);
		return;
	}
	if (n > 0)
		c->sent += (size_t)n;
	if (c->sent < c->answer.n) {
		wait_for(c, EV_WRITE);
		return;
	}
	c->said = true;
	text_fini(&c->answer);
	shutdown(c->io.fd, SHUT_WR);
	wait_for(c, EV_READ);
}

static void conn_read(struct admin_conn *c)
{
	ssize_t n = recv(c->io.fd, c->request + c->n, sizeof(c->request) - c->n, 0);
	struct http_request r;
	int status;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_free(c);
		return;
	}
	if (c->said)
		return;			/* thrown away: c->n stays */
	c->n += (size_t)n;
	if ((status = http_parse(c->request, c->n, &r)) == HTTP_MORE)
		return;
	if (!answer(c, status, &r)) {
		conn_free(c);
		return;
	}
	c->n = 0;
	conn_write(c);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct admin_conn *c = io->data;

	if (io->events & EV_WRITE)
		conn_write(c);
	else
		conn_read(c);
}

static void take(void *arg, int fd, const union sockaddr_any *peer)
{
	struct admin *ad = arg;
	struct admin_conn *c;

	if (ad->n_conns >= ADMIN_CONNS_MAX) {
		count_add(&ad->count.pushed_out, 1);
		conn_free(list_entry(ad->conns.next, struct admin_conn, link));
	}
	if ((c = mem_alloc(sizeof(*c))) == NULL) {
		close(fd);
		return;
	}
	c->ad = ad;
	c->since = clock_msec();
	ev_io_init(&c->io, on_io, fd, EV_READ);
	c->io.data = c;
	list_append(&ad->conns, &c->link);
	ad->n_conns++;
	ev_io_start(ad->loop, &c->io);
}

void admin_start(struct admin *ad, struct agent *a, struct ev_loop *loop)
{
	unsigned i;

	ad->agent = a;
	ad->loop = loop;
	list_init(&ad->conns);
	for (i = 0; i < a->metrics.n; i++) {
		ad->acceptor[i].log = &a->log;
		ad->acceptor[i].name = "metrics";
		ad->acceptor[i].take = take;
		ad->acceptor[i].arg = ad;
		ad->acceptor[i].errors = &ad->count.accept_errors;
		acceptor_start(&ad->acceptor[i], loop, &a->metrics.l[i]);
	}
}

void admin_sweep(struct admin *ad, msec now)
{
	struct admin_conn *c;

	while (!list_empty(&ad->conns)) {
		c = list_entry(ad->conns.next, struct admin_conn, link);
		if (now - c->since < ADMIN_MS)
			return;
		if (!c->said)
			count_add(&ad->count.timeouts, 1);
		conn_free(c);
	}
}

void admin_stop(struct admin *ad)
{
	unsigned i;

	for (i = 0; i < ad->agent->metrics.n; i++)
		acceptor_stop(&ad->acceptor[i]);
	while (!list_empty(&ad->conns))
		conn_free(list_entry(ad->conns.next, struct admin_conn, link));
}
