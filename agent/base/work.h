/* work.h - the work budget of one request, in counted steps.
 *
 *   budget  |======== spent =========|------- left -------|    none left: stop, answer from the
 *             template   tokenizer                             part that is done
 *
 * A step is about 10 ns on a 2.5 GHz core. Code charges steps for its own loops: attempts of the
 * tokenizer, nodes of a template, items of a pattern in PCRE2. No clock is read, so the same text
 * stops at the same place on every machine. Prices are measured and err on the high side; `make
 * bench-hostile` prints the time per step for texts made to break them. */
#ifndef KVROUTE_BASE_WORK_H
#define KVROUTE_BASE_WORK_H

#include "agent/base/types.h"

#define WORK_ANY	UINT64_MAX	/* unlimited */

struct work_left {
	uint64_t left;
};

/* Charge <steps>; the budget stops at 0. */
static inline void work_spend(struct work_left *w, uint64_t steps)
{
	w->left = steps < w->left ? w->left - steps : 0;
}

/* Make the budget unlimited again. Callers without a bound use this so that charges do not add
 * up. */
static inline void work_unbound(struct work_left *w)
{
	w->left = WORK_ANY;
}

/* Tell if nothing is left. */
static inline bool work_spent(const struct work_left *w)
{
	return w->left == 0;
}

#endif
