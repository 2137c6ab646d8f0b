/* test_route.c - requests through the whole core: the chosen server, the reason, and which requests
 * share cache. */
#include "tests/unit/route/world.h"

#define EACH(i, table)	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)

static unsigned number_of(struct span server)
{
	assert_true(server.n == 2 && server.p[0] == 's');
	return (unsigned)(server.p[1] - '1');
}

/* ---- no server named ---------------------------------------------------------------------- */

static void no_server_is_named(void **state)
{
	static const char good[] =
	    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
	static const struct {
		const char *name, *load, *path, *body;
		enum why why;
	} cases[] = {
		{ "no load", "", "/v1/chat/completions", good, WHY_NOLOAD },
		{ "a load that names nobody", "lb1/1", "/v1/chat/completions", good, WHY_NOLOAD },
		{ "a load that is none", "lb1/1;what;is=this", "/v1/chat/completions", good, WHY_NOLOAD },
		{ "all down", "lb1/1;s1=0,0,0,1;s2=0,0,0,1", "/v1/chat/completions", good, WHY_NOSERVER },
		{ "no weight", "lb1/1;s1=1,0,0,0;s2=1,0,0,0", "/v1/chat/completions", good, WHY_NOSERVER },
		{ "one of each", "lb1/1;s1=0,0,0,1;s2=1,0,0,0", "/v1/chat/completions", good, WHY_NOSERVER },
		{ "not JSON", IDLE4, "/v1/chat/completions", "model=m&prompt=hi", WHY_BADBODY },
		{ "broken JSON", IDLE4, "/v1/chat/completions", "{\"messages\":]", WHY_BADBODY },
		{ "more than JSON", IDLE4, "/v1/completions", "{\"prompt\":\"hi\"} and", WHY_BADBODY },
		{ "an empty body", IDLE4, "/v1/chat/completions", "", WHY_NOPROMPT },
		{ "no prompt in it", IDLE4, "/v1/chat/completions", "{\"model\":\"m\"}", WHY_NOPROMPT },
		{ "an empty one", IDLE4, "/v1/chat/completions", "{\"messages\":[]}", WHY_NOPROMPT },
		{ "another API's", IDLE4, "/v1/chat/completions", "{\"prompt\":\"hi\"}", WHY_NOPROMPT },
		{ "a path we do not know", IDLE4, "/metrics", good, WHY_NOPROMPT },
		{ "bad before all else", "", "/v1/chat/completions", "{", WHY_NOPROMPT },
	};
	struct world w;

	(void)state;
	world_start(&w);
	EACH(i, cases) {
		w.q.load = span_str(cases[i].load);
		w.q.path = span_str(cases[i].path);
		w.q.pool = span_str(cases[i].name);
		send_body(&w, "u", span_str(cases[i].body));
		if (w.a.why != cases[i].why || w.a.server.n || w.a.alt.n || w.a.hit || w.a.pages)
			fail_msg("%s: %s, server \"" SPAN_FMT "\"", cases[i].name,
				 why_text(w.a.why), SPAN_ARG(w.a.server));
		assert_int_equal(stats(&w).why[w.a.why] > 0, 1);
	}
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).requests, sizeof(cases) / sizeof(cases[0]));
	world_end(&w);
}

/* Every argument may be missing: no bytes, no pointer. */
static void no_arguments(void **state)
{
	struct route_request q = { .seq = -1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL };
	struct world w;

	(void)state;
	world_start(&w);
	route_decide(w.r, w.s, &q, w.now, &w.a);
	assert_why(&w, WHY_NOPROMPT);
	q.load = SPAN("s1=1,0,0,1");
	q.body = SPAN("{\"messages\":[{\"content\":\"hi\"}]}");
	route_decide(w.r, w.s, &q, w.now, &w.a);	/* no pool, no path: a chat in the pool "" */
	assert_why(&w, WHY_COLD);
	assert_span(w.a.server, "s1");
	world_end(&w);
}

/* ---- the choice -------------------------------------------------------------------------- */

static void cold_prompts_spread(void **state)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
	struct world w;

	(void)state;
	for (int finish = 0; finish < 2; finish++) {
		unsigned got[4] = { 0 };

		world_start(&w);
		for (int i = 0; i < 40; i++, w.now += 10) {
			char uid[8], turns[2] = { letters[i], 0 };

			snprintf(uid, sizeof(uid), "%d", i);
			ask(&w, uid, turns);
			assert_why(&w, WHY_COLD);
			assert_int_equal(w.a.hit, 0);
			got[number_of(w.a.server)]++;
			if (finish)
				served(&w, uid);
		}
		for (int i = 0; i < 4; i++)
			assert_int_equal(got[i], 10);
		assert_int_equal(stats(&w).open, finish ? 0 : 40);
		world_end(&w);
	}
}

static void the_second_turn_follows_the_first(void **state)
{
	struct world w;
	char first[8];

	(void)state;
	world_start(&w);
	ask(&w, "warm", "z");
	served(&w, "warm");
	ask(&w, "1", "a");
	assert_int_equal(w.a.prompt_pages, TURN_PAGES);
	snprintf(first, sizeof(first), SPAN_FMT, SPAN_ARG(w.a.server));
	served(&w, "1");
	for (const char **turns = (const char *[]){ "abc", "abcde", "abcdefg", NULL }; *turns; turns++) {
		uint32_t n = (uint32_t)strlen(*turns) * TURN_PAGES, held = n - 2 * TURN_PAGES;

		w.now += 5000;
		ask(&w, *turns, *turns);
		assert_why(&w, WHY_CACHED);
		assert_span(w.a.server, first);
		assert_int_equal(w.a.prompt_pages, n);
		assert_int_equal(w.a.pages, held);
		assert_int_equal(w.a.hit, held * 1000 / n);
		assert_false(w.a.cut || w.a.more || w.a.stands);
		served(&w, *turns);
	}
	ask(&w, "same", "abcdefg");
	assert_int_equal(w.a.hit, 1000);
	world_end(&w);
}

/* A request counts at its server before it is answered. */
static void two_conversations_stay_apart(void **state)
{
	struct world w;
	char a[8], b[8];

	(void)state;
	world_start(&w);
	ask(&w, "1", "sa");
	snprintf(a, sizeof(a), SPAN_FMT, SPAN_ARG(w.a.server));
	ask(&w, "2", "tb");
	snprintf(b, sizeof(b), SPAN_FMT, SPAN_ARG(w.a.server));
	assert_string_not_equal(a, b);
	tell_done(&w, "1", a, 200, "--", 20);
	tell_done(&w, "2", b, 200, "--", 20);
	for (int i = 0; i < 3; i++) {
		w.now += 100;
		ask(&w, "3", "saxy");
		assert_span(w.a.server, a);
		assert_int_equal(w.a.pages, (i ? 4 : 2) * TURN_PAGES);
		served(&w, "3");
		ask(&w, "4", "tbxy");
		assert_span(w.a.server, b);
		served(&w, "4");
	}
	world_end(&w);
}

static void a_server_named_twice_is_one(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s1=1,0,0,1");
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	assert_span(w.a.alt, "");
	world_end(&w);
}

/* Agents that start together do not all begin with the same server. */
static void the_first_turn_is_by_chance(void **state)
{
	unsigned others = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct world w;

		world_start(&w);
		rng_init(&w.r->rng, seed);
		w.r->by_chance = true;
		ask(&w, "1", "a");
		others += !span_eq(w.a.server, SPAN("s1"));
		world_end(&w);
	}
	assert_in_range(others, 5, 20);
}

static void a_second_choice_is_named(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	assert_span(w.a.alt, "s2");
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	ask(&w, "2", "b");
	assert_span(w.a.server, "s3");
	assert_int_equal(w.a.alt.n, 0);
	world_end(&w);
}

/* The holder goes down, or loses its weight: the next best, and back when it returns. */
static void down_or_weightless_is_never_named(void **state)
{
	struct world w;
	struct rng rng;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	rng_init(&rng, 3);
	for (int i = 0; i < 500; i++, w.now += 7) {
		bool fit[4];
		char load[128];
		size_t n = (size_t)sprintf(load, "lb1/1");

		for (int k = 0; k < 4; k++) {
			unsigned up = rng_below(&rng, 2), weight = rng_below(&rng, 2);

			fit[k] = up && weight;
			n += (size_t)sprintf(load + n, ";s%d=%u,0,0,%u", k + 1, up, weight);
		}
		w.q.load = span_of(load, n);
		ask(&w, "u", "ab");
		if (fit[0])
			assert_span(w.a.server, "s1");
		if (w.a.server.n)
			assert_true(fit[number_of(w.a.server)]);
		else
			assert_why(&w, WHY_NOSERVER);
		if (w.a.alt.n)
			assert_true(fit[number_of(w.a.alt)] && w.a.alt.p[1] != w.a.server.p[1]);
		refused(&w, "u");
	}
	world_end(&w);
}

/* Requests that the agent did not route, but HAProxy counts at the server, count as well. */
static void load_moves_a_request(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s1=1,64,0,1;s2=1,0,0,1;s3=1,9,0,1;s4=1,9,0,1");
	ask(&w, "2", "ab");
	assert_why(&w, WHY_COLD);	/* 64 x 30 ms is more than the prefill of half a prompt */
	assert_span(w.a.server, "s2");
	refused(&w, "2");
	assert_false(pool(&w).imbalanced);
	w.q.load = SPAN("lb1/1;s1=1,60,5,1;s2=1,0,0,1;s3=1,9,0,1;s4=1,9,0,1");
	ask(&w, "3", "ab");
	assert_span(w.a.server, "s2");
	assert_true(pool(&w).imbalanced);
	assert_int_equal(pool(&w).imbalance_transitions, 1);
	refused(&w, "3");
	w.q.load = SPAN(IDLE4);
	ask(&w, "4", "ab");
	assert_span(w.a.server, "s1");
	assert_false(pool(&w).imbalanced);
	assert_int_equal(pool(&w).imbalance_transitions, 2);
	world_end(&w);
}

/* A load string covers one process and is a moment old, so our own open requests count as well. */
static void our_own_count_is_load(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	ask(&w, "1", "a");
	tell_first(&w, "1", "s1", 200, STREAM);	/* it runs and does not wait any more */
	ask(&w, "2", "b");
	assert_span(w.a.server, "s2");
	served(&w, "2");
	ask(&w, "3", "c");			/* though it is s1's turn */
	assert_span(w.a.server, "s2");
	world_end(&w);
}

/* ---- spaces ---------------------------------------------------------------------- */

struct side { const char *pool, *tenant, *model, *before, *after; };

static void ask_side(struct world *w, const struct side *s)
{
	w->q.pool = span_str(s->pool ? s->pool : "pool");
	w->q.tenant = span_str(s->tenant);
	w->q.model = span_str(s->model);
	chat(&w->body, s->before ? s->before : "", "abc", s->after ? s->after : ",\"model\":\"m\"");
	send(w, "u");
}

static void spaces(void **state)
{
	static const struct { const char *name; struct side a, b; bool shared; } cases[] = {
		{ "the same", { 0 }, { 0 }, true },
		{ "the order of keys", { 0 }, { .before = "\"model\":\"m\",", .after = "" }, true },
		{ "what does not count", { 0 }, { .after = ",\"model\":\"m\",\"stream\":true,\"n\":2" }, true },
		{ "pools", { .pool = "pool" }, { .pool = "pool2" }, false },
		{ "tenants", { .tenant = "t1" }, { .tenant = "t2" }, false },
		{ "a tenant and none", { .tenant = "t1" }, { 0 }, false },
		{ "one tenant", { .tenant = "t1" }, { .tenant = "t1" }, true },
		{ "tenants of a pool that lets them",
		  { .pool = "open", .tenant = "t1" }, { .pool = "open", .tenant = "t2" }, true },
		{ "pool and tenant are not one text",
		  { .pool = "pool", .tenant = "1x" }, { .pool = "pool1", .tenant = "x" }, false },
		{ "models", { 0 }, { .after = ",\"model\":\"other\"" }, false },
		{ "a model and none", { 0 }, { .after = "" }, false },
		{ "twice none", { .after = "" }, { .after = "" }, true },
		{ "the argument overrides", { .model = "x" }, { .model = "x", .after = ",\"model\":\"other\"" },
		  true },
		{ "and divides", { .model = "x" }, { .model = "y" }, false },
		{ "the argument means the same as the body", { .model = "m" }, { 0 }, true },
		{ "a pool of one model", { .pool = "one" }, { .pool = "one", .after = ",\"model\":\"other\"" },
		  true },
		{ "but for the argument", { .pool = "one" }, { .pool = "one", .model = "x" }, false },
		{ "salts", { .after = ",\"model\":\"m\",\"cache_salt\":\"1\"" },
		  { .after = ",\"model\":\"m\",\"cache_salt\":\"2\"" }, false },
		{ "a salt and none", { .after = ",\"model\":\"m\",\"cache_salt\":\"1\"" }, { 0 }, false },
		{ "one salt", { .after = ",\"model\":\"m\",\"cache_salt\":\"1\"" },
		  { .after = ",\"cache_salt\":\"1\",\"model\":\"m\"" }, true },
	};
	struct pool_opts pools[2];
	struct world w;

	(void)state;
	EACH(i, cases) {
		world_options(&w);
		pools[0] = pools[1] = w.o.pool_default;
		strcpy(pools[0].name, "open");
		pools[0].isolate_tenants = false;
		strcpy(pools[1].name, "one");
		strcpy(pools[1].model, "the one");
		w.o.pools = pools;
		w.o.n_pools = 2;
		world_open(&w);
		ask_side(&w, &cases[i].a);
		assert_why(&w, WHY_COLD);
		served(&w, "u");
		ask_side(&w, &cases[i].b);
		if ((w.a.hit == 1000) != cases[i].shared || (w.a.hit == 0) == cases[i].shared)
			fail_msg("%s: hit %u", cases[i].name, w.a.hit);
		world_end(&w);
	}
}

/* ---- token ids ---------------------------------------------------------------------------- */

/* Pages of 16 ids; the engine computes the last token again, so its page is never a hit. */
static void token_ids(void **state)
{
	static const struct { unsigned n, pages, hit_pages; } cases[] = {
		{ 1, 0, 0 }, { 15, 0, 0 }, { 16, 1, 0 }, { 17, 1, 1 }, { 31, 1, 1 }, { 32, 2, 1 },
		{ 33, 2, 2 }, { 160, 10, 9 }, { 161, 10, 10 }, { 1000, 62, 62 },
	};
	struct world w;

	(void)state;
	EACH(i, cases) {
		world_start(&w);
		w.q.path = SPAN("/v1/completions");
		ids(&w.body, cases[i].n);
		send(&w, "1");
		assert_why(&w, WHY_COLD);
		assert_int_equal(w.a.prompt_pages, cases[i].pages);
		served(&w, "1");
		send(&w, "2");
		assert_int_equal(w.a.pages, cases[i].hit_pages);
		assert_int_equal(w.a.hit, cases[i].hit_pages * 16 * 1000 / cases[i].n);
		assert_why(&w, cases[i].hit_pages ? WHY_CACHED : WHY_COLD);
		world_end(&w);
	}
}

/* Send <n> ids twice: each server has its own block size, and the block of the last token is never
 * a hit. */
static void token_ids_in_blocks(void **state)
{
	static const struct { unsigned n; uint32_t own, told; unsigned hit_pages; } cases[] = {
		{ 160, 16, 0, 9 }, { 161, 16, 0, 10 }, { 160, 0, 0, 9 }, { 160, 1, 0, 9 },
		{ 64, 64, 0, 0 }, { 65, 64, 0, 4 }, { 128, 64, 0, 4 }, { 129, 64, 0, 8 }, { 1000, 64, 0, 60 },
		{ 128, 0, 64, 4 }, { 129, 0, 64, 8 }, { 128, 32, 64, 6 },		/* the configuration comes first */
		{ 1000, 0, 512, 32 }, { 512, 0, 512, 0 }, { 1000, 0, UINT32_MAX, 0 },
		{ 1000, 24, 0, 61 },							/* 984 tokens, 61 pages and a half */
	};
	struct world w;

	(void)state;
	EACH(i, cases) {
		struct engine_report e = { .block_size = cases[i].told, .kv_used = -1 };

		world_options(&w);
		w.o.pool_default.block_size = cases[i].own;
		world_open(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		w.q.path = SPAN("/v1/completions");
		ids(&w.body, cases[i].n);
		send(&w, "1");
		served(&w, "1");
		route_observe_engine(w.r, SPAN("pool"), SPAN("s1"), &e, w.now, w.now + 1000);
		w.now += 100000;			/* the size of a block stays known after the report expires */
		send(&w, "2");
		if (w.a.pages != cases[i].hit_pages)
			fail_msg("%u ids, blocks of %u, %u: %u pages", cases[i].n, cases[i].own,
			    cases[i].told, w.a.pages);
		assert_why(&w, cases[i].hit_pages ? WHY_CACHED : WHY_COLD);
		world_end(&w);
	}
}

/* 100 ids are six pages: three blocks of 32 tokens, and one of 64. */
static void servers_of_different_blocks(void **state)
{
	struct engine_report e = { .block_size = 64, .kv_used = -1 },
			     e32 = { .block_size = 32, .kv_used = -1 };
	struct candidate *c;
	struct world w;

	(void)state;
	world_start(&w);
	w.q.path = SPAN("/v1/completions");
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	ids(&w.body, 100);
	send(&w, "1");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	send(&w, "2");
	served(&w, "2");
	route_observe_engine(w.r, SPAN("pool"), SPAN("s1"), &e, w.now, w.now + 1000);
	route_observe_engine(w.r, SPAN("pool"), SPAN("s2"), &e32, w.now, w.now + 1000);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	send(&w, "3");
	assert_span(w.a.server, "s2");
	assert_int_equal(w.a.pages, 6);
	c = w.s->candidates;
	for (int i = 0; i < 2; i++)
		assert_int_equal(c[i].cached, c[i].id == server(&w, "s1").v.id ? 64 : 96);
	w.q.path = SPAN("/v1/chat/completions");	/* text has no blocks */
	ask(&w, "4", "a");
	served(&w, "4");
	ask(&w, "5", "a");
	assert_int_equal(w.a.pages, TURN_PAGES);
	world_end(&w);
}

/* A longer prompt after the same ids: all its whole pages except the last token's. */
static void token_ids_go_on(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.path = SPAN("/generate");
	say(&w.body, "{\"input_ids\":[");
	for (unsigned i = 0; i < 320; i++)
		say(&w.body, "%s%u", i ? "," : "", i);
	say(&w.body, "]}");
	send(&w, "1");
	assert_int_equal(w.a.prompt_pages, 20);
	served(&w, "1");
	w.body.n -= 2;
	for (unsigned i = 320; i < 640; i++)
		say(&w.body, ",%u", i);
	say(&w.body, "]}");
	send(&w, "2");
	assert_int_equal(w.a.prompt_pages, 40);
	assert_int_equal(w.a.pages, 20);
	assert_int_equal(w.a.hit, 500);
	world_end(&w);
}

/* A truncated body continues, so its last visible token is not its last. */
static void cut_token_ids(void **state)
{
	/* two pages are no block of 64, but with the unseen rest they are */
	static const uint32_t blocks[] = { 0, 64 };
	struct world w;

	(void)state;
	EACH(i, blocks) {
		world_options(&w);
		w.o.pool_default.block_size = blocks[i];
		world_open(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		w.q.path = SPAN("/v1/completions");
		ids(&w.body, 32);
		w.q.whole = (int64_t)w.body.n + 10000;
		w.body.n -= 1;			/* the list may end here or continue */
		w.body.p[w.body.n - 1] = ',';
		send(&w, "1");
		assert_true(w.a.cut);
		assert_int_equal(w.a.prompt_pages, 2);
		served(&w, "1");
		send(&w, "2");
		assert_int_equal(w.a.pages, 2);
		assert_int_equal(w.a.hit, 1000);
		assert_true(w.s->candidates[0].cached > 500);
		assert_true(blocks[i] == 0 || w.s->candidates[0].cached % blocks[i] == 0);
		world_end(&w);
	}
}

/* ---- one at a time ------------------------------------------------------------------------ */

#define IDLE8	"lb1/1;s0=1,0,0,1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1;s5=1,0,0,1;s6=1,0,0," \
	"1;s7=1,0,0,1"

/* 1000 prompts without a common prefix, of 300 to 6000 bytes, each answered before the next. Each
 * of the eight servers must get 100 to 150, even to a fifth. The engines are equal up to a tenth.
 */
static void a_thousand_are_spread(void **state)
{
	static const enum policy_rule rules[] = { RULE_COST, RULE_CACHE_AWARE, RULE_CACHE_AWARE_LIB,
		RULE_SMG_EVENTS, RULE_LEAST_CONN };

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(rules) / sizeof(rules[0]); i++) {
		unsigned picked[8] = { 0 };
		struct rng rng;
		struct world w;

		world_options(&w);
		policy_preset(&w.o.pool_default.policy, rules[i / 2]);
		world_open(&w);
		rng_init(&rng, 5);
		w.q.load = SPAN(IDLE8);
		w.q.path = SPAN("/v1/completions");
		for (unsigned k = 0; k < 1000; k++) {
			unsigned n = 300 + rng_below(&rng, 5700);
			char uid[16], srv[4];
			msec took;

			snprintf(uid, sizeof(uid), "u%u", k);
			w.body.n = 0;
			say(&w.body, "{\"model\":\"m\",\"prompt\":\"%u %0*d\"}", k, (int)n, 0);
			send(&w, uid);
			assert_why(&w, WHY_COLD);
			snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w.a.server));
			picked[srv[1] - '0']++;
			took = 10 + n * (90 + rng_below(&rng, 20)) / 10000;
			w.now += took;
			if (i % 2 == 0)
				tell_first(&w, uid, srv, 200, STREAM);
			w.now += 200;
			tell_done(&w, uid, srv, 200, "--", took);
			w.now += rng_below(&rng, 1000);
		}
		for (unsigned k = 0; k < 8; k++)
			if (picked[k] < 100 || picked[k] > 150)
				fail_msg("%s, %s: s%u got %u", policy_rule_text(rules[i / 2]), pool(&w).facts, k, picked[k]);
		world_end(&w);
	}
}

/* ---- options ------------------------------------------------------------------------------ */

static void new_options_keep_the_index(void **state)
{
	struct pool_opts only;
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s1=1,40,0,1;s2=1,0,0,1;s3=1,40,0,1;s4=1,40,0,1");
	ask(&w, "2", "a");
	assert_span(w.a.server, "s2");	/* cost: 40 open requests outweigh ten pages */
	refused(&w, "2");
	only = w.o.pool_default;
	strcpy(only.name, "pool");
	only.policy.rule = RULE_CACHE_AWARE;
	w.o.pools = &only;
	w.o.n_pools = 1;
	w.o.prompt.text_page = 128;	/* needs a restart: left as it was */
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	ask(&w, "3", "a");
	assert_span(w.a.server, "s1");	/* cache_aware: the holder, because the load is balanced */
	assert_why(&w, WHY_CACHED);
	assert_int_equal(w.a.pages, TURN_PAGES);
	w.o.n_pools = 0;
	refused(&w, "3");
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	ask(&w, "4", "a");
	assert_span(w.a.server, "s2");
	world_end(&w);
}

static void pools_and_servers_are_bounded(void **state)
{
	static char load[65536], name[200];
	struct world w;
	size_t n = (size_t)sprintf(load, "lb1/1");

	(void)state;
	world_options(&w);
	w.o.max_pools = 2;
	world_open(&w);
	for (int i = 0; i < 4; i++) {
		sprintf(name, "pool%d", i);
		w.q.pool = span_str(name);
		ask(&w, "1", "a");
		assert_why(&w, i < 2 ? WHY_COLD : WHY_NOLOAD);
	}
	assert_int_equal(stats(&w).pools_refused, 2);
	memset(name, 'x', sizeof(name));
	w.q.pool = span_of(name, POOL_NAME_MAX + 1);
	ask(&w, "1", "a");
	assert_why(&w, WHY_NOLOAD);
	w.q.pool = SPAN("pool0");
	for (int i = 0; i < SERVERS_MAX + 50; i++)
		n += (size_t)sprintf(load + n, ";n%d=1,0,0,1", i);
	w.q.load = span_of(load, n);
	ask(&w, "1", "a");
	assert_why(&w, WHY_COLD);
	assert_true(stats(&w).servers_refused > 0);
	world_end(&w);
}

/* ---- preview ------------------------------------------------------------------------------ */

/* A preview has the keys that a request uses: its claim is found under them. */
static void preview_equals_decide(void **state)
{
	static const char *const bodies[] = {
		"{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be good\"},"
		"{\"role\":\"user\",\"content\":\"why?\"}]}",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"no model\"}],\"tools\":[{\"x\":1}]}",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"salted\"}],\"cache_salt\":\"x\","
		"\"model\":\"m\"}",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"cut off, but only after "
		"some pages of text, of which all that are whole can be counted on to be the same ones",
	};
	struct request_preview v;
	struct index_match m;
	struct world w;

	(void)state;
	world_start(&w);
	assert_int_equal(index_match_init(&m), 0);
	EACH(i, bodies) {
		w.q.tenant = SPAN("t");
		w.q.body = span_str(bodies[i]);
		preview_body(w.r, w.s, &w.q, &v);
		index_match(w.r->index, &v.space, v.keys, v.pages, &m);
		assert_int_equal(m.n_bands, 0);
		send_body(&w, "u", span_str(bodies[i]));
		assert_true(w.a.server.n > 0);
		assert_int_equal(w.a.prompt_pages, v.pages);
		assert_int_equal(w.a.cut, v.cut);
		assert_int_equal(w.a.why, v.headless ? WHY_HEADLESS : WHY_COLD);
		preview_body(w.r, w.s, &w.q, &v);
		index_match(w.r->index, &v.space, v.keys, v.pages, &m);
		assert_int_equal(m.n_bands, 1);
		assert_int_equal(m.bands[0].depth, v.pages);
		assert_span(v.tenant, "t");
	}
	preview_body(w.r, w.s, &(struct route_request){ .body = SPAN("{]"), .seq = 5 }, &v);
	assert_int_equal(v.found, REQUEST_BAD_BODY);
	assert_int_equal(v.pages, 0);
	index_match_fini(&m);
	world_end(&w);
}

/* A preview stores no head and uses none. */
static void preview_keeps_nothing(void **state)
{
	struct request_preview v;
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "abc", ",\"model\":\"m\"");
	w.q.body = span_of(w.body.p, w.body.n);
	preview_body(w.r, w.s, &w.q, &v);
	assert_span(v.model, "m");
	assert_int_equal(stats(&w).heads.heads, 0);
	assert_int_equal(stats(&w).index.pages, 0);
	assert_int_equal(stats(&w).requests, 0);
	assert_int_equal(pool(&w).name == NULL, 1);
	send(&w, "1");
	assert_int_equal(stats(&w).heads.heads, 1);
	w.q.body.n -= 20;
	preview_body(w.r, w.s, &w.q, &v);
	assert_true(v.cut && v.headless);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_server_is_named),
		cmocka_unit_test(no_arguments),
		cmocka_unit_test(cold_prompts_spread),
		cmocka_unit_test(the_second_turn_follows_the_first),
		cmocka_unit_test(two_conversations_stay_apart),
		cmocka_unit_test(a_second_choice_is_named),
		cmocka_unit_test(a_server_named_twice_is_one),
		cmocka_unit_test(the_first_turn_is_by_chance),
		cmocka_unit_test(down_or_weightless_is_never_named),
		cmocka_unit_test(load_moves_a_request),
		cmocka_unit_test(our_own_count_is_load),
		cmocka_unit_test(spaces),
		cmocka_unit_test(a_thousand_are_spread),
		cmocka_unit_test(token_ids),
		cmocka_unit_test(token_ids_in_blocks),
		cmocka_unit_test(servers_of_different_blocks),
		cmocka_unit_test(token_ids_go_on),
		cmocka_unit_test(cut_token_ids),
		cmocka_unit_test(new_options_keep_the_index),
		cmocka_unit_test(pools_and_servers_are_bounded),
		cmocka_unit_test(preview_equals_decide),
		cmocka_unit_test(preview_keeps_nothing),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
