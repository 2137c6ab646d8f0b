/* policy.h - candidates in, ranked choice and why out. No clock and no lock; chance is passed in.
 *
 * A candidate is a server that is up with weight; the caller left out the others. A rule ranks
 * them. Each rule has a name, the defaults of its authors (policy_preset()) and perhaps its own
 * memory:
 *
 *      policy_match()    what its memory knows of a prompt, before the choice      The owner of the
 *      policy_choose()   arithmetic on the candidates                              memory locks it
 *      policy_sent()     the request goes to that server                           for these calls.
 *      policy_answered() its first token came after so much time
 *      policy_room()     the size of that server's cache
 *      policy_gone()     that server is gone
 *
 *   cost         argmin  wait + (1 + a) * prefill(uncached) * (1 - s) + t + g * load + k + l
 *                (default)
 *                wait      seconds of prefill sent there and not yet answered
 *                prefill   seconds to compute what is not cached: linear, plus attention's square;
 *                          a little less by a chance for what an earlier turn left there long
 *                          ago, if the size of the cache is only inferred (perhaps)
 *                a         the sacrifice factor, at most 30: 0.3 + 0.5 x P x w / (1 - w) with first
 *                          tokens, 0.3 + min(P, 0.5 x w / (1 - w)) with ends alone, where P is the
 *                          smoothed mean wait / mean work and w the smoothed share of servers where
 *                          work waits. 0 is greedy: near the oracle when idle, bad in overload. By
 *                          w, work is cheap while some servers are idle, because it delays no
 *                          request there. With ends alone the waits are estimates that grow with a,
 *                          so they raise it no further than w does
 *                s         the share of that work which later requests use too: a copy of a popular
 *                          prefix is an investment. copy_share is charged all the same, because the
 *                          request itself takes that time
 *                k         2 s x (share of the server's KV cache that open requests fill - 0.7), if
 *                          positive: beyond that requests wait for others to end
 *                t         seconds to load cached blocks from slower tiers (policy_tier_credit)
 *                g         30 ms for each request open there, more or less if its answer is long. A
 *                          server's penalty counts as so many requests, in wait and in load
 *                l         500 ms if the requested LoRA adapter has to be loaded: servers that are
 *                          known to have it come first until waiting there costs more. 0 if no
 *                          server is known to have it
 *   cache_aware  imbalanced: least loaded. Otherwise, if matched / prompt length > cache_threshold
 *                and matched >= min_match_tokens: the longest holder, of equals always the same one
 *                for a prefix; else the least loaded
 *   The other rules are in kvroute.yaml(5), each with its source, and at the top of its file.
 *
 *   The guard, for cost and cache_aware: imbalanced if and only if max - min >
 *   balance_abs_threshold and max > balance_rel_threshold x min over the candidates' loads. If so,
 *   cost considers only candidates with load <= min + balance_abs_threshold. A penalty is added to
 *   a load for min and for this comparison, but never for max: a server that is idle because it
 *   fails neither trips the guard nor becomes the reference for all others.
 *
 * Other ties go to the lower load, then to the server picked longest ago: never all to the first.
 *
 * Sources: the cost rule and its constants were found by simulation over three traces and 19 fleets
 * (mean time to first token 1.14 x the best greedy oracle with a first-token report, 1.17 x with an
 * end-of-stream report only; the best published rule 1.53 x). cache_aware is the published rule of
 * the SGLang and Shepherd gateways with the defaults of their command line, and cache_aware_lib has
 * those of their library. */
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
	X(COLD,		"cold")		/* no holder is worth it: by load alone */ \
	X(IMBALANCE,	"imbalance")	/* the guard changed the choice */ \
	X(STICKY,	"sticky")	/* by session or hash, for rules that do so */ \
	X(HEADLESS,	"headless")	/* cut body of an unknown model: matched in its pool's own space */ \
	X(NOPROMPT,	"noprompt")	/* no server set: JSON without a prompt */ \
	X(BADBODY,	"badbody")	/* no server set: not JSON */ \
	X(NOLOAD,	"noload")	/* no server set: no load, so no list of servers */ \
	X(NOSERVER,	"noserver")	/* no server set: none is up with weight */ \
	X(SHADOW,	"shadow")	/* no server set: decided, but configured not to act */ \
	X(OVERLOAD,	"overload")	/* no server set: too busy to decide */

enum why {
#define X(name, text) WHY_##name,
	WHY_LIST(X)
#undef X
	WHY_COUNT
};

const char *why_text(enum why w);
const char *policy_rule_text(enum policy_rule r);
int policy_rule_of(struct span name);		/* -1: no such rule */
bool policy_wants_body(enum policy_rule r);	/* it may read policy_prompt.body */

struct policy_opts {
	enum policy_rule rule;
	uint32_t balance_abs_threshold;		/* requests; default 64 */
	double balance_rel_threshold;		/* default 1.5 */
	double cache_threshold;			/* of the prompt, 0 .. 1; default 0.3 */
	uint32_t min_match_tokens;		/* default 0 */
	size_t rule_max_bytes;			/* of the memory of a rule; default 32 MiB */
	msec session_ttl_ms;			/* a session without a request for so long is over; default 2 h */
	msec speculative_ttl_ms;		/* a prompt counts as held for so long after it was sent; default 2000 */
	msec ttft_slo_ms;			/* a first token should come within this; default 1000 */
	double ttft_slo_per_1k_ms;		/* and so much more for each 1000 tokens of the prompt; 62.5 */
	double load_factor;			/* limit of a server's load as a multiple of the mean; default 1.25 */
	uint32_t max_blocks_per_backend;	/* kept of a server by a rule's memory; default 100000 */
	uint32_t max_prefix_blocks;		/* of a prompt that such a rule reads; default 0: all */
	/* interval between two evictions from such a memory; default 60 s */
	msec rule_eviction_interval_ms;
	/* of one server, until it is learned; too slow is the safe error; default 8000 */
	double prefill_tokens_per_s;
	/* learn each server's rate from its first tokens, starting at the configured one; default true */
	bool learn_rate;
	double attention_factor;		/* s per token^2: c in b*u + c*u*(cached + u/2); 1.3e-9 */
	double load_ms;				/* g; default 30 */
	double adapter_ms;			/* l; default 500 */
	double sacrifice_min, sacrifice_gain, sacrifice_max;	/* 0.3, 1, 30 */
	double sacrifice_firsts;		/* the gain if first tokens are reported; 0.5 */
	double copy_share;			/* share of a copy's price that is charged although others use it too; 0.5 */
	/* price of a full cache, and the used share from which it counts; 2000, 0.7 */
	double kv_ms, kv_share;
	/* share of a cached token that one in a slower tier is worth; 0.8, 0.3, 0. See
	 * policy_tier_credit() */
	double host_weight, disk_weight, remote_weight;
	/* cost: tokens that an engine loads per second from that tier; 0, the default: by weight */
	double host_tokens_per_s, disk_tokens_per_s;
	/* share of unfinished work that counts as wait without a first-token report; default 0.3 */
	double backlog_floor;
	msec penalty_half_life_ms;		/* default 10000 */
	double penalty_failure;			/* requests that a failure counts; default 1 */
	double penalty_429;			/* the same for an answer of 429; default 0.5 */
	/* of a pool with prefill servers: prefill.h */
	uint32_t prefill_least;			/* uncached tokens below which it computes; default 256 */
	double transfer_ms, transfer_per_1k_ms;	/* of a computed prompt; defaults 20 and 10 */
	bool learn_transfer;			/* correct both by first tokens; default true */
	double stall;		/* price of computing for each answer that it delays; default 0.5: prefill.h */
};

void policy_defaults(struct policy_opts *o);

/* Make <r> the rule of <o> with the defaults of its authors. Options that only our rules have
 * stay. */
void policy_preset(struct policy_opts *o, enum policy_rule r);

struct candidate {
	server_id id;
	uint64_t name;		/* hash of its name: equal for equal keys */
	/* max(conn + queue in HAProxy, our own open requests), plus requests that reach its engine another
	 * way */
	uint32_t load;
	double extra;		/* answers of its open requests beyond so many usual ones */
	uint32_t silent;	/* of <load>, without a first token yet; 0 also if none are reported */
	uint32_t queue;		/* requests that wait in HAProxy for this server */
	uint32_t waiting, running;	/* requests in its engine as reported; 0 also if it reports nothing */
	double kv_used;		/* share of the engine's cache in use, 0 .. 1; negative: unknown */
	bool has_adapter;	/* the engine reports the adapter of this prompt */
	double backlog_s;	/* wait: seconds of prefill sent there and not answered yet */
	uint64_t backlog_tokens;	/* the same in tokens, without cached ones */
	uint64_t open_tokens;	/* prompts of all requests open there, cached or not */
	uint64_t cached;	/* tokens of this prompt expected in its cache, by policy_tier_credit() */
	double load_s;		/* seconds to load them from slower tiers; only cost uses it */
	/* tokens after <cached> that it had and may have evicted, and the chance that it has them still */
	uint64_t perhaps;
	double chance;
	uint64_t own;		/* what the rule's own memory knows of it: policy_match() */
	double shared;		/* share of its work on this prompt that later requests use too, 0 .. 1 */
	/* of the requests open there, without the prefixes that they share; by its engine's report, if
	 * that is fresh */
	uint64_t kv_tokens;
	uint64_t kv_room;	/* tokens in its cache; 0: unknown */
	double slowness;	/* its seconds of prefill for one of policy_prefill_s(); 1 as configured */
	uint32_t penalty;	/* weight of its failed requests, in open requests */
	double penalty_s;	/* the same in seconds of prefill */
	uint64_t by_session;	/* tokens of <cached> that only its session tells of; no rule asks */
	double promised_s;	/* wait for sessions that will come back; of a new session only */
	bool doubt;		/* it failed several times in a row: a rule without guard sees only the others */
	uint64_t last_pick;	/* number of the pick at which it was picked last: for ties */
	/* for the caller: */
	uint32_t depth;		/* expected pages of what was seen */
	uint8_t truth, cause;	/* by which knowledge, and why not by its events alone */
	int16_t rank;		/* with that part of the prompt; -1: unknown */
	/* out: */
	double cost;		/* seconds by the cost rule; set for every rule, for the trace */
	bool split;		/* cheaper if a prefill server computes the prompt: prefill.h */
	double transfer_s;	/* then, to bring it here */
	double here_s, there_s;	/* the prices compared; <there_s> 0: not compared */
	double adapter_s;	/* of these, to load the adapter */
	double kv_s;		/* of these, for a cache that open requests fill */
	bool in;		/* within the guard's window */
};

struct prefill_offer;

/* What a rule may read of a request. Hashes are keyed; 0: none. */
struct policy_prompt {
	uint64_t tokens;	/* length, not rounded, with the unseen rest of a cut body */
	uint64_t matched;	/* longest match of any candidate, in tokens */
	const page_key *pages;	/* the seen ones, in order */
	uint32_t n_pages, page_tokens;
	uint64_t space;		/* what may share cache: chains of pages start with it, so tenants never meet */
	uint64_t model, adapter;
	double patience;	/* 0 .. 1: of work that may come later; its price is up to twice as high */
	uint64_t session, user;	/* of the argument; of the body */
	uint64_t history;	/* tokens before its last answer: the prompt of the last turn; 0: a first turn */
	uint64_t body;		/* of all that was seen of the prompt */
	uint64_t opening;	/* of its first 128 characters after the system prompt */
	const struct prefill_offer *prefill;	/* who else may compute it; NULL: no server */
};

struct policy_choice {
	int first, second;	/* index of the candidate; -1: none */
	bool imbalanced;	/* the guard was tripped */
	enum why why;		/* CACHED, COLD or IMBALANCE; NOSERVER if n is 0 */
	uint32_t min_load, max_load;	/* as the guard sees them: min with penalties, max >= min */
	double sacrifice;	/* a, as used */
};

/* Return the seconds to prefill <tokens> of which <cached> are cached. */
double policy_prefill_s(const struct policy_opts *o, uint64_t tokens, uint64_t cached);

/* Where the blocks of a prompt lie in the cache of one server, from near to far. */
enum policy_tier { POLICY_DEVICE, POLICY_HOST, POLICY_DISK, POLICY_REMOTE, POLICY_TIERS };

/* Value the tokens of a prompt that a server holds, by the tier of each: set what counts as cached,
 * and the seconds to load it.
 *
 *      tier      cost, with a rate for the tier     every other case
 *      device    whole, 0 s                         whole, 0 s
 *      host      whole, tokens / rate               tokens x host_weight, 0 s
 *      disk      the same                           tokens x disk_weight, 0 s
 *      remote                                       tokens x remote_weight, 0 s
 *
 * A weight says how much computing the block saves. A rate is exact: loading takes time, but it
 * takes none from other requests, so cost does not raise it by the sacrifice factor as it raises
 * computing. policy_preset() sets the weights of a rule's authors; rules whose authors do not
 * distinguish tiers have 1 everywhere. Compared rules see the credit of the rule that acts. */
void policy_tier_credit(const struct policy_opts *o, const uint64_t tokens[POLICY_TIERS],
    uint64_t *cached, double *load_s);

/* The pressure on a pool, smoothed over its last requests. */
struct policy_pressure {
	double wait;		/* mean wait of its servers, in units of a request's mean work */
	double waiting;		/* share of its servers where work waits, 0 .. 1 */
	bool firsts;		/* first tokens are reported: waits are exact */
};

/* Return a, the price of work, for a pool under this pressure. */
double policy_sacrifice(const struct policy_opts *o, const struct policy_pressure *p);

bool policy_imbalanced(const struct policy_opts *o, uint32_t min, uint32_t max);

/* ---- a rule's own memory ---- */

struct policy_memory;

/* Allocate the memory of a rule. Returns NULL if the rule has none, or there is no memory; then it
 * ranks without. */
struct policy_memory *policy_memory_new(const struct policy_opts *o);
void policy_memory_free(struct policy_memory *m);	/* accepts NULL, as all below */
size_t policy_memory_max(const struct policy_opts *o);		/* largest size of a new one */

/* Set tokens[id] for every server that, as the memory knows, holds the beginning of <p>, or to
 * another number of the rule (see its file); all others become 0. Returns false, and writes
 * nothing, if the rule has no memory. O(pages). */
bool policy_match(struct policy_memory *m, const struct policy_opts *o,
    const struct policy_prompt *p, msec now, uint32_t tokens[SERVERS_MAX]);
void policy_sent(struct policy_memory *m, const struct policy_opts *o,
    const struct policy_prompt *p, server_id to, msec now);
void policy_answered(struct policy_memory *m, server_id at, uint64_t uncached_tokens, msec took);
/* room in its cache; 0: unknown */
void policy_room(struct policy_memory *m, server_id id, uint64_t tokens);
void policy_gone(struct policy_memory *m, server_id id);

/* policy_choose() reads only what room() and gone() write, and places that it fills itself. These
 * three go under one lock of the caller's. All but choose() go under a lock that may be held as
 * long as a prompt takes. */
bool policy_wants_answers(enum policy_rule r);	/* policy_answered() has an effect */

/* ---- the choice ---- */

/* Choose among <n> candidates, whose order may change. O(n). <m> may be NULL. */
void policy_choose(const struct policy_opts *o, struct policy_memory *m,
    const struct policy_prompt *p, const struct policy_pressure *pressure, struct rng *rng,
    struct candidate *c, size_t n, struct policy_choice *out);

#endif
