/* smetric.c - a conversation stays on the server that has most of it cached, as long as its first
 * token comes in time. vLLM's router: policies/smetric.rs.
 *
 *   queued = prefill sent there and not answered + what this prompt would add, in tokens
 *   meets  = queued / rate <= ttft_slo + ttft_slo_per_1k x prompt / 1000; true if the rate is
 *          unknown
 *   stay   at the longest holder if this is no first turn, it holds more than half of the last
 *          turn's prompt, and it meets the limit or no server does
 *   else   the least of queued x open requests
 *
 * The memory is the rate of each server: the uncached tokens of each request by the time to its
 * first token; the 90th percentile of the last 64, from 8 on. That time includes waiting, so the
 * fastest requests come close to the speed of a server. match() passes the rates in candidate.own,
 * in tokens a second.
 *
 * Cached is candidate.cached; the original keeps a tree of text of 2^26 characters a server. Its
 * factor on the limit (slack) is 1. Its attention term is off unless the model is configured, and
 * left out. */
#include "agent/base/mem.h"
#include "agent/policy/rules_in.h"

#define RATES		64
#define RATES_MIN	8
#define HIT_RATIO	0.5

struct rates {
	uint32_t n;			/* ever */
	uint32_t p90;			/* tokens a second; 0: too few */
	uint32_t last[RATES];		/* at n % RATES */
};

struct fleet_rates {
	size_t n;			/* servers with a higher id have none */
	struct rates at[];
};

static void *memory_new(const struct policy_opts *o)
{
	size_t n = (o->rule_max_bytes - sizeof(struct fleet_rates)) / sizeof(struct rates);
	struct fleet_rates *f;

	if (n > SERVERS_MAX)
		n = SERVERS_MAX;
	f = mem_alloc(sizeof(*f) + n * sizeof(*f->at));
	if (f != NULL)
		f->n = n;
	return f;
}

static void match(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now, uint32_t *tokens)
{
	const struct fleet_rates *f = m;

	for (size_t i = 0; i < f->n; i++)
		tokens[i] = f->at[i].p90;
}

/* Return the value at nine tenths of the sorted rates, rounded. */
static uint32_t p90_of(const struct rates *r)
{
	uint32_t sorted[RATES], n = r->n < RATES ? r->n : RATES, k;

	for (uint32_t i = 0; i < n; i++) {
		for (k = i; k > 0 && sorted[k - 1] > r->last[i]; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = r->last[i];
	}
	return sorted[((n - 1) * 9 + 5) / 10];
}

static void answered(void *m, server_id at, uint64_t uncached_tokens, msec took)
{
	struct fleet_rates *f = m;
	struct rates *r = at < f->n ? &f->at[at] : NULL;
	uint64_t rate;

	if (r == NULL || uncached_tokens == 0 || took <= 0)
		return;
	rate = uncached_tokens > UINT32_MAX ? UINT32_MAX : uncached_tokens * 1000 / (uint64_t)took;
	r->last[r->n++ % RATES] = rate == 0 ? 1 : rate > UINT32_MAX ? UINT32_MAX : (uint32_t)rate;
	if (r->n == 2 * RATES)
		r->n = RATES;
	if (r->n >= RATES_MIN)
		r->p90 = p90_of(r);
}

static void gone(void *m, server_id id)
{
	struct fleet_rates *f = m;

	if (id < f->n)
		memset(&f->at[id], 0, sizeof(f->at[id]));
}

/* ---- the choice ---- */

/* A penalty counts as so many prompts like this one. */
static double queued_tokens(const struct rule_job *j, const struct candidate *c)
{
	double tokens = (double)j->p->tokens, cached = (double)c->cached;

	return (double)c->backlog_tokens + c->penalty * tokens + (cached < tokens ? tokens - cached : 0);
}

static bool meets(const struct rule_job *j, const struct candidate *c)
{
	double limit_ms =
	    (double)j->o->ttft_slo_ms + j->o->ttft_slo_per_1k_ms * (double)j->p->tokens / 1000;

	return c->own == 0 || queued_tokens(j, c) * 1000 <= limit_ms * (double)c->own;
}

/* Of equal holders return the one with less queued. */
static int longest_holder(const struct rule_job *j)
{
	const struct candidate *c = j->c;
	int best = 0;

	for (int i = 1; i < (int)j->n; i++) {
		if (c[i].cached > c[best].cached ||
		    (c[i].cached == c[best].cached && queued_tokens(j, &c[i]) < queued_tokens(j, &c[best])))
			best = i;
	}
	return best;
}

static int least(const struct rule_job *j, int but)
{
	double of_best = 0;
	int best = -1;

	for (int i = 0; i < (int)j->n; i++) {
		double score = queued_tokens(j, &j->c[i]) * load_with_penalty(&j->c[i]);

		if (i == but || (best >= 0 && score > of_best))
			continue;
		if (best < 0 || score < of_best || before_by_load(&j->c[i], &j->c[best])) {
			best = i;
			of_best = score;
		}
	}
	return best;
}

static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	int stay = longest_holder(j);
	double history = (double)j->p->history;
	bool any = false;

	for (size_t i = 0; i < j->n; i++)
		any = any || meets(j, &j->c[i]);
	if (history > 0 && (double)j->c[stay].cached > HIT_RATIO * history &&
	    (!any || meets(j, &j->c[stay]))) {
		out->first = stay;
		out->why = WHY_CACHED;
	} else {
		out->first = least(j, -1);
		out->why = j->c[out->first].cached > 0 ? WHY_CACHED : WHY_COLD;
	}
	out->second = least(j, out->first);
}

const struct rule rule_smetric = {
	.choose = choose, .memory_new = memory_new, .memory_free = mem_free,
	.match = match, .answered = answered, .gone = gone,
};
