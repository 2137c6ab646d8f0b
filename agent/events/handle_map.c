/* handle_map.c - find records by handle: open addressing over groups of 15, and the list of each
 * holder.
 *
 * The 16 bytes of a group say which of its records are used (a tag of the hash, never 0) and how
 * many records passed it because it was full. A lookup ends at the first group that no record has
 * passed. So a removal moves nothing, which readers would notice, and leaves no tombstone. A count
 * of 255 is never lowered; lookups then go one group too far.
 *
 * A record keeps 51 bits of its hash beside the tag, including those of its home group, so that it
 * can be removed when only its place is known. */
#include <endian.h>

#include "agent/events/events_in.h"

#define PASSED		15u		/* index of this count in the bytes of a group */
#define PASSED_MOST	255u
#define EACH_BYTE	0x0101010101010101ull

static uint8_t *group_of(const struct events *ev, uint32_t g)
{
	return ev->tags + (size_t)g * 16;
}

static uint32_t home_of(const struct events *ev, uint32_t hash32)
{
	return (uint32_t)((uint64_t)hash32 * ev->n_groups >> 32);
}

static uint32_t next_group(const struct events *ev, uint32_t g)
{
	return g + 1 == ev->n_groups ? 0 : g + 1;
}

static uint8_t tag_of(uint64_t hash)
{
	return (uint8_t)hash != 0 ? (uint8_t)hash : 1;
}

static bool is_it(const struct rec *r, uint32_t holder, uint64_t hash)
{
	uint32_t who = rec_who(r);

	return r->hash == (uint32_t)(hash >> 32) && r->older >> REF_BITS == (hash >> 24 & 0xff) &&
	       r->newer >> REF_BITS == (hash >> 16 & 0xff) && who >> WHO_HASH_SHIFT == (hash >> 13 & 7) &&
	       who_holder(who) == holder;
}

/* Return the high bit of each byte of <w> that equals <tag>; bytes above such a byte may be set by
 * mistake. */
static uint64_t bytes_like(uint64_t w, uint8_t tag)
{
	w ^= EACH_BYTE * tag;
	return (w - EACH_BYTE) & ~w & EACH_BYTE << 7;
}

rec_ref map_find(const struct events *ev, uint32_t holder, uint64_t hash)
{
	uint32_t g = home_of(ev, (uint32_t)(hash >> 32)), looks, half, i;
	uint8_t tag = tag_of(hash);
	uint64_t w, like;

	for (looks = 0; looks < ev->n_groups; looks++, g = next_group(ev, g)) {
		const uint8_t *t = group_of(ev, g);

		for (half = 0; half < 2; half++) {
			memcpy(&w, t + 8 * half, 8);
			for (like = bytes_like(le64toh(w), tag); like != 0; like &= like - 1) {
				i = 8 * half + (uint32_t)__builtin_ctzll(like) / 8;
				if (i < GROUP && t[i] == tag && is_it(&ev->recs[g * GROUP + i], holder, hash))
					return g * GROUP + i + 1;
			}
		}
		if (t[PASSED] == 0)
			break;
	}
	return 0;
}

void map_ask_tags(const struct events *ev, uint64_t hash)
{
	__builtin_prefetch(group_of(ev, home_of(ev, (uint32_t)(hash >> 32))));
}

/* Prefetch the record with the tag, or the place that a new one would get. */
void map_ask_record(const struct events *ev, uint64_t hash)
{
	uint32_t g = home_of(ev, (uint32_t)(hash >> 32)), i, at = GROUP;
	const uint8_t *t = group_of(ev, g);

	for (i = 0; i < GROUP && t[i] != tag_of(hash); i++)
		if (t[i] == 0 && at == GROUP)
			at = i;
	at = i < GROUP ? i : at;
	if (at < GROUP)
		__builtin_prefetch(&ev->recs[g * GROUP + at], 1);
}

void map_ask_list(const struct events *ev, rec_ref ref)
{
	const struct rec *r = rec_at(ev, ref);

	if ((r->older & REF_MASK) != 0)
		__builtin_prefetch(rec_at(ev, r->older & REF_MASK), 1);
	if ((r->newer & REF_MASK) != 0)
		__builtin_prefetch(rec_at(ev, r->newer & REF_MASK), 1);
}

/* ---- the list of a holder ---- */

static void set_older(struct events *ev, rec_ref r, rec_ref to)
{
	struct rec *rec = rec_at(ev, r);

	rec->older = (rec->older & ~REF_MASK) | to;
}

static void set_newer(struct events *ev, rec_ref r, rec_ref to)
{
	struct rec *rec = rec_at(ev, r);

	rec->newer = (rec->newer & ~REF_MASK) | to;
}

static void list_add(struct events *ev, struct holder *src, rec_ref ref, rec_ref before)
{
	rec_ref older = before != 0 ? rec_at(ev, before)->older & REF_MASK : src->newest;

	set_older(ev, ref, older);
	set_newer(ev, ref, before);
	if (older != 0)
		set_newer(ev, older, ref);
	else
		src->oldest = ref;
	if (before != 0)
		set_older(ev, before, ref);
	else
		src->newest = ref;
}

static void list_remove(struct events *ev, struct holder *src, rec_ref ref)
{
	rec_ref older = rec_at(ev, ref)->older & REF_MASK, newer = rec_at(ev, ref)->newer & REF_MASK;

	if (older != 0)
		set_newer(ev, older, newer);
	else
		src->oldest = newer;
	if (newer != 0)
		set_older(ev, newer, older);
	else
		src->newest = older;
}

void map_touch(struct events *ev, rec_ref ref, rec_ref before)
{
	struct holder *src = &ev->holders[who_holder(rec_who(rec_at(ev, ref)))];

	if (ref == before || (rec_at(ev, ref)->newer & REF_MASK) == before)
		return;
	list_remove(ev, src, ref);
	list_add(ev, src, ref, before);
}

/* ---- adding and removing ---- */

static uint32_t free_place(struct events *ev, uint32_t home)
{
	uint32_t g, i;

	for (g = home;; g = next_group(ev, g)) {
		uint8_t *t = group_of(ev, g);

		for (i = 0; i < GROUP; i++)
			if (t[i] == 0)
				return g * GROUP + i;
		if (t[PASSED] < PASSED_MOST)
			t[PASSED]++;
	}
}

rec_ref map_add(struct events *ev, uint32_t holder, uint64_t hash, uint64_t chain, rec_ref before)
{
	uint32_t i = free_place(ev, home_of(ev, (uint32_t)(hash >> 32)));
	struct holder *src = &ev->holders[holder];
	struct rec *r = &ev->recs[i];

	group_of(ev, i / GROUP)[i % GROUP] = tag_of(hash);
	r->hash = (uint32_t)(hash >> 32);
	r->older = (uint32_t)(hash >> 24 & 0xff) << REF_BITS;
	r->newer = (uint32_t)(hash >> 16 & 0xff) << REF_BITS;
	atomic_store_explicit(&r->chain, chain, memory_order_release);
	atomic_store_explicit(&r->who,
	    (uint32_t)(hash >> 13 & 7) << WHO_HASH_SHIFT | holder << WHO_HOLDER_SHIFT,
	    memory_order_release);
	list_add(ev, src, i + 1, before);
	ev->n_recs++;
	src->n++;
	ev->server_recs[src->server] += src->used;
	COUNT(ev, records, 1);
	return i + 1;
}

void map_remove(struct events *ev, rec_ref ref)
{
	struct rec *r = rec_at(ev, ref);
	struct holder *src = &ev->holders[who_holder(rec_who(r))];
	uint32_t at = (ref - 1) / GROUP, g;

	list_remove(ev, src, ref);
	group_of(ev, at)[(ref - 1) % GROUP] = 0;
	for (g = home_of(ev, r->hash); g != at; g = next_group(ev, g))
		if (group_of(ev, g)[PASSED] < PASSED_MOST)
			group_of(ev, g)[PASSED]--;
	ev->n_recs--;
	src->n--;
	ev->server_recs[src->server] -= src->used;
	COUNT(ev, records, -1);
}

/* ---- for tests ---- */

const char *map_check(const struct events *ev)
{
	uint32_t g, h, i, n = 0;

	for (g = 0; g < ev->n_groups; g++) {
		for (i = 0; i < GROUP; i++) {
			const struct rec *r = &ev->recs[g * GROUP + i];

			if (group_of(ev, g)[i] == 0)
				continue;
			n++;
			for (h = home_of(ev, r->hash); h != g; h = next_group(ev, h))
				if (group_of(ev, h)[PASSED] == 0)
					return "a record behind a group that none has passed";
			if (copies_of(rec_who(r), 0) + copies_of(rec_who(r), 1) + copies_of(rec_who(r), 2) +
			    copies_of(rec_who(r), 3) == 0)
				return "a record without a copy";
		}
	}
	return n == ev->n_recs ? NULL : "the map counts records that are not there";
}
