/* test_hashing.c - rules that go by a hash: where a key leads, the effect of loads, and which keys
 * move when a server goes. */
#include <stdlib.h>

#include "agent/policy/rules_in.h"
#include "tests/unit/policy/candidates.h"
#include "tests/lib/policy/guarded.h"

#define SERVERS	12

struct world {
	struct policy_opts o;
	struct policy_memory *m;
	struct candidate c[SERVERS];
	struct rng rng;
};

static uint64_t name_of(size_t i)
{
	return scatter(1000 + i);
}

static void start(struct world *w, enum policy_rule rule)
{
	policy_defaults(&w->o);
	policy_preset(&w->o, rule);
	w->m = policy_memory_new(&w->o);
	rng_init(&w->rng, 1);
}

static void end(struct world *w)
{
	policy_memory_free(w->m);
}

/* Make servers 0 .. n - 1 except <without>, with these loads (NULL: none). */
static size_t row(struct world *w, size_t n, const uint32_t *load, size_t without)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (i == without)
			continue;
		w->c[k++] = (struct candidate){ .id = (server_id)i, .name = name_of(i), .slowness = 1,
						.load = load ? load[i] : 0 };
	}
	return k;
}

static struct policy_choice ask(struct world *w, const struct policy_prompt *p, size_t n)
{
	struct policy_choice out;

	policy_choose(&w->o, w->m, p, &(struct policy_pressure){ 0 }, &w->rng, w->c, n, &out);
	return out;
}

/* ---- the ring, as published: all places of all servers in one sorted row ---- */

struct place {
	uint64_t at;
	int server;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Write the servers in the order in which a walk from <key> meets them. */
static void slow_walk(uint32_t replicas, size_t n, uint64_t key, int *order)
{
	static struct place ring[SERVERS * 256];
	size_t n_places = 0, i, k = 0;
	bool met[SERVERS] = { false };

	for (i = 0; i < n; i++) {
		for (uint32_t r = 0; r < replicas; r++)
			ring[n_places++] = (struct place){
				scatter(name_of(i) + (r + 1) * 0x9e3779b97f4a7c15ull) >> 32, (int)i };
	}
	qsort(ring, n_places, sizeof(*ring), by_place);
	for (i = 0; i < n_places && ring[i].at < key >> 32; i++)
		;
	for (size_t step = 0; step < n_places && k < n; step++) {
		int s = ring[(i + step) % n_places].server;

		if (!met[s])
			order[k++] = s;
		met[s] = true;
	}
}

static void a_ring_is_the_published_one(void **state)
{
	static const struct { enum policy_rule rule; uint32_t replicas; } cases[] = {
		{ RULE_CONSISTENT_HASH, 150 }, { RULE_PREFIX_HASH, 150 }, { RULE_CHWBL, 256 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct world w;

		start(&w, cases[i].rule);
		assert_non_null(w.m);
		for (uint64_t k = 0; k < 200; k++) {
			page_key page = scatter(k + 7), key = page;
			struct policy_prompt p = { .session = page, .opening = page, .pages = &page,
						   .n_pages = 1, .page_tokens = 16 };
			struct policy_memory *m = w.m;
			struct policy_choice got, bare;
			int order[SERVERS];

			if (cases[i].rule == RULE_PREFIX_HASH)
				key = chain(0, page);
			if (cases[i].rule == RULE_CHWBL)
				key = chain(page, 0);
			slow_walk(cases[i].replicas, SERVERS, scatter(key), order);
			got = ask(&w, &p, row(&w, SERVERS, NULL, SERVERS));
			check_choice("ring", &got, order[0], order[1], WHY_STICKY);
			w.m = NULL;			/* the same without its memory */
			bare = ask(&w, &p, row(&w, SERVERS, NULL, SERVERS));
			check_choice("no memory", &bare, order[0], order[1], WHY_STICKY);
			w.m = m;
		}
		end(&w);
	}
}

static void a_ring_knows_servers_by_name(void **state)
{
	struct world w;

	(void)state;
	start(&w, RULE_CHWBL);
	for (uint64_t k = 0; k < 100; k++) {
		struct policy_prompt p = { .opening = scatter(k + 1) };
		struct policy_choice a = ask(&w, &p, row(&w, 4, NULL, SERVERS)), b;
		uint64_t name = w.c[a.first].name;

		policy_gone(w.m, 2);
		row(&w, 4, NULL, SERVERS);
		for (size_t i = 0; i < 4; i++)		/* the same servers under other ids, in another order */
			w.c[i].id = (server_id)((i + k) % 4);
		w.c[4] = w.c[0];
		w.c[0] = w.c[3];
		w.c[3] = w.c[4];
		b = ask(&w, &p, 4);
		assert_int_equal(w.c[b.first].name, name);
	}
	end(&w);
}

static void a_ring_keeps_to_its_bytes(void **state)
{
	struct world w;

	(void)state;
	start(&w, RULE_CHWBL);
	end(&w);
	w.o.rule_max_bytes = 64 << 10;
	w.m = policy_memory_new(&w.o);
	assert_non_null(w.m);
	for (uint64_t k = 0; k < 100; k++) {		/* ids after its end have no row */
		struct policy_prompt p = { .opening = scatter(k + 1) };
		int order[SERVERS];
		struct policy_choice got;

		slow_walk(256, SERVERS, scatter(chain(p.opening, 0)), order);
		row(&w, SERVERS, NULL, SERVERS);
		for (size_t i = 0; i < SERVERS; i++)
			w.c[i].id = (server_id)(25 + i);
		got = ask(&w, &p, SERVERS);
		check_choice("some without a row", &got, order[0], order[1], WHY_STICKY);
		policy_gone(w.m, 1023);
		policy_gone(w.m, 26);
	}
	end(&w);
}

/* ---- bounded loads ---- */

/* Loads in the order of the walk: first, second, third, fourth. */
struct bound_case {
	const char *name;
	double factor;
	uint32_t load[4];
	int first, second;		/* places in the walk */
	enum why why;
};

/* mean = (sum + 1) / 4; stay: load <= 1.25 x mean */
static const struct bound_case prefix_cases[] = {
	{ "idle", 1.25, { 0, 0, 0, 0 }, 0, 1, WHY_STICKY },
	{ "mean 4, 5 stays", 1.25, { 5, 4, 3, 3 }, 0, 1, WHY_STICKY },
	{ "mean 4, 6 goes to the least", 1.25, { 6, 4, 2, 3 }, 2, 3, WHY_IMBALANCE },
	{ "the first request goes on, the first server is idle", 1.25, { 0, 9, 9, 9 }, 0, 1, WHY_STICKY },
	{ "1 beside three idle: above 0.63", 1.25, { 1, 0, 0, 0 }, -2, -2, WHY_IMBALANCE },
	{ "a larger factor", 2, { 6, 4, 2, 3 }, 0, 1, WHY_STICKY },
};

/* stay: load + 1 <= 1.25 x mean */
static const struct bound_case chwbl_cases[] = {
	{ "idle", 1.25, { 0, 0, 0, 0 }, 0, 1, WHY_STICKY },
	{ "mean 4, 4 stays", 1.25, { 4, 4, 4, 3 }, 0, 1, WHY_STICKY },
	{ "mean 4, 5 goes on to the next that may", 1.25, { 5, 5, 4, 1 }, 2, 3, WHY_IMBALANCE },
	{ "not to the least loaded", 1.25, { 9, 3, 2, 1 }, 1, 2, WHY_IMBALANCE },
	{ "nobody may: back to the first", 1.25, { 1, 0, 0, 0 }, 0, 1, WHY_STICKY },
	{ "all alike and few: nobody may", 1.25, { 2, 2, 2, 2 }, 0, 1, WHY_STICKY },
	{ "a larger factor", 2, { 6, 4, 2, 3 }, 0, 1, WHY_STICKY },
};

static void bound_table(
    enum policy_rule rule, uint32_t replicas, const struct bound_case *cases, size_t n)
{
	page_key page = 4711;
	struct policy_prompt p = { .opening = 4711, .pages = &page, .n_pages = 1, .page_tokens = 16 };
	int order[4];

	slow_walk(replicas, 4, scatter(rule == RULE_CHWBL ? chain(4711, 0) : chain(0, 4711)), order);
	for (size_t i = 0; i < n; i++) {
		const struct bound_case *t = &cases[i];
		uint32_t load[4];
		struct policy_choice got;
		struct world w;

		start(&w, rule);
		w.o.load_factor = t->factor;
		for (int k = 0; k < 4; k++)
			load[order[k]] = t->load[k];
		got = ask(&w, &p, row(&w, 4, load, SERVERS));
		if (t->first == -2) {			/* any of those with the lowest load */
			assert_int_equal(got.why, t->why);
			assert_int_equal(w.c[got.first].load, 0);
		} else {
			check_choice(t->name, &got, order[t->first], order[t->second], t->why);
		}
		end(&w);
	}
}

static void loads_are_bounded(void **state)
{
	(void)state;
	bound_table(RULE_PREFIX_HASH, 150, prefix_cases, sizeof(prefix_cases) / sizeof(*prefix_cases));
	bound_table(RULE_CHWBL, 256, chwbl_cases, sizeof(chwbl_cases) / sizeof(*chwbl_cases));
}

static void servers_without_the_adapter_are_passed_over(void **state)
{
	struct policy_prompt p = { .opening = 4711, .adapter = 5 };
	struct world w;
	struct policy_choice got;
	int order[4];

	(void)state;
	start(&w, RULE_CHWBL);
	slow_walk(256, 4, scatter(chain(4711, 5)), order);
	got = ask(&w, &p, row(&w, 4, NULL, SERVERS));
	check_choice("nobody says so: anybody", &got, order[0], order[1], WHY_STICKY);
	row(&w, 4, NULL, SERVERS);
	w.c[order[1]].has_adapter = w.c[order[3]].has_adapter = true;
	got = ask(&w, &p, 4);
	check_choice("two have it", &got, order[1], order[3], WHY_STICKY);
	row(&w, 4, (uint32_t[]){ 1, 1, 1, 1 }, SERVERS);
	w.c[order[1]].has_adapter = w.c[order[3]].has_adapter = true;
	w.c[order[1]].load = 9;
	w.c[order[3]].load = 2;			/* 3 <= 1.25 x 14 / 4 */
	got = ask(&w, &p, 4);
	check_choice("the next that has it", &got, order[3], order[0], WHY_IMBALANCE);
	w.c[order[3]].load = 9;
	got = ask(&w, &p, 4);
	check_choice("both have too much: the first of them", &got, order[1], order[3], WHY_STICKY);
	p.adapter = 0;
	slow_walk(256, 4, scatter(chain(4711, 0)), order);
	row(&w, 4, NULL, SERVERS);
	w.c[order[1]].has_adapter = true;
	got = ask(&w, &p, 4);
	check_choice("none is asked for", &got, order[0], order[1], WHY_STICKY);
	end(&w);
}

/* ---- keys ---- */

static void only_the_beginning_counts(void **state)
{
	page_key a[40], b[40], other[40];
	struct world w;
	unsigned apart = 0;

	(void)state;
	start(&w, RULE_PREFIX_HASH);
	for (uint64_t k = 0; k < 60; k++) {
		struct policy_prompt p = { .pages = a, .n_pages = 40, .page_tokens = 16 };
		int to;

		for (int i = 0; i < 40; i++) {
			a[i] = scatter(k * 100 + (uint64_t)i);
			b[i] = i < 16 ? a[i] : scatter(a[i]);		/* 16 pages are 256 tokens */
			other[i] = i == 15 ? scatter(a[i]) : a[i];
		}
		to = ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first;
		p.pages = b;
		assert_int_equal(ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first, to);
		p.n_pages = 16;
		assert_int_equal(ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first, to);
		p.pages = other;
		apart += ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first != to;
		p.page_tokens = 512;						/* one page is more than enough */
		to = ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first;
		p.n_pages = 1;
		assert_int_equal(ask(&w, &p, row(&w, SERVERS, NULL, SERVERS)).first, to);
	}
	assert_true(apart > 40);		/* 55 expected */
	end(&w);
}

/* Count of 50 values of this key how many lead elsewhere than the one before. */
static unsigned moves(struct world *w, struct policy_prompt *p, uint64_t *key)
{
	unsigned n = 0;
	uint64_t was = *key;
	int to = -1;

	for (uint64_t k = 1; k <= 50; k++) {
		struct policy_choice got;

		*key = scatter(k);
		got = ask(w, p, row(w, SERVERS, NULL, SERVERS));
		assert_int_equal(got.why, WHY_STICKY);
		n += to >= 0 && got.first != to;
		to = got.first;
	}
	*key = was;
	return n;
}

static void keys_come_in_order(void **state)
{
	struct policy_prompt p = { .session = 1,
		.user = 2,
		.body = 3,
		.opening = 4,
		.adapter = 5,
		.model = 6,
		.space = 7 };
	struct world w;

	(void)state;
	start(&w, RULE_RENDEZVOUS);
	assert_true(policy_wants_body(RULE_RENDEZVOUS));
	assert_true(moves(&w, &p, &p.session) > 35);		/* 45 expected */
	assert_int_equal(moves(&w, &p, &p.user), 0);
	assert_int_equal(moves(&w, &p, &p.body), 0);
	p.session = 0;
	assert_true(moves(&w, &p, &p.user) > 35);
	assert_int_equal(moves(&w, &p, &p.body), 0);
	p.user = 0;
	assert_true(moves(&w, &p, &p.body) > 35);
	assert_int_equal(moves(&w, &p, &p.space), 0);
	end(&w);

	start(&w, RULE_CONSISTENT_HASH);
	assert_true(policy_wants_body(RULE_CONSISTENT_HASH));
	p.session = 1;
	assert_int_equal(moves(&w, &p, &p.body), 0);
	assert_true(moves(&w, &p, &p.session) > 35);
	p.session = 0;
	p.user = 2;
	assert_int_equal(moves(&w, &p, &p.user), 0);		/* the original ignores it */
	assert_true(moves(&w, &p, &p.body) > 35);
	end(&w);

	start(&w, RULE_CHWBL);
	assert_int_equal(moves(&w, &p, &p.body), 0);
	assert_int_equal(moves(&w, &p, &p.session), 0);
	assert_true(moves(&w, &p, &p.opening) > 35);
	assert_true(moves(&w, &p, &p.adapter) > 35);
	end(&w);
}

static void without_a_key_not_all_to_one(void **state)
{
	static const enum policy_rule rules_of_hash[] = {
		RULE_PREFIX_HASH, RULE_CONSISTENT_HASH, RULE_CHWBL, RULE_RENDEZVOUS,
	};
	const struct policy_prompt none = { 0 };

	(void)state;
	for (size_t r = 0; r < 4; r++) {
		uint64_t last_pick[4] = { 0 };
		unsigned n[4] = { 0 };
		struct world w;

		start(&w, rules_of_hash[r]);
		for (uint64_t i = 1; i <= 400; i++) {
			struct policy_choice got;

			row(&w, 4, NULL, SERVERS);
			for (int k = 0; k < 4; k++)
				w.c[k].last_pick = last_pick[k];
			got = ask(&w, &none, 4);
			assert_int_equal(got.why, WHY_COLD);
			last_pick[got.first] = i;
			n[got.first]++;
		}
		for (int k = 0; k < 4; k++)
			assert_true(n[k] > 60 && n[k] < 140);
		end(&w);
	}
}

/* ---- servers that go ---- */

static void who_loses_a_server_moves_and_nobody_else(void **state)
{
	static const enum policy_rule sticky[] = { RULE_RENDEZVOUS, RULE_CONSISTENT_HASH, RULE_CHWBL };

	(void)state;
	for (size_t r = 0; r < 3; r++) {
		unsigned n[3] = { 0 }, moved = 0;
		struct world w;

		start(&w, sticky[r]);
		for (uint64_t k = 0; k < 300; k++) {
			struct policy_prompt p = { .session = scatter(k + 5000), .opening = scatter(k + 5000) };
			struct policy_choice all = ask(&w, &p, row(&w, 3, NULL, SERVERS)), left;
			server_id to = w.c[all.first].id, next = w.c[all.second].id;

			n[to]++;
			left = ask(&w, &p, row(&w, 3, NULL, 1));
			if (to == 1) {
				moved++;
				assert_int_equal(w.c[left.first].id, next);	/* as computed before */
			} else {
				assert_int_equal(w.c[left.first].id, to);
			}
		}
		assert_int_equal(moved, n[1]);
		for (int i = 0; i < 3; i++)
			assert_true(n[i] > 70 && n[i] < 130);
		end(&w);
	}
}

static void defaults_are_the_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	assert_true(o.load_factor == 1.25);
	o.load_factor = 9;
	policy_preset(&o, RULE_PREFIX_HASH);
	assert_true(o.load_factor == 1.25);
	o.load_factor = 9;
	policy_preset(&o, RULE_CHWBL);
	assert_true(o.load_factor == 1.25);
	assert_false(policy_rule_guarded(RULE_CHWBL) || policy_rule_guarded(RULE_RENDEZVOUS) ||
		     policy_rule_guarded(RULE_PREFIX_HASH) || policy_rule_guarded(RULE_CONSISTENT_HASH));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_is_the_published_one),
		cmocka_unit_test(a_ring_knows_servers_by_name),
		cmocka_unit_test(a_ring_keeps_to_its_bytes),
		cmocka_unit_test(loads_are_bounded),
		cmocka_unit_test(servers_without_the_adapter_are_passed_over),
		cmocka_unit_test(only_the_beginning_counts),
		cmocka_unit_test(keys_come_in_order),
		cmocka_unit_test(without_a_key_not_all_to_one),
		cmocka_unit_test(who_loses_a_server_moves_and_nobody_else),
		cmocka_unit_test(defaults_are_the_authors),
	};

	return cmocka_run_group_tests_name("policy hashing", tests, NULL, NULL);
}
