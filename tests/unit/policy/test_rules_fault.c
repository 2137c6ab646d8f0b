/* test_rules_fault.c - properties of every rule: of its choice, and of its memory.
 *
 * A long random story for each: prompts that share beginnings, servers that come, go and change
 * places, loads and facts of any size. Then each allocation of a shorter one fails once. */
#include "agent/base/mem.h"
#include "tests/unit/fault.h"
#include "tests/unit/policy/candidates.h"

#define PAGES	24

struct story {
	struct policy_opts o;
	struct policy_memory *m;
	struct rng of_test, of_rule;
	struct candidate c[SERVERS_MAX];
	uint32_t own[SERVERS_MAX];
	page_key pages[PAGES];
	uint64_t picks;
	msec now;
};

static void start(struct story *s, enum policy_rule rule, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	policy_defaults(&s->o);
	policy_preset(&s->o, rule);
	s->o.rule_max_bytes = 64 << 10;
	rng_init(&s->of_test, seed);
	rng_init(&s->of_rule, 1);
	s->m = policy_memory_new(&s->o);
}

static uint64_t any(struct story *s, uint32_t below)
{
	return rng_below(&s->of_test, below);
}

/* Few beginnings, long common parts, sometimes none. */
static struct policy_prompt prompt(struct story *s)
{
	uint64_t who = any(s, 6), turn = any(s, PAGES + 1);
	struct policy_prompt p = {
		.pages = s->pages, .page_tokens = 16, .space = 1 + any(s, 2), .model = 1,
		.session = any(s, 3) ? 0 : 1 + who, .user = any(s, 3) ? 0 : 1 + who,
		.adapter = any(s, 4) ? 0 : 5, .opening = turn > 0 ? 1 + who : 0,
		.history = any(s, 2) ? turn * 8 : 0,
	};

	for (uint64_t i = 0; i < turn; i++)
		s->pages[i] = (i < 3 ? 1 : 1 + who) * 1000 + i;
	p.n_pages = (uint32_t)turn;
	p.tokens = turn * 16 + any(s, 16);
	p.body = turn > 0 ? 77 * who + turn : 0;
	return p;
}

/* Numbers of any size, often equal. */
static uint32_t weight(struct story *s)
{
	static const uint32_t some[] = { 0, 0, 0, 1, 1, 2, 7, 100, 100000, UINT32_MAX };

	return some[any(s, sizeof(some) / sizeof(*some))];
}

static void servers(struct story *s, size_t n, struct policy_prompt *p)
{
	uint64_t first = any(s, SERVERS_MAX);
	bool told = any(s, 2);

	for (size_t i = 0; i < n; i++) {
		uint64_t id = (first + i) % SERVERS_MAX;
		struct candidate *c = &s->c[i];

		*c = (struct candidate){
			.id = (server_id)id, .name = (id + 1) * 0x9e3779b97f4a7c15ull, .slowness = 1,
			.load = weight(s), .queue = weight(s), .backlog_tokens = weight(s),
			.open_tokens = weight(s), .own = s->own[id], .last_pick = any(s, 50),
			.waiting = told ? weight(s) : 0, .kv_used = told ? (double)any(s, 101) / 100 : -1,
			.has_adapter = any(s, 2), .penalty = any(s, 9) ? 0 : 5, .doubt = any(s, 9) == 0,
			.cached = any(s, 2) ? 0 : any(s, (uint32_t)p->tokens + 1),
		};
		c->backlog_s = (double)c->backlog_tokens / 8000;
		if (c->cached > p->matched)
			p->matched = c->cached;
	}
}

/* Choose, check, send and answer one request. Returns its server. */
static server_id request(struct story *s, size_t n)
{
	struct policy_prompt p = prompt(s);
	struct policy_choice got;
	bool given[SERVERS_MAX] = { false };
	server_id to = SERVER_NONE;

	policy_match(s->m, &s->o, &p, s->now, s->own);
	servers(s, n, &p);
	for (size_t i = 0; i < n; i++)
		given[s->c[i].id] = true;
	policy_choose(&s->o, s->m, &p, &(struct policy_pressure){ 0.5 }, &s->of_rule, s->c, n, &got);
	if (n == 0) {
		assert_true(got.first == -1 && got.second == -1 && got.why == WHY_NOSERVER);
		return to;
	}
	assert_in_range(got.first, 0, n - 1);
	if (n == 1)
		assert_int_equal(got.second, -1);
	else
		assert_in_range(got.second, 0, n - 1);
	assert_int_not_equal(got.first, got.second);
	assert_true(got.why == WHY_CACHED || got.why == WHY_COLD || got.why == WHY_IMBALANCE ||
		    got.why == WHY_STICKY);
	for (size_t i = 0; i < n; i++) {	/* they may change places, nothing else */
		assert_true(given[s->c[i].id]);
		given[s->c[i].id] = false;
	}
	to = s->c[got.first].id;
	policy_sent(s->m, &s->o, &p, to, s->now);
	if (any(s, 3) == 0)
		policy_answered(s->m, to, weight(s), (msec)weight(s));
	if (any(s, 40) == 0)
		policy_gone(s->m, (server_id)any(s, SERVERS_MAX));
	s->now += (msec)any(s, 5000);
	return to;
}

static const size_t sizes[] = { 1, 2, 3, 16, 5, 0, 2, 100, 1, 7, SERVERS_MAX };

static uint64_t told(enum policy_rule rule, uint64_t seed, unsigned requests)
{
	static struct story s;
	uint64_t all = 0;

	start(&s, rule, seed);
	for (unsigned i = 0; i < requests; i++)
		all = all * 31 + request(&s, sizes[i % (sizeof(sizes) / sizeof(*sizes))]);
	policy_memory_free(s.m);
	return all;
}

static void every_choice_is_one_of_those_given(void **state)
{
	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++)
		told((enum policy_rule)rule, 1, 400);
}

static void the_same_story_ends_the_same(void **state)
{
	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		uint64_t once = told((enum policy_rule)rule, 2, 60);

		if (told((enum policy_rule)rule, 2, 60) != once)
			fail_msg("%s goes by something else than its arguments",
				 policy_rule_text((enum policy_rule)rule));
	}
}

static void memory_that_fails_fails_no_choice(void **state)
{
	unsigned long met = 0;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		for (unsigned long k = 1; ; k++) {
			fault_begin(k);
			told((enum policy_rule)rule, 3, 22);
			if (!fault_end())
				break;
			met++;
		}
	}
	assert_true(met > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_choice_is_one_of_those_given),
		cmocka_unit_test(the_same_story_ends_the_same),
		cmocka_unit_test(memory_that_fails_fails_no_choice),
	};

	return cmocka_run_group_tests_name("policy rules", tests, NULL, NULL);
}
