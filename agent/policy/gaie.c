/* gaie.c - the endpoint picker of the Gateway API inference extension (now llm-d's router) in its
 * default profile.
 *
 *      score = 3 * prefix + 2 * queue + 2 * (1 - kv)        the highest; equals are drawn
 *
 *      prefix   the share of the prompt's blocks that the server was sent before, counted as its
 *               "approximate prefix" plugin does: every block before the first that no server has,
 *               so a server with a gap counts on after it. Only the first max_prefix_blocks are
 *               read: prompts that differ later are the same to it
 *      queue    (most - its) / (most - least), 1 if all are equal: requests that wait in its
 *               engine, and in HAProxy for it
 *      kv       the used share of its cache
 *
 * Each server has an LRU of blocks, each key chained to those before it: 31250, or as many as its
 * cache has room for if that is known (their autoTune). A prompt is entered from its first block
 * on, so its beginning is the oldest and goes first, as in the original.
 *
 * Source: approximateprefix/hashing.go, indexer.go, scorer/prefix/plugin.go; the weights of the
 * profile from config/charts/epplib/templates/_config.yaml. Differences:
 *
 *   - A block is a page; a part page at the end counts for nothing, theirs is hashed too.
 *   - If the engine's metrics are not read, the used cache is estimated as the prompts of the open
 *     requests by the server's room, at most all of it.
 *   - The filter of saturated servers and plugins that are off by default are left out, because
 *     they are not part of the score.
 *
 * gaie_full is the same without the limit on blocks, which was the best of the published rules in
 * simulation. */
#include "agent/policy/blocks_in.h"
#include "agent/policy/rules_in.h"

#define WEIGHT_PREFIX	3
#define WEIGHT_QUEUE	2
#define WEIGHT_KV	2
#define TRIM_STEPS	256u		/* beyond the blocks that a prompt added: if the room has become smaller */
#define TENTH_MS	100

struct picker {
	struct blocks *b;		/* the first member */
	uint64_t room[SERVERS_MAX];	/* tokens; 0: unknown */
};

static void preset(struct policy_opts *o)
{
	o->max_blocks_per_backend = 31250;
	o->max_prefix_blocks = 256;
}

static void preset_full(struct policy_opts *o)
{
	o->max_blocks_per_backend = 31250;
	o->max_prefix_blocks = 0;
}

static void *memory_new(const struct policy_opts *o)
{
	return with_blocks_new(sizeof(struct picker), o->rule_max_bytes);
}

static uint32_t looked_at(const struct policy_opts *o, const struct policy_prompt *p)
{
	return o->max_prefix_blocks > 0 && o->max_prefix_blocks < p->n_pages ? o->max_prefix_blocks
									     : p->n_pages;
}

static void match(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p,
    msec now, uint32_t *tokens)
{
	struct picker *m = of_rule;

	blocks_match_tokens(m->b, p, looked_at(o, p), 1, false, tokens);
}

static uint32_t room_in_blocks(
    const struct picker *m, const struct policy_opts *o, server_id id, uint32_t page_tokens)
{
	uint64_t n = m->room[id] / page_tokens;

	if (m->room[id] == 0)
		return o->max_blocks_per_backend;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void sent(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p,
    server_id to, msec now)
{
	struct picker *m = of_rule;
	uint32_t n = looked_at(o, p);
	uint16_t owner;

	if (n == 0 || (owner = blocks_join(m->b, 0, to)) == OWNER_NONE)
		return;
	blocks_add(m->b, walk_chain(p, n, 1), owner, (uint32_t)(now / TENTH_MS), false);
	blocks_trim(m->b, owner, room_in_blocks(m, o, to, p->page_tokens), n + TRIM_STEPS);
}

static void room(void *of_rule, server_id id, uint64_t tokens)
{
	struct picker *m = of_rule;

	m->room[id] = tokens;
}

static void gone(void *of_rule, server_id id)
{
	struct picker *m = of_rule;

	m->room[id] = 0;
	blocks_gone(m->b, id);
}

/* ---- the choice ---- */

static uint64_t waits(const struct candidate *c)
{
	return (uint64_t)c->queue + c->waiting;
}

static void range(const struct rule_job *j, uint64_t *least, uint64_t *most)
{
	*least = *most = waits(&j->c[0]);
	for (size_t i = 1; i < j->n; i++) {
		*least = waits(&j->c[i]) < *least ? waits(&j->c[i]) : *least;
		*most = waits(&j->c[i]) > *most ? waits(&j->c[i]) : *most;
	}
}

static double kv_used(const struct picker *m, const struct rule_job *j, const struct candidate *c)
{
	double all = (double)j->o->max_blocks_per_backend * j->p->page_tokens;
	double used;

	if (c->kv_used >= 0)
		return c->kv_used < 1 ? c->kv_used : 1;
	if (m != NULL && m->room[c->id] > 0)
		all = (double)m->room[c->id];
	used = (double)c->open_tokens;
	return used < all ? used / all : used > 0;
}

static void choose(void *of_rule, struct rule_job *j)
{
	double score[SERVERS_MAX], prompt = (double)looked_at(j->o, j->p) * j->p->page_tokens;
	struct policy_choice *out = j->out;
	uint64_t least, most;

	range(j, &least, &most);
	for (size_t i = 0; i < j->n; i++) {
		const struct candidate *c = &j->c[i];
		double prefix = prompt > 0 ? (double)c->own / prompt : 0;
		double queue = most > least ? (double)(most - waits(c)) / (double)(most - least) : 1;

		score[i] = WEIGHT_PREFIX * (prefix < 1 ? prefix : 1) + WEIGHT_QUEUE * queue +
			WEIGHT_KV * (1 - kv_used(of_rule, j, c));
	}
	policy_highest_two(j, score);
	out->why = j->c[out->first].own > 0 ? WHY_CACHED : WHY_COLD;
}

#define RULE_GAIE(of) { \
	.preset = of, .choose = choose, .memory_new = memory_new, .memory_free = with_blocks_free, \
	.match = match, .sent = sent, .room = room, .gone = gone, \
}

const struct rule rule_gaie = RULE_GAIE(preset);
const struct rule rule_gaie_full = RULE_GAIE(preset_full);
