/* route.h - the front door of the core: requests in, answers out; facts in, knowledge kept.
 *
 * Owns the index, the load ledger, the servers, the slices that wait for each other and the memory
 * of heads. Knows no socket and no clock. All functions may be called from any thread. */
#ifndef KVROUTE_ROUTE_ROUTE_H
#define KVROUTE_ROUTE_ROUTE_H

#include "agent/feed/fact.h"
#include "agent/feed/hastats.h"
#include "agent/feed/metrics.h"
#include "agent/index/index.h"
#include "agent/index/snapshot.h"
#include "agent/policy/policy.h"
#include "agent/prompt/heads.h"
#include "agent/prompt/prompt.h"
#include "agent/fleet/names.h"
#include "agent/request/model.h"
#include "agent/request/space.h"
#include "agent/request/work_share.h"
#include "agent/route/outcomes.h"
#include "agent/route/problems.h"
#include "agent/tok/segcache.h"

#define COMPARE_MAX	4	/* rules beside the one that acts */

/* ---- options ---------------------------------------------------------------------------- */

enum pool_mode {
	MODE_ON,
	MODE_SHADOW,	/* decide and keep why, but name no server; learn from where requests really go */
	MODE_OFF	/* do not even look at requests */
};

const char *pool_mode_text(enum pool_mode m);

struct pool_opts {
	char name[POOL_NAME_MAX + 1];	/* an HAProxy backend; "*": every pool not named */
	char model[PROMPT_NAME_MAX + 1];	/* "" or the one model of this pool, whatever bodies say */
	bool isolate_tenants;		/* tenants never share cache; default true */
	enum index_order eviction;	/* what goes from a server whose room is used up; of servers that are new */
	uint64_t capacity;		/* tokens in the cache of one server; default 0: not known */
	uint64_t capacity_guess;	/* the same, until it is known; 0: no bound then; default 400000 */
	uint32_t block_size;		/* tokens of a block in its engines' caches; default 0: as they say */
	uint64_t max_tree_size;		/* characters kept of one server's prompts; default 0: no bound */
	msec eviction_interval_ms;	/* how often that is seen to; default 0: always */
	enum pool_mode mode;
	uint8_t compare[COMPARE_MAX];	/* rules, + 1; 0 ends them */
	struct policy_opts policy;
};

struct route_opts {
	struct prompt_opts prompt;
	struct index_opts index;
	struct heads_opts heads;
	size_t segcache_max_bytes;	/* of ids of segments, once a model has a tokenizer; 0: none; default 64 MiB */
	size_t slices_max_bytes;	/* of all bodies that wait for more slices; default 64 MiB */
	msec slices_max_age_ms;		/* default 5000 */
	uint32_t ledger_max_entries;	/* open requests; the oldest is closed above it; 65536 */
	msec ledger_max_age_ms;		/* default 600000: ten minutes */
	msec ledger_max_silence_ms;	/* of a HAProxy process with open requests; default 30000 */
	msec server_max_age_ms;		/* a server in no load string for so long is gone; 600000 */
	uint32_t max_pools;		/* default 64 */
	uint32_t decisions_keep;	/* the last so many; 0: none; default 4096 */
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

/* Tokenizers are counted, not copied. -1: no memory. */
int route_opts_copy(struct route_opts *to, const struct route_opts *from);
/* Bytes that what is known may grow to with them: caches, heads, waiting slices, open requests. */
uint64_t route_budget(const struct route_opts *o);
void route_opts_free(struct route_opts *o);	/* the arrays; not <o> */

/* ---- life ------------------------------------------------------------------------------- */

struct route;

/* <seed> is for the first turns of servers that tie; 0: in the order they are named. NULL: no memory. */
struct route *route_new(const struct route_opts *o, const struct hash_key *key, uint64_t seed);
void route_free(struct route *r);

/* Take new options, whole: pools, models, policies, ages. What cannot change while running (index
 * bytes, page sizes: conf.h marks them) is left as it was. -1: no memory, and nothing changed. */
int route_reconfigure(struct route *r, const struct route_opts *o);

/* A thread's own working memory: scanner, match, pages. NULL: no memory. */
struct route_scratch;
struct route_scratch *route_scratch_new(struct route *r);
void route_scratch_free(struct route_scratch *s);
/* Wipe all that the last prompts left, the cache of pieces of the thread's tokenizer too: for when no request has come for a
 * moment, as that fills again with the next ones. */
void route_scratch_wipe(struct route_scratch *s);

/* ---- a request ---------------------------------------------------------------------------- */

struct route_request {
	/* NULL: the message has no such argument; empty: it has, and HAProxy had no value for it */
	struct span uid, pool, load, path, tenant, model, session, body;
	int64_t seq;		/* number of this slice, from 0; -1: no slices, this is all there is */
	int64_t visible;	/* bytes HAProxy can show in all; -1 unknown */
	int64_t whole;		/* bytes the body has; -1 unknown */
	int64_t wall_s;		/* seconds since 1970, UTC: templates print the day */
	msec asked_ms;		/* when HAProxy asked, by its own clock; -1 unknown; for who calls, not looked at here */
	uint32_t work;		/* the most it may cost, in steps of some 10 ns; see below */
	bool no_compare;	/* leave out the rules of policy.compare */
	uint32_t frame_size;	/* as agreed with HAProxy: its tune.bufsize - 4; 0: not known */
};

/* Reading a body and making pages of its text is always done: a look at each byte. Templates and tokenizers cost more, in steps that
 * are counted as they are done, no clock is asked. When <work> is used up the answer comes from the ids made so far, and from pages of
 * text if there are none. ROUTE_WORK_FULL: as much as a body of its size may cost. 0: no template and no tokenizer at all. In between: what the
 * segment cache holds costs a tenth of what it does not. */
#define ROUTE_WORK_FULL	REQUEST_WORK_FULL

struct route_answer {
	struct span server, alt;	/* "" when not set; live in the scratch until its next use */
	enum why why;
	uint32_t hit;			/* permille of the prompt expected cached at <server> */
	uint32_t pages, prompt_pages;	/* matched at <server>; of the whole visible prompt */
	bool cut;			/* the body was seen in part */
	bool more;			/* another slice would help */
	uint32_t work;			/* steps that it took, of those it might take */
	uint64_t decision;		/* number of its record; 0: none is kept */
	bool stands;			/* a slice nobody waited for, or that came before: nothing but
					 * <more> is set, and what was answered still holds */
};

/* The body of a message route or route-N. Always fills <a>. */
void route_decide(struct route *r, struct route_scratch *s, const struct route_request *q,
		  msec now, struct route_answer *a);

/* The same without looking: too busy. Counted, nothing learned; an earlier slice's answer stands. */
void route_decline(struct route *r, const struct route_request *q, struct route_answer *a);

/* Where the name of a model was found; the texts are those of the variable <model_from>. */
enum model_from {
	MODEL_FROM_NONE,	/* nowhere: HAProxy goes by its default */
	MODEL_FROM_ARGUMENT, MODEL_FROM_BODY,
	MODEL_FROM_HEAD,	/* of an earlier body of that tenant with the same opening: this one was cut before its own */
	MODEL_FROM_OVERLOAD,	/* not looked for */
	MODEL_FROM_COUNT
};

const char *model_from_text(enum model_from f);

struct route_model {
	enum model_from from;
	size_t n;			/* bytes of <name>; 0: not known */
	char name[PROMPT_NAME_MAX + 1];	/* of aliases the one name that the options have; '!' to '~' without '"' and '\\' */
};

/* The body of a message <model>, which comes before a pool is chosen. Always fills <m>. Learns the model of a whole
 * body under its opening, for that tenant and q->pool, which may name anything; of a salted one nothing. Reading the body is
 * charged to the tenant. What was read is kept for a second, for a route_decide() with the same uid, tenant and body. */
void route_model(struct route *r, struct route_scratch *s, const struct route_request *q, msec now, struct route_model *m);
void route_model_decline(struct route *r, struct route_model *m);

/* What <a>, just decided, took of the agent's time, for its record. */
void route_took(struct route *r, const struct route_answer *a, usec us);

/* What became of a request. */
void route_learn(struct route *r, const struct fact *f, msec now);

/* What was asked for: a row of a HAProxy process's stats socket, <process> says which; and an engine's report of
 * itself. Each holds before <until>. Rows of a pool make its servers known, but only those of pools that were asked
 * for, or that the options name; a report of a server nobody has named yet is left out. */
void route_observe_server(struct route *r, struct span process, const struct hastats_row *row, msec now, msec until);
void route_observe_engine(struct route *r, struct span pool, struct span server, const struct engine_report *e,
			  msec now, msec until);

/* That engine is not asked any more: what it said of itself is forgotten. */
void route_forget_engine(struct route *r, struct span pool, struct span server);

/* To be called about ten times a second: closes what is too old. Bounded work a call. */
void route_tick(struct route *r, msec now);

/* What a budget, a capacity or a server's leaving asks of the index, for a few ten microseconds. True: there is
 * more to do. To be called until it is false, after each route_tick(), by one thread. */
bool route_work(struct route *r);

/* ---- over a restart ------------------------------------------------------------------------- */

/* The index as bytes, in steps of snapshot_write(). NULL: no memory. */
struct snapshot_writer *route_snapshot(struct route *r, msec now, snapshot_put *put, void *arg);

/* What servers held, into an <r> that is new. -1: <e>, and nothing was changed. */
int route_restore(struct route *r, const uint8_t *bytes, size_t n, msec now, struct snapshot_stats *s,
		  struct err *e);

/* ---- what is known, for /metrics ------------------------------------------------------------ */

struct route_stats {
	uint64_t requests;		/* route at seq 0 */
	uint64_t slices;		/* route-N */
	uint64_t why[WHY_COUNT];
	uint64_t cut, headless_saved;	/* cut bodies; of them with a remembered head */
	uint64_t models[MODEL_FROM_COUNT];	/* messages <model>, by what was found */
	uint64_t bad_load;		/* load strings with an entry that made no sense */
	uint64_t slices_waiting, slices_bytes, slices_aged, slices_dropped, slices_again;
	uint64_t scans_shared, scans_lost;	/* bodies read once for two messages; read for the first of them alone */
	uint64_t slices_repeated;
	uint64_t firsts, dones, facts_unknown;	/* facts taken; for a uid not open */
	uint64_t failures[VERDICT_COUNT];	/* requests that servers failed, each once */
	uint64_t haproxy_errors[HAPROXY_ERRORS + 1];	/* log lines with an error; the last: a code without a name */
	uint64_t open;			/* ledger entries now */
	uint64_t closed_by_load, closed_by_silence, closed_by_age, closed_by_room;
	uint64_t pools_refused, servers_refused;
	uint64_t tokenized, tokens;	/* requests whose text was made into ids; ids of it */
	uint64_t tokenize_bounded_by[BOUNDS];
	uint64_t tokenize_failed, tokenize_bounded;	/* requests: it could not be; only its beginning was, the rest is too long */
	uint64_t tokens_compared, tokens_differed;	/* prompts of which the engine has told its count; another one than ours */
	uint64_t models_disagree;	/* of which some kind of request is in text mode for that, now */
	uint64_t chat_refused, chat_unknown;	/* conversations that the engine refuses; that stayed text, as what it makes of them is not known */
	uint64_t prompt_tokens, hit_tokens;	/* estimated, over all decisions that set a server */
	struct index_stats index;
	struct heads_stats heads;
	struct segcache_stats segments;
};

void route_stats(struct route *r, struct route_stats *s);

/* A kind of request of a model that has gone to text mode, for one tenant at least, as its engine counts other tokens than we do;
 * each once an hour at most. False: none. To be called a few times a second: what is shown of them is as of the last call. */
#define ROUTE_KIND_TEXT	128
struct route_disagreement {
	char model[PROMPT_NAME_MAX + 1];	/* as the configuration writes it */
	char kind[ROUTE_KIND_TEXT];		/* "chat system tools" */
	msec for_ms;				/* then it is tried again */
};
bool route_disagrees(struct route *r, msec now, struct route_disagreement *d);

/* Who says how large a server's cache is. */
enum capacity_source { CAPACITY_UNKNOWN, CAPACITY_GUESS, CAPACITY_INFERRED, CAPACITY_REPORTED, CAPACITY_CONFIGURED };

struct route_server_view {
	const char *pool, *name;
	server_id id;
	bool up;
	uint32_t weight, conn, queue, open;	/* as last seen in load; our own open requests */
	double backlog_s;
	double tokens_per_s;		/* its prefill, learned or as configured */
	double penalty;			/* requests; see penalty.h */
	uint64_t picked, hit_tokens, failures;
	uint64_t held_tokens;		/* of the pages it holds or claims */
	uint64_t output_tokens;		/* it generated them, and is believed to hold them yet */
	uint64_t room_tokens;		/* that are kept of it at most; 0: no bound but that of bytes */
	uint64_t capacity_tokens;	/* that its cache is taken to have; 0: not known */
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

struct route_pool_view {
	const char *name;
	bool imbalanced;
	const char *facts;	/* step of the fact ladder: "first", "end", "load", "none" */
	const char *mode;	/* "on", "shadow", "off" */
	uint64_t imbalance_transitions, requests;
	double pressure;
	uint64_t choices;	/* among candidates; each slice makes one */
	uint64_t dearer;	/* of them, those not for the server of the least cost */
	double regret_s;	/* what these cost more, by our own estimate */
};

/* Call back once for each, under a lock: be quick, and do not call route_... from within. */
void route_each_server(struct route *r, msec now,
		       void (*fn)(void *arg, const struct route_server_view *v), void *arg);
void route_each_shard(struct route *r, void (*fn)(void *arg, uint32_t i, const struct index_shard_stats *v),
		      void *arg);
void route_each_pool(struct route *r, void (*fn)(void *arg, const struct route_pool_view *v),
		     void *arg);

/* How the prompts of a model become pages, for each model that the options name, and for all others ("*"). */
struct route_model_view {
	const char *name;
	const char *mode;	/* "text"; "tokens"; "mixed": some kinds of request are text */
	uint32_t page;		/* tokens of one, where prompts are ids */
	uint32_t kinds_off;	/* kinds in text mode as counts differ, those of each tenant */
};

void route_each_model(struct route *r, void (*fn)(void *arg, const struct route_model_view *v), void *arg);

/* A kind of request of a model that is in text mode as counts differ, for how many tenants. */
struct route_kind_view {
	const char *model, *kind;
	uint32_t tenants;
};

void route_each_kind(struct route *r, void (*fn)(void *arg, const struct route_kind_view *v), void *arg);

/* What a rule that is compared would have done in a pool. */
struct route_compare_view {
	const char *pool, *rule;
	uint64_t choices, same, hit_tokens;
	double regret_s;
	/* by first tokens that were measured: outcomes.h */
	struct outcome_sums same_as, other, checked;
	bool gain_known;
	double gain_s, gain_error_s;
};

void route_each_compared(struct route *r, void (*fn)(void *arg, const struct route_compare_view *v), void *arg);

/* Where decisions and facts are recorded to; before any thread decides. <to> must live until the route does not. */
struct traffic;
void route_traffic(struct route *r, struct traffic *to);

/* The last decisions. NULL: none are kept. decisions.h; they lock themselves. */
struct decisions;
struct decisions *route_decisions(struct route *r);

/* ---- faults in how HAProxy is attached: problems.h ---------------------------------------------- */

/* No log line is expected: the agent does not listen for any. */
void route_without_feed(struct route *r);

/* A log line without JSON; one without a uid, with whatever else it says. */
void route_line_plain(struct route *r);
void route_line_nameless(struct route *r, const struct fact *f);

/* Bytes of another protocol came from <peer>. */
void route_stray(struct route *r, enum problem what, struct span peer);

/* What to log now; to be called a few times a second until it is false. */
bool route_problem_next(struct route *r, msec now, struct problem_event *e);

/* Call back for each kind of problem, with the pool "", and with each pool that has or had it. Under a lock, as above. */
void route_each_problem(struct route *r, void (*fn)(void *arg, const char *what, const char *pool, bool raised),
			void *arg);

/* Whether a fact with that uid would still teach anything: it is for whoever shows records, as who knows the uid
 * of a request that is open can tell lies of it. */
bool route_uid_counts(struct route *r, uint64_t uid_hash);
uint64_t route_uid_hash(const struct route *r, struct span uid);

#endif
