/* agree.h - whether our count of a prompt's tokens is the engine's own ("usage.prompt_tokens"), by model, tenant and kind of request.
 *
 * Ids that are not the engine's match nothing that its events tell, and pages of wrong length miss its blocks. A tokenizer or
 * template of another version shows in the count, but often for some kinds of request only: those with tools, or with thoughts.
 *
 *   a kind     the API, the roles that occur, tools, calls, thoughts, media, options of the template: enum prompt_shape
 *   a place    a kind of a model's requests, of one tenant, whose count has differed; most never get one
 *
 * A place that differs too often is in text mode for AGREE_OFF_MS, and twice as long each time that it happens again, up to
 * AGREE_OFF_MAX_MS; then it is tried anew. AGREE_LAST counts that are right free it, and so does another tokenizer or template, which makes another key.
 *
 * What a tenant sends says nothing of another tenant's requests, and a conversation counts as different once, however often it is
 * sent. Requests without a tenant are of one tenant: there an eighth of a kind's conversations must differ to turn it off for all.
 *
 * Bounded: AGREE_PLACES. When all places of a set are taken, what was compared longest ago goes, and those that are on before those
 * that are off. Locked by the router's lock, but for agree_any_off(). No call looks at more than AGREE_PLACES places. */
#ifndef KVROUTE_ROUTE_AGREE_H
#define KVROUTE_ROUTE_AGREE_H

#include "agent/prompt/prompt.h"

#define AGREE_MODELS	64	/* for one more, that met longest ago goes */
#define AGREE_WAYS	16	/* kinds of a tenant for a model, at most */
#define AGREE_PLACES	256	/* a multiple of AGREE_WAYS */
#define AGREE_LAST	64	/* counts that are looked at */
#define AGREE_LEAST	8	/* conversations that differ, before anything is concluded */
#define AGREE_ONE_IN	8	/* and more than one in so many counts */
#define AGREE_OFF_MS		600000
#define AGREE_OFF_MAX_MS	(36 * AGREE_OFF_MS)
#define AGREE_TELL_MS	3600000	/* a kind of a model is named once in that time, whatever tenants do */

/* What a request is compared as. */
struct agree_ref {
	uint64_t model;		/* of its name, tokenizer and template; 0: it is not compared */
	uint64_t who;		/* its tenant */
	uint32_t talk;		/* its conversation */
	uint16_t kind;		/* agree_kind() */
};

struct agree_place {
	uint64_t model, who;		/* <model> 0: free */
	uint64_t differ;		/* a bit for each of the last, newest lowest */
	msec last, until, told;		/* compared; off until then, 0: on; named in the log, 0: not yet */
	uint32_t talk[AGREE_LEAST];	/* conversations that differed lately */
	uint32_t n_talks;		/* ever */
	uint16_t kind;
	uint8_t n, times;		/* counts in <differ>, AGREE_LAST at most; times that it went off */
};

struct agree_model {
	uint64_t key;
	msec met;
	char name[PROMPT_NAME_MAX + 1];
};

struct agree {
	uint32_t n_models;
	struct agree_model models[AGREE_MODELS];
	struct agree_place place[AGREE_PLACES];
	uint32_t n_off;			/* atomic: places that are off, also those whose time is over */
	uint64_t compared, differed;
	msec now;			/* of agree_news(), for what is asked without a time */
};

/* Of what <p> has shown so far. */
uint16_t agree_kind(const struct prompt *p);
/* "chat system assistant tools"; ended by a NUL, cut at <cap>. */
void agree_kind_text(uint16_t kind, char *out, size_t cap);
#define AGREE_KIND_TEXT	128	/* room for any */

/* False: agree_off() is of none. Any thread, without the lock. */
static inline bool agree_any_off(const struct agree *a)
{
	return __atomic_load_n(&a->n_off, __ATOMIC_RELAXED) > 0;
}

/* Such requests are in text mode now. */
bool agree_off(const struct agree *a, const struct agree_ref *q, msec now);

/* <key> is that of model <name>. */
void agree_meet(struct agree *a, uint64_t key, const char *name, msec now);
void agree_learn(struct agree *a, const struct agree_ref *q, uint64_t ours, uint64_t theirs, msec now);

/* Places that are off now, as of the last agree_news(): of the model <key>, all kinds; of all models with any, each once. */
uint32_t agree_count_off(const struct agree *a, uint64_t key);
uint32_t agree_models_off(const struct agree *a);

/* Call back for each kind of a model that is off, with how many tenants it is off for. */
void agree_each_off(const struct agree *a, void (*fn)(void *arg, const char *model, uint16_t kind, uint32_t tenants), void *arg);

/* A kind of a model that went off and is to be told. False: none. */
struct agree_news {
	const char *model;		/* lives until the next agree_meet() */
	uint16_t kind;
	msec for_ms;
};
bool agree_news(struct agree *a, msec now, struct agree_news *out);

#endif
