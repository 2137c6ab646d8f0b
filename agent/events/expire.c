/* expire.c - records of publishers that report no removals.
 *
 *   age of a slot      1 2 3 4 5 .  .  .         a holder's age is 5, and was 1 a time to live ago;
 *                      '--live--' '-used-'       the others belonged to slots that have expired
 *
 * A time to live has EVENTS_AGES parts. A slot has the number of the part in which it was stored
 * last, by 3 bits. With each new part the lines of the holder are looked at once, and slots from
 * before the time to live are removed. The next part begins after that, so that a number is used
 * again only once no slot has it. A slot that moved to a line that was looked at already is found
 * with the next part; there are three until its number is used again. */
#include "agent/events/events_in.h"

_Static_assert(EVENTS_AGES + 1 + 3 == AGES, "numbers of live slots, and three of expired ones");

void holder_expires(struct events *ev, uint32_t holder, msec ttl_ms)
{
	struct holder *h = &ev->holders[holder];

	if (h->ttl == 0 && ttl_ms > 0) {
		h->expiring_at = ev->n_expiring;
		h->aged_at = ev->now;
		h->swept = UINT32_MAX;
		ev->expiring[ev->n_expiring++] = (uint16_t)holder;
	} else if (h->ttl > 0 && ttl_ms <= 0) {
		ev->expiring[h->expiring_at] = ev->expiring[--ev->n_expiring];
		ev->holders[ev->expiring[h->expiring_at]].expiring_at = h->expiring_at;
	}
	h->ttl = ttl_ms > 0 ? ttl_ms : 0;
}

static void sweep_line(struct events *ev, struct pen *p, struct holder *h)
{
	struct slot s = { handles_line(ev, &h->map, h->swept), 0 };
	uint64_t word;

	for (; s.i < LINE_SLOTS; s.i++) {
		word = OWN(&s.line->word[s.i]);
		if (OWN(&s.line->run[s.i]) == 0 || ((h->map.age - WORD_AGE(word)) & (AGES - 1)) <= EVENTS_AGES)
			continue;
		if (record_set(ev, p, s, 0))
			COUNT(ev, expired, 1);
		else
			COUNT(ev, refused, 1);
	}
}

/* Begin the next part, if it is time. */
static bool next_part(const struct events *ev, struct holder *h)
{
	msec part = h->ttl / EVENTS_AGES > 0 ? h->ttl / EVENTS_AGES : 1;

	if (h->map.n == 0)
		h->aged_at = ev->now;
	if (ev->now - h->aged_at < part)
		return false;
	h->map.age = (h->map.age + 1) & (AGES - 1);
	h->aged_at += part;
	h->swept = 0;
	return true;
}

/* Look at lines of one holder. Returns what is left of <work>; 0: some lines may be left. */
static uint32_t sweep(struct events *ev, uint32_t holder, uint32_t work)
{
	struct holder *h = &ev->holders[holder];
	struct pen p = { .holder = holder };

	for (; work > 0; work--) {
		if (h->swept < h->map.n_lines) {
			sweep_line(ev, &p, h);
			h->swept++;
		} else if (!next_part(ev, h)) {
			break;
		}
	}
	pen_close(ev, &p);
	return work;
}

bool events_expire(struct events *ev, msec now, uint32_t work)
{
	uint32_t n = ev->n_expiring;

	ev->now = now;
	for (; n > 0; n--) {
		ev->expire_next = ev->expire_next < ev->n_expiring ? ev->expire_next : 0;
		if (work == 0 || (work = sweep(ev, ev->expiring[ev->expire_next], work - 1)) == 0)
			break;
		ev->expire_next++;
	}
	return n > 0;
}
