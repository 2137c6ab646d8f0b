/* prefixaware.c - the rule "prefixaware" of vLLM's production stack, over its HashTrie.
 *
 * A trie of chunks of 128 characters; each node has the set of endpoints that were sent the prompt
 * down to it. A prompt walks down while the endpoints of the next node and those so far have one in
 * common, and goes to any of those left with equal chances; a new prompt goes anywhere. Loads do
 * not matter, unless the match is shorter than min_match_tokens (by default 0: never): then the
 * original takes the endpoint with the fewest requests a second.
 *
 * A key chained to all before it is a path of the trie, so the table of blocks is the trie here. In
 * a trie that forgets nothing, an endpoint of a node is on all nodes above it, so the longest run
 * from the first chunk is the result of the intersections.
 *
 * Source: routing_logic.py, prefix/hashtrie.py. Differences:
 *
 *   - Their trie grows for ever. Here rule_max_bytes bounds it: the least recently used goes, the
 *     end of a prompt before its beginning.
 *   - A chunk is as many whole pages as 128 characters, at 4 a token; the last chunk has the rest.
 *   - Below min_match_tokens the least loaded server replaces the one with the fewest requests a
 *     second. */
#include "agent/policy/blocks_in.h"
#include "agent/policy/rules_in.h"

#define CHUNK_TOKENS	32		/* 128 characters */
#define TENTH_MS	100

static void *memory_new(const struct policy_opts *o)
{
	return blocks_new(o->rule_max_bytes);
}

static void memory_free(void *m)
{
	blocks_free(m);
}

static uint32_t pages_in_chunk(const struct policy_prompt *p)
{
	return p->page_tokens > 0 && p->page_tokens < CHUNK_TOKENS ? CHUNK_TOKENS / p->page_tokens : 1;
}

static void match(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now, uint32_t *tokens)
{
	blocks_match_tokens(m, p, p->n_pages, pages_in_chunk(p), true, tokens);
}

static void sent(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to, msec now)
{
	uint16_t owner;

	if (p->n_pages == 0 || (owner = blocks_join(m, 0, to)) == OWNER_NONE)
		return;
	blocks_add(m, walk_chain(p, p->n_pages, pages_in_chunk(p)), owner,
	    (uint32_t)(now / TENTH_MS), true);
}

static void gone(void *m, server_id id)
{
	blocks_gone(m, id);
}

static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	double score[SERVERS_MAX] = { 0 };
	uint64_t longest = 0;

	for (size_t i = 0; i < j->n; i++) {
		score[i] = (double)j->c[i].own;
		longest = j->c[i].own > longest ? j->c[i].own : longest;
	}
	if (longest < j->o->min_match_tokens) {
		policy_best_two(j->c, j->n, before_by_load, &out->first, &out->second);
		return;
	}
	policy_highest_two(j, score);
	if (longest > 0)
		out->why = WHY_CACHED;
}

const struct rule rule_prefixaware = {
	.choose = choose,
	.memory_new = memory_new, .memory_free = memory_free,
	.match = match, .sent = sent, .gone = gone,
};
