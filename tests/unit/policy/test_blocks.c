/* test_blocks.c - the table of blocks against lists that are searched. */
#include "agent/policy/block_tables_in.h"
#include "agent/policy/rules_in.h"
#include "tests/unit/policy/tables.h"

static uint32_t blocks_count(const struct blocks *b)
{
	return b->n_blocks;
}

#define BYTES	(1u << 20)

static uint32_t matched(const struct blocks *b, const char *word, uint16_t owner, bool whole)
{
	uint32_t n[OWNERS_MAX];
	struct prompt_of q;

	prompt_in(&q, 1, word);
	blocks_match(b, 0, walk_chain(&q.p, q.p.n_pages, 1), whole, n);
	return n[owner];
}

static void add(
    struct blocks *b, const char *word, uint16_t owner, uint32_t stamp, bool last_oldest)
{
	struct prompt_of q;

	prompt_in(&q, 1, word);
	blocks_add(b, walk_chain(&q.p, q.p.n_pages, 1), owner, stamp, last_oldest);
}

static void a_match_is_by_chain(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one, two;

	(void)state;
	assert_non_null(b);
	one = blocks_join(b, 0, 17);
	two = blocks_join(b, 0, 900);
	assert_int_equal(blocks_join(b, 0, 17), one);
	assert_int_equal(blocks_owner(b, 0, 900), two);
	assert_int_equal(blocks_owner(b, 1, 900), OWNER_NONE);
	assert_int_equal(blocks_server(b, two), 900);
	add(b, "abcde", one, 1, false);
	add(b, "abX", two, 1, false);
	assert_int_equal(blocks_count(b), 6);
	assert_int_equal(matched(b, "abcdZ", one, true), 4);
	assert_int_equal(matched(b, "abcdZ", two, true), 2);
	assert_int_equal(matched(b, "Xbcde", one, true), 0);
	assert_int_equal(matched(b, "", one, true), 0);
	add(b, "abcde", one, 1, false);
	assert_int_equal(blocks_owned(b, one), 5);
	blocks_free(b);
}

/* Blocks of two pages, the last of one; and only the first pages. */
static void blocks_of_pages(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one = blocks_join(b, 0, 0);
	uint32_t n[OWNERS_MAX], tokens[SERVERS_MAX] = { 0 };
	struct prompt_of q, longer;

	(void)state;
	prompt_in(&q, 1, "abcde");
	prompt_in(&longer, 1, "abcdefg");
	blocks_add(b, walk_chain(&q.p, 5, 2), one, 1, false);
	assert_int_equal(blocks_owned(b, one), 3);
	blocks_match(b, 0, walk_chain(&q.p, 5, 2), true, n);
	assert_int_equal(n[one], 3);
	blocks_match(b, 0, walk_chain(&longer.p, 7, 2), true, n);
	assert_int_equal(n[one], 2);			/* "e" alone is not "ef" */
	blocks_match(b, 0, walk_chain(&longer.p, 3, 2), true, n);
	assert_int_equal(n[one], 1);
	blocks_match_tokens(b, &q.p, 5, 2, true, tokens);
	assert_int_equal(tokens[0], 5 * 16);
	blocks_match_tokens(b, &longer.p, 7, 2, true, tokens);
	assert_int_equal(tokens[0], 4 * 16);
	blocks_free(b);
}

/* The first is dropped first, unless the end is the oldest: then the beginning still matches. */
static void order_of_going(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one = blocks_join(b, 0, 0), two = blocks_join(b, 0, 1);

	(void)state;
	add(b, "abcdef", one, 1, true);
	add(b, "abcdef", two, 1, false);
	blocks_trim(b, one, 4, 100);
	blocks_trim(b, two, 4, 100);
	assert_int_equal(matched(b, "abcdef", one, true), 4);
	assert_int_equal(matched(b, "abcdef", two, true), 0);
	assert_int_equal(matched(b, "abcdef", two, false), 4);	/* cdef: not from the first, but counted */
	blocks_trim(b, one, 0, 1);
	assert_int_equal(blocks_owned(b, one), 3);
	add(b, "abc", one, 2, true);			/* touched: now the rest is older */
	add(b, "xyz", one, 3, true);
	blocks_trim(b, one, 5, 100);
	assert_int_equal(matched(b, "abc", one, true), 2);
	assert_int_equal(matched(b, "xyz", one, true), 3);
	blocks_free(b);
}

static void a_hole_ends_a_whole_match_only(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one = blocks_join(b, 0, 0), two = blocks_join(b, 0, 1);

	(void)state;
	add(b, "abcdef", one, 1, true);
	add(b, "abcdef", two, 1, false);
	add(b, "ab", two, 2, false);
	blocks_trim(b, two, 4, 100);			/* c and d are dropped there */
	assert_int_equal(matched(b, "abcdef", two, true), 2);
	assert_int_equal(matched(b, "abcdef", two, false), 4);
	assert_int_equal(matched(b, "abcdef", one, false), 6);
	blocks_gone(b, 0);				/* no owner has c: later blocks do not count */
	assert_int_equal(matched(b, "abcdef", two, false), 2);
	blocks_free(b);
}

static void what_is_old_expires(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one = blocks_join(b, 0, 0), two = blocks_join(b, 0, 1);

	(void)state;
	add(b, "abc", one, 10, true);
	add(b, "abc", two, 11, true);
	add(b, "xy", one, 12, true);
	blocks_expire(b, 10, 100);
	assert_int_equal(blocks_owned(b, one), 5);
	blocks_expire(b, 11, 100);
	assert_int_equal(blocks_owned(b, one), 2);
	assert_int_equal(blocks_owned(b, two), 3);
	blocks_expire(b, 13, 1);
	assert_int_equal(blocks_owned(b, two), 2);
	blocks_expire(b, 13, 100);
	assert_int_equal(blocks_count(b), 0);
	add(b, "ab", one, 5, true);			/* an earlier clock: no stamp goes down */
	assert_int_equal(blocks_newest(b, one), 12);
	blocks_free(b);
}

static void the_oldest_of_all_goes_for_room(void **state)
{
	struct blocks *b = blocks_new(40000);
	uint16_t own[3];
	struct prompt_of q;
	uint32_t stamp = 1;

	(void)state;
	assert_non_null(b);
	for (server_id i = 0; i < 3; i++)
		own[i] = blocks_join(b, 0, i);
	add(b, "old", own[0], stamp, true);
	for (unsigned i = 0; i < 3000; i++) {
		prompt_in(&q, i + 2, "abcdefgh");
		blocks_add(b, walk_chain(&q.p, 8, 1), own[1 + i % 2], ++stamp, true);
		if (i == 5)
			assert_int_equal(matched(b, "old", own[0], true), 3);
	}
	assert_int_equal(blocks_owned(b, own[0]), 0);
	assert_true(blocks_owned(b, own[1]) > 8 && blocks_owned(b, own[2]) > 8);
	assert_int_equal(blocks_owned(b, own[1]) + blocks_owned(b, own[2]), blocks_count(b));
	assert_true(blocks_held(b, chain(q.p.space, q.pages[0]), own[2]));
	blocks_free(b);
}

/* A prompt longer than the table: half of it is kept, from the beginning. */
static void a_prompt_that_does_not_fit(void **state)
{
	struct blocks *b = blocks_new(40000);
	uint16_t one = blocks_join(b, 0, 0);
	uint32_t n[OWNERS_MAX];
	page_key pages[4096];
	struct policy_prompt p = { .pages = pages, .n_pages = 4096, .page_tokens = 16, .space = 1 };

	(void)state;
	for (uint32_t i = 0; i < 4096; i++)
		pages[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < 3; i++) {
		p.space = (uint64_t)i;
		blocks_add(b, walk_chain(&p, 4096, 1), one, (uint32_t)i, i & 1);
	}
	blocks_match(b, 0, walk_chain(&p, 4096, 1), true, n);
	assert_true(n[one] > 8 && n[one] < 4096);
	assert_true(blocks_owned(b, one) >= n[one]);
	blocks_free(b);
}

static void who_is_gone_counts_no_more(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	uint16_t one = blocks_join(b, 0, 5), two = blocks_join(b, 3, 5);
	struct prompt_of q;
	uint32_t n[OWNERS_MAX];

	(void)state;
	prompt_in(&q, 1, "abc");
	blocks_add(b, walk_chain(&q.p, 3, 1), one, 1, true);
	blocks_add(b, walk_chain(&q.p, 3, 1), two, 1, true);
	blocks_scope_gone(b, 3);
	blocks_match(b, 0, walk_chain(&q.p, 3, 1), true, n);
	assert_true(n[one] == 3 && n[two] == 0);
	blocks_gone(b, 5);
	blocks_match(b, 0, walk_chain(&q.p, 3, 1), true, n);
	assert_true(n[one] == 0);
	assert_int_equal(blocks_owner(b, 0, 5), OWNER_NONE);
	assert_int_equal(blocks_owned(b, one), 3);		/* dropped in steps, */
	assert_true(blocks_join(b, 0, 5) > two);		/* its number not used before, */
	add(b, "q", blocks_owner(b, 0, 5), 2, true);
	assert_int_equal(blocks_owned(b, one), 0);		/* but soon */
	assert_int_equal(blocks_count(b), 1);
	assert_int_equal(blocks_join(b, 0, 6), one);
	assert_int_equal(matched(b, "abc", one, true), 0);
	blocks_gone(b, 999);
	assert_int_equal(blocks_join(b, 0, SERVERS_MAX), OWNER_NONE);
	blocks_free(b);
}

/* The 65th owner makes the table anew: it keeps to its bytes, and is empty at first. */
static void more_than_64_owners(void **state)
{
	struct blocks *b = blocks_new(BYTES);

	(void)state;
	for (server_id i = 0; i < 64; i++)
		add(b, "abc", blocks_join(b, 0, i), 1, true);
	assert_int_equal(matched(b, "abc", blocks_owner(b, 0, 63), true), 3);
	blocks_join(b, 0, 64);
	assert_int_equal(matched(b, "abc", blocks_owner(b, 0, 63), true), 0);
	assert_int_equal(blocks_count(b), 0);
	for (server_id i = 0; i < SERVERS_MAX; i++) {
		uint16_t owner = blocks_join(b, 0, i);

		assert_true(owner < OWNERS_MAX);
		add(b, "abcd", owner, 2, true);
	}
	assert_int_equal(blocks_join(b, 1, 0), OWNER_NONE);
	assert_int_equal(matched(b, "abcd", blocks_owner(b, 0, 1023), true), 4);
	assert_int_equal(blocks_count(b), 4);
	for (server_id i = 0; i < SERVERS_MAX; i++)
		blocks_gone(b, i);
	assert_int_equal(matched(b, "abcd", 7, true), 0);
	blocks_free(b);
}

static void a_search_by_place(void **state)
{
	static const struct { const char *held, *asked; uint32_t found; } cases[] = {
		{ "abcdefgh", "abcdefgh", 8 }, { "abcdefgh", "abcdefghij", 8 }, { "abcd", "abcdefgh", 4 },
		{ "abcdefgh", "abcXefgh", 3 },
		{ "abcdefgh", "Xbcdefgh", 8 },		/* false: another beginning */
		{ "abcdefgh", "XXXXXXXX", 0 }, { "abcdefgh", "a", 1 }, { "a", "abcdefghi", 1 },
		{ "abcdefgh", "hgfedcba", 0 }, { "", "abc", 0 }, { "abc", "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct blocks *b = blocks_new(BYTES);
		uint16_t one = blocks_join(b, 0, 0);
		struct prompt_of q;

		prompt_in(&q, 1, cases[i].held);
		blocks_add(b, walk_places(&q.p), one, 1, true);
		prompt_in(&q, 1, cases[i].asked);
		if (blocks_search(b, &q.p, one) != cases[i].found)
			fail_msg("case %zu: %u", i, blocks_search(b, &q.p, one));
		blocks_free(b);
	}
}

/* ---- chance against a slow truth ---- */

#define TRUE_OWNERS	5
#define TRUE_MAX	512

struct truth {
	uint64_t key[TRUE_OWNERS][TRUE_MAX];		/* oldest first */
	uint32_t n[TRUE_OWNERS];
};

static int true_at(const struct truth *t, int o, uint64_t key)
{
	for (uint32_t i = 0; i < t->n[o]; i++) {
		if (t->key[o][i] == key)
			return (int)i;
	}
	return -1;
}

static void true_drop(struct truth *t, int o, int at)
{
	memmove(&t->key[o][at], &t->key[o][at + 1], (t->n[o] - (uint32_t)at - 1) * sizeof(uint64_t));
	t->n[o]--;
}

static void true_add(struct truth *t, int o, const uint64_t *keys, size_t n, bool last_oldest)
{
	for (size_t k = 0; k < n; k++) {
		int at = true_at(t, o, keys[k]);

		if (at >= 0)
			true_drop(t, o, at);
	}
	assert_true(t->n[o] + n <= TRUE_MAX);
	for (size_t k = 0; k < n; k++)
		t->key[o][t->n[o]++] = keys[last_oldest ? n - 1 - k : k];
}

static uint32_t true_match(const struct truth *t, int o, const uint64_t *keys, size_t n, bool whole)
{
	uint32_t sum = 0;

	for (size_t k = 0; k < n; k++) {
		bool any = false;

		for (int i = 0; i < TRUE_OWNERS; i++)
			any |= true_at(t, i, keys[k]) >= 0;
		if (!any || (whole && true_at(t, o, keys[k]) < 0))
			break;
		sum += true_at(t, o, keys[k]) >= 0;
	}
	return sum;
}

static void check_all(const struct blocks *b, const struct truth *t, const struct policy_prompt *p,
		      const uint64_t *keys, size_t n)
{
	uint32_t got[OWNERS_MAX];

	for (int whole = 0; whole < 2; whole++) {
		blocks_match(b, 0, walk_chain(p, p->n_pages, 1), whole, got);
		for (int o = 0; o < TRUE_OWNERS; o++) {
			uint16_t owner = blocks_owner(b, 0, (server_id)o);

			if (owner != OWNER_NONE && got[owner] != true_match(t, o, keys, n, whole))
				fail_msg("owner %d: %u, not %u", o, got[owner], true_match(t, o, keys, n, whole));
			if (owner != OWNER_NONE)
				assert_int_equal(blocks_owned(b, owner), t->n[o]);
		}
	}
}

static void a_mix_against_the_truth(void **state)
{
	struct blocks *b = blocks_new(BYTES);
	static struct truth t;
	struct rng rng;

	(void)state;
	rng_init(&rng, 4);
	for (int step = 0; step < 2000; step++) {
		uint32_t n = rng_below(&rng, 40), at = 0;
		int o = (int)rng_below(&rng, TRUE_OWNERS);
		uint16_t owner = blocks_join(b, 0, (server_id)o);
		char word[WORD_MAX];
		uint64_t keys[WORD_MAX];
		struct prompt_of q;
		struct block_walk w;
		bool last = rng_below(&rng, 2);

		for (uint32_t i = 0; i < n; i++)
			word[i] = (char)('a' + (rng_below(&rng, 12) == 0));
		word[n] = '\0';
		w = walk_chain(prompt_in(&q, 1, word), n, 1);
		assert_int_equal(walk_next(&w, keys, WORD_MAX), n);
		switch (rng_below(&rng, 40)) {
		case 0:
			blocks_gone(b, (server_id)o);
			t.n[o] = 0;
			break;
		case 1:
			at = rng_below(&rng, t.n[o] + 1);
			blocks_trim(b, owner, at, 1000);
			while (t.n[o] > at)
				true_drop(&t, o, 0);
			break;
		default:
			while (t.n[o] + n > TRUE_MAX / 2)
				true_drop(&t, o, 0);
			blocks_trim(b, owner, t.n[o], 1000);
			blocks_add(b, walk_chain(&q.p, n, 1), owner, (uint32_t)step, last);
			true_add(&t, o, keys, n, last);
		}
		check_all(b, &t, &q.p, keys, n);
	}
	blocks_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_match_is_by_chain),
		cmocka_unit_test(blocks_of_pages),
		cmocka_unit_test(order_of_going),
		cmocka_unit_test(a_hole_ends_a_whole_match_only),
		cmocka_unit_test(what_is_old_expires),
		cmocka_unit_test(the_oldest_of_all_goes_for_room),
		cmocka_unit_test(a_prompt_that_does_not_fit),
		cmocka_unit_test(who_is_gone_counts_no_more),
		cmocka_unit_test(more_than_64_owners),
		cmocka_unit_test(a_search_by_place),
		cmocka_unit_test(a_mix_against_the_truth),
	};

	return cmocka_run_group_tests_name("policy blocks", tests, NULL, NULL);
}
