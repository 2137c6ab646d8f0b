/* policy.h - candidates in, ranked choice and why out. No clock, no lock, no chance but what is
 * handed in.
 *
 * A candidate is a server that is up with weight; the caller left out the others. A rule ranks them. Each has
 * a name, the defaults of its authors (policy_preset()) and, where they gave it one, a memory of its own:
 *
 *      policy_match()    what its own memory knows of a prompt, before the choice       memory's owner
 *      policy_choose()   arithmetic on the candidates                                    locks it
 *      policy_sent()     the request goes there                                          for these
 *      policy_answered() its first token came so much later
 *      policy_room()     so much is that server's cache
 *      policy_gone()     that server is no more
 *
 *   cost         argmin  wait + (1 + a) * prefill(uncached) * (1 - s) + g * load + k + l     (default)
 *                wait      seconds of prefill sent there and not yet answered
 *                prefill   seconds to compute what is not cached: linear, plus attention's square
 *                a         the sacrifice factor, at most 30: 0.3 + 0.5 x P x w / (1 - w) with first tokens,
 *                          0.3 + min(P, 0.5 x w / (1 - w)) with ends alone, where P is the smoothed mean
 *                          wait / mean work and w the smoothed share of servers where work waits. 0 is greed:
 *                          near the oracle when idle, bad in overload. By w, work is cheap while some servers
 *                          are idle, because it makes nobody wait there. With ends alone the waits are
 *                          estimates, which grow with a, so they raise it no further than w does
 *                s         the share of that work which later requests will use as well: a copy of a popular
 *                          prefix is an investment. Of the request's own time, copy_share is charged all the same
 *                k         2 s x (share of the server's KV cache that open requests fill - 0.7), if positive:
 *                          beyond that requests wait for others to end
 *                g         30 ms a request open there: decode is the limit for long answers
 *                          a server's penalty is so many more requests, to wait and load both
 *                l         500 ms where the LoRA adapter that is asked for has to be loaded: so those that are
 *                          known to have it come first, until waiting there costs more than that. Nothing
 *                          where nobody is known to have it
 *   cache_aware  imbalanced: least loaded. Otherwise, if matched / prompt length > cache_threshold
 *                and matched >= min_match_tokens: the longest holder, of equal ones always the same one for a
 *                prefix; else least loaded
 *   The others stand in kvroute.yaml(5), each with its source, and at the top of its file.
 *
 *   The guard, for cost and cache_aware: imbalanced if and only if max - min > balance_abs_threshold and
 *   max > balance_rel_threshold x min, over the candidates' loads; both strictly. While it is
 *   tripped, cost only looks at candidates with load <= min + balance_abs_threshold. A penalty is
 *   added to a load where min is concerned, and what lies above it, but never to max: a server that
 *   is idle because it fails neither trips the guard, nor is it the one that all others must be near.
 *
 * Other ties go to the lower load, then to the server picked longest ago: never all to the first.
 *
 * Sources: the cost rule and its constants were found by simulation over three traces and 19 fleets
 * (mean time to first token 1.14 x the best greedy oracle with a first-token report, 1.17 x with an
 * end-of-stream report only; the best published rule 1.53 x); cache_aware is the published rule of
 * the SGLang and Shepherd gateways, with the defaults of their command line, and as cache_aware_lib
 * with those of their library. */
#ifndef KVROUTE_POLICY_POLICY_H
#define KVROUTE_POLICY_POLICY_H

#include "agent/base/rng.h"
#include "agent/base/types.h"

#define POLICY_RULE_LIST(X) \
	X(COST,			cost) \
	X(CACHE_AWARE,		cache_aware) \
	X(CACHE_AWARE_LIB,	cache_aware_lib) \
	X(SMG_EVENTS,		smg_events) \
	X(LEAST_CONN,		least_conn) \
	X(POWER_OF_TWO,		power_of_two) \
	X(ROUND_ROBIN,		round_robin) \
	X(RANDOM,		random) \
	X(PREFIX_HASH,		prefix_hash) \
	X(CONSISTENT_HASH,	consistent_hash) \
	X(CHWBL,		chwbl) \
	X(RENDEZVOUS,		rendezvous) \
	X(STICKY_LEAST_LOADED,	sticky_least_loaded) \
	X(KV_AWARE,		kv_aware) \
	X(LLMD_PRECISE,		llmd_precise) \
	X(LOADAWARE,		loadaware) \
	X(SMETRIC,		smetric) \
	X(DYNAMO,		dynamo) \
	X(DYNAMO_LMETRIC,	dynamo_lmetric) \
	X(BLOCK_TRACKER,	block_tracker) \
	X(GAIE,			gaie) \
	X(GAIE_FULL,		gaie_full) \
	X(AIBRIX,		aibrix) \
	X(PREFIXAWARE,		prefixaware)

enum policy_rule {
#define X(name, word) RULE_##name,
	POLICY_RULE_LIST(X)
#undef X
	RULE_COUNT
};

#define WHY_LIST(X) \
	X(CACHED,	"cached")	/* a server that holds a part of the prompt */ \
	X(COLD,		"cold")		/* nobody worth it holds any: by load alone */ \
	X(IMBALANCE,	"imbalance")	/* the guard changed the choice */ \
	X(STICKY,	"sticky")	/* by session or hash, for rules that do so */ \
	X(HEADLESS,	"headless")	/* cut body of an unknown model: matched in its pool's own space */ \
	X(NOPROMPT,	"noprompt")	/* no server set: JSON, but nothing in it that is a prompt */ \
	X(BADBODY,	"badbody")	/* no server set: not JSON */ \
	X(NOLOAD,	"noload")	/* no server set: no load, so no list of servers */ \
	X(NOSERVER,	"noserver")	/* no server set: none is up with weight */ \
	X(SHADOW,	"shadow")	/* no server set: decided, but told not to act */ \
	X(OVERLOAD,	"overload")	/* no server set: too busy to look */

enum why {
#define X(name, text) WHY_##name,
	WHY_LIST(X)
#undef X
	WHY_COUNT
};

const char *why_text(enum why w);
const char *policy_rule_text(enum policy_rule r);
int policy_rule_of(struct span name);		/* -1: no such rule */
bool policy_rule_guarded(enum policy_rule r);	/* the guard is for it */
bool policy_wants_body(enum policy_rule r);	/* it may look at policy_prompt.body */

struct policy_opts {
	enum policy_rule rule;
	uint32_t balance_abs_threshold;		/* requests; default 64 */
	double balance_rel_threshold;		/* default 1.5 */
	double cache_threshold;			/* of the prompt, 0 .. 1; default 0.3 */
	uint32_t min_match_tokens;		/* default 0 */
	size_t rule_max_bytes;			/* of the memory that a rule has of its own; default 32 MiB */
	msec session_ttl_ms;			/* a session that asks nothing for so long is over; default 2 h */
	msec speculative_ttl_ms;		/* what was sent counts as held for so long; default 2000 */
	msec ttft_slo_ms;			/* a first token shall come within this; default 1000 */
	double ttft_slo_per_1k_ms;		/* and so much more for each 1000 tokens of the prompt; 62.5 */
	double load_factor;			/* of the mean load, that a server may have; default 1.25 */
	uint32_t max_blocks_per_backend;	/* kept of a server by a rule's own memory; default 100000 */
	uint32_t max_prefix_blocks;		/* of a prompt that such a rule looks at; default 0: all */
	msec rule_eviction_interval_ms;		/* how often such a memory comes down to it; default 60 s */
	double prefill_tokens_per_s;		/* of one server, until it is learned; erring slow is safe; default 8000 */
	bool learn_rate;			/* each server's from its first tokens; the configured one is where it
						 * starts; default true */
	double attention_factor;		/* s per token^2: c in b*u + c*u*(cached + u/2); 1.3e-9 */
	double load_ms;				/* g; default 30 */
	double adapter_ms;			/* l; default 500 */
	double sacrifice_min, sacrifice_gain, sacrifice_max;	/* 0.3, 1, 30 */
	double sacrifice_firsts;		/* the gain where first tokens are reported; 0.5 */
	double copy_share;			/* of a copy's price that is charged though others use it too; 0.5 */
	double kv_ms, kv_share;			/* what a full cache counts, above this share of it; 2000, 0.7 */
	double backlog_floor;			/* share of unfinished work that counts as wait, without a
						 * first-token report; default 0.3 */
	msec penalty_half_life_ms;		/* default 10000 */
	double penalty_failure;			/* requests that a failure weighs; default 1 */
	double penalty_429;			/* the same for an answer of 429; default 0.5 */
};

void policy_defaults(struct policy_opts *o);

/* Make <r> the rule of <o>, with what its authors give as defaults. What no rule but ours has stays. */
void policy_preset(struct policy_opts *o, enum policy_rule r);

struct candidate {
	server_id id;
	uint64_t name;		/* hash of its name: the same wherever the key is the same */
	uint32_t load;		/* max(conn + queue as HAProxy sees them, our own open requests), and what came
				 * to its engine another way */
	uint32_t queue;		/* requests that wait in HAProxy for this server */
	uint32_t waiting, running;	/* requests in its engine, as that says; 0: also where it says nothing */
	double kv_used;		/* share of the engine's cache that is in use, 0 .. 1; negative: not known */
	bool has_adapter;	/* the engine says that it has the adapter this prompt asks for */
	double backlog_s;	/* wait: seconds of prefill sent there and not answered yet */
	uint64_t backlog_tokens;	/* the same as tokens, without what was cached */
	uint64_t open_tokens;	/* prompts of all requests open there, cached or not */
	uint64_t cached;	/* tokens of this prompt expected in its cache */
	uint64_t own;		/* what the rule's own memory says of it, see policy_match(): as a rule the same */
	double shared;		/* share of what it would compute that later requests use as well, 0 .. 1 */
	uint64_t kv_tokens;	/* of the requests open there, prefixes they have in common counted for none */
	uint64_t kv_room;	/* tokens in its cache; 0: not known */
	double slowness;	/* its seconds of prefill for one of policy_prefill_s(); 1 as configured */
	uint32_t penalty;	/* requests that have failed there, and weigh as if they were open */
	double penalty_s;	/* the same as seconds of prefill */
	bool doubt;		/* it fails again and again: a rule without a guard only sees the others */
	uint64_t last_pick;	/* when it was picked last, as a count of picks: for ties */
	uint32_t depth;		/* <cached> of what was seen, in pages: the caller's own */
	/* out: */
	double cost;		/* seconds by the cost rule; set for every rule, for the trace */
	double adapter_s;	/* of them, for loading the adapter */
	double kv_s;		/* of them, for a cache that open requests fill */
	bool in;		/* within the guard's window */
};

/* What a rule may look at of a request. Hashes are keyed; 0: there is none. */
struct policy_prompt {
	uint64_t tokens;	/* unaligned length, the unseen rest of a cut body with it */
	uint64_t matched;	/* the longest match of any candidate, in tokens */
	const page_key *pages;	/* what was seen of it, in order */
	uint32_t n_pages, page_tokens;
	uint64_t space;		/* what may share cache: chains of pages start with it, so that tenants never meet */
	uint64_t model, adapter;
	uint64_t session, user;	/* the argument; the body's */
	uint64_t history;	/* tokens in front of its last answer: what the last turn sent; 0: a first turn */
	uint64_t body;		/* of all that was seen of the prompt */
	uint64_t opening;	/* its first 128 characters behind the system prompt */
};

struct policy_choice {
	int first, second;	/* index of the candidate; -1: none */
	bool imbalanced;	/* the guard was tripped */
	enum why why;		/* CACHED, COLD or IMBALANCE; NOSERVER when n is 0 */
	uint32_t min_load, max_load;	/* as the guard sees them: min with penalties, max >= min */
	double sacrifice;	/* a, as used */
};

/* Seconds to prefill <tokens> of which <cached> need not be. */
double policy_prefill_s(const struct policy_opts *o, uint64_t tokens, uint64_t cached);

/* How busy a pool is, smoothed over its last requests. */
struct policy_pressure {
	double wait;		/* mean wait of its servers, in units of a request's mean work */
	double waiting;		/* share of its servers where work waits, 0 .. 1 */
	bool firsts;		/* first tokens are reported: waits are exact */
};

/* Return a, the price of work, for a pool under such pressure. */
double policy_sacrifice(const struct policy_opts *o, const struct policy_pressure *p);

bool policy_imbalanced(const struct policy_opts *o, uint32_t min, uint32_t max);

/* ---- a rule's own memory --------------------------------------------------------------------- */

struct policy_memory;

/* NULL: the rule has none, or there is no memory; then it ranks as if it knew nothing. */
struct policy_memory *policy_memory_new(const struct policy_opts *o);
void policy_memory_free(struct policy_memory *m);	/* takes NULL, as all below */
size_t policy_memory_bytes(const struct policy_memory *m);
size_t policy_memory_max(const struct policy_opts *o);		/* what a new one may grow to */

/* Set tokens[id] for every server of which the memory knows that it holds the beginning of <p>, or whatever else a
 * rule has to say of a server (the head of its file tells); all others are 0 when it returns. False: the rule has no
 * memory, and nothing was written. O(pages). */
bool policy_match(struct policy_memory *m, const struct policy_opts *o, const struct policy_prompt *p, msec now,
		  uint32_t tokens[SERVERS_MAX]);
void policy_sent(struct policy_memory *m, const struct policy_opts *o, const struct policy_prompt *p,
		 server_id to, msec now);
void policy_answered(struct policy_memory *m, server_id at, uint64_t uncached_tokens, msec took);
void policy_room(struct policy_memory *m, server_id id, uint64_t tokens);	/* its cache has; 0: not known */
void policy_gone(struct policy_memory *m, server_id id);

/* What policy_choose() reads of a memory is what room() and gone() write, and places that it fills itself: these three go
 * under one lock of the caller's, and all but choose under one that may be held for as long as a prompt takes. */
bool policy_wants_answers(enum policy_rule r);	/* policy_answered() does anything */

/* ---- the choice ------------------------------------------------------------------------------- */

/* Choose among <n> candidates, which may change places. O(n). <m> may be NULL. */
void policy_choose(const struct policy_opts *o, struct policy_memory *m, const struct policy_prompt *p,
		   const struct policy_pressure *pressure, struct rng *rng, struct candidate *c, size_t n, struct policy_choice *out);

#endif
