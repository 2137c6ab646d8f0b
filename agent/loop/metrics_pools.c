/* Metrics of servers, engines, pools, models and compared rules: one sample for each of them. */
#include <math.h>

#include "agent/loop/metrics_in.h"

static double or_nan(double v)
{
	return v < 0 ? NAN : v;
}

static const struct metric_column server_columns[] = {
	{ M_server_up },
	{ M_server_weight },
	{ M_server_connections },
	{ M_server_queue },
	{ M_server_open_requests },
	{ M_server_backlog_seconds },
	{ M_server_picked_total },
	{ M_server_hit_tokens_total },
	{ M_server_held_tokens },
	{ M_server_failures_total },
	{ M_server_penalty_requests },
	{ M_server_output_tokens },
	{ M_server_room_tokens },
	{ M_server_watchers },
	{ M_server_closed },
	{ M_server_prefill_tokens_per_second },
	{ M_server_capacity_tokens },
	{ M_server_capacity_source },
	{ M_server_wait_seconds },
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
	v->v[18] = or_nan(s->wait_s);
}

static const struct metric_column engine_columns[] = {
	{ M_engine_waiting_requests },
	{ M_engine_running_requests },
	{ M_engine_kv_used_ratio },
	{ M_engine_foreign_requests },
	{ M_engine_block_size_tokens },
	{ M_engine_capacity_tokens },
	{ M_engine_adapters_running },
	{ M_engine_adapters_waiting },
	{ M_engine_adapters_loaded },
};

static const struct metric_column choice_columns[] = { { M_server_choices_total } };

static void add_choices(void *arg, const struct route_server_view *s)
{
	for (unsigned w = 0; w < WHY_COUNT; w++) {
		struct metric_view *v = s->picked_why[w] > 0 ?
		    metric_view_add(arg, "pool", s->pool, "server", s->name) : NULL;

		if (v == NULL)
			continue;
		metric_view_label(arg, "why", why_text((enum why)w));
		v->v[0] = (double)s->picked_why[w];
	}
}

static const struct metric_column hit_columns[] = {
	{ M_engine_hit_tokens_total },
	{ M_engine_asked_tokens_total },
};

static void add_hits(void *arg, const struct route_server_view *s)
{
	struct metric_view *v =
	    s->told_hits ? metric_view_add(arg, "pool", s->pool, "server", s->name) : NULL;

	if (v == NULL)
		return;
	v->v[0] = (double)s->engine_hit_tokens;
	v->v[1] = (double)s->engine_asked_tokens;
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
	{ M_pool_requests_total },
	{ M_pool_imbalanced },
	{ M_pool_imbalance_transitions_total },
	{ M_pool_pressure_ratio },
	{ M_pool_wait_error_ratio },
	{ M_pool_choices_total },
	{ M_pool_choices_dearer_total },
	{ M_pool_regret_seconds_total },
	{ M_pool_unseen_kept_seconds },
	{ M_pool_unseen_came_ratio },
};

static const struct metric_column split_columns[] = {
	{ M_pool_prefill_total },
	{ M_pool_prefill_failures_total },
	{ M_pool_transfer_ratio },
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
	v->v[8] = or_nan(p->unseen.kept_s);
	v->v[9] = or_nan(p->unseen.came_share);
}

static const struct metric_column shadow_columns[] = {
	{ M_shadow_requests_total },
	{ M_shadow_same_total },
	{ M_shadow_prompt_tokens_total },
	{ M_shadow_hit_tokens_total },
	{ M_shadow_haproxy_hit_tokens_total },
	{ M_shadow_first_seconds_total },
	{ M_shadow_haproxy_first_seconds_total },
};

/* Only of pools that were in shadow mode. */
static void add_shadow(void *arg, const struct route_pool_view *p)
{
	const struct shadow_sums *s = &p->shadow;
	struct metric_view *v = s->requests > 0 || strcmp(p->mode, "shadow") == 0 ?
	    metric_view_add(arg, "pool", p->name, NULL, NULL) : NULL;

	if (v == NULL)
		return;
	v->v[0] = (double)s->requests;
	v->v[1] = (double)s->same;
	v->v[2] = (double)s->prompt_tokens;
	v->v[3] = (double)s->hit_tokens;
	v->v[4] = (double)s->haproxy_hit_tokens;
	v->v[5] = s->first_s;
	v->v[6] = s->haproxy_first_s;
}

static const struct metric_column pool_facts_column[] = {
	{ M_pool_facts },
};

static void add_pool_facts(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v = metric_view_add(arg, "pool", p->name, "facts", p->facts);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

static void write_servers(struct metric_page *t, const struct agent *a,
    void (*add)(void *arg, const struct route_server_view *s), const struct metric_column *columns,
    size_t n)
{
	struct metric_views vs;

	metric_views_init(&vs);
	route_each_server(a->route, agent_msec(a), add, &vs);
	metric_views_write(t, &vs, columns, n);
}

void metrics_write_servers(struct metric_page *t, const struct agent *a)
{
	write_servers(t, a, add_server, METRIC_COLUMNS(server_columns));
	write_servers(t, a, add_choices, METRIC_COLUMNS(choice_columns));
	write_servers(t, a, add_engine, METRIC_COLUMNS(engine_columns));
	write_servers(t, a, add_hits, METRIC_COLUMNS(hit_columns));
}

static void write_pools(struct metric_page *t, struct route *r,
    void (*add)(void *arg, const struct route_pool_view *p), const struct metric_column *columns,
    size_t n)
{
	struct metric_views vs;

	metric_views_init(&vs);
	route_each_pool(r, add, &vs);
	metric_views_write(t, &vs, columns, n);
}

static const struct metric_column pool_mode_column[] = {
	{ M_pool_mode },
};

static void add_pool_mode(void *arg, const struct route_pool_view *p)
{
	struct metric_view *v = metric_view_add(arg, "pool", p->name, "mode", p->mode);

	if (v == NULL)
		return;
	v->v[0] = 1;
}

static const struct metric_column model_columns[] = {
	{ M_model_mode },
	{ M_model_page_tokens },
	{ M_model_kinds_text },
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
	{ M_model_kind_text_tenants },
};

static void add_kind(void *arg, const struct route_kind_view *k)
{
	struct metric_view *v = metric_view_add(arg, "model", k->model, "kind", k->kind);

	if (v != NULL)
		v->v[0] = k->tenants;
}

static const struct metric_column compare_columns[] = {
	{ M_compare_choices_total },
	{ M_compare_same_total },
	{ M_compare_regret_seconds_total },
	{ M_compare_hit_tokens_total },
	{ M_compare_same_first_tokens_total },
	{ M_compare_same_first_seconds_total },
	{ M_compare_other_first_tokens_total },
	{ M_compare_other_first_seconds_total },
	{ M_compare_judged_seconds_total },
	{ M_compare_gain_seconds },
	{ M_compare_gain_error_seconds },
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

static void write_compared(struct metric_page *t, struct route *r)
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

void metrics_write_pools(struct metric_page *t, struct route *r)
{
	write_pools(t, r, add_pool, METRIC_COLUMNS(pool_columns));
	write_pools(t, r, add_split, METRIC_COLUMNS(split_columns));
	write_pools(t, r, add_shadow, METRIC_COLUMNS(shadow_columns));
	write_pools(t, r, add_pool_facts, METRIC_COLUMNS(pool_facts_column));
	write_pools(t, r, add_pool_mode, METRIC_COLUMNS(pool_mode_column));
	write_compared(t, r);
}
