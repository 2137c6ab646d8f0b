/* score.c - rules that score each server by its share of the prompt and its load.
 *
 *   smg_events      the most blocks held, of equals the lower load; if no server holds any, or
 *                   imbalanced: the least loaded. No threshold and no trade
 *                                           Shepherd: policies/cache_aware.rs, with KV events
 *   kv_aware        the same without the guard; sent prompts count as held for speculative_ttl
 *                                           vLLM's router: policies/kv_aware.rs
 *   llmd_precise    2 x prefix + 1 x free cache + 1 x short queue, each 0 .. 1
 *                                           llm-d: epp-precise-prefix-cache-config.yaml
 *   loadaware       matched / prompt - (load - mean) / max(1, mean)
 *                                           vLLM's production stack, pull request 1035
 *   dynamo          least of  max(prefill + prompt - held, 0) + decode
 *   dynamo_lmetric  least of  max(prefill + prompt - held, 0) x (decode + 1)    in blocks, NVIDIA
 *                   Dynamo: kv-router/src/scheduling/selector/default.rs, with temperature 0
 *
 * "Held" is candidate.cached, the estimate of our own tree; most of the originals read KV events.
 * Loads include penalties. For Dynamo, prefill is what was sent there without a first token yet,
 * and decode is the prompts of all requests open there with this one. Each counts whole, where the
 * original counts blocks that requests share once, and without generated tokens. Its weights are 1.
 * Tiers count as their authors weigh them, for Dynamo in device, host, disk and shared storage 1,
 * 0.75, 0.25 and 0; for llm-d 1, 0.8, 1 and 1, where a medium that it does not know counts whole.
 * llm-d's queue, with requests that wait in
 * HAProxy, and free cache come from the engines' metrics. If the engine of one candidate reports
 * nothing, queues are estimated by load and all caches count as free. Equals are drawn in the last
 * four and go by load in the first two, where the originals take the first or the last. */
#include <math.h>

#include "agent/policy/blocks_in.h"
#include "agent/policy/rules_in.h"

static void why_by_match(struct rule_job *j)
{
	j->out->why = j->c[j->out->first].cached > 0 ? WHY_CACHED : WHY_COLD;
}

/* ---- the longest ---- */

static void smg_events(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;

	if (out->imbalanced) {
		policy_best_two(j->c, j->n, before_by_load, &out->first, &out->second);
		out->why = WHY_IMBALANCE;
		return;
	}
	policy_best_two(j->c, j->n, before_by_cached, &out->first, &out->second);
	why_by_match(j);
}

/* Sent prompts count as held until events report them. Stamps are in this unit. */
#define STAMP_MS	16		/* 32 bits of them last two years */
#define EXPIRE_MAX	8192		/* blocks that one request may expire: 0.5 ms */

struct expected {
	struct blocks *b;		/* the first member */
	msec start;			/* 0: nothing was sent yet */
};

/* Threads read their clocks before they wait for the lock, so a later prompt may have an earlier
 * time. */
static uint32_t stamp_at(const struct expected *x, msec now)
{
	return now > x->start ? (uint32_t)((now - x->start) / STAMP_MS) + 1 : 1;
}

static void expire(struct expected *x, const struct policy_opts *o, msec now)
{
	uint32_t at = stamp_at(x, now), ttl = (uint32_t)(o->speculative_ttl_ms / STAMP_MS);

	if (at > ttl)
		blocks_expire(x->b, at - ttl, EXPIRE_MAX);
}

static void *expected_new(const struct policy_opts *o)
{
	return with_blocks_new(sizeof(struct expected), o->rule_max_bytes);
}

static void expected_match(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now, uint32_t *tokens)
{
	struct expected *x = m;

	expire(x, o, now);
	blocks_match_tokens(x->b, p, p->n_pages, 1, true, tokens);
}

static void expected_sent(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to, msec now)
{
	struct expected *x = m;
	uint16_t owner = blocks_join(x->b, 0, to);

	if (x->start == 0)
		x->start = now;
	if (owner != OWNER_NONE)
		blocks_add(x->b, walk_chain(p, p->n_pages, 1), owner, stamp_at(x, now), true);
}

static void expected_gone(void *m, server_id id)
{
	struct expected *x = m;

	blocks_gone(x->b, id);
}

static uint64_t held(const struct candidate *c)
{
	return c->cached > c->own ? c->cached : c->own;
}

static bool before_by_held(const struct candidate *a, const struct candidate *b)
{
	return held(a) != held(b) ? held(a) > held(b) : before_by_load(a, b);
}

static void kv_aware(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;

	policy_best_two(j->c, j->n, before_by_held, &out->first, &out->second);
	out->why = held(&j->c[out->first]) > 0 ? WHY_CACHED : WHY_COLD;
}

/* ---- sums ---- */

struct range {
	double min, max;
};

static void range_take(struct range *r, double x)
{
	if (x < r->min)
		r->min = x;
	if (x > r->max)
		r->max = x;
}

/* Return 0 at the start of the range, 1 at its end; 1 if it is empty. */
static double part_of(const struct range *r, double x)
{
	return r->max > r->min ? (x - r->min) / (r->max - r->min) : 1;
}

static bool engines_tell(const struct rule_job *j)
{
	for (size_t i = 0; i < j->n; i++) {
		if (j->c[i].kv_used < 0)
			return false;
	}
	return true;
}

static double queue_of(const struct candidate *c, bool told)
{
	return told ? (double)c->waiting + c->queue : load_with_penalty(c);
}

static void llmd_preset(struct policy_opts *o)
{
	o->host_weight = 0.8;
}

/* The holder of the least scores like a server that holds nothing, as in the original. */
static void llmd_precise(void *m, struct rule_job *j)
{
	struct range queue = { HUGE_VAL, 0 }, cached = { HUGE_VAL, 0 };
	bool told = engines_tell(j);
	double score[SERVERS_MAX];

	for (size_t i = 0; i < j->n; i++) {
		range_take(&queue, queue_of(&j->c[i], told));
		if (j->c[i].cached > 0)
			range_take(&cached, (double)j->c[i].cached);
	}
	for (size_t i = 0; i < j->n; i++) {
		const struct candidate *c = &j->c[i];
		double prefix = c->cached > 0 ? part_of(&cached, (double)c->cached) : 0;
		double busy = queue.max > queue.min ? part_of(&queue, queue_of(c, told)) : 0;

		score[i] = 2 * prefix + (1 - (told ? c->kv_used : 0)) + (1 - busy);
	}
	policy_highest_two(j, score);
	why_by_match(j);
}

static void loadaware(void *m, struct rule_job *j)
{
	double score[SERVERS_MAX], tokens = j->p->tokens > 0 ? (double)j->p->tokens : 1, mean = 0;

	for (size_t i = 0; i < j->n; i++)
		mean += load_with_penalty(&j->c[i]);
	mean /= (double)j->n;
	for (size_t i = 0; i < j->n; i++)
		score[i] = (double)j->c[i].cached / tokens -
			(load_with_penalty(&j->c[i]) - mean) / (mean > 1 ? mean : 1);
	policy_highest_two(j, score);
	why_by_match(j);
}

static void dynamo_preset(struct policy_opts *o)
{
	o->host_weight = 0.75;
	o->disk_weight = 0.25;
	o->remote_weight = 0;
}

/* Compute costs in blocks, which are pages. A penalty counts as so many prompts like this one. */
static void dynamo_costs(struct rule_job *j, bool product)
{
	double block = j->p->page_tokens > 0 ? j->p->page_tokens : 1, score[SERVERS_MAX];
	double prompt = (double)j->p->tokens / block;

	for (size_t i = 0; i < j->n; i++) {
		const struct candidate *c = &j->c[i];
		double failed = c->penalty * prompt;
		double prefill = (double)c->backlog_tokens / block + prompt - (double)c->cached / block + failed;
		double decode = (double)c->open_tokens / block + prompt + failed;

		if (prefill < 0)
			prefill = 0;
		score[i] = -(product ? prefill * (decode + 1) : prefill + decode);
	}
	policy_highest_two(j, score);
	why_by_match(j);
}

static void dynamo(void *m, struct rule_job *j)
{
	dynamo_costs(j, false);
}

static void dynamo_lmetric(void *m, struct rule_job *j)
{
	dynamo_costs(j, true);
}

const struct rule rule_smg_events = { .guarded = true, .choose = smg_events };
const struct rule rule_kv_aware = {
	.choose = kv_aware,
	.memory_new = expected_new,
	.memory_free = with_blocks_free,
	.match = expected_match,
	.sent = expected_sent,
	.gone = expected_gone,
};
const struct rule rule_llmd_precise = { .choose = llmd_precise, .preset = llmd_preset };
const struct rule rule_loadaware = { .choose = loadaware };
const struct rule rule_dynamo = { .choose = dynamo, .preset = dynamo_preset };
const struct rule rule_dynamo_lmetric = { .choose = dynamo_lmetric, .preset = dynamo_preset };
