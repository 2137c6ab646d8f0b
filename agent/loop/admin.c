/* The metrics listener shares its thread with the log feed. So one turn of the loop does at most
 * one step of one page of /decisions (decisions_page_in.h), and sends at most ADMIN_SEND bytes.
 *
 * Each connection has one request and then ends. Everything is bounded: the request by
 * HTTP_REQUEST_MAX, the answer by ADMIN_TEXT_MAX, the time of a connection by ADMIN_MS, and the
 * number of connections by ADMIN_CONNS_MAX. A further connection closes the oldest one, so that
 * idle connections cannot block a probe. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/admin_in.h"
#include "agent/loop/compare_page_in.h"
#include "agent/base/count.h"
#include "agent/loop/decisions_page_in.h"
#include "agent/loop/http.h"
#include "agent/loop/share_in.h"
#include "agent/loop/page_html_in.h"
#include "agent/loop/snapshot_page_in.h"
#include "agent/loop/status_page_in.h"
#include "agent/loop/wrong_protocol_in.h"
#include "agent/os/clock.h"

#define ADMIN_TEXT_MAX	(8u << 20)
#define TYPE_TEXT	"text/plain; charset=utf-8"
#define TYPE_HTML	"text/html; charset=utf-8"
#define TYPE_JSON	"application/json"
#define TYPE_METRICS	"text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS	"application/openmetrics-text; version=1.0.0; charset=utf-8"

struct admin_conn {
	struct list link;
	struct admin *ad;
	ev_io io;
	msec since;
	size_t n;			/* bytes in <request> */
	char request[HTTP_REQUEST_MAX];
	char head[HTTP_HEAD_MAX];	/* of the answer */
	size_t head_n, sent;		/* <sent>: bytes of <head>, then of <body> */
	struct buf body;
	struct list working;		/* link in the pages of <ad> if <page> is not NULL */
	struct decisions_page *page;	/* writes to <body>; NULL: none */
	struct snapshot_page *snapshot;	/* the same, while the peer reads; NULL: none */
	const char *type;
	bool head_only;
	bool all_sent;			/* all sent; waiting for the peer to close */
	bool checked;			/* the first bytes were checked for a wrong protocol */
	union sockaddr_any peer;
};

static void page_end(struct admin_conn *c)
{
	if (c->page == NULL)
		return;
	list_remove(&c->working);
	decisions_page_free(c->page);
	c->page = NULL;
}

static void snapshot_end(struct admin_conn *c)
{
	if (c->snapshot == NULL)
		return;
	snapshot_page_free(c->snapshot);
	c->snapshot = NULL;
	c->ad->snapshots--;
}

static void conn_free(struct admin_conn *c)
{
	ev_io_stop(c->ad->loop, &c->io);
	close(c->io.fd);
	list_remove(&c->link);
	c->ad->n_conns--;
	page_end(c);
	snapshot_end(c);
	buf_free(&c->body);
	mem_wipe(c->request, sizeof(c->request));
	mem_free(c);
}

/* ---- answers ---------------------------------------------------------------------------- */

/* One at a time, because each takes memory by the size of the index. */
static int begin_snapshot(struct admin_conn *c, bool sessions, struct span query)
{
	struct agent *a = c->ad->agent;
	int status = 503;

	if (c->ad->snapshots == 0)
		status = snapshot_page_begin(
		    &c->snapshot, &a->sibling, a->route, sessions, query, agent_msec(a), &c->body);
	if (status == 200)
		c->ad->snapshots++;
	else
		page_addf(&c->body, "%s\n", status == 404 ? "not served: share.serve_snapshot" :
			  status == 403 ? "another key" : "busy");
	return status;
}

static int write_metrics(struct admin_conn *c, const struct http_request *r)
{
	struct metric_page p = {
		.t = &c->body, .openmetrics = http_wants_openmetrics(r->accept),
		.shards = span_eq(r->query, SPAN("shards=1")),
	};

	c->type = p.openmetrics ? TYPE_OPENMETRICS : TYPE_METRICS;
	c->ad->render(c->ad->arg, &p);
	return c->body.failed ? 500 : 200;
}

/* Counters are for monitoring machines, single requests for this one: metrics.decisions. */
static bool may_read_decisions(const struct admin_conn *c)
{
	enum decisions_to to = tune_get(c->ad->agent->tune.decisions_to);

	return to == DECISIONS_ALL || (to == DECISIONS_LOCAL && sockaddr_is_loopback(&c->peer));
}

/* Write the answer to <r>. Returns its status, or 0 if it is a page that was begun. */
static int route_request(struct admin_conn *c, const struct http_request *r)
{
	struct admin *ad = c->ad;
	struct span path = r->path;
	bool ready = __atomic_load_n(&ad->agent->ready, __ATOMIC_ACQUIRE);
	int status;

	if (span_eq(path, SPAN("/metrics"))) {
		return write_metrics(c, r);
	}
	if (span_eq(path, SPAN("/"))) {
		c->type = TYPE_HTML;
		buf_add(&c->body, page_html, page_html_n);
		return c->body.failed ? 500 : 200;
	}
	if (span_eq(path, SPAN("/status.json"))) {
		c->type = TYPE_JSON;
		status_page_write(ad->agent, clock_wall_ms(), &c->body);
		return c->body.failed ? 500 : 200;
	}
	if (span_eq(path, SPAN("/live"))) {
		page_addf(&c->body, "live\n");
		return 200;
	}
	if (span_eq(path, SPAN("/ready"))) {
		bool warm = (ad->agent->share == NULL || share_ready(ad->agent->share)) &&
			    sibling_ready(&ad->agent->sibling);

		page_addf(&c->body, !ready ? "not ready: starting or draining\n" : warm ? "ready\n" :
			  "not ready: waiting for the state of the fleet (share.ready)\n");
		return ready && warm ? 200 : 503;
	}
	if (span_eq(path, SPAN("/decisions"))) {
		if (!may_read_decisions(c)) {
			page_addf(&c->body, "not served to this address: metrics.decisions\n");
			return 403;
		}
		status = decisions_page_begin(&c->page, ad->agent->route, r->query,
		    ad->agent->feed_token.n > 0, agent_msec(ad->agent), clock_wall_ms(), &c->body, &c->type);
		return status == 200 ? 0 : status;
	}
	if (span_eq(path, SPAN("/compare"))) {
		compare_page_write(ad->agent->route, &c->body);
		return c->body.failed ? 500 : 200;
	}
	if (span_eq(path, SPAN("/snapshot")))
		return begin_snapshot(c, false, r->query);
	if (span_eq(path, SPAN("/snapshot/sessions")))
		return begin_snapshot(c, true, r->query);
	page_addf(&c->body, "not found; pages: /, /metrics, /status.json, /decisions, /compare, "
	    "/live and /ready\n");
	return 404;
}

/* Count the answer and write its head. Head and body are sent separately, because copying megabytes
 * takes milliseconds. */
static void finish_head(struct admin_conn *c, int status)
{
	struct buf *body = &c->body;

	if (body->failed) {
		buf_free(body);
		buf_start(body, ADMIN_TEXT_MAX);
		page_addf(body, "the page is larger than its limit, or memory is short\n");
	}
	count_add(status == 200 ? &c->ad->count.requests : &c->ad->count.refused, 1);
	c->head_n = c->snapshot != NULL ? http_head_endless(c->head, "application/octet-stream") :
					  http_head(c->head, status, c->type, body->n);
	if (c->head_only)
		buf_free(body);
}

/* Handle a request head; <status> is the error of its parser, or 0. Returns the status to send, or
 * 0 if the answer comes later. */
static int handle_request(struct admin_conn *c, int status, const struct http_request *r)
{
	buf_start(&c->body, ADMIN_TEXT_MAX);
	c->type = TYPE_TEXT;
	c->head_only = status == 0 && span_eq(r->method, SPAN("HEAD"));
	if (status == 0 && !c->head_only && !span_eq(r->method, SPAN("GET")))
		status = 405;
	if (status == 0)
		return route_request(c, r);
	page_addf(&c->body, "%s\n", status == 405 ? "only GET and HEAD are supported" :
		  "invalid HTTP request");
	return status;
}

/* ---- sockets ---------------------------------------------------------------------------- */

static void watch_conn(struct admin_conn *c, int events)
{
	ev_io_stop(c->ad->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, events);
	ev_io_start(c->ad->loop, &c->io);
}

/* Make the next part of a snapshot. Each part has a time limit of its own. Returns false if there
 * is none. */
static bool next_part(struct admin_conn *c)
{
	int rc = c->snapshot != NULL && !c->head_only ? snapshot_page_step(c->snapshot) : 0;

	if (rc == 1) {
		c->head_n = c->sent = 0;
		c->since = clock_msec();
		list_remove(&c->link);
		list_append(&c->ad->conns, &c->link);
		return true;
	}
	snapshot_end(c);
	return false;
}

static void conn_write(struct admin_conn *c)
{
	size_t head = c->sent < c->head_n ? c->head_n - c->sent : 0;
	size_t body = c->head_n + c->body.n - c->sent - head;
	struct iovec v[2] = {
		{ c->head + c->head_n - head, head },
		{ body > 0 ? c->body.p + (c->body.n - body) : c->head, body < ADMIN_SEND ? body : ADMIN_SEND },
	};
	ssize_t n = writev(c->io.fd, v, 2);	/* SIGPIPE is ignored */

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		conn_free(c);
		return;
	}
	if (n > 0)
		c->sent += (size_t)n;
	if (c->sent < c->head_n + c->body.n || next_part(c)) {
		watch_conn(c, EV_WRITE);
		return;
	}
	c->all_sent = true;
	buf_free(&c->body);
	shutdown(c->io.fd, SHUT_WR);
	watch_conn(c, EV_READ);
}

static void send_answer(struct admin_conn *c, int status)
{
	finish_head(c, status);
	conn_write(c);
}

/* ---- pages, a step each turn ------------------------------------------------------------ */

/* The socket is not watched while the page is written, because a peer that has shut down its
 * sending side still waits for the answer. */
static void page_start(struct admin_conn *c)
{
	ev_io_stop(c->ad->loop, &c->io);
	list_append(&c->ad->pages, &c->working);
	ev_idle_start(c->ad->loop, &c->ad->idle);
}

/* Keeps the loop from blocking. libev does not call it while there is other work, so the work is
 * done in on_turn_end(). */
static void on_idle(struct ev_loop *loop, ev_idle *i, int revents)
{
}

static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct admin *ad = p->data;
	struct admin_conn *c;
	int status;

	if (list_empty(&ad->pages)) {
		ev_idle_stop(loop, &ad->idle);
		return;
	}
	c = list_entry(ad->pages.next, struct admin_conn, working);
	list_remove(&c->working);
	list_append(&ad->pages, &c->working);
	if ((status = decisions_page_step(c->page)) == 0)
		return;
	page_end(c);
	send_answer(c, status);
}

/* ---- connections ------------------------------------------------------------------------ */

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
	if (c->all_sent)
		return;			/* discarded: c->n stays */
	if (!c->checked)
		wrong_protocol_note(c->ad->agent, PORT_HTTP, c->request, (size_t)n, &c->peer);
	c->checked = true;
	c->n += (size_t)n;
	if ((status = http_parse(c->request, c->n, &r)) == HTTP_MORE)
		return;
	status = handle_request(c, status, &r);
	c->n = 0;
	if (status != 0)
		send_answer(c, status);
	else
		page_start(c);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct admin_conn *c = io->data;

	if (io->events & EV_WRITE)
		conn_write(c);
	else
		conn_read(c);
}

static void admin_accept(void *arg, int fd, const union sockaddr_any *peer)
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
	c->peer = *peer;
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
	list_init(&ad->pages);
	ev_idle_init(&ad->idle, on_idle);
	ev_prepare_init(&ad->turn_end, on_turn_end);
	ad->turn_end.data = ad;
	ev_prepare_start(loop, &ad->turn_end);
	for (i = 0; i < a->metrics.n; i++) {
		ad->acceptor[i].log = &a->log;
		ad->acceptor[i].name = "metrics";
		ad->acceptor[i].accepted = admin_accept;
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
		if (!c->all_sent)
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
	ev_prepare_stop(ad->loop, &ad->turn_end);
	ev_idle_stop(ad->loop, &ad->idle);
}
