/* The polls of stats sockets, and the lists of peers. Answers are parsed as they arrive, by one
 * state machine (poll_client_in.h), and go to the core. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/base/count.h"
#include "agent/loop/poll_engine_in.h"
#include "agent/os/clock.h"

#define TOLD_S	0.05

struct stats_poll {
	struct polled_peer poll;
	char socket[ADDR_MAX];
	unsigned number;	/* in server_addresses */
	struct hastats rows;
	char pool[POOL_NAME_MAX + 1];	/* of the last row */
	bool needed;			/* engines of this pool have addresses of servers */
	unsigned rows_needed, rows_usable;	/* of the open answer */
	bool warned;		/* that it shows no addresses */
	bool denied;		/* the agent may not connect, since its last answer */
};

_Static_assert(sizeof(struct stats_poll) <= POLL_BYTES, "loop_budget() counts too little");

void polled_peer_set_bad(struct polled_peer *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

bool polled_peer_count_end(struct polled_peer *p, const char *error)
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

void polled_peer_log_error(
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
		polled_peer_set_bad(&s->poll, "the answer was cut off");
	else
		polled_peer_set_bad(&s->poll, "%s%s%s%s", hastats_strerror((int)rc),
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

static bool is_denied(const struct stats_poll *s, const char *error)
{
	return error != NULL && s->poll.client.to.a.sa.sa_family == AF_UNIX &&
	    strcmp(error, strerror(EACCES)) == 0;
}

static void make_engines(struct poll_peers *p);

static void stats_ended(void *arg, const char *error)
{
	struct stats_poll *s = arg;
	bool denied = is_denied(s, error), told = denied && !s->denied;
	struct log_line ln;

	s->denied = denied || (s->denied && error != NULL);
	server_addresses_end(&s->poll.peers->addresses, s->number, error == NULL);
	if (error == NULL)
		warn_no_addresses(s);
	if (s->poll.peers->addresses.changed)
		make_engines(s->poll.peers);
	told |= polled_peer_count_end(&s->poll, error);
	if (!told ||
	    !log_begin(&ln, &s->poll.peers->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		       error != NULL ? "no answer from HAProxy stats socket" : "HAProxy stats socket answers"))
		return;
	log_text(&ln, "socket", s->socket);
	if (denied)
		log_text(&ln, "remedy", "let the agent's user write to it: kvroute.yaml(5), stats_feed.sockets");
	polled_peer_log_error(&ln, &s->poll, error, "server load comes from request counts only");
}

/* ---- the lists -------------------------------------------------------------------------- */

void polled_peer_start(struct poll_peers *p, struct polled_peer *one, struct list *in,
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
	polled_peer_start(p, &s->poll, &p->stats, &p->stats_count, after);
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
		    strcmp(e->metrics, who->metrics) == 0) {
			engine_poll_set(engine_of(l), who);
			return peer_of(l)->wanted = true;
		}
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
			engine_poll_add(p, &list[i], o->engine_interval_ms * (msec)i / (msec)n);
	forget_others(p, list, n);
	apply_to_list(&p->engines, o->engine_interval_ms, o->engine_timeout_ms);
}

static const struct engine_told *told_by(const struct poll_peers *p, const struct engine_opts *who)
{
	for (struct list *l = p->engines.next; l != &p->engines; l = l->next) {
		const struct engine_opts *e = &engine_of(l)->who;

		if (strcmp(e->name, who->name) == 0 && strcmp(e->pool, who->pool) == 0)
			return &engine_of(l)->told;
	}
	return NULL;
}

/* Tell the owner which events can be read. Without memory for an engine's polls, it has told
 * nothing. */
static void apply_events(struct poll_peers *p, struct engine_opts *list, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (engine_events_fill(&list[i], told_by(p, &list[i])))
			list[kept++] = list[i];
	if (p->on_engines != NULL)
		p->on_engines(p->arg, list, kept);
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
	bool moved = p->addresses.changed;
	struct engine_opts *list;

	cap = cap < ENGINES_MAX ? cap : ENGINES_MAX;
	p->addresses.changed = true;
	if ((list = mem_alloc((cap + 1) * sizeof(list[0]))) == NULL)
		return;
	p->addresses.changed = false;
	n = engine_list_make(o->engines, o->n_engines, p->addresses.servers, p->addresses.n, list, cap);
	if (moved)
		log_engines(p, n);
	n = n < cap ? n : cap;
	apply_engines(p, list, n);
	apply_events(p, list, n);
	mem_free(list);
}

static void on_told(struct ev_loop *loop, ev_timer *t, int revents)
{
	make_engines(t->data);
}

void poll_peers_told(struct poll_peers *p)
{
	ev_timer_start(p->loop, &p->told);	/* nothing if it runs */
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
	ev_timer_init(&p->told, on_told, TOLD_S, 0.);
	p->told.data = p;
	list_init(&p->stats);
	list_init(&p->engines);
}

void poll_peers_stop(struct poll_peers *p)
{
	while (!list_empty(&p->stats))
		peer_free(peer_of(p->stats.next));
	while (!list_empty(&p->engines))
		peer_free(peer_of(p->engines.next));
	ev_timer_stop(p->loop, &p->told);
	server_addresses_free(&p->addresses);
	mem_free(p->opts);
	p->opts = NULL;
}
