#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/feed/http_answer.h"
#include "agent/os/clock.h"
#include "agent/loop/count.h"
#include "agent/loop/polls.h"
#include "agent/loop/target.h"

/* What both kinds have. */
struct poll {
	struct list link;
	struct polls *polls;
	struct poll_counters *count;
	struct asker asker;
	bool wanted;		/* by the list that is being taken */
	enum { LUCK_UNKNOWN, LUCK_GOOD, LUCK_BAD } luck;	/* as the log has it */
	usec began;
	char why[160];		/* the last answer was bad */
};

struct stats_poll {
	struct poll poll;
	char socket[ADDR_MAX];
	struct hastats rows;
};

struct engine_poll {
	struct poll poll;
	struct engine_opts who;
	char request[ADDR_MAX + ENGINE_URL_MAX + 128];
	struct http_answer http;
	struct metrics text;
};

_Static_assert(sizeof(struct engine_poll) <= POLL_BYTES && sizeof(struct stats_poll) <= POLL_BYTES,
	       "loop_budget() counts too little");

static void bad(struct poll *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void bad(struct poll *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

/* Counts, and true when its luck has changed: worth a line in the log. */
static bool ended(struct poll *p, const char *error)
{
	bool changed = p->luck != (error == NULL ? LUCK_GOOD : LUCK_BAD);

	if (error == NULL) {
		count_add(&p->count->answered, 1);
		count_add(&p->count->us, (uint64_t)(clock_usec() - p->began));
	} else {
		count_add(error[0] == '\0' ? &p->count->bad : &p->count->unreachable, 1);
	}
	p->luck = error == NULL ? LUCK_GOOD : LUCK_BAD;
	return changed;
}

static void log_error(struct log_line *ln, const struct poll *p, const char *error)
{
	if (error != NULL)
		log_text(ln, "error", error[0] != '\0' ? error : p->why);
	log_end(ln);
}

/* ---- stats sockets ----------------------------------------------------------------------------------- */

static void on_row(void *arg, const struct hastats_row *row)
{
	struct stats_poll *s = arg;
	struct agent *a = s->poll.polls->agent;
	msec now = agent_msec(a);

	route_observe_server(a->route, span_str(s->socket), row, now, now + asker_holds_ms(&s->poll.asker));
}

static void stats_begin(void *arg)
{
	struct stats_poll *s = arg;

	s->poll.began = clock_usec();
	hastats_init(&s->rows, on_row, s);
}

static enum asker_says stats_take(void *arg, const char *p, size_t n)
{
	struct stats_poll *s = arg;
	ssize_t rc = hastats_feed(&s->rows, p, n);

	count_add(&s->poll.count->bytes, n);
	if (rc == 0 && n > 0)
		return ASKER_MORE;
	count_add(&s->poll.count->items, s->rows.rows);
	count_add(&s->poll.count->items_bad, s->rows.bad_rows);
	if (rc > 0)
		return ASKER_CLOSE;	/* as HAProxy does */
	if (rc == 0)
		bad(&s->poll, "the answer was cut off");
	else
		bad(&s->poll, "%s%s%s%s", hastats_strerror((int)rc), s->rows.said[0] ? ": " : "", s->rows.said,
		    s->rows.missing ? s->rows.missing : "");
	return ASKER_BAD;
}

static void stats_over(void *arg, const char *error)
{
	struct stats_poll *s = arg;
	struct log_line ln;

	if (!ended(&s->poll, error) ||
	    !log_begin(&ln, &s->poll.polls->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		       error != NULL ? "a stats socket says nothing" : "a stats socket answers"))
		return;
	log_text(&ln, "socket", s->socket);
	log_error(&ln, &s->poll, error);
}

/* ---- engines ------------------------------------------------------------------------------------------ */

static void on_body(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;

	if (e->http.status == 200)
		metrics_feed(&e->text, p, n);
}

static void engine_begin(void *arg)
{
	struct engine_poll *e = arg;

	e->poll.began = clock_usec();
	http_answer_init(&e->http, on_body, e);
	metrics_init(&e->text);
}

static enum asker_says engine_report(struct engine_poll *e)
{
	struct agent *a = e->poll.polls->agent;
	struct engine_report r;
	msec now = agent_msec(a);
	int rc;

	if (e->http.status != 200) {
		bad(&e->poll, "HTTP status %d", e->http.status);
		return ASKER_BAD;
	}
	rc = metrics_end(&e->text, &r);
	count_add(&e->poll.count->items_bad, e->text.bad_lines);
	if (rc < 0) {
		bad(&e->poll, "%s", metrics_strerror(rc));
		return ASKER_BAD;
	}
	count_add(&e->poll.count->items, 1);
	route_observe_engine(a->route, span_str(e->who.pool), span_str(e->who.name), &r, now,
			     now + asker_holds_ms(&e->poll.asker));
	return e->http.keep ? ASKER_KEEP : ASKER_CLOSE;
}

static enum asker_says engine_take(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;
	ssize_t rc = n > 0 ? http_answer_feed(&e->http, p, n) : http_answer_eof(&e->http);

	count_add(&e->poll.count->bytes, n);
	if (rc < 0) {
		bad(&e->poll, "%s", http_answer_strerror((int)rc));
		return ASKER_BAD;
	}
	if (rc == 0 && n > 0)
		return ASKER_MORE;
	if ((size_t)rc < n)
		e->http.keep = false;	/* more than was asked for */
	return engine_report(e);
}

static void engine_over(void *arg, const char *error)
{
	struct engine_poll *e = arg;
	struct log_line ln;

	if (!ended(&e->poll, error) ||
	    !log_begin(&ln, &e->poll.polls->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		       error != NULL ? "an engine's metrics cannot be had" : "an engine's metrics are there"))
		return;
	log_text(&ln, "pool", e->who.pool);
	log_text(&ln, "server", e->who.name);
	log_text(&ln, "metrics", e->who.metrics);
	log_error(&ln, &e->poll, error);
}

/* ---- the lists ----------------------------------------------------------------------------------------- */

static void poll_start(struct polls *p, struct poll *one, struct list *in, struct poll_counters *count, msec after)
{
	one->polls = p;
	one->count = count;
	one->wanted = true;
	one->asker.loop = p->loop;
	list_append(in, &one->link);
	count_add(&count->peers, 1);
	asker_start(&one->asker, after);
}

static void poll_free(struct poll *one)
{
	asker_stop(&one->asker);
	count_add(&one->count->peers, (uint64_t)-1);
	list_remove(&one->link);
	mem_free(one);
}

static void take_stats(struct polls *p, const char *socket, msec after)
{
	struct stats_poll *s = mem_alloc(sizeof(*s));
	struct err e;

	if (s == NULL || addr_parse(socket, &s->poll.asker.to, &e) != 0) {
		mem_free(s);
		return;
	}
	snprintf(s->socket, sizeof(s->socket), "%s", socket);
	s->poll.asker.question = SPAN("show stat -1 4 -1\n");
	s->poll.asker.arg = s;
	s->poll.asker.begin = stats_begin;
	s->poll.asker.take = stats_take;
	s->poll.asker.over = stats_over;
	poll_start(p, &s->poll, &p->stats, &p->stats_count, after);
}

static void take_engine(struct polls *p, const struct engine_opts *who, msec after)
{
	struct engine_poll *en = mem_alloc(sizeof(*en));
	struct target t;
	struct err e;

	if (en == NULL || target_parse(who->metrics, &t, &e) != 0) {
		mem_free(en);
		return;
	}
	en->who = *who;
	snprintf(en->request, sizeof(en->request), "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kvroute/" KVROUTE_VERSION
		 "\r\nAccept: text/plain;version=0.0.4\r\n\r\n", t.path, t.host);
	en->poll.asker.to = t.to;
	en->poll.asker.question = span_str(en->request);
	en->poll.asker.arg = en;
	en->poll.asker.begin = engine_begin;
	en->poll.asker.take = engine_take;
	en->poll.asker.over = engine_over;
	poll_start(p, &en->poll, &p->engines, &p->engines_count, after);
}

#define poll_of(l)	list_entry(l, struct poll, link)
#define stats_of(l)	((struct stats_poll *)poll_of(l))
#define engine_of(l)	((struct engine_poll *)poll_of(l))

_Static_assert(offsetof(struct stats_poll, poll) == 0 && offsetof(struct engine_poll, poll) == 0, "casts");

static bool keep_stats(struct polls *p, const char *socket)
{
	for (struct list *l = p->stats.next; l != &p->stats; l = l->next)
		if (strcmp(stats_of(l)->socket, socket) == 0)
			return poll_of(l)->wanted = true;
	return false;
}

static bool keep_engine(struct polls *p, const struct engine_opts *who)
{
	for (struct list *l = p->engines.next; l != &p->engines; l = l->next) {
		const struct engine_opts *e = &engine_of(l)->who;

		if (strcmp(e->name, who->name) == 0 && strcmp(e->pool, who->pool) == 0 &&
		    strcmp(e->metrics, who->metrics) == 0)
			return poll_of(l)->wanted = true;
	}
	return false;
}

/* By another address, maybe. */
static bool still_asked(const struct polls_opts *o, const struct engine_opts *who)
{
	for (size_t i = 0; i < o->n_engines; i++)
		if (strcmp(o->engines[i].name, who->name) == 0 && strcmp(o->engines[i].pool, who->pool) == 0)
			return true;
	return false;
}

static void forget_others(struct polls *p, const struct polls_opts *o)
{
	for (struct list *l = p->engines.next; l != &p->engines; l = l->next) {
		const struct engine_opts *who = &engine_of(l)->who;

		if (!poll_of(l)->wanted && !still_asked(o, who))
			route_forget_engine(p->agent->route, span_str(who->pool), span_str(who->name));
	}
}

static void none_wanted(struct list *of)
{
	for (struct list *l = of->next; l != of; l = l->next)
		poll_of(l)->wanted = false;
}

static void settle_list(struct list *of, msec interval_ms, msec timeout_ms)
{
	struct list *l, *next;

	for (l = of->next; l != of; l = next) {
		next = l->next;
		poll_of(l)->asker.interval_ms = interval_ms;
		poll_of(l)->asker.timeout_ms = timeout_ms;
		if (!poll_of(l)->wanted)
			poll_free(poll_of(l));
	}
}

/* Those that are new do not all begin at once. */
void polls_take(struct polls *p, const struct polls_opts *o)
{
	none_wanted(&p->stats);
	none_wanted(&p->engines);
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		if (!keep_stats(p, o->stats[i]))
			take_stats(p, o->stats[i], o->stats_interval_ms * i / LISTEN_MAX);
	for (size_t i = 0; i < o->n_engines; i++)
		if (!keep_engine(p, &o->engines[i]))
			take_engine(p, &o->engines[i], o->engine_interval_ms * (msec)i / (msec)o->n_engines);
	forget_others(p, o);
	settle_list(&p->stats, o->stats_interval_ms, o->stats_timeout_ms);
	settle_list(&p->engines, o->engine_interval_ms, o->engine_timeout_ms);
}

struct polls_opts *polls_opts_new(const struct loop_opts *o)
{
	struct polls_opts *p = mem_alloc(sizeof(*p) + o->n_engines * sizeof(p->engines[0]));

	if (p == NULL)
		return NULL;
	memcpy(p->stats, o->stats, sizeof(p->stats));
	p->stats_interval_ms = o->stats_interval_ms;
	p->stats_timeout_ms = o->stats_timeout_ms;
	p->engine_interval_ms = o->engine_interval_ms;
	p->engine_timeout_ms = o->engine_timeout_ms;
	p->n_engines = o->n_engines;
	if (o->n_engines > 0)
		memcpy(p->engines, o->engines, o->n_engines * sizeof(p->engines[0]));
	return p;
}

void polls_start(struct polls *p, struct agent *a, struct ev_loop *loop)
{
	p->agent = a;
	p->loop = loop;
	list_init(&p->stats);
	list_init(&p->engines);
}

void polls_stop(struct polls *p)
{
	while (!list_empty(&p->stats))
		poll_free(poll_of(p->stats.next));
	while (!list_empty(&p->engines))
		poll_free(poll_of(p->engines.next));
}
