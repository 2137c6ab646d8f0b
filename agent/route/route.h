/* route.h - the contract of the core: requests in, answers out; facts in, knowledge kept.
 *
 * A router owns the index, the fleet with its ledger, what requests have in common, and the records
 * of decisions. It knows no socket and reads no clock. All functions may be called from any
 * thread. */
#ifndef KVROUTE_ROUTE_ROUTE_H
#define KVROUTE_ROUTE_ROUTE_H

#include "agent/base/histogram.h"
#include "agent/feed/engine_load.h"
#include "agent/feed/fact.h"
#include "agent/feed/hastats.h"
#include "agent/feed/metrics.h"
#include "agent/index/index.h"
#include "agent/index/snapshot.h"
#include "agent/index/spaces.h"
#include "agent/policy/policy.h"
#include "agent/prompt/heads.h"
#include "agent/prompt/turns.h"
#include "agent/prompt/prompt.h"
#include "agent/fleet/names.h"
#include "agent/fleet/sessions.h"
#include "agent/fleet/unseen.h"
#include "agent/fleet/wait.h"
#include "agent/request/model.h"
#include "agent/request/space.h"
#include "agent/request/work_share.h"
#include "agent/route/outcomes.h"
#include "agent/route/problems.h"
#include "agent/tok/segcache.h"

#define COMPARE_MAX	4	/* rules compared with the one that decides */

/* ---- options ------------------------------------------------------------------------------- */

enum pool_mode {
	MODE_ON,
	MODE_SHADOW,	/* decide and record, but name no server; learn from where requests really go */
	MODE_OFF	/* do not read requests */
};

const char *pool_mode_text(enum pool_mode m);

struct pool_opts {
	char name[POOL_NAME_MAX + 1];	/* an HAProxy backend; "*": every pool not named */
	char model[PROMPT_NAME_MAX + 1];	/* the one model of this pool, whatever bodies say; "": none */
	bool isolate_tenants;		/* tenants never share cache; default true */
	enum index_order eviction;	/* order in which pages of a full server go; for new servers */
	uint64_t capacity;		/* tokens in the cache of one server; default 0: unknown */
	uint64_t capacity_guess;	/* the same until it is known; 0: no bound then; default 400000 */
	uint32_t block_size;		/* tokens of a block in its engines' caches; default 0: as they say */
	uint64_t max_tree_size;		/* characters kept of one server's prompts; default 0: no bound */
	msec eviction_interval_ms;	/* how often that is enforced; default 0: always */
	enum pool_mode mode;
	uint8_t compare[COMPARE_MAX];	/* rules, each + 1; 0 ends them */
	char prefill[POOL_NAME_MAX + 1];	/* pool whose servers may compute its prompts; "": none */
	struct policy_opts policy;
};

struct route_opts {
	struct prompt_opts prompt;
	struct index_opts index;
	struct heads_opts heads;
	struct turns_opts turns;
	/* segment cache, once a model has a tokenizer; 0: none; default 64 MiB */
	size_t segcache_max_bytes;
	size_t sessions_max_bytes;	/* fleet/sessions.h; below SESSIONS_LEAST: none; default 8 MiB */
	size_t events_max_bytes;	/* blocks that engines report; 0: none; default 0 */
	size_t slices_max_bytes;	/* all bodies that wait for more slices; default 64 MiB */
	msec slices_max_age_ms;		/* default 5000 */
	uint32_t ledger_max_entries;	/* open requests; above it the oldest is closed; default 65536 */
	msec ledger_max_age_ms;		/* default 600000: ten minutes */
	msec ledger_max_silence_ms;	/* of an HAProxy process with open requests; default 30000 */
	msec server_max_age_ms;		/* a server in no load string for so long is gone; default 600000 */
	uint32_t max_pools;		/* default 64 */
	uint32_t decisions_keep;	/* decisions in the ring; 0: none; default 4096 */
	bool share;			/* route_share() may be called: its memory is in the budget */
	struct problems_opts problems;
	struct pool_opts pool_default;
	struct pool_opts *pools;
	size_t n_pools;
	struct model_opts model_default;
	struct model_opts *models;
	size_t n_models;
	struct tenant_opts tenant_default;
	struct tenant_opts *tenants;	/* TENANTS_MAX - 1 at most */
	size_t n_tenants;
};

/* Return the options of pool <name>: its own, or the default. */
const struct pool_opts *pool_options_of(const struct route_opts *o, struct span name);

void route_defaults(struct route_opts *o);

/* Return a view of the options of models, or of requests: it points into <o>. */
struct model_table route_models(const struct route_opts *o);
struct request_opts;
struct request_opts route_request_opts(const struct route_opts *o);

/* Copy the options; tokenizers get another reference. Returns -1 if there is no memory. */
int route_opts_copy(struct route_opts *to, const struct route_opts *from);
/* Return the bytes that a router with these options may grow to. */
uint64_t route_budget(const struct route_opts *o);
/* Return the bytes that the scratch of one more thread may grow to, without what encodes text. */
uint64_t route_thread_budget(const struct route_opts *o);
void route_opts_free(struct route_opts *o);	/* the arrays; not <o> */

/* ---- life ---------------------------------------------------------------------------------- */

struct route;

/* Allocate a router. <seed> makes the first turns of servers that tie random; 0: they take turns
 * in order of appearance. Returns NULL if there is no memory. */
struct route *route_new(const struct route_opts *o, const struct hash_key *key, uint64_t seed);
void route_free(struct route *r);

/* Replace all options, except those that cannot change while running (sizes of index, pages, heads,
 * segment cache and ring, and <share>). Returns -1, and changes nothing, if there is no memory. */
int route_reconfigure(struct route *r, const struct route_opts *o);

/* Allocate the working memory of one thread. Returns NULL if there is no memory. */
struct route_scratch;
struct route_scratch *route_scratch_new(struct route *r);
void route_scratch_free(struct route_scratch *s);
/* Wipe all that the last prompts left, with the thread's tokenizer cache. Meant for when no request
 * has come for a moment, because the next requests must fill that cache again. */
void route_scratch_wipe(struct route_scratch *s);

/* ---- a request ----------------------------------------------------------------------------- */

struct route_request {
	/* p is NULL if the message has no such argument; n is 0 if HAProxy had no value for it */
	struct span uid, pool, load, path, tenant, model, session, user, body;
	struct span vars;	/* variables that the answer is to set; empty: all; not used here */
	int64_t seq;		/* number of this slice, from 0; -1: the body comes whole */
	int64_t visible;	/* bytes that HAProxy can show in all; -1: unknown */
	int64_t whole;		/* bytes the body has; -1: unknown */
	int64_t wall_s;		/* seconds since 1970, UTC: templates print the day */
	msec asked_ms;		/* when HAProxy sent the message, by its own clock; -1: unknown; not used here */
	uint32_t work;		/* bound of its cost in steps of about 10 ns; see below */
	bool no_compare;	/* without the rules of policy.compare */
	uint32_t frame_size;	/* as agreed with HAProxy: its tune.bufsize - 4; 0: unknown */
};

/* Every body is read and its text divided into pages, which is a look at each byte. Templates and
 * tokenizers cost more, in steps that are counted as they are done; no clock is read. When <work>
 * is used up, the answer comes from the ids made so far, or from pages of text if there are none.
 * ROUTE_WORK_FULL: as much as a body of its size may cost. 0: no template and no tokenizer. Text
 * that the segment cache holds costs a tenth of other text. */
#define ROUTE_WORK_FULL	REQUEST_WORK_FULL

#define ROUTE_NO_POOL	UINT32_MAX

struct route_answer {
	struct span server, alt;	/* "" if not set; in the scratch until its next use */
	/* host:port of the server of another pool that is to compute the prompt for <server>; "": none */
	struct span prefill;
	enum why why;
	uint32_t hit;			/* permille of the prompt expected in the cache of <server> */
	uint32_t pages, prompt_pages;	/* matched at <server>; in the visible prompt */
	/* of <server>, with the longest part of the prompt; -1: unknown, or it has one rank only */
	int rank;
	/* until the first token of <server>, expected: fleet/wait.h; -1: unknown, or no server */
	int64_t wait_ms;
	/* of the prompt, with the unseen rest; expected in the cache of <server>; 0: unknown */
	uint64_t tokens, hit_tokens;
	struct span model;		/* "" if unknown; in the scratch as well */
	int priority;			/* of nvext.agent_hints: struct prompt; 0: none, or it says 0 */
	bool cut;			/* the body was seen in part */
	bool more;			/* another slice would help */
	uint32_t work;			/* steps done */
	uint64_t decision;		/* number of its record; 0: none is kept */
	uint32_t pool;			/* its place in route_each_pool(); ROUTE_NO_POOL: none */
	bool stands;			/* only <more> is set, and the last answer holds: no body waited
					 * for this slice, or it came before */
};

/* Decide on the body of a message route or route-N. Always sets <a>, except a->decision. What the
 * decision leaves behind, in the index, the records and for siblings, is left to route_finish(),
 * which must follow before <s> is used for anything else, before this thread learns a fact, and
 * while what <q> points to is unchanged; it does nothing if nothing is left. In between the thread
 * holds a lock for reading that new options wait for, so it may only do what does not block. What
 * other threads learn of this request waits, too. */
void route_begin(struct route *r, struct route_scratch *s, const struct route_request *q,
		 msec now, struct route_answer *a);
/* Returns the number of the record of the last decision of <s>; 0: none is kept. */
uint64_t route_finish(struct route *r, struct route_scratch *s);

/* Do both. */
void route_decide(struct route *r, struct route_scratch *s, const struct route_request *q,
		  msec now, struct route_answer *a);

/* Answer WHY_OVERLOAD without reading the body. Nothing is learned; the answer to an earlier slice
 * stands. */
void route_decline(struct route *r, const struct route_request *q, struct route_answer *a);

/* Where the name of a model was found; the texts are those of the variable <model_from>. */
enum model_from {
	MODEL_FROM_NONE,	/* nowhere: HAProxy uses its default */
	MODEL_FROM_ARGUMENT, MODEL_FROM_BODY,
	/* the body was cut before its model; an earlier one with the same opening had this */
	MODEL_FROM_HEAD,
	MODEL_FROM_OVERLOAD,	/* not looked for */
	MODEL_FROM_COUNT
};

const char *model_from_text(enum model_from f);

struct route_model {
	enum model_from from;
	size_t n;			/* bytes of <name>; 0: unknown */
	/* of aliases the options' one name; '!' to '~' without '"' and '\\' */
	char name[PROMPT_NAME_MAX + 1];
};

/* Find the model of the body of a message <model>, which comes before a pool is chosen. Always sets
 * <m>. Stores the model of a whole body under its opening, for its tenant and q->pool, which may be
 * any name; not if the body is salted. The tenant pays for reading the body. The scanner is kept
 * for a second, for a route_decide() with the same uid, tenant and body. */
void route_model(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
    struct route_model *m);
void route_model_decline(struct route *r, struct route_model *m);

/* Add to the record of <a>, just decided, the time that it took. */
void route_took(struct route *r, const struct route_answer *a, usec us);

/* Learn what became of a request. */
void route_learn(struct route *r, const struct fact *f, msec now);

/* Learn a row of the stats socket of the HAProxy process <process>, or the report of an engine;
 * each holds before <until>. Rows add servers, but only to pools that requests or the options have
 * named. Reports of unknown servers are ignored. */
void route_observe_server(
    struct route *r, struct span process, const struct hastats_row *row, msec now, msec until);
void route_observe_engine(struct route *r, struct span pool, struct span server,
    const struct engine_report *e, msec now, msec until);

/* Learn the load that an engine tells by itself, such as on SGLang's load socket. It holds for 3 s,
 * and each of its fields counts until a poll tells a newer one. Unknown servers are ignored. */
void route_observe_load(
    struct route *r, struct span pool, struct span server, const struct engine_load *l, msec now);

/* Forget the reports of an engine that is not polled any more. */
void route_forget_engine(struct route *r, struct span pool, struct span server);

/* Close what is too old. To be called about ten times a second; the work of a call is bounded. */
void route_tick(struct route *r, msec now);

/* Do a part of the index's work for budgets, capacities and servers that are gone: some ten
 * microseconds. Returns true if there is more. To be called by one thread until it returns false,
 * after each route_tick(). */
bool route_work(struct route *r);

/* ---- for an operator ----------------------------------------------------------------------- */

/* Decide on <q>, a whole body, as it would be decided now, and learn nothing. Sets <x>, and <space>
 * if the body has a prompt. <s> may be that of no other thread. O(body). */
struct decision;
void route_ask(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
    struct decision *x, uint64_t space[2]);

/* Forget what requests taught of the cache of a server, in the next steps of route_work(). Returns
 * false if there is no such server. Any thread. */
bool route_clear_server(struct route *r, struct span pool, struct span server);

/* index_spaces() and index_clear_space() of the index. */
bool route_spaces(struct route *r, struct spaces_walk *w, uint32_t looks,
    void (*fn)(void *arg, const struct space_view *v), void *arg);
bool route_clear_space(struct route *r, struct spaces_walk *w, const uint64_t space[2],
    uint32_t looks, uint64_t *records);

/* ---- over a restart ------------------------------------------------------------------------ */

/* Write the index as bytes, in steps of snapshot_write(). <wall_ms>: the wall clock at <now>.
 * Returns NULL if there is no memory. */
struct snapshot_writer *route_snapshot(
    struct route *r, msec now, int64_t wall_ms, snapshot_put *put, void *arg);

struct route_saved {
	const uint8_t *bytes;	/* what route_snapshot() put, here or in another agent */
	size_t n;
	bool theirs;		/* a sibling has written it: what it inferred remains the sibling's */
	msec now;
	int64_t wall_ms;	/* the wall clock at <now> */
};

/* Write sessions and stored responses as bytes, to follow those of the index. <wall_ms>: the wall
 * clock at <now>. Returns what <put> returned; without memory nothing is written. */
int route_save_sessions(
    struct route *r, msec now, int64_t wall_ms, snapshot_put *put, void *arg);
/* Add those at the start of from->bytes; of a known session the one with the later turn is kept.
 * Returns the bytes that they take; 0: there are none. What is damaged, or of another key or
 * format, changes nothing and sets <e>. */
size_t route_restore_sessions(struct route *r, const struct route_saved *from, struct err *e);
uint64_t route_sessions_bytes_most(const struct route_opts *o);

/* Return the bytes that those at <p> take, as their first SESSIONS_START bytes say; 0: none begin
 * so. */
#define SESSIONS_START	56u
uint64_t route_sessions_length(const uint8_t *p, size_t n);

/* The same in steps of about 0.1 ms; requests may come in between. from->bytes is borrowed
 * until route_sessions_end(). Returns NULL, with <e>, if they are refused. A step returns true if
 * there is more. */
struct sessions_restoring;
struct sessions_restoring *route_sessions_begin(
    struct route *r, const struct route_saved *from, struct err *e);
bool route_sessions_step(struct sessions_restoring *v);
void route_sessions_end(struct sessions_restoring *v);	/* at any time; <v> may be NULL */

/* Load a snapshot beside what is known. Returns -1, sets <e> and changes nothing if that fails. */
int route_restore(struct route *r, const struct route_saved *from, struct snapshot_stats *s,
    struct err *e);

/* The same in steps of about 0.1 ms; requests may come in between. from->bytes is borrowed until
 * route_restore_end(). Returns NULL if there is no memory. */
struct route_restoring;
struct route_restoring *route_restore_begin(struct route *r, const struct route_saved *from);
/* Returns 0 if there is more; 1, with <s>, if all is loaded; -1, with <e>, if it is refused. */
int route_restore_step(struct route_restoring *a, struct snapshot_stats *s, struct err *e);
void route_restore_end(struct route_restoring *a);	/* at any time; <a> may be NULL */

/* ---- figures, for /metrics ----------------------------------------------------------------- */

/* What became of the load header of a log line. */
enum orca_result {
	ORCA_TAKEN,
	ORCA_LATE,	/* too old: the answer took long, or a later one is known */
	ORCA_UNKNOWN,	/* of a request or a server that is not known */
	ORCA_BAD,	/* not a load report */
	ORCA_RESULTS
};

/* Whether HAProxy asked the agent about a request, by its log line. */
enum line_asked {
	ASKED_YES,
	ASKED_FAILED,	/* it did, and got no answer */
	ASKED_NO,
	ASKED_COUNT
};

struct route_stats {
	uint64_t requests;		/* route at seq 0 */
	uint64_t slices;		/* route-N */
	uint64_t why[WHY_COUNT];
	uint64_t cut, headless_saved;	/* truncated bodies; those that a stored head completed */
	uint64_t models[MODEL_FROM_COUNT];	/* messages <model> */
	uint64_t bad_load;		/* load strings with a bad entry */
	uint64_t slices_waiting, slices_bytes, slices_aged, slices_dropped, slices_again;
	uint64_t scans_shared, scans_lost;	/* bodies read once for two messages; for <model> alone */
	uint64_t slices_repeated;
	uint64_t firsts, dones, facts_unknown;	/* facts; <facts_unknown>: for a uid that is not open */
	uint64_t failures[VERDICT_COUNT];	/* requests that servers failed, each once */
	uint64_t orca[ORCA_RESULTS];	/* log lines with a load header, by what became of it */
	uint64_t haproxy_errors[HAPROXY_ERRORS + 1];	/* log lines with an error; last: an unknown code */
	uint64_t open;			/* ledger entries now */
	uint64_t closed_by_load, closed_by_silence, closed_by_age, closed_by_room;
	uint64_t pools_refused, servers_refused;
	uint64_t tokenized, tokens;	/* requests whose text became ids; their ids */
	uint64_t tokenize_bounded_by[BOUNDS];
	/* requests: encoding failed; only the beginning was encoded */
	uint64_t tokenize_failed, tokenize_bounded;
	uint64_t tokens_compared, tokens_differed;	/* prompts whose count the engine told; unequal ones */
	uint64_t models_disagree;	/* models with a kind of request in text mode because of that */
	uint64_t chat_refused, chat_unknown;	/* conversations that the engine rejects; that stayed text */
	uint64_t truth[4];		/* choices by enum truth of the chosen server: truth.h */
	uint64_t prompt_tokens, hit_tokens;	/* estimated, over all decisions that set a server */
	uint64_t best_hit_tokens;	/* the same of the candidate that had most */
	/* of answers whose log line tells how many tokens their engine found: those, all of their
	 * prompts, and those that were expected */
	uint64_t told_hit_tokens, told_prompt_tokens, told_expected_tokens;
	uint64_t asked[ASKED_COUNT];	/* log lines of requests that went to a server */
	struct index_stats index;
	struct heads_stats heads;
	struct turns_stats turns;
	struct sessions_stats sessions;
	uint64_t responses;		/* stored ones that are known */
	/* requests that continue a stored response, or name it in their path: sent to its server; not,
	 * because no server that is up is known to have it */
	uint64_t responses_followed, responses_unknown;
	struct segcache_stats segments;
};

void route_stats(struct route *r, struct route_stats *s);

/* A kind of request of a model that went to text mode for at least one tenant, because its engine
 * counts other tokens than we do. */
#define ROUTE_KIND_TEXT	128
struct route_disagreement {
	char model[PROMPT_NAME_MAX + 1];	/* as in the configuration */
	char kind[ROUTE_KIND_TEXT];		/* "chat system tools" */
	msec for_ms;				/* until it is tried again */
};
/* Take the next one; each is reported at most once an hour. Returns false if there is none. To be
 * called a few times a second, because figures about them are as of the last call. */
bool route_disagrees(struct route *r, msec now, struct route_disagreement *d);

/* Where the size of a server's cache is from. */
/* What the speed of a server is from: its own times, those of other servers of its pool, the
 * configuration because nothing is known yet, or because it shall not be learned. */
enum speed_source { SPEED_LEARNED, SPEED_POOL, SPEED_GUESS, SPEED_CONFIGURED };

enum capacity_source {
	CAPACITY_UNKNOWN,
	CAPACITY_GUESS,
	CAPACITY_INFERRED,
	CAPACITY_REPORTED,
	CAPACITY_CONFIGURED
};

struct route_server_view {
	const char *pool, *name;
	server_id id;
	bool up;
	bool backup;			/* by the last load string, or a stats row */
	uint32_t weight, conn, queue, open;	/* as in the last load string; our own open requests */
	double backlog_s;
	double wait_s;			/* expected of a new request until it is computed; -1: unknown */
	double tokens_per_s;		/* its prefill rate, learned or configured */
	enum speed_source speed;
	double penalty;			/* requests; see penalty.h */
	uint64_t picked, hit_tokens, failures;
	const uint64_t *picked_why;	/* <picked> by enum why */
	bool told_hits;			/* its engine tells what it found in its prefix cache: */
	uint64_t engine_hit_tokens, engine_asked_tokens;
	uint64_t held_tokens;		/* in pages that it holds or claims */
	uint64_t output_tokens;		/* generated there and expected to be still in its cache */
	uint64_t room_tokens;		/* bound of what the index keeps of it; 0: only that of bytes */
	uint64_t capacity_tokens;	/* size of its cache; 0: unknown */
	enum capacity_source capacity_source;
	unsigned watchers;		/* HAProxy processes whose stats rows of it hold */
	bool closed;			/* one of them says drain, maintenance or weight 0 */
	bool engine;			/* its engine's report holds; then also: */
	double waiting, running, kv_used;	/* requests; 0 .. 1; negative: not told */
	uint32_t foreign;		/* requests there that came another way */
	uint32_t block_size;		/* tokens; 0: not told */
	uint64_t engine_capacity;	/* tokens in its cache; 0: not told */
	uint32_t adapters_running, adapters_waiting, adapters_loaded;
};

/* In shadow mode, requests whose server is known and was a candidate: the agent's choice and
 * HAProxy's own, by the same estimates. */
struct shadow_sums {
	uint64_t requests, same;	/* <same>: HAProxy's server was the agent's choice */
	uint64_t prompt_tokens, hit_tokens, haproxy_hit_tokens;
	double first_s, haproxy_first_s;	/* until the first token */
	/* of those where the speeds of most servers were known, not guessed */
	uint64_t timed;
	double timed_s, haproxy_timed_s, timed_gain_s2;
	/* squares of what each request would have gained: tokens, seconds; for the error of the mean */
	double gain_tokens2, gain_s2;
};

/* Upper bounds, in ms, of the histograms below. */
extern const uint32_t route_first_ms[HISTOGRAM_BUCKETS - 1];
extern const uint32_t route_request_ms[HISTOGRAM_BUCKETS - 1];

struct route_pool_view {
	const char *name;
	bool imbalanced;
	const char *facts;	/* best kind of facts: "first", "end", "load", "none" */
	const char *mode;	/* "on", "shadow", "off" */
	uint64_t imbalance_transitions, requests;
	double pressure;
	const struct wait_line *wait;	/* of its first tokens */
	uint64_t choices;	/* among candidates; each slice makes one */
	uint64_t dearer;	/* choices of a server that did not have the least cost */
	double regret_s;	/* extra cost of these, by our own estimate */
	const char *prefill;	/* pool that computes prompts for it; "": none. Then also: */
	uint64_t splits;	/* prompts that it computed */
	uint64_t split_failures;	/* of these, requests that failed as if by it */
	double transfer_factor;	/* as learned; 1: as configured */
	struct unseen_sum unseen;
	/* ms to first tokens and to ends; <who> is a hash of the uid, for route_decision_of() */
	const struct histogram *first, *request;
	struct shadow_sums shadow;
};

/* Call back once for each. A lock is held: be quick, and call no route_... function from within. */
void route_each_server(struct route *r, msec now,
		       void (*fn)(void *arg, const struct route_server_view *v), void *arg);
void route_each_shard(struct route *r,
    void (*fn)(void *arg, uint32_t i, const struct index_shard_stats *v), void *arg);
void route_each_pool(struct route *r, void (*fn)(void *arg, const struct route_pool_view *v),
		     void *arg);

/* How prompts of a model become pages: of each model that the options name, and of all others
 * ("*"). */
struct route_model_view {
	const char *name;
	const char *mode;	/* "text"; "tokens"; "mixed": some kinds of request are text */
	uint32_t page;		/* tokens in one, if prompts are ids */
	uint32_t kinds_off;	/* kinds in text mode because counts differ, by tenant */
};

void route_each_model(
    struct route *r, void (*fn)(void *arg, const struct route_model_view *v), void *arg);

/* A kind of request of a model that is in text mode because counts differ, for how many tenants. */
struct route_kind_view {
	const char *model, *kind;
	uint32_t tenants;
};

void route_each_kind(
    struct route *r, void (*fn)(void *arg, const struct route_kind_view *v), void *arg);

/* What a compared rule would have done in a pool. */
struct route_compare_view {
	const char *pool, *rule;
	uint64_t choices, same, hit_tokens;
	double regret_s;
	/* by measured first tokens: outcomes.h */
	struct outcome_sums same_as, other, checked;
	bool gain_known;
	double gain_s, gain_error_s;
};

void route_each_compared(
    struct route *r, void (*fn)(void *arg, const struct route_compare_view *v), void *arg);

/* Record decisions and facts to <to>, which must outlive <r>. To be called before any thread
 * decides. */
struct traffic;
void route_traffic(struct route *r, struct traffic *to);

/* Return the number of the record of a request, by a hash of its uid; 0 if it is not kept any
 * more. */
bool route_decision_kept(struct route *r, uint64_t number);
uint64_t route_decision_of(struct route *r, uint64_t uid_hash);

/* Return the ring of decisions (decisions.h), which locks itself; NULL if none are kept. */
struct decisions;
struct decisions *route_decisions(struct route *r);

/* ---- faults in how HAProxy is attached: problems.h ----------------------------------------- */

/* Expect no log lines, because the agent does not listen for any. */
void route_without_feed(struct route *r);

/* Note a log line without JSON; one with JSON but without a uid. */
void route_line_plain(struct route *r);
void route_line_nameless(struct route *r, const struct fact *f);

/* Note bytes of another protocol that came from <peer>, or what is wrong with a sibling. */
void route_stray(struct route *r, enum problem what, struct span peer);

/* Take the next line to log. Returns false if there is none. To be called a few times a second,
 * each time until it returns false. */
bool route_problem_next(struct route *r, msec now, struct problem_event *e);

/* Call back for each kind of problem: with the pool "", and with each pool that has or had it. A
 * lock is held, as above. */
void route_each_problem(
    struct route *r, msec now, void (*fn)(void *arg, const struct problem_view *v), void *arg);

/* End all problems and forget their evidence. */
void route_clear_problems(struct route *r);

/* Tell if a fact with that uid would still be learned. Records of such requests must not show their
 * uid, because a forged fact needs it. */
bool route_uid_counts(struct route *r, uint64_t uid_hash);
uint64_t route_uid_hash(const struct route *r, struct span uid);

#endif
