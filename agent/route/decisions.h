/* decisions.h - the last decisions with what they were made of, for who asks why a request went where it
 * went, and what became of each once facts come.
 *
 *      ring    newest over oldest, of fixed size:   [ 41 | 42 | 39 | 40 ]   after 42 of 4
 *      uid     -> its place, so that facts find it
 *      names   of servers by id, so that a record needs four bytes for one, and outlives it
 *      blocks  of prompts, as numbers in a ring of their own: who started alike, to replay what was asked
 *
 * Nothing of a prompt is kept, no tenant, model or session. Hashes stay inside: the number of a block is
 * 32 bits of a hash of page keys under another key, made of the agent's own and its seed, so that it says
 * "the same as that one" and nothing else, and nothing beyond the life of the process.
 *
 * Locks itself, for one copy of a record at a time; no call is made from within. All functions take NULL
 * for "none are kept". */
#ifndef KVROUTE_ROUTE_DECISIONS_H
#define KVROUTE_ROUTE_DECISIONS_H

#include "agent/base/hash.h"
#include "agent/feed/fact.h"
#include "agent/policy/policy.h"

#define DECISION_UID_MAX	63	/* of a uid that is shown; longer ones are cut */
#define DECISION_CANDIDATES	6	/* the chosen, the second choice and the cheapest of the others */
#define DECISION_BLOCK_TOKENS	512u	/* that of the published traces; less where no whole pages make it up */
#define DECISION_BLOCKS_MAX	1024u	/* of one prompt */
#define DECISION_COMPARED	4

/* A server in a record: its id, and a part of its hash to tell it from one that has the id later. */
struct decision_server {
	server_id id;		/* SERVER_NONE: none */
	uint32_t tag;
};

struct decision_candidate {
	struct decision_server server;
	uint32_t load, penalty, cached;		/* requests; tokens */
	float wait_s, compute_s, shared_s, kv_s, adapter_s, cost_s;	/* <shared_s> is a part of <compute_s> */
};

struct decision_compared {
	enum policy_rule rule;
	struct decision_server server;
	uint32_t cached;
	float regret_s;
};

enum decision_after { AFTER_OPEN, AFTER_FIRST, AFTER_DONE };

struct decision {
	uint64_t number;		/* from 1 */
	uint64_t uid_hash;
	msec at;
	char uid[DECISION_UID_MAX + 1];
	const char *pool;		/* lives as long as the route; NULL: one too many */
	uint8_t rule, why, mode, step;	/* enums of policy.h, route.h, fleet.h */
	bool cut, imbalanced;
	bool bounded;			/* not all of its text was made into ids: the work was used up */
	uint8_t bound;			/* enum work_bound: what said how much it may be */
	uint32_t work;			/* steps */
	struct decision_server chosen, second;
	uint64_t tokens, unseen;	/* of the prompt; of them, estimated of what was not seen */
	uint32_t matched, hit, pages, prompt_pages;	/* tokens at <chosen>; permille; pages */
	uint32_t min_load, max_load, us;
	float pressure, sacrifice, cost_s, regret_s;
	uint32_t n_candidates, n_kept;
	struct decision_candidate candidate[DECISION_CANDIDATES];	/* the chosen first, then by cost */
	uint32_t n_compared;
	struct decision_compared compared[DECISION_COMPARED];
	uint64_t blocks;		/* where they begin in the ring */
	uint32_t n_blocks, block_tokens;
	/* what became of it */
	uint8_t after, end;		/* enum decision_after, enum fact_end */
	int32_t status, retries;	/* -1: not known */
	int64_t first_ms, done_ms;	/* from the decision to the fact; -1: none came */
	uint64_t output_tokens;		/* as the engine told, or estimated from bytes: answer.h */
	struct decision_server went;	/* who had it last; NONE: not told, or nobody we know */
};

struct decisions;

/* Bytes that <keep> of them take. */
uint64_t decisions_bytes(uint32_t keep);

/* NULL: no memory. */
struct decisions *decisions_new(uint32_t keep, const struct hash_key *key, uint64_t seed);
void decisions_free(struct decisions *d);

/* From now on <id> is the server <name> of <pool>. <hash> is what candidates have as name. */
void decisions_name(struct decisions *d, server_id id, uint64_t hash, const char *pool, const char *name);

/* The numbers of a prompt's blocks, each of <of> pages, the last maybe of fewer, for decisions_put(); at most
 * DECISION_BLOCKS_MAX. They begin with <space>. */
uint32_t decisions_blocks(const struct decisions *d, uint64_t space, const page_key *pages, uint32_t n_pages,
			  uint32_t of, uint32_t *out);

/* Keep <x>; a record of the same request that is still open is written over. Returns its number; 0: none are
 * kept. */
uint64_t decisions_put(struct decisions *d, const struct decision *x, const uint32_t *blocks);

void decisions_took(struct decisions *d, uint64_t number, uint32_t us);
/* <output_tokens>: what answer_tokens() says of <f>. */
void decisions_learn(struct decisions *d, uint64_t uid_hash, const struct fact *f, uint64_t output_tokens, msec now);

/* Copy at most <n> with numbers below <before>, newest first; returns how many. Holds the lock for as long as
 * it takes to copy them: ask for a few at a time. */
size_t decisions_read(struct decisions *d, uint64_t before, struct decision *out, size_t n);
/* The last one of a request. */
bool decisions_find(struct decisions *d, uint64_t uid_hash, struct decision *out);

/* The blocks of <x> as it was read; 0: others have been written over them. */
uint32_t decisions_blocks_of(struct decisions *d, const struct decision *x,
			     uint32_t out[DECISION_BLOCKS_MAX]);

/* "" for none, and for one that has gone and whose id another has now. */
void decisions_name_of(struct decisions *d, struct decision_server s, char *out, size_t cap);

#endif
