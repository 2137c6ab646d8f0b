/* Two kinds of peers with one state machine (poll_client_in.h): the answers of stats sockets and of
 * engines are parsed as they arrive and go to the core when they are complete. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/feed/http_answer.h"
#include "agent/feed/sgl_load.h"
#include "agent/loop/count_in.h"
#include "agent/loop/engine_url.h"
#include "agent/loop/poll_peers_in.h"
#include "agent/os/clock.h"

/* The part that stats sockets and engines share. */
struct polled_peer {
	struct list link;
	struct poll_peers *peers;
	struct poll_counters *count;
	struct poll_client client;
	bool wanted;		/* is in the list that is being applied */
	enum { STATE_UNKNOWN, STATE_GOOD, STATE_BAD } state;	/* as logged */
	usec began;
	char why[160];		/* reason of the last invalid answer */
};

struct stats_poll {
	struct polled_peer poll;
	char socket[ADDR_MAX];
	unsigned number;	/* in server_addresses */
	struct hastats rows;
	char pool[POOL_NAME_MAX + 1];	/* of the last row */
	bool needed;			/* engines of this pool have addresses of servers */
	unsigned rows_needed, rows_usable;	/* of the open answer */
	bool warned;		/* that it shows no addresses */
};

struct engine_poll {
	struct polled_peer poll;
	struct engine_opts who;
	char request[ADDR_MAX + ENGINE_URL_MAX + 128];
	struct http_answer http;
	bool is_loads;		/* SGLang's /v1/loads, in JSON; else metrics in text */
	union {
		struct metrics text;
		struct sgl_loads_answer loads;
	};
};

_Static_assert(sizeof(struct engine_poll) <= POLL_BYTES && sizeof(struct stats_poll) <= POLL_BYTES,
	       "loop_budget() counts too little");

static void set_bad_reason(struct polled_peer *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void set_bad_reason(struct polled_peer *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

/* Count the end of a request. Returns true if the state has changed, which is logged. */
static bool count_end(struct polled_peer *p, const char *error)
{
	bool changed = p->state != (error == NULL ? STATE_GOOD : STATE_BAD);

	if (error == NULL) {
		count_add(&p->count->answered, 1);
		count_add(&p->count->us, (uint64_t)(clock_usec() - p->began));
	} else {
		count_add(error[0] == '\0' ? &p->count->bad : &p->count->unreachable, 1);
	}
	p->state = error == NULL ? STATE_GOOD : STATE_BAD;
	return changed;
}

static void log_error(
    struct log_line *ln, const struct polled_peer *p, const char *error, const char *effect)
{
	if (error != NULL) {
		log_text(ln, "error", error[0] != '\0' ? error : p->why);
		log_int(ln, "timeout_ms", p->client.timeout_ms);
		log_text(ln, "effect", effect);
	}
	log_end(ln);
}

/* ---- stats sockets ---------------------------------------------------------------------- */

/* Rows of one pool follow each other. */
static bool is_needed(struct stats_poll *s, struct span pool)
{
	const struct poll_peers_opts *o = s->poll.peers->opts;

	if (!span_eq(span_str(s->pool), pool)) {
		s->needed = engine_list_needs(o->engines, o->n_engines, pool);
		memset(s->pool, 0, sizeof(s->pool));
		if (pool.n <= POOL_NAME_MAX)
			memcpy(s->pool, pool.p, pool.n);
	}
	return s->needed;
}

static void on_row(void *arg, const struct hastats_row *row)
{
	struct stats_poll *s = arg;
	struct agent *a = s->poll.peers->agent;
	msec now = agent_msec(a);

	if (is_needed(s, row->pool)) {
		s->rows_needed++;
		s->rows_usable += server_addresses_row(&s->poll.peers->addresses, s->number, row);
	}
	route_observe_server(
	    a->route, span_str(s->socket), row, now, now + poll_client_holds_ms(&s->poll.client));
}

static void stats_begin(void *arg)
{
	struct stats_poll *s = arg;

	s->poll.began = clock_usec();
	hastats_init(&s->rows, on_row, s);
	s->rows_needed = s->rows_usable = 0;
	memset(s->pool, 0, sizeof(s->pool));
	s->needed = false;
}

static enum poll_client_reply stats_feed(void *arg, const char *p, size_t n)
{
	struct stats_poll *s = arg;
	ssize_t rc = hastats_feed(&s->rows, p, n);

	count_add(&s->poll.count->bytes, n);
	if (rc == 0 && n > 0)
		return POLL_CLIENT_MORE;
	count_add(&s->poll.count->items, s->rows.rows);
	count_add(&s->poll.count->items_bad, s->rows.bad_rows);
	if (rc > 0)
		return POLL_CLIENT_CLOSE;	/* HAProxy closes after each answer */
	if (rc == 0)
		set_bad_reason(&s->poll, "the answer was cut off");
	else
		set_bad_reason(&s->poll, "%s%s%s%s", hastats_strerror((int)rc),
		    s->rows.said[0] ? ": " : "", s->rows.said,
		    s->rows.missing ? s->rows.missing : "");
	return POLL_CLIENT_BAD;
}

static void warn_no_addresses(struct stats_poll *s)
{
	bool none = s->rows_needed > 0 && s->rows_usable == 0;
	struct log_line ln;

	if (none && !s->warned &&
	    log_begin(&ln, &s->poll.peers->agent->log, LOG_WARN, LOG_POLL,
		"HAProxy stats socket shows no addresses of servers")) {
		log_text(&ln, "socket", s->socket);
		log_text(&ln, "effect", "engines whose address is that of their server are not read");
		log_text(&ln, "remedy",
		    "give the stats socket level operator; servers need a numeric or resolved address");
		log_end(&ln);
	}
	s->warned = none;
}

static void make_engines(struct poll_peers *p);

static void stats_ended(void *arg, const char *error)
{
	struct stats_poll *s = arg;
	struct log_line ln;

	server_addresses_end(&s->poll.peers->addresses, s->number, error == NULL);
	if (error == NULL)
		warn_no_addresses(s);
	if (s->poll.peers->addresses.changed)
		make_engines(s->poll.peers);
	if (!count_end(&s->poll, error) ||
	    !log_begin(&ln, &s->poll.peers->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		       error != NULL ? "no answer from HAProxy stats socket" : "HAProxy stats socket answers"))
		return;
	log_text(&ln, "socket", s->socket);
	log_error(&ln, &s->poll, error, "server load comes from request counts only");
}

/* ---- engines ---------------------------------------------------------------------------- */

static void on_body(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;

	if (e->http.status != 200)
		return;
	if (e->is_loads)
		sgl_loads_answer_feed(&e->loads, p, n);
	else
		metrics_feed(&e->text, p, n);
}

static void engine_begin(void *arg)
{
	struct engine_poll *e = arg;

	e->poll.began = clock_usec();
	http_answer_init(&e->http, on_body, e);
	if (e->is_loads)
		sgl_loads_answer_init(&e->loads);
	else
		metrics_init(&e->text);
}

/* End the answer. Returns 0 and sets <r>, or -1 and sets the reason. */
static int engine_answer_end(struct engine_poll *e, struct engine_report *r)
{
	struct engine_load l;
	int rc;

	if (e->is_loads) {
		rc = sgl_loads_answer_end(&e->loads, &l);
		*r = (struct engine_report){
			.waiting = l.waiting, .running = l.running, .kv_used = l.kv_used, .capacity = l.capacity,
		};
		if (rc < 0)
			set_bad_reason(&e->poll, "%s", sgl_load_strerror(rc));
		return rc < 0 ? -1 : 0;
	}
	rc = metrics_end(&e->text, r);
	count_add(&e->poll.count->items_bad, e->text.bad_lines);
	if (rc < 0)
		set_bad_reason(&e->poll, "%s", metrics_strerror(rc));
	return rc < 0 ? -1 : 0;
}

static enum poll_client_reply engine_report(struct engine_poll *e)
{
	struct agent *a = e->poll.peers->agent;
	struct engine_report r;
	msec now = agent_msec(a);

	if (e->http.status != 200) {
		set_bad_reason(&e->poll, "HTTP status %d", e->http.status);
		return POLL_CLIENT_BAD;
	}
	if (engine_answer_end(e, &r) < 0)
		return POLL_CLIENT_BAD;
	count_add(&e->poll.count->items, 1);
	route_observe_engine(a->route, span_str(e->who.pool), span_str(e->who.name), &r, now,
			     now + poll_client_holds_ms(&e->poll.client));
	return e->http.keep ? POLL_CLIENT_KEEP : POLL_CLIENT_CLOSE;
}

static enum poll_client_reply engine_feed(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;
	ssize_t rc = n > 0 ? http_answer_feed(&e->http, p, n) : http_answer_eof(&e->http);

	count_add(&e->poll.count->bytes, n);
	if (rc < 0) {
		set_bad_reason(&e->poll, "%s", http_answer_strerror((int)rc));
		return POLL_CLIENT_BAD;
	}
	if (rc == 0 && n > 0)
		return POLL_CLIENT_MORE;
	if ((size_t)rc < n)
		e->http.keep = false;	/* more bytes than the answer has */
	return engine_report(e);
}

static void engine_ended(void *arg, const char *error)
{
	struct engine_poll *e = arg;
	struct log_line ln;

	if (!count_end(&e->poll, error) ||
	    !log_begin(&ln, &e->poll.peers->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		       error != NULL ? "no metrics from engine" : "engine metrics received"))
		return;
	log_text(&ln, "pool", e->who.pool);
	log_text(&ln, "server", e->who.name);
	log_text(&ln, "metrics", e->who.metrics);
	log_error(&ln, &e->poll, error, "its queue and cache size are estimated");
}

/* ---- the lists -------------------------------------------------------------------------- */

static void peer_start(struct poll_peers *p, struct polled_peer *one, struct list *in,
    struct poll_counters *count, msec after)
{
	one->peers = p;
	one->count = count;
	one->wanted = true;
	one->client.loop = p->loop;
	list_append(in, &one->link);
	count_add(&count->peers, 1);
	poll_client_start(&one->client, after);
}

static void peer_free(struct polled_peer *one)
{
	poll_client_stop(&one->client);
	count_add(&one->count->peers, (uint64_t)-1);
	list_remove(&one->link);
	mem_free(one);
}

static void add_stats(struct poll_peers *p, const char *socket, msec after)
{
	struct stats_poll *s = mem_alloc(sizeof(*s));
	struct err e;

	if (s == NULL || addr_parse(socket, &s->poll.client.to, &e) != 0) {
		mem_free(s);
		return;
	}
	snprintf(s->socket, sizeof(s->socket), "%s", socket);
	s->number = (unsigned)__builtin_ctz(~p->sockets);
	p->sockets |= 1u << s->number;
	s->poll.client.request = SPAN("show stat -1 4 -1\n");
	s->poll.client.arg = s;
	s->poll.client.begin = stats_begin;
	s->poll.client.feed = stats_feed;
	s->poll.client.ended = stats_ended;
	peer_start(p, &s->poll, &p->stats, &p->stats_count, after);
}

static void add_engine(struct poll_peers *p, const struct engine_opts *who, msec after)
{
	struct engine_poll *en = mem_alloc(sizeof(*en));
	struct engine_url t;
	struct err e;

	if (en == NULL || engine_url_parse(who->metrics, &t, &e) != 0) {
		mem_free(en);
		return;
	}
	en->who = *who;
	en->is_loads = strstr(t.path, "/v1/loads") != NULL;
	snprintf(en->request, sizeof(en->request),
	    "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kvroute/" KVROUTE_VERSION
	    "\r\nAccept: %s\r\n\r\n",
	    t.path, t.host, en->is_loads ? "application/json" : "text/plain;version=0.0.4");
	en->poll.client.to = t.to;
	en->poll.client.request = span_str(en->request);
	en->poll.client.arg = en;
	en->poll.client.begin = engine_begin;
	en->poll.client.feed = engine_feed;
	en->poll.client.ended = engine_ended;
	peer_start(p, &en->poll, &p->engines, &p->engines_count, after);
}

#define peer_of(l)	list_entry(l, struct polled_peer, link)
#define stats_of(l)	((struct stats_poll *)peer_of(l))
#define engine_of(l)	((struct engine_poll *)peer_of(l))

_Static_assert(
    offsetof(struct stats_poll, poll) == 0 && offsetof(struct engine_poll, poll) == 0, "casts");

static bool find_stats(struct poll_peers *p, const char *socket)
{
	for (struct list *l = p->stats.next; l != &p->stats; l = l->next)
		if (strcmp(stats_of(l)->socket, socket) == 0)
			return peer_of(l)->wanted = true;
	return false;
}

static bool find_engine(struct poll_peers *p, const struct engine_opts *who)
{
	for (struct list *l = p->engines.next; l != &p->engines; l = l->next) {
		const struct engine_opts *e = &engine_of(l)->who;

		if (strcmp(e->name, who->name) == 0 && strcmp(e->pool, who->pool) == 0 &&
		    strcmp(e->metrics, who->metrics) == 0)
			return peer_of(l)->wanted = true;
	}
	return false;
}

/* Returns true if the engine is still polled, perhaps at another address. */
static bool still_polled(const struct engine_opts *list, size_t n, const struct engine_opts *who)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].metrics[0] != '\0' && strcmp(list[i].name, who->name) == 0 &&
		    strcmp(list[i].pool, who->pool) == 0)
			return true;
	return false;
}

static void forget_others(struct poll_peers *p, const struct engine_opts *list, size_t n)
{
	for (struct list *l = p->engines.next; l != &p->engines; l = l->next) {
		const struct engine_opts *who = &engine_of(l)->who;

		if (!peer_of(l)->wanted && !still_polled(list, n, who))
			route_forget_engine(p->agent->route, span_str(who->pool), span_str(who->name));
	}
}

static void none_wanted(struct list *of)
{
	for (struct list *l = of->next; l != of; l = l->next)
		peer_of(l)->wanted = false;
}

static void apply_to_list(struct list *of, msec interval_ms, msec timeout_ms)
{
	struct list *l, *next;

	for (l = of->next; l != of; l = next) {
		next = l->next;
		peer_of(l)->client.interval_ms = interval_ms;
		peer_of(l)->client.timeout_ms = timeout_ms;
		if (!peer_of(l)->wanted)
			peer_free(peer_of(l));
	}
}

/* The first polls of new peers are spread over an interval. */
static void apply_engines(struct poll_peers *p, const struct engine_opts *list, size_t n)
{
	const struct poll_peers_opts *o = p->opts;

	none_wanted(&p->engines);
	for (size_t i = 0; i < n; i++)
		if (list[i].metrics[0] != '\0' && !find_engine(p, &list[i]))
			add_engine(p, &list[i], o->engine_interval_ms * (msec)i / (msec)n);
	forget_others(p, list, n);
	apply_to_list(&p->engines, o->engine_interval_ms, o->engine_timeout_ms);
	if (p->on_engines != NULL)
		p->on_engines(p->arg, list, n);
}

static void log_engines(struct poll_peers *p, size_t n)
{
	struct log_line ln;

	if (p->addresses.n == 0 ||
	    !log_begin(&ln, &p->agent->log, n > ENGINES_MAX ? LOG_WARN : LOG_INFO, LOG_POLL,
		n > ENGINES_MAX ? "too many engines" : "engines by the addresses of servers"))
		return;
	log_int(&ln, "engines", (int64_t)n);
	log_int(&ln, "servers", (int64_t)p->addresses.n);
	if (n > ENGINES_MAX) {
		log_int(&ln, "most", ENGINES_MAX);
		log_text(&ln, "effect", "the others are not read");
	}
	log_end(&ln);
}

/* Without memory the old list stays, and the next answer of a stats socket tries again. */
static void make_engines(struct poll_peers *p)
{
	const struct poll_peers_opts *o = p->opts;
	size_t cap = o->n_engines + p->addresses.n, n;
	struct engine_opts *list;

	cap = cap < ENGINES_MAX ? cap : ENGINES_MAX;
	p->addresses.changed = true;
	if ((list = mem_alloc((cap + 1) * sizeof(list[0]))) == NULL)
		return;
	p->addresses.changed = false;
	n = engine_list_make(o->engines, o->n_engines, p->addresses.servers, p->addresses.n, list, cap);
	log_engines(p, n);
	apply_engines(p, list, n < cap ? n : cap);
	mem_free(list);
}

static void apply_stats(struct poll_peers *p)
{
	const struct poll_peers_opts *o = p->opts;

	none_wanted(&p->stats);
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		find_stats(p, o->stats[i]);
	for (struct list *l = p->stats.next; l != &p->stats; l = l->next) {
		if (peer_of(l)->wanted)
			continue;
		server_addresses_leave(&p->addresses, stats_of(l)->number);
		p->sockets &= ~(1u << stats_of(l)->number);
	}
	apply_to_list(&p->stats, o->stats_interval_ms, o->stats_timeout_ms);
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		if (!find_stats(p, o->stats[i]))
			add_stats(p, o->stats[i], o->stats_interval_ms * i / LISTEN_MAX);
	apply_to_list(&p->stats, o->stats_interval_ms, o->stats_timeout_ms);
}

void poll_peers_apply(struct poll_peers *p, struct poll_peers_opts *o)
{
	mem_free(p->opts);
	p->opts = o;
	server_addresses_keep(&p->addresses, o->engines, o->n_engines);
	apply_stats(p);
	make_engines(p);
}

struct poll_peers_opts *poll_peers_opts_new(const struct loop_opts *o)
{
	struct poll_peers_opts *p = mem_alloc(sizeof(*p) + o->n_engines * sizeof(p->engines[0]));

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

void poll_peers_start(struct poll_peers *p, struct agent *a, struct ev_loop *loop)
{
	p->agent = a;
	p->loop = loop;
	list_init(&p->stats);
	list_init(&p->engines);
}

void poll_peers_stop(struct poll_peers *p)
{
	while (!list_empty(&p->stats))
		peer_free(peer_of(p->stats.next));
	while (!list_empty(&p->engines))
		peer_free(peer_of(p->engines.next));
	server_addresses_free(&p->addresses);
	mem_free(p->opts);
	p->opts = NULL;
}
