/* job.h - one slice of one request on its way through the front door. */
#ifndef KVROUTE_ROUTE_JOB_H
#define KVROUTE_ROUTE_JOB_H

#include "agent/route/internal.h"

#define JOB_GROWN	4	/* bands of a match, the deepest, that are looked at */

struct job {
	const struct route_opts *opts;
	struct route_scratch *scratch;
	msec now;
	bool no_compare;		/* the rules that only watch are left out */
	enum work_bound bound;		/* why it is no more */
	uint64_t *account;		/* of its tenant, in scratch->meter */
	struct work_left work;		/* what templates and tokenizers may still do for it */
	/* who asks, for what: of the request, or kept since its first slice */
	uint64_t uid, process;
	struct span pool, tenant, model, session, load;
	int64_t seq, visible, whole;
	const struct pool_opts *pool_opts;
	/* the body so far */
	struct sliced *sliced;		/* NULL: the whole body is in this one message */
	struct body *body;
	bool scanned;			/* by the message <model>, which its tenant has paid for */
	uint64_t heads_scope;		/* of which heads are; 0: of pool and tenant */
	const struct prompt *prompt;
	struct span raw;		/* what this message brought of it */
	bool cut, more;
	bool enough;			/* the rest of the body is not read */
	/* what it means */
	struct space_key space;
	bool headless, salted;
	bool lent;			/* a remembered head stood in for what was cut */
	bool aside;			/* a preview: no head is learned or lent */
	struct prompt_head *head;	/* remembered, or NULL */
	struct span space_model;
	const struct model_opts *model_opts;
	enum prompt_mode mode;		/* how its pages are made; not always as its body is */
	uint32_t page;			/* size of one: bytes, or ids */
	uint32_t n_pages;		/* in scratch->pages */
	uint32_t page_tokens;		/* tokens a page stands for */
	uint32_t usable;		/* pages that can be hit */
	struct words_news news;		/* of its tokens, for counters */
	int64_t wall_s;
	struct agree_ref agree;
	uint64_t density_key;		/* of its model, for struct density; 0: nothing to be compared */
	const token_id *ids;		/* of its pages, in scratch->words or ->talk; NULL: not one prompt of ids, or the scanner made its pages */
	size_t n_ids;
	struct grown_end end;		/* where it ends, for the next turn; .key 0: not known */
	uint32_t n_grown;
	struct job_grown { uint32_t depth; uint64_t key; } grown[JOB_GROWN];	/* where a turn before may have ended */
	bool part;			/* its ids are of a beginning: more stand behind, also when its prompt was seen whole */
	bool front_unseen;		/* ids of a conversation of which something may still come that goes in front of them */
	bool refused, unknown;		/* the engine answers it with an error; nobody here knows what its ids are */
	uint64_t tokens, unseen_tokens;	/* of what is visible; of the rest, estimated */
	struct policy_prompt asks;	/* the same, as rules see it */
	/* who could take it */
	struct pool *pool_seen;		/* NULL: one too many. Its inside under the route's lock only */
	bool has_own;			/* scratch->own is what its rule's memory knows */
	server_id previous;		/* what an earlier slice was told, or SERVER_NONE */
	uint64_t counted, counted_hit;	/* tokens, when it was */
	size_t n_candidates;		/* in scratch->candidates; their ids in <candidates> */
	struct server_set candidates;
	bool has_load, bad_load;	/* with an entry that made no sense */
	bool by_stats;			/* not from a load string: it came without one */
	struct policy_choice choice;
	/* what to say of it */
	bool described;			/* <asks> is set */
	struct policy_pressure pressure;	/* at the choice */
	double regret_s;
	uint64_t common_tokens;		/* of its prompt, that others in use have as well: job_share() */
	enum fact_step step;
	struct { enum why why; uint32_t hit, pages; } would;	/* the answer as it is without policy.mode */
	server_id to;			/* whose its pages are until a fact; SERVER_NONE: nobody's */
	struct ledger_pending pending;	/* what becomes of it until its claim is there */
};

/* Bytes of canonical text a token stands for, roughly, in English and code: 64-byte pages are then as
 * long as the 16-token blocks of the engines. */
#define TEXT_BYTES_PER_TOKEN	4

/* route.c: as <q> has it, nothing done yet. */
void job_start(struct route *r, struct route_scratch *s, const struct route_request *q, msec now, struct job *j);

/* job_work.c: what <j> may do, at most <most> steps; returns what that came to, for job_pay_work(), which returns the steps it did. */
uint64_t job_take_work(struct route *r, struct job *j, uint32_t most);
uint32_t job_pay_work(struct job *j, uint64_t had);
/* For going over the body, for the first time or once more. False: that was all the work it had. */
bool job_pay_scan(struct job *j);
/* Enough of a body in slices has come since the last decision for another one. */
bool job_is_due(const struct job *j);

/* What names the body of <j> between the messages <model> and <route>. */
struct scanned_key job_scanned_key(const struct route *r, const struct job *j, const struct route_request *q);

/* job_body.c: find or make the scanner and feed it. False: nobody waits for this slice; <j->more>: but for the next. */
bool job_take_body(struct route *r, struct job *j, const struct route_request *q);
/* Put the scanner where the next slice finds it, or let it go. */
void job_keep_body(struct route *r, struct job *j);

/* job_tokens.c: somebody may ask for the words of a body of <api> that comes in slices. */
bool job_wants_words(const struct route_opts *o, enum prompt_api api);
/* Its model wants pages of ids, and here they are, with <mode>, <page> and <tokens>. False: they are those of the scanner. */
bool job_token_pages(struct route *r, struct job *j);

/* Of a model with a tokenizer, for struct agree_ref. */
uint64_t job_agree_key(const struct route *r, const struct model_opts *m);

/* Whose text is in the cache of segments: what a tenant or a salt has brought there tells others nothing. */
uint64_t job_whose(const struct route *r, const struct job *j);

/* job_chat.c: the same for a conversation, of a model that has a template. Fills <out>, or says why not in <refused>, <unknown>. */
bool job_wants_raw(const struct route_opts *o, enum prompt_api api);
bool job_chat_ids(struct route *r, struct job *j, struct words_ids *out);

/* job_prompt.c: pages, space, lengths. WHY_COLD: there is a prompt; else NOPROMPT or BADBODY. */
enum why job_read_prompt(struct route *r, struct job *j);

/* What rules may look at. <with_body>: some rule asks for its hash, too. */
void job_describe(struct route *r, struct job *j, bool with_body);

/* job_fleet.c, under the route's lock: what the load string says, and who is a candidate. */
void job_take_load(struct route *r, struct job *j, struct settling *st);
void job_candidates(struct route *r, struct job *j);

/* job_grown.c: set <end> and <grown>, after the match and the marks. */
void job_ends(const struct route *r, struct job *j);
/* The lock is held. Pages that <s> holds after the first <depth>, which are all that the tree says. O(JOB_GROWN). */
uint32_t job_grown_pages(const struct route *r, const struct job *j, const struct server *s, uint32_t depth);

/* job_shared.c: set <shared> of the candidates, and <common_tokens>. O(candidates + marks). */
void job_share(struct route *r, struct job *j);

#endif
