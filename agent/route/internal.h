/* internal.h - the parts of the front door; nobody outside of this folder includes it. */
#ifndef KVROUTE_ROUTE_INTERNAL_H
#define KVROUTE_ROUTE_INTERNAL_H

#include <pthread.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/route/agree.h"
#include "agent/route/answer.h"
#include "agent/route/compare.h"
#include "agent/route/decisions.h"
#include "agent/route/density.h"
#include "agent/fleet/fleet.h"
#include "agent/route/grown.h"
#include "agent/fleet/ledger.h"
#include "agent/route/meter.h"
#include "agent/route/traffic.h"
#include "agent/route/route.h"
#include "agent/route/shared.h"
#include "agent/route/scanned.h"
#include "agent/route/slices.h"
#include "agent/route/space.h"

/* What the end of a request can teach besides how it ended. */
struct lesson {
	struct agree_ref agree;	/* .model 0: its count is not compared */
	uint64_t density;	/* key of struct density */
	struct grown_end end;
	uint32_t exact;		/* tokens of its prompt, counted by its model's tokenizer; 0: not, or not all of them */
	uint32_t text_bytes;	/* of its prompt, if that is text and was seen whole; else 0 */
	uint32_t block;		/* tokens of its pages; 0: pages of text */
	bool whole;		/* its answer is no stream, as far as is known */
};

/* An entry of the ledger. */
struct open_request {
	struct ledger_entry e;	/* first */
	uint64_t tokens, hit_tokens;	/* as counted for it so far: a later slice adds the rest */
	uint64_t turn, turn_before;	/* server.last_pick by this entry, and what it was */
	struct lesson lesson;
};

static inline struct open_request *open_of(struct ledger_entry *e)
{
	return (struct open_request *)e;
}

/* A request whose answer has begun, so that it is closed, but whose log line is to come: that tells
 * how the answer ended, and where the request was refused before. */
struct answered {
	uint64_t uid;		/* 0: none */
	msec sent;
	server_id at, from;	/* who answered; who was to, or SERVER_NONE */
	bool failed;		/* counted as a failure already */
	uint64_t prompt_tokens;
	struct lesson lesson;
};

#define ADAPTERS_NOTED	256	/* a later one takes the place of an earlier: its requests are text until it is named again */
#define MODELS_WATCHED	64	/* of the configured ones; whether each was asked for */
#define ANSWERED_MAX	1024	/* a later one takes the place of an earlier, and little is lost */

struct route {
	struct hash_key key;
	struct index *index;		/* locks itself */
	struct heads *heads;		/* locks itself */
	struct slices slices;		/* locks itself */
	struct scanned scanned;		/* locks itself */
	struct decisions *decisions;	/* locks itself; NULL: none are kept */
	struct traffic *traffic;		/* borrowed; locks itself; NULL: nothing is recorded */

	pthread_rwlock_t opts_lock;	/* guards <opts>, <tenants> and the pointer <segments>; held for reading while a request is decided */
	struct route_opts opts;
	struct tenant_numbers tenants;
	struct segcache *segments;	/* locks itself; NULL: no model has a tokenizer, or no room is given */

	/* Guards all below. Held for the microseconds of one choice and never while the index or the
	 * scanner works; policy_choose(), which is arithmetic on its arguments, runs under it so that
	 * two requests at once do not both see the same idle server. */
	pthread_mutex_t lock;
	struct fleet fleet;
	struct ledger ledger;
	struct answered answered[ANSWERED_MAX];		/* at uid % ANSWERED_MAX */
	struct agree agree;		/* agree_any_off() without the lock */
	struct answer_size answer_size;
	struct density density;		/* density_room() without the lock */
	struct grown_table *grown;	/* NULL: no memory, and no answer is predicted */
	struct shared_table *shared;	/* NULL: no memory, and no prefix counts as shared */
	struct marks_table *marks;	/* NULL: no memory, and no cache's size is inferred */
	uint64_t n_named;		/* servers there ever were */
	struct rng rng;
	bool by_chance;			/* turns of new servers, not by order of appearance */
	uint64_t nameless;		/* requests without a uid: each gets a number instead */
	msec swept;			/* when servers were last looked through */
	struct problems problems;	/* but <plain>, an atomic */
	bool feedless;			/* no log line is expected */
	uint64_t adapters[ADAPTERS_NOTED];	/* atomic each; keyed hashes of pool and name, at its place; 0: none */
	uint64_t models_asked;		/* bit i: opts.models[i] was asked for */
	struct route_stats stats;
};

/* Claims to settle with the index once the lock is released: so many at most for one call. The last
 * places are for the entry that must make room, and for another one of the same uid. */
#define SETTLE_MAX	64

struct settling {
	struct { index_claim claim; bool confirm; } item[SETTLE_MAX];
	unsigned n;
};

static inline bool settling_full(const struct settling *st)
{
	return st->n >= SETTLE_MAX - 2;
}

/* Needs room. A claim of 0 is no claim. */
static inline void settling_add(struct settling *st, index_claim claim, bool confirm)
{
	if (claim == 0)
		return;
	st->item[st->n].claim = claim;
	st->item[st->n++].confirm = confirm;
}

/* Close <e>, whose end nobody reported: it is believed to have been served, unless it is not known where. */
static inline void close_unheard(struct route *r, struct ledger_entry *e, struct settling *st, msec now)
{
	bool somewhere = e->server != e->server->pool->nowhere;

	settling_add(st, ledger_close(&r->ledger, e, somewhere, now), somewhere);
}

void settle(struct route *r, struct settling *st, msec now);

/* Of a server, as rules see it: the same in every agent with the same key. */
static inline uint64_t name_hash(const struct route *r, struct span name)
{
	return hash_mix_span(&r->key, 11, name);
}

uint64_t route_uid(const struct route *r, struct span uid);

/* A load string of the process of <sl> admits so many requests. Close those that HAProxy has ended unseen, those
 * first of which nothing was heard for longest, while <st> has room. What came or was moved here within the last
 * two seconds is left. */
void close_beyond(struct route *r, struct slot *sl, uint32_t admitted, struct settling *st,
		  msec now);

/* What the router keeps of a pool. Under the route's lock but for the first two. */
struct pool_route {
	pthread_mutex_t rule_lock;	/* guards what <memory> points to; taken last, held for one call */
	struct policy_memory *memory;	/* of <rule>, or NULL; another only with its options */
	enum policy_rule rule;
	size_t rule_max_bytes;
	struct compare *compare;	/* under both locks: see compare.h */
	struct problem_pool *problems;	/* attached.c; NULL: not met yet */
	uint16_t base_model;		/* adapter.c; of the options that hold */
	bool sweeping;			/* down to max_tree_size: see keep.c */
	msec swept;
	bool imbalanced;
	uint64_t imbalance_transitions;
	uint64_t choices, dearer;	/* see struct route_pool_view */
	double regret_s;
};

/* ---- pool.c. The route's lock is held, and its options are -------------------------------------------------- */

struct pool *pool_met(struct route *r, struct span name);	/* Found or made. NULL: too many, or no memory. */
void pools_take_options(struct route *r);			/* r->opts are others. */
void pool_server_gone(struct pool *p, server_id id);		/* Its rules forget <id>. */
void pools_free(struct route *r);				/* But for the fleet's part. */

/* ---- job_fleet.c, observe.c. The route's lock is held, and its options are ---------------------------------- */

/* Found at <hint> or elsewhere, or made. NULL: too many, or no memory. */
struct server *server_met(struct route *r, struct pool *p, struct span name, size_t hint);
uint64_t adapter_hash(const struct route *r, struct span name);

/* ---- keep.c. The route's lock is held, and its options are ------------------------------------------------ */

void keep_server(struct route *r, const struct server *s);	/* it is new */
void keep_pool(struct route *r, const struct pool *p);		/* its facts are others */
void keep_room(struct route *r, const struct server *s);	/* its engine's cache has another size */
/* There is more evidence of how large caches are: at <s>, and so of others of its pool. */
void keep_infer(struct route *r, struct server *s);
uint64_t server_capacity(const struct server *s, enum capacity_source *by);
void keep_options(struct route *r);				/* they are */
void keep_sweep(struct route *r, msec now);

/* The index counts room in parts of a token, as a page of text is no whole number of them. */
#define ROOM_OF_TOKEN	16u

/* Whose name or alias <model> is; else the first whose name has a "*" and fits; else the default. Looks at each entry:
 * about 10 ns for a name. */
const struct model_opts *model_options_of(const struct route_opts *o, struct span model);
/* What a request that said <asked> means, <m> being its options: of aliases the one name, else <asked>. Points to either. */
struct span model_name_of(const struct model_opts *m, struct span asked);
/* ---- adapter.c: LoRA adapters that engines' metrics name, of models that the options name ------------------ */

/* The lock is held. An engine of <pool> has named it. */
void adapter_note(struct route *r, struct span pool, struct span name);
/* The options of the model that <name> is an adapter of: no entry of the options is meant by <name>, an engine of the pool has named
 * it as an adapter, and the pool's requests, or the options, leave one model with a tokenizer to choose. NULL: none. Takes the
 * lock only where an engine has named it. */
const struct model_opts *adapter_base(struct route *r, struct span pool, struct span name);
/* The lock is held. A request for <m> came to <p>. */
void adapter_model_met(const struct route *r, struct pool *p, const struct model_opts *m);

/* Ids in a page of it. */
static inline uint32_t model_block_of(const struct route_opts *o, const struct model_opts *m)
{
	return m->block_size != 0 ? m->block_size : o->prompt.token_page;
}

struct route_scratch {
	struct body *body;
	struct index_match match;
	struct page_vec pages;
	struct words *words;		/* NULL: none were asked for so far */
	struct tok_scratch *tok;	/* the same */
	struct talk *talk;		/* the same, of conversations */
	struct meter meter;
	struct marks marks;
	struct candidate candidates[SERVERS_MAX];
	uint32_t own[SERVERS_MAX];	/* tokens of each server in the memory of the pool's rule */
	char server[SERVER_NAME_MAX + 1], alt[SERVER_NAME_MAX + 1];
	char model[PROMPT_NAME_MAX + 1];
	struct compare_scratch compare;
	struct decision decision;
	uint32_t blocks[DECISION_BLOCKS_MAX];
	uint64_t recorded[TRAFFIC_BLOCKS_MAX];
};

#endif
