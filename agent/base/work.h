/* work.h - what one request may cost, in counted steps.
 *
 *   budget  |======== spent =========|------- left -------|        0 left: stop, and answer from what is known so far
 *             template   tokenizer
 *
 * A step is about 10 ns of a core of 2.5 GHz. Steps are charged where work is done, by what the text makes of it: tries of the
 * tokenizer, nodes of a template, limits of PCRE2. No clock is asked, so the same text stops at the same place on any machine. Each
 * price is a measured one and rather too high: `make bench-hostile` prints what a step took, for texts that were made to break it. */
#ifndef KVROUTE_BASE_WORK_H
#define KVROUTE_BASE_WORK_H

#include "agent/base/types.h"

#define WORK_ANY	UINT64_MAX	/* no bound */

struct work_left {
	uint64_t left;
};

static inline void work_spend(struct work_left *w, uint64_t steps)
{
	w->left = steps < w->left ? w->left - steps : 0;
}

/* Where nothing bounds it, it must not run out by and by. */
static inline void work_unbound(struct work_left *w)
{
	w->left = WORK_ANY;
}

static inline bool work_spent(const struct work_left *w)
{
	return w->left == 0;
}

#endif
