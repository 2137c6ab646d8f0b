/* chain_holders.c - the holders of each chain.
 *
 * A line is a cache line of 15 entries and a head. Each record has an entry, found by its chain. A
 * chain with many holders gets a set of bits instead, so that a system prompt on a thousand servers
 * costs a reader a few words a block and not a thousand records. The holders of a chain are all of
 * its entries together: bits of a set, or the records that entries point to. A holder with two
 * handles for one chain (an engine that came back with another seed) is in the set with one and has
 * an entry for the other. Sets are for speed only: if there is no room for one, entries remain.
 *
 * A reader reads the version of the first line of a chain before and after. The version goes up
 * before anything is removed from the chain, in whatever line, because its place may be refilled
 * where the reader has been already. It goes up again before the removed record or set can be
 * reused. Additions need neither. So a reader that finds the same version twice misses no holder
 * that was there throughout and takes none for another. */
#include "agent/events/events_in.h"

#define PASSED_MOST	255u
#define VERSION		256u	/* one more version, in <head> */

static bool is_set(const struct events *ev, uint32_t entry)
{
	return (entry & REF_MASK) > ev->n_groups * GROUP;
}

static struct set *set_of(const struct events *ev, uint32_t entry)
{
	return set_at(ev, (entry & REF_MASK) - ev->n_groups * GROUP - 1);
}

static uint32_t load(_Atomic uint32_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static void store(_Atomic uint32_t *p, uint32_t v)
{
	atomic_store_explicit(p, v, memory_order_release);
}

static void bump_version(struct events *ev, uint64_t chain)
{
	struct line *ln = line_of(ev, chain, 0);

	store(&ln->head, load(&ln->head) + VERSION);
}

static void pass_line(struct line *ln)
{
	uint32_t head = load(&ln->head);

	if (head % VERSION < PASSED_MOST)
		store(&ln->head, head + 1);
}

static void unpass_lines(struct events *ev, uint64_t chain, unsigned hops)
{
	while (hops-- > 0) {
		struct line *ln = line_of(ev, chain, hops);
		uint32_t head = load(&ln->head);

		if (head % VERSION < PASSED_MOST)
			store(&ln->head, head - 1);
	}
}

/* ---- entries ---- */

/* The result of a walk over the lines of a chain. */
struct look {
	struct line *free_line, *set_line;
	unsigned free_at, free_hop, set_at, set_hop;
	unsigned n;				/* entries of records */
};

static void walk_lines(struct events *ev, uint64_t chain, struct look *l)
{
	uint32_t e, tag = chain_tag(chain);
	unsigned hop, i;

	*l = (struct look){ 0 };
	for (hop = 0; hop < LINES_MAX && hop < ev->n_lines; hop++) {
		struct line *ln = line_of(ev, chain, hop);

		for (i = 0; i < GROUP; i++) {
			e = load(&ln->entry[i]);
			if (e == 0 && l->free_line == NULL) {
				l->free_line = ln;
				l->free_at = i;
				l->free_hop = hop;
			}
			if (e == 0 || (e & ~REF_MASK) != tag)
				continue;
			if (!is_set(ev, e)) {
				l->n += rec_chain(rec_at(ev, e & REF_MASK)) == chain;
			} else if (atomic_load_explicit(&set_of(ev, e)->chain, memory_order_relaxed) == chain) {
				l->set_line = ln;
				l->set_at = i;
				l->set_hop = hop;
			}
		}
		if (load(&ln->head) % VERSION == 0 && l->free_line != NULL)
			return;
	}
}

static void add_at(struct events *ev, uint64_t chain, const struct look *l, uint32_t entry)
{
	unsigned hop;

	for (hop = 0; hop < l->free_hop; hop++)
		pass_line(line_of(ev, chain, hop));
	store(&l->free_line->entry[l->free_at], entry);
}

static void remove_at(struct events *ev, uint64_t chain, struct line *ln, unsigned at, unsigned hop)
{
	bump_version(ev, chain);
	store(&ln->entry[at], 0);
	bump_version(ev, chain);
	unpass_lines(ev, chain, hop);
}

static void remove_entry(struct events *ev, uint64_t chain, uint32_t entry)
{
	unsigned hop, i;

	for (hop = 0; hop < LINES_MAX; hop++) {
		struct line *ln = line_of(ev, chain, hop);

		for (i = 0; i < GROUP; i++) {
			if (load(&ln->entry[i]) == entry) {
				remove_at(ev, chain, ln, i, hop);
				return;
			}
		}
	}
}

/* ---- sets ---- */

static void set_bits(const struct events *ev, struct set *s, uint32_t holder, unsigned tiers)
{
	_Atomic uint64_t *w = &s->bits[holder / 64];
	uint64_t bit = 1ull << holder % 64, v;
	unsigned t;

	for (t = 0; t < EVENTS_TIERS; t++, w += ev->words) {
		v = atomic_load_explicit(w, memory_order_relaxed);
		atomic_store_explicit(w, tiers >> t & 1 ? v | bit : v & ~bit, memory_order_release);
	}
}

static bool in_set(const struct events *ev, const struct set *s, uint32_t holder)
{
	unsigned t;

	for (t = 0; t < EVENTS_TIERS; t++)
		if (atomic_load_explicit(
			&s->bits[t * ev->words + holder / 64], memory_order_relaxed) >>
			holder % 64 &
		    1)
			return true;
	return false;
}

static struct set *set_take(struct events *ev, uint64_t chain, uint32_t *number)
{
	struct set *s;
	uint32_t i;

	if (ev->free_set != 0) {
		*number = ev->free_set - 1;
		s = set_at(ev, *number);
		ev->free_set = s->next;
	} else if (ev->sets_used < ev->max_sets) {
		*number = ev->sets_used++;
		s = set_at(ev, *number);
	} else {
		return NULL;
	}
	for (i = 0; i < EVENTS_TIERS * ev->words; i++)
		atomic_store_explicit(&s->bits[i], 0, memory_order_release);
	/* last: a reader that comes by an old entry finds no bits of the old chain */
	atomic_store_explicit(&s->chain, chain, memory_order_release);
	s->n = 0;
	COUNT(ev, sets, 1);
	return s;
}

static void set_give(struct events *ev, struct set *s, uint32_t number)
{
	s->next = ev->free_set;
	ev->free_set = number + 1;
	COUNT(ev, sets, -1);
}

static void set_join(struct events *ev, struct set *s, struct rec *r)
{
	uint32_t who = rec_who(r);

	set_bits(ev, s, who_holder(who), tiers_of(who));
	store(&r->who, who | WHO_IN_SET);
	s->n++;
}

/* Replace the entries of a chain by a set: first add the set with all bits, then remove the
 * entries. */
static void make_set(struct events *ev, uint64_t chain)
{
	uint32_t e, number, n_recs = ev->n_groups * GROUP;
	unsigned hop, i, pass_no;
	struct set *s;
	struct look l;
	struct rec *r;

	walk_lines(ev, chain, &l);
	if (l.free_line == NULL || (s = set_take(ev, chain, &number)) == NULL)
		return;
	for (pass_no = 0; pass_no < 2; pass_no++) {
		for (hop = 0; hop < LINES_MAX && hop < ev->n_lines; hop++) {
			struct line *ln = line_of(ev, chain, hop);
			bool last = load(&ln->head) % VERSION == 0;

			for (i = 0; i < GROUP; i++) {
				e = load(&ln->entry[i]);
				if (e == 0 || (e & ~REF_MASK) != chain_tag(chain) || is_set(ev, e))
					continue;
				r = rec_at(ev, e & REF_MASK);
				if (rec_chain(r) != chain)
					continue;
				if (pass_no == 1 && (rec_who(r) & WHO_IN_SET) != 0)
					remove_at(ev, chain, ln, i, hop);
				else if (pass_no == 0 && !in_set(ev, s, who_holder(rec_who(r))))
					set_join(ev, s, r);
			}
			if (last)
				break;
		}
		if (pass_no == 0)
			add_at(ev, chain, &l, chain_tag(chain) | (n_recs + 1 + number));
	}
}

/* ---- what a record holds ---- */

static void remove_from_chain(struct events *ev, rec_ref ref)
{
	struct rec *r = rec_at(ev, ref);
	uint64_t chain = rec_chain(r);
	uint32_t number;
	struct set *s;
	struct look l;

	if ((rec_who(r) & WHO_IN_SET) == 0) {
		remove_entry(ev, chain, chain_tag(chain) | ref);
		return;
	}
	walk_lines(ev, chain, &l);
	s = set_of(ev, load(&l.set_line->entry[l.set_at]));
	number = (load(&l.set_line->entry[l.set_at]) & REF_MASK) - ev->n_groups * GROUP - 1;
	set_bits(ev, s, who_holder(rec_who(r)), 0);
	store(&r->who, rec_who(r) & ~WHO_IN_SET);
	if (--s->n > 0)
		return;
	remove_at(ev, chain, l.set_line, l.set_at, l.set_hop);
	set_give(ev, s, number);
}

static bool add_to_chain(struct events *ev, rec_ref ref)
{
	struct rec *r = rec_at(ev, ref);
	uint64_t chain = rec_chain(r);
	struct set *s;
	struct look l;

	walk_lines(ev, chain, &l);
	if (l.set_line != NULL) {
		s = set_of(ev, load(&l.set_line->entry[l.set_at]));
		if (!in_set(ev, s, who_holder(rec_who(r)))) {
			set_join(ev, s, r);
			return true;
		}
	}
	if (l.free_line == NULL)
		return false;
	add_at(ev, chain, &l, chain_tag(chain) | ref);
	if (l.n + 1 >= ev->to_set && l.set_line == NULL)
		make_set(ev, chain);
	return true;
}

bool held_update(struct events *ev, rec_ref ref, uint32_t copies)
{
	struct rec *r = rec_at(ev, ref);
	uint32_t who = rec_who(r);
	unsigned had = tiers_of(who), has = tiers_of(copies);
	struct look l;

	if ((had & ~has) != 0)
		bump_version(ev, rec_chain(r));
	store(&r->who, (who & ~0xffffu) | copies);
	if (had == has)
		return true;
	if (had == 0) {
		if (add_to_chain(ev, ref))
			return true;
		store(&r->who, who);
		return false;
	}
	if (has == 0) {
		remove_from_chain(ev, ref);
	} else if ((who & WHO_IN_SET) != 0) {
		walk_lines(ev, rec_chain(r), &l);
		set_bits(ev, set_of(ev, load(&l.set_line->entry[l.set_at])), who_holder(who), has);
	}
	return true;
}

/* ---- for tests ---- */

const char *held_check(const struct events *ev)
{
	uint32_t g, i, e, entries = 0, joined = 0, sets = 0, singles = 0, in_sets = 0;

	for (g = 0; g < ev->n_lines; g++) {
		for (i = 0; i < GROUP; i++) {
			e = load(&ev->lines[g].entry[i]);
			if (e != 0 && is_set(ev, e)) {
				sets++;
				joined += set_of(ev, e)->n;
			} else if (e != 0) {
				entries++;
				if (ev->tags[(((e & REF_MASK) - 1) / GROUP) * 16 + ((e & REF_MASK) - 1) % GROUP] == 0)
					return "an entry of a record that is gone";
				if ((rec_who(rec_at(ev, e & REF_MASK)) & WHO_IN_SET) != 0)
					return "a record in a set has an entry as well";
			}
		}
	}
	for (i = 0; i < ev->n_groups * GROUP; i++) {
		if (ev->tags[i / GROUP * 16 + i % GROUP] == 0)
			continue;
		if ((rec_who(&ev->recs[i]) & WHO_IN_SET) != 0)
			in_sets++;
		else
			singles++;
	}
	if (entries != singles || joined != in_sets)
		return "a record is among the holders of its chain twice or not at all";
	return sets == atomic_load(&ev->st.sets) ? NULL : "sets are lost";
}
