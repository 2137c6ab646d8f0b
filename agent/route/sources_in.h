/* sources_in.h - private to agent/route: publishers of KV cache events, and what they report.
 *
 * sources.lock guards blocks, ranks and counts. It may be held for milliseconds, so a thread that
 * has the route's lock does not wait for it: it is taken first. Names and links to servers change
 * under both. What decisions read of a source are atomics. */
#ifndef KVROUTE_ROUTE_SOURCES_IN_H
#define KVROUTE_ROUTE_SOURCES_IN_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/events/events.h"
#include "agent/feed/kvevent.h"
#include "agent/route/sources.h"
#include "agent/route/truth.h"

#define SOURCE_GROUPS		64u	/* of layers, in a hybrid model; events of later ones are skipped */
#define SOURCE_GAP_MS		2000	/* so long a gap may last before events are not trusted */
#define SOURCE_SILENT_MS	30000	/* the same, before it is called a fault */
#define SOURCE_QUIET_MS		10000	/* a request with new blocks, and no event for so long */
#define SOURCE_ADAPTERS		64u	/* names kept of a source; a further one may replace one */
#define SOURCE_SIZES		4u	/* page sizes in use at a time */

struct source_rank {
	enum kvcursor_state state;
	bool good;			/* its events can be trusted; stays so at the start of a gap */
	bool from_start;		/* every batch since the engine's first one was applied */
	uint64_t full, other;		/* groups: bit per number */
	uint32_t block_size;		/* tokens of its largest blocks; 0: none was stored */
	bool by_device;			/* <block_size> is of blocks on the device */
	uint32_t apart_size;		/* the same, of blocks stored apart; 0: none was */
	uint64_t lost;			/* events_server_lost() when it was empty last */
	bool odd_size;			/* no page can have the size of its blocks: none is stored */
	uint64_t batches;		/* applied */
	uint64_t placed;		/* <batches> at <place>; 0: <place> is unknown */
	struct kvcursor_place place;
	bool restored;			/* <place> is from a snapshot, and no batch came since */
};

struct source {
	char pool[POOL_NAME_MAX + 1], server[SERVER_NAME_MAX + 1];	/* server "": free */
	struct source_rank *rank;	/* [n_ranks] */
	unsigned n_ranks;
	msec restored;			/* by a snapshot, and not opened yet; 0: opened */
	bool tiers;			/* some blocks are not on the device */
	uint32_t bound;			/* blocks of a rank, as the index was told; 0: none */
	struct source_count count;
	/* for decisions: written under sources.lock, read without */
	_Atomic uint32_t good, ranks;	/* ranks whose events can be trusted; all */
	_Atomic bool from_start;
	_Atomic uint8_t worst;		/* enum kvcursor_state, of all ranks */
	/* events_server_lost() when all ranks were complete last; more now: blocks are missing */
	_Atomic uint64_t lost;
	_Atomic uint32_t block_size;	/* tokens; 0: unknown */
	_Atomic uint32_t page;		/* tokens of a page of its blocks; 0: unknown */
	_Atomic bool odd_size;		/* of some rank */
	/* time to live of blocks that are not on the device; 0: their removals are reported */
	_Atomic int64_t ttl_ms;
	_Atomic bool apart;		/* some blocks were stored apart from those of their rank */
	_Atomic bool salts, adapters;	/* its events have named some; engines of today do not all */
	_Atomic uint32_t named[SOURCE_ADAPTERS];	/* those adapters: adapter.c */
	_Atomic uint64_t usable, unusable;	/* stored events since it was opened */
	_Atomic uint64_t blocks;	/* stored at present */
	_Atomic uint64_t stored;	/* blocks, since the events of all ranks are trusted */
	_Atomic uint64_t removed;	/* the same */
	_Atomic int64_t gap_since;	/* msec; 0: no rank has a gap */
	_Atomic int64_t last_batch;	/* msec; of those that stored blocks or cleared */
	_Atomic int64_t due;		/* msec; the first request with new blocks since; 0: none */
	/* of the last prompt of tokens that was sent to it: tokens of a page, of a block by its model's
	 * options (0: they do not say), and it could not be compared */
	_Atomic uint32_t asked_page, asked_block;
	_Atomic bool misfit;
	/* blocks at the last change of the server's room; under the route's lock */
	uint64_t told;
};

/* Beginnings of prompts on their way: the last request that was sent with it to a server. */
#define ONWAY_PLACES	65536u

struct onway {
	uint64_t key, uid;
};

/* Requests that were served a moment ago: their blocks may still be on the way. */
#define ONWAY_ENDED	1024u

_Static_assert(sizeof(((struct route_stats *)0)->truth) == TRUTHS * sizeof(uint64_t), "one each");

struct onway_end {
	uint64_t uid;
	msec at;
};

struct sources {
	pthread_mutex_t lock;
	_Atomic(struct events *) events;	/* NULL: no source was ever opened */
	_Atomic uint32_t n;			/* one more than the highest source in use */
	/* page sizes; 0: free. The first is that of requests */
	_Atomic uint32_t sizes[SOURCE_SIZES];
	uint32_t size_users[SOURCE_SIZES];	/* sources */
	_Atomic int64_t now;			/* msec, of the last tick */
	_Atomic uint64_t cleared[SOURCES_MAX / 64];	/* bit per source: sources_clear_trees() */
	/* under the route's lock: */
	struct onway *onway;			/* [ONWAY_PLACES]; NULL without <events> */
	struct onway_end ended[ONWAY_ENDED];	/* at uid % ONWAY_ENDED */
	struct source of[SOURCES_MAX];
	size_t max_bytes;			/* of <events>; 0: no source can be opened */
	uint32_t token_page;			/* ids in a page of requests */
	uint32_t tokens[4096];			/* of the block that is decoded; wiped after each batch */
};

void sources_init(struct sources *t, uint32_t token_page, size_t max_bytes);
void sources_fini(struct sources *t);

/* Return the bytes that sources may take. */
uint64_t sources_budget(const struct route_opts *o);

/* Let the trees of servers be dropped whose engines cleared their caches. Under the route's
 * lock. */
void sources_clear_trees(struct route *r);

#define SOURCE_RESTORED_MS	300000	/* so long a source of a snapshot waits to be opened */

/* Forget sources of a snapshot that were not opened. Waits for no batch. */
void sources_age(struct route *r, msec now);

/* Forget the blocks of a rank. sources.lock is held. */
void source_rank_forget(struct sources *t, source_id id, unsigned rank);

/* Remove some blocks of engines that cleared theirs, and some that have expired. Returns true if
 * there are more. Waits for no batch. */
bool sources_work(struct sources *t);

/* Set the root of the chains of blocks. <cache_of>: space_cache_of(). */
void source_root(const struct route *r, uint64_t cache_of, uint32_t page, uint64_t root[2]);

/* Let the blocks of <s> have pages of <page> tokens; 0: none. Returns false, and leaves it without
 * pages, if too many sizes are in use. sources.lock is held. */
bool source_use_page(struct sources *t, struct source *s, uint32_t page);

/* Set what decisions read from the states of all ranks. sources.lock is held. */
void source_sum_ranks(struct source *s);

/* Apply a slice for <rank>. Returns true once all of it is applied. sources.lock is held. */
bool source_apply(struct route *r, source_id id, unsigned rank, struct source_slices *w,
    int64_t *work);

/* What events say of one server, in tokens. */
struct reported {
	uint32_t match;			/* number of the match it is of */
	uint16_t rank;
	uint64_t in_tier[EVENTS_TIERS];
};

struct job;
struct server;

/* Tell if others share the pool with the tenant of <j> and must not be visible to it. Under the
 * route's lock. */
bool job_is_isolated(const struct job *j);

/* Match the prompt of <j> with the blocks that engines report, after job_ends(). Without a lock. */
void job_match_events(struct route *r, struct job *j);

/* What a server is expected to hold of the prompt. */
struct expected {
	enum truth truth;
	enum truth_cause cause;
	uint64_t tokens;		/* from its start */
	uint64_t stored;		/* of these, those that events report */
	uint64_t in_tier[EVENTS_TIERS];	/* as events report; all others are on the device */
	uint32_t block;			/* tokens of a block; 0: unknown */
	int rank;			/* with these blocks; -1: unknown */
};

/* Set <out> for <s>, of whose prompts the tree has <depth> pages, and then <grown> pages of an
 * answer. Under the route's lock. */
void job_expect(const struct route *r, const struct job *j, const struct server *s, uint32_t depth,
    uint32_t grown, struct expected *out);

/* Return the tokens of which the cost takes <out>.tokens: less if not all are stored yet. */
uint64_t expected_cached(const struct expected *x);

/* Request <uid> with these marks was sent to <s>. Under the route's lock. */
void onway_sent(struct route *r, uint64_t uid, const struct marks *m, struct server *s,
    uint64_t new_tokens, msec now);

/* The request was chosen for <s>: note if its prompt fits the blocks of its engine. */
void job_note_asked(struct route *r, const struct job *j, const struct server *s);

/* Bound what is kept of each rank of <id> by the size of its cache in tokens, with a tenth more; 0:
 * unknown. Under the route's lock. */
void source_bound(struct route *r, source_id id, uint64_t capacity);

/* Return the server of a source, or NULL if it was not met. Under the route's lock. */
struct server *source_server(const struct route *r, source_id id);

/* A server has begun to answer request <uid>. Under the route's lock. */
void onway_ended(struct route *r, uint64_t uid, msec now);

/* Link <s> with its source, if it has one. Under the route's lock. */
void source_met(struct route *r, struct server *s);

/* Return the tokens that events report for <s>, or 0 if the tree need not be bounded by that. Under
 * the route's lock. */
uint64_t source_held_tokens(const struct route *r, const struct server *s);

#endif
