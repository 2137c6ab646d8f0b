/* density.h - how many tokens a page of text has, by model, learned from the engines' own counts
 * ("usage.prompt_tokens").
 *
 * Without a tokenizer the agent takes 4 bytes of text for a token. English and code have 3.5 to
 * 4.5, other languages 1 to 3, so a cache of so many tokens holds fewer or more of their pages.
 * The measured count includes what a template adds around the text.
 *
 * What is learned depends on what clients send, so tenants are kept apart, in DENSITY_PARTS parts
 * by keyed hash. A part that has learned enough has its own measure. Others have the median of
 * those that have, which one tenant cannot move beyond the others' measures if there are three or
 * more. A prompt counts for at most an eighth of those before it.
 *
 * The caller serializes calls of density_learn(); density_room() needs no lock. */
#ifndef KVROUTE_REQUEST_DENSITY_H
#define KVROUTE_REQUEST_DENSITY_H

#include "agent/base/types.h"

#define DENSITY_MODELS	64	/* further ones stay at 4 bytes a token */
#define DENSITY_LEAST	8	/* prompts of a part before its measure counts */
#define DENSITY_PARTS	16u

struct density_part {
	double bytes, tokens;		/* sums that fade: about 32 prompts count */
	uint32_t n;			/* prompts, DENSITY_LEAST at most */
	uint32_t room;			/* atomic: of 1024 bytes; 0: not measured yet */
};

struct density_model {
	uint64_t key;
	uint32_t room;			/* atomic: median of the parts; 0: none is measured */
	struct density_part part[DENSITY_PARTS];
};

struct density {
	uint32_t n;			/* atomic: of <of>, which only grows */
	struct density_model of[DENSITY_MODELS];
};

/* Learn from a whole prompt of model <key>, by a tenant of this keyed hash: <bytes> of text were
 * <tokens> to its engine. Does nothing if either is 0. O(models + parts). */
void density_learn(
    struct density *d, uint64_t key, uint64_t tenant, uint64_t bytes, uint64_t tokens);

/* Return the room of a page of <bytes> bytes of that tenant's text, in parts of ROOM_OF_TOKEN; at
 * least 1. O(models). Any thread, without a lock. */
uint32_t density_room(const struct density *d, uint64_t key, uint64_t tenant, uint32_t bytes);

#endif
