/* job_in.h - private to agent/route: one decision, from its request to its answer. */
#ifndef KVROUTE_ROUTE_JOB_IN_H
#define KVROUTE_ROUTE_JOB_IN_H

#include "agent/policy/prefill.h"
#include "agent/route/route_in.h"

#define JOB_GROWN	4	/* bands of a match, the deepest, that are looked up */

/* The best server of another pool to compute the prompt: prefill.c. */
struct job_prefill {
	struct prefill_offer offer;
	struct server *server;		/* NULL: none. Its content under the route's lock only */
	server_id id;
	uint64_t name;			/* its name_hash */
	uint64_t cached;		/* tokens expected in its cache */
	uint32_t depth;			/* pages */
	double wait_s;			/* of the work there */
	bool idle;			/* nothing waits there */
	double slowness, nominal_s, unseen_s, cost_s;
	struct { double wait_s, waiting; } press;	/* of its pool, for pool_press() */
	bool split;			/* it gets the prompt, and is in the ledger; then also: */
	struct pool *pool;
	uint64_t tokens, work_tokens;
	double transfer_s;
	struct ledger_pending pending;
	bool told;			/* siblings know such an entry that was taken back */
	uint32_t told_part;
	server_id previous;		/* server of that entry, or SERVER_NONE */
};

/* How the job is decided; the request itself is <rq>. */
struct job {
	struct request rq;
	const struct route_opts *opts;
	const struct pool_opts *pool_opts;
	struct route_scratch *scratch;
	struct span session, user, load, path;	/* arguments of the message */
	bool no_compare;		/* without the rules that are compared */
	/* what the index says */
	bool described;			/* <asks> is set */
	bool isolated;			/* it must not learn from events what others have sent */
	bool reported;			/* scratch->reported is of this prompt */
	bool reported_adapter;		/* its model is an adapter by events only: of those that name it */
	struct policy_prompt asks;	/* the prompt as rules see it */
	struct grown_end end;		/* end of the prompt, for the next turn; .key 0: unknown */
	uint32_t n_grown;
	/* where an earlier turn may have ended */
	struct job_grown { uint32_t depth; uint64_t key; } grown[JOB_GROWN];
	uint32_t grown_pages;		/* generated at <to>, and pages of this prompt from now on */
	msec grown_since;		/* end of that answer */
	bool has_own;			/* scratch->own is what its rule's memory knows */
	/* what an earlier slice has entered */
	server_id previous;		/* its answer, or SERVER_NONE */
	uint64_t previous_turn;		/* session that it was a turn of; 0: none */
	uint64_t counted, counted_hit, counted_best;	/* tokens in counters */
	/* who could get it */
	struct pool *pool_seen;		/* NULL: too many pools. Its content under the route's lock only */
	size_t n_candidates;		/* in scratch->candidates; their ids in <candidates> */
	struct server_set candidates;
	bool has_load, bad_load;	/* <bad_load>: some entry was wrong */
	bool by_stats;			/* load is from stats rows: there was no load string */
	struct session_turn turn;	/* .key 0: it has no session */
	bool named;			/* the client named the session */
	struct session_view view;
	bool stored;			/* it continues a response that only one server has */
	/* tokens of the prompt that this server has stored, which are before those of the body; counted as
	 * those of rq.tokens. Part of asks.tokens */
	uint64_t history;
	struct decision_server by_path;	/* has the response that its path names; or none */
	struct decision_server session_at;	/* of its last turn */
	/* what its server has, but counts as output: pages that it was let go of then, and tokens of the
	 * unseen part that came then */
	struct {
		uint32_t pages;
		msec since;
		bool all_hidden;	/* its prompt's count anew, as many as there may be */
		uint32_t hidden;	/* as they were counted */
		msec hidden_since;
	} taken_up;
	uint64_t common_tokens;		/* of its prompt, also in other prompts in use: job_share() */
	/* the choice */
	struct policy_choice choice;
	struct policy_pressure pressure;	/* at the choice */
	double regret_s;
	double nominal_s, expected_s;	/* to the first token of the choice: fleet/wait.h; -1: unknown */
	enum fact_step step;
	struct { enum why why; uint32_t hit, pages; } would;	/* the answer without policy.mode */
	bool seen_there;		/* <evidence> is for the size of the cache of <to> */
	struct capacity_sent evidence;
	server_id to;			/* holder of its pages until a fact; SERVER_NONE: none */
	bool entered;			/* it is in the ledger */
	struct ledger_pending pending;	/* what becomes of it before it is finished */
	index_claim claim;		/* of its pages, until then; 0: none */
	/* for siblings, if there are any and it was entered: share_put.c; <chain> also for the record */
	struct {
		double nominal_s, unseen_s;
		uint64_t tokens, work_tokens;
		uint32_t branched, taken_up;
		struct lesson lesson;
		const uint64_t *chain;	/* of its pages, as marks_of() writes it; NULL: no memory */
		const char *server;	/* NULL: the chosen one */
		bool elsewhere;		/* another server computes the prompt */
	} sent;
	bool told;			/* siblings know an entry of this uid that was taken back */
	uint32_t told_part;
	struct job_prefill prefill;
};

/* Working memory of one thread. */
struct route_scratch {
	struct request_scratch rq;
	struct index_match match;
	struct marks marks;
	struct events_match reports;	/* .hits NULL: not needed so far */
	uint32_t n_reports;		/* matches so far */
	uint32_t report_sizes[SOURCE_SIZES];	/* page sizes of the last one; 0: none */
	struct reported reported[SOURCES_MAX];
	struct page_vec report_pages;
	struct candidate candidates[SERVERS_MAX];
	uint32_t own[SERVERS_MAX];	/* tokens of each server in the memory of the pool's rule */
	char server[SERVER_NAME_MAX + 1], alt[SERVER_NAME_MAX + 1];
	char prefill[SERVER_NAME_MAX + 1], prefill_address[HOST_PORT_MAX + 1];
	struct compare_scratch compare;
	struct decision decision;
	uint64_t *chain;		/* of the prompt: mark_prompt(); NULL: none so far */
	uint32_t blocks[DECISION_BLOCKS_MAX];
	uint64_t recorded[TRAFFIC_BLOCKS_MAX];
	/* the last decision: route_begin() */
	bool unfinished;		/* route_finish() is due, and the options are locked until then */
	struct job job;
	struct settling settling;
	struct span uid;
	struct route_answer answer;
	uint64_t record;		/* its number; 0: none */
};

/* Return the number of chain hashes that <chain> has room for. */
static inline size_t route_chain_room(const struct route_opts *o)
{
	return o->index.max_pages / CHAIN_GROUP + 1;
}

/* Return the tokens of the prompt that its session has sent before, by the longest of its tails; 0:
 * unknown. */
static inline uint64_t job_sent_before(const struct job *j)
{
	uint64_t most = 0;

	for (unsigned k = 0; k < SESSION_TAILS && j->view.trusted; k++)
		most = j->view.held[k] > most ? j->view.held[k] : most;
	return most;
}

#define ANNOUNCED_MOST	16u	/* times what is seen: more never counts for others */

/* Return the tokens of the unseen part, at most <times> as many as were seen. */
static inline uint64_t job_unseen_of(const struct job *j, uint32_t times)
{
	uint64_t most = times * j->rq.tokens;

	return j->rq.unseen_tokens < most ? j->rq.unseen_tokens : most;
}

/* Return the tokens of the prompt that count for others: of the unseen ones at most as many as were
 * seen, because bytes that were announced may never come; or the share of more that came of other
 * such requests; or those that its session has sent before. With fewer the usual work of a request
 * seems small, so the price of work rises too far: simulated with 64 KB buffers and full caches,
 * agents waited 3.4 s for a first token instead of 1.2 if their sessions did not count. Only the
 * wait of its server, which drains, takes all of them. */
static inline uint64_t job_sure_tokens(const struct job *j)
{
	uint64_t before = job_sent_before(j);
	uint64_t came = (uint64_t)((double)job_unseen_of(j, ANNOUNCED_MOST) *
	    announced_share(&unseen_of(&j->pool_seen->unseen, (uint32_t)j->turn.tenant)->announced,
		j->rq.now));
	uint64_t sure = before > j->rq.tokens ? before : j->rq.tokens;

	sure = j->history + j->rq.tokens + (came > sure ? came : sure);
	return sure < j->asks.tokens ? sure : j->asks.tokens;
}

/* Tell if the time of the prompt must not teach the speed of its server: that needs its work, which
 * is unknown if most of it was not seen, or if no trusted session tells how much of the unseen part
 * is cached. Other rules were simulated, of chats in 16 KB buffers at load 0.8: with speeds of all
 * turns of trusted sessions and of no other cut request a first token took 14.8 s, as those alone
 * are no fair sample where queues are long; with this one 1.1 s. With speeds of all requests it was
 * 1.11 s, and any client could set them by a false length. */
static inline bool job_uncertain(const struct job *j)
{
	return j->rq.unseen_tokens > j->rq.tokens || (j->rq.unseen_tokens > 0 && !j->view.trusted);
}

#define HIDDEN_LEARNED	4u

/* Tell if its time does not even teach what is expected of others: of the unseen tokens only a
 * session that is trusted tells how many are computed, and one that brings many more than were seen
 * may announce bytes that are no text. Nor do announced lengths that were bounded, by the longest
 * prompt or by the largest cache: they are all alike, so nothing would seem new after the first.
 * With 16 KB most turns of agents teach it. */
static inline bool job_guessed(const struct job *j)
{
	uint64_t before = job_sent_before(j), announced = j->turn.tokens;

	return j->rq.unseen_tokens > 0 && (before == 0 || announced >= UNSEEN_TOKENS_MAX ||
	    announced > j->asks.tokens || announced > before + (uint64_t)HIDDEN_LEARNED * j->rq.tokens);
}

/* route.c: set <j> and <m> from <q>. */
void job_start(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
	       struct job *j, struct request_message *m);

/* take_back.c: undo what an earlier slice, or an earlier request of the same uid, has entered, with
 * the server's turn. Sets <previous> and what is counted of it. */
void job_take_back(struct route *r, struct job *j);
/* Remove the entry of the same uid. The lock is held. */
void job_take_entry_back(struct route *r, struct job *j, struct settling *st);

/* job_match.c: look the prompt up before the choice: in the index and in the memories of the
 * rules. */
void job_match(struct route *r, struct job *j);

/* choose.c: take the options of the request's pool. */
void job_enter_pool(struct job *j);
/* Choose among the servers that the load names: set <choice>, and what it was made from. Counts
 * and enters nothing. The lock is held. */
void job_choose(struct route *r, struct job *j, struct rng *rng);
/* Return the reason of a choice that was made, and of a body that was read: WHY_COLD if it has a
 * prompt. */
enum why why_of_choice(const struct job *j);
enum why why_of_found(enum request_found f);

/* chosen.c: choose, count and note the choice, and enter it in the ledger. The lock is held. */
void job_choose_server(struct route *r, struct job *j, struct settling *st);

/* Note after the answer, if <seen_there>, when its server used which marks. The lock is held. */
void job_note_marks(struct route *r, struct job *j);

/* Return the rules to compare. Returns NULL if there are none, or the request is to cost little. */
static inline struct compare *job_compared(const struct job *j)
{
	return j->pool_seen != NULL && !j->no_compare ? j->pool_seen->route->compare : NULL;
}

/* ledger_enter.c: close the oldest entries until there is room for one more; enter the request at
 * <s>, the chosen candidate <c>. <turn_before>: turn of <s> before this one. The lock is held. */
void job_ledger_room(struct route *r, struct job *j, struct settling *st);
void job_ledger_enter(struct route *r, struct job *j, struct server *s,
    const struct candidate *c, uint64_t turn_before);

/* job_answer.c: write the choice to <a>. The lock is held. */
void job_answer(struct route *r, struct job *j, struct route_answer *a);
/* Store the decision, and clear what <a> says about servers if the pool is not on. */
void job_hide_choice(struct job *j, struct route_answer *a);
/* Return <tokens> of a prompt as its engine counts them; and the other way round. */
uint64_t job_as_counted(const struct job *j, uint64_t tokens);
uint64_t job_as_taken(const struct job *j, uint64_t tokens);

/* commit.c: let the index, the rules and the siblings know what was decided. */
void job_tell_choice(struct route *r, struct job *j);
/* The last step of a decision: its claim goes to its entry, and facts of it may be learned. */
void job_finished(struct route *r, struct job *j);
/* Find the entry of <uid>. If this agent has decided on it and the decision is not finished, wait
 * for that. So what follows a request finds all that it leaves behind, whichever thread it comes
 * to. Returns NULL if there is none. The lock is held, and released in between; the thread may have
 * no unfinished decision itself. */
struct ledger_entry *finished_entry(struct route *r, uint64_t uid);
/* Store the claim in the entry of <uid>, which <p> is pending for. If the entry was settled while
 * the index committed, the claim is settled now. If there is no entry, no fact can settle it: then
 * it is confirmed, or cancelled in shadow mode. <claim> is 0 if the index had no room. */
void attach_claim(struct route *r, uint64_t uid, const struct ledger_pending *p,
    index_claim claim, server_id to, bool shadow, msec now);

/* learn.c: work for the index after one fact, to be done after the lock is released. */
struct outcome {
	index_claim prefill_claim;	/* at the server that computed the prompt; 0: none */
	bool prefill_confirm;
	bool theirs;		/* the fact came from a sibling */
	index_claim claim;
	bool confirm;
	server_id moved_to;	/* or SERVER_NONE */
	server_id at;		/* server that generated the answer */
	uint32_t output_tokens;
	uint32_t kept_tokens;	/* of these, in its cache */
	uint64_t stored;	/* key of the response that it stored; 0: none */
	uint32_t hidden_tokens;	/* of the prompt, in its cache, for which no page stands */
	struct server *answered_by;	/* of a known request; NULL: none, or unknown */
	bool ours;		/* this agent decided */
	bool tell;		/* siblings cannot know the fact: put it in <part> */
	uint32_t part;
};

/* Learn <f>. The lock is held. <uid> 0: it names no request. */
void learn_locked(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now);
/* Do the rest of it. Without the lock. */
void learn_settle(struct route *r, struct outcome *out, msec now);

/* share_apply.c: a fact <f> came for <uid>, which is not open. Returns false if it must not be
 * learned, because that was done already, or its PLACED is still to come. The lock is held. */
bool share_unopened(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now);

/* asked_model.c: tell if the name of a model may go into maps and logs of HAProxy, some of which
 * are JSON. Of a name that was too long only a hash is known. */
bool model_is_fit(struct span name);

/* wait.c: set the expected time to the first token of <s>, the chosen candidate <c>, which does not
 * have the request yet. It is unknown if no facts tell what has been answered. */
void job_wait(struct job *j, const struct server *s, const struct candidate *c);
/* The first token of <e> came; its headers came, as the log line <f> says. */
void wait_first(const struct ledger_entry *e, msec now);
void wait_headers(const struct ledger_entry *e, const struct fact *f, msec now);

/* ---- prefill.c: prompts that servers of another pool compute. The lock is held, except for
 * prefill_tell(). ------------------------------------------------------------------------------ */

/* Look for the best server for the prompt, if the pool has prefill servers. Uses
 * scratch->candidates, of which it leaves only the ids, so it comes before job_candidates(). */
void prefill_offer(struct route *r, struct job *j, struct rng *rng);
/* Enter the prompt at that server, because the choice is to split. Returns false, and nothing is
 * entered, if there is no memory. */
bool prefill_enter(struct route *r, struct job *j, const struct candidate *c);
/* Remove an entry of the same request. Returns its claim. */
index_claim prefill_take_back(struct route *r, struct job *j);
/* Learn from <f>, which came for the request <uid>. <e>: its entry, still open; or NULL. */
void prefill_fact(struct route *r, uint64_t uid, const struct ledger_entry *e, const struct fact *f,
    struct outcome *out, msec now);
/* Let the index and the siblings know. Before tell_choice() does so for the request itself, so that
 * an early fact finds both. */
void prefill_tell(struct route *r, struct job *j);
/* Return the seconds to the first token of the split request at <c>. <waiting_s>: wait there. */
double prefill_estimate_s(const struct job *j, const struct candidate *c, double waiting_s);

/* candidates.c: set the candidates from stats rows alone. */
void job_take_rows(const struct route *r, struct job *j);

/* lesson.c: change the penalty of <id>, which ended a request with <v>. <ours>: this agent decided
 * it; the others are in counters of their own agents. */
void judge_server(
    struct route *r, server_id id, enum verdict v, bool ours, msec sent, msec now);

/* hints.c: return how much more its answer weighs than a usual one, in units of 1 / WEIGHT_ONE. The
 * pool is known, and the lock held. */
int16_t job_extra(const struct job *j);
/* Return how patient its client is, 0 .. 1. */
double job_patience(const struct job *j);
/* An answer of <tokens> has ended in <p>. */
void hints_learn(struct pool *p, uint32_t tokens);

/* describe.c: set j->asks. <with_body>: some rule looks at the hash of the whole body. */
void job_describe(const struct route *r, struct job *j, bool with_body);

/* doubt.c: set what the first token of the request, which was sent to <c>, will tell. */
struct doubt job_doubt(const struct route *r, const struct job *j, const struct candidate *c);
/* The first token of <e> came: learn from it, before its server's capacity does. */
void doubt_first(const struct ledger_entry *e, msec now);

/* session.c: return a hash of the tenant, if the answer may be stored as a response; else 0. */
uint64_t job_stores(const struct route *r, const struct job *j);
/* Set <turn>, after the marks. */
void job_session(const struct route *r, struct job *j);
/* Look the session up, with the lock held. */
void job_session_look(const struct route *r, struct job *j);
/* If its path names a response that a server has stored which HAProxy reaches, answer that
 * server. */
void job_stored_by_path(struct route *r, struct job *j, struct route_answer *a);
/* If the request continues a response that a server has stored which HAProxy reaches, leave only
 * that as candidate. It may be drained. */
void job_stored(struct route *r, struct job *j);
/* Return the tail that left the most of the prompt in the cache of <s>; SESSION_TAILS: none did, or
 * it was evicted since. */
unsigned job_held_tail(const struct route *r, const struct job *j, const struct server *s);
/* Return the tokens of the unseen part that <s> is expected to hold: as its session had, or half of
 * them if no session tells. All visible pages match there. */
uint64_t job_unseen_held(const struct route *r, const struct job *j, const struct server *s);
/* Return the tokens after <cached> that <s> had of an earlier turn, and that were evicted for lack
 * of a size that is only inferred; set <chance> that it still has them. 0: none. */
uint64_t job_perhaps(const struct route *r, const struct job *j, const struct server *s,
    uint64_t cached, double *chance);
/* Return how many pages <s> has, of which the index says <depth>: more, if pages of an earlier turn
 * were let go. The lock is held. */
uint32_t job_let_go_depth(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth);
/* <s> was chosen: note what of it comes back to the index. The lock is held. */
void job_session_sent(struct route *r, struct job *j, const struct server *s);
/* Its pages were committed up to <end>: let the old path go, if the session was compacted. Without
 * the lock, as the next one. */
void job_session_placed(struct route *r, struct job *j, struct index_place end);
/* The same for the turn of <key> that went <to> a server. <v>: as it was before the turn. <keep>:
 * pages that the old path has in common with it. */
void session_placed(struct route *r, uint64_t key, server_id to, struct index_place end,
    const struct session_view *v, uint32_t keep, msec now);
/* Return the seconds that a new session will wait there for those that come back. */
double job_promised_s(const struct route *r, const struct job *j, const struct server *s);

/* candidates.c, under the route's lock: read the load string; set the candidates. */
void job_take_load(struct route *r, struct job *j, struct settling *st);
void job_candidates(struct route *r, struct job *j);
/* The same without a message: the servers of the last load string, or else of stats rows. */
void job_take_known(const struct route *r, struct job *j);

/* grown_match.c: set <end> and <grown>, after the match and the marks. */
void job_ends(const struct route *r, struct job *j);
struct job_grown_at {
	struct grown_place *place;
	uint32_t ids;			/* of the answer as the prompt brings it back; 0: unknown */
};

/* Return the pages that <s> holds after the first <depth>, which are all that the index says. If
 * there are any, <at> is set. The lock is held. O(ids of the answer). */
uint32_t job_grown_pages(const struct route *r, const struct job *j, const struct server *s,
    uint32_t depth, struct job_grown_at *at);

/* Return the pages that the index and the chain hashes count. */
static inline uint32_t marked_pages(const struct route *r, const struct job *j)
{
	uint32_t most = r->opts.index.max_pages;

	return j->rq.n_pages < most ? j->rq.n_pages : most;
}

/* copies.c: set <shared> of the candidates, and <common_tokens>. O(candidates + marks). */
void job_share(struct route *r, struct job *j);

/* explain.c: write what <a> says and why to <x>, with its blocks in the scratch. */
void explain_fill(struct route *r, const struct job *j, struct span uid,
    const struct route_answer *a, struct decision *x);
/* explain.c: record it. Returns the number of the record; 0: none are kept. Takes only the lock of
 * the ring. */
uint64_t explain(struct route *r, struct job *j, struct span uid, const struct route_answer *a);

/* traffic_put.c: record a decision that had a prompt, without a lock of the route's; and a fact.
 * <uid> 0: it has none. <output_tokens>: answer_tokens() of <f>. */
void traffic_job(struct route *r, const struct job *j);
void traffic_fact(
    struct route *r, uint64_t uid, const struct fact *f, uint32_t output_tokens, msec now);

/* ---- attached.c: what requests, facts and rows say of how HAProxy is attached: problems.h. The
 * route's lock is held, and its options are.
 * ------------------------------------------------------- */

/* After its load string was read. <prompt>: its body has one, or nobody looked. */
void attached_request(
    struct route *r, const struct job *j, const struct route_request *q, bool prompt);

/* <e>: its entry in the ledger as the decision left it, or NULL. */
void attached_fact(struct route *r, uint64_t uid, const struct ledger_entry *e,
		   const struct fact *f, msec now);

/* HAProxy has ended a request of <p> and no fact said so; its whole answer is on its way to the
 * client, so that a log line is due. */
void attached_unheard(struct route *r, struct pool *p);
void attached_answered(struct route *r, struct pool *p);

/* A stats row came for <s>, a server of <p>. */
void attached_engine(struct route *r, struct pool *p, struct span server, msec now);
void attached_row(struct route *r, struct pool *p, struct server *s, const struct hastats_row *row,
		  msec now);

#endif
