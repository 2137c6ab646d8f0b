/* ledger.h - the requests open at each server, one entry for each, found by uid.
 *
 * The owner opens an entry with a decision. It closes the entry with the first of: the log line or
 * the message done, a first-byte report of an answer that is not a stream, a load string that
 * proves it gone, silence of its HAProxy process, another request with its uid, lack of room, age.
 *
 * The owner may put its own struct around an entry: struct ledger_entry is then its first member,
 * and ledger_init() gets its size. An entry may hold a claim, a number of the owner that means
 * pages claimed elsewhere. Closing returns the claim, so that the owner can confirm or cancel it
 * after its lock is released. A claim that comes only after its entry was settled is told so by
 * struct ledger_pending. Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_LEDGER_H
#define KVROUTE_FLEET_LEDGER_H

#include "agent/fleet/fleet.h"

/* Result for the caller that is still getting the claim. It is in the caller's memory. */
struct ledger_pending {
	bool settled;		/* the other members are set */
	bool confirm;		/* its pages were computed */
	server_id at;		/* where; maybe not where the caller sent it */
};

struct ledger_entry {
	struct list by_age;	/* in ledger.by_age */
	struct list in_slot;	/* in slot.open */
	struct ledger_entry *chain;
	uint64_t uid;		/* keyed hash */
	struct server *server;
	struct slot *slot;
	uint64_t number;	/* in <slot> */
	uint64_t claim;		/* 0: none, or settled */
	struct ledger_pending *pending;	/* NULL: no claim is about to come */
	msec since;
	struct work work;	/* waits at the server until the first token */
	uint64_t prompt_tokens;	/* with the unseen rest of a truncated body */
	uint64_t kv_tokens;	/* of them, those that no other open prompt has */
	/* by how much its answer weighs more than a usual one, in units of 1 / WEIGHT_ONE */
	int16_t extra;
	bool answered;		/* its first token was reported, at <answered_at> */
	bool unsent;		/* no server got it, so its end says nothing about one */
	server_id from;		/* the server we chose, if it went elsewhere; else SERVER_NONE */
	msec answered_at;
	struct rate_added added;	/* by that, to the rate of <server> */
};

#define LEDGER_SPARE_MOST	256

struct ledger {
	struct ledger_entry **table;
	size_t n, n_buckets;	/* a power of two */
	size_t entry_bytes;
	struct list by_age;	/* oldest first */
	struct ledger_entry *spare;	/* closed, for the next to open; linked by <chain> */
	size_t n_spare;		/* at most LEDGER_SPARE_MOST */
};

/* <entry_bytes>: size of the struct that begins with struct ledger_entry. Returns -1 if there is
 * no memory. */
int ledger_init(struct ledger *l, size_t entry_bytes);
void ledger_fini(struct ledger *l);
struct ledger_entry *ledger_find(const struct ledger *l, uint64_t uid);

/* Begin to read the memory that the next ledger_open() will write. */
void ledger_prefetch(const struct ledger *l);

/* Add an entry for <uid>, which is not in the ledger. The owner's part of it is zeroed.
 * <common_tokens> of its prompt are in other prompts in use as well. Returns NULL if there is no
 * memory. */
struct ledger_entry *ledger_open(struct ledger *l, uint64_t uid, struct server *s, struct slot *sl,
				 const struct work *w, uint64_t prompt_tokens, uint64_t common_tokens, msec now);

/* Make <e> the newest entry by age. */
void ledger_renew(struct ledger *l, struct ledger_entry *e);

/* Set <extra> of an open entry. */
#define WEIGHT_ONE	16
void ledger_weigh(struct ledger_entry *e, int16_t extra);

/* The first token came: the request waits no longer. */
void ledger_answered(struct ledger_entry *e, msec now);

/* Move the entry to the server that really got the request. It becomes the newest entry there, so
 * a load string closes it last: its fact is the latest sign of life at that server, and a request
 * that ended unseen is older. */
void ledger_move(struct ledger_entry *e, struct server *to, struct slot *sl, msec now);

/* The same for a request that was sent to <to> at once, as is known only now: its wait began there.
 * <w>: its work there. */
void ledger_place(struct ledger_entry *e, struct server *to, struct slot *sl, const struct work *w,
		  msec now);

/* Record whether the pages were computed. Returns the claim to tell of it, or 0 if there is none
 * left. */
uint64_t ledger_settle(struct ledger_entry *e, bool confirm);

/* Settle the entry, remove it and free it. Returns the claim as ledger_settle() does. */
uint64_t ledger_close(struct ledger *l, struct ledger_entry *e, bool confirm, msec now);

#endif
