/* ledger.h - the requests open at each server, one entry each, known by their uid.
 *
 * An entry is opened by a decision and closed by the first of: the log line (or done), a first-byte
 * report of an answer that is not streamed, a load string of its HAProxy process that admitted fewer
 * requests than there turn out to be (close_beyond()), the silence of that process while others speak, another request with its
 * uid, lack of room, age. Not locked: the owner is.
 *
 * Closing gives back the claim the entry holds on the index; the owner confirms or cancels it once
 * its lock is released. A claim that is not there yet, as its request is still being committed, is told of it
 * by struct ledger_pending. */
#ifndef KVROUTE_ROUTE_LEDGER_H
#define KVROUTE_ROUTE_LEDGER_H

#include "agent/index/index.h"
#include "agent/route/agree.h"
#include "agent/route/fleet.h"
#include "agent/route/grown.h"

/* Belongs to who commits, and is filled when the entry's claim is settled before it was there. */
struct ledger_pending {
	bool settled;
	bool confirm;		/* its pages were computed */
	server_id at;		/* where; who commits may have said another */
};

struct ledger_entry {
	struct list by_age;	/* in ledger.by_age */
	struct list in_slot;	/* in slot.open */
	struct ledger_entry *chain;
	uint64_t uid;		/* keyed hash of it */
	struct server *server;
	struct slot *slot;
	uint64_t number;	/* in <slot> */
	index_claim claim;	/* 0: none, or settled */
	struct ledger_pending *pending;	/* NULL: nobody is about to bring a claim */
	msec since;
	struct work work;	/* waits at the server until it is answered */
	uint64_t prompt_tokens;	/* the unseen rest of a cut body with them */
	uint32_t block;		/* tokens of its pages; 0: it is text */
	uint64_t kv_tokens;	/* of them, those that no other prompt in use has */
	uint64_t tokens, hit_tokens;	/* as counted for it so far: a later slice adds the rest */
	uint64_t turn, turn_before;	/* server.last_pick by this entry, and what it was */
	struct agree_ref agree;
	uint64_t density;	/* struct density */
	struct grown_end end;
	uint32_t exact;		/* tokens of its prompt, counted by its model's tokenizer; 0: they were not, or not all of them */
	uint32_t text_bytes;	/* of its prompt, where that is text and was seen whole; else 0 */
	bool answered;		/* its first token was reported */
	bool whole;		/* its answer is no stream, as far as is known */
	server_id from;		/* told to go there, and went elsewhere; or SERVER_NONE */
};

struct ledger {
	struct ledger_entry **table;
	size_t n, n_buckets;	/* a power of two */
	struct list by_age;	/* oldest first */
};

int ledger_init(struct ledger *l);	/* -1: no memory */
void ledger_fini(struct ledger *l);
struct ledger_entry *ledger_find(const struct ledger *l, uint64_t uid);

/* A new entry; <uid> is not in the ledger, tokens are 0. Of the prompt other requests have <common_tokens> as well.
 * NULL: no memory. */
struct ledger_entry *ledger_open(struct ledger *l, uint64_t uid, struct server *s, struct slot *sl,
				 const struct work *w, uint64_t prompt_tokens, uint64_t common_tokens, msec now);

/* Its first token is out: it waits no longer. */
void ledger_answered(struct ledger_entry *e, msec now);

/* It is served elsewhere than we said. There it is the last that a load string closes: what told us was the
 * latest sign of life of all that wait there, and a request that HAProxy has ended unseen is an older one. */
void ledger_move(struct ledger_entry *e, struct server *to, struct slot *sl, msec now);

/* Whether its pages were computed is known; the claim is returned that this is to be told of, 0 if there is none (left). */
index_claim ledger_settle(struct ledger_entry *e, bool confirm);

/* The same, and take it out and free it. */
index_claim ledger_close(struct ledger *l, struct ledger_entry *e, bool confirm, msec now);

#endif
