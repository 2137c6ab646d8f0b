/* member.c - which holders have which blocks of a run.
 *
 *   run.member:  ONE h7 11110000                     a single holder needs no more memory
 *            or  ARRAY -> [ ONE h7 11110000 | SET 11111100 -> bits of h1 h2 h3 ... | ONE h9 1101 ]
 *
 * A holder has at most one member of its own, or is in one set. Holders with the same blocks, as of
 * a system prompt, are put into a set when an array is full. A holder whose blocks change leaves
 * the set, and joins one again when its blocks are those of the set.
 *
 * An unused member has no blocks. It is given to another holder while it has none, and the version
 * of the run goes up before it has some: a reader cannot take the blocks of one for another's. */
#include "agent/events/events_in.h"

#define ARRAY_CLASS_MOST	CLASS_1024
#define SET_FROM		16u	/* members of a full array before sets are made */
#define SET_LEAST		8u	/* holders of a new set */

static uint32_t array_room(unsigned class)
{
	return LINE_BYTES / sizeof(struct member) << class;
}

static uint64_t array_desc(line_ref ref, unsigned class, uint32_t n)
{
	return (uint64_t)ref << 32 | (uint64_t)class << 13 | (uint64_t)n << 3 | MEMBER_ARRAY;
}

static uint64_t set_desc(line_ref ref, uint32_t n)
{
	return (uint64_t)ref << 32 | (uint64_t)n << 3 | MEMBER_SET;
}

static struct member *array_at(const struct events *ev, uint64_t desc)
{
	return line_at(ev, desc_ref(desc));
}

/* ---- walking ---- */

void member_first(const struct events *ev, struct run *r, struct member_walk *w)
{
	uint64_t desc = OWN(&r->member.desc);

	*w = (struct member_walk){ 0 };
	if (desc_kind(desc) == MEMBER_ARRAY) {
		w->at = array_at(ev, desc);
		w->left = desc_array_n(desc);
	} else if (desc_kind(desc) == MEMBER_ONE) {
		w->at = &r->member;
		w->left = 1;
	}
}

struct member *member_next(const struct events *ev, struct member_walk *w)
{
	struct member *m;

	for (;;) {
		if (w->left == 0) {
			if (w->more == 0)
				return NULL;
			w->at = array_at(ev, w->more);
			w->left = desc_array_n(w->more);
			w->more = 0;
			continue;
		}
		m = w->at++;
		w->left--;
		if (desc_kind(OWN(&m->desc)) != MEMBER_ARRAY)
			return m;
		w->more = OWN(&m->desc);
	}
}

uint64_t members_mask(const struct events *ev, struct run *r)
{
	struct member_walk w;
	struct member *m;
	uint64_t mask = 0;

	for (member_first(ev, r, &w); (m = member_next(ev, &w)) != NULL;)
		if (desc_kind(OWN(&m->desc)) != MEMBER_TIER)
			mask |= OWN(&m->mask);
	return mask;
}

struct member *member_find(const struct events *ev, struct run *r, uint32_t holder)
{
	struct member_walk w;
	struct member *m;
	uint64_t desc;

	for (member_first(ev, r, &w); (m = member_next(ev, &w)) != NULL;) {
		desc = OWN(&m->desc);
		if (OWN(&m->mask) == 0)
			continue;
		if (desc_kind(desc) == MEMBER_ONE ? desc_holder(desc) == holder :
		    desc_kind(desc) == MEMBER_SET && set_has(ev, desc_ref(desc), holder))
			return m;
	}
	return NULL;
}

struct member *member_tier(const struct events *ev, struct run *r, uint32_t holder, unsigned tier)
{
	struct member_walk w;
	struct member *m;
	uint64_t desc;

	for (member_first(ev, r, &w); (m = member_next(ev, &w)) != NULL;) {
		desc = OWN(&m->desc);
		if (desc_kind(desc) == MEMBER_TIER && OWN(&m->mask) != 0 && desc_holder(desc) == holder &&
		    desc_tier(desc) == tier)
			return m;
	}
	return NULL;
}

/* ---- adding ---- */

static void give_to(struct run *r, struct member *m, uint64_t desc, uint64_t mask)
{
	SET(&m->mask, 0);
	SET(&m->desc, desc);
	run_bump(r);
	SET(&m->mask, mask);
}

/* Put another array, of <class>, in the place of the first one and copy those members that have
 * blocks and are not of a holder in <leave>. Returns false if there is no room. */
static bool replace_array(struct events *ev, struct run *r, unsigned class,
    const uint64_t *leave, uint64_t set, uint64_t set_mask, enum slab_need need)
{
	uint64_t desc = OWN(&r->member.desc), d;
	struct member *from = array_at(ev, desc), *to;
	line_ref ref = slab_take(ev, class, need);
	uint32_t i, n = 0;

	if (ref == 0)
		return false;
	to = line_at(ev, ref);
	for (i = 0; i < desc_array_n(desc); i++) {
		d = OWN(&from[i].desc);
		if (OWN(&from[i].mask) == 0 && desc_kind(d) != MEMBER_ARRAY)
			continue;
		if (leave != NULL && desc_kind(d) == MEMBER_ONE &&
		    (leave[desc_holder(d) / 64] >> desc_holder(d) % 64 & 1) != 0)
			continue;
		SET(&to[n].mask, OWN(&from[i].mask));
		SET(&to[n++].desc, d);
	}
	if (leave != NULL) {
		SET(&to[n].mask, set_mask);
		SET(&to[n++].desc, set);
	}
	SET(&r->member.desc, array_desc(ref, class, n));
	run_bump(r);
	slab_give(ev, desc_ref(desc), desc_array_class(desc));
	return true;
}

/* Return the blocks that most holders of the first array have, each in a member of its own. */
static uint64_t usual_mask(const struct member *m, uint32_t n, uint32_t *most)
{
	uint32_t i, j, same;
	uint64_t usual = 0;

	for (i = 0, *most = 0; i < n; i++) {
		if (desc_kind(OWN(&m[i].desc)) != MEMBER_ONE || OWN(&m[i].mask) == 0 ||
		    OWN(&m[i].mask) == usual)
			continue;
		for (j = i, same = 0; j < n; j++)
			same += OWN(&m[j].mask) == OWN(&m[i].mask) &&
			    (OWN(&m[j].desc) & 7) == MEMBER_ONE &&
			    (OWN(&m[j].desc) & DESC_SEVERAL) == 0;
		if (same > *most) {
			*most = same;
			usual = OWN(&m[i].mask);
		}
	}
	return usual;
}

/* Put holders of the first array that have the same blocks into a new set. Returns false if they
 * are few, or if there is no room. */
static bool make_set(struct events *ev, struct run *r)
{
	uint64_t desc = OWN(&r->member.desc), members[WORDS_MAX] = { 0 }, mask, d;
	struct member *m = array_at(ev, desc);
	uint32_t i, n, w;
	_Atomic uint64_t *bits;
	line_ref set;

	mask = usual_mask(m, desc_array_n(desc), &n);
	if (n < SET_LEAST || (set = slab_take(ev, ev->set_class, TAKE_MORE)) == 0)
		return false;
	for (i = 0; i < desc_array_n(desc); i++) {
		d = OWN(&m[i].desc);
		if (desc_kind(d) == MEMBER_ONE && OWN(&m[i].mask) == mask && (d & DESC_SEVERAL) == 0)
			members[desc_holder(d) / 64] |= 1ull << desc_holder(d) % 64;
	}
	bits = line_at(ev, set);
	for (w = 0; w < ev->words; w++)
		SET(&bits[w], members[w]);
	if (!replace_array(ev, r, desc_array_class(desc), members, set_desc(set, n), mask, TAKE_MORE)) {
		slab_give(ev, set, ev->set_class);
		return false;
	}
	COUNT(ev, sets, 1);
	return true;
}

static struct member *unused(struct events *ev, struct run *r)
{
	struct member_walk w;
	struct member *m;

	for (member_first(ev, r, &w); (m = member_next(ev, &w)) != NULL;)
		if (OWN(&m->mask) == 0)
			return m;
	return NULL;
}

/* Make room for one more in the first array, which has no unused member. */
static bool array_grow(struct events *ev, struct run *r, enum slab_need need)
{
	uint64_t desc = OWN(&r->member.desc);
	unsigned class = desc_array_class(desc);
	struct member *to;
	line_ref ref;

	if (desc_array_n(desc) < array_room(class))
		return true;
	if (array_room(class) >= SET_FROM && make_set(ev, r))
		return true;
	if (class < ARRAY_CLASS_MOST)
		return replace_array(ev, r, class + 1, NULL, 0, 0, need);
	if ((ref = slab_take(ev, CLASS_64, need)) == 0)
		return false;
	to = line_at(ev, ref);
	SET(&to[0].mask, 0);
	SET(&to[0].desc, desc);
	SET(&r->member.desc, array_desc(ref, CLASS_64, 1));
	return true;
}

bool member_add(struct events *ev, struct run *r, uint64_t desc, uint64_t mask, enum slab_need need)
{
	uint64_t all = OWN(&r->member.desc);
	struct member *m;
	line_ref ref;

	if (desc_kind(all) == MEMBER_NONE && desc_kind(desc) == MEMBER_ONE) {
		give_to(r, &r->member, desc, mask);
		return true;
	}
	if ((m = unused(ev, r)) != NULL && (m != &r->member || desc_kind(desc) == MEMBER_ONE)) {
		give_to(r, m, desc, mask);
		return true;
	}
	if (desc_kind(all) == MEMBER_ARRAY) {
		if (!array_grow(ev, r, need))
			return false;
		all = OWN(&r->member.desc);
	} else {
		if ((ref = slab_take(ev, CLASS_64, need)) == 0)
			return false;
		m = line_at(ev, ref);
		SET(&m[0].mask, OWN(&r->member.mask));
		SET(&m[0].desc, all);
		all = array_desc(ref, CLASS_64, desc_kind(all) == MEMBER_ONE);
	}
	m = array_at(ev, all) + desc_array_n(all);
	SET(&m->mask, mask);
	SET(&m->desc, desc);
	SET(&r->member.desc,
	    array_desc(desc_ref(all), desc_array_class(all), desc_array_n(all) + 1));
	return true;
}

/* ---- removing ---- */

/* Free arrays that are empty. A last member of a holder goes back into the run. */
static void array_shrink(struct events *ev, struct run *r)
{
	uint64_t desc = OWN(&r->member.desc), below = 0;
	struct member *m = array_at(ev, desc);
	uint32_t n = desc_array_n(desc), was = n;
	uint64_t last;

	while (n > 0 && OWN(&m[n - 1].mask) == 0 && desc_kind(OWN(&m[n - 1].desc)) != MEMBER_ARRAY)
		n--;
	last = n == 1 ? OWN(&m[0].desc) : 0;
	if (n == 0)
		below = MEMBER_NONE;
	else if (desc_kind(last) == MEMBER_ARRAY)
		below = last;
	else if (desc_kind(last) == MEMBER_ONE)
		below = last;
	else if (n == was)
		return;
	else
		below = array_desc(desc_ref(desc), desc_array_class(desc), n);
	if (desc_kind(below) == MEMBER_ONE)
		SET(&r->member.mask, OWN(&m[0].mask));
	SET(&r->member.desc, below);
	run_bump(r);
	if (desc_ref(below) == desc_ref(desc) && desc_kind(below) == MEMBER_ARRAY)
		return;
	slab_give(ev, desc_ref(desc), desc_array_class(desc));
	if (desc_kind(below) == MEMBER_ARRAY)
		array_shrink(ev, r);
}

void member_remove(struct events *ev, struct run *r, struct member *m)
{
	SET(&m->mask, 0);
	if (m == &r->member) {
		SET(&r->member.desc, MEMBER_NONE);
		run_bump(r);
	} else {
		array_shrink(ev, r);
	}
}

/* ---- sets ---- */

void member_join_set(struct events *ev, struct run *r, struct member *m)
{
	uint64_t desc, own = OWN(&m->desc), bit = 1ull << desc_holder(own) % 64;
	struct member_walk w;
	_Atomic uint64_t *bits;
	struct member *set;

	if (m == &r->member || (own & DESC_SEVERAL) != 0)
		return;
	for (member_first(ev, r, &w); (set = member_next(ev, &w)) != NULL;) {
		desc = OWN(&set->desc);
		if (desc_kind(desc) != MEMBER_SET || OWN(&set->mask) != OWN(&m->mask))
			continue;
		bits = (_Atomic uint64_t *)line_at(ev, desc_ref(desc)) + desc_holder(own) / 64;
		SET(bits, OWN(bits) | bit);
		SET(&set->desc, set_desc(desc_ref(desc), desc_set_n(desc) + 1));
		member_remove(ev, r, m);
		return;
	}
}

void member_leave_set(struct events *ev, struct run *r, struct member *set, uint32_t holder)
{
	uint64_t desc = OWN(&set->desc), bit = 1ull << holder % 64;
	_Atomic uint64_t *bits = (_Atomic uint64_t *)line_at(ev, desc_ref(desc)) + holder / 64;

	SET(bits, OWN(bits) & ~bit);
	SET(&set->desc, set_desc(desc_ref(desc), desc_set_n(desc) - 1));
	if (desc_set_n(desc) > 1)
		return;
	member_remove(ev, r, set);
	run_bump(r);
	slab_give(ev, desc_ref(desc), ev->set_class);
	COUNT(ev, sets, -1);
}

/* ---- for tests ---- */

static const char *count_holders(const struct events *ev, const struct member *m, uint8_t *seen)
{
	uint64_t desc = OWN(&m->desc);
	uint32_t h, n = 0;

	if (desc_kind(desc) == MEMBER_ONE) {
		h = desc_holder(desc);
		return h < ev->max_holders && seen[h]++ == 0 ? NULL : "a holder is in a run twice";
	}
	for (h = 0; h < ev->max_holders; h++) {
		if (!set_has(ev, desc_ref(desc), h))
			continue;
		n++;
		if (seen[h]++ != 0)
			return "a holder is in a run twice";
	}
	return n > 0 && n == desc_set_n(desc) ? NULL : "a set counts other holders than it has";
}

const char *members_check(const struct events *ev, struct run *r)
{
	uint8_t seen[EVENTS_HOLDERS_MAX] = { 0 };
	const struct member *m, *one;
	struct member_walk w;
	const char *why;
	uint64_t desc;

	for (member_first(ev, r, &w); (m = member_next(ev, &w)) != NULL;) {
		desc = OWN(&m->desc);
		if (OWN(&m->mask) == 0)
			continue;
		if (desc_kind(desc) == MEMBER_TIER) {
			one = member_find(ev, r, desc_holder(desc));
			if (one == NULL || (OWN(&m->mask) & ~OWN(&one->mask)) != 0)
				return "a tier of a block that its holder does not have";
		} else if ((why = count_holders(ev, m, seen)) != NULL) {
			return why;
		}
	}
	return NULL;
}
