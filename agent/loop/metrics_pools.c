/* Metrics of servers, engines, pools, models and compared rules: one sample for each of them. */
#include <math.h>

#include "agent/loop/metrics_in.h"

static const struct metric_column server_columns[] = {
	{ "server_up", GAUGE, "1: up, as last reported by HAProxy." },
	{ "server_weight", GAUGE, "Weight, as last reported by HAProxy." },
	{ "server_connections", GAUGE, "Connections, as last reported by HAProxy." },
	{ "server_queue", GAUGE, "Requests queued for the server, as last reported by HAProxy." },
	{ "server_open_requests", GAUGE, "Requests open on the server, by the agent's ledger." },
	{ "server_backlog_seconds", GAUGE,
		"Estimated prefill time of requests sent there and not answered yet." },
	{ "server_picked_total", COUNTER, "Decisions for the server." },
	{ "server_hit_tokens_total", COUNTER, "Prompt tokens expected in its cache." },
	{ "server_held_tokens", GAUGE, "Tokens of the pages it holds or claims, over all spaces." },
	{ "server_failures_total", COUNTER, "Requests that failed on the server." },
	{ "server_penalty_requests", GAUGE, "Load added for its recent failures, in requests; decays." },
	{ "server_output_tokens", GAUGE, "Generated tokens that its cache is expected to hold." },
	{ "server_room_tokens", GAUGE,
		"Most tokens that the index keeps of it; 0: no limit but index.max_bytes." },
	{ "server_watchers", GAUGE, "HAProxy processes whose stats socket currently reports the server." },
	{ "server_closed", GAUGE,
		"1: one of them reports drain, maintenance or weight 0, so it gets no requests." },
	{ "server_prefill_tokens_per_second", GAUGE, "Estimated prompt tokens it computes per second." },
	{ "server_capacity_tokens", GAUGE, "Assumed size of its cache in tokens; 0: unknown." },
	{ "server_capacity_source", GAUGE,
	  "Source of that size: 0 none, 1 guess, 2 inferred from times to first token, 3 engine, 4 "
	  "configuration." },
};

static void add_server(void *arg, const struct route_server_view *s)
{
	struct metric_view *v = metric_view_add(arg, "pool", s->pool, "server", s->name);

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

static const struct metric_column engine_columns[] = {
	{ "engine_waiting_requests", GAUGE,
		"Requests in the engine's queue, as it reports; NaN: not reported." },
	{ "engine_running_requests", GAUGE, "Requests that the engine works on; NaN: not reported." },
	{ "engine_kv_used_ratio", GAUGE, "Share of its KV cache in use; NaN: not reported." },
	{ "engine_foreign_requests", GAUGE,
		"Requests on the engine that neither HAProxy nor the agent sent." },
	{ "engine_block_size_tokens", GAUGE, "Tokens of a block of its KV cache; 0: not reported." },
	{ "engine_capacity_tokens", GAUGE, "Size of its KV cache in tokens; 0: not reported." },
	{ "engine_adapters_running", GAUGE, "LoRA adapters in running requests." },
	{ "engine_adapters_waiting", GAUGE, "LoRA adapters of waiting requests." },
	{ "engine_adapters_loaded", GAUGE,
		"LoRA adapters assumed to be loaded in the engine, by their last use." },
};

static double or_nan(double v)
{
	return v < 0 ? NAN : v;
}

/* Only engines that have reported recently. */
static void add_engine(void *arg, const struct route_server_view *s)
{
	struct metric_view *v =
	    s->engine ? metric_view_add(arg, "pool", s->pool, "server", s->name) : NULL;

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

static const struct metric_column pool_columns[] = {
	{ "pool_requests_total", COUNTER, "Requests of the pool." },
	{ "pool_imbalanced", GAUGE, "1: the loads of the pool are imbalanced." },
	{ "pool_imbalance_transitions_total", COUNTER, "Changes between balanced and imbalanced." },
	{ "pool_pressure_ratio", GAUGE, "Ratio of mean waiting time to mean work, smoothed." },
	{ "pool_wait_error_ratio", GAUGE,
		"Median of |expected - real| / real of the pool's latest first tokens; NaN: none yet." },
	{ "pool_choices_total", COUNTER, "Choices among servers; each slice of a body makes one." },
	{ "pool_choices_dearer_total", COUNTER, "Of these, choices of a server without the least cost." },
	{ "pool_regret_seconds_total", COUNTER,
		"Cost of these choices above the least cost, as estimated by the agent." },
};

static const struct metric_column split_columns[] = {
	{ "pool_prefill_total", COUNTER, "Prompts that a server of pools.prefill was to compute." },
	{ "pool_prefill_failures_total", COUNTER, "Of these, requests that ended with 502, 503 or 504." },
	{ "pool_transfer_ratio", GAUGE,
		"Time to transfer a computed prompt, as learned, by the configured one." },
};

/* Only of pools with prefill servers. */
static void add_split(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v =
	    p->prefill[0] != '\0' ? metric_view_add(arg, "pool", p->name, NULL, NULL) : NULL;

	if (v == NULL)
		return;
	v->v[0] = (double)p->splits;
	v->v[1] = (double)p->split_failures;
	v->v[2] = p->transfer_factor;
}

static void add_pool(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v = metric_view_add(arg, "pool", p->name, NULL, NULL);

	if (v == NULL)
		return;
	v->v[0] = (double)p->requests;
	v->v[1] = p->imbalanced;
	v->v[2] = (double)p->imbalance_transitions;
	v->v[3] = p->pressure;
	v->v[4] = or_nan(wait_error(p->wait));
	v->v[5] = (double)p->choices;
	v->v[6] = (double)p->dearer;
	v->v[7] = p->regret_s;
}

static void add_wait(void *arg, const struct route_pool_view *p)
{
	struct buf *t = arg;
	uint64_t n = 0;

	for (unsigned b = 0; b < WAIT_BUCKETS; b++) {
		n += p->wait->bucket[b];
		page_addf(t, "kvroute_pool_wait_ratio_bucket{");
		page_label(t, "pool", span_str(p->name));
		if (b + 1 < WAIT_BUCKETS)
			page_addf(t, ",le=\"%g\"} %llu\n", wait_bounds[b], (unsigned long long)n);
		else
			page_addf(t, ",le=\"+Inf\"} %llu\n", (unsigned long long)n);
	}
	page_addf(t, "kvroute_pool_wait_ratio_sum{");
	page_label(t, "pool", span_str(p->name));
	page_addf(t, "}");
	metric_value(t, p->wait->ratios);
	page_addf(t, "kvroute_pool_wait_ratio_count{");
	page_label(t, "pool", span_str(p->name));
	page_addf(t, "} %llu\n", (unsigned long long)n);
}

static void write_waits(struct buf *t, struct route *r)
{
	metric_family(t, "pool_wait_ratio", HISTOGRAM,
		"First tokens of the pool by expected time / real time. 1: as expected.");
	route_each_pool(r, add_wait, t);
}

static const struct metric_column pool_facts_column[] = {
	{ "pool_facts", GAUGE, "1, with the kind of facts that the pool gets." },
};

static void add_pool_facts(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v = metric_view_add(arg, "pool", p->name, "facts", p->facts);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

void metrics_write_servers(struct buf *t, const struct agent *a)
{
	struct metric_views servers, engines;

	metric_views_init(&servers);
	metric_views_init(&engines);
	route_each_server(a->route, agent_msec(a), add_server, &servers);
	route_each_server(a->route, agent_msec(a), add_engine, &engines);
	metric_views_write(t, &servers, METRIC_COLUMNS(server_columns));
	metric_views_write(t, &engines, METRIC_COLUMNS(engine_columns));
}

static void write_pools(struct buf *t, struct route *r,
    void (*add)(void *arg, const struct route_pool_view *p), const struct metric_column *columns,
    size_t n)
{
	struct metric_views vs;

	metric_views_init(&vs);
	route_each_pool(r, add, &vs);
	metric_views_write(t, &vs, columns, n);
}

static const struct metric_column pool_mode_column[] = {
	{ "pool_mode", GAUGE, "1, with the mode of the pool: on, shadow, off." },
};

static void add_pool_mode(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v = metric_view_add(arg, "pool", p->name, "mode", p->mode);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

static const struct metric_column model_columns[] = {
	{ "model_mode", GAUGE,
		"1, with the mode of the model: text, tokens, mixed (some kinds of request as text). \"*\": "
		"models not listed." },
	{ "model_page_tokens", GAUGE, "Token ids in a page of its prompts, in token mode." },
	{ "model_kinds_text", GAUGE,
		"Kinds of request matched as text because token counts differ, counted for each tenant." },
};

static void add_model(void *arg, const struct route_model_view *m)
{
	struct metric_view *v = metric_view_add(arg, "model", m->name, "mode", m->mode);

	if (v == NULL)
		return;
	v->v[0] = 1;
	v->v[1] = m->page;
	v->v[2] = m->kinds_off;
}

static const struct metric_column kind_columns[] = {
	{ "model_kind_text_tenants", GAUGE,
		"Tenants for which a kind of request is matched as text because token counts differ." },
};

static void add_kind(void *arg, const struct route_kind_view *k)
{
	struct metric_view *v = metric_view_add(arg, "model", k->model, "kind", k->kind);

	if (v != NULL)
		v->v[0] = k->tenants;
}

static const struct metric_column compare_columns[] = {
	{ "compare_choices_total", COUNTER, "Choices evaluated by a compared rule." },
	{ "compare_same_total", COUNTER, "Of these, choices of the server that was really chosen." },
	{ "compare_regret_seconds_total", COUNTER,
		"Cost of its choices above the least cost, as estimated by the agent." },
	{ "compare_hit_tokens_total", COUNTER,
		"Prompt tokens expected in the caches of the servers that it would choose." },
	{ "compare_same_first_tokens_total", COUNTER,
		"First tokens from the server that it would have chosen." },
	{ "compare_same_first_seconds_total", COUNTER, "What these took." },
	{ "compare_other_first_tokens_total", COUNTER,
		"First tokens from a server that it would not have chosen." },
	{ "compare_other_first_seconds_total", COUNTER, "What these took." },
	{ "compare_judged_seconds_total", COUNTER,
	  "Estimated time of these on the server that it would have chosen, corrected by measurements." },
	{ "compare_gain_seconds", GAUGE,
		"Mean seconds saved by this rule per request on which it differs; negative: lost." },
	{ "compare_gain_error_seconds", GAUGE, "Standard error of compare_gain_seconds." },
};

static void add_compared(void *arg, const struct route_compare_view *c)
{
	struct metric_view *v = metric_view_add(arg, "pool", c->pool, "rule", c->rule);

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

static void write_compared(struct buf *t, struct route *r)
{
	struct metric_views models, kinds, compared;

	metric_views_init(&models);
	metric_views_init(&kinds);
	metric_views_init(&compared);
	route_each_model(r, add_model, &models);
	route_each_kind(r, add_kind, &kinds);
	route_each_compared(r, add_compared, &compared);
	metric_views_write(t, &models, METRIC_COLUMNS(model_columns));
	metric_views_write(t, &kinds, METRIC_COLUMNS(kind_columns));
	metric_views_write(t, &compared, METRIC_COLUMNS(compare_columns));
}

void metrics_write_pools(struct buf *t, struct route *r)
{
	write_pools(t, r, add_pool, METRIC_COLUMNS(pool_columns));
	write_pools(t, r, add_split, METRIC_COLUMNS(split_columns));
	write_waits(t, r);
	write_pools(t, r, add_pool_facts, METRIC_COLUMNS(pool_facts_column));
	write_pools(t, r, add_pool_mode, METRIC_COLUMNS(pool_mode_column));
	write_compared(t, r);
}
