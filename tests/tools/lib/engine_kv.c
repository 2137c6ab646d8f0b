/* engine_kv.c - prompts that one engine computes and another decodes, as vLLM's NIXL connector does
 * it with kv_transfer_params:
 *
 *    do_remote_decode   compute the prompt, answer with where its KV is, hold it until it is
 *                       fetched or hold_s have passed
 *    do_remote_prefill  fetch the KV of the prompt from there, then decode
 *
 * Its engines speak RDMA. These ask each other by GET /kv?id=REQUEST, which releases the KV and
 * answers {"tokens": N}; the transfer is a timer. If the KV cannot be had, the prompt is computed
 * here (kv_load_failure_policy: recompute). The whole prompt is transferred, also what is cached
 * here. */
#include "tests/tools/lib/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/tools/lib/jdom.h"

#define ANSWER_MAX	4096

/* ---- the engine that computes ---- */

struct held {
	struct list link;
	struct engine *e;
	struct job *j;
	struct ev_timer until;
};

static void release(struct held *h)
{
	ev_timer_stop(h->e->loop, &h->until);
	sched_release(h->e->sched, &h->j->seqs[0]);
	engine_job_free(h->j);
	list_remove(&h->link);
	h->e->n_held--;
	free(h);
}

static void until_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct held *h = w->data;

	h->e->counts.expired++;
	release(h);
}

void kv_hold(struct engine *e, struct job *j)
{
	struct held *h = tool_resize(NULL, 1, sizeof(*h));

	*h = (struct held){ .e = e, .j = j };
	list_append(&e->held, &h->link);
	e->n_held++;
	e->counts.held++;
	ev_timer_init(&h->until, until_cb, e->o.hold_s, 0);
	h->until.data = h;
	ev_timer_start(e->loop, &h->until);
}

void kv_release_all(struct engine *e)
{
	while (!list_empty(&e->held))
		release(list_entry(e->held.next, struct held, link));
}

/* Set where this engine can be reached: its first listener with a port. */
static uint16_t own_place(const struct engine *e, char host[INET6_ADDRSTRLEN])
{
	strcpy(host, "127.0.0.1");
	for (size_t i = 0; i < e->n_listeners; i++) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&e->listeners[i].addr.sa;

		if (in->sin_family == AF_INET && !e->listeners[i].control) {
			inet_ntop(AF_INET, &in->sin_addr, host, INET6_ADDRSTRLEN);
			return ntohs(in->sin_port);
		}
	}
	return 0;
}

void kv_params(const struct engine *e, const struct job *j, struct buf *answer)
{
	const struct seq *q = &j->seqs[0];
	char host[INET6_ADDRSTRLEN];
	uint16_t port = own_place(e, host);

	if (answer->n == 0 || answer->p[answer->n - 1] != '}')
		return;
	answer->n--;
	buf_puts(answer, ",\"kv_transfer_params\":{\"do_remote_prefill\":true,"
	    "\"do_remote_decode\":false,\"remote_block_ids\":[[");
	for (uint32_t i = 0; i < q->n_ids; i++)
		buf_putf(answer, "%s%u", i ? "," : "", q->ids[i]);
	buf_puts(answer, "]],\"remote_engine_id\":");
	buf_put_json(answer, span_str(e->o.name));
	buf_putf(answer, ",\"remote_request_id\":\"%s\",\"remote_host\":\"%s\",\"remote_port\":%u,"
	    "\"remote_num_tokens\":%u,\"tp_size\":1}}", j->id, host, port, q->n_prompt);
}

static struct held *held_find(struct engine *e, struct span id)
{
	for (struct list *l = e->held.next; l != &e->held; l = l->next) {
		struct held *h = list_entry(l, struct held, link);

		if (span_eq(id, span_str(h->j->id)))
			return h;
	}
	return NULL;
}

void kv_give(struct conn *c, struct span query)
{
	struct span id = query.n > 3 && memcmp(query.p, "id=", 3) == 0
	    ? span_of(query.p + 3, query.n - 3) : SPAN("");
	struct held *h = held_find(c->e, id);
	struct buf b = { 0 };

	if (h == NULL) {
		conn_respond_error(c, 404, "no KV is held under this id");
		return;
	}
	buf_putf(&b, "{\"tokens\":%u}", h->j->seqs[0].n_prompt);
	conn_respond(c, 200, "application/json", buf_span(&b));
	buf_free(&b);
	c->e->counts.given++;
	release(h);
}

/* ---- the engine that decodes ---- */

struct fetch {
	struct conn *c;
	int fd;
	struct ev_io io;
	struct ev_timer transfer;
	struct buf in, out;
};

void kv_fetch_cancel(struct job *j)
{
	struct fetch *f = j->fetch;

	if (f == NULL)
		return;
	ev_io_stop(f->c->e->loop, &f->io);
	ev_timer_stop(f->c->e->loop, &f->transfer);
	if (f->fd >= 0)
		close(f->fd);
	buf_free(&f->in);
	buf_free(&f->out);
	free(f);
	j->fetch = NULL;
}

static void begin(struct conn *c)
{
	kv_fetch_cancel(c->job);
	engine_begin(c);
	conn_dirty(c);
}

static void transfer_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct fetch *f = w->data;

	begin(f->c);
}

/* Return the tokens of the answer; 0: there is no KV, or the answer is none. */
static uint32_t answer_tokens(const struct fetch *f)
{
	struct http_head h;
	ssize_t used = http_response_head(f->in.p, f->in.n, &h);
	const char *why;
	struct jdom *d;
	double n;

	if (used <= 0 || h.status != 200 ||
	    (d = jdom_parse(f->in.p + used, f->in.n - (size_t)used, &why)) == NULL)
		return 0;
	n = jnumber(jget(jdom_root(d), "tokens"), 0);
	jdom_free(d);
	return n >= 1 && n < UINT32_MAX ? (uint32_t)n : 0;
}

static void answered(struct fetch *f)
{
	struct conn *c = f->c;
	struct engine *e = c->e;
	uint32_t tokens = answer_tokens(f);

	ev_io_stop(e->loop, &f->io);
	if (tokens == 0) {
		e->counts.unfetched++;
		begin(c);
		return;
	}
	e->counts.fetched++;
	c->job->seqs[0].given = tokens;
	ev_timer_set(&f->transfer,
	    (e->o.transfer_ms + e->o.transfer_1k_ms * tokens / 1000) / 1000 * e->faults.slow, 0);
	ev_timer_start(e->loop, &f->transfer);
}

static void ask(struct fetch *f)
{
	ssize_t n = write(f->fd, f->out.p, f->out.n);

	if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
		return;
	if (n < 0) {
		answered(f);
		return;
	}
	buf_take(&f->out, (size_t)n);
	if (f->out.n > 0)
		return;
	ev_io_stop(f->c->e->loop, &f->io);
	ev_io_set(&f->io, f->fd, EV_READ);
	ev_io_start(f->c->e->loop, &f->io);
}

static void io_cb(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct fetch *f = w->data;
	ssize_t n;

	if (f->out.n > 0) {
		ask(f);
		return;
	}
	n = read(f->fd, buf_room(&f->in, ANSWER_MAX), ANSWER_MAX);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		f->in.n += (size_t)n;
	if (n <= 0 || f->in.n >= ANSWER_MAX)
		answered(f);
}

void kv_fetch(struct conn *c)
{
	const struct ask_kv *kv = &c->job->ask.kv;
	struct fetch *f = tool_resize(NULL, 1, sizeof(*f));
	char text[ADDR_TEXT_MAX];
	struct addr to;
	struct err err;

	*f = (struct fetch){ .c = c, .fd = -1 };
	c->job->fetch = f;
	ev_timer_init(&f->transfer, transfer_cb, 0, 0);
	ev_io_init(&f->io, io_cb, -1, EV_WRITE);
	f->io.data = f->transfer.data = f;
	snprintf(text, sizeof(text), "%s:%u", kv->host, kv->port);
	if (addr_parse(&to, text, &err) || (f->fd = addr_connect(&to)) < 0) {
		c->e->counts.unfetched++;
		begin(c);
		return;
	}
	buf_putf(&f->out, "GET /kv?id=%s HTTP/1.0\r\n\r\n", kv->request);
	ev_io_set(&f->io, f->fd, EV_WRITE);
	ev_io_start(c->e->loop, &f->io);
}
