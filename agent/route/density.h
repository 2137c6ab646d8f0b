/* density.h - how many tokens a page of text is, model by model, as engines count prompts
 * ("usage.prompt_tokens").
 *
 * Where the agent has no tokenizer it takes 4 bytes of text for a token. English and code have
 * 3.5 to 4.5, other languages 1 to 3, so a cache of so many tokens holds fewer or more of their
 * pages. What a template adds around the text is in the measured count as well. Locked by the
 * router's lock, but for density_room(). */
#ifndef KVROUTE_ROUTE_DENSITY_H
#define KVROUTE_ROUTE_DENSITY_H

#include "agent/base/types.h"

#define DENSITY_MODELS	64	/* later ones stay at 4 bytes a token */
#define DENSITY_LEAST	8	/* prompts, before their measure counts */

struct density_model {
	uint64_t key;
	double bytes, tokens;		/* sums that fade: some 32 prompts count */
	uint32_t n;			/* prompts, DENSITY_LEAST at most */
	uint32_t room;			/* atomic: of 1024 bytes; 0: not measured yet */
};

struct density {
	uint32_t n;			/* atomic: of <of>, which only grows */
	struct density_model of[DENSITY_MODELS];
};

/* A whole prompt of model <key>, of <bytes> of text, was <tokens> to its engine. 0 of either
 * teaches nothing. */
void density_learn(struct density *d, uint64_t key, uint64_t bytes, uint64_t tokens);

/* The room that a page of <bytes> bytes of text takes, in parts of ROOM_OF_TOKEN; at least 1.
 * O(models). Any thread, without the lock. */
uint32_t density_room(const struct density *d, uint64_t key, uint32_t bytes);

#endif
