/* job.h - one slice of one request on its way through the front door. */
#ifndef KVROUTE_ROUTE_JOB_H
#define KVROUTE_ROUTE_JOB_H

#include "agent/route/internal.h"

struct job {
	const struct route_opts *opts;
	struct route_scratch *scratch;
	msec now;
	/* who asks, for what: of the request, or kept since its first slice */
	uint64_t uid, process;
	struct span pool, tenant, model, load;
	int64_t seq, visible, whole;
	const struct pool_opts *pool_opts;
	/* the body so far */
	struct sliced *sliced;		/* NULL: the whole body is in this one message */
	struct body *body;
	const struct prompt *prompt;
	bool cut, more;
	/* what it means */
	struct space_key space;
	bool headless, salted;
	bool lent;			/* a remembered head stood in for what was cut */
	bool aside;			/* a preview: no head is learned or lent */
	struct prompt_head *head;	/* remembered, or NULL */
	struct span space_model;
	uint32_t n_pages;		/* in scratch->pages */
	uint32_t page_tokens;		/* tokens a page stands for */
	uint32_t usable;		/* pages that can be hit */
	uint64_t tokens, unseen_tokens;	/* of what is visible; of the rest, estimated */
	/* who could take it */
	struct pool *pool_seen;		/* under the route's lock only */
	server_id previous;		/* what an earlier slice was told, or SERVER_NONE */
	uint64_t counted, counted_hit;	/* tokens, when it was */
	size_t n_candidates;		/* in scratch->candidates; their ids in <candidates> */
	struct server_set candidates;
	bool has_load;
	struct policy_choice choice;
};

/* Bytes of canonical text a token stands for, roughly, in English and code: 64-byte pages are then as
 * long as the 16-token blocks of the engines. */
#define TEXT_BYTES_PER_TOKEN	4

/* job_body.c: find or make the scanner and feed it. False: nobody waits for this slice; <j->more>: but for the next. */
bool job_take_body(struct route *r, struct job *j, const struct route_request *q);
/* Put the scanner where the next slice finds it, or let it go. */
void job_keep_body(struct route *r, struct job *j);

/* job_prompt.c: pages, space, lengths. WHY_COLD: there is a prompt; else NOPROMPT or BADBODY. */
enum why job_read_prompt(struct route *r, struct job *j);

/* job_fleet.c, under the route's lock: what the load string says, and who is a candidate. */
void job_take_load(struct route *r, struct job *j, struct settling *st);
void job_candidates(struct route *r, struct job *j);

#endif
