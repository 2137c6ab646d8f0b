/* agree.h - whether our count of a prompt's tokens is the engine's own ("usage.prompt_tokens"), model by model.
 *
 * Ids that are not the engine's match nothing that its events tell, and pages of wrong length miss its blocks. A tokenizer or
 * template of another version shows in the count, sooner or later. A model that disagrees too often goes back to text mode, until
 * it gets another tokenizer or template. Locked by the router's lock, but for agree_off(). */
#ifndef KVROUTE_ROUTE_AGREE_H
#define KVROUTE_ROUTE_AGREE_H

#include "agent/prompt/prompt.h"

#define AGREE_MODELS	64	/* later ones are not compared */
#define AGREE_LAST	64	/* that count */
#define AGREE_LEAST	8	/* before anything is concluded */
#define AGREE_ONE_IN	8	/* more than one in so many differ: it disagrees */

struct agree_model {
	uint64_t key;			/* of its name, tokenizer and template */
	uint64_t differ;		/* a bit for each of the last, newest lowest */
	uint32_t n;			/* of them, AGREE_LAST at most */
	bool off;			/* atomic */
	bool told;			/* agree_news() has named it */
	char name[PROMPT_NAME_MAX + 1];
};

struct agree {
	uint32_t n;			/* atomic: of <of>, which only grows */
	struct agree_model of[AGREE_MODELS];
	uint64_t compared, differed;
};

/* It is in text mode until something of <key> changes. Any thread, without the lock. */
bool agree_off(const struct agree *a, uint64_t key);

/* <key> is that of model <name>. */
void agree_meet(struct agree *a, uint64_t key, const char *name);
void agree_learn(struct agree *a, uint64_t key, uint64_t ours, uint64_t theirs);

uint32_t agree_count_off(const struct agree *a);	/* models that are off now */
/* The name of one that went off and was not named yet; NULL: none. */
const char *agree_news(struct agree *a);

#endif
