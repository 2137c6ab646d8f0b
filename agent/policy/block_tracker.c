/* block_tracker.c - the design "VllmCacheAwarePolicy" with its BlockCacheTracker, for a gateway
 * before vLLM.
 *
 * It has a table of blocks, each keyed by its place and content, not by what is before it. So a
 * binary search finds the length that a backend holds; it assumes that an owner of a block holds
 * all before it. The longest wins if it is more than cache_threshold of the prompt's blocks and the
 * backend's load is below load_factor times the average; else the least loaded wins. One tracker a
 * model. Every request sent touches its blocks, and one lookup in eight does. Every
 * rule_eviction_interval a backend loses what it holds beyond max_blocks_per_backend, oldest first.
 *
 * Source: its design document, sections 6 to 9: block_size 16, max_blocks_per_backend 100000,
 * eviction_interval_secs 60, cache_threshold 0.3, load_factor 1.25. Differences:
 *
 *   - A key by place also matches where another prompt left the same page at the same place:
 *     prompts that differ only in their first page would look cached in all others. So every block
 *     has a second key that is chained to all before it, and only the length that these confirm
 *     counts. It takes twice the memory and one lookup a page.
 *   - A block is a page; part pages count for nothing.
 *   - There are at most SCOPES_MAX models: the least recently used one goes. Eviction goes in steps
 *     of SWEEP_STEPS a request.
 *   - Servers that may not be chosen are not searched. Of equal holders theirs is the first in the
 *     order of a hash set; here it is the first by a hash of the prefix and its name, whatever its
 *     load. Equals by load alone go in turn. */
#include "agent/policy/blocks_in.h"
#include "agent/policy/rules_in.h"

#define SWEEP_STEPS	1024u
#define TOUCH_EVERY	8u
#define TENTH_MS	100		/* stamps are tenths of a second, which last 13 years */

struct tracker {
	uint64_t model;
	uint64_t used;			/* number of the last request; 0: free */
	uint64_t lookups;
};

struct trackers {
	struct blocks *b;		/* the first member */
	struct tracker of[SCOPES_MAX];
	uint64_t requests;
	bool sweeping;
	msec swept;
};

static void preset(struct policy_opts *o)
{
	o->max_blocks_per_backend = 100000;
	o->rule_eviction_interval_ms = 60000;
	o->cache_threshold = 0.3;
	o->load_factor = 1.25;
}

static void *memory_new(const struct policy_opts *o)
{
	return with_blocks_new(sizeof(struct trackers), o->rule_max_bytes);
}

/* Return the scope of a model, or -1. */
static int tracker_of(const struct trackers *m, uint64_t model)
{
	for (int i = 0; i < SCOPES_MAX; i++) {
		if (m->of[i].used != 0 && m->of[i].model == model)
			return i;
	}
	return -1;
}

static int tracker_new(struct trackers *m, uint64_t model)
{
	int unused = 0;

	for (int i = 1; i < SCOPES_MAX; i++) {
		if (m->of[i].used < m->of[unused].used)
			unused = i;
	}
	blocks_scope_gone(m->b, (unsigned)unused);
	m->of[unused] = (struct tracker){ .model = model };
	return unused;
}

/* ---- what a backend holds ---- */

/* Touch the blocks of the longest match: one lookup in eight. */
static void touch_longest(struct trackers *m, int scope, const struct policy_prompt *p,
    server_id best, uint32_t len, msec now)
{
	uint16_t owner = blocks_owner(m->b, (unsigned)scope, best);
	struct block_walk places = walk_places(p);

	if (++m->of[scope].lookups % TOUCH_EVERY != 0)
		return;
	places.end = len;
	blocks_touch(m->b, places, owner, (uint32_t)(now / TENTH_MS));
	blocks_touch(m->b, walk_chain(p, len, 1), owner, (uint32_t)(now / TENTH_MS));
}

static void match(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p,
    msec now, uint32_t *tokens)
{
	struct trackers *m = of_rule;
	int scope = tracker_of(m, p->model);
	uint32_t chained[OWNERS_MAX], longest = 0;
	server_id best = SERVER_NONE;

	if (scope < 0 || p->n_pages == 0)
		return;
	blocks_match(m->b, (unsigned)scope, walk_chain(p, p->n_pages, 1), true, chained);
	for (uint16_t i = 0; i < OWNERS_MAX; i++) {
		uint32_t found;

		if (chained[i] == 0)
			continue;
		found = blocks_search(m->b, p, i);
		if (found > chained[i])
			found = chained[i];
		tokens[blocks_server(m->b, i)] = found * p->page_tokens;
		if (found > longest) {
			longest = found;
			best = blocks_server(m->b, i);
		}
	}
	if (longest > 0)
		touch_longest(m, scope, p, best, longest, now);
}

static void sweep(struct trackers *m, const struct policy_opts *o, msec now)
{
	uint64_t max = 2 * (uint64_t)o->max_blocks_per_backend;
	uint32_t steps = SWEEP_STEPS;

	if (now - m->swept >= o->rule_eviction_interval_ms) {
		m->swept = now;
		m->sweeping = true;
	}
	for (uint16_t i = 0; m->sweeping && i < OWNERS_MAX; i++) {
		uint32_t before = blocks_owned(m->b, i);

		blocks_trim(m->b, i, max < UINT32_MAX ? (uint32_t)max : UINT32_MAX, steps);
		steps -= before - blocks_owned(m->b, i);
		if (steps == 0)
			return;
	}
	m->sweeping = false;
}

static void sent(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p,
    server_id to, msec now)
{
	struct trackers *m = of_rule;
	int scope = tracker_of(m, p->model);
	uint32_t stamp = (uint32_t)(now / TENTH_MS);
	uint16_t owner;

	if (p->n_pages == 0)
		return;
	if (scope < 0)
		scope = tracker_new(m, p->model);
	m->of[scope].used = ++m->requests;
	owner = blocks_join(m->b, (unsigned)scope, to);
	if (owner == OWNER_NONE)
		return;
	blocks_add(m->b, walk_places(p), owner, stamp, true);
	blocks_add(m->b, walk_chain(p, p->n_pages, 1), owner, stamp, true);
	sweep(m, o, now);
}

static void gone(void *of_rule, server_id id)
{
	struct trackers *m = of_rule;

	blocks_gone(m->b, id);
}

const struct rule rule_block_tracker = {
	.preset = preset, .choose = first_longest_where_load_is_well,
	.memory_new = memory_new, .memory_free = with_blocks_free,
	.match = match, .sent = sent, .gone = gone,
};
