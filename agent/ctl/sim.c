/* sim.c - kvroutectl sim: run each rule on a trace or a workload. Reads the clock to time
 * decisions. sim_load.c reads, sim_print.c prints, and agent/sim does the rest. */
#include <time.h>

#include "agent/base/mem.h"
#include "agent/conf/value.h"
#include "agent/ctl/ctl.h"
#include "agent/ctl/load.h"
#include "agent/ctl/sim.h"
#include "agent/sim/reference.h"

int sim_fail(const char *what, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", what, why);
	return -1;
}

/* ---- one row ---------------------------------------------------------------------------- */

static double now_us(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int run_on(const struct sim_args *a, struct agents *x, struct agents_result *r)
{
	if (a->agents.share && agents_settle(x, a->settle_s) < 0)
		return -1;
	return agents_result(x, r);
}

/* <x>: what <c> consists of, if it is several agents; or NULL. */
static int run_row(const struct sim_args *a, const struct sim_trace *t, const struct chooser *c,
    struct agents *x, struct sim_row *row)
{
	size_t from = a->first ? 0 : t->n / 10, to = a->first ? a->first : t->n;
	struct sim f;
	struct err e;
	int bad;

	if (sim_run(&f, &a->engines, t, c, &e) < 0)
		return sim_fail(c->name, e.text);
	bad = sim_result(&f, from, to, &row->r);
	if (bad == 0 && x != NULL)
		bad = run_on(a, x, &row->agents);
	sim_fini(&f);
	return bad < 0 ? sim_fail(c->name, "not enough memory") : 0;
}

/* A reference knows no prefill servers: all engines answer. */
static int run_reference(const struct sim_args *a, const struct sim_trace *t, struct sim_row *row)
{
	struct sim_args together = *a;
	struct reference ref;
	struct chooser c;

	reference_init(&ref, &c, span_str(row->name), a->seed);
	together.engines.prefills = 0;
	return run_row(&together, t, &c, NULL, row);
}

/* Apply "KEY=VALUE,..." to <p>. Returns false after printing an error. */
static bool apply_keys(struct pool_opts *p, const char *text)
{
	const struct conf_section *policy = &conf_sections[conf_section_find(SPAN("policy"))];
	char why[CONF_REASON_MAX] = "not a key of policy, or without a value";

	while (*text != '\0') {
		size_t n = strcspn(text, ","), eq = strcspn(text, "=");
		int k = eq < n ? conf_key_find(policy, SPAN(""), span_of(text, eq)) : -1;

		if (k < 0 ||
		    conf_value_set(&conf_keys[k], p, span_of(text + eq + 1, n - eq - 1), why,
			sizeof(why)) < 0) {
			fprintf(stderr, "kvroutectl: --preset: \"%.*s\": %s\n", (int)n, text, why);
			return false;
		}
		text += n + (text[n] == ',');
	}
	return true;
}

/* Set the options as if a configuration named the rule, with its authors' defaults. Returns false
 * after printing an error. */
static bool rule_options(
    const struct sim_args *a, const struct conf *conf, const char *preset, struct route_opts *o)
{
	size_t n = strcspn(preset, ":");
	int rule = policy_rule_of(span_of(preset, n));

	*o = conf->route;
	if ((enum policy_rule)rule != o->pool_default.policy.rule)
		policy_preset(&o->pool_default.policy, (enum policy_rule)rule);
	if (a->own_capacity)
		o->pool_default.capacity = a->capacity;
	return apply_keys(&o->pool_default, preset[n] == ':' ? preset + n + 1 : "");
}

static void take_capacity(void *arg, const struct route_server_view *v)
{
	struct sim_row *row = arg;

	if (v->capacity_source != CAPACITY_INFERRED)
		return;
	row->inferred++;
	row->capacity_tokens += ((double)v->capacity_tokens - row->capacity_tokens) / row->inferred;
}

static int run_alone(const struct sim_args *a, const struct router_opts *o,
    const struct sim_trace *t, struct sim_row *row)
{
	struct chooser c;
	struct router *r = router_new(o, t, &c);
	int bad;

	if (r == NULL)
		return sim_fail(row->name, "not enough memory");
	bad = run_row(a, t, &c, NULL, row);
	router_stats(r, &row->s);
	router_heard(r, &row->heard);
	router_each_server(r, take_capacity, row);
	row->core = true;
	router_free(r);
	return bad;
}

static int run_agents(const struct sim_args *a, const struct router_opts *o,
    const struct sim_trace *t, struct sim_row *row)
{
	struct agents_opts ao = a->agents;
	struct agents *x;
	struct chooser c;
	int bad;

	ao.router = *o;
	if ((x = agents_new(&ao, t, &c)) == NULL)
		return sim_fail(row->name, "not enough memory");
	bad = run_row(a, t, &c, x, row);
	row->is_agents = true;
	agents_free(x);
	return bad;
}

static int run_rule(const struct sim_args *a, const struct conf *conf, const struct sim_trace *t,
		    struct sim_row *row)
{
	struct router_opts o = { .name = row->name, .facts = a->facts, .loads = a->loads, .text = a->text,
				 .events = a->engines.kv.publishers > 0, .body_limit = a->body_limit,
				 .no_session = a->no_session, .prefills = a->engines.prefills > 0,
				 .seed = a->seed };

	if (!rule_options(a, conf, row->name, &o.route))
		return -1;
	return a->agents.n > 0 ? run_agents(a, &o, t, row) : run_alone(a, &o, t, row);
}

static bool is_reference(struct span name)
{
	struct reference ref;
	struct chooser c;

	return reference_init(&ref, &c, name, 1) == 0;
}

static bool is_rule(const char *preset)
{
	return policy_rule_of(span_of(preset, strcspn(preset, ":"))) >= 0;
}

static int run_preset(const struct sim_args *a, const struct conf *conf, const struct sim_trace *t,
		      const char *name, struct sim_row *row)
{
	*row = (struct sim_row){ .haste = a->engines.haste };
	strcpy(row->name, name);
	return is_rule(name) ? run_rule(a, conf, t, row) : run_reference(a, t, row);
}

/* ---- all rules -------------------------------------------------------------------------- */

static void say_unknown(const char *preset)
{
	fprintf(stderr, "kvroutectl: there is no preset \"%s\"; there are", preset);
	for (int r = 0; r < RULE_COUNT; r++)
		fprintf(stderr, " %s", policy_rule_text((enum policy_rule)r));
	for (size_t k = 0; reference_at(k) != NULL; k++)
		fprintf(stderr, " %s", reference_at(k));
	fputc('\n', stderr);
}

static bool presets_known(const struct sim_args *a, const struct conf *conf)
{
	struct route_opts o;

	for (size_t i = 0; i < a->n_presets; i++) {
		const char *p = a->presets[i];

		if (is_rule(p) ? !rule_options(a, conf, p, &o) : !is_reference(span_str(p))) {
			if (!is_rule(p))
				say_unknown(p);
			return false;
		}
	}
	return true;
}

static void add_preset(struct sim_args *a, const char *name)
{
	for (size_t i = 0; i < a->n_presets; i++) {
		if (strcmp(a->presets[i], name) == 0)
			return;
	}
	if (a->n_presets < SIM_PRESETS_MAX)
		a->presets[a->n_presets++] = name;
}

/* Without --preset, run a default selection. The oracles, which know everything, are always added
 * for comparison. */
static void add_default_presets(struct sim_args *a, const struct conf *conf)
{
	if (a->n_presets == 0) {
		add_preset(a, policy_rule_text(conf->route.pool_default.policy.rule));
		add_preset(a, "cache_aware");
		add_preset(a, "leastconn");
		add_preset(a, "roundrobin");
	}
	add_preset(a, "oracle");
	add_preset(a, "oracle_ext10");
}

static const char *sim_source(const struct sim_args *a)
{
	return a->workload != NULL ? a->workload : a->trace;
}

static int calibrate_rate(struct sim_args *a, const struct sim_trace *t)
{
	struct reference ref;
	struct chooser c;
	struct err e;

	if (a->own_haste)
		return 0;
	reference_init(&ref, &c, SPAN("roundrobin"), a->seed);
	if (sim_calibrate(&a->engines, t, &c, a->load, &a->engines.haste, &e) < 0)
		return sim_fail(sim_source(a), e.text);
	return 0;
}

/* Divide each mean by the least mean of the oracles. */
static void set_ratios(struct sim_row *rows, size_t n, unsigned seeds, unsigned k)
{
	double least = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sim_row *r = &rows[i * seeds + k];

		if (strncmp(r->name, "oracle", 6) == 0 && (least == 0 || r->r.ttft_mean < least))
			least = r->r.ttft_mean;
	}
	for (size_t i = 0; i < n && least > 0; i++)
		rows[i * seeds + k].ratio = rows[i * seeds + k].r.ttft_mean / least;
}

/* Run with the <k>-th seed. The first repeat of a trace is the trace as recorded, at the speed of
 * all repeats. */
static int run_seed(struct sim_args *a, const struct conf *conf, unsigned k, struct sim_row *rows)
{
	uint64_t first = a->seed;
	struct workload w;
	int bad;

	a->seed += k;
	if ((bad = sim_load(a, &w)) < 0)
		return -1;
	if (a->workload == NULL && k > 0)
		trace_jitter(&w.trace, a->seed);
	if (a->workload != NULL || k == 0)
		bad = calibrate_rate(a, &w.trace);
	a->engines.clock_us = now_us;
	a->engines.kv.seed = a->seed;
	if (a->all_publish)
		a->engines.kv.publishers = a->engines.n;
	for (size_t i = 0; bad == 0 && i < a->n_presets; i++)
		bad = run_preset(a, conf, &w.trace, a->presets[i], &rows[i * a->seeds + k]);
	set_ratios(rows, a->n_presets, a->seeds, k);
	workload_free(&w);
	a->seed = first;
	return bad;
}

static int run_all(struct sim_args *a, const struct conf *conf)
{
	struct sim_row *rows = mem_calloc(a->n_presets * a->seeds, sizeof(*rows));
	int bad = rows == NULL ? sim_fail("sim", "not enough memory") : 0;

	for (unsigned k = 0; bad == 0 && k < a->seeds; k++)
		bad = run_seed(a, conf, k, rows);
	if (bad == 0)
		sim_print(stdout, a, sim_source(a), rows, a->n_presets);
	mem_free(rows);
	return bad;
}

int ctl_sim(int argc, char **argv)
{
	struct sim_args a;
	struct conf conf;
	int status = sim_parse(argc, argv, &a);

	if (status != 0)
		return status < 0 ? 0 : status;
	if (ctl_load_conf(&conf, a.config) < 0)
		return CTL_FAILED;
	if (!presets_known(&a, &conf)) {
		conf_free(&conf);
		return CTL_USAGE;
	}
	add_default_presets(&a, &conf);
	status = run_all(&a, &conf);
	conf_free(&conf);
	return status < 0 ? CTL_FAILED : 0;
}
