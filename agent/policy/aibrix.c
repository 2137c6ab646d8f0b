/* aibrix.c - AIBrix's rule "prefix-cache".
 *
 *   1. If the most and the least loaded server are more than 8 requests apart, only those with the
 *      least are left.
 *   2. Of those that hold the first block of the prompt and whose requests are at most the mean
 *      plus one standard deviation: the highest percentage matched (whole percents), then the
 *      fewest requests, then any.
 *   3. Otherwise any of those with the fewest requests.
 *
 * A match starts at the first block and has no gap. Blocks are chained and kept 20 minutes after
 * their last use, 200000 of all servers together. A prompt is entered from its first block on, so
 * its beginning is the oldest.
 *
 * Source: algorithms/prefix_cache.go, prefixcacheindexer/hash.go, with the defaults of the code,
 * not of the page that describes it. Differences:
 *
 *   - A block is a page; theirs is 4 characters. So 200000 blocks are much more prompt.
 *   - Their store forgets a block with all its holders; here the least recent holder is dropped
 *     first. Expired blocks go in steps of EXPIRE_STEPS a request, and all blocks of a server at
 *     once if it got no request for 20 minutes. */
#include <math.h>

#include "agent/policy/blocks_in.h"
#include "agent/policy/rules_in.h"

#define APART_MAX	8
#define BLOCK_TTL_MS	(20 * 60 * 1000)
#define EXPIRE_STEPS	1024u
#define TENTH_MS	100

static void preset(struct policy_opts *o)
{
	o->max_blocks_per_backend = 200000;
}

static void *memory_new(const struct policy_opts *o)
{
	return blocks_new(o->rule_max_bytes);
}

static void memory_free(void *m)
{
	blocks_free(m);
}

/* Return the stamp before which blocks have expired. */
static uint32_t expired(msec now)
{
	return now > BLOCK_TTL_MS ? (uint32_t)((now - BLOCK_TTL_MS) / TENTH_MS) : 0;
}

static void match(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now, uint32_t *tokens)
{
	uint32_t limit = expired(now);

	blocks_expire(m, limit, EXPIRE_STEPS);
	blocks_match_tokens(m, p, p->n_pages, 1, true, tokens);
	for (uint16_t i = 0; i < OWNERS_MAX; i++) {
		if (blocks_server(m, i) != SERVER_NONE && blocks_newest(m, i) < limit)
			tokens[blocks_server(m, i)] = 0;
	}
}

static void sent(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to, msec now)
{
	uint16_t owner;

	if (p->n_pages == 0 || (owner = blocks_join(m, 0, to)) == OWNER_NONE)
		return;
	blocks_expire(m, expired(now), EXPIRE_STEPS);
	blocks_add(m, walk_chain(p, p->n_pages, 1), owner, (uint32_t)(now / TENTH_MS), false);
	blocks_trim_all(m, o->max_blocks_per_backend, p->n_pages + EXPIRE_STEPS);
}

static void gone(void *m, server_id id)
{
	blocks_gone(m, id);
}

/* ---- the choice ---- */

struct loads {
	uint32_t least, most;
	double bound;			/* mean + standard deviation */
};

static struct loads loads_of(const struct rule_job *j)
{
	struct loads l = { .least = UINT32_MAX };
	double sum = 0, squares = 0, mean;

	for (size_t i = 0; i < j->n; i++) {
		uint32_t load = load_with_penalty(&j->c[i]);

		l.least = load < l.least ? load : l.least;
		l.most = load > l.most ? load : l.most;
		sum += load;
	}
	mean = sum / (double)j->n;
	for (size_t i = 0; i < j->n; i++) {
		double d = load_with_penalty(&j->c[i]) - mean;

		squares += d * d;
	}
	l.bound = mean + sqrt(squares / (double)j->n);
	return l;
}

static double percent(const struct policy_prompt *p, const struct candidate *c)
{
	uint64_t prompt = (uint64_t)p->n_pages * p->page_tokens;

	return prompt > 0 ? (double)(c->own * 100 / prompt) : 0;
}

/* Return the best of step 2. Its order is one number: a percent counts more than any load. */
static int best_match(struct rule_job *j, const struct loads *l, bool apart)
{
	double score[SERVERS_MAX] = { 0 };
	bool any = false;

	for (size_t i = 0; i < j->n; i++) {
		uint32_t load = load_with_penalty(&j->c[i]);

		j->c[i].in = j->c[i].own > 0 && load <= l->bound && (!apart || load == l->least);
		score[i] = j->c[i].in ? percent(j->p, &j->c[i]) * 0x1p32 - load : 0;
		any |= j->c[i].in;
	}
	if (any)
		policy_highest_two(j, score);
	return any ? j->out->first : -1;
}

static void least_loaded(struct rule_job *j)
{
	double score[SERVERS_MAX] = { 0 };

	for (size_t i = 0; i < j->n; i++) {
		score[i] = -(double)load_with_penalty(&j->c[i]);
		j->c[i].in = true;
	}
	policy_highest_two(j, score);
}

static bool somebody_has_more(const struct rule_job *j, uint64_t own)
{
	for (size_t i = 0; i < j->n; i++) {
		if (j->c[i].own > own)
			return true;
	}
	return false;
}

/* In step 2 the second choice is the next that holds some of it; if there is none, the next by
 * load. */
static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	struct loads l = loads_of(j);
	bool apart = l.most - l.least > APART_MAX;

	if (best_match(j, &l, apart) >= 0) {
		out->why = apart && somebody_has_more(j, j->c[out->first].own) ? WHY_IMBALANCE : WHY_CACHED;
		return;
	}
	least_loaded(j);
	out->why = somebody_has_more(j, j->c[out->first].own) ? WHY_IMBALANCE : WHY_COLD;
}

const struct rule rule_aibrix = {
	.preset = preset, .choose = choose,
	.memory_new = memory_new, .memory_free = memory_free,
	.match = match, .sent = sent, .gone = gone,
};
