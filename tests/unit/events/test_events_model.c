/* test_events_model.c - a million random events against a slow model: an array of every block that
 * any rank may have, and lists that are arrays.
 *
 * Prompts share prefixes; blocks have 1 to 32 pages; servers have several ranks; two spaces have
 * the same pages; each block has two handles, as from an engine that came back with another seed.
 * Blocks are stored with known and unknown parents, twice, in every tier, and removed, known or
 * not; ranks are cleared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/events/events_in.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPS	100000u
#else
#define STEPS	1000000u
#endif
#define SERVERS	7u
#define RANKS	3u
#define SOURCES	(SERVERS * RANKS)
#define PROMPTS	20u
#define LEN	64u
#define ENDS	(LEN + 1)
#define BLOCKS	(2 * 2 * PROMPTS * ENDS)	/* handle seed, space, prompt, end page */
#define NOBODY	UINT32_MAX

static const uint32_t sizes[] = { 1, 2, 4, 8, 32 };
static const uint64_t spaces[2][2] = { { 1, 2 }, { 1, 3 } };

struct block {
	uint8_t copies[EVENTS_TIERS];
	bool known, parked;
	uint32_t parent;
};

struct rank {
	struct block of[BLOCKS];
	uint32_t size;
	uint32_t order[BLOCKS], n;	/* known ones, oldest first */
};

struct model {
	struct rank rank[SOURCES];
	page_key keys[PROMPTS][LEN];
	uint32_t canon[PROMPTS][ENDS];	/* the first prompt with the same pages up to here */
	struct { uint32_t source, block; } parked[BLOCKS * 4];
	uint32_t n_parked, max_parked;
	uint64_t records, dying, evicted, dropped, joined, unknown, odd;
	uint32_t capacity;
	bool no_orphans;	/* the order in which blocks join that waited for one parent is not promised */
	struct rng rng;
};

static uint32_t rnd(struct model *mo, uint32_t n)
{
	return rng_below(&mo->rng, n);
}

static void make_prompts(struct model *mo)
{
	uint32_t i, j, from, shared;

	for (i = 0; i < PROMPTS; i++) {
		from = rnd(mo, i + 1);
		shared = i == 0 ? 0 : rnd(mo, LEN);
		for (j = 0; j < LEN; j++)
			mo->keys[i][j] = j < shared && from < i ? mo->keys[from][j] : rng_next(&mo->rng);
		for (j = 0; j <= LEN; j++)
			for (mo->canon[i][j] = 0; memcmp(mo->keys[mo->canon[i][j]], mo->keys[i],
						      j * sizeof(page_key)) != 0;)
				mo->canon[i][j]++;
	}
}

static uint32_t block_id(
    const struct model *mo, uint32_t seed, uint32_t space, uint32_t prompt, uint32_t end)
{
	return ((seed * 2 + space) * PROMPTS + mo->canon[prompt][end]) * ENDS + end;
}

/* Return a handle that is unique to one rank. */
static uint64_t handle_of(uint32_t source, uint32_t block)
{
	return ((uint64_t)source * BLOCKS + block) * 0x9e3779b97f4a7c15ull;
}

/* ---- the truth ---- */

static uint32_t place_of(const struct rank *r, uint32_t block)
{
	uint32_t i;

	for (i = 0; i < r->n; i++)
		if (r->order[i] == block)
			return i;
	return NOBODY;
}

static void order_remove(struct rank *r, uint32_t block)
{
	uint32_t i = place_of(r, block);

	memmove(&r->order[i], &r->order[i + 1], (--r->n - i) * sizeof(r->order[0]));
}

/* Add it as just older than <before>, or as the newest. */
static void order_add(struct rank *r, uint32_t block, uint32_t before)
{
	uint32_t i = before == NOBODY ? r->n : place_of(r, before);

	memmove(&r->order[i + 1], &r->order[i], (r->n++ - i) * sizeof(r->order[0]));
	r->order[i] = block;
}

static void forget(struct model *mo, struct rank *r, uint32_t block)
{
	order_remove(r, block);
	memset(&r->of[block], 0, sizeof(r->of[block]));
	mo->records--;
}

static void unpark(struct model *mo, uint32_t i)
{
	mo->rank[mo->parked[i].source].of[mo->parked[i].block].parked = false;
	memmove(&mo->parked[i], &mo->parked[i + 1], (--mo->n_parked - i) * sizeof(mo->parked[0]));
}

static uint32_t parked_at(const struct model *mo, uint32_t source, uint32_t block)
{
	uint32_t i;

	for (i = 0; i < mo->n_parked; i++)
		if (mo->parked[i].source == source && mo->parked[i].block == block)
			break;
	return i;
}

static void know(struct model *mo, struct rank *r, uint32_t block, uint32_t before)
{
	r->of[block].known = true;
	order_add(r, block, before);
	mo->records++;
}

static void join(struct model *mo, uint32_t source, uint32_t parent)
{
	uint32_t i, block;

	for (i = 0; i < mo->n_parked;) {
		block = mo->parked[i].block;
		if (mo->parked[i].source != source || mo->rank[source].of[block].parent != parent) {
			i++;
			continue;
		}
		unpark(mo, i);
		know(mo, &mo->rank[source], block, NOBODY);
		mo->joined++;
		join(mo, source, block);
		i = 0;
	}
}

static void copy(struct block *b, unsigned tier)
{
	if (b->copies[tier] < EVENTS_COPIES_MAX)
		b->copies[tier]++;
}

/* Returns how many were stored. */
static uint32_t model_stored(struct model *mo, uint32_t source, const uint32_t *blocks, uint32_t n,
    uint32_t parent, bool has_parent, unsigned tier)
{
	struct rank *r = &mo->rank[source];
	uint32_t i, before = has_parent ? parent : NOBODY, at = NOBODY, taken = 0;
	bool known = !has_parent || r->of[parent].known;

	if (has_parent && known) {
		at = parent;
		order_remove(r, parent);
		order_add(r, parent, NOBODY);
	}
	for (i = 0; i < n; before = blocks[i++], taken++) {
		struct block *b = &r->of[blocks[i]];

		if (b->known) {
			order_remove(r, blocks[i]);
			order_add(r, blocks[i], at);
			copy(b, tier);
			known = true;
			at = blocks[i];
		} else if (known) {
			if (b->parked) {
				unpark(mo, parked_at(mo, source, blocks[i]));
				memset(b, 0, sizeof(*b));
				mo->odd++;
			}
			know(mo, r, blocks[i], at);
			copy(b, tier);
			at = blocks[i];
			join(mo, source, blocks[i]);
			at = r->of[at].known ? at : NOBODY;
		} else if (b->parked) {
			if (b->parent != before) {
				mo->odd += n - i;
				break;
			}
			copy(b, tier);
		} else {
			if (mo->n_parked == mo->max_parked) {
				memset(&mo->rank[mo->parked[0].source].of[mo->parked[0].block], 0, sizeof(*b));
				unpark(mo, 0);
				mo->dropped++;
			}
			b->parked = true;
			b->parent = before;
			copy(b, tier);
			mo->parked[mo->n_parked].source = source;
			mo->parked[mo->n_parked++].block = blocks[i];
		}
	}
	return taken;
}

static bool any_copy(const struct block *b)
{
	return b->copies[0] + b->copies[1] + b->copies[2] + b->copies[3] > 0;
}

static bool model_removed(struct model *mo, uint32_t source, uint32_t block, unsigned tier)
{
	struct rank *r = &mo->rank[source];
	struct block *b = &r->of[block];

	if (b->copies[tier] == 0) {
		mo->unknown++;
		return false;
	}
	b->copies[tier]--;
	if (any_copy(b))
		return true;
	if (b->known) {
		forget(mo, r, block);
	} else {
		unpark(mo, parked_at(mo, source, block));
		memset(b, 0, sizeof(*b));
	}
	return true;
}

static void model_cleared(struct model *mo, uint32_t source)
{
	struct rank *r = &mo->rank[source];
	uint32_t i;

	mo->dying += r->n;
	for (i = 0; i < mo->n_parked;) {
		if (mo->parked[i].source == source)
			unpark(mo, i);
		else
			i++;
	}
	memset(r, 0, sizeof(*r));
}

/* Return the hit of one rank. */
static struct events_hit model_match(
    const struct model *mo, uint32_t source, uint32_t space, uint32_t prompt, uint32_t n)
{
	const struct rank *r = &mo->rank[source];
	struct events_hit h = { .server = (server_id)(source / RANKS),
		.rank = (uint16_t)(source % RANKS) };
	uint32_t end, seed, t, best;

	for (end = r->size; r->size > 0 && end <= n; end += r->size) {
		for (seed = 0, best = EVENTS_TIERS; seed < 2; seed++) {
			const struct block *b = &r->of[block_id(mo, seed, space, prompt, end)];

			for (t = 0; b->known && t < best; t++)
				if (b->copies[t] > 0)
					best = t;
		}
		if (best == EVENTS_TIERS)
			break;
		h.pages += r->size;
		h.in_tier[best] += r->size;
	}
	return h;
}

/* ---- steps ---- */

static bool better(const struct events_hit *a, const struct events_hit *b)
{
	unsigned t;

	if (a->pages != b->pages)
		return a->pages > b->pages;
	for (t = 0; t < EVENTS_TIERS; t++)
		if (a->in_tier[t] != b->in_tier[t])
			return a->in_tier[t] > b->in_tier[t];
	return false;
}

static void check_match(struct model *mo, struct events *ev, struct events_match *m)
{
	uint32_t prompt = rnd(mo, PROMPTS), n = rnd(mo, LEN + 1), space = rnd(mo, 2), s, k, i, hits = 0;
	struct events_hit best, h;

	events_match(ev, spaces[space], mo->keys[prompt], n, m);
	for (s = 0; s < SERVERS; s++) {
		best = model_match(mo, s * RANKS, space, prompt, n);
		for (k = 1; k < RANKS; k++) {
			h = model_match(mo, s * RANKS + k, space, prompt, n);
			if (better(&h, &best))
				best = h;
		}
		assert_int_equal(events_match_pages(m, (server_id)s), best.pages);
		if (best.pages == 0)
			continue;
		hits++;
		for (i = 0; m->hits[i].server != s; i++)
			;
		assert_memory_equal(m->hits[i].in_tier, best.in_tier, sizeof(best.in_tier));
		h = model_match(mo, s * RANKS + m->hits[i].rank, space, prompt, n);
		assert_false(better(&best, &h));
	}
	assert_int_equal(m->n_hits, hits);
}

/* Forget what the index has evicted: as many blocks as it says, and none that it still has. */
static void forget_evicted(struct model *mo, struct events *ev)
{
	struct events_stats st;
	uint32_t s, i, holder;
	struct rank *r;

	events_stats(ev, &st);
	for (s = 0; s < SOURCES && mo->evicted < st.evicted; s++) {
		r = &mo->rank[s];
		holder = holder_find(ev, (server_id)(s / RANKS), (uint16_t)(s % RANKS));
		for (i = r->n; i-- > 0 && holder != NO_HOLDER;) {
			const struct slot slot = handles_find(ev, &ev->holders[holder].map,
			    handle_hash(ev, handle_of(s, r->order[i])));
			struct block *b = &r->of[r->order[i]];

			if (slot.line == NULL) {
				forget(mo, r, r->order[i]);
				mo->evicted++;
				continue;
			}
			/* evicted and stored again by the same event */
			for (unsigned t = 0; t < EVENTS_TIERS; t++)
				b->copies[t] = (uint8_t)copies_of(record_copies(ev, holder, slot), t);
		}
	}
	mo->evicted = st.evicted;
	/* without room, records of cleared ranks are removed first */
	mo->dying -= mo->records - st.records;
	mo->records = st.records;
}

static void store_some(struct model *mo, struct events *ev)
{
	uint32_t source = rnd(mo, SOURCES), prompt = rnd(mo, PROMPTS), space = rnd(mo, 2),
		 seed = rnd(mo, 8) == 0, i, n;
	uint32_t first, parent = 0, blocks[LEN];
	struct rank *r = &mo->rank[source];
	uint64_t handles[LEN];
	struct events_run run = { .server = (server_id)(source / RANKS),
		.rank = (uint16_t)(source % RANKS),
		.tier = rnd(mo, 3) ? EVENTS_DEVICE : rnd(mo, EVENTS_TIERS),
		.handles = handles,
		.space = spaces[space] };

	if (r->size == 0)
		r->size = sizes[rnd(mo, 5)];
	n = LEN / r->size;
	first = rnd(mo, 2) ? 0 : rnd(mo, n);
	if (mo->no_orphans && !r->of[block_id(mo, seed, space, prompt, first * r->size)].known)
		first = 0;
	n = 1 + rnd(mo, rnd(mo, 4) ? 3 : n - first);
	n = n > LEN / r->size - first ? LEN / r->size - first : n;
	for (i = 0; i < n; i++) {
		blocks[i] = block_id(mo, seed, space, prompt, (first + i + 1) * r->size);
		handles[i] = handle_of(source, blocks[i]);
	}
	run.n = n;
	run.block_pages = r->size;
	run.keys = mo->keys[prompt] + first * r->size;
	run.has_parent = first > 0;
	if (first > 0) {
		parent = block_id(mo, mo->no_orphans || rnd(mo, 20) ? seed : !seed, space, prompt,
		    first * r->size);
		run.parent = handle_of(source, parent);
	}
	assert_int_equal(events_stored(ev, &run),
	    model_stored(mo, source, blocks, n, parent, first > 0, run.tier));
	forget_evicted(mo, ev);
	if (mo->capacity > 0)
		assert_true(events_server_records(ev, run.server) <= RANKS * mo->capacity);
}

static void remove_some(struct model *mo, struct events *ev)
{
	uint32_t source = rnd(mo, SOURCES), n = 1 + rnd(mo, 3), i, known = 0, block;
	struct rank *r = &mo->rank[source];
	unsigned tier = rnd(mo, EVENTS_TIERS);
	uint64_t handles[3];

	for (i = 0; i < n; i++) {
		if (r->n > 0 && rnd(mo, 4) > 0)
			block = r->order[rnd(mo, r->n)];
		else if (mo->n_parked > 0 && rnd(mo, 2) && mo->parked[0].source == source)
			block = mo->parked[0].block;
		else
			block = rnd(mo, BLOCKS);
		if (rnd(mo, 2))
			for (tier = 0; tier + 1 < EVENTS_TIERS && r->of[block].copies[tier] == 0; tier++)
				;
		handles[i] = handle_of(source, block);
		known += model_removed(mo, source, block, tier);
		assert_int_equal(events_removed(ev, (server_id)(source / RANKS),
				     (uint16_t)(source % RANKS), &handles[i], 1, tier),
		    known);
		known = 0;
	}
}

static void clear_some(struct model *mo, struct events *ev)
{
	uint32_t s = rnd(mo, SOURCES), k;

	if (rnd(mo, 4)) {
		events_cleared(ev, (server_id)(s / RANKS), (uint16_t)(s % RANKS));
		model_cleared(mo, s);
		return;
	}
	events_drop_server(ev, (server_id)(s / RANKS));
	for (k = 0; k < RANKS; k++)
		model_cleared(mo, s / RANKS * RANKS + k);
	events_set_capacity(ev, (server_id)(s / RANKS), mo->capacity);
}

static void tick(struct model *mo, struct events *ev)
{
	uint32_t work = rnd(mo, 100), gone = mo->dying < work ? (uint32_t)mo->dying : work;
	bool more = events_tick(ev, work);

	mo->dying -= gone;
	mo->records -= gone;
	assert_true(more || mo->dying == 0);
}

static void check_counts(const struct model *mo, const struct events *ev)
{
	struct events_stats st;
	uint32_t s, k, n;

	events_stats(ev, &st);
	assert_int_equal(st.records, mo->records);
	assert_int_equal(st.parked, mo->n_parked);
	assert_int_equal(st.evicted, mo->evicted);
	assert_int_equal(st.joined, mo->joined);
	assert_int_equal(st.parked_dropped, mo->dropped);
	assert_int_equal(st.unknown, mo->unknown);
	assert_int_equal(st.odd, mo->odd);
	assert_int_equal(st.refused, 0);
	assert_true(st.bytes <= st.max_bytes);
	for (s = 0; s < SERVERS; s++) {
		for (k = 0, n = 0; k < RANKS; k++)
			n += mo->rank[s * RANKS + k].n;
		assert_int_equal(events_server_records(ev, (server_id)s), n);
	}
}

static void run_model(uint64_t seed, uint32_t steps, struct events_opts o, uint32_t capacity,
    uint32_t chunks, bool no_orphans)
{
	struct model *mo = calloc(1, sizeof(*mo));
	struct events_match m;
	struct hash_key key;
	struct events_stats st;
	struct events *ev;
	uint32_t i, what;

	assert_non_null(mo);
	rng_init(&mo->rng, seed);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&mo->rng);
	o.key = &key;
	ev = events_new(&o);
	assert_non_null(ev);
	assert_int_equal(events_match_init(&m), 0);
	if (chunks > 0)
		ev->slab.max_chunks = chunks;
	mo->max_parked = o.max_parked;
	mo->capacity = capacity;
	mo->no_orphans = no_orphans;
	for (i = 0; i < SERVERS; i++)
		events_set_capacity(ev, (server_id)i, capacity);
	make_prompts(mo);
	for (i = 0; i < steps; i++) {
		what = rnd(mo, 1000);
		if (what < 550)
			store_some(mo, ev);
		else if (what < 950)
			remove_some(mo, ev);
		else if (what < 952)
			clear_some(mo, ev);
		else
			tick(mo, ev);
		if (i % 8 == 0)
			check_match(mo, ev, &m);
		if (i % 1024 == 0)
			check_counts(mo, ev);
		if (i % (steps / 20) == 0)
			assert_null(events_check(ev));
	}
	check_counts(mo, ev);
	while (mo->dying > 0)
		tick(mo, ev);
	assert_null(events_check(ev));
	events_stats(ev, &st);
	printf(
	    "model: records=%lu runs=%lu sets=%lu joined=%lu parked_dropped=%lu evicted=%lu "
	    "unknown=%lu odd=%lu\n",
	    st.records, st.runs, st.sets, st.joined, st.parked_dropped, st.evicted, st.unknown, st.odd);
	assert_true(st.unknown > 0);
	assert_true(no_orphans ? st.evicted > 0 : st.joined > 0 && st.odd > 0 && st.parked_dropped > 0);
	events_match_fini(&m);
	events_free(ev);
	free(mo);
}

static void as_the_model(void **state)
{
	run_model(1, STEPS / 2,
	    (struct events_opts){ .max_bytes = 4 << 20, .max_holders = 64, .max_parked = 60 }, 0,
	    0, false);
}

static void with_many_words(void **state)
{
	run_model(2, STEPS / 4,
	    (struct events_opts){ .max_bytes = 4 << 20, .max_holders = 1000, .max_parked = 200 }, 0,
	    0, false);
}

static void over_a_capacity(void **state)
{
	run_model(3, STEPS / 8,
	    (struct events_opts){ .max_bytes = 4 << 20, .max_holders = 1024, .max_parked = 30 }, 40,
	    0, true);
}

static void over_the_budget(void **state)
{
	/* 100,000: fewer do not fill it */
	run_model(4, STEPS / 8 > 100000 ? STEPS / 8 : 100000,
	    (struct events_opts){ .max_bytes = 0, .max_holders = 4096, .max_parked = 40 }, 0, 90, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_model),
		cmocka_unit_test(with_many_words),
		cmocka_unit_test(over_a_capacity),
		cmocka_unit_test(over_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
