/* decisions.h - the last decisions with their inputs, and what became of each once facts come.
 *
 *      ring    newest over oldest, of fixed size:   [ 41 | 42 | 39 | 40 ]   after 42 of 4
 *      uid     -> its place, so that facts find it
 *      names   of servers by id: a record needs four bytes for one, and outlives the server
 *      blocks  of prompts, as numbers in a ring of their own: which prompts began alike, for replay
 *
 * Nothing of a prompt is stored, and no name of a tenant or a session. Hashes do not leave the
 * process.
 * The number of a block is 32 bits of a hash of page keys under another key, made from the agent's
 * key and its seed. So it says only "the same as that one", and nothing after the process ends.
 *
 * Locks itself, for one copy of a record at a time, and calls nothing while it is locked. All
 * functions take NULL, which means that none are kept. */
#ifndef KVROUTE_ROUTE_DECISIONS_H
#define KVROUTE_ROUTE_DECISIONS_H

#include "agent/base/chain.h"
#include "agent/feed/fact.h"
#include "agent/policy/policy.h"

#define DECISION_UID_MAX	63	/* bytes stored of a uid; longer ones are cut */
#define DECISION_MODEL_MAX	63	/* the same of the name of a model */
#define DECISION_CANDIDATES	6	/* the chosen one, the second choice and the cheapest others */
#define DECISION_BLOCK_TOKENS	512u	/* as in published traces; less if no multiple of a page */
#define DECISION_BLOCKS_MAX	1024u	/* stored of one prompt */
#define DECISION_COMPARED	4

/* A server in a record: its id, and a part of its hash because another server may get the id. */
struct decision_server {
	server_id id;		/* SERVER_NONE: none */
	uint32_t tag;
};

struct decision_candidate {
	struct decision_server server;
	uint8_t truth, cause;			/* enum truth, enum truth_cause: truth.h */
	uint32_t load, penalty, cached;		/* requests; tokens */
	uint32_t by_session;			/* of <cached>: only the session tells of them */
	/* <shared_s> is part of <compute_s> */
	float wait_s, compute_s, shared_s, load_s, kv_s, adapter_s, promised_s, cost_s;
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
	char model[DECISION_MODEL_MAX + 1];	/* as the space has it; "": unknown */
	bool text;			/* the prompt is matched as text, not as token ids */
	const char *pool;		/* valid as long as the route; NULL: too many pools */
	uint8_t rule, why, mode, step;	/* enums of policy.h, route.h, fleet.h */
	bool cut, imbalanced;
	bool bounded;			/* not all text became ids, because the work was used up */
	uint8_t bound;			/* enum work_bound: what bounded the work */
	uint32_t work;			/* steps */
	uint8_t session;		/* enum session_state */
	uint32_t session_turns;		/* before this one */
	struct decision_server session_at;	/* had the last of them */
	struct decision_server chosen, second;
	struct decision_server prefill;	/* computes the prompt for <chosen>; NONE: that itself */
	struct {
		/* the best one to do so, whether or not it was cheaper; NONE: none was compared */
		struct decision_server server;
		uint32_t cached;	/* tokens there */
		float wait_s, ready_s;	/* work that waits there; until the prompt is computed */
		float transfer_s;
		float here_s, there_s;	/* cost of computing it at <chosen>, and there */
	} offer;
	uint64_t tokens, unseen;	/* of the prompt; estimate of the part not seen */
	int32_t rank;			/* of <chosen>; -1: unknown */
	uint32_t matched, hit, pages, prompt_pages;	/* tokens at <chosen>; permille; pages */
	uint32_t min_load, max_load, us;
	float pressure, sacrifice, cost_s, regret_s;
	uint32_t n_candidates, n_kept;
	struct decision_candidate candidate[DECISION_CANDIDATES];	/* the chosen one first, then by cost */
	uint32_t n_compared;
	struct decision_compared compared[DECISION_COMPARED];
	uint64_t blocks;		/* position of the first in the ring */
	uint32_t n_blocks, block_tokens;
	/* what became of it */
	uint8_t after, cause;		/* enum decision_after, enum fact_cause */
	char ts[2];			/* HAProxy's state of the end; NUL: unknown */
	int32_t status, retries;	/* -1: unknown */
	int64_t expected_ms;		/* from the decision to the first token; -1: unknown */
	int64_t first_ms, done_ms;	/* from the decision to the fact; -1: none came */
	uint64_t output_tokens;		/* told by the engine, or estimated from bytes: answer_in.h */
	int64_t engine_tokens;		/* of the prompt, as its engine counted; -1: not told */
	int64_t cached_tokens;		/* of these, in its cache; -1: not told */
	struct decision_server went;	/* server that had it last; NONE: unknown */
};

struct decisions;

/* Return the bytes that <keep> decisions take. */
uint64_t decisions_bytes(uint32_t keep);

/* NULL: no memory. */
struct decisions *decisions_new(uint32_t keep, const struct hash_key *key, uint64_t seed);
void decisions_free(struct decisions *d);

/* Name server <id>: <name> of <pool>. <hash>: its name in struct candidate. */
void decisions_name(
    struct decisions *d, server_id id, uint64_t hash, const char *pool, const char *name);

/* The pages of a prompt, with their chain hashes (base/chain.h). */
struct decision_pages {
	uint64_t start;			/* of their space */
	const uint64_t *groups;		/* after each whole group; NULL: unknown */
	const page_key *pages;
	uint32_t n;
};

/* Write the numbers of a prompt's blocks to <out>, at most DECISION_BLOCKS_MAX, each of <of> pages;
 * the last may have fewer. Each depends on the space and all pages up to it. Returns how many; 0 if
 * the hashes are unknown. Reads no page that is in a whole group, if <of> is a multiple of it. */
uint32_t decisions_blocks(
    const struct decisions *d, const struct decision_pages *p, uint32_t of, uint32_t *out);

/* Begin to look for the record of a request, for decisions_learn(). */
void decisions_prefetch(struct decisions *d, uint64_t uid_hash);

/* The same for decisions_put(), and begin to read the place that it will write. */
void decisions_prefetch_put(struct decisions *d, uint64_t uid_hash);

/* Store <x>, over an open record of the same request if there is one. Returns its number; 0 if none
 * are kept. */
uint64_t decisions_put(struct decisions *d, const struct decision *x, const uint32_t *blocks);

void decisions_took(struct decisions *d, uint64_t number, uint32_t us);
/* <output_tokens>: answer_tokens() of <f>. */
void decisions_learn(
    struct decisions *d, uint64_t uid_hash, const struct fact *f, uint64_t output_tokens, msec now);

/* Copy at most <n> records with numbers below <before>, newest first. Returns how many. The lock is
 * held while they are copied, so read a few at a time. */
size_t decisions_read(struct decisions *d, uint64_t before, struct decision *out, size_t n);
/* Return the number of the last record of a request; 0 if there is none. */
uint64_t decisions_number(struct decisions *d, uint64_t uid_hash);
/* Tell if the record of that number is still there. */
bool decisions_has(struct decisions *d, uint64_t number);
/* Copy the last record of a request. Returns false if there is none. */
bool decisions_find(struct decisions *d, uint64_t uid_hash, struct decision *out);

/* Copy the blocks of <x>, a record that was read. Returns how many; 0 if they were overwritten. */
uint32_t decisions_blocks_of(struct decisions *d, const struct decision *x,
			     uint32_t out[DECISION_BLOCKS_MAX]);

/* Write the name of a server; "" for none, or if another server has its id now. */
void decisions_name_of(struct decisions *d, struct decision_server s, char *out, size_t cap);

#endif
