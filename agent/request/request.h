/* request.h - what a request is, read from its body: its space, pages and tokens, whether the body
 * is truncated, and why it has no pages.
 *
 *      message -> request_start() -> request_take_body() -> request_read_prompt() -> struct request
 *                 bytes              scanner, slices        model, ids or text, space
 *
 * What requests have in common is in struct request_env, and memory of one thread in struct
 * request_scratch. No server and no load is known here: request_preview() does all of it for one
 * body without a router. Pure: time and options are handed in. */
#ifndef KVROUTE_REQUEST_REQUEST_H
#define KVROUTE_REQUEST_REQUEST_H

#include "agent/base/work.h"
#include "agent/prompt/heads.h"
#include "agent/prompt/turns.h"
#include "agent/request/agree.h"
#include "agent/request/density.h"
#include "agent/request/meter.h"
#include "agent/request/model.h"
#include "agent/request/scanned.h"
#include "agent/request/slices.h"
#include "agent/request/space.h"
#include "agent/request/work_share.h"
#include "agent/tok/segcache.h"

/* ---- what requests have in common ---------------------------------------------------------- */

/* <models> points into options of the caller, which live until the next request_env_take() has
 * returned. */
struct request_opts {
	struct prompt_opts prompt;
	struct heads_opts heads;
	struct turns_opts turns;
	size_t segcache_max_bytes, slices_max_bytes;
	struct model_table models;
};

struct request_env {
	const struct hash_key *key;	/* the caller's; lives as long */
	struct request_opts opts;	/* the caller keeps them unchanged while a request is read */
	struct heads *heads;
	struct turns *turns;		/* NULL: nothing is remembered */
	struct slices slices;
	struct scanned scanned;
	struct segcache *segments;	/* NULL: no model has a tokenizer, or the cache has no room */
	struct tenant_numbers tenants;	/* changes with <opts> */
	struct agree agree;
	struct density density;
	/* Return the options of the model that <name> is a LoRA adapter of in <pool>; NULL: it is none.
	 * May be NULL. */
	const struct model_opts *(*adapter_base)(void *arg, struct span pool, struct span name);
	void *adapter_arg;
};

/* Returns -1 if there is no memory; request_env_fini() is to be called all the same. It does
 * nothing for a struct of zeros. */
int request_env_init(
    struct request_env *env, const struct request_opts *o, const struct hash_key *key);
void request_env_fini(struct request_env *env);

/* Take new options. Sizes of pages, heads and segment cache stay as they were. Returns -1 if there
 * is no memory; then nothing has changed. */
int request_env_take(struct request_env *env, const struct request_opts *o);

/* Wipe the segment cache if a tokenizer of <old> is not in the options any more. */
void request_env_drop_ids(struct request_env *env, const struct model_table *old);

/* Drop bodies whose next message has not come: slices put before <slices_then>, at most <most> of
 * them, and scanned bodies that are too old. */
void request_env_age(struct request_env *env, msec slices_then, unsigned most, msec now);

/* ---- memory of one thread ------------------------------------------------------------------ */

struct text_ids;
struct conversation;

struct request_scratch {
	struct body *body;
	struct page_vec pages;
	struct text_ids *text;			/* NULL: not needed so far */
	struct tok_scratch *tok;		/* the same */
	struct conversation *conversation;	/* the same */
	struct meter meter;
	char model[PROMPT_NAME_MAX + 1];
};

/* <s> is zeroed. Returns -1 if there is no memory. */
int request_scratch_init(
    struct request_scratch *s, const struct prompt_opts *o, const struct hash_key *key);
void request_scratch_fini(struct request_scratch *s);

/* Get the memory of the tokenizer, for which the first prompt in token mode would wait. Returns
 * false if there is none: then that prompt asks again. */
bool request_scratch_ready(struct request_scratch *s);

/* Wipe all that the last prompts left, with the tokenizer's cache of pieces. Meant for when no
 * request has come for a moment, because the next requests must fill that cache again. */
void request_scratch_wipe(struct request_scratch *s);

/* ---- one request --------------------------------------------------------------------------- */

/* What a message says; borrowed. */
struct request_message {
	uint64_t uid;			/* keyed hash */
	bool has_uid;
	struct span pool, path, tenant, model, body;
	int64_t seq;			/* number of this slice, from 0; -1: the body comes whole */
	int64_t visible, whole;		/* bytes that HAProxy can show; that the body has; -1: unknown */
	int64_t wall_s;			/* seconds since 1970, UTC: templates print the day */
};

/* Options of its pool. */
struct request_pool {
	bool isolate_tenants;		/* tenants share no cache */
	const char *model;		/* "": the body says */
	const char *caches;		/* pool whose spaces it shares; NULL or "": none, its own */
};

/* Number of ids that were made, and why not all; for counters. What slices do together counts
 * once. */
struct ids_news {
	bool made;		/* ids of text */
	/* the work or the number of ids is used up, or a text is too long to wait for its end */
	bool bounded;
	bool failed;
	uint64_t ids;
};

#define UNSEEN_TOKENS_MAX	(1u << 20)	/* the longest prompts that models of today take */

enum request_found {
	REQUEST_PROMPT,
	REQUEST_NO_PROMPT,	/* JSON, but nothing in it is a prompt */
	REQUEST_BAD_BODY	/* not JSON, or the engine rejects it */
};

struct request {
	struct request_env *env;
	struct request_scratch *scratch;
	msec now;
	int64_t wall_s;
	struct request_pool in;		/* set by the caller before request_read_prompt() */
	bool aside;			/* learns nothing and uses no head */
	bool lasting;			/* its bytes are remembered all the same (turns.h) */
	/* work */
	struct work_left work;		/* for templates and tokenizers */
	enum work_bound bound;
	uint64_t *account;		/* of its tenant, in scratch->meter */
	/* who sent it: from this message, or kept since the first slice */
	uint64_t uid;
	uint64_t process;		/* hash of the HAProxy process: kept for the caller */
	struct span pool, tenant, model;
	int64_t seq, visible, whole;
	/* the body so far */
	struct sliced *sliced;		/* NULL: the whole body is in this message */
	struct body *body;
	const struct prompt *prompt;
	struct span raw;		/* bytes of this message that were read */
	bool scanned;			/* already read for the message <model>, and paid for */
	uint64_t heads_scope;		/* scope its head was stored in then; 0: none */
	bool cut;			/* truncated so far */
	bool more;			/* another slice would help */
	bool enough;			/* the rest of the body is not read */
	bool waits;			/* nor is this slice yet: all is known, and no decision is due */
	/* what it means */
	struct space_key space;
	uint64_t cache_of;		/* space_cache_of() */
	struct span space_model;	/* in scratch->model, after request_read_prompt() */
	const struct model_opts *model_opts;
	bool is_adapter;		/* <space_model> is an adapter of it */
	bool headless;			/* truncated before its model, and no head is known */
	bool salted;
	bool lent;			/* a stored head stood in for parts not seen */
	bool refused;			/* the engine rejects the conversation */
	bool unknown;			/* the conversation's ids cannot be known */
	struct prompt_head *head;	/* while the prompt is read */
	struct request_head { bool due; uint64_t tenant, scope; } new_head;	/* to be stored at the end */
	bool new_turns;			/* <raw> is to be remembered at the end */
	enum prompt_mode mode;		/* of its pages; the body's own may differ */
	uint32_t page;			/* bytes or ids in one */
	uint32_t n_pages;		/* in scratch->pages */
	uint32_t page_tokens;		/* tokens that a page stands for */
	uint32_t usable;		/* pages that can be hit */
	uint64_t tokens;		/* of the visible part */
	uint64_t unseen_tokens;		/* of the rest, estimated; at most UNSEEN_TOKENS_MAX */
	/* its ids */
	/* of its pages; NULL: not one prompt of ids, or the scanner made the pages */
	const token_id *ids;
	uint64_t ids_from;		/* the first of <ids>; request_ids() has those before */
	size_t n_ids;			/* with those before */
	bool part;			/* the ids are of a beginning of the prompt */
	bool front_unseen;		/* something not seen yet may come before these ids */
	struct ids_news news;
	struct agree_ref agree;
	uint64_t density_key, density_tenant;	/* of its model and tenant, for struct density */
};

/* Set <rq> from <m>; nothing is read yet. */
void request_start(struct request *rq, struct request_env *env, struct request_scratch *s,
		   const struct request_message *m, msec now);

/* Find or make the scanner, and feed it. Returns false for a slice that no body waits for;
 * rq->more then tells if the body waits for the next one. */
bool request_take_body(struct request *rq, const struct request_message *m);

/* Return the <n> ids of the prompt from <from> on, or NULL if they are not known. Ids before
 * rq->ids_from cost as much as a first look at the conversation; they live as rq->ids. */
const token_id *request_ids(const struct request *rq, uint64_t from, uint64_t n);

/* The last step of a request, after which its bytes may change. Store the head of its body, what is
 * new in it (turns.h), and the scanner where the next slice finds it, or free that. */
void request_keep_body(struct request *rq);

/* Tell if enough of a body in slices has come since the last decision for another one. */
bool request_is_due(const struct request *rq);

/* Set the work that <rq> may cost, at most <most> steps, and charge it for reading the body.
 * Returns the steps before that charge, for request_pay_work(). */
uint64_t request_take_work(struct request *rq, uint32_t most);

/* Charge the tenant for all work done. Returns the steps. */
uint32_t request_pay_work(struct request *rq, uint64_t had);

/* Make pages, find the space and count tokens. All of <rq> is set after REQUEST_PROMPT. */
enum request_found request_read_prompt(struct request *rq);

/* Return the tenant that shares cache with no other, or "" if the pool does not isolate tenants. */
struct span request_tenant(const struct request *rq);

/* Return what names the body between the messages <model> and <route>. */
struct scanned_key request_scanned_key(const struct request *rq, const struct request_message *m);

/* Return the key of a model with a tokenizer, for struct agree_ref. */
uint64_t request_agree_key(const struct hash_key *key, const struct model_opts *m);

/* ---- without a router ---------------------------------------------------------------------- */

struct request_preview {
	enum request_found found;
	struct span model, lora;
	struct span tenant;		/* request_tenant() */
	bool headless, cut, salted;
	enum prompt_mode mode;
	uint32_t page;			/* size of one */
	uint32_t pages;
	uint64_t units;			/* bytes or tokens */
	struct space_key space;
	const page_key *keys;		/* <pages> of them, in <s> until its next use */
};

/* Read one whole body; nothing is stored. */
void request_preview(struct request_env *env, struct request_scratch *s,
    const struct request_message *m, const struct request_pool *in, struct request_preview *v);

#endif
