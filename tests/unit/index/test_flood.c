/* test_flood.c - crafted pages and spaces must not harm the child table.
 *
 * An entry is in one of HOPS buckets from its hash on (table.c), so no search is long. But if all
 * of these are full, others are evicted or the prompt finds no room, and crafted keys could cause
 * that. They must behave like random ones at every load: as many entries in the end, and the same
 * mean number of buckets searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/index/table.c"	/* for its buckets */
#include "tests/unit/flood.h"
#include "tests/lib/index/index_test.h"

#define BUCKETS		2048u
#define PLACES		(BUCKETS * ENTRIES)

struct ways {
	uint32_t n, worst, refused;
	double mean;		/* buckets searched for an existing entry */
};

static struct hash_key key(uint64_t seed)
{
	struct hash_key k;
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	return k;
}

static struct ways look_at(struct index *ix)
{
	struct ways w = { 0 };

	for (size_t b = 0; b < ix->n_table; b++)
		for (unsigned i = 0; i < ENTRIES; i++) {
			uint64_t e = ix->buckets[b].e[i], hash;
			unsigned hop = 0;

			if (e == 0)
				continue;
			hash = node_hash(at(ix, (arena_ref)e));
			while (hop < HOPS && bucket_of(ix, hash, hop) != &ix->buckets[b])
				hop++;
			assert_true(hop < HOPS);
			w.worst = hop + 1 > w.worst ? hop + 1 : w.worst;
			w.mean += hop + 1;
			w.n++;
		}
	w.mean /= w.n ? w.n : 1;
	return w;
}

/* Make an index whose table is that of a smaller budget, so that its load can be chosen. */
static struct index *make(uint32_t buckets)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = 64u << 20;
	assert_non_null(ix = index_new(&o));
	assert_true(ix->n_table > buckets);
	ix->n_table = buckets;
	return ix;
}

static bool enter(struct index *ix, const struct space_key *sp, page_key page)
{
	index_claim c = index_commit(ix, sp, &page, 1, NULL, 1, 0, 0);

	index_confirm(ix, c, 0);
	return c != 0;
}

/* Enter <n> prompts of one page below one root. */
static struct ways siblings(enum flood_set set, unsigned n, uint64_t seed)
{
	struct space_key sp = { .h = { 1, 2 } };
	struct hash_key k = key(seed);
	struct index *ix = make(BUCKETS);
	uint8_t m[FLOOD_MAX];
	uint32_t refused = 0;
	struct ways w;

	for (unsigned i = 0; i < n; i++) {
		size_t len = flood_message(set, i % FLOOD_N, m);
		page_key page = hash64(&k, m, len);

		if (i >= FLOOD_N)	/* the same messages with a mark, as in the second prompt of a batch */
			page = hash_mix(&k, page, i / FLOOD_N);
		refused += !enter(ix, &sp, page);
	}
	w = look_at(ix);
	w.refused = refused;
	index_free(ix);
	return w;
}

/* Enter as many spaces as tenants: the fold of a space key over a crafted name. */
static struct ways spaces(enum flood_set set, unsigned n, uint64_t seed)
{
	struct hash_key k = key(seed);
	struct index *ix = make(BUCKETS);
	uint8_t m[FLOOD_MAX];
	uint32_t refused = 0;
	struct ways w;

	for (unsigned i = 0; i < n; i++) {
		size_t len = flood_message(set, i, m);
		struct space_key sp = { .h = {
			hash_mix_span(&k, 1, span_of(m, len)), hash_mix_span(&k, 2, span_of(m, len)),
		} };

		refused += !enter(ix, &sp, 7);
	}
	w = look_at(ix);
	w.refused = refused;
	index_free(ix);
	return w;
}

static void compare(
    const char *what, struct ways (*fn)(enum flood_set, unsigned, uint64_t), unsigned n)
{
	struct ways random = { 0 };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ways w = fn(FLOOD_RANDOM, n, seed);

		random.worst = w.worst > random.worst ? w.worst : random.worst;
		random.refused = w.refused > random.refused ? w.refused : random.refused;
		random.mean += w.mean / 3;
		random.n += w.n / 3;
	}
	for (enum flood_set s = 0; s < FLOOD_SETS; s++) {
		struct ways w = fn(s, n, 1);

		printf(
		    "%s of %s: %u in %u places, mean %.2f (random %.2f), worst %u (random %u), "
		    "no room for %u (random %u)\n",
		    what, flood_names[s], w.n, PLACES, w.mean, random.mean, w.worst, random.worst,
		    w.refused, random.refused);
		assert_true(w.mean <= random.mean * 1.1);
		assert_true(w.n >= random.n - random.n / 10 && w.refused <= 2 * random.refused + n / 100);
	}
}

static void crafted_pages(void **state)
{
	(void)state;
	compare("pages", siblings, PLACES / 8);
	compare("pages", siblings, PLACES / 2);
	compare("pages", siblings, PLACES * 7 / 8);
}

static void crafted_spaces(void **state)
{
	(void)state;
	compare("spaces", spaces, PLACES / 8);
	compare("spaces", spaces, FLOOD_N);
}

/* Measure how full a table can get: 10 MiB of the smallest prompts, the least favorable budget. */
static void as_full_as_a_budget_makes_it(void **state)
{
	struct space_key sp = { .h = { 1, 2 } };
	struct hash_key k = key(1);
	struct index_stats st;
	struct index_opts o;
	struct index *ix;
	uint8_t m[FLOOD_MAX];
	struct ways w;
	unsigned i = 0;

	(void)state;
	index_defaults(&o);
	o.max_bytes = 10u << 20;
	assert_non_null(ix = index_new(&o));
	do {
		size_t len = flood_message(FLOOD_PAGE, i % FLOOD_N, m);

		enter(ix, &sp, hash_mix(&k, hash64(&k, m, len), i++ / FLOOD_N));
		index_stats(ix, &st);
	} while (st.evicted_records < 10000 && i < 10000000);
	w = look_at(ix);
	printf("a full budget: %u in %u places (%.2f), mean %.2f, worst %u, no room for %u\n", w.n,
	    (unsigned)(ix->n_table * ENTRIES), (double)w.n / (double)(ix->n_table * ENTRIES),
	    w.mean, w.worst, (unsigned)st.refused);
	assert_true(st.evicted_records > 0 && st.refused == 0);
	assert_true(w.n < ix->n_table * ENTRIES * 8 / 10);
	index_free(ix);
}

/* Hashes that do collide, as a proof that this test would detect them. */
static void it_would_be_seen(void **state)
{
	struct index *ix = make(BUCKETS);
	struct hash_key k = key(1);
	uint8_t m[FLOOD_MAX];
	struct ways w;

	(void)state;
	for (unsigned i = 0; i < FLOOD_N; i++) {
		size_t len = flood_message(FLOOD_RANDOM, i, m);
		struct space_key sp = { .h = { HASH_SEED_A, hash64(&k, m, len) } };	/* a product of 0 */

		enter(ix, &sp, 7);
	}
	w = look_at(ix);
	printf("%u spaces of one hash: %u entries left, worst %u\n", FLOOD_N, w.n, w.worst);
	assert_true(w.n <= 2 * HOPS * ENTRIES && w.worst == HOPS);
	index_free(ix);
}

/* Make a node with the same parent and first page as all others here, which no key would allow. */
static struct node *same_again(struct index *ix)
{
	struct node *nd = node_alloc(ix, 0, NODE_EDGE, 0, 1, 1);

	assert_non_null(nd);
	nd->id = id_take(ix, 0);
	nd->parent = 12345;
	node_pages(nd)[0] = 5;
	return nd;
}

static unsigned all_passed(const struct index *ix)
{
	unsigned n = 0;

	for (size_t i = 0; i < ix->n_table; i++)
		n += (unsigned)atomic_load(&ix->buckets[i].passed);
	return n;
}

/* Keys that do collide: their buckets fill, and then there is no room. */
static void keys_that_collide_are_refused(void **state)
{
	struct index *ix = make(BUCKETS);
	struct node *nd[HOPS * ENTRIES], *more = same_again(ix);
	unsigned i, full;

	for (i = 0; i < HOPS * ENTRIES; i++)
		assert_true(table_add(ix, nd[i] = same_again(ix)));
	full = all_passed(ix);
	assert_int_equal(full, ENTRIES * (HOPS * (HOPS - 1) / 2));
	assert_false(table_add(ix, more));
	assert_int_equal(all_passed(ix), full);
	table_remove(ix, nd[20]);
	assert_true(table_add(ix, more));
	nd[20] = more;
	for (i = 0; i < HOPS * ENTRIES; i++)
		table_remove(ix, nd[i]);
	assert_int_equal(all_passed(ix), 0);
	index_free(ix);
}

/* A table much too small for its nodes: commits find room by eviction, or are refused. */
static void a_full_table_refuses_rather_than_loops(void **state)
{
	struct space_key sp = { .h = { 1, 2 } };
	struct index *ix = make(64);
	struct index_stats st;
	unsigned i, went = 0;

	for (i = 0; i < 5000; i++)
		went += enter(ix, &sp, i + 1);
	index_stats(ix, &st);
	printf("64 buckets: %u of 5000 went in, %u there, %u evicted\n", went, (unsigned)st.nodes,
	       (unsigned)st.evicted_records);
	assert_int_equal(went + st.refused, 5000);
	assert_true(st.refused > 0);
	assert_in_range(st.nodes, 32 * ENTRIES, 64 * ENTRIES);
	assert_true(st.evicted_records <= 5000 * EVICT_MAX);
	assert_null(index_check(ix));
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crafted_pages),
		cmocka_unit_test(crafted_spaces),
		cmocka_unit_test(as_full_as_a_budget_makes_it),
		cmocka_unit_test(it_would_be_seen),
		cmocka_unit_test(keys_that_collide_are_refused),
		cmocka_unit_test(a_full_table_refuses_rather_than_loops),
	};

	return cmocka_run_group_tests_name("index flood", tests, NULL, NULL);
}
