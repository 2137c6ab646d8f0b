/* One table per struct of figures: a row names a metric, where its value is, and what it means; a row
 * without a help text is one more sample of the metric above it, with another label. All samples of
 * a metric must stand together, so servers and pools are copied out first (which also keeps the core's
 * lock short) and then written column by column. */
#include <math.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/os/clock.h"
#include "agent/loop/count_in.h"
#include "agent/loop/metrics_in.h"
#include "agent/route/traffic.h"
#include "agent/loop/worker_in.h"

#define VIEW_TEXT_MAX	(2u << 20)	/* labels of all servers and pools */

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct row {
	const char *name;	/* without "kvroute_" */
	const char *label;	/* "" or all of what stands between the braces */
	enum kind kind;
	size_t at;		/* of a uint64_t */
	const char *help;	/* NULL: as above */
};

static void metric_family(struct text *t, const char *name, enum kind kind, const char *help)
{
	static const char *const word[] = { "counter", "gauge", "histogram" };

	text_addf(t, "# HELP kvroute_%s %s\n# TYPE kvroute_%s %s\n", name, help, name, word[kind]);
}

static void metric_sample(struct text *t, const char *name, const char *label, uint64_t v)
{
	if (label[0] != '\0')
		text_addf(t, "kvroute_%s{%s} %llu\n", name, label, (unsigned long long)v);
	else
		text_addf(t, "kvroute_%s %llu\n", name, (unsigned long long)v);
}

/* A count is written whole, anything else to nine digits; NaN: there is none. */
static void metric_value(struct text *t, double v)
{
	if (isnan(v))
		text_addf(t, " NaN\n");
	else if (v > -1e18 && v < 1e18 && v == (double)(int64_t)v)
		text_addf(t, " %lld\n", (long long)v);
	else
		text_addf(t, " %.9g\n", v);
}

static void metric_single(struct text *t, const char *name, enum kind kind, const char *help, double v)
{
	metric_family(t, name, kind, help);
	text_addf(t, "kvroute_%s", name);
	metric_value(t, v);
}

static void metric_table(struct text *t, const struct row *rows, size_t n, const void *figures)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (rows[i].help != NULL)
			metric_family(t, rows[i].name, rows[i].kind, rows[i].help);
		metric_sample(t, rows[i].name, rows[i].label,
		       count_read((const uint64_t *)((const char *)figures + rows[i].at)));
	}
}

#define TABLE(t, rows, figures)	metric_table(t, rows, sizeof(rows) / sizeof((rows)[0]), figures)

/* ---- the core ------------------------------------------------------------------------------------ */

#define R(f)	offsetof(struct route_stats, f)

static const struct row route_rows[] = {
	{ "requests_total", "", COUNTER, R(requests), "Requests seen: route messages with seq 0." },
	{ "slices_total", "", COUNTER, R(slices), "Further slices of a body." },
	{ "bodies_cut_total", "", COUNTER, R(cut), "Bodies seen in part." },
	{ "bodies_cut_recalled_total", "", COUNTER, R(headless_saved),
	  "Cut bodies whose head was known from an earlier body." },
	{ "models_asked_total", "from=\"argument\"", COUNTER, R(models[MODEL_FROM_ARGUMENT]),
	  "Messages that ask for the model before a pool is chosen, by where it was found." },
	{ "models_asked_total", "from=\"body\"", COUNTER, R(models[MODEL_FROM_BODY]), NULL },
	{ "models_asked_total", "from=\"head\"", COUNTER, R(models[MODEL_FROM_HEAD]), NULL },
	{ "models_asked_total", "from=\"none\"", COUNTER, R(models[MODEL_FROM_NONE]), NULL },
	{ "models_asked_total", "from=\"overload\"", COUNTER, R(models[MODEL_FROM_OVERLOAD]), NULL },
	{ "models_scans_total", "used=\"twice\"", COUNTER, R(scans_shared),
	  "Bodies read for a model, by whether the request for a server came with the same body." },
	{ "models_scans_total", "used=\"once\"", COUNTER, R(scans_lost), NULL },
	{ "loads_bad_total", "", COUNTER, R(bad_load), "Load strings with an entry without sense." },
	{ "slices_waiting", "", GAUGE, R(slices_waiting), "Requests that wait for more slices." },
	{ "slices_waiting_bytes", "", GAUGE, R(slices_bytes), "Memory of requests that wait for slices." },
	{ "slices_lost_total", "reason=\"age\"", COUNTER, R(slices_aged),
	  "Waiting requests that were let go." },
	{ "slices_lost_total", "reason=\"room\"", COUNTER, R(slices_dropped), NULL },
	{ "slices_again_total", "", COUNTER, R(slices_again),
	  "Requests that began anew with the uid of one that waited." },
	{ "slices_repeated_total", "", COUNTER, R(slices_repeated), "Slices that came a second time and were left out." },
	{ "facts_total", "kind=\"first\"", COUNTER, R(firsts), "Facts taken." },
	{ "facts_total", "kind=\"done\"", COUNTER, R(dones), NULL },
	{ "facts_unknown_total", "", COUNTER, R(facts_unknown),
	  "Facts for a uid not open: late, twice, not ours, or the log line of a whole answer." },
	{ "failures_total", "kind=\"connect\"", COUNTER, R(failures[VERDICT_CONNECT]),
	  "Requests that servers failed." },
	{ "failures_total", "kind=\"broken\"", COUNTER, R(failures[VERDICT_BROKEN]), NULL },
	{ "failures_total", "kind=\"5xx\"", COUNTER, R(failures[VERDICT_5XX]), NULL },
	{ "failures_total", "kind=\"429\"", COUNTER, R(failures[VERDICT_429]), NULL },
	{ "ledger_open_requests", "", GAUGE, R(open), "Requests the ledger believes open." },
	{ "ledger_closed_total", "reason=\"load\"", COUNTER, R(closed_by_load),
	  "Open requests closed without a fact." },
	{ "ledger_closed_total", "reason=\"silence\"", COUNTER, R(closed_by_silence), NULL },
	{ "ledger_closed_total", "reason=\"age\"", COUNTER, R(closed_by_age), NULL },
	{ "ledger_closed_total", "reason=\"room\"", COUNTER, R(closed_by_room), NULL },
	{ "refused_total", "what=\"pool\"", COUNTER, R(pools_refused), "Names above a limit." },
	{ "refused_total", "what=\"server\"", COUNTER, R(servers_refused), NULL },
	{ "tokenized_prompts_total", "", COUNTER, R(tokenized), "Requests whose prompt, a text, was made into token ids." },
	{ "tokens_total", "", COUNTER, R(tokens), "Token ids made of text, found in the segment cache or encoded." },
	{ "prompt_tokens_compared_total", "", COUNTER, R(tokens_compared), "Prompts of which the engine has told how many tokens it counted." },
	{ "prompt_tokens_differ_total", "", COUNTER, R(tokens_differed), "Of them, those that we counted otherwise." },
	{ "models_disagree", "", GAUGE, R(models_disagree), "Models with a kind of request in text mode, as their engine counts other tokens than we do." },
	{ "chat_refused_total", "", COUNTER, R(chat_refused), "Conversations that their model's template does not take, so that the engine answers with an error." },
	{ "chat_unknown_total", "", COUNTER, R(chat_unknown),
	  "Conversations of models in token mode that stayed text: pictures, a template of their own, bounds." },
	{ "tokenize_failed_total", "", COUNTER, R(tokenize_failed),
	  "Requests that could not be made into ids and counted as text: no memory, or a pattern that gave up." },
	{ "tokenize_bounded_total", "", COUNTER, R(tokenize_bounded),
	  "Requests of which only the beginning was made into ids, as all would have taken too long." },
	{ "tokenize_limits_total", "limit=\"body\"", COUNTER, R(tokenize_bounded_by[BOUND_BODY]),
	  "The same, by what allowed no more work: the size of the body, the tenant's share of the thread, or that the agent was late." },
	{ "tokenize_limits_total", "limit=\"tenant\"", COUNTER, R(tokenize_bounded_by[BOUND_TENANT]), NULL },
	{ "tokenize_limits_total", "limit=\"late\"", COUNTER, R(tokenize_bounded_by[BOUND_CALLER]), NULL },
	{ "segment_cache_hits_total", "", COUNTER, R(segments.hits), "Segments of text that were encoded before." },
	{ "segment_cache_misses_total", "", COUNTER, R(segments.misses), "Segments that were not." },
	{ "segment_cache_hit_tokens_total", "", COUNTER, R(segments.hit_ids), "Token ids found there." },
	{ "segment_cache_bytes", "", GAUGE, R(segments.used_bytes), "Memory of the ids that are kept." },
	{ "segment_cache_limit_bytes", "", GAUGE, R(segments.max_bytes), "Budget of the segment cache; 0: there is none yet." },
	{ "segment_cache_evicted_total", "", COUNTER, R(segments.evicted), "Segments that went for others." },
	{ "segment_cache_refused_total", "", COUNTER, R(segments.too_large), "Segments that were too large to be kept." },
	{ "prompt_tokens_total", "", COUNTER, R(prompt_tokens),
	  "Prompt tokens of decisions that set a server; of text, and of what was not seen, estimated." },
	{ "hit_tokens_total", "", COUNTER, R(hit_tokens),
	  "Of them, tokens expected in the cache of the server." },
	{ "index_bytes", "", GAUGE, R(index.bytes), "Memory of the index." },
	{ "index_limit_bytes", "", GAUGE, R(index.max_bytes), "Budget of the index." },
	{ "index_fixed_bytes", "", GAUGE, R(index.fixed_bytes), "Of its memory, tables that are always there." },
	{ "index_shards", "", GAUGE, R(index.shards), "Parts of the index, each with a lock of its own." },
	{ "index_spaces", "", GAUGE, R(index.spaces), "Spaces: what may share cache." },
	{ "index_nodes", "", GAUGE, R(index.nodes), "Nodes of all trees." },
	{ "index_records", "", GAUGE, R(index.records), "Pairs of node and server." },
	{ "index_pages", "", GAUGE, R(index.pages), "Pages on nodes, each once." },
	{ "index_claims", "", GAUGE, R(index.claims), "Claims neither confirmed nor cancelled yet." },
	{ "index_matches_total", "", COUNTER, R(index.matches), "Prompts looked up." },
	{ "index_commits_total", "", COUNTER, R(index.commits), "Prompts entered." },
	{ "index_claims_ended_total", "how=\"confirmed\"", COUNTER, R(index.confirmed), "Claims ended." },
	{ "index_claims_ended_total", "how=\"cancelled\"", COUNTER, R(index.cancelled), NULL },
	{ "index_claims_ended_total", "how=\"expired\"", COUNTER, R(index.expired), NULL },
	{ "index_evicted_records_total", "", COUNTER, R(index.evicted_records),
	  "Records evicted, for bytes or a server's capacity." },
	{ "index_evicted_pages_total", "", COUNTER, R(index.evicted_pages),
	  "Pages evicted, for bytes or a server's capacity." },
	{ "index_refused_total", "", COUNTER, R(index.refused), "Prompts that found no room." },
	{ "heads_bytes", "", GAUGE, R(heads.bytes), "Memory of remembered heads." },
	{ "heads", "", GAUGE, R(heads.heads), "Heads remembered." },
	{ "heads_openings", "", GAUGE, R(heads.openings), "Openings that lead to a head." },
	{ "heads_lookups_total", "result=\"found\"", COUNTER, R(heads.found), "Heads looked up." },
	{ "heads_lookups_total", "result=\"missed\"", COUNTER, R(heads.missed), NULL },
	{ "heads_evicted_total", "", COUNTER, R(heads.evicted), "Heads evicted for the budget." },
};

static const struct {
	const char *name;
	enum kind kind;
	size_t at;
	const char *help;
} shard_rows[] = {
	{ "index_shard_commits_total", COUNTER, offsetof(struct index_shard_stats, commits),
	  "Commits that ended on a node of the shard." },
	{ "index_shard_bytes", GAUGE, offsetof(struct index_shard_stats, bytes), "Memory in use, by shard." },
	{ "index_shard_limit_bytes", GAUGE, offsetof(struct index_shard_stats, max_bytes), "Memory there is, by shard." },
	{ "index_shard_records", GAUGE, offsetof(struct index_shard_stats, records),
	  "Pairs of node and server, by shard." },
};

struct shards {
	struct index_shard_stats of[SHARDS_MAX];
	unsigned n;
};

static void add_shard(void *arg, uint32_t i, const struct index_shard_stats *v)
{
	struct shards *s = arg;

	if (i < sizeof(s->of) / sizeof(s->of[0])) {
		s->of[i] = *v;
		s->n = i + 1;
	}
}

static void write_shards(struct text *t, struct route *r)
{
	struct shards s = { .n = 0 };
	char label[32];
	size_t row;
	unsigned i;

	route_each_shard(r, add_shard, &s);
	for (row = 0; row < sizeof(shard_rows) / sizeof(shard_rows[0]); row++) {
		metric_family(t, shard_rows[row].name, shard_rows[row].kind, shard_rows[row].help);
		for (i = 0; i < s.n; i++) {
			snprintf(label, sizeof(label), "shard=\"%u\"", i);
			metric_sample(t, shard_rows[row].name, label,
			       *(const uint64_t *)((const char *)&s.of[i] + shard_rows[row].at));
		}
	}
}

static void write_haproxy_errors(struct text *t, const struct route_stats *s)
{
	char label[32];
	unsigned i;

	metric_family(t, "haproxy_errors_total", COUNTER, "Log lines that say HAProxy could not ask us, by its code.");
	for (i = 0; i < HAPROXY_ERRORS; i++) {
		snprintf(label, sizeof(label), "code=\"%d\"", haproxy_errors[i].code);
		metric_sample(t, "haproxy_errors_total", label, s->haproxy_errors[i]);
	}
	metric_sample(t, "haproxy_errors_total", "code=\"other\"", s->haproxy_errors[i]);
}

static void write_problem(void *arg, const char *what, const char *pool, bool raised)
{
	text_addf(arg, "kvroute_problem{what=\"%s\",", what);
	text_label(arg, "pool", span_str(pool));
	text_addf(arg, "} %d\n", raised);
}

static void write_problems(struct text *t, struct route *r)
{
	metric_family(t, "problem", GAUGE, "1: this fault in how HAProxy is attached lasts; see kvroute(8), PROBLEMS.");
	route_each_problem(r, write_problem, t);
}

static void write_core(struct text *t, struct route *r)
{
	struct route_stats *s = mem_alloc(sizeof(*s));
	char label[64];
	int w;

	if (s == NULL) {
		t->failed = true;
		return;
	}
	route_stats(r, s);
	TABLE(t, route_rows, s);
	metric_family(t, "decisions_total", COUNTER, "Answers to route messages, by why.");
	for (w = 0; w < WHY_COUNT; w++) {
		snprintf(label, sizeof(label), "why=\"%s\"", why_text((enum why)w));
		metric_sample(t, "decisions_total", label, s->why[w]);
	}
	write_haproxy_errors(t, s);
	write_problems(t, r);
	write_shards(t, r);
	mem_free(s);
}

/* ---- servers and pools ------------------------------------------------------------------------------ */

enum { VIEW_VALUES = 18 };

struct view {
	size_t label, n;		/* in <labels> */
	double v[VIEW_VALUES];
};

struct views {
	struct text labels;
	struct view *view;
	size_t n, cap;
	bool failed;
};

struct column {
	const char *name;
	enum kind kind;
	const char *help;
};

static struct view *view_add(struct views *vs)
{
	size_t cap = vs->cap ? vs->cap * 2 : 64;
	struct view *p;

	if (vs->n == vs->cap) {
		if ((p = mem_resize(vs->view, cap, sizeof(*p))) == NULL) {
			vs->failed = true;
			return NULL;
		}
		vs->view = p;
		vs->cap = cap;
	}
	p = &vs->view[vs->n++];
	memset(p, 0, sizeof(*p));
	p->label = vs->labels.n;
	return p;
}

/* One with a label, or with two (<second> NULL: one). NULL: no memory, which is told at the end. */
static struct view *view_of(struct views *vs, const char *first, const char *a, const char *second, const char *b)
{
	struct view *v = view_add(vs);

	if (v == NULL)
		return NULL;
	text_label(&vs->labels, first, span_str(a));
	if (second != NULL) {
		text_add(&vs->labels, ",", 1);
		text_label(&vs->labels, second, span_str(b));
	}
	v->n = vs->labels.n - v->label;
	return v;
}

/* And forget them. */
static void views_write(struct text *t, struct views *vs, const struct column *columns, size_t n)
{
	const struct view *v;
	size_t c, i;

	if (vs->failed || vs->labels.failed)
		t->failed = true;
	for (c = 0; c < n && vs->n > 0 && !t->failed; c++) {
		metric_family(t, columns[c].name, columns[c].kind, columns[c].help);
		for (i = 0; i < vs->n; i++) {
			v = &vs->view[i];
			text_addf(t, "kvroute_%s{", columns[c].name);
			text_add(t, vs->labels.p + v->label, v->n);
			text_add(t, "}", 1);
			metric_value(t, v->v[c]);
		}
	}
	text_fini(&vs->labels);
	mem_free(vs->view);
}

static const struct column server_columns[] = {
	{ "server_up", GAUGE, "1: up, as HAProxy last said." },
	{ "server_weight", GAUGE, "Weight, as HAProxy last said." },
	{ "server_connections", GAUGE, "Connections, as HAProxy last said." },
	{ "server_queue", GAUGE, "Requests queued for the server, as HAProxy last said." },
	{ "server_open_requests", GAUGE, "Our own open requests there." },
	{ "server_backlog_seconds", GAUGE, "Prefill sent there and not answered yet." },
	{ "server_picked_total", COUNTER, "Decisions for the server." },
	{ "server_hit_tokens_total", COUNTER, "Prompt tokens expected in its cache." },
	{ "server_held_tokens", GAUGE, "Tokens of the pages it holds or claims, over all spaces." },
	{ "server_failures_total", COUNTER, "Requests that it failed." },
	{ "server_penalty_requests", GAUGE, "What its failures weigh, in requests; it decays." },
	{ "server_output_tokens", GAUGE, "Tokens that it generated and is believed to hold yet." },
	{ "server_room_tokens", GAUGE, "Tokens that are kept of it at most; 0: no bound but index.max_bytes." },
	{ "server_watchers", GAUGE, "HAProxy processes whose stats socket told of it just now." },
	{ "server_closed", GAUGE, "1: one of them says drain, maintenance or weight 0: it gets nothing." },
	{ "server_prefill_tokens_per_second", GAUGE, "Prompt tokens it computes in a second, as it is believed." },
	{ "server_capacity_tokens", GAUGE, "Tokens that its cache is taken to have; 0: not known." },
	{ "server_capacity_source", GAUGE,
	  "Who says so: 0 nobody, 1 a guess, 2 inferred from first tokens, 3 its engine, 4 the configuration." },
};

static void add_server(void *arg, const struct route_server_view *s)
{
	struct view *v = view_of(arg, "pool", s->pool, "server", s->name);

	if (v == NULL)
		return;
	v->v[0] = s->up;
	v->v[1] = s->weight;
	v->v[2] = s->conn;
	v->v[3] = s->queue;
	v->v[4] = s->open;
	v->v[5] = s->backlog_s;
	v->v[6] = (double)s->picked;
	v->v[7] = (double)s->hit_tokens;
	v->v[8] = (double)s->held_tokens;
	v->v[9] = (double)s->failures;
	v->v[10] = s->penalty;
	v->v[11] = (double)s->output_tokens;
	v->v[12] = (double)s->room_tokens;
	v->v[13] = s->watchers;
	v->v[14] = s->closed;
	v->v[15] = s->tokens_per_s;
	v->v[16] = (double)s->capacity_tokens;
	v->v[17] = s->capacity_source;
}

static const struct column engine_columns[] = {
	{ "engine_waiting_requests", GAUGE, "Requests in the engine's queue, as it says; NaN: it does not." },
	{ "engine_running_requests", GAUGE, "Requests that the engine works on; NaN: it does not say." },
	{ "engine_kv_used_ratio", GAUGE, "Share of its KV cache that is in use; NaN: it does not say." },
	{ "engine_foreign_requests", GAUGE, "Requests there that neither HAProxy nor the agent knows of." },
	{ "engine_block_size_tokens", GAUGE, "Tokens of a block of its KV cache; 0: it does not say." },
	{ "engine_capacity_tokens", GAUGE, "Tokens in its KV cache; 0: it does not say." },
	{ "engine_adapters_running", GAUGE, "LoRA adapters that run." },
	{ "engine_adapters_waiting", GAUGE, "LoRA adapters that requests wait for." },
	{ "engine_adapters_loaded", GAUGE, "LoRA adapters that have a place in the engine, by when they ran last." },
};

static double or_nan(double v)
{
	return v < 0 ? NAN : v;
}

/* Only of those that have told something, and lately. */
static void add_engine(void *arg, const struct route_server_view *s)
{
	struct view *v = s->engine ? view_of(arg, "pool", s->pool, "server", s->name) : NULL;

	if (v == NULL)
		return;
	v->v[0] = or_nan(s->waiting);
	v->v[1] = or_nan(s->running);
	v->v[2] = or_nan(s->kv_used);
	v->v[3] = s->foreign;
	v->v[4] = s->block_size;
	v->v[5] = (double)s->engine_capacity;
	v->v[6] = s->adapters_running;
	v->v[7] = s->adapters_waiting;
	v->v[8] = s->adapters_loaded;
}

static const struct column pool_columns[] = {
	{ "pool_requests_total", COUNTER, "Requests of the pool." },
	{ "pool_imbalanced", GAUGE, "1: the imbalance guard is tripped." },
	{ "pool_imbalance_transitions_total", COUNTER, "Times the guard tripped or let go." },
	{ "pool_pressure_ratio", GAUGE, "Mean wait to mean work, smoothed." },
	{ "pool_choices_total", COUNTER, "Choices among servers; each slice of a body makes one." },
	{ "pool_choices_dearer_total", COUNTER, "Of them, those not for the server of the least cost." },
	{ "pool_regret_seconds_total", COUNTER, "What these cost more than the least cost, by our own estimate." },
};

static void add_pool(void *arg, const struct route_pool_view *p)
{
	struct view *v = view_of(arg, "pool", p->name, NULL, NULL);

	if (v == NULL)
		return;
	v->v[0] = (double)p->requests;
	v->v[1] = p->imbalanced;
	v->v[2] = (double)p->imbalance_transitions;
	v->v[3] = p->pressure;
	v->v[4] = (double)p->choices;
	v->v[5] = (double)p->dearer;
	v->v[6] = p->regret_s;
}

static const struct column pool_facts_column[] = {
	{ "pool_facts", GAUGE, "1, with the step of the fact ladder the pool is on." },
};

static void add_pool_facts(void *arg, const struct route_pool_view *p)
{
	struct view *v = view_of(arg, "pool", p->name, "facts", p->facts);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

#define COLUMNS(c)	(c), sizeof(c) / sizeof((c)[0])

static void views_begin(struct views *vs)
{
	*vs = (struct views){ 0 };
	text_init(&vs->labels, VIEW_TEXT_MAX);
}

static void write_servers(struct text *t, const struct agent *a)
{
	struct views servers, engines;

	views_begin(&servers);
	views_begin(&engines);
	route_each_server(a->route, agent_msec(a), add_server, &servers);
	route_each_server(a->route, agent_msec(a), add_engine, &engines);
	views_write(t, &servers, COLUMNS(server_columns));
	views_write(t, &engines, COLUMNS(engine_columns));
}

static void write_pools(struct text *t, struct route *r, void (*add)(void *arg, const struct route_pool_view *p),
			const struct column *columns, size_t n)
{
	struct views vs;

	views_begin(&vs);
	route_each_pool(r, add, &vs);
	views_write(t, &vs, columns, n);
}

static const struct column pool_mode_column[] = {
	{ "pool_mode", GAUGE, "1, with the mode of the pool: on, shadow, off." },
};

static void add_pool_mode(void *arg, const struct route_pool_view *p)
{
	struct view *v = view_of(arg, "pool", p->name, "mode", p->mode);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

static const struct column model_columns[] = {
	{ "model_mode", GAUGE, "1, with the mode of the model: text, tokens, mixed (some kinds of request are text). \"*\" alone: those not named." },
	{ "model_page_tokens", GAUGE, "Token ids in a page of its prompts, where they are ids." },
	{ "model_kinds_text", GAUGE, "Kinds of request in text mode as their counts of tokens differ from the engine's, those of each tenant." },
};

static void add_model(void *arg, const struct route_model_view *m)
{
	struct view *v = view_of(arg, "model", m->name, "mode", m->mode);

	if (v == NULL)
		return;
	v->v[0] = 1;
	v->v[1] = m->page;
	v->v[2] = m->kinds_off;
}

static const struct column kind_columns[] = {
	{ "model_kind_text_tenants", GAUGE, "Tenants for which a kind of request is in text mode, as its counts of tokens differ from the engine's." },
};

static void add_kind(void *arg, const struct route_kind_view *k)
{
	struct view *v = view_of(arg, "model", k->model, "kind", k->kind);

	if (v != NULL)
		v->v[0] = k->tenants;
}

static const struct column compare_columns[] = {
	{ "compare_choices_total", COUNTER, "Choices that a compared rule was asked for." },
	{ "compare_same_total", COUNTER, "Of them, those for the server that was chosen." },
	{ "compare_regret_seconds_total", COUNTER, "What its choices cost more than the least cost, by our own estimate." },
	{ "compare_hit_tokens_total", COUNTER, "Prompt tokens expected in the caches of the servers it would have chosen." },
	{ "compare_same_first_tokens_total", COUNTER, "First tokens that came from the server it would have chosen." },
	{ "compare_same_first_seconds_total", COUNTER, "What these took." },
	{ "compare_other_first_tokens_total", COUNTER, "First tokens that came from another server than it would have chosen." },
	{ "compare_other_first_seconds_total", COUNTER, "What these took." },
	{ "compare_judged_seconds_total", COUNTER,
	  "What these would have taken where it would have sent them, by estimates corrected by what was measured." },
	{ "compare_gain_seconds", GAUGE, "What a request on which it differs would have been faster with it, in the mean; negative: slower." },
	{ "compare_gain_error_seconds", GAUGE, "Standard error of that." },
};

static void add_compared(void *arg, const struct route_compare_view *c)
{
	struct view *v = view_of(arg, "pool", c->pool, "rule", c->rule);

	if (v == NULL)
		return;
	v->v[0] = (double)c->choices;
	v->v[1] = (double)c->same;
	v->v[2] = c->regret_s;
	v->v[3] = (double)c->hit_tokens;
	v->v[4] = (double)c->same_as.n;
	v->v[5] = c->same_as.measured_s;
	v->v[6] = (double)c->other.n;
	v->v[7] = c->other.measured_s;
	v->v[8] = c->other.judged_s;
	v->v[9] = c->gain_known ? c->gain_s : 0;
	v->v[10] = c->gain_known ? c->gain_error_s : 0;
}

static void write_compared(struct text *t, struct route *r)
{
	struct views models, kinds, compared;

	views_begin(&models);
	views_begin(&kinds);
	views_begin(&compared);
	route_each_model(r, add_model, &models);
	route_each_kind(r, add_kind, &kinds);
	route_each_compared(r, add_compared, &compared);
	views_write(t, &models, COLUMNS(model_columns));
	views_write(t, &kinds, COLUMNS(kind_columns));
	views_write(t, &compared, COLUMNS(compare_columns));
}

/* ---- the SPOP threads --------------------------------------------------------------------------------- */

#define S(f)	offsetof(struct serve_counters, f)

static const struct row serve_rows[] = {
	{ "spop_frames_total", "", COUNTER, S(frames), "SPOP frames taken." },
	{ "spop_notifies_total", "", COUNTER, S(notifies), "NOTIFYs, joined from fragments or whole." },
	{ "spop_acks_total", "", COUNTER, S(acks), "ACKs written: as many as NOTIFYs." },
	{ "spop_messages_total", "", COUNTER, S(messages), "Messages in NOTIFYs." },
	{ "spop_messages_unknown_total", "", COUNTER, S(messages_unknown), "Messages of another name." },
	{ "spop_args_bad_total", "", COUNTER, S(args_bad), "NOTIFYs whose messages made no sense or were more than 16." },
	{ "spop_lost_total", "", COUNTER, S(lost),
	  "NOTIFYs answered without a look, for want of memory to hold them." },
	{ "spop_uncompared_total", "", COUNTER, S(uncompared),
	  "Requests that had waited and were decided without the rules of policy.compare." },
	{ "spop_hurried_total", "", COUNTER, S(hurried),
	  "Requests that had waited and were decided from what is cheap to know." },
	{ "spop_hellos_total", "", COUNTER, S(hellos), "Handshakes." },
	{ "spop_healthchecks_total", "", COUNTER, S(healthchecks), "Health checks answered." },
	{ "spop_aborts_total", "", COUNTER, S(aborts), "Fragmented NOTIFYs that HAProxy gave up." },
	{ "spop_fragments_total", "", COUNTER, S(fragments), "Fragments taken." },
	{ "spop_closed_by_peer_total", "", COUNTER, S(closed_by_peer),
	  "Connections that HAProxy ended with a DISCONNECT." },
};

#define K(f)	offsetof(struct sock_counters, f)

static const struct row sock_rows[] = {
	{ "spop_connections", "", GAUGE, K(open), "SPOP connections open." },
	{ "spop_accepted_total", "", COUNTER, K(accepted), "SPOP connections accepted." },
	{ "spop_accept_errors_total", "", COUNTER, K(accept_errors),
	  "Times no connection could be accepted, for want of descriptors as a rule." },
	{ "spop_refused_total", "reason=\"limit\"", COUNTER, K(refused_full), "SPOP connections refused." },
	{ "spop_refused_total", "reason=\"memory\"", COUNTER, K(refused_memory), NULL },
	{ "spop_closed_total", "reason=\"eof\"", COUNTER, K(closed_eof),
	  "SPOP connections ended: by HAProxy with or without a goodbye (peer: health checks, too; eof), or by us." },
	{ "spop_closed_total", "reason=\"peer\"", COUNTER, K(closed_peer), NULL },
	{ "spop_closed_total", "reason=\"error\"", COUNTER, K(closed_error), NULL },
	{ "spop_closed_total", "reason=\"hello_timeout\"", COUNTER, K(closed_hello), NULL },
	{ "spop_closed_total", "reason=\"idle_timeout\"", COUNTER, K(closed_idle), NULL },
	{ "spop_closed_total", "reason=\"drain\"", COUNTER, K(closed_drain), NULL },
	{ "spop_closed_total", "reason=\"protocol\"", COUNTER, K(closed_protocol), NULL },
	{ "spop_closed_total", "reason=\"memory\"", COUNTER, K(closed_memory), NULL },
	{ "spop_received_bytes_total", "", COUNTER, K(bytes_in), "Bytes from HAProxy." },
	{ "spop_sent_bytes_total", "", COUNTER, K(bytes_out), "Bytes to HAProxy." },
	{ "spop_writes_total", "", COUNTER, K(writes), "System calls that wrote answers." },
	{ "spop_paused_total", "", COUNTER, K(paused),
	  "Times a peer did not read its answers, so that it was not read from." },
};

#define U(f)	offsetof(struct budget, f)

static const struct row budget_rows[] = {
	{ "spop_buffer_bytes", "", GAUGE, U(used), "Memory of the buffers of SPOP connections." },
	{ "spop_buffer_limit_bytes", "", GAUGE, U(max), "Budget of these buffers." },
	{ "spop_buffer_refused_total", "kind=\"first\"", COUNTER, U(refused_first),
	  "Buffers refused for the budget: those every connection needs, and larger ones." },
	{ "spop_buffer_refused_total", "kind=\"large\"", COUNTER, U(refused_large), NULL },
};

/* Structs of nothing but uint64_t are added up as arrays. */
static void add_up(void *sum, const void *part, size_t size)
{
	const uint64_t *from = part;
	uint64_t *to = sum;
	size_t i;

	for (i = 0; i < size / sizeof(*to); i++)
		to[i] += count_read(&from[i]);
}

_Static_assert(sizeof(struct serve_counters) % sizeof(uint64_t) == 0, "added up as an array");
_Static_assert(sizeof(struct sock_counters) % sizeof(uint64_t) == 0, "added up as an array");

static void write_disconnects(struct text *t, const struct serve_counters *c)
{
	char label[32];

	metric_family(t, "spop_disconnects_total", COUNTER,
	       "Connections we ended for what the peer sent, by SPOP status.");
#define X(name, number, words) \
	if ((number) != SPOP_STATUS_NORMAL) { \
		snprintf(label, sizeof(label), "status=\"%d\"", number); \
		metric_sample(t, "spop_disconnects_total", label, c->closed_bad[number]); \
	}
	SPOP_STATUS_LIST(X)
#undef X
}

static void write_seconds(struct text *t, const struct serve_counters *c)
{
	uint64_t n = 0;
	int i;

	metric_family(t, "decision_seconds", HISTOGRAM, "Agent time of route messages, frame to ACK.");
	for (i = 0; i < SERVE_SECONDS_BUCKETS; i++) {
		n += c->us_bucket[i];
		if (i + 1 < SERVE_SECONDS_BUCKETS)
			text_addf(t, "kvroute_decision_seconds_bucket{le=\"%g\"} %llu\n",
				  (double)serve_us_bounds[i] / 1e6, (unsigned long long)n);
	}
	text_addf(t, "kvroute_decision_seconds_bucket{le=\"+Inf\"} %llu\n", (unsigned long long)n);
	text_addf(t, "kvroute_decision_seconds_sum");
	metric_value(t, (double)c->us_sum / 1e6);
	text_addf(t, "kvroute_decision_seconds_count %llu\n", (unsigned long long)n);
}

static void write_threads(struct text *t, const struct agent *a)
{
	struct serve_counters serve = { 0 };
	struct sock_counters socks = { 0 };
	char label[32];
	unsigned i;

	for (i = 0; i < a->n_workers; i++) {
		add_up(&serve, &a->worker[i]->count, sizeof(serve));
		add_up(&socks, &a->worker[i]->socks_count, sizeof(socks));
	}
	TABLE(t, serve_rows, &serve);
	TABLE(t, sock_rows, &socks);
	TABLE(t, budget_rows, &a->budget);
	write_disconnects(t, &serve);
	write_seconds(t, &serve);
	metric_family(t, "thread_connections", GAUGE, "SPOP connections open, by thread.");
	for (i = 0; i < a->n_workers; i++) {
		snprintf(label, sizeof(label), "thread=\"%u\"", i);
		metric_sample(t, "thread_connections", label, count_read(&a->worker[i]->socks_count.open));
	}
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

#define L(f)	offsetof(struct logrx_counters, f)

static const struct row logrx_rows[] = {
	{ "feed_connections", "", GAUGE, L(open), "Log feed connections open." },
	{ "feed_accepted_total", "", COUNTER, L(accepted), "Log feed connections accepted." },
	{ "feed_accept_errors_total", "", COUNTER, L(accept_errors),
	  "Times no log feed could be accepted, for want of descriptors as a rule." },
	{ "feed_refused_total", "", COUNTER, L(refused_full), "Log feed connections above the limit." },
	{ "feed_pushed_out_total", "", COUNTER, L(pushed_out),
	  "Log feed connections without a line taken that made room for others." },
	{ "feed_lines_total", "result=\"taken\"", COUNTER, L(lines),
	  "Lines of the log feed: taken, no JSON with a uid, without any JSON (HAProxy's notices, other logs), too long." },
	{ "feed_lines_total", "result=\"bad\"", COUNTER, L(lines_bad), NULL },
	{ "feed_lines_total", "result=\"other\"", COUNTER, L(lines_other), NULL },
	{ "feed_lines_total", "result=\"long\"", COUNTER, L(lines_long), NULL },
	{ "facts_refused_total", "reason=\"no_token\"", COUNTER, L(no_token),
	  "Lines of the log feed that were not believed." },
	{ "facts_refused_total", "reason=\"wrong_token\"", COUNTER, L(wrong_token), NULL },
	{ "feed_datagrams_total", "", COUNTER, L(datagrams), "Datagrams of the log feed." },
	{ "feed_udp_dropped_total", "", COUNTER, L(dropped),
	  "Datagrams of the log feed that the kernel dropped, as its buffer was full." },
	{ "feed_received_bytes_total", "", COUNTER, L(bytes), "Bytes of the log feed." },
};

#define A(f)	offsetof(struct admin_counters, f)

static const struct row admin_rows[] = {
	{ "http_requests_total", "result=\"answered\"", COUNTER, A(requests),
	  "Requests to the metrics listener." },
	{ "http_requests_total", "result=\"refused\"", COUNTER, A(refused), NULL },
	{ "http_requests_total", "result=\"timeout\"", COUNTER, A(timeouts), NULL },
	{ "http_requests_total", "result=\"pushed_out\"", COUNTER, A(pushed_out), NULL },
	{ "http_accept_errors_total", "", COUNTER, A(accept_errors),
	  "Times no connection to the metrics listener could be accepted." },
};

#define P(f)	offsetof(struct poll_counters, f)

static const struct row stats_rows[] = {
	{ "stats_sockets", "", GAUGE, P(peers), "Stats sockets of HAProxy that are asked." },
	{ "stats_polls_total", "result=\"answered\"", COUNTER, P(answered),
	  "Questions to stats sockets: answered, nobody there or too late, answered with something else." },
	{ "stats_polls_total", "result=\"unreachable\"", COUNTER, P(unreachable), NULL },
	{ "stats_polls_total", "result=\"bad\"", COUNTER, P(bad), NULL },
	{ "stats_rows_total", "result=\"taken\"", COUNTER, P(items), "Rows of servers in their answers." },
	{ "stats_rows_total", "result=\"bad\"", COUNTER, P(items_bad), NULL },
	{ "stats_received_bytes_total", "", COUNTER, P(bytes), "Bytes of them." },
};

static const struct row engine_rows[] = {
	{ "engines", "", GAUGE, P(peers), "Engines whose metrics are asked for." },
	{ "engine_polls_total", "result=\"answered\"", COUNTER, P(answered),
	  "Questions to engines: answered, nobody there or too late, answered with something else." },
	{ "engine_polls_total", "result=\"unreachable\"", COUNTER, P(unreachable), NULL },
	{ "engine_polls_total", "result=\"bad\"", COUNTER, P(bad), NULL },
	{ "engine_lines_bad_total", "", COUNTER, P(items_bad), "Lines of their metrics that made no sense." },
	{ "engine_received_bytes_total", "", COUNTER, P(bytes), "Bytes of their metrics." },
};

static void write_refused(struct text *t, const struct sandbox_refused *r)
{
	metric_family(t, "sandbox_refused_total", COUNTER, "System calls that the sandbox refused; serving makes none.");
	metric_sample(t, "sandbox_refused_total", "process=\"agent\"", r != NULL ? refused_read(&r->agent) : 0);
	metric_sample(t, "sandbox_refused_total", "process=\"opener\"", r != NULL ? refused_read(&r->opener) : 0);
}

static void write_sandbox(struct text *t, const struct sandbox *s)
{
	metric_family(t, "sandbox", GAUGE, "1: this part of the sandbox is in force.");
	metric_sample(t, "sandbox", "part=\"seccomp\"", s->seccomp);
	metric_sample(t, "sandbox", "part=\"landlock\"", s->landlock_abi > 0);
	metric_sample(t, "sandbox", "part=\"no_new_privs\"", s->no_new_privs);
	metric_sample(t, "sandbox", "part=\"no_capabilities\"", s->no_capabilities);
	metric_sample(t, "sandbox", "part=\"no_core\"", s->core_off);
	metric_sample(t, "sandbox", "part=\"open_refused\"", s->open_refused);
	metric_sample(t, "sandbox", "part=\"execve_refused\"", s->execve_refused);
}

static void write_process(struct text *t, const struct agent *a)
{
	struct process_figures p;

	process_read(&a->files, &p);
	metric_family(t, "build_info", GAUGE, "1, with the version.");
	metric_sample(t, "build_info", "version=\"" KVROUTE_VERSION "\"", 1);
	metric_single(t, "ready", GAUGE, "1: all listeners are open, and the agent is not draining.",
	    __atomic_load_n(&a->ready, __ATOMIC_RELAXED));
	metric_single(t, "process_start_time_seconds", GAUGE, "When the process began, since 1970.",
	    (double)a->started);
	metric_single(t, "process_cpu_seconds_total", COUNTER, "CPU time of all threads.", p.cpu_s);
	metric_single(t, "process_resident_memory_bytes", GAUGE, "Memory in use.", (double)p.resident_bytes);
	metric_single(t, "process_open_fds", GAUGE, "Descriptors open.", (double)p.fds);
	metric_single(t, "process_max_fds", GAUGE, "Descriptors that may be open.", (double)p.max_fds);
	metric_single(t, "log_lines_lost_total", COUNTER, "Log lines nobody took in time.",
	    (double)log_lost(&a->log));
}

static void write_snapshot(struct text *t, const struct snapfile *s)
{
	msec at = __atomic_load_n(&s->written_at, __ATOMIC_RELAXED);

	if (s->dir < 0)
		return;
	metric_single(t, "snapshot_written_total", COUNTER, "Snapshots written.",
	    (double)__atomic_load_n(&s->written, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_failed_total", COUNTER, "Snapshots that could not be written.",
	    (double)__atomic_load_n(&s->failed, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_bytes", GAUGE, "Size of the last one written.",
	    (double)__atomic_load_n(&s->bytes, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_loaded_pages", GAUGE, "Pages that came back at the start.",
	    (double)__atomic_load_n(&s->loaded_pages, __ATOMIC_RELAXED));
	if (at != 0)
		metric_single(t, "snapshot_age_seconds", GAUGE, "Since one was written.", (double)(clock_msec() - at) / 1000);
}

static void write_record(struct text *t, const struct recfile *f)
{
	if (f->queue == NULL)
		return;
	metric_single(t, "record_requests_total", COUNTER, "Requests written to the file of record.file.",
	    (double)__atomic_load_n(&f->lines, __ATOMIC_RELAXED));
	metric_single(t, "record_dropped_total", COUNTER, "Decisions and facts that were not recorded, as the queue was full.",
	    (double)traffic_dropped(f->queue));
	metric_single(t, "record_bytes", GAUGE, "Size of that file.", (double)__atomic_load_n(&f->bytes, __ATOMIC_RELAXED));
	metric_single(t, "record_ended", GAUGE, "1: it is full, or could not be written, and nothing is recorded any more.",
	    (double)__atomic_load_n(&f->ended, __ATOMIC_RELAXED));
}

static void write_model_bytes(void *arg, const struct model_figures *v)
{
	text_addf(arg, "kvroute_tokenizer_bytes{");
	text_label(arg, "model", span_str(v->model));
	text_addf(arg, "} %zu\n", v->bytes);
}

static void write_model_load(void *arg, const struct model_figures *v)
{
	text_addf(arg, "kvroute_tokenizer_load_seconds{");
	text_label(arg, "model", span_str(v->model));
	text_addf(arg, ",source=\"%s\"} %.6f\n", v->image ? "image" : "file", v->load_s);
}

static void count_model(void *arg, const struct model_figures *v)
{
	++*(size_t *)arg;
}

static void write_models(struct text *t, struct models *m)
{
	size_t n = 0;

	models_each(m, count_model, &n);
	if (n == 0)
		return;
	metric_family(t, "tokenizer_bytes", GAUGE, "Memory of a model's tokenizer, which models with the same files share.");
	models_each(m, write_model_bytes, t);
	metric_family(t, "tokenizer_load_seconds", GAUGE, "What loading it took, from its files or from its compiled image.");
	models_each(m, write_model_load, t);
}

void metrics_write(const struct metrics_from *from, struct text *t)
{
	write_process(t, from->agent);
	write_sandbox(t, &from->agent->sandbox);
	write_refused(t, from->agent->refused);
	write_snapshot(t, &from->agent->snapfile);
	write_record(t, &from->agent->recfile);
	write_models(t, &from->agent->models);
	write_core(t, from->agent->route);
	write_servers(t, from->agent);
	write_pools(t, from->agent->route, add_pool, COLUMNS(pool_columns));
	write_pools(t, from->agent->route, add_pool_facts, COLUMNS(pool_facts_column));
	write_pools(t, from->agent->route, add_pool_mode, COLUMNS(pool_mode_column));
	write_compared(t, from->agent->route);
	write_threads(t, from->agent);
	TABLE(t, logrx_rows, from->logrx);
	TABLE(t, admin_rows, from->admin);
	TABLE(t, stats_rows, from->stats);
	metric_single(t, "stats_answer_seconds_total", COUNTER, "Time from question to answer, of those answered.",
	    (double)count_read(&from->stats->us) / 1e6);
	TABLE(t, engine_rows, from->engines);
	metric_single(t, "engine_answer_seconds_total", COUNTER, "Time from question to answer, of those answered.",
	    (double)count_read(&from->engines->us) / 1e6);
}
