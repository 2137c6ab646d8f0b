/* chat_load.c - run many concurrent conversations against one address, and measure them.
 *
 * A fixed set of slots has one kept-alive connection each. A free slot takes the conversation that
 * is due: new ones by --rate and --live, then those whose pause is over, in order, so that turns of
 * different conversations interleave. A conversation ends with its last turn or its first failure.
 * The only retry is for a kept connection that was closed before a byte of the answer came.
 *
 * With --rate the load is open: times count from when a request was due, because a queue of the
 * client would hide how slow the server is for its users.
 *
 * Bounded: conversations times turns requests, --timeout for each, no new ones after --seconds. */
#include "tests/tools/lib/load.h"

#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/list.h"
#include "tests/tools/lib/addr.h"
#include "tests/tools/lib/agents.h"

#define READ_SIZE	65536
#define TICK_S		0.02

enum slot_state { SLOT_IDLE, SLOT_SENDING, SLOT_HEAD, SLOT_BODY };

struct slot {
	struct list link;		/* in load.idle while idle */
	struct load *l;
	int fd;				/* -1: none */
	enum slot_state state;
	bool used, kept;		/* <fd> has served before; it may serve again */
	struct ev_io io;
	struct ev_timer timeout;
	struct buf in, out, request;
	struct http_body framing;
	struct reply reply;
	struct talk *talk;
	char engine[LOAD_NAME_MAX];
	int status;
	double t0, first;		/* of this request; first 0: no token yet */
	double from;			/* its times count from here: t0, or before it */
};

struct load {
	struct load_opts o;
	struct addr addr;
	struct ev_loop *loop;
	struct ev_prepare dispatch;
	struct ev_timer tick;
	struct ev_signal stop;
	struct slot *slots;
	struct talk *talks;
	struct list idle;
	struct due due;			/* talks whose users think */
	struct agents *agents;		/* whose turns are sent instead; NULL: none */
	double room_at;			/* when the last talk ended that --live made others wait for */
	uint32_t n_new, n_live, n_done, in_flight;
	struct tally tally;
	double t0, next_line;
	bool stopping;
	FILE *trace;
	bool tty;
};

static double seconds_of(const struct load *l)
{
	return ev_time() - l->t0;
}

/* ---- progress ---- */

static void progress_line(struct load *l, bool last)
{
	const struct tally *t = &l->tally;
	char line[200];
	int n;

	n = snprintf(line, sizeof(line), "%s%s%.1fs  %llu/%llu requests, %u open, cached %.1f%%, "
		     "first token %.0f ms, %llu failed", l->o.label, *l->o.label ? "  " : "",
		     seconds_of(l), (unsigned long long)tally_done(t),
		     l->agents ? l->agents->n_turns : (unsigned long long)l->o.conversations * l->o.turns,
		     l->in_flight,
		     t->prompt ? 100.0 * (double)t->cached / (double)t->prompt : 0.0,
		     times_mean(&t->ttft), (unsigned long long)tally_failed(t));
	if (l->tty)
		fprintf(stderr, "\r%-*s%s", n > 110 ? n : 110, line, last ? "\n" : "");
	else
		fprintf(stderr, "%s\n", line);
}

static void progress(struct load *l)
{
	double now = seconds_of(l);

	if (!l->o.progress || now < l->next_line)
		return;
	l->next_line = now + (l->tty ? 0.25 : 5);
	progress_line(l, false);
}

/* ---- the end of a request ---- */

static void disconnect(struct slot *s)
{
	ev_io_stop(s->l->loop, &s->io);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->used = false;
	buf_free(&s->in);
}

static void trace(const struct slot *s, enum load_error e, double total)
{
	const struct talk *t = s->talk;

	if (s->l->trace == NULL)
		return;
	if (s->l->agents)
		agents_trace(t, s->l->trace);
	fprintf(s->l->trace, "t=%.4f talk=%u turn=%u system=%u tenant=%u engine=%s status=%d result=%s "
		"ttft_ms=%.2f total_ms=%.2f late_ms=%.2f prompt=%u cached=%u out=%u\n", s->t0, t->id, t->turn + 1,
		t->system, t->tenant, *s->engine ? s->engine : "-", s->status, load_error_name(e),
		s->first > 0 ? (s->first - s->from) * 1000 : 0, total * 1000,
		(s->t0 - s->from) * 1000, s->reply.prompt,
		s->reply.cached, s->reply.out);
}

static void count(struct slot *s, enum load_error e, double total)
{
	struct load *l = s->l;
	struct tally *y = &l->tally;
	const struct talk *t = s->talk;
	bool first;

	y->n_error[e]++;
	if (s->status > 0 && s->status < 600)
		y->n_status[s->status]++;
	if (*s->engine)
		tally_engine(y, s->engine);
	if (e != LOAD_OK)
		return;
	y->prompt += s->reply.prompt;
	y->cached += s->reply.cached;
	y->out += s->reply.out;
	y->no_usage += !s->reply.has_usage;
	times_add(&y->ttft, s->first - s->from);
	first = l->agents ? agents_is_first(t) : t->turn == 0;
	times_add(!first ? &y->ttft_next : &y->ttft_first, s->first - s->from);
	times_add(&y->late, s->t0 - s->from);
	times_add(&y->total, total);
	if (t->turn && *t->engine) {
		y->follow_ups++;
		y->stuck += strcmp(t->engine, s->engine) == 0;
	}
}

static void talk_over(struct load *l, struct talk *t)
{
	talk_fini(t);
	if (l->n_live == l->o.live)
		l->room_at = seconds_of(l);
	l->n_live--;
	l->n_done++;
}

static void talk_goes_on(struct load *l, struct talk *t, const struct slot *s, double now)
{
	double think;

	talk_assistant(t, &l->o, buf_span(&s->reply.text));
	snprintf(t->engine, sizeof(t->engine), "%s", s->engine);
	t->turn++;
	if (t->turn == l->o.turns) {
		talk_over(l, t);
		return;
	}
	think = talk_think(t, &l->o);
	times_add(&l->tally.think, think);
	t->ready_at = now + think;
	due_put(&l->due, t);
}

/* A session ends with its last turn or its first failure; what was due by then is not sent. */
static void agents_go_on(struct load *l, struct slot *s, enum load_error e, double now)
{
	struct talk *t = s->talk;

	snprintf(t->engine, sizeof(t->engine), "%s", s->engine);
	if (e == LOAD_OK ? agents_answered(t, buf_span(&s->reply.text), now, &l->due) : agents_failed(t))
		l->n_done++;
}

static void finish(struct slot *s, enum load_error e)
{
	struct load *l = s->l;
	double total = seconds_of(l) - s->from;

	ev_timer_stop(l->loop, &s->timeout);
	trace(s, e, total);
	count(s, e, total);
	if (l->agents)
		agents_go_on(l, s, e, s->from + total);
	else if (e == LOAD_OK)
		talk_goes_on(l, s->talk, s, s->from + total);
	else
		talk_over(l, s->talk);
	if (e != LOAD_OK || !s->kept)
		disconnect(s);
	s->used = s->fd >= 0;
	reply_fini(&s->reply);
	buf_free(&s->out);
	s->talk = NULL;
	s->state = SLOT_IDLE;
	l->in_flight--;
	list_append(&l->idle, &s->link);
}

/* ---- sending ---- */

static void watch(struct slot *s, int events)
{
	ev_io_stop(s->l->loop, &s->io);
	ev_io_set(&s->io, s->fd, events);
	ev_io_start(s->l->loop, &s->io);
}

/* Send what <s->request> holds over the connection there is, or over a new one. */
static bool send_request(struct slot *s)
{
	if (s->fd < 0) {
		s->used = false;
		if ((s->fd = addr_connect(&s->l->addr)) < 0)
			return false;
	}
	buf_free(&s->out);
	buf_put(&s->out, s->request.p, s->request.n);
	s->state = SLOT_SENDING;
	watch(s, EV_READ | EV_WRITE);
	return true;
}

/* A connection broke. If it was an old one and no answer had begun, that is no failure yet. */
static void broken(struct slot *s, enum load_error e)
{
	bool again = s->used && s->state != SLOT_BODY && s->in.n == 0;

	disconnect(s);
	if (again) {
		s->l->tally.reconnects++;
		if (send_request(s))
			return;
		e = LOAD_CONNECT;
	}
	finish(s, e);
}

static void start(struct slot *s, struct talk *t)
{
	struct load *l = s->l;

	list_remove(&s->link);
	s->talk = t;
	s->first = 0;
	s->status = 0;
	*s->engine = 0;
	s->t0 = seconds_of(l);
	s->from = (l->o.rate > 0 || l->agents) && t->ready_at < s->t0 ? t->ready_at : s->t0;
	l->in_flight++;
	buf_free(&s->request);
	if (l->agents) {
		agents_request(t, &l->o, &s->request);
	} else {
		talk_user(t, &l->o);
		talk_request(t, &l->o, &s->request);
	}
	reply_init(&s->reply, l->o.api, false);
	ev_now_update(l->loop);
	ev_timer_set(&s->timeout, l->o.timeout, 0);
	ev_timer_start(l->loop, &s->timeout);
	if (!send_request(s))
		finish(s, LOAD_CONNECT);
}

/* ---- receiving ---- */

static void take_head_fields(struct slot *s, const struct http_head *h)
{
	struct span engine = http_field(h, "x-engine"), type = http_field(h, "content-type");

	snprintf(s->engine, sizeof(s->engine), SPAN_FMT, SPAN_ARG(engine));
	s->status = h->status;
	s->kept = !h->close;
	reply_init(&s->reply, s->l->o.api,
		   type.n >= 17 && memcmp(type.p, "text/event-stream", 17) == 0);
	http_body_init(&s->framing, h, true);
	if (s->framing.kind == HTTP_BODY_CLOSE)
		s->kept = false;
}

/* Returns false if the bytes are not HTTP. Interim answers are skipped. */
static bool take_head(struct slot *s)
{
	struct http_head h;
	ssize_t used = 0;

	while (s->state != SLOT_BODY && s->in.n &&
	       (used = http_response_head(s->in.p, s->in.n, &h)) > 0) {
		if (h.status >= 200) {
			take_head_fields(s, &h);
			s->state = SLOT_BODY;
		}
		buf_take(&s->in, (size_t)used);
	}
	return used >= 0;
}

static void answered(struct slot *s)
{
	struct reply *r = &s->reply;

	if (s->status == 200)
		reply_end(r);
	if (s->out.n)
		s->kept = false;	/* answered before it had read all */
	if (s->status != 200)
		finish(s, LOAD_STATUS);
	else if (r->bad)
		finish(s, LOAD_BAD);
	else if (!r->complete || r->text.n == 0)
		finish(s, LOAD_CUT);
	else
		finish(s, LOAD_OK);
}

static bool take_body(struct slot *s)
{
	struct buf plain = { 0 };
	ssize_t used = http_body_feed(&s->framing, s->in.p, s->in.n, &plain);

	if (used >= 0) {
		buf_take(&s->in, (size_t)used);
		if (s->status == 200)
			reply_feed(&s->reply, buf_span(&plain));
	}
	buf_free(&plain);
	return used >= 0;
}

static void take_input(struct slot *s)
{
	if (s->state != SLOT_BODY && !take_head(s)) {
		finish(s, LOAD_BAD);
		return;
	}
	if (s->state != SLOT_BODY)
		return;
	if (!take_body(s)) {
		finish(s, LOAD_BAD);
		return;
	}
	if (s->framing.done && !s->reply.stream && s->status == 200)
		s->first = seconds_of(s->l);
	if (s->first <= 0 && s->reply.text.n)
		s->first = seconds_of(s->l);
	if (s->framing.done)
		answered(s);
}

/* The peer has closed its half. */
static void ended(struct slot *s)
{
	if (s->state == SLOT_BODY && s->framing.kind == HTTP_BODY_CLOSE)
		answered(s);
	else
		broken(s, s->state == SLOT_BODY ? LOAD_CUT : LOAD_CLOSED);
}

static void on_readable(struct slot *s)
{
	ssize_t n = read(s->fd, buf_room(&s->in, READ_SIZE), READ_SIZE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (s->state == SLOT_IDLE) {
		disconnect(s);		/* closed, or unexpected bytes */
	} else if (n < 0) {
		broken(s, errno != ECONNRESET ? LOAD_CONNECT :
		       s->state == SLOT_BODY ? LOAD_CUT : LOAD_CLOSED);
	} else if (n == 0) {
		ended(s);
	} else {
		s->in.n += (size_t)n;
		take_input(s);
	}
}

static void on_writable(struct slot *s)
{
	ssize_t n = write(s->fd, s->out.p, s->out.n);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			watch(s, EV_READ);	/* an answer may still be waiting */
		else
			broken(s, LOAD_CONNECT);
		return;
	}
	buf_take(&s->out, (size_t)n);
	if (s->out.n)
		return;
	if (s->state == SLOT_SENDING)
		s->state = SLOT_HEAD;
	watch(s, EV_READ);
}

static void io_cb(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct slot *s = w->data;

	if (revents & EV_WRITE && s->out.n)
		on_writable(s);
	if (revents & EV_READ && s->fd >= 0 && ev_is_active(w))
		on_readable(s);
}

static void timeout_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	finish(w->data, LOAD_TIMEOUT);
}

/* ---- which talk is next ---- */

/* A new talk is due at its time in the schedule, or later when --live has room for it. */
static struct talk *new_talk(struct load *l, double now)
{
	const struct load_opts *o = &l->o;
	struct talk *t;
	double at = o->rate > 0 ? l->n_new / o->rate : now;

	if (l->agents || l->n_new == o->conversations || l->n_live == o->live || at > now)
		return NULL;
	t = &l->talks[l->n_new];
	talk_init(t, o, l->n_new++);
	t->ready_at = at > l->room_at ? at : l->room_at;
	l->n_live++;
	return t;
}

static struct talk *next_talk(struct load *l)
{
	double now = seconds_of(l);
	struct talk *t = new_talk(l, now);

	if (t != NULL)
		return t;
	while ((t = due_first(&l->due)) != NULL && l->agents && agents_dropped(t))
		due_take(&l->due);
	if (t == NULL || t->ready_at > now)
		return NULL;
	due_take(&l->due);
	return t;
}

static void dispatch_cb(struct ev_loop *loop, struct ev_prepare *w, int revents)
{
	struct load *l = w->data;
	struct talk *t;

	if (l->o.seconds > 0 && seconds_of(l) >= l->o.seconds)
		l->stopping = true;
	while (!l->stopping && !list_empty(&l->idle) && (t = next_talk(l)) != NULL)
		start(list_entry(l->idle.next, struct slot, link), t);
	if (l->in_flight == 0 && (l->stopping || l->n_done == l->o.conversations))
		ev_break(loop, EVBREAK_ALL);
}

/* Its only work is to wake the loop, so that talks that are due are seen. */
static void tick_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	progress(w->data);
}

static void stop_cb(struct ev_loop *loop, struct ev_signal *w, int revents)
{
	struct load *l = w->data;

	if (l->stopping)
		ev_break(loop, EVBREAK_ALL);
	l->stopping = true;
}

/* ---- set up and run ---- */

static void slots_init(struct load *l)
{
	list_init(&l->idle);
	due_init(&l->due, l->agents ? l->agents->n_talks : l->o.conversations);
	if (l->agents)
		agents_begin(l->agents, &l->due);
	l->slots = tool_resize(NULL, l->o.concurrency, sizeof(*l->slots));
	l->talks = tool_resize(NULL, l->agents ? 1 : l->o.conversations, sizeof(*l->talks));
	for (uint32_t i = 0; i < l->o.concurrency; i++) {
		struct slot *s = &l->slots[i];

		*s = (struct slot){ .l = l, .fd = -1 };
		list_append(&l->idle, &s->link);
		ev_init(&s->io, io_cb);
		ev_timer_init(&s->timeout, timeout_cb, 0, 0);
		s->io.data = s->timeout.data = s;
	}
}

static void slots_fini(struct load *l)
{
	for (uint32_t i = 0; i < l->o.concurrency; i++) {
		struct slot *s = &l->slots[i];

		ev_timer_stop(l->loop, &s->timeout);
		disconnect(s);
		buf_free(&s->out);
		buf_free(&s->request);
		if (s->talk)
			reply_fini(&s->reply);
	}
	for (uint32_t i = 0; i < l->n_new; i++)
		talk_fini(&l->talks[i]);
	due_fini(&l->due);
	free(l->slots);
	free(l->talks);
}

static void run(struct load *l)
{
	l->loop = ev_default_loop(0);
	slots_init(l);
	ev_prepare_init(&l->dispatch, dispatch_cb);
	ev_timer_init(&l->tick, tick_cb, TICK_S,
		      l->o.think > 0 || l->o.rate > 0 || l->agents ? 0.002 : TICK_S);
	ev_signal_init(&l->stop, stop_cb, SIGINT);
	l->dispatch.data = l->tick.data = l->stop.data = l;
	ev_prepare_start(l->loop, &l->dispatch);
	ev_timer_start(l->loop, &l->tick);
	ev_signal_start(l->loop, &l->stop);
	l->t0 = ev_time();
	ev_run(l->loop, 0);
	l->tally.seconds = seconds_of(l);
	l->tally.unstarted = l->o.conversations - l->n_done;
	if (l->o.progress)
		progress_line(l, true);
	slots_fini(l);
	ev_default_destroy();
}

/* ---- report ---- */

static int report(struct load *l)
{
	const char *to = l->o.out ? l->o.out : l->o.json ? "-" : NULL;
	FILE *f = to == NULL || strcmp(to, "-") == 0 ? stdout : fopen(to, "w");

	if (f == NULL) {
		fprintf(stderr, "chat_load: %s: %s.\n", to, strerror(errno));
		return -1;
	}
	if (to == NULL)
		tally_print(&l->tally, &l->o, f);
	else
		tally_write(&l->tally, &l->o, f);
	return f == stdout ? fflush(f) : fclose(f);
}

static int open_trace(struct load *l, const char *path)
{
	if (path == NULL)
		return 0;
	if ((l->trace = fopen(path, "w")) != NULL)
		return 0;
	fprintf(stderr, "chat_load: %s: %s.\n", path, strerror(errno));
	return -1;
}

static void raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int dry_run(struct load *l)
{
	FILE *f = strcmp(l->o.dry, "-") == 0 ? stdout : fopen(l->o.dry, "w");
	bool bad;

	if (f == NULL) {
		fprintf(stderr, "chat_load: %s: %s.\n", l->o.dry, strerror(errno));
		return 2;
	}
	agents_dry(l->agents, &l->o, f);
	bad = ferror(f) != 0;
	bad |= (f == stdout ? fflush(f) : fclose(f)) != 0;
	agents_free(l->agents);
	return bad;
}

int main(int argc, char **argv)
{
	struct load l = { 0 };
	struct err err;
	int failed;

	signal(SIGPIPE, SIG_IGN);
	if (load_opts_read(&l.o, argc, argv))
		return 2;
	if (addr_parse(&l.addr, l.o.url, &err)) {
		fprintf(stderr, "chat_load: %s\n", err.text);
		return 2;
	}
	if (l.o.agents && (l.agents = agents_read(l.o.agents)) == NULL)
		return 2;
	if (l.agents && l.o.dry)
		return dry_run(&l);
	if (l.agents)
		l.o.conversations = l.agents->n_sessions;
	l.tty = isatty(STDERR_FILENO);
	raise_files();
	if (open_trace(&l, l.o.trace))
		return 2;
	run(&l);
	failed = tally_failed(&l.tally) > 0 || tally_done(&l.tally) == 0;
	if (report(&l) || (l.trace && fclose(l.trace)))
		failed = 1;
	tally_fini(&l.tally);
	agents_free(l.agents);
	return failed;
}
