/* bench_tables.c - time of rules with tables of blocks: match and store a prompt of 4096 pages that
 * all servers hold, in a full table. new: a prompt that no server holds, which evicts the oldest.
 * The fastest of 30 passes counts, because the machine may be shared. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/policy/policy.h"
#include "tests/lib/bench.h"

#define PAGES	4096u
#define PASSES	30
#define OTHERS	400u		/* prompts before it: far more blocks than there is room for */

static void make_prompt(struct policy_prompt *p, page_key *pages, uint64_t who)
{
	struct rng rng;

	rng_init(&rng, who);
	for (uint32_t i = 0; i < PAGES; i++)
		pages[i] = rng_next(&rng);
	*p = (struct policy_prompt){
		.pages = pages, .n_pages = PAGES, .page_tokens = 16, .tokens = PAGES * 16, .space = 1, .model = 1,
	};
}

struct took {
	double match, sent, sent_new, choose;
};

static double less(double a, double b)
{
	return a < b ? a : b;
}

static void one_pass(const struct policy_opts *o, struct policy_memory *m,
    const struct policy_prompt *p, struct candidate *c, unsigned servers, struct rng *rng,
    struct took *best)
{
	static uint32_t tokens[SERVERS_MAX];
	struct policy_choice out;
	double a = now_us(), b, d, e;

	policy_match(m, o, p, 1000, tokens);
	b = now_us();
	for (unsigned i = 0; i < servers; i++)
		c[i] = (struct candidate){ .id = (server_id)i, .load = i % 3, .own = tokens[i], .slowness = 1 };
	d = now_us();
	policy_choose(o, m, p, &(struct policy_pressure){ 0 }, rng, c, servers, &out);
	e = now_us();
	best->match = less(best->match, b - a);
	best->choose = less(best->choose, e - d);
	a = now_us();
	policy_sent(m, o, p, c[out.first].id, 1000);
	best->sent = less(best->sent, now_us() - a);
}

static void run(enum policy_rule rule, unsigned servers)
{
	static struct candidate c[SERVERS_MAX];
	static page_key pages[PAGES], other[PAGES];
	struct took best = { 1e18, 1e18, 1e18, 1e18 };
	struct policy_prompt p, q;
	struct policy_memory *m;
	struct policy_opts o;
	struct rng rng;

	policy_defaults(&o);
	policy_preset(&o, rule);
	if ((m = policy_memory_new(&o)) == NULL)
		exit(1);
	rng_init(&rng, 1);
	make_prompt(&p, pages, 1);
	for (unsigned i = 0; i < OTHERS; i++) {
		make_prompt(&q, other, 2 + i);
		policy_sent(m, &o, &q, (server_id)(i % servers), 1000);
	}
	for (unsigned i = 0; i < servers; i++)
		policy_sent(m, &o, &p, (server_id)i, 1000);
	for (unsigned i = 0; i < PASSES; i++)
		one_pass(&o, m, &p, c, servers, &rng, &best);
	for (unsigned i = 0; i < PASSES; i++) {
		double start;

		make_prompt(&q, other, 1000 + i);
		start = now_us();
		policy_sent(m, &o, &q, (server_id)(i % servers), 1000);
		best.sent_new = less(best.sent_new, now_us() - start);
	}
	printf(
	    "bench tables rule=%s servers=%u pages=%u match_us=%.0f choose_us=%.2f sent_us=%.0f "
	    "new_us=%.0f\n",
	    policy_rule_text(rule), servers, PAGES, best.match, best.choose, best.sent, best.sent_new);
	policy_memory_free(m);
}

int main(void)
{
	static const enum policy_rule rules[] = {
		RULE_BLOCK_TRACKER, RULE_GAIE, RULE_GAIE_FULL, RULE_AIBRIX, RULE_PREFIXAWARE,
	};
	static const unsigned servers[] = { 1, 16, 64, 256 };

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		for (size_t k = 0; k < sizeof(servers) / sizeof(servers[0]); k++)
			run(rules[i], servers[k]);
	}
	return 0;
}
