/* engine_conn.c - connections of the stub engine.
 *
 * One request at a time for each connection; pipelined bytes wait in <in>. Reading continues during
 * a request, because only the end of the stream shows that a client has disconnected. It stops when
 * PIPELINE_MAX bytes wait. A client that reads too slowly is closed at OUT_MAX. */
#include "tests/tools/lib/engine.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_SIZE	65536
#define PIPELINE_MAX	(2 * HTTP_HEAD_MAX)
#define OUT_MAX		(8u << 20)
#define DRAIN_S		1.0

static const char *reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 413: return "Content Too Large";
	case 429: return "Too Many Requests";
	case 500: return "Internal Server Error";
	case 503: return "Service Unavailable";
	default: return "Status";
	}
}

static void conn_free(struct conn *c)
{
	struct engine *e = c->e;

	engine_abort(c);
	ev_io_stop(e->loop, &c->rd);
	ev_io_stop(e->loop, &c->wr);
	ev_timer_stop(e->loop, &c->later);
	close(c->fd);
	list_remove(&c->link);
	list_remove(&c->dirty);
	buf_free(&c->in);
	buf_free(&c->body);
	buf_free(&c->out);
	e->n_conns--;
	free(c);
}

void conn_dirty(struct conn *c)
{
	if (list_empty(&c->dirty))
		list_append(&c->e->dirty, &c->dirty);
}

/* ---- answers ---- */

static void put_head(struct conn *c, int status, const char *type)
{
	buf_putf(&c->out, "HTTP/1.1 %d %s\r\nserver: stub-engine\r\nx-engine: %s\r\n", status,
		 reason(status), c->e->o.name);
	if (type)
		buf_putf(&c->out, "content-type: %s\r\n", type);
	if (!c->keep)
		buf_puts(&c->out, "connection: close\r\n");
}

/* The answer is complete: on to the next request, or to the end. */
static void answered(struct conn *c)
{
	c->state = c->keep ? CONN_HEAD : CONN_DRAIN;
	buf_free(&c->body);
	conn_dirty(c);
}

void conn_respond(struct conn *c, int status, const char *type, struct span body)
{
	put_head(c, status, type);
	if (c->asked && status == 200)
		engine_load_header(c->e, c->load, &c->out);
	buf_putf(&c->out, "content-length: %zu\r\n\r\n", body.n);
	if (!c->no_body)
		buf_put(&c->out, body.p, body.n);
	answered(c);
}

void conn_respond_error(struct conn *c, int status, const char *text)
{
	struct buf b = { 0 };

	answer_error(status, text, &b);
	conn_respond(c, status, "application/json", buf_span(&b));
	buf_free(&b);
}

static void later_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct conn *c = w->data;
	int status = c->e->faults.fail ? c->e->faults.fail : 503;

	if (c->state == CONN_BUSY)
		conn_respond_error(c, status, "failing, as asked");
	else if (c->state == CONN_DRAIN)
		c->kill = true;
	conn_dirty(c);
}

void conn_respond_later(struct conn *c, double seconds)
{
	ev_timer_set(&c->later, seconds, 0);
	ev_timer_start(c->e->loop, &c->later);
}

void conn_stream_start(struct conn *c)
{
	put_head(c, 200, "text/event-stream; charset=utf-8");
	buf_puts(&c->out, "cache-control: no-cache\r\n");
	buf_puts(&c->out, c->chunked ? "transfer-encoding: chunked\r\n\r\n" : "\r\n");
	conn_dirty(c);
}

void conn_stream(struct conn *c, struct span events)
{
	if (c->chunked)
		http_put_chunk(&c->out, events);
	else
		buf_put(&c->out, events.p, events.n);
	conn_dirty(c);
}

void conn_stream_end(struct conn *c)
{
	if (c->chunked)
		http_put_chunk(&c->out, (struct span){ "", 0 });
	answered(c);
}

/* ---- requests ---- */

static void refuse(struct conn *c, int status, const char *text)
{
	c->e->counts.bad++;
	c->keep = false;
	conn_respond_error(c, status, text);
}

/* Answers that are streamed have no load header, as vLLM's. */
static enum load_format load_wanted(const struct http_head *h)
{
	struct span s = http_field(h, "endpoint-load-metrics-format");

	if (s.n == 4 && strncasecmp(s.p, "TEXT", 4) == 0)
		return LOAD_TEXT;
	return s.n == 4 && strncasecmp(s.p, "JSON", 4) == 0 ? LOAD_JSON : LOAD_NONE;
}

/* True when <c> went on and may have more to do. */
static bool take_head(struct conn *c)
{
	struct http_head h;
	ssize_t used = http_request_head(c->in.p, c->in.n, &h);

	if (used == 0)
		return false;
	c->no_body = c->keep = c->chunked = c->asked = false;
	if (used < 0 || h.target.n >= sizeof(c->target)) {
		refuse(c, 400, "this is not HTTP/1.1 as I know it");
		return true;
	}
	c->keep = !h.close;
	c->chunked = h.minor > 0;
	if (h.length > 0 && (uint64_t)h.length > c->e->o.max_body) {
		refuse(c, 413, "the body is too long");
		return true;
	}
	memcpy(c->target, h.target.p, h.target.n);
	c->target[h.target.n] = 0;
	c->post = span_eq(h.method, SPAN("POST"));
	c->no_body = span_eq(h.method, SPAN("HEAD"));
	c->load = load_wanted(&h);
	if (!c->post && !c->no_body && !span_eq(h.method, SPAN("GET")) &&
	    !span_eq(h.method, SPAN("DELETE"))) {
		refuse(c, 405, "this method is not known here");
		return true;
	}
	http_body_init(&c->framing, &h, false);
	if (h.expect && !c->framing.done)
		buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	buf_take(&c->in, (size_t)used);
	c->state = CONN_BODY;
	return true;
}

static bool take_body(struct conn *c)
{
	ssize_t used = http_body_feed(&c->framing, c->in.p, c->in.n, &c->body);

	if (used < 0) {
		refuse(c, 400, "the chunks of the body make no sense");
		return true;
	}
	buf_take(&c->in, (size_t)used);
	if (c->body.n > c->e->o.max_body) {
		refuse(c, 413, "the body is too long");
		return true;
	}
	if (!c->framing.done)
		return false;
	c->state = CONN_BUSY;
	engine_request(c);
	return true;
}

static void take_input(struct conn *c)
{
	bool more = true;

	while (more) {
		if (c->state == CONN_HEAD && c->in.n)
			more = take_head(c);
		else if (c->state == CONN_BODY)
			more = take_body(c);
		else
			more = false;
	}
	if (c->state == CONN_DRAIN)
		buf_free(&c->in);
}

static void read_cb(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct conn *c = w->data;
	ssize_t n = read(c->fd, buf_room(&c->in, READ_SIZE), READ_SIZE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		c->eof = true;
	else
		c->in.n += (size_t)n;
	conn_dirty(c);
}

static void write_cb(struct ev_loop *loop, struct ev_io *w, int revents)
{
	conn_dirty(w->data);
}

/* False when the connection is of no more use. */
static bool flush(struct conn *c)
{
	while (c->out.n) {
		ssize_t n = write(c->fd, c->out.p, c->out.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return false;
		buf_take(&c->out, (size_t)n);
	}
	return c->out.n <= OUT_MAX;
}

static void watch(struct conn *c)
{
	struct ev_loop *loop = c->e->loop;

	if (c->out.n)
		ev_io_start(loop, &c->wr);
	else
		ev_io_stop(loop, &c->wr);
	if (c->state == CONN_BUSY && c->in.n > PIPELINE_MAX)
		ev_io_stop(loop, &c->rd);
	else
		ev_io_start(loop, &c->rd);
}

static void settle(struct conn *c)
{
	if (!c->kill && !c->eof)
		take_input(c);
	if (!flush(c) || c->eof || c->kill) {
		conn_free(c);
		return;
	}
	if (c->state == CONN_DRAIN && c->out.n == 0 && !ev_is_active(&c->later)) {
		shutdown(c->fd, SHUT_WR);
		conn_respond_later(c, DRAIN_S);
	}
	watch(c);
}

void engine_settle(struct engine *e)
{
	while (!list_empty(&e->dirty)) {
		struct conn *c = list_entry(e->dirty.next, struct conn, dirty);

		list_remove(&c->dirty);
		settle(c);
	}
}

/* ---- listeners ---- */

static void conn_new(struct listener *l, int fd)
{
	struct engine *e = l->e;
	struct conn *c;
	int one = 1;

	e->counts.accepted++;
	if (e->n_conns >= e->o.max_conns) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c = tool_resize(NULL, 1, sizeof(*c));
	*c = (struct conn){ .e = e, .fd = fd, .control = l->control };
	list_append(&e->conns, &c->link);
	list_init(&c->dirty);
	e->n_conns++;
	ev_io_init(&c->rd, read_cb, fd, EV_READ);
	ev_io_init(&c->wr, write_cb, fd, EV_WRITE);
	ev_timer_init(&c->later, later_cb, 0, 0);
	c->rd.data = c->wr.data = c->later.data = c;
	ev_io_start(e->loop, &c->rd);
}

static void accept_cb(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct listener *l = w->data;

	for (int i = 0; i < 64; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		conn_new(l, fd);
	}
}

int engine_listen(struct engine *e, struct listener *l, struct err *err)
{
	l->e = e;
	l->fd = addr_listen(&l->addr, err);
	if (l->fd < 0)
		return -1;
	ev_io_init(&l->rd, accept_cb, l->fd, EV_READ);
	l->rd.data = l;
	ev_io_start(e->loop, &l->rd);
	return 0;
}

void engine_unlisten(struct engine *e, struct listener *l)
{
	if (l->fd < 0)
		return;
	ev_io_stop(e->loop, &l->rd);
	close(l->fd);
	l->fd = -1;
}

void engine_close_all(struct engine *e)
{
	while (!list_empty(&e->conns))
		conn_free(list_entry(e->conns.next, struct conn, link));
}
