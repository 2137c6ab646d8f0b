/* pen.c - change the blocks of one holder in one run.
 *
 * Events name block after block of one run, so the holder's member is looked up once, its blocks
 * are changed in the pen, and one store shows all of them to readers.
 *
 * A holder that is in a set gets a member of its own before its blocks change. A holder may have
 * several handles for one block, from an engine that came back with another seed: then the extras
 * count the handles in each tier, and the block has the tiers of all of them. */
#include "agent/events/events_in.h"

#define SEVERAL_MOST	4000u	/* handles for one block */

static uint64_t one_desc(const struct events *ev, uint32_t holder)
{
	return (uint64_t)ev->stamp << 32 | (uint64_t)holder << 3 | MEMBER_ONE;
}

static uint64_t tier_desc(uint32_t holder, unsigned tier)
{
	return (uint64_t)tier << 16 | (uint64_t)holder << 3 | MEMBER_TIER;
}

static uint64_t several_key(const struct events *ev, uint32_t holder, line_ref run, uint32_t off)
{
	return extra_key(ev, (uint64_t)run << 8 | off, holder);
}

static void find_member(struct events *ev, struct pen *p)
{
	struct member *m = member_find(ev, p->r, p->holder);
	bool set = m != NULL && desc_kind(OWN(&m->desc)) == MEMBER_SET;

	p->own = set ? NULL : m;
	p->set = set ? m : NULL;
}

void pen_open(struct events *ev, struct pen *p, uint32_t holder, line_ref ref)
{
	unsigned t;

	if (p->ref == ref && p->holder == holder)
		return;
	pen_close(ev, p);
	*p = (struct pen){ .holder = holder, .ref = ref, .r = run_at(ev, ref) };
	find_member(ev, p);
	if (p->own != NULL || p->set != NULL)
		p->mask = OWN(p->own != NULL ? &p->own->mask : &p->set->mask);
	if (p->own != &p->r->member)
		for (t = 0; t < EVENTS_TIERS && !p->tiers; t++)
			p->tiers = member_tier(ev, p->r, holder, t) != NULL;
}

static void publish(struct events *ev, struct pen *p)
{
	if (p->dirty && p->mask != 0) {
		SET(&p->own->mask, p->mask);
	} else if (p->dirty) {
		member_remove(ev, p->r, p->own);
		p->own = NULL;
	}
	p->dirty = false;
}

void pen_close(struct events *ev, struct pen *p)
{
	bool changed = p->dirty || p->fresh;
	line_ref ref = p->ref;

	if (ref == 0)
		return;
	publish(ev, p);
	if (changed && p->own != NULL)
		member_join_set(ev, p->r, p->own);
	p->ref = 0;
	if (p->shrunk)
		run_trim(ev, ref);
}

/* Give the holder a member of its own, with <mask>. Returns false if there is no room. */
static bool make_own(struct events *ev, struct pen *p, uint64_t mask, enum slab_need need)
{
	struct member *m;

	if (mask != 0 && !member_add(ev, p->r, one_desc(ev, p->holder), mask, need))
		return false;
	if (p->set != NULL) {
		for (m = NULL; m == NULL || desc_kind(OWN(&m->desc)) != MEMBER_SET;) {
			struct member_walk w;

			for (member_first(ev, p->r, &w); (m = member_next(ev, &w)) != NULL;)
				if (desc_kind(OWN(&m->desc)) == MEMBER_SET && OWN(&m->mask) != 0 &&
				    set_has(ev, desc_ref(OWN(&m->desc)), p->holder))
					break;
		}
		member_leave_set(ev, p->r, m, p->holder);
	}
	find_member(ev, p);
	p->mask = mask;
	p->fresh = true;
	return true;
}

static bool set_mask(struct events *ev, struct pen *p, uint64_t mask)
{
	if (mask == p->mask)
		return true;
	if (p->own == NULL)
		return make_own(ev, p, mask, (mask & ~p->mask) == 0 ? TAKE_TO_REMOVE : TAKE_MORE);
	p->mask = mask;
	p->dirty = true;
	return true;
}

/* ---- tiers ---- */

static bool set_tier(struct events *ev, struct pen *p, unsigned tier, uint64_t bit, bool on)
{
	struct member *m = member_tier(ev, p->r, p->holder, tier);

	if (m == NULL)
		return !on || member_add(ev, p->r, tier_desc(p->holder, tier), bit, TAKE_MORE);
	SET(&m->mask, on ? OWN(&m->mask) | bit : OWN(&m->mask) & ~bit);
	if (OWN(&m->mask) == 0)
		member_remove(ev, p->r, m);
	return true;
}

/* Return the tiers of a block that the holder has. */
static unsigned tiers_at(const struct events *ev, struct pen *p, uint32_t off)
{
	unsigned tiers = 1, t;
	struct member *m;

	for (t = 0; p->tiers && t < EVENTS_TIERS; t++) {
		m = member_tier(ev, p->r, p->holder, t);
		if (m != NULL && (OWN(&m->mask) & bit_of(off)) != 0)
			tiers ^= 1u << t;
	}
	return tiers;
}

/* Note the tiers of a block, 0: none. Returns false if there is no room for all of them, and leaves
 * some of them noted. */
static bool note_tiers(struct events *ev, struct pen *p, uint32_t off, unsigned tiers)
{
	bool ok = true;
	unsigned t;

	publish(ev, p);
	p->tiers = true;
	for (t = 0; t < EVENTS_TIERS; t++)
		ok &= set_tier(ev, p, t, bit_of(off), tiers != 0 && (tiers >> t & 1) == (t > 0));
	find_member(ev, p);
	return ok;
}

/* ---- several handles for a block ---- */

static uint64_t several_add(uint64_t counts, unsigned tiers, bool add)
{
	unsigned t;

	for (t = 0; t < EVENTS_TIERS; t++)
		if ((tiers >> t & 1) != 0)
			counts += add ? 1ull << 12 * t : -(1ull << 12 * t);
	return counts;
}

static unsigned several_tiers(uint64_t counts)
{
	unsigned t, tiers = 0;

	for (t = 0; t < EVENTS_TIERS; t++)
		tiers |= (unsigned)((counts >> 12 * t & 0xfff) != 0) << t;
	return tiers;
}

/* Count one handle's change. Sets <*has> to the tiers of all. Returns false if there is no room. */
static bool count_several(struct events *ev, struct pen *p, uint32_t off, unsigned was,
    unsigned now, unsigned *has)
{
	uint64_t key = several_key(ev, p->holder, p->ref, off), all = extras_get(&ev->several, key);

	if (all == 0 && was != 0)
		return true;
	if (all == 0)
		all = several_add(1ull << 48, tiers_at(ev, p, off), true);
	if (was == 0 && all >> 48 >= SEVERAL_MOST)
		return false;
	all = several_add(several_add(all, was, false), now, true);
	all += was == 0 ? 1ull << 48 : 0;
	all -= now == 0 ? 1ull << 48 : 0;
	if (!extras_put(ev, &ev->several, key, all >> 48 > 1 ? all : 0))
		return false;
	*has = several_tiers(all);
	return true;
}

/* ---- both ---- */

static bool is_several(const struct pen *p)
{
	return p->own != NULL && (OWN(&p->own->desc) & DESC_SEVERAL) != 0;
}

/* What is not the usual: tiers besides the device, several handles, a set. */
static bool rare_tiers(struct events *ev, struct pen *p, uint32_t off, unsigned was, unsigned now)
{
	uint64_t bit = bit_of(off), mask;
	bool there = (p->mask & bit) != 0, ok = true;
	unsigned has = now, had = there ? tiers_at(ev, p, off) : 0;

	if (was == 0 && there && !is_several(p)) {
		publish(ev, p);
		if (p->own == NULL && !make_own(ev, p, p->mask, TAKE_MORE))
			return false;
		SET(&p->own->desc, OWN(&p->own->desc) | DESC_SEVERAL);
	}
	if (there && is_several(p) && !count_several(ev, p, off, was, now, &has))
		return false;
	mask = has != 0 ? p->mask | bit : p->mask & ~bit;
	if (has == 0 && !set_mask(ev, p, mask))
		return false;
	if (p->tiers || has > 1)
		ok = note_tiers(ev, p, off, has);
	if (ok && has != 0)
		ok = set_mask(ev, p, mask);
	p->shrunk |= has == 0;
	if (ok)
		return true;
	/* only a new tier or a new handle needs room, so there is room to go back */
	note_tiers(ev, p, off, had);
	if (there && is_several(p))
		count_several(ev, p, off, now, was, &has);
	return false;
}

bool pen_tiers(struct events *ev, struct pen *p, uint32_t off, unsigned was, unsigned now)
{
	uint64_t bit = bit_of(off);

	if (p->own == NULL || p->tiers || is_several(p) || (was | now) != 1 ||
	    (was == 0) == ((p->mask & bit) != 0))
		return rare_tiers(ev, p, off, was, now);
	p->mask ^= bit;
	p->dirty = true;
	p->shrunk |= now == 0;
	return true;
}

void pen_stamp(struct events *ev, struct pen *p)
{
	uint64_t desc;

	if (p->own == NULL)
		return;
	desc = OWN(&p->own->desc);
	if (desc >> 32 != ev->stamp)
		SET(&p->own->desc, (desc & ~DESC_STAMP) | (uint64_t)ev->stamp << 32);
}

void pen_drop_all(struct events *ev, uint32_t holder, line_ref ref)
{
	struct pen p = { 0 };
	struct member *m;
	uint64_t mask;
	unsigned t;

	if (run_is_root(run_at(ev, ref)))
		return;
	pen_open(ev, &p, holder, ref);
	if (p.own == NULL && p.set == NULL)
		return;
	for (mask = is_several(&p) ? p.mask : 0; mask != 0; mask &= mask - 1)
		extras_put(ev, &ev->several,
		    several_key(ev, holder, ref, (uint32_t)__builtin_ctzll(mask)), 0);
	for (t = 0; p.tiers && t < EVENTS_TIERS; t++)
		if ((m = member_tier(ev, p.r, holder, t)) != NULL)
			member_remove(ev, p.r, m);
	find_member(ev, &p);
	if (p.own != NULL)
		member_remove(ev, p.r, p.own);
	else
		member_leave_set(ev, p.r, p.set, holder);
	run_trim(ev, ref);
}

uint32_t pen_several(const struct events *ev, uint32_t holder, struct place p)
{
	uint64_t all = extras_get(&ev->several, several_key(ev, holder, p.run, p.off));

	return all != 0 ? (uint32_t)(all >> 48) : 1;
}
