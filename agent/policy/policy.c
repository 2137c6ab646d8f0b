/* policy.c - the steps of a choice.
 *
 *   1. no candidate: noserver
 *   2. compute the cost of every candidate in seconds, whatever the rule, so that decisions compare
 *   3. the guard reads the loads
 *   4. the rule ranks the candidates; the best two are the answer
 *
 * The second choice replaces a first that is DOWN. So it is searched outside of the guard's window
 * if the window holds one server only. A rule that names no second, or no first, gets the next by
 * load. */
#include "agent/base/mem.h"
#include "agent/policy/prefill.h"
#include "agent/policy/rules_in.h"

const char *why_text(enum why w)
{
	static const char *const text[] = {
#define X(name, word) [WHY_##name] = word,
		WHY_LIST(X)
#undef X
	};

	return (unsigned)w < WHY_COUNT ? text[w] : "unknown";
}

static const char *const rule_text[] = {
#define X(name, word) [RULE_##name] = #word,
	POLICY_RULE_LIST(X)
#undef X
};

static const struct rule *const rules[] = {
#define X(name, word) [RULE_##name] = &rule_##word,
	POLICY_RULE_LIST(X)
#undef X
};

const char *policy_rule_text(enum policy_rule r)
{
	return (unsigned)r < RULE_COUNT ? rule_text[r] : "unknown";
}

int policy_rule_of(struct span name)
{
	for (int i = 0; i < RULE_COUNT; i++) {
		if (span_eq(name, span_str(rule_text[i])))
			return i;
	}
	return -1;
}

bool policy_wants_body(enum policy_rule r)
{
	return rules[r]->wants_body;
}

bool policy_wants_answers(enum policy_rule r)
{
	return rules[r]->answered != NULL;
}

void policy_preset(struct policy_opts *o, enum policy_rule r)
{
	struct policy_opts d;

	policy_defaults(&d);
	o->rule = r;
	o->balance_abs_threshold = d.balance_abs_threshold;
	o->balance_rel_threshold = d.balance_rel_threshold;
	o->cache_threshold = d.cache_threshold;
	o->min_match_tokens = d.min_match_tokens;
	o->load_factor = d.load_factor;
	o->session_ttl_ms = d.session_ttl_ms;
	o->speculative_ttl_ms = d.speculative_ttl_ms;
	o->ttft_slo_ms = d.ttft_slo_ms;
	o->ttft_slo_per_1k_ms = d.ttft_slo_per_1k_ms;
	o->max_blocks_per_backend = d.max_blocks_per_backend;
	o->rule_eviction_interval_ms = d.rule_eviction_interval_ms;
	o->max_prefix_blocks = d.max_prefix_blocks;
	o->host_weight = r == RULE_COST ? d.host_weight : 1;
	o->disk_weight = r == RULE_COST ? d.disk_weight : 1;
	o->remote_weight = r == RULE_COST ? d.remote_weight : 1;
	if (rules[r]->preset != NULL)
		rules[r]->preset(o);
}

void policy_defaults(struct policy_opts *o)
{
	*o = (struct policy_opts){
		.rule = RULE_COST,
		.balance_abs_threshold = 64,
		.balance_rel_threshold = 1.5,
		.cache_threshold = 0.3,
		.rule_max_bytes = 32u << 20,
		.load_factor = 1.25,
		.session_ttl_ms = 7200 * 1000,
		.speculative_ttl_ms = 2000,
		.ttft_slo_ms = 1000,
		.ttft_slo_per_1k_ms = 62.5,
		.max_blocks_per_backend = 100000,
		.rule_eviction_interval_ms = 60000,
		.prefill_tokens_per_s = 8000,
		.learn_rate = true,
		.attention_factor = 1.3e-9,
		.load_ms = 30,
		.adapter_ms = 500,
		.sacrifice_min = 0.3,
		.sacrifice_gain = 1,
		.sacrifice_max = 30,
		.sacrifice_firsts = 0.5,
		.copy_share = 0.5,
		.kv_ms = 2000,
		.kv_share = 0.7,
		.host_weight = 0.8,
		.disk_weight = 0.3,
		.backlog_floor = 0.3,
		.penalty_half_life_ms = 10000,
		.penalty_failure = 1,
		.penalty_429 = 0.5,
		.prefill_least = 256,
		.transfer_ms = 20,
		.transfer_per_1k_ms = 10,
		.learn_transfer = true,
		.stall = 0.5,
	};
}

bool before_by_own(const struct candidate *a, const struct candidate *b)
{
	return a->own != b->own ? a->own > b->own : before_by_load(a, b);
}

void policy_best_two(const struct candidate *c, size_t n, policy_before *before, int *first,
		     int *second)
{
	*first = *second = -1;
	for (size_t i = 0; i < n; i++) {
		if (!c[i].in)
			continue;
		if (*first < 0 || before(&c[i], &c[*first])) {
			*second = *first;
			*first = (int)i;
		} else if (*second < 0 || before(&c[i], &c[*second])) {
			*second = (int)i;
		}
	}
}

/* Each of k equals replaces the kept one with a chance of 1 in k, so all have equal chances. */
static int draw_highest(struct rule_job *j, const double *score, int but)
{
	uint32_t equals = 0;
	int best = -1;

	for (size_t i = 0; i < j->n; i++) {
		if (!j->c[i].in || (int)i == but || (best >= 0 && score[i] < score[best]))
			continue;
		equals = best >= 0 && score[i] == score[best] ? equals + 1 : 1;
		if (equals == 1 || rng_below(j->rng, equals) == 0)
			best = (int)i;
	}
	return best;
}

void policy_highest_two(struct rule_job *j, const double *score)
{
	j->out->first = draw_highest(j, score, -1);
	j->out->second = j->out->first < 0 ? -1 : draw_highest(j, score, j->out->first);
}

/* Return the best of the others, including those that the guard excluded: a busy server is better
 * than none. */
static int best_beside(const struct candidate *c, size_t n, int first, policy_before *before)
{
	int best = -1;

	for (size_t i = 0; i < n; i++) {
		if ((int)i != first && (best < 0 || before(&c[i], &c[best])))
			best = (int)i;
	}
	return best;
}

struct policy_memory {
	enum policy_rule rule;
	void *of_rule;
};

/* The rule may have changed since the memory was made; then it works without until the memory is
 * made again. */
static void *memory_of(const struct policy_memory *m, enum policy_rule r)
{
	return m != NULL && m->rule == r ? m->of_rule : NULL;
}

/* Return whether any engine reports the adapter. If none does, the name may be no adapter, and any
 * server may have it. */
static bool adapter_known(const struct candidate *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (c[i].has_adapter)
			return true;
	return false;
}

/* Return the seconds by which a cache full of open requests delays this one. If its size is
 * unknown, the share in use counts as the engine reports it, without this request. */
static double kv_wait(
    const struct policy_opts *o, const struct policy_prompt *p, const struct candidate *c)
{
	double need = (double)c->kv_tokens, full;

	if (p->tokens > c->cached)
		need += (double)(p->tokens - c->cached);
	full = (c->kv_room > 0 ? need / (double)c->kv_room : c->kv_used) - o->kv_share;
	return full > 0 ? full * o->kv_ms / 1000 : 0;
}

/* Return the requests that decode there. Answers that are expected to be long or short weigh
 * accordingly. */
static double decoding(const struct candidate *c)
{
	double n = load_with_penalty(c) + c->extra;

	return n > 0 ? n : 0;
}

/* Return those whose answers computing a prompt there delays. */
static double answering(const struct candidate *c)
{
	double n = (double)c->load + c->extra - c->silent;

	return n > 0 ? n : 0;
}

/* Share of the time that a chance may save that it counts: it decides between servers that are
 * nearly equal, so that one with more work is not tried for it. In make bench-agentic, seeds 11 to
 * 15, 1 is better in the cell 5000:1 (mean time to first token 0.93 of that without chances), and
 * worse in 8000:4:0.5 (1.22), where slow engines are tried. */
#define CHANCE_SHARE	0.05

/* Return how much less <c> costs by what may be left there; <work_s>: without it. The sacrifice
 * does not raise this, because it protects other requests from work, and a gamble does not. */
static double perhaps_saved_s(const struct policy_opts *o, const struct policy_prompt *p,
    const struct candidate *c, double work_s)
{
	if (c->perhaps == 0)
		return 0;
	return CHANCE_SHARE * c->chance *
	    (work_s - c->slowness * policy_prefill_s(o, p->tokens, c->cached + c->perhaps));
}

static void cost_all(const struct policy_opts *o, const struct policy_prompt *p, double sacrifice,
		     struct candidate *c, size_t n)
{
	bool known = adapter_known(c, n);
	double work_s, compute_s;

	for (size_t i = 0; i < n; i++) {
		c[i].adapter_s = known && !c[i].has_adapter ? o->adapter_ms / 1000 : 0;
		c[i].kv_s = kv_wait(o, p, &c[i]);
		work_s = c[i].slowness * policy_prefill_s(o, p->tokens, c[i].cached);
		compute_s = ((1 + sacrifice) * (1 - c[i].shared) + o->copy_share * c[i].shared) * work_s;
		compute_s -= perhaps_saved_s(o, p, &c[i], work_s);
		c[i].cost = c[i].penalty_s + c[i].promised_s + c[i].adapter_s + c[i].kv_s +
			o->load_ms / 1000 * decoding(&c[i]) +
			prefill_price(o, p, p->prefill, compute_s, work_s, answering(&c[i]), &c[i]);
		c[i].in = true;
	}
}

/* Published rules have no penalties: their authors exclude a failing server for a while. Put the
 * candidates in doubt after the others, and return the number of those to choose from. */
static size_t without_doubt(struct candidate *c, size_t n)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].doubt)
			continue;
		if (i != good) {
			struct candidate swap = c[i];

			c[i] = c[good];
			c[good] = swap;
		}
		good++;
	}
	return good > 0 ? good : n;
}

void policy_choose(const struct policy_opts *o, struct policy_memory *m,
    const struct policy_prompt *p, const struct policy_pressure *pressure, struct rng *rng,
    struct candidate *c, size_t n, struct policy_choice *out)
{
	const struct rule *rule = rules[o->rule];
	struct rule_job j = { .o = o, .p = p, .c = c, .n = n, .rng = rng, .out = out };

	*out = (struct policy_choice){ .first = -1, .second = -1, .why = WHY_NOSERVER };
	out->sacrifice = policy_sacrifice(o, pressure) * (1 + p->patience);
	if (n == 0)
		return;
	out->why = WHY_COLD;
	cost_all(o, p, out->sacrifice, c, n);
	balance_range(c, n, &out->min_load, &out->max_load);
	out->imbalanced = rule->guarded && policy_imbalanced(o, out->min_load, out->max_load);
	if (!rule->guarded)
		j.n = without_doubt(c, n);
	rule->choose(memory_of(m, o->rule), &j);
	if (out->first < 0)
		policy_best_two(c, n, before_by_load, &out->first, &out->second);
	if (out->second < 0)
		out->second = best_beside(c, n, out->first, before_by_load);
}

/* ---- a rule's own memory ---- */

struct policy_memory *policy_memory_new(const struct policy_opts *o)
{
	struct policy_memory *m;

	if (rules[o->rule]->memory_new == NULL || (m = mem_alloc(sizeof(*m))) == NULL)
		return NULL;
	m->rule = o->rule;
	m->of_rule = rules[o->rule]->memory_new(o);
	if (m->of_rule == NULL) {
		mem_free(m);
		return NULL;
	}
	return m;
}

void policy_memory_free(struct policy_memory *m)
{
	if (m == NULL)
		return;
	rules[m->rule]->memory_free(m->of_rule);
	mem_free(m);
}

size_t policy_memory_max(const struct policy_opts *o)
{
	return rules[o->rule]->memory_new != NULL ? o->rule_max_bytes : 0;
}

bool policy_match(struct policy_memory *m, const struct policy_opts *o,
    const struct policy_prompt *p, msec now, uint32_t tokens[SERVERS_MAX])
{
	if (m == NULL || rules[m->rule]->match == NULL)
		return false;
	memset(tokens, 0, SERVERS_MAX * sizeof(*tokens));
	rules[m->rule]->match(m->of_rule, o, p, now, tokens);
	return true;
}

void policy_sent(struct policy_memory *m, const struct policy_opts *o,
    const struct policy_prompt *p, server_id to, msec now)
{
	if (m != NULL && rules[m->rule]->sent != NULL)
		rules[m->rule]->sent(m->of_rule, o, p, to, now);
}

void policy_answered(struct policy_memory *m, server_id at, uint64_t uncached_tokens, msec took)
{
	if (m != NULL && rules[m->rule]->answered != NULL)
		rules[m->rule]->answered(m->of_rule, at, uncached_tokens, took);
}

void policy_room(struct policy_memory *m, server_id id, uint64_t tokens)
{
	if (m != NULL && rules[m->rule]->room != NULL)
		rules[m->rule]->room(m->of_rule, id, tokens);
}

void policy_gone(struct policy_memory *m, server_id id)
{
	if (m != NULL && rules[m->rule]->gone != NULL)
		rules[m->rule]->gone(m->of_rule, id);
}
