/* meter.c - accounts in two sets of ways, and a counting sketch for names without a place. */
#include "agent/request/meter.h"

#define SETS	(METER_PLACES / METER_WAYS)

/* Return how often <every> has passed since <*from>, and advance <*from> by that. It starts again
 * if simulated time does. */
static unsigned times_since(msec *from, msec every, msec now)
{
	uint64_t times;

	if (*from == 0 || now < *from)
		*from = now;
	times = (uint64_t)(now - *from) / (uint64_t)every;
	*from += (msec)times * every;
	return times < 31 ? (unsigned)times : 31;
}

static void halve_steps(struct meter *m, msec now)
{
	unsigned times = times_since(&m->halved, METER_HALF_MS, now);

	if (times == 0)
		return;
	m->all >>= times;
	m->strangers >>= times;
	for (size_t i = 0; i < METER_PLACES; i++)
		m->place[i].used >>= times;
	for (size_t i = 0; i < METER_NAMED; i++)
		m->named[i] >>= times;
}

static void halve_requests(struct meter *m, msec now)
{
	unsigned times = times_since(&m->aged, METER_ASKED_MS, now);

	if (times == 0)
		return;
	m->seen_all = 0;
	for (size_t i = 0; i < METER_SEEN; i++) {
		m->seen[0][i] >>= times;
		m->seen[1][i] >>= times;
		m->seen_all += m->seen[0][i];
	}
	for (size_t i = 0; i < METER_PLACES; i++)
		m->place[i].asked >>= times;
}

/* Return place <i> of the 2 * METER_WAYS that <who> may have. */
static struct meter_tenant *way(struct meter *m, uint64_t who, unsigned i)
{
	uint64_t set = i < METER_WAYS ? who % SETS : (who >> 32) % SETS;

	return &m->place[set * METER_WAYS + i % METER_WAYS];
}

static bool is_free(const struct meter_tenant *t, msec now)
{
	return t->last == 0 || now - t->last >= METER_SILENT_MS;
}

/* Count a request of <who>, which has no place. Returns at most how many it has sent lately,
 * without what others have probably added. */
static uint32_t count_seen(struct meter *m, uint64_t who)
{
	uint32_t *a = &m->seen[0][who >> 8 & (METER_SEEN - 1)],
		 *b = &m->seen[1][who >> 40 & (METER_SEEN - 1)];
	uint64_t noise = ++m->seen_all / METER_SEEN * 2;
	uint32_t least = ++*a;

	if (++*b < least)
		least = *b;
	return least > noise ? least - (uint32_t)noise : 0;
}

/* Give <who> another tenant's place. Returns NULL if none may be taken. */
static struct meter_tenant *place_for(struct meter *m, uint64_t who, msec now)
{
	struct meter_tenant *t, *least = way(m, who, 0);
	uint32_t asked;

	for (unsigned i = 0; i < 2 * METER_WAYS; i++) {
		t = way(m, who, i);
		if (is_free(t, now)) {
			*t = (struct meter_tenant){ .who = who, .first = now };
			return t;
		}
		if (t->asked < least->asked)
			least = t;
	}
	asked = count_seen(m, who);
	if (asked < least->asked + METER_MORE)
		return NULL;
	*least = (struct meter_tenant){ .who = who, .first = now, .asked = asked };
	return least;
}

static struct meter_tenant *place_of(struct meter *m, uint64_t who, msec now)
{
	struct meter_tenant *t;

	for (unsigned i = 0; i < 2 * METER_WAYS; i++) {
		t = way(m, who, i);
		if (t->last != 0 && t->who == who)
			return t;
	}
	return place_for(m, who, now);
}

uint64_t *meter_account(struct meter *m, uint64_t who, uint32_t number, msec now)
{
	struct meter_tenant *t;

	now = now > 0 ? now : 1;
	halve_steps(m, now);
	halve_requests(m, now);
	if (number > 0 && number < METER_NAMED)
		return &m->named[number];
	if ((t = place_of(m, who, now)) == NULL)
		return &m->strangers;
	t->last = now;
	t->asked++;
	return now - t->first >= METER_KNOWN_MS ? &t->used : &m->strangers;
}

uint64_t meter_allows(const struct meter *m, const uint64_t *account)
{
	uint64_t taken = m->all + *account;

	return taken < METER_CORE ? METER_CORE - taken : 0;
}

void meter_charge(struct meter *m, uint64_t *account, uint64_t steps)
{
	m->all += steps;
	*account += steps;
}
