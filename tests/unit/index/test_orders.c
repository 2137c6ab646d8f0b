/* test_orders.c - which pages of a server are evicted first, in each of the six orders: prompts
 * that share nothing, on one shard and a server with room for some of them, against a list that is
 * searched for the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

#define PROMPTS		40
#define MAX_LEN		60
#define CAPACITY	500

static const struct space_key sp = { .h = { 7, 7 } };

struct one {
	uint32_t n, left;		/* pages of the prompt, and what is left of it */
	uint64_t used;
	unsigned hits, priority;
};

struct truth {
	enum index_order order;
	struct one a[PROMPTS];
};

/* Return whether <a> is evicted before <b>. */
static bool before(enum index_order o, const struct one *a, const struct one *b)
{
	unsigned ha = a->hits < 31 ? a->hits : 31, hb = b->hits < 31 ? b->hits : 31;

	if (o == INDEX_LFU && ha != hb)
		return ha < hb;
	if (o == INDEX_PRIORITY && a->priority != b->priority)
		return a->priority < b->priority;
	return o == INDEX_MRU || o == INDEX_FILO ? a->used > b->used : a->used < b->used;
}

static uint64_t sum(const struct truth *t)
{
	uint64_t n = 0;
	unsigned i;

	for (i = 0; i < PROMPTS; i++)
		n += t->a[i].left;
	return n;
}

/* Evict down to <to> pages, but none of <pinned>. */
static void evict(struct truth *t, uint64_t to, const struct one *pinned)
{
	struct one *first;
	uint64_t over;
	unsigned i;

	while (sum(t) > to) {
		for (first = NULL, i = 0; i < PROMPTS; i++)
			if (t->a[i].left > 0 && &t->a[i] != pinned &&
			    (first == NULL || before(t->order, &t->a[i], first)))
				first = &t->a[i];
		if (first == NULL)
			return;
		over = sum(t) - to;
		first->left -= over < first->left ? (uint32_t)over : first->left;
	}
}

static void pages_of(unsigned i, uint32_t n, page_key *p)
{
	uint32_t k;

	for (k = 0; k < n; k++)
		p[k] = (uint64_t)(i + 1) << 20 | k;
}

static void check(struct index *ix, const struct truth *t, struct index_match *m)
{
	page_key p[MAX_LEN];
	const char *bad = index_check(ix);
	unsigned i;

	if (bad != NULL)
		fail_msg("%s", bad);
	for (i = 0; i < PROMPTS; i++) {
		pages_of(i, MAX_LEN, p);
		index_match(ix, &sp, p, MAX_LEN, m);
		assert_int_equal(index_match_depth(m, 1), t->a[i].left);
	}
}

static void use(struct index *ix, struct truth *t, struct rng *rng, uint64_t *tick)
{
	unsigned i = rng_below(rng, 3) ? rng_below(rng, PROMPTS) : rng_below(rng, 8),
		 priority = rng_below(rng, 4);
	bool by_entry = t->order == INDEX_FIFO || t->order == INDEX_FILO, ends = rng_below(rng, 8) > 0;
	struct one *a = &t->a[i];
	page_key p[MAX_LEN];
	uint32_t had = a->left;
	index_claim c;

	if (a->n == 0)
		a->n = 1 + rng_below(rng, MAX_LEN);
	a->hits = had ? a->hits + 1 : 1;
	a->priority = had && a->priority > priority ? a->priority : priority;
	++*tick;
	if (had == 0 || !by_entry)
		a->used = *tick;
	a->left = had > a->n ? had : a->n;
	pages_of(i, a->n, p);
	c = index_commit(ix, &sp, p, a->n, NULL, 1, *tick * 16, priority);
	assert_true(c != 0);
	evict(t, CAPACITY, a);
	++*tick;
	if (ends) {
		index_confirm(ix, c, *tick * 16);
		if (!by_entry)
			a->used = *tick;
	} else {
		index_cancel(ix, c);
		a->left = had;
	}
	while (index_tick(ix))
		;
	evict(t, CAPACITY, NULL);
}

static void order(enum index_order o)
{
	struct index_opts opts = { .max_bytes = 4 << 20, .max_pages = 65536, .shards = 1, .order = o };
	struct truth t = { .order = o };
	struct index *ix = index_new(&opts);
	struct index_stats st;
	struct index_match m;
	uint64_t tick = 1;
	struct rng rng;
	unsigned i;

	assert_non_null(ix);
	assert_int_equal(index_match_init(&m), 0);
	index_set_capacity(ix, 1, CAPACITY);
	rng_init(&rng, o + 1);
	for (i = 0; i < 20000; i++) {
		use(ix, &t, &rng, &tick);
		if (i % 7 == 0)
			check(ix, &t, &m);
	}
	check(ix, &t, &m);
	index_stats(ix, &st);
	assert_true(st.evicted_records > 3000);
	assert_int_equal(st.expired + st.refused, 0);
	index_match_fini(&m);
	index_free(ix);
}

static void lru(void **state) { order(INDEX_LRU); }
static void lfu(void **state) { order(INDEX_LFU); }
static void fifo(void **state) { order(INDEX_FIFO); }
static void mru(void **state) { order(INDEX_MRU); }
static void filo(void **state) { order(INDEX_FILO); }
static void priority(void **state) { order(INDEX_PRIORITY); }

/* A prefix that is used again and again, but whose request is cancelled each time, is not among the
 * first evicted although hundreds were used meanwhile. */
static void a_cancelled_request_leaves_its_prefix_where_it_was_used(void **state)
{
	static const uint32_t left[3] = { 600, 12, 8 };		/* prompts; it was used before the last nine */
	struct index_opts opts = { .max_bytes = 16 << 20, .max_pages = 65536, .shards = 1 };
	struct index *ix = index_new(&opts);
	struct index_match m;
	page_key p[4];
	index_claim c = 0;
	unsigned i;

	assert_int_equal(index_match_init(&m), 0);
	for (i = 0; i < 1000; i++) {
		pages_of(i, 4, p);
		index_confirm(ix, index_commit(ix, &sp, p, 4, NULL, 1, i * 16, 0), i * 16);
		if (i == 990) {
			pages_of(0, 4, p);
			assert_true((c = index_commit(ix, &sp, p, 4, NULL, 1, i * 16, 0)) != 0);
		}
	}
	index_cancel(ix, c);
	assert_null(index_check(ix));
	for (i = 0; i < 3; i++) {
		index_set_capacity(ix, 1, left[i] * 4);
		while (index_tick(ix))
			;
		pages_of(0, 4, p);
		index_match(ix, &sp, p, 4, &m);
		assert_int_equal(index_match_depth(&m, 1), i < 2 ? 4 : 0);
		pages_of(399, 4, p);
		index_match(ix, &sp, p, 4, &m);
		assert_int_equal(index_match_depth(&m, 1), 0);
	}
	index_match_fini(&m);
	index_free(ix);
}

/* Ticks compare the same way across shards as within one: beyond 2^27, the bits that buckets once
 * left, and after a wrap. */
static void what_goes_first_is_the_same_when_ticks_wrap(void **state)
{
	static const uint64_t wraps[] = { 1ull << 26, 1ull << 27, 1ull << 31, 1ull << 32 };
	struct index_match m;
	unsigned o, w, i;
	page_key p[4];

	for (o = INDEX_LRU; o <= INDEX_PRIORITY; o++)
		for (w = 0; w < 4; w++) {
			struct index_opts opts = { .max_bytes = 4 << 20, .max_pages = 65536, .shards = 16,
						   .order = (enum index_order)o };
			struct index *ix = index_new(&opts);

			assert_int_equal(index_match_init(&m), 0);
			assert_int_equal(index_shards(ix), 16);
			for (i = 0; i < 64; i++) {
				msec now = (msec)(wraps[w] - 32 + i) * 16;

				pages_of(i, 4, p);
				index_confirm(ix, index_commit(ix, &sp, p, 4, NULL, 1, now, 0), now);
			}
			index_set_capacity(ix, 1, 32 * 4);
			while (index_tick(ix))
				;
			for (i = 0; i < 64; i++) {
				pages_of(i, 4, p);
				index_match(ix, &sp, p, 4, &m);
				assert_int_equal(index_match_depth(&m, 1),
						 (i < 32) == (o == INDEX_MRU || o == INDEX_FILO) ? 4 : 0);
			}
			index_match_fini(&m);
			index_free(ix);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lru),
		cmocka_unit_test(lfu),
		cmocka_unit_test(fifo),
		cmocka_unit_test(mru),
		cmocka_unit_test(filo),
		cmocka_unit_test(priority),
		cmocka_unit_test(a_cancelled_request_leaves_its_prefix_where_it_was_used),
		cmocka_unit_test(what_goes_first_is_the_same_when_ticks_wrap),
	};

	return cmocka_run_group_tests_name("index orders", tests, NULL, NULL);
}
