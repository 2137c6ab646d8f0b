/* test_meanwhile.c - events about a request while it is being decided. This file includes
 * job_match.c and commit.c with a hook before the match and one before the commit, where the test
 * acts like another thread. */
#include "tests/unit/route/world.h"

static struct world w;
static void (*before_match)(void), (*before_commit)(void);

static void meanwhile(void (**what)(void))
{
	void (*now)(void) = *what;

	*what = NULL;		/* once */
	if (now != NULL)
		now();
}

#define index_match(...)	(meanwhile(&before_match), index_match(__VA_ARGS__))
#define index_commit_at(...)	(meanwhile(&before_commit), index_commit_at(__VA_ARGS__))
#include "agent/route/job_match.c"
#include "agent/route/commit.c"
#undef index_match
#undef index_commit_at

static uint64_t pages(const char *name)
{
	struct server_find f = server(&w, name);

	assert_true(f.found);
	return index_server_room(w.r->index, f.v.id) / (16 * ROOM_OF_TOKEN);
}

static uint64_t all_pages(void)
{
	return pages("s1") + pages("s2") + pages("s3") + pages("s4");
}

static void refused_meanwhile(void)
{
	refused(&w, "1");
}

static void failed_meanwhile(void)
{
	tell_first(&w, "1", "s1", 503, "");
}

static void whole_meanwhile(void)
{
	tell_done(&w, "1", "s1", 200, "--", 20);
}

static void first_meanwhile(void)
{
	tell_first(&w, "1", "s1", 200, STREAM);
}

static void first_and_broken_off(void)
{
	tell_first(&w, "1", "s1", 200, STREAM);
	tell_done(&w, "1", "s1", 200, "SD", 20);
}

static void elsewhere_meanwhile(void)
{
	tell_first(&w, "1", "s3", 200, STREAM);
}

static void done_elsewhere_meanwhile(void)
{
	tell_done(&w, "1", "s3", 200, "--", 20);
}

static void nowhere_meanwhile(void)
{
	tell_first(&w, "1", "unknown", 200, STREAM);
}

static void given_up_meanwhile(void)
{
	w.now += w.o.ledger_max_age_ms;
	route_tick(w.r, w.now);
}

/* A request ends before its claim is stored: the claim ends in the same way. */
static void an_end_before_the_claim(void **state)
{
	static const struct {
		const char *name;
		void (*what)(void);
		bool open, s1, s3;
	} cases[] = {
		{ "nothing", NULL, true, true, false },
		{ "refused", refused_meanwhile, false, false, false },
		{ "failed", failed_meanwhile, false, false, false },
		{ "answered whole", whole_meanwhile, false, true, false },
		{ "first token", first_meanwhile, true, true, false },
		{ "first token, then broken off", first_and_broken_off, false, true, false },
		{ "first token elsewhere", elsewhere_meanwhile, true, false, true },
		{ "answered whole elsewhere", done_elsewhere_meanwhile, false, false, true },
		{ "by nobody we know", nowhere_meanwhile, true, false, false },
		{ "too old", given_up_meanwhile, false, true, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world_start(&w);
		before_commit = cases[i].what;
		ask(&w, "1", "abc");
		print_message("%s\n", cases[i].name);
		assert_span(w.a.server, "s1");
		assert_int_equal(stats(&w).open, cases[i].open);
		assert_int_equal(stats(&w).index.claims, cases[i].open && cases[i].s1);
		assert_int_equal(pages("s1") > 0, cases[i].s1);
		assert_int_equal(pages("s3") > 0, cases[i].s3);
		tell_done(&w, "1", "s1", 200, "--", 20);
		assert_int_equal(stats(&w).open, 0);
		assert_int_equal(stats(&w).index.claims, 0);
		world_end(&w);
	}
}

/* In shadow mode a claim belongs to no server until a fact names one. */
static void an_end_before_the_claim_in_shadow(void **state)
{
	static const struct {
		void (*what)(void);
		bool s1, s3;
	} cases[] = {
		{ whole_meanwhile, true, false }, { elsewhere_meanwhile, false, true },
		{ refused_meanwhile, false, false }, { given_up_meanwhile, false, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world_options(&w);
		w.o.pool_default.mode = MODE_SHADOW;
		world_open(&w);
		before_commit = cases[i].what;
		ask(&w, "1", "abc");
		assert_int_equal(stats(&w).index.claims, 0);
		assert_int_equal(pages("s1") > 0, cases[i].s1);
		assert_int_equal(pages("s3") > 0, cases[i].s3);
		assert_int_equal(stats(&w).index.pages > 0, cases[i].s1 || cases[i].s3);
		world_end(&w);
	}
}

static struct route_answer inner;

static void same_uid(void)
{
	struct route_scratch *s = route_scratch_new(w.r);
	struct route_request q = w.q;

	assert_non_null(s);
	route_decide(w.r, s, &q, w.now, &inner);
	inner.server = (struct span){ 0 };		/* of the scratch */
	route_scratch_free(s);
}

/* A request that comes twice at once is one entry of the ledger, with one claim. */
static void two_at_once_with_one_uid(void **state)
{
	void (**when[])(void) = { &before_match, &before_commit };
	struct route_stats once, st;

	(void)state;
	world_start(&w);
	ask(&w, "1", "abc");
	once = stats(&w);
	world_end(&w);
	for (unsigned i = 0; i < 2; i++) {
		world_start(&w);
		*when[i] = same_uid;
		ask(&w, "1", "abc");
		assert_null(*when[i]);
		st = stats(&w);
		assert_int_equal(st.requests, 2);
		assert_int_equal(st.open, 1);
		assert_int_equal(st.index.claims, 1);
		assert_int_equal(st.prompt_tokens, once.prompt_tokens);
		assert_int_equal(all_pages(), w.a.prompt_pages);
		assert_int_equal(server(&w, "s1").v.picked, 1);
		assert_int_equal(server(&w, "s2").v.picked, 0);
		refused(&w, "1");
		assert_int_equal(stats(&w).open, 0);
		assert_int_equal(stats(&w).index.claims, 0);
		assert_int_equal(all_pages(), 0);
		world_end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_before_the_claim),
		cmocka_unit_test(an_end_before_the_claim_in_shadow),
		cmocka_unit_test(two_at_once_with_one_uid),
	};

	return cmocka_run_group_tests_name("route meanwhile", tests, NULL, NULL);
}
