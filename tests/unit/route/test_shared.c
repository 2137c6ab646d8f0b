/* test_shared.c - requests that branch from a prefix are counted, and the counts change the
 * price of a copy. */
#include <math.h>

#include "agent/route/shared_in.h"
#include "tests/unit/route/world.h"

/* ---- counts -------------------------------------------------------------------------------- */

#define PAGES	400u

static void marks_at(struct marks *m, uint64_t space, uint64_t first)
{
	page_key pages[PAGES];

	for (uint32_t i = 0; i < PAGES; i++)
		pages[i] = first + i;
	marks_of(m, space, pages, PAGES, NULL);
}

static void counts_up_to_where_they_branch(void **state)
{
	struct shared_table *t = shared_table_new();
	struct marks m, other, elsewhere;
	float n[MARKS_MAX];
	uint32_t k;

	(void)state;
	marks_at(&m, 1, 1000);
	marks_at(&other, 1, 5000);
	marks_at(&elsewhere, 2, 1000);
	for (int i = 0; i < 3; i++)
		shared_branch(t, &m, 100, 0);
	shared_branch(t, &m, 200, 0);
	k = shared_counts(t, &m, PAGES, 0, n);
	assert_int_equal(k, m.n);
	for (uint32_t i = 0; i < k; i++)
		assert_true(n[i] == (m.depth[i] <= 100 ? 4 : m.depth[i] <= 200 ? 1 : 0));
	assert_true(shared_counts(t, &m, 100, 0, n) > 0 && shared_counts(t, &m, 15, 0, n) == 0);
	for (uint32_t i = 0, l = shared_counts(t, &other, PAGES, 0, n); i < l; i++)
		assert_true(n[i] == 0);
	for (uint32_t i = 0, l = shared_counts(t, &elsewhere, PAGES, 0, n); i < l; i++)
		assert_true(n[i] == 0);
	shared_table_free(t);
}

static void counts_decay_unseen(void **state)
{
	struct shared_table *t = shared_table_new();
	struct marks m;
	float n[MARKS_MAX];

	(void)state;
	marks_at(&m, 1, 1000);
	for (int i = 0; i < 100; i++)
		shared_branch(t, &m, PAGES, 0);
	shared_counts(t, &m, PAGES, 600000, n);
	assert_true(fabsf(n[0] - 100 * expf(-1)) < 0.01);
	shared_branch(t, &m, PAGES, 600000);
	shared_counts(t, &m, PAGES, 600000, n);
	assert_true(fabsf(n[0] - 100 * expf(-1) - 1) < 0.01);
	shared_counts(t, &m, PAGES, (msec)1000 * 3600 * 24 * 400, n);
	assert_true(n[0] < 1e-6);
	shared_table_free(t);
}

static void counts_do_not_grow_where_time_begins_anew(void **state)
{
	struct shared_table *t = shared_table_new();
	struct marks m;
	float n[MARKS_MAX];

	(void)state;
	marks_at(&m, 1, 1000);
	shared_branch(t, &m, PAGES, (msec)1000 * 3600 * 24 * 10);
	shared_counts(t, &m, PAGES, 0, n);
	assert_true(n[0] == 1);
	shared_branch(t, &m, PAGES, 0);
	shared_counts(t, &m, PAGES, 0, n);
	assert_true(n[0] == 2);
	shared_table_free(t);
}

static float mean_count(const struct shared_table *t, const struct marks *m)
{
	float n[MARKS_MAX], sum = 0;
	uint32_t k = shared_counts(t, m, PAGES, 0, n);

	for (uint32_t i = 0; i < k; i++)
		sum += n[i];
	return sum / (float)k;
}

/* Prompts that a client makes up, each used once, come over the whole table. */
static void prompts_of_one_use_displace_none(void **state)
{
	struct shared_table *t = shared_table_new();
	struct hash_key key = test_key();
	struct marks m, made_up = { .n = 0 };
	uint64_t n = 0;

	(void)state;
	marks_at(&m, 1, 1000);
	for (int i = 0; i < 20; i++)
		shared_branch(t, &m, PAGES, 0);
	while (n < 4 * 65536) {
		made_up.n = MARKS_MAX;
		for (uint32_t i = 0; i < MARKS_MAX; i++) {
			made_up.depth[i] = 16 * (i + 1);
			made_up.key[i] = hash_mix(&key, 99, n++);
		}
		shared_branch(t, &made_up, UINT32_MAX, 0);
	}
	assert_true(mean_count(t, &m) > 14);
	for (int i = 0; i < 100; i++)		/* one that is used takes its place */
		shared_branch(t, &made_up, UINT32_MAX, 0);
	assert_true(mean_count(t, &made_up) > 80);
	shared_table_free(t);
}

/* ---- in the door --------------------------------------------------------------------------- */

/* "s" is the system prompt of all; each conversation continues with a letter of its own. <done>:
 * each ends at once. Returns the number of servers that got any. */
static unsigned crowd(struct world *w, unsigned n, bool done)
{
	bool used[26] = { false };
	unsigned servers = 0;

	for (unsigned i = 0; i < n; i++) {
		char uid[16], turns[16] = "ssssssss";
		unsigned s;

		snprintf(uid, sizeof(uid), "c%u", i);
		turns[8] = (char)('A' + i % 26);
		turns[9] = (char)('0' + i / 26);
		turns[10] = '\0';
		ask(w, uid, turns);
		assert_true(w->a.server.n == 1 || w->a.server.n == 2);
		s = (unsigned)(w->a.server.p[w->a.server.n - 1] - 'a') % 26;
		servers += !used[s];
		used[s] = true;
		if (done)
			served(w, uid);
		w->now += 10;
	}
	return servers;
}

/* Queues grow, and with them the price of work: a rule that does not know that a copy serves many
 * never makes one. */
static void a_popular_prefix_is_copied(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.r->opts.pool_default.policy.sacrifice_min = 30;
	assert_true(crowd(&w, 60, false) >= 2);
	world_end(&w);
}

static void one_that_is_not_popular_is_not(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.r->opts.pool_default.policy.sacrifice_min = 30;
	shared_table_free(w.r->shared);
	w.r->shared = NULL;
	assert_int_equal(crowd(&w, 60, false), 1);
	world_end(&w);
}

static double most_shared(const struct world *w)
{
	double most = 0;

	for (size_t i = 0; i < 4; i++)
		if (w->s->candidates[i].shared > most)
			most = w->s->candidates[i].shared;
	return most;
}

/* With one holder and a copy, seven requests that branch are the first for which each would serve
 * more than three. The second request does not count, because it leaves only a short tail
 * unused. */
static void a_copy_must_serve_three(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.r->opts.pool_default.policy.sacrifice_min = 30;
	w.r->opts.pool_default.policy.load_ms = 0;
	for (unsigned i = 0; i < 12; i++) {
		char uid[16], turns[16] = "ssssssss";

		snprintf(uid, sizeof(uid), "c%u", i);
		turns[8] = (char)('A' + i);
		turns[9] = '\0';
		ask(&w, uid, turns);
		served(&w, uid);
		if (i < 9)
			assert_true(most_shared(&w) == 0);
	}
	assert_true(most_shared(&w) > 0);
	world_end(&w);
}

/* Set the tokens that open requests hold in the caches of all servers: without their common
 * prefixes, and all. */
static uint64_t kv_tokens(const struct world *w, uint64_t *all)
{
	const struct pool *p = w->r->fleet.pools[0];
	uint64_t sum = 0;

	*all = 0;
	for (size_t i = 0; i < p->n_servers; i++) {
		sum += p->servers[i]->kv_tokens;
		*all += p->servers[i]->open_tokens;
	}
	return sum;
}

static void common_prefixes_count_once(void **state)
{
	struct world w;
	uint64_t all, sum;

	(void)state;
	world_start(&w);
	crowd(&w, 20, false);
	sum = kv_tokens(&w, &all);
	assert_true(sum > 0 && sum < all / 2);
	for (unsigned i = 0; i < 20; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "c%u", i);
		served(&w, uid);
	}
	sum = kv_tokens(&w, &all);
	assert_true(sum == 0 && all == 0);
	world_end(&w);
}

/* Turns go on where the last one ended: nothing branches, so nothing is shared. */
static void a_conversation_stays(void **state)
{
	char turns[32] = "sa", first[8] = "";
	struct world w;

	(void)state;
	world_start(&w);
	for (unsigned i = 0; i < 20; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "t%u", i);
		ask(&w, uid, turns);
		if (i == 0)
			snprintf(first, sizeof(first), SPAN_FMT, SPAN_ARG(w.a.server));
		assert_span(w.a.server, first);
		for (size_t k = 0; k < w.s->match.n_bands; k++)
			assert_true(w.s->candidates[k].shared == 0);
		turns[i + 2] = (char)('b' + i);
		turns[i + 3] = '\0';
		served(&w, uid);
		w.now += 1000;
	}
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_up_to_where_they_branch),
		cmocka_unit_test(counts_decay_unseen),
		cmocka_unit_test(counts_do_not_grow_where_time_begins_anew),
		cmocka_unit_test(prompts_of_one_use_displace_none),
		cmocka_unit_test(a_popular_prefix_is_copied),
		cmocka_unit_test(one_that_is_not_popular_is_not),
		cmocka_unit_test(a_copy_must_serve_three),
		cmocka_unit_test(common_prefixes_count_once),
		cmocka_unit_test(a_conversation_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
