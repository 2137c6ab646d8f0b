/* test_flood.c - what crafted pages and spaces do to the one table of the index: nothing.
 *
 * The table's contract is linear probing that never is more than 7/8 full (table.c), over keys that are
 * keyed hashes; so crafted messages must do as random ones at every load: the same mean of steps, and a
 * longest way of the same kind. Steps are counted by the table's own functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/index/table.c"	/* for hash_of() */
#include "tests/unit/flood.h"

#define SLOTS	16384u

struct probes {
	uint32_t worst;
	double mean;
	uint32_t n, slots;
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

/* Steps to each entry, the one that finds it included. */
static struct probes look(const struct index *ix)
{
	uint32_t mask = ix->n_slots - 1;
	struct probes p = { .slots = ix->n_slots };

	for (uint32_t i = 0; i < ix->n_slots; i++) {
		uint32_t steps;

		if (ix->slots[i] == NULL)
			continue;
		steps = ((i - (uint32_t)hash_of(ix->slots[i])) & mask) + 1;
		p.worst = steps > p.worst ? steps : p.worst;
		p.mean += steps;
		p.n++;
	}
	p.mean /= p.n ? p.n : 1;
	return p;
}

static struct index *make(uint32_t slots)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = (size_t)slots * 160 + (64 << 20);	/* room for the nodes of all of them */
	assert_non_null(ix = index_new(&o));
	/* the load is what is looked at, so the table is one of a smaller budget */
	assert_true(ix->n_slots >= slots);
	ix->n_slots = slots;
	return ix;
}

/* One page a prompt, all below one root: a table of <n> siblings. */
static struct probes siblings(enum flood_set set, unsigned n, uint64_t seed)
{
	struct space_key sp = { { 1, 2 } };
	struct hash_key k = key(seed);
	struct index *ix = make(SLOTS);
	uint8_t m[FLOOD_MAX];
	struct probes p;

	for (unsigned i = 0; i < n; i++) {
		size_t len = flood_message(set, i % FLOOD_N, m);
		page_key page = hash64(&k, m, len);

		if (i >= FLOOD_N)	/* the same messages with a mark, as a second prompt of a batch has */
			page = hash_mix(&k, page, i / FLOOD_N);
		assert_true(index_commit(ix, &sp, &page, 1, NULL, 1, 0) != 0);
	}
	p = look(ix);
	assert_int_equal(p.n, n + 1);
	index_free(ix);
	return p;
}

/* As many spaces as tenants: the fold of route/space.c over a crafted name. */
static struct probes spaces(enum flood_set set, unsigned n, uint64_t seed)
{
	struct hash_key k = key(seed);
	struct index *ix = make(SLOTS);
	uint8_t m[FLOOD_MAX];
	page_key page = 7;
	struct probes p;

	for (unsigned i = 0; i < n; i++) {
		size_t len = flood_message(set, i, m);
		struct space_key sp = { {
			hash_mix_span(&k, 1, span_of(m, len)), hash_mix_span(&k, 2, span_of(m, len)),
		} };

		assert_true(index_commit(ix, &sp, &page, 1, NULL, 1, 0) != 0);
	}
	p = look(ix);
	assert_int_equal(p.n, 2 * n);	/* a root, and its page */
	index_free(ix);
	return p;
}

static void compare(const char *what, struct probes (*fn)(enum flood_set, unsigned, uint64_t), unsigned n,
		    uint32_t worst_allowed)
{
	struct probes random = { 0 };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct probes p = fn(FLOOD_RANDOM, n, seed);

		random.worst = p.worst > random.worst ? p.worst : random.worst;
		random.mean += p.mean / 3;
	}
	for (enum flood_set s = 0; s < FLOOD_SETS; s++) {
		struct probes p = fn(s, n, 1);

		printf("%s of %s: %u in %u slots, mean %.2f (random %.2f), worst %u (random %u)\n", what,
		       flood_names[s], p.n, p.slots, p.mean, random.mean, p.worst, random.worst);
		assert_true(p.mean <= random.mean * 1.25);
		assert_true(p.worst <= (worst_allowed ? worst_allowed : 3 * random.worst));
	}
}

static void crafted_pages(void **state)
{
	(void)state;
	compare("pages", siblings, SLOTS / 8, 16);
	compare("pages", siblings, SLOTS / 4, 16);
	compare("pages", siblings, SLOTS / 2, 0);
	compare("pages", siblings, SLOTS - SLOTS / 8 - 8, 0);	/* as full as it may be */
}

static void crafted_spaces(void **state)
{
	(void)state;
	compare("spaces", spaces, SLOTS / 8, 16);
	compare("spaces", spaces, SLOTS / 4, 0);
}

/* How full a table gets at all: 10 MiB of the smallest prompts, the least favourable of budgets. */
static void as_full_as_a_budget_makes_it(void **state)
{
	struct index_opts o = { .max_bytes = 10u << 20, .max_pages = 16 };
	struct index *ix = index_new(&o);
	struct hash_key k = key(1);
	uint8_t m[FLOOD_MAX];
	struct index_stats st;
	struct probes p;
	unsigned i = 0;

	(void)state;
	assert_non_null(ix);
	do {
		size_t len = flood_message(FLOOD_PAGE, i % FLOOD_N, m);
		page_key page = hash_mix(&k, hash64(&k, m, len), i++ / FLOOD_N);

		index_confirm(ix, index_commit(ix, &(struct space_key){ { 1, 2 } }, &page, 1, NULL, 1, 0), 0);
		index_stats(ix, &st);
	} while (st.evicted_records == 0);
	p = look(ix);
	printf("a full budget: %u in %u slots (%.2f), mean %.2f, worst %u\n", p.n, p.slots,
	       (double)p.n / p.slots, p.mean, p.worst);
	assert_true(p.n <= p.slots - p.slots / 8);
	index_free(ix);
}

/* The same table under keys that do collide: what this test would see. */
static void it_would_be_seen(void **state)
{
	struct space_key sp = { { 1, 2 } };
	struct index *ix = make(SLOTS);
	struct probes p;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct node *nd = tree_leaf(ix, tree_space(ix, &sp), &(page_key){ 5 }, 1);

		assert_non_null(nd);
	}
	p = look(ix);
	printf("200 pages of one key: worst %u\n", p.worst);
	assert_true(p.worst >= 200);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crafted_pages),
		cmocka_unit_test(crafted_spaces),
		cmocka_unit_test(as_full_as_a_budget_makes_it),
		cmocka_unit_test(it_would_be_seen),
	};

	return cmocka_run_group_tests_name("index flood", tests, NULL, NULL);
}
