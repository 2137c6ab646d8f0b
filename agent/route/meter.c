#include "agent/route/meter.h"

static void halve(struct meter *m, msec now)
{
	uint64_t times;

	if (m->halved == 0 || now < m->halved)		/* the first time; or simulated time begins anew */
		m->halved = now;
	times = (uint64_t)(now - m->halved) / METER_HALF_MS;
	if (times == 0)
		return;
	m->halved += (msec)times * METER_HALF_MS;
	times = times < 63 ? times : 63;
	m->all >>= times;
	m->strangers >>= times;
	for (size_t i = 0; i < METER_PLACES; i++)
		m->place[i].used >>= times;
}

/* The place of <who>, or one that is free for it, or NULL. */
static struct meter_tenant *place_of(struct meter *m, uint64_t who, msec now)
{
	struct meter_tenant *set = &m->place[who % (METER_PLACES / METER_WAYS) * METER_WAYS], *free = NULL;

	for (unsigned i = 0; i < METER_WAYS; i++) {
		if (set[i].last != 0 && set[i].who == who)
			return &set[i];
		if (set[i].last == 0 || now - set[i].last >= METER_SILENT_MS)
			free = &set[i];
	}
	if (free != NULL)
		*free = (struct meter_tenant){ .who = who, .first = now };
	return free;
}

uint64_t *meter_account(struct meter *m, uint64_t who, msec now)
{
	struct meter_tenant *t;

	now = now > 0 ? now : 1;
	halve(m, now);
	if ((t = place_of(m, who, now)) == NULL)
		return &m->strangers;
	t->last = now;
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
