/* route_in.h - private to agent/route: struct route and what its files share. */
#ifndef KVROUTE_ROUTE_ROUTE_IN_H
#define KVROUTE_ROUTE_ROUTE_IN_H

#include <pthread.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/fleet/fleet.h"
#include "agent/fleet/ledger.h"
#include "agent/fleet/responses.h"
#include "agent/request/request.h"
#include "agent/route/answer_in.h"
#include "agent/route/compare_in.h"
#include "agent/route/decisions.h"
#include "agent/route/grown_in.h"
#include "agent/route/route.h"
#include "agent/route/shadow_in.h"
#include "agent/route/share_in.h"
#include "agent/route/shared_in.h"
#include "agent/route/sources_in.h"
#include "agent/route/traffic.h"

/* What the end of a request can teach, besides how it ended. */
struct lesson {
	struct agree_ref agree;	/* .model 0: its count is not compared */
	uint64_t density;	/* key of struct density */
	struct grown_end end;
	/* keyed hash of its tenant, if its engine may store the answer as a response, else 0; or if
	 * <named>, the key of that response, which its first bytes told */
	uint64_t stores;
	uint32_t counted;	/* tokens of its prompt, as its engine is expected to count; 0: unknown */
	uint32_t text_bytes;	/* of a prompt of text alone that was seen whole; else 0 */
	uint32_t block;		/* tokens of its pages; 0: pages of text */
	uint32_t seen;		/* tokens of its pages */
	uint32_t hidden;	/* tokens of its prompt that were not seen, and not expected in the cache */
	uint8_t density_part;	/* of its tenant, in struct density */
	bool exact : 1;		/* <counted> is by its tokenizer, of the whole prompt */
	bool named : 1;
	bool whole : 1;		/* its answer is no stream, as far as known */
	bool streams : 1;	/* its answer is a stream: the body says so */
	bool generates : 1;	/* its answer has tokens; false: vectors */
};

/* Seconds of prefill that a cut request takes if all of it that is in doubt is cached, or was never
 * sent, and if none; both 0: its first token tells nothing. */
struct doubt {
	float least_s, most_s;
	float unused_ms;	/* since its server had its session's last turn; < 0: it had none */
	uint32_t tenant;	/* of its keyed hash */
};

/* An entry of the ledger. */
struct open_request {
	struct ledger_entry e;	/* first */
	/* in counters so far: a later slice adds the rest */
	uint64_t tokens, hit_tokens, best_hit_tokens;
	uint64_t turn, turn_before;	/* server.last_pick by this entry, and before it */
	struct sibling *owner;		/* who decided; NULL: this agent */
	struct list of_owner;		/* in owner->open */
	uint64_t placed_as;		/* what its PLACED said */
	struct lesson lesson;
	/* of its first token: nominal and expected seconds of fleet/wait.h; negative, 0: unknown */
	float estimate_s, expected_s;
	/* pool for which a server of another one computes it, NULL: none. Then the two above are the
	 * seconds to compute (0: they teach nothing) and to transfer it */
	struct pool *decoded_in;
	uint64_t session;	/* key of struct session_turn; 0: none */
	msec taken_up_since;	/* end of the turn that left <taken_up> */
	uint32_t answer;	/* tokens; 0: unknown so far */
	uint32_t hidden;	/* tokens of session_tail.hidden */
	uint32_t taken_up;	/* of these, tokens that the turn before had left there */
	uint32_t run;		/* of capacity_opened(); 0: none */
	struct doubt doubt;
	uint32_t part;		/* of the stream that its entries go to */
	uint32_t due;	/* server.n_answered if all came that waited there when it was sent */
};

/* Return the room of so many tokens in a cache, limited. */
static inline uint32_t room_of_tokens(uint64_t tokens)
{
	return tokens < UINT32_MAX / ROOM_OF_TOKEN ? (uint32_t)tokens * ROOM_OF_TOKEN : UINT32_MAX;
}

static inline struct open_request *open_of(struct ledger_entry *e)
{
	return (struct open_request *)e;
}

/* A request whose answer has begun, so that its entry is closed, but whose log line is still to
 * come. The line says how the answer ended, and where the request was rejected before. */
struct answered {
	uint64_t uid;		/* 0: free */
	msec sent, closed;	/* <closed>: as its session knows it */
	server_id at, from;	/* the server that answered; the one we chose, if another, or SERVER_NONE */
	uint32_t part;		/* as of its entry */
	bool ours;		/* this agent decided */
	bool failed;		/* already counted as a failure */
	uint64_t session;	/* as of its entry */
	uint64_t prompt_tokens, hit_tokens;
	struct lesson lesson;
};

/* What the router keeps of a pool. Under the route's lock, except the first two. */
struct pool_route {
	pthread_mutex_t rule_lock;	/* guards the content of <memory>; taken last, held for one call */
	struct policy_memory *memory;	/* of <rule>, or NULL; another one only with new options */
	enum policy_rule rule;
	size_t rule_max_bytes;
	struct compare *compare;	/* under both locks: see compare_in.h */
	struct problem_pool *problems;	/* attached.c; NULL: not needed yet */
	uint16_t base_model;		/* adapter.c; index into the present options */
	bool tenants;			/* a request had a tenant */
	bool sweeping;			/* down to max_tree_size: server_room.c */
	msec swept;
	bool imbalanced;
	uint64_t imbalance_transitions;
	uint64_t choices, dearer;	/* see struct route_pool_view */
	uint64_t splits, split_failures;	/* the same */
	double regret_s;
	struct histogram first, request;	/* times.c */
	struct shadow *shadow;		/* NULL: was never in shadow mode */
};

/* A later adapter replaces an earlier one, whose requests are text until it is named again. */
#define ADAPTERS_NOTED	256
#define MODELS_WATCHED	64	/* configured models for which the agent knows if requests name them */
#define ANSWERED_MAX	1024	/* a later request replaces an earlier one, and little is lost */

struct route {
	struct hash_key key;
	struct index *index;		/* locks itself */
	struct sources sources;		/* KV cache events; locks itself, except what it says */
	struct decisions *decisions;	/* locks itself; NULL: none are kept */
	struct sharing *sharing;	/* share_in.h; NULL: with no other agent */
	struct traffic *traffic;	/* borrowed; locks itself; NULL: nothing is recorded */

	/* Guards <opts>, and <opts>, <tenants> and the pointer <segments> of <requests>. Held for
	 * reading while a request is decided. */
	pthread_rwlock_t opts_lock;
	struct route_opts opts;
	struct request_env requests;	/* locks the rest itself; density_learn() under <lock> */

	/* Guards all below. Held for the microseconds of one choice, and never while the index or
	 * the scanner works. policy_choose(), which is arithmetic on its arguments, runs under it,
	 * so that two requests at once do not both see the same idle server. */
	pthread_mutex_t lock;
	pthread_cond_t finished;	/* a decision is; for those that wait: finished_entry() */
	unsigned n_waiting;
	struct fleet fleet;
	struct ledger ledger;		/* of struct open_request */
	struct answered answered[ANSWERED_MAX];		/* at uid % ANSWERED_MAX */
	struct answer_size answer_size;
	struct sessions *sessions;	/* NULL: none are known */
	struct responses *responses;	/* the same */
	struct grown_table *grown;	/* NULL: no memory, and no answer is predicted */
	struct shared_table *shared;	/* NULL: no memory, and no prefix counts as shared */
	struct marks_table *marks;	/* NULL: no memory, and no cache's size is inferred */
	uint64_t n_named;		/* servers ever added */
	struct rng rng;
	bool by_chance;			/* turns of new servers are random, not in order of appearance */
	uint64_t nameless;		/* requests without a uid: each gets a number instead */
	msec ticked;			/* last route_tick() */
	msec swept;			/* last search for servers that are gone */
	uint64_t clearing[SERVERS_MAX / 64];	/* bit per server: its engine has cleared its cache */
	struct problems problems;	/* except <plain>, an atomic */
	bool feedless;			/* no log line is expected */
	bool splits;			/* a prompt was ever computed for another pool */
	uint64_t adapters[ADAPTERS_NOTED];	/* atomic each; keyed hashes of pool and name; 0: free */
	bool any_adapter;		/* atomic: one of them is not free */
	uint64_t models_asked;		/* bit i: requests named opts.models[i] */
	struct route_stats stats;
};

/* Claims to tell the index of once the lock is released: at most so many for one call. The last
 * places are for the entry that must make room, and for another one of the same uid, each with that
 * of a prefill server. */
#define SETTLE_MAX	64

struct settling {
	unsigned n, n_unheard;
	struct { index_claim claim; bool confirm; } item[SETTLE_MAX];
	/* requests of this agent whose end was not reported: siblings must be told */
	struct { uint64_t uid; uint32_t part; bool served; } unheard[SETTLE_MAX];
	/* output that counts again, because the turn that took it up was taken back; room 0: none */
	struct { uint32_t room; server_id at; msec since; } given;
};

static inline void settling_init(struct settling *st)
{
	st->n = st->n_unheard = 0;
	st->given.room = 0;
}

static inline bool settling_full(const struct settling *st)
{
	return st->n >= SETTLE_MAX - 6 || st->n_unheard >= SETTLE_MAX - 6;
}

/* There must be room. Does nothing if <claim> is 0. */
static inline void settling_add(struct settling *st, index_claim claim, bool confirm)
{
	if (claim == 0)
		return;
	st->item[st->n].claim = claim;
	st->item[st->n++].confirm = confirm;
}

void settle(struct route *r, struct settling *st, msec now);
/* Do of settle() what must precede index_take_output() for another decision. */
void settle_given(struct route *r, struct settling *st);

/* session.c: <o> is taken back, and closed next. What its turn took up of the turn before counts
 * again as before, unless the server has lost it since. The lock is held. */
void session_give_back(struct route *r, const struct open_request *o, struct settling *st);

/* session.c: return the key of the response whose id has the hash <id>; 0: <id> is 0. <tenant>: of
 * struct lesson. */
uint64_t response_key(const struct route *r, uint64_t tenant, uint64_t id);

/* What the request has used counts as used last. */
static inline void run_ended(struct ledger_entry *e)
{
	if (open_of(e)->run != 0)
		capacity_ended(&e->server->capacity, open_of(e)->run);
	open_of(e)->run = 0;
}

/* Close an entry, as ledger_close() does. */
static inline uint64_t entry_close(
    struct route *r, struct ledger_entry *e, bool confirm, msec now)
{
	if (open_of(e)->owner != NULL)
		sibling_closed(r->sharing, open_of(e));
	if (open_of(e)->session != 0) {
		const struct session_end end = {
			.at = confirm && e->server != e->server->pool->nowhere ? e->server->id : SERVER_NONE,
			.answer = open_of(e)->answer, .hidden = open_of(e)->hidden,
		};

		sessions_ended(r->sessions, open_of(e)->session, &end, now);
	}
	run_ended(e);
	return ledger_close(&r->ledger, e, confirm, now);
}

/* prefill.c: return the uid of the entry at the server that computes the prompt of <uid>; find it,
 * or NULL. */
uint64_t prefill_uid(const struct route *r, uint64_t uid);
struct ledger_entry *prefill_entry(const struct route *r, uint64_t uid);

/* Close an entry whose end was not reported. It counts as served, unless its server is unknown. */
static inline void close_unheard_one(
    struct route *r, struct ledger_entry *e, struct settling *st, msec now)
{
	bool somewhere = e->server != e->server->pool->nowhere;

	if (r->sharing != NULL)
		share_unheard(r, e, somewhere, st);
	settling_add(st, entry_close(r, e, somewhere, now), somewhere);
}

/* The same, with the entry at the server that computes its prompt. */
static inline void close_unheard(
    struct route *r, struct ledger_entry *e, struct settling *st, msec now)
{
	struct ledger_entry *there = prefill_entry(r, e->uid);

	if (there != NULL)
		close_unheard_one(r, there, st, now);
	close_unheard_one(r, e, st, now);
}

/* unheard.c: close entries of <sl> that HAProxy has ended unseen, oldest first, while <st> has
 * room: its process says that it has <admitted> requests at that server. Entries that came or were
 * moved there within the last two seconds are left. */
void close_beyond(
    struct route *r, struct slot *sl, uint32_t admitted, struct settling *st, msec now);

/* Hash the name of a server, as rules see it: the same in every agent with the same key. */
static inline uint64_t name_hash(const struct route *r, struct span name)
{
	return hash_mix_span(&r->key, 11, name);
}

uint64_t route_uid(const struct route *r, struct span uid);

/* ---- in all below the route's lock is held, and its options are, unless it says otherwise -- */

/* pool.c: find or add a pool. Returns NULL if there are too many, or no memory. */
struct pool *pool_met(struct route *r, struct span name);
void pools_take_options(struct route *r);		/* r->opts are new */
void pool_server_gone(struct pool *p, server_id id);	/* its rules forget <id> */
void pools_free(struct route *r);			/* all but the fleet's part */

/* candidates.c: find a server at <hint> or elsewhere, or add it. Returns NULL if there are too
 * many, or no memory. */
struct server *server_met(struct route *r, struct pool *p, struct span name, size_t hint);
uint64_t adapter_hash(const struct route *r, struct span name);

#define LOAD_HOLDS_MS	3000	/* a load told in passing; an idle engine tells none */

/* wait.c: return the seconds that a new request would wait at <s> before its own work; -1: facts do
 * not tell. */
double wait_at(const struct server *s, msec now);

/* times.c: the first token of <e> came after <took>; a request of this agent ended after <took>. */
void times_first(const struct ledger_entry *e, msec took);
void times_end(struct pool *p, uint64_t uid, msec took);

/* left.c: return when HAProxy named <s> last, to this agent or another; 0: unknown. */
msec server_named_at(const struct server *s);
/* Tell if a server of <p> has left HAProxy's configuration: load strings and stats rows of its pool
 * kept coming, and none since <named> was of that server. */
bool server_would_leave(const struct route *r, const struct pool *p, msec named);
/* Remove one such server. Nothing of it is open, so no commit for it is under way. If a load string
 * names it again, it is a new server. */
void servers_sweep(struct route *r);

#define CLEARED_ALIKE_MS	2000	/* two agents hear of the same clear, or one reads it back */

/* The engine's cache of <s> was empty at <at>: what is known of its content goes, in steps. */
static inline void server_cleared(struct route *r, struct server *s, msec at)
{
	r->clearing[s->id / 64] |= (uint64_t)1 << s->id % 64;
	s->cleared = at;
	capacity_cleared(&s->capacity);
}

/* Note that HAProxy named <s> to another agent. */
static inline void server_told(struct server *s, msec named)
{
	if (named > s->told)
		s->told = named;
	if (named > s->pool->told)
		s->pool->told = named;
}

/* observe.c: store the load that the engine of <s> had at <at>. Returns false if a later one is
 * known. */
bool server_take_load(struct route *r, struct server *s, const struct engine_load *l, msec at);

/* server_room.c: tell the index and the rules how much servers can hold, after <s> was added; after
 * the facts of <p> changed; after the size of the engine's cache of <s> changed. */
void room_server_added(struct route *r, const struct server *s);
void room_pool_changed(struct route *r, const struct pool *p);
void room_server_changed(struct route *r, const struct server *s);
/* What is inferred of <s>, here or by a sibling, may have changed. */
void room_inferred(struct route *r, struct server *s);
/* There is more evidence of how large the cache of <s> is, and so those of others of its pool. */
void room_infer(struct route *r, struct server *s);
void room_options_changed(struct route *r);
void room_sweep(struct route *r, msec now);
void room_reported(struct route *r);
/* Return the tokens in its cache, and who says so; 0: unknown. */
uint64_t server_capacity(const struct server *s, enum capacity_source *by);
/* Return the tokens that the index keeps for it; 0: any number. */
uint64_t server_room(const struct server *s);

/* ---- adapter.c: LoRA adapters that engines' metrics name, of models that the options name -- */

/* An engine of <pool> has named the adapter <name>. */
void adapter_note(struct route *r, struct span pool, struct span name);
/* The events of <s> have named it. That counts for the blocks of engines only, because a publisher
 * must not decide which names of its pool are models. */
void adapter_note_event(struct route *r, struct source *s, struct span name);
/* Tell if events of any server of <pool>, or of <s>, have named it. */
bool adapter_is_reported(const struct route *r, struct span pool, struct span name);
bool adapter_is_reported_by(const struct route *r, const struct source *s, struct span name);
/* Return the options of the model that <name> is an adapter of, for request_env.adapter_base, if no
 * entry of the options means <name> and an engine of the pool has named it as an adapter. These are
 * the default options if the pool's requests, and the options, do not leave one model with a
 * tokenizer. Otherwise NULL. Takes the lock only if an engine has named it. */
const struct model_opts *adapter_base(void *route, struct span pool, struct span name);
/* A request for <m> came to <p>. */
void adapter_model_met(const struct route *r, struct pool *p, const struct model_opts *m);

#endif
