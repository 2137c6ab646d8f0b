/* test_server_room.c - settings of the index for servers and tenants: room, generated tokens,
 * removal. */
#include "tests/unit/route/world.h"

static void work_it_off(struct world *w)
{
	for (int i = 0; route_work(w->r); i++)
		assert_true(i < 100000);
}

static uint64_t pages(struct world *w, const char *name)
{
	return server(w, name).v.held_tokens / 16;
}

#define S1	SPAN("lb1/1;s1=1,0,0,1")

/* Send <n> prompts without a common prefix, all to s1. */
static void fill(struct world *w, unsigned n)
{
	char uid[16], turns[2] = "A";

	w->q.load = S1;
	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "f%u", i);
		turns[0] = (char)('A' + i);
		w->now += 100;
		ask(w, uid, turns);
		assert_span(w->a.server, "s1");
		served(w, uid);
	}
}

static void a_capacity_bounds_a_server(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 40 * 16;		/* 40 pages of 16 tokens: four prompts */
	world_open(&w);
	fill(&w, 20);
	work_it_off(&w);
	assert_true(pages(&w, "s1") > 20 && pages(&w, "s1") <= 40);
	w.o.pool_default.capacity = 20 * 16;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	work_it_off(&w);
	assert_true(pages(&w, "s1") > 0 && pages(&w, "s1") <= 20);
	w.o.pool_default.capacity = 0;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	fill(&w, 20);
	work_it_off(&w);
	assert_true(pages(&w, "s1") > 100);
	world_end(&w);
}

/* The guess holds until the size is known: unchanged with ends alone, three times as large if first
 * tokens may still show the size. */
static void a_guess_bounds_a_server(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	assert_int_equal(w.o.pool_default.capacity_guess, 400000);
	w.o.pool_default.capacity_guess = 20 * 16;
	world_open(&w);
	w.q.load = S1;
	ask(&w, "e", "Z");
	tell_done(&w, "e", "s1", 200, "--", 20);
	ask(&w, "e2", "Z");				/* its pool's facts are looked at */
	tell_done(&w, "e2", "s1", 200, "--", 20);
	assert_int_equal(server(&w, "s1").v.room_tokens, 20 * 16);
	assert_int_equal(server(&w, "s1").v.capacity_tokens, 20 * 16);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_GUESS);
	fill(&w, 20);
	work_it_off(&w);
	assert_int_equal(server(&w, "s1").v.room_tokens, 60 * 16);
	assert_true(pages(&w, "s1") > 30 && pages(&w, "s1") <= 60);
	w.o.pool_default.capacity = 30 * 16;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(server(&w, "s1").v.room_tokens, 30 * 16);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_CONFIGURED);
	w.o.pool_default.capacity = 0;
	w.o.pool_default.max_tree_size = 1000 * 64;	/* the bound is configured */
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(server(&w, "s1").v.room_tokens, 1000 * 16);
	w.o.pool_default.max_tree_size = 0;
	w.o.pool_default.capacity_guess = 0;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(server(&w, "s1").v.room_tokens, 0 * 16);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_UNKNOWN);
	world_end(&w);
}

/* The memory of a rule has the same size: of twenty prompts it forgets the first. */
static void a_capacity_bounds_a_rules_memory(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t capacity = 0; capacity <= 640; capacity += 640) {
		world_options(&w);
		policy_preset(&w.o.pool_default.policy, RULE_GAIE_FULL);
		w.o.pool_default.capacity = capacity;
		world_open(&w);
		fill(&w, 20);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
		ask(&w, "last", "T");
		assert_span(w.a.server, "s1");
		assert_why(&w, WHY_CACHED);
		served(&w, "last");
		ask(&w, "first", "A");
		assert_why(&w, capacity ? WHY_COLD : WHY_CACHED);
		world_end(&w);
	}
}

/* The pool's own order holds: with fifo the first page goes, though it was just used. */
static void a_pool_has_its_own_order(void **state)
{
	static const enum index_order order[] = { INDEX_LRU, INDEX_FIFO, INDEX_LFU };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct pool_opts p;
		struct world w;

		world_options(&w);
		p = w.o.pool_default;
		strcpy(p.name, "pool");
		p.eviction = order[i];
		p.capacity = 75 * 16;
		w.o.pools = &p;
		w.o.n_pools = 1;
		world_open(&w);
		fill(&w, 3);				/* A B C */
		w.now += 100;
		ask(&w, "again", "A");
		assert_why(&w, WHY_CACHED);
		served(&w, "again");
		for (char c = 'D'; c <= 'I'; c++) {	/* more than the room */
			char turns[2] = { c, 0 };

			w.now += 100;
			ask(&w, turns, turns);
			served(&w, turns);
			work_it_off(&w);
		}
		ask(&w, "last", "A");
		assert_int_equal(w.a.why, order[i] == INDEX_FIFO ? WHY_COLD : WHY_CACHED);
		world_end(&w);
	}
}

/* Pages with a priority outlive later ones without; the lowest priority goes first. */
static void a_priority_keeps_a_prompt(void **state)
{
	static const char *const first[] = {
		",\"model\":\"m\",\"priority\":5",
		",\"nvext\":{\"agent_hints\":{\"priority\":5}},\"model\":\"m\"",
		",\"model\":\"m\"", ",\"model\":\"m\",\"priority\":-1",
	};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		struct world w;

		world_options(&w);
		w.o.pool_default.eviction = i < 4 ? INDEX_PRIORITY : INDEX_LRU;
		w.o.pool_default.capacity = 40 * 16;	/* four prompts */
		world_open(&w);
		w.q.load = S1;
		chat(&w.body, "", "Z", first[i % 4]);
		send(&w, "kept");
		served(&w, "kept");
		fill(&w, 12);
		work_it_off(&w);
		assert_true(pages(&w, "s1") <= 40);
		ask(&w, "again", "Z");
		assert_why(&w, i < 2 ? WHY_CACHED : WHY_COLD);
		world_end(&w);
	}
}

/* The count may exceed the limit between intervals and is reduced at each one. The budget of bytes
 * is separate. */
static void the_published_sweep(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.max_tree_size = 30 * 64;
	w.o.pool_default.eviction_interval_ms = 60000;
	world_open(&w);
	fill(&w, 1);
	route_tick(w.r, w.now);
	work_it_off(&w);
	fill(&w, 20);
	route_tick(w.r, w.now);
	work_it_off(&w);
	assert_true(pages(&w, "s1") > 100);
	w.now += 60000;
	route_tick(w.r, w.now);
	work_it_off(&w);
	assert_true(pages(&w, "s1") > 0 && pages(&w, "s1") <= 30);
	fill(&w, 20);
	assert_true(pages(&w, "s1") > 100);
	w.o.pool_default.eviction_interval_ms = 0;	/* at once, from here on */
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	work_it_off(&w);
	assert_true(pages(&w, "s1") <= 30);
	fill(&w, 20);
	work_it_off(&w);
	assert_true(pages(&w, "s1") <= 30);
	world_end(&w);
}

static void tell_bytes(struct world *w, const char *uid, int64_t bytes_out)
{
	struct fact f = served_fact(uid);

	f.bytes_out = bytes_out;
	route_learn(w->r, &f, w->now);
}

/* In pages of 16 tokens. */
static uint64_t output(struct world *w, server_id id)
{
	return index_server_output(w->r->index, id) / (16 * ROOM_OF_TOKEN);
}

static void generated_tokens_take_room(void **state)
{
	server_id id;
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 100 * 16;
	world_open(&w);
	fill(&w, 2);
	id = server(&w, "s1").v.id;
	assert_int_equal(output(&w, id), 0);	/* no limit of bytes */
	w.now += 100;
	ask(&w, "stream", "x");
	tell_first(&w, "stream", "s1", 200, STREAM);
	tell_bytes(&w, "stream", 600 + 256 * 16 * 50);
	assert_int_equal(output(&w, id), 50);
	assert_true(pages(&w, "s1") > 25);
	w.now += 100;
	ask(&w, "whole", "y");
	tell_first(&w, "whole", "s1", 200, "application/json");
	tell_bytes(&w, "whole", 600 + 4 * 16 * 30);
	work_it_off(&w);
	assert_true(pages(&w, "s1") + output(&w, id) <= 100);
	assert_true(pages(&w, "s1") < 30 && pages(&w, "s1") >= 10);	/* the first ones went for it */
	tell_bytes(&w, "nobody", 1 << 30);
	tell_bytes(&w, "whole", 1 << 30);				/* a second time */
	assert_true(output(&w, id) <= 80);
	world_end(&w);
}

/* A new server must not have the pages of a removed one, although it gets the same id. */
static void an_id_leaves_in_steps(void **state)
{
	struct server_find s1;
	struct world w;
	server_id id;

	(void)state;
	world_options(&w);
	w.o.server_max_age_ms = 5000;
	w.o.index.max_bytes = 32u << 20;
	world_open(&w);
	fill(&w, 26);
	s1 = server(&w, "s1");
	id = s1.v.id;
	assert_true(s1.v.held_tokens > 250 * 16);
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	w.now += 6000;
	send_body(&w, "x", SPAN("{}"));
	route_tick(w.r, w.now);
	assert_false(server(&w, "s1").found);
	assert_true(fleet_is_leaving(&w.r->fleet, id));
	w.q.load = S1;				/* it comes back before its pages are gone: as another */
	ask(&w, "back", "A");
	assert_why(&w, WHY_COLD);
	assert_int_not_equal(server(&w, "s1").v.id, id);
	work_it_off(&w);
	assert_false(fleet_is_leaving(&w.r->fleet, id));
	assert_int_equal(index_server_room(w.r->index, id), 0);
	world_end(&w);
}

/* ---- tenants ------------------------------------------------------------------------------ */

static uint32_t number_of(struct world *w, const char *name)
{
	return tenant_number(&w->r->requests.tenants, &w->r->key, span_str(name));
}

/* Agents that name the same tenants in another order give them the same numbers. */
static void the_order_of_tenants_means_nothing(void **state)
{
	struct tenant_opts t[5] = { { "a", 0 }, { "b", 0 }, { "c", 0 }, { "d", 0 }, { "e", 0 } }, back[5];
	struct world w, v;

	world_options(&w);
	world_options(&v);
	for (unsigned i = 0; i < 5; i++)
		back[4 - i] = t[i];
	w.o.tenants = t;
	v.o.tenants = back;
	w.o.n_tenants = v.o.n_tenants = 5;
	world_open(&w);
	world_open(&v);
	for (unsigned i = 0; i < 5; i++) {
		uint32_t n = number_of(&w, t[i].name);

		assert_int_equal(number_of(&v, t[i].name), n);
		assert_int_equal(
		    tenant_of_hash(&v.r->requests.tenants, tenant_hash(&w.r->requests.tenants, n)), n);
	}
	assert_int_equal(tenant_of_hash(&v.r->requests.tenants, 0), 0);
	assert_int_equal(tenant_of_hash(&v.r->requests.tenants, 12345), 0);
	assert_int_equal(tenant_hash(&v.r->requests.tenants, TENANTS_MAX), 0);
	world_end(&w);
	world_end(&v);
}

static void tenants_keep_their_numbers(void **state)
{
	struct tenant_opts t[TENANTS_MAX - 1] = { { "acme", 1 << 20 }, { "beta", 1 << 20 } };
	uint32_t acme, beta;
	struct world w;

	(void)state;
	world_options(&w);
	w.o.tenants = t;
	w.o.n_tenants = 2;
	world_open(&w);
	acme = number_of(&w, "acme");
	beta = number_of(&w, "beta");
	assert_true(acme != 0 && beta != 0 && acme != beta);
	assert_int_equal(number_of(&w, "gamma"), 0);
	assert_int_equal(number_of(&w, ""), 0);

	strcpy(t[0].name, "gamma");		/* acme goes, gamma comes, beta stays where it is */
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(number_of(&w, "acme"), 0);
	assert_int_equal(number_of(&w, "beta"), beta);
	assert_int_not_equal(number_of(&w, "gamma"), 0);
	assert_int_not_equal(number_of(&w, "gamma"), beta);

	/* as many as there can be: numbers are given again */
	for (unsigned i = 2; i < TENANTS_MAX - 1; i++)
		snprintf(t[i].name, sizeof(t[i].name), "t%u", i);
	w.o.n_tenants = TENANTS_MAX - 1;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(number_of(&w, "beta"), beta);
	for (unsigned i = 0; i < TENANTS_MAX - 1; i++)
		for (unsigned k = 0; k <= i; k++)
			assert_int_equal(number_of(&w, t[i].name) == number_of(&w, t[k].name), i == k);
	world_end(&w);
}

/* A tenant with few requests keeps its pages while another one fills the index. */
static void a_floor_holds(void **state)
{
	struct tenant_opts t = { "quiet", 256 << 10 };
	uint32_t kept[2];
	struct world w;
	char uid[16];

	(void)state;
	for (int with = 0; with < 2; with++) {
		world_options(&w);
		w.o.index.max_bytes = 1 << 20;
		w.o.tenants = &t;
		w.o.n_tenants = (size_t)with;
		world_open(&w);
		w.q.load = S1;
		w.q.tenant = SPAN("quiet");
		ask(&w, "q", "abcdefghijklmnop");
		served(&w, "q");
		w.q.tenant = SPAN("loud");
		for (unsigned i = 0; i < 10000; i++) {
			snprintf(uid, sizeof(uid), "l%u", i);
			w.body.n = 0;
			say(&w.body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"%u ", i);
			say_turn(&w.body, 'x');
			say(&w.body, "\"}]}");
			w.now += 20;
			send(&w, uid);
			served(&w, uid);
		}
		work_it_off(&w);
		w.q.tenant = SPAN("quiet");
		ask(&w, "again", "abcdefghijklmnop");
		kept[with] = w.a.pages;
		world_end(&w);
	}
	assert_true(kept[0] < 20);		/* else this shows nothing */
	assert_true(kept[1] >= 16 * TURN_PAGES - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_capacity_bounds_a_server),
		cmocka_unit_test(a_guess_bounds_a_server),
		cmocka_unit_test(a_capacity_bounds_a_rules_memory),
		cmocka_unit_test(a_pool_has_its_own_order),
		cmocka_unit_test(a_priority_keeps_a_prompt),
		cmocka_unit_test(the_published_sweep),
		cmocka_unit_test(generated_tokens_take_room),
		cmocka_unit_test(an_id_leaves_in_steps),
		cmocka_unit_test(the_order_of_tenants_means_nothing),
		cmocka_unit_test(tenants_keep_their_numbers),
		cmocka_unit_test(a_floor_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
