/* record.c - a record is a slot in the table of its holder and a bit of the holder's member in the
 * block's run. Both change here, together, with the copies in each tier. */
#include "agent/events/events_in.h"

static uint64_t copies_key(const struct events *ev, uint32_t holder, uint64_t word)
{
	return extra_key(ev, word & WORD_HASH, holder);
}

static void set_slot_tiers(struct slot s, unsigned tiers)
{
	SET(&s.line->word[s.i], (OWN(&s.line->word[s.i]) & ~15ull) | tiers);
}

uint32_t record_copies(const struct events *ev, uint32_t holder, struct slot s)
{
	uint64_t word = OWN(&s.line->word[s.i]);

	if (WORD_TIERS(word) != 0)
		return copies_in(WORD_TIERS(word));
	return (uint32_t)extras_get(&ev->copies, copies_key(ev, holder, word));
}

/* Return what a slot says of <copies>: without room for more, one copy in each tier. */
static unsigned note_copies(struct events *ev, uint32_t holder, uint64_t word, uint32_t copies)
{
	unsigned tiers = tiers_of(copies);

	if (copies == copies_in(tiers) ||
	    !extras_put(ev, &ev->copies, copies_key(ev, holder, word), copies))
		return tiers;
	return 0;
}

bool record_add(struct events *ev, struct pen *p, uint64_t hash, struct place at, uint32_t copies)
{
	struct handles *map = &ev->holders[p->holder].map;
	unsigned tiers = tiers_of(copies);
	struct slot s;

	pen_open(ev, p, p->holder, at.run);
	if (!pen_tiers(ev, p, at.off, 0, tiers)) {
		p->shrunk = true;
		return false;
	}
	if (!handles_add(ev, map, hash, at, tiers)) {
		pen_tiers(ev, p, at.off, tiers, 0);
		return false;
	}
	if (copies != copies_in(tiers)) {
		s = handles_find(ev, map, hash);
		set_slot_tiers(s, note_copies(ev, p->holder, hash, copies));
	}
	holder_count(ev, p->holder, 1);
	return true;
}

bool record_set(struct events *ev, struct pen *p, struct slot s, uint32_t copies)
{
	uint64_t word = OWN(&s.line->word[s.i]);
	unsigned was = WORD_TIERS(word), now = tiers_of(copies);
	struct place at = slot_place(s);

	if (was == 0)
		was = tiers_of(record_copies(ev, p->holder, s));
	if (was != now) {
		pen_open(ev, p, p->holder, at.run);
		if (!pen_tiers(ev, p, at.off, was, now))
			return false;
	}
	if (WORD_TIERS(word) == 0 && copies == copies_in(now))
		extras_put(ev, &ev->copies, copies_key(ev, p->holder, word), 0);
	if (copies != 0) {
		set_slot_tiers(s, note_copies(ev, p->holder, word, copies));
		return true;
	}
	handles_remove(ev, &ev->holders[p->holder].map, s);
	holder_count(ev, p->holder, -1);
	return true;
}

/* ---- for tests ---- */

static const char *check_slot(const struct events *ev, uint32_t h, struct slot s, uint64_t *handles)
{
	struct place at = slot_place(s);
	struct run *r = run_at(ev, at.run);
	uint32_t copies = record_copies(ev, h, s), several = pen_several(ev, h, at);
	const struct member *m;
	unsigned t, tiers = 1;

	if (copies == 0)
		return "a record without a copy";
	if (at.off >= shape_len(OWN(&r->shape)) || run_is_root(r))
		return "a record of a block that is not there";
	m = member_find(ev, r, h);
	if (m == NULL || (OWN(&m->mask) >> at.off & 1) == 0)
		return "a record of a block that its holder does not have";
	*handles += several == 1;
	if (several > 1)
		return NULL;
	for (t = 0; t < EVENTS_TIERS; t++) {
		m = member_tier(ev, r, h, t);
		tiers ^= m != NULL ? (unsigned)(OWN(&m->mask) >> at.off & 1) << t : 0;
	}
	return tiers == tiers_of(copies) ? NULL : "a block is in other tiers than its record";
}

/* Check that each record has its bit, and, by their numbers, that each bit has a record. */
const char *record_check(const struct events *ev)
{
	uint64_t single = 0, bits = 0, mask;
	uint32_t h, i, n_heads = 1u << (64 - ev->head_shift);
	struct member_walk w;
	const struct member *m;
	const char *why;
	line_ref ref;
	struct slot s;
	bool dying = false;

	for (h = 0; h < ev->max_holders; h++) {
		dying |= !ev->holders[h].used && ev->holders[h].map.n > 0;
		for (i = 0; ev->holders[h].used && i < ev->holders[h].map.n_lines; i++) {
			s.line = handles_line(ev, &ev->holders[h].map, i);
			for (s.i = 0; s.i < LINE_SLOTS; s.i++)
				if (OWN(&s.line->run[s.i]) != 0 && (why = check_slot(ev, h, s, &single)) != NULL)
					return why;
		}
	}
	for (i = 0; i < n_heads; i++) {
		for (ref = OWN(&ev->heads[i]); ref != 0; ref = OWN(&run_at(ev, ref)->chained)) {
			for (member_first(ev, run_at(ev, ref), &w); (m = member_next(ev, &w)) != NULL;) {
				mask = OWN(&m->mask);
				if (desc_kind(OWN(&m->desc)) == MEMBER_TIER)
					continue;
				bits += (uint64_t)__builtin_popcountll(mask) *
				    (desc_kind(OWN(&m->desc)) == MEMBER_SET ? desc_set_n(OWN(&m->desc)) : 1);
			}
		}
	}
	if (!dying && bits != single + ev->several.n)
		return "a holder has blocks without a record";
	return NULL;
}
