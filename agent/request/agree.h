/* agree.h - whether our count of a prompt's tokens equals the engine's ("usage.prompt_tokens"), by
 * model, tenant and kind of request.
 *
 * Ids that are not the engine's match nothing that its events name, and pages of the wrong length
 * miss its blocks. A tokenizer or template of another version shows in the count, but often for
 * some kinds of request only: those with tools, or with thoughts.
 *
 *   a kind     the API, roles, tools, calls, thoughts, media, template options: enum prompt_shape
 *   a place    a kind of one tenant and model whose count has differed; most kinds never get one
 *
 * A place whose counts differ too often is in text mode for AGREE_OFF_MS, and twice as long each
 * time that it happens again, up to AGREE_OFF_MAX_MS. Then it is tried again. AGREE_LAST equal
 * counts in a row free it. Another tokenizer or template makes another key, and so another place.
 *
 * Requests of one tenant say nothing about those of another. A conversation counts as different
 * once, however often it is sent. Requests without a tenant count as one tenant: there an eighth of
 * a kind's conversations must differ to turn the kind off for all.
 *
 * Bounded: AGREE_PLACES. In a full set, places that are on are evicted before those that are off,
 * and of these the one that was compared longest ago. Locks itself. No call looks at more than
 * AGREE_PLACES places, or their square for reports. */
#ifndef KVROUTE_REQUEST_AGREE_H
#define KVROUTE_REQUEST_AGREE_H

#include <pthread.h>

#include "agent/prompt/prompt.h"

#define AGREE_MODELS	64	/* one more replaces the model met longest ago */
#define AGREE_WAYS	16	/* kinds of one tenant and model, at most */
#define AGREE_PLACES	256	/* a multiple of AGREE_WAYS */
#define AGREE_LAST	64	/* counts that are judged */
#define AGREE_LEAST	8	/* conversations that must differ */
#define AGREE_ONE_IN	8	/* and of the counts more than one in so many */
#define AGREE_OFF_MS		600000
#define AGREE_OFF_MAX_MS	(36 * AGREE_OFF_MS)
#define AGREE_TELL_MS	3600000	/* a kind of a model is reported once in that time, for all tenants */

/* What a request is compared as. */
struct agree_ref {
	uint64_t model;		/* hash of name, tokenizer and template; 0: it is not compared */
	uint64_t who;		/* its tenant */
	uint32_t conversation;
	uint16_t kind;		/* agree_kind() */
};

struct agree_place {
	uint64_t model, who;		/* <model> 0: free */
	uint64_t differ;		/* a bit for each of the last counts, newest lowest */
	msec last, until, told;		/* compared; off until then, 0: on; reported, 0: not yet */
	uint32_t conversation[AGREE_LEAST];	/* the last that differed */
	uint32_t n_conversations;	/* ever */
	uint16_t kind;
	uint8_t n, times;		/* counts in <differ>; times that it went off */
};

struct agree_model {
	uint64_t key;
	msec met;
	char name[PROMPT_NAME_MAX + 1];
};

struct agree {
	pthread_mutex_t lock;		/* guards all below; <n_off> is also read without it */
	uint32_t n_models;
	struct agree_model models[AGREE_MODELS];
	struct agree_place place[AGREE_PLACES];
	uint32_t n_off;			/* places that are off, or whose time off is over */
	uint64_t compared, differed;
	msec now;			/* of the last agree_news(), for calls without a time */
};

void agree_init(struct agree *a);
void agree_fini(struct agree *a);

/* Return the kind by what <p> has shown so far. */
uint16_t agree_kind(const struct prompt *p);
/* Write "chat system assistant tools" and a NUL to <out>, cut at <cap>. */
void agree_kind_text(uint16_t kind, char *out, size_t cap);
#define AGREE_KIND_TEXT	128	/* room for any */

/* Tell if such requests are in text mode now. Takes the lock only if any are. */
bool agree_off(struct agree *a, const struct agree_ref *q, msec now);

/* Name the model of <key>. */
void agree_meet(struct agree *a, uint64_t key, const char *name, msec now);
void agree_learn(
    struct agree *a, const struct agree_ref *q, uint64_t ours, uint64_t theirs, msec now);

/* Return how many places of model <key> are off, as of the last agree_news(). */
uint32_t agree_count_off(struct agree *a, uint64_t key);

struct agree_counts {
	uint64_t compared, differed;	/* prompts */
	uint32_t models_off;		/* with a place that is off, as of the last agree_news() */
};
void agree_counts(struct agree *a, struct agree_counts *c);

/* Call back for each kind of a model that is off, with the number of tenants it is off for. The
 * lock is held. */
void agree_each_off(struct agree *a,
    void (*fn)(void *arg, const char *model, uint16_t kind, uint32_t tenants), void *arg);

/* A kind of a model that went off and was not reported yet. */
struct agree_news {
	char model[PROMPT_NAME_MAX + 1];
	uint16_t kind;
	msec for_ms;
};
/* Returns false if there is none. */
bool agree_news(struct agree *a, msec now, struct agree_news *out);

#endif
