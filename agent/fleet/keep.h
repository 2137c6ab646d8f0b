/* keep.h - how long the caches of a pool keep what nothing uses, learned from turns of sessions.
 *
 * A cache that evicts what was not used for longest keeps everything for about the same time, as
 * long as its load does not change (Che, Tung, Wang 2002: the characteristic time). So of turns of
 * sessions whose bodies are cut, where neither sizes of caches nor distances between uses are
 * known, the time since the last turn tells whether its server still has it:
 *
 *      a turn comes         its server had the session's last turn so long ago: its age
 *      its first token      came as soon as if that was cached, or as late as if not
 *
 * Each time that the caches may have is weighed by what contradicts it: ages below it that were
 * evicted, and those above it that were not. Old evidence fades, with each turn and with time, so
 * that long ages are tried again.
 *
 * A session whose hidden part is another one each time looks like a small cache. So no session
 * teaches twice among KEEP_TEACHERS turns that teach, and KEEP_LEAST turns teach nothing. That
 * keeps one odd session from deciding; it is no protection, because a client names as many
 * sessions as it likes. What bounds a client is that it teaches only of its own tenant:
 * fleet/unseen.h.
 *
 * Pure arithmetic, O(KEEP_TIMES). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_KEEP_H
#define KVROUTE_FLEET_KEEP_H

#include "agent/base/types.h"

#define KEEP_TIMES	64u	/* from KEEP_SHORTEST_MS, each a quarter of an octave above the one before */
#define KEEP_SHORTEST_MS	1000.0
#define KEEP_TEACHERS	8u
#define KEEP_LEAST	8u

struct keep {
	float against[KEEP_TIMES];	/* evidence against each time */
	float n;			/* turns in it; older ones weigh less */
	msec at;			/* of the last turn */
	float chance[KEEP_TIMES];	/* of this time or a longer one, as of the last turn */
	uint64_t teacher[KEEP_TEACHERS];	/* sessions that taught last; 0: none */
	uint32_t next;
};

/* A turn of <session> came <age> after what its server had of it was used; <share> of that was
 * cached, 0 .. 1. */
void keep_learn(struct keep *k, uint64_t session, msec age, double share, msec now);

/* Return the chance that what was last used <age> ago is still cached; 1: nothing is known. */
double keep_chance(const struct keep *k, msec age, msec now);

/* Return the time that the caches keep what nothing uses: the longest age with a chance of half or
 * more. -1: nothing is known, or it is known of no age that less is kept. */
msec keep_time(const struct keep *k, msec now);

#endif
