/* bench_policy.c - time of policy_choose() for each rule, with 16 and 256 servers; in the agent it
 * runs under the lock of the router, after the match. Prompts differ, servers have different loads,
 * and some hold a part of the prompt. Passes of all rules alternate and the fastest of each counts,
 * so that other load affects all.
 *
 * Lines: bench policy rule=NAME servers=N ns=T limit_ns=L. Exits with 1 if one is above its limit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/policy/policy.h"
#include "tests/lib/bench.h"

#define PASSES		15
#define CHOICES		400
#define PROMPT_PAGES	128

static const struct { size_t servers; double limit_ns; } sizes[] = { { 16, 2000 }, { 256, 20000 } };

struct world {
	struct rng rng;
	struct candidate c[SERVERS_MAX];
	page_key pages[PROMPT_PAGES];
	uint32_t tokens[SERVERS_MAX];
	uint64_t sum;
};

static struct policy_prompt prompt(struct world *w)
{
	for (int i = 0; i < PROMPT_PAGES; i++)
		w->pages[i] = rng_next(&w->rng);
	return (struct policy_prompt){
		.tokens = PROMPT_PAGES * 16 + 5, .matched = 1600, .pages = w->pages, .n_pages = PROMPT_PAGES,
		.page_tokens = 16, .space = 1, .model = 2, .session = rng_next(&w->rng),
		.history = PROMPT_PAGES * 8, .body = rng_next(&w->rng), .opening = rng_next(&w->rng),
	};
}

static void servers(struct world *w, size_t n)
{
	struct rng same;

	rng_init(&same, 7);
	for (size_t i = 0; i < n; i++) {
		uint32_t load = rng_below(&same, 40);

		w->c[i] = (struct candidate){
			.id = (server_id)i, .name = rng_next(&same), .load = load, .backlog_s = load / 16.0,
			.backlog_tokens = load * 500, .open_tokens = load * 2000, .slowness = 1,
			.waiting = load / 4, .kv_used = load / 40.0, .last_pick = i,
			.cached = rng_below(&same, 3) ? 0 : rng_below(&same, 100) * 16,
		};
	}
}

/* A rule remembers the requests it got; the first pass makes some of that state. */
static double pass(struct world *w, const struct policy_opts *o, struct policy_memory *m, size_t n)
{
	double took = 0;

	servers(w, n);
	for (int i = 0; i < CHOICES; i++) {
		struct policy_prompt p = prompt(w);
		struct policy_choice got;
		double start;

		policy_match(m, o, &p, i, w->tokens);
		for (size_t k = 0; k < n; k++)
			w->c[k].own = w->tokens[w->c[k].id];
		start = now_ns();
		policy_choose(o, m, &p, &(struct policy_pressure){ 0.5 }, &w->rng, w->c, n, &got);
		took += now_ns() - start;
		policy_sent(m, o, &p, w->c[got.first].id, i);
		w->sum += (uint64_t)got.first;
	}
	return took / CHOICES;
}

int main(void)
{
	static struct world w;
	static double best[2][RULE_COUNT];
	struct policy_memory *m[RULE_COUNT];
	struct policy_opts o[RULE_COUNT];
	int above = 0;

	rng_init(&w.rng, 1);
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		policy_defaults(&o[rule]);
		policy_preset(&o[rule], (enum policy_rule)rule);
		m[rule] = policy_memory_new(&o[rule]);
	}
	for (int k = 0; k < 2 * PASSES * RULE_COUNT; k++) {
		int rule = k % RULE_COUNT, size = k / RULE_COUNT % 2;
		double t = pass(&w, &o[rule], m[rule], sizes[size].servers);

		if (best[size][rule] == 0 || t < best[size][rule])
			best[size][rule] = t;
	}
	for (int k = 0; k < 2 * RULE_COUNT; k++) {
		int rule = k / 2, size = k % 2;

		printf("bench policy rule=%s servers=%zu ns=%.0f limit_ns=%.0f\n",
		    policy_rule_text((enum policy_rule)rule), sizes[size].servers, best[size][rule],
		    sizes[size].limit_ns);
		above += best[size][rule] > sizes[size].limit_ns;
	}
	for (int rule = 0; rule < RULE_COUNT; rule++)
		policy_memory_free(m[rule]);
	return above > 0 || w.sum == 0;
}
