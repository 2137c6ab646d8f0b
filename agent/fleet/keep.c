/* keep.c - weigh times against each other by the turns that contradict them. */
#include <math.h>

#include "agent/fleet/fade.h"
#include "agent/fleet/keep.h"

#define FADES		(63.0 / 64)	/* share of the evidence that stays with each turn */
#define STRENGTH	4.0	/* natural logarithm of the odds of one turn */
/* Evidence against each time, for each longer one: while turns show nothing, caches keep all. */
#define PRIOR		0.005

static double time_at(unsigned i)
{
	static const double quarters[] = { 1, 1.189207115002721, 1.4142135623730951, 1.681792830507429 };

	return ldexp(KEEP_SHORTEST_MS * quarters[i % 4], (int)(i / 4));
}

static bool taught_lately(const struct keep *k, uint64_t session)
{
	for (unsigned i = 0; i < KEEP_TEACHERS; i++)
		if (k->teacher[i] == session)
			return true;
	return false;
}

static void set_chances(struct keep *k)
{
	double least = INFINITY, all = 0, w[KEEP_TIMES];

	for (unsigned i = 0; i < KEEP_TIMES; i++) {
		w[i] = (double)k->against[i] + PRIOR * (KEEP_TIMES - 1 - i);
		least = w[i] < least ? w[i] : least;
	}
	for (unsigned i = KEEP_TIMES; i-- > 0;) {
		all += exp(STRENGTH * (least - w[i]));
		k->chance[i] = (float)all;
	}
	for (unsigned i = 0; i < KEEP_TIMES; i++)
		k->chance[i] /= (float)all;
}

void keep_learn(struct keep *k, uint64_t session, msec age, double share, msec now)
{
	float left = (float)(FADES * fade_left(k->at, now));

	if (session == 0 || taught_lately(k, session))
		return;
	k->teacher[k->next++ % KEEP_TEACHERS] = session;
	for (unsigned i = 0; i < KEEP_TIMES; i++)
		k->against[i] = k->against[i] * left +
		    (float)(time_at(i) > (double)age ? 1 - share : share);
	k->n = k->n * left + 1;
	k->at = now;
	set_chances(k);
}

double keep_chance(const struct keep *k, msec age, msec now)
{
	unsigned i = 0;

	if (k->n < KEEP_LEAST)
		return 1;
	while (i < KEEP_TIMES && time_at(i) <= (double)age)
		i++;
	return 1 - fade_left(k->at, now) * (i < KEEP_TIMES ? 1 - (double)k->chance[i] : 1);
}

msec keep_time(const struct keep *k, msec now)
{
	for (unsigned i = 0; i < KEEP_TIMES; i++)
		if (keep_chance(k, (msec)ceil(time_at(i)), now) < 0.5)
			return (msec)time_at(i);
	return -1;
}
