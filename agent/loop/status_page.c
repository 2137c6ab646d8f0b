/* status_page.c - members in the order of the page. Every value comes from a view that /metrics
 * reads as well. */
#include <math.h>
#include <stdio.h>

#include "agent/base/vec.h"
#include "agent/events/events.h"
#include "agent/loop/page_text_in.h"
#include "agent/loop/share_in.h"
#include "agent/loop/status_page_in.h"
#include "agent/loop/worker_in.h"
#include "agent/route/share.h"
#include "agent/route/sources.h"

struct list_of {
	struct buf *t;
	unsigned n;
};

static void put_name(struct buf *t, const char *name)
{
	if (t->n > 0 && t->p[t->n - 1] != '{' && t->p[t->n - 1] != '[')
		buf_str(t, ",");
	page_addf(t, "\"%s\":", name);
}

static void put_text(struct buf *t, const char *name, const char *text)
{
	put_name(t, name);
	page_json(t, text);
}

static void put_count(struct buf *t, const char *name, uint64_t v)
{
	put_name(t, name);
	page_addf(t, "%llu", (unsigned long long)v);
}

static void put_real(struct buf *t, const char *name, double v)
{
	put_name(t, name);
	if (isfinite(v))
		page_addf(t, "%.6g", v);
	else
		buf_str(t, "null");
}

static void put_bool(struct buf *t, const char *name, bool v)
{
	put_name(t, name);
	buf_str(t, v ? "true" : "false");
}

static void open_item(struct list_of *l)
{
	buf_str(l->t, l->n++ > 0 ? ",\n{" : "\n{");
}

static void close_item(struct list_of *l)
{
	buf_str(l->t, "}");
}

/* ---- the agent ----------------------------------------------------------------------------- */

static void put_agent(struct buf *t, const struct agent *a, int64_t wall_ms)
{
	put_text(t, "version", KVROUTE_VERSION);
	put_count(t, "time_ms", (uint64_t)wall_ms);
	put_count(t, "uptime_s", (uint64_t)(wall_ms / 1000 - a->started));
	put_bool(t, "ready", __atomic_load_n(&a->ready, __ATOMIC_RELAXED));
	put_bool(t, "draining", __atomic_load_n(&a->draining, __ATOMIC_RELAXED));
	put_count(t, "threads", a->n_workers);
	put_count(t, "connections", __atomic_load_n(&a->n_conns, __ATOMIC_RELAXED));
}

static void put_requests(struct buf *t, const struct route_stats *s)
{
	put_count(t, "requests", s->requests);
	put_count(t, "slices", s->slices);
	put_count(t, "cut", s->cut);
	put_count(t, "open", s->open);
	put_count(t, "prompt_tokens", s->prompt_tokens);
	put_count(t, "hit_tokens", s->hit_tokens);
	put_count(t, "first_tokens", s->firsts);
	put_count(t, "ends", s->dones);
	put_name(t, "why");
	buf_str(t, "{");
	for (unsigned w = 0; w < WHY_COUNT; w++)
		put_count(t, why_text((enum why)w), s->why[w]);
	buf_str(t, "}");
}

/* Requests answered late or not at all, and the time that decisions take. */
static void put_decisions(struct buf *t, const struct agent *a, const struct route_stats *s)
{
	struct serve_counters c;
	struct sock_counters socks;

	workers_count(a, &c, &socks);
	put_name(t, "decisions");
	buf_str(t, "{");
	put_count(t, "count", c.us_count);
	put_real(t, "seconds", (double)c.us_sum / 1e6);
	put_count(t, "without_compare", c.uncompared);
	put_count(t, "hurried", c.hurried);
	put_count(t, "declined", s->why[WHY_OVERLOAD]);
	buf_str(t, "}");
	put_name(t, "overload");
	buf_str(t, "{");
	put_count(t, "connections_refused", socks.refused_full + socks.refused_memory);
	put_count(t, "notifies_lost", c.lost);
	put_count(t, "text_bounded", s->tokenize_bounded);
	put_count(t, "claims_refused", s->index.refused);
	put_count(t, "ledger_full", s->closed_by_room);
	buf_str(t, "}");
}

static void put_index(struct buf *t, const struct route_stats *s)
{
	put_name(t, "index");
	buf_str(t, "{");
	put_count(t, "bytes", s->index.bytes);
	put_count(t, "max_bytes", s->index.max_bytes);
	put_count(t, "pages", s->index.pages);
	put_count(t, "spaces", s->index.spaces);
	put_count(t, "evicted_pages", s->index.evicted_pages);
	buf_str(t, "}");
}

/* ---- pools, servers, rules ----------------------------------------------------------------- */

/* Sums over the requests whose server is known; kvroutectl trial reads them. */
static void put_shadow(struct buf *t, const struct shadow_sums *s)
{
	put_name(t, "shadow");
	buf_str(t, "{");
	put_count(t, "requests", s->requests);
	put_count(t, "same", s->same);
	put_count(t, "prompt_tokens", s->prompt_tokens);
	put_count(t, "hit_tokens", s->hit_tokens);
	put_count(t, "haproxy_hit_tokens", s->haproxy_hit_tokens);
	put_real(t, "first_s", s->first_s);
	put_real(t, "haproxy_first_s", s->haproxy_first_s);
	put_count(t, "timed", s->timed);
	put_real(t, "timed_s", s->timed_s);
	put_real(t, "haproxy_timed_s", s->haproxy_timed_s);
	put_real(t, "timed_gain_s2", s->timed_gain_s2);
	put_real(t, "gain_tokens2", s->gain_tokens2);
	put_real(t, "gain_s2", s->gain_s2);
	buf_str(t, "}");
}

static void add_pool(void *arg, const struct route_pool_view *v)
{
	struct list_of *l = arg;

	open_item(l);
	put_text(l->t, "name", v->name);
	put_text(l->t, "mode", v->mode);
	put_text(l->t, "facts", v->facts);
	put_count(l->t, "requests", v->requests);
	put_bool(l->t, "imbalanced", v->imbalanced);
	put_real(l->t, "pressure", v->pressure);
	put_real(l->t, "wait_error", wait_error(v->wait) < 0 ? NAN : wait_error(v->wait));
	put_real(l->t, "unseen_kept_s", v->unseen.kept_s < 0 ? NAN : v->unseen.kept_s);
	put_real(l->t, "unseen_came", v->unseen.came_share < 0 ? NAN : v->unseen.came_share);
	put_count(l->t, "choices", v->choices);
	put_count(l->t, "dearer", v->dearer);
	put_real(l->t, "regret_s", v->regret_s);
	if (v->shadow.requests > 0)
		put_shadow(l->t, &v->shadow);
	close_item(l);
}

static const char *const speed_sources[] = { "learned", "pool", "guess", "configuration" };
static const char *const capacity_sources[] = { "unknown", "guess", "inferred", "engine",
	"configuration" };

static void put_engine(struct buf *t, const struct route_server_view *v)
{
	put_name(t, "engine");
	buf_str(t, "{");
	put_real(t, "waiting", v->waiting < 0 ? NAN : v->waiting);
	put_real(t, "running", v->running < 0 ? NAN : v->running);
	put_real(t, "kv_used", v->kv_used < 0 ? NAN : v->kv_used);
	put_count(t, "foreign", v->foreign);
	buf_str(t, "}");
}

/* The lock of the servers is held by who calls, so a copy is made, and written later. */
struct server_copy {
	struct route_server_view v;
	char pool[POOL_NAME_MAX + 1], name[SERVER_NAME_MAX + 1];
};

struct server_copies {
	VEC(struct server_copy) c;
	bool failed;
};

static void copy_server(void *arg, const struct route_server_view *v)
{
	struct server_copies *to = arg;
	struct server_copy *c;

	if (to->failed || vec_reserve(&to->c, 1) < 0) {
		to->failed = true;
		return;
	}
	c = &to->c.p[to->c.n++];
	c->v = *v;
	snprintf(c->pool, sizeof(c->pool), "%s", v->pool);
	snprintf(c->name, sizeof(c->name), "%s", v->name);
}

static void put_server(struct list_of *l, const struct server_copy *c)
{
	const struct route_server_view *v = &c->v;

	open_item(l);
	put_text(l->t, "pool", c->pool);
	put_text(l->t, "name", c->name);
	put_bool(l->t, "up", v->up);
	put_bool(l->t, "closed", v->closed);
	put_bool(l->t, "backup", v->backup);
	put_count(l->t, "weight", v->weight);
	put_count(l->t, "connections", v->conn);
	put_count(l->t, "queue", v->queue);
	put_count(l->t, "open", v->open);
	put_real(l->t, "backlog_s", v->backlog_s);
	put_real(l->t, "wait_s", v->wait_s < 0 ? NAN : v->wait_s);
	put_real(l->t, "tokens_per_s", v->tokens_per_s);
	put_text(l->t, "speed_source", speed_sources[v->speed]);
	put_real(l->t, "penalty", v->penalty);
	put_count(l->t, "picked", v->picked);
	put_count(l->t, "hit_tokens", v->hit_tokens);
	put_count(l->t, "failures", v->failures);
	put_count(l->t, "held_tokens", v->held_tokens);
	put_count(l->t, "capacity_tokens", v->capacity_tokens);
	put_text(l->t, "capacity_source", capacity_sources[v->capacity_source]);
	if (v->engine)
		put_engine(l->t, v);
	close_item(l);
}

static void put_servers(struct buf *t, struct route *r, msec now, struct list_of *l)
{
	struct server_copies all = { .failed = false };

	route_each_server(r, now, copy_server, &all);
	for (size_t i = 0; i < all.c.n; i++)
		put_server(l, &all.c.p[i]);
	t->failed |= all.failed;
	vec_free(&all.c);
}

static void put_sums(struct buf *t, const char *name, const struct outcome_sums *s)
{
	put_name(t, name);
	buf_str(t, "{");
	put_count(t, "count", s->n);
	put_real(t, "measured_s", s->measured_s);
	put_real(t, "judged_s", s->judged_s);
	buf_str(t, "}");
}

static void add_compared(void *arg, const struct route_compare_view *v)
{
	struct list_of *l = arg;

	open_item(l);
	put_text(l->t, "pool", v->pool);
	put_text(l->t, "rule", v->rule);
	put_count(l->t, "choices", v->choices);
	put_count(l->t, "same", v->same);
	put_count(l->t, "hit_tokens", v->hit_tokens);
	put_sums(l->t, "other", &v->other);
	put_sums(l->t, "all", &v->checked);
	put_real(l->t, "sooner_s", v->gain_known ? v->gain_s : NAN);
	put_real(l->t, "sooner_error_s", v->gain_known ? v->gain_error_s : NAN);
	close_item(l);
}

/* ---- problems, events, siblings ------------------------------------------------------------ */

/* The example of a problem: "server=s3", as its line in the log has it. */
static void put_example(struct buf *t, const struct problem_row *row, const struct problem_view *v)
{
	char text[3 * (PROBLEM_NAME_MAX + 24)] = "";
	size_t n = 0;

	for (unsigned i = 0; i < 2; i++)
		if (row->text_key[i][0] != '\0' && v->example.text[i][0] != '\0')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%s", n > 0 ? " " : "",
			    row->text_key[i], v->example.text[i]);
	if (row->number_key[0] != '\0')
		snprintf(text + n, sizeof(text) - n, "%s%s=%lld", n > 0 ? " " : "", row->number_key,
		    (long long)v->example.number);
	put_text(t, "example", text);
}

/* The pool "" sums up the others, so it counts only for what no pool has. */
static void add_problem(void *arg, const struct problem_view *v)
{
	const struct problem_row *row = &problem_rows[v->what];
	struct list_of *l = arg;

	if (!v->raised)
		return;
	open_item(l);
	put_text(l->t, "what", v->word);
	put_text(l->t, "pool", v->pool);
	put_count(l->t, "since_s", (uint64_t)v->since_ms / 1000);
	put_count(l->t, "last_seen_s", (uint64_t)v->seen_ms / 1000);
	put_bool(l->t, "quiet", v->quiet);
	put_example(l->t, row, v);
	put_text(l->t, "message", row->message);
	put_text(l->t, "effect", row->effect);
	put_text(l->t, "remedy", problem_remedy(v->what, &v->example));
	close_item(l);
}

static void add_source(void *arg, const struct source_view *v)
{
	struct list_of *l = arg;

	open_item(l);
	put_text(l->t, "pool", v->pool);
	put_text(l->t, "server", v->server);
	put_count(l->t, "ranks", v->ranks);
	put_count(l->t, "ranks_trusted", v->good);
	put_bool(l->t, "from_start", v->from_start);
	put_count(l->t, "blocks", v->blocks);
	close_item(l);
}

#ifdef HAVE_HIREDIS

static void put_siblings(struct buf *t, struct share *sh)
{
	struct list_of l = { t, 0 };
	msec now = clock_msec();

	put_name(t, "siblings");
	buf_str(t, "[");
	pthread_mutex_lock(&sh->lock);
	for (size_t i = 0; i < sh->siblings.n; i++) {
		const struct share_sibling *x = &sh->siblings.s[i];
		char agent[SHARE_AGENT_TEXT];

		share_agent_text(x->agent, agent);
		open_item(&l);
		put_text(t, "agent", agent);
		put_real(t, "lag_s", (double)x->lag_ms / 1000);
		put_real(t, "silent_s", (double)(now - x->heard) / 1000);
		put_bool(t, "warm", x->told && x->alive.warm);
		close_item(&l);
	}
	pthread_mutex_unlock(&sh->lock);
	buf_str(t, "]");
}

static void put_share(struct buf *t, const struct agent *a)
{
	struct route_share_stats r;

	if (a->share == NULL)
		return;
	route_share_stats(a->route, &r);
	put_name(t, "share");
	buf_str(t, "{");
	put_bool(t, "connected", __atomic_load_n(&a->share->connected, __ATOMIC_RELAXED));
	put_bool(t, "warm", __atomic_load_n(&a->share->is_warm, __ATOMIC_RELAXED));
	put_count(t, "differing_parts", r.parts_differing);
	put_count(t, "open", r.open);
	put_siblings(t, a->share);
	buf_str(t, "}");
}

#else

static void put_share(struct buf *t, const struct agent *a)
{
}

#endif

/* ---- the page ------------------------------------------------------------------------------ */

static struct list_of open_list(struct buf *t, const char *name)
{
	put_name(t, name);
	buf_str(t, "[");
	return (struct list_of){ t, 0 };
}

static void put_pool_list(struct buf *t, struct route *r)
{
	struct list_of l = open_list(t, "pools");

	route_each_pool(r, add_pool, &l);
	buf_str(t, "]");
}

static void put_server_list(struct buf *t, const struct agent *a)
{
	struct list_of l = open_list(t, "servers");

	put_servers(t, a->route, agent_msec(a), &l);
	buf_str(t, "]");
}

static void put_problem_list(struct buf *t, const struct agent *a)
{
	struct list_of l = open_list(t, "problems");

	route_each_problem(a->route, agent_msec(a), add_problem, &l);
	buf_str(t, "]");
}

static void put_event_list(struct buf *t, struct route *r)
{
	struct list_of l = open_list(t, "events");

	route_each_source(r, add_source, &l);
	buf_str(t, "]");
}

void status_page_write(const struct agent *a, int64_t wall_ms, struct buf *t)
{
	struct events_stats events;
	struct route_stats s;
	struct list_of l;

	route_stats(a->route, &s);
	buf_str(t, "{");
	put_agent(t, a, wall_ms);
	put_requests(t, &s);
	put_decisions(t, a, &s);
	put_index(t, &s);
	put_problem_list(t, a);
	put_pool_list(t, a->route);
	put_server_list(t, a);
	l = open_list(t, "compare");
	route_each_compared(a->route, add_compared, &l);
	buf_str(t, "]");
	if (route_events_stats(a->route, &events))
		put_event_list(t, a->route);
	put_share(t, a);
	buf_str(t, "}\n");
}

void status_part_write(
    const struct agent *a, enum command_show what, int64_t wall_ms, struct buf *t)
{
	struct route_stats s;

	route_stats(a->route, &s);
	buf_str(t, "{");
	switch (what) {
	case SHOW_INFO:
		put_agent(t, a, wall_ms);
		put_count(t, "snapshots_written", __atomic_load_n(&a->snapfile.written, __ATOMIC_RELAXED));
		put_requests(t, &s);
		put_decisions(t, a, &s);
		break;
	case SHOW_SERVERS: put_server_list(t, a); break;
	case SHOW_POOLS: put_pool_list(t, a->route); break;
	case SHOW_INDEX: put_index(t, &s); break;
	case SHOW_PROBLEMS: put_problem_list(t, a); break;
	case SHOW_EVENTS: put_event_list(t, a->route); break;
	case SHOW_SHARE:
		if (a->share == NULL)
			put_text(t, "share", "off");
		put_share(t, a);
		break;
	default: break;
	}
	buf_str(t, "}\n");
}
