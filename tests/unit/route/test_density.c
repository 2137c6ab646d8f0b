/* test_density.c - tokens in a page of text: learned from log lines, model by model. */
#include "tests/unit/route/world.h"

static void tell_count(struct world *w, const char *uid, int64_t prompt_tokens)
{
	struct fact f = served_fact(uid);

	f.prompt_tokens = prompt_tokens;
	route_learn(w->r, &f, w->now);
}

/* Counts of whole prompts of text are learned; those of truncated prompts are not. */
static void log_lines_teach_it(void **state)
{
	struct world w;
	char uid[16];

	(void)state;
	for (int cut = 0; cut < 2; cut++) {
		uint64_t before, after;

		world_start(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		ask(&w, "x", "a");
		before = server(&w, "s1").v.held_tokens;
		assert_int_equal(before, TURN_PAGES * 16);
		tell_count(&w, "x", 0);
		for (int i = 0; i < 20; i++) {
			snprintf(uid, sizeof(uid), "u%d", i);
			chat(&w.body, "\"model\":\"m\",", "a", "");
			send_body(&w, uid, span_of(w.body.p, w.body.n - (cut ? 10 : 0)));
			assert_int_equal(w.a.cut, cut);
			tell_count(&w, uid, TURN_PAGES * 32);
		}
		before = server(&w, "s1").v.held_tokens;
		ask(&w, "y", "b");
		after = server(&w, "s1").v.held_tokens;
		if (cut)
			assert_int_equal(after - before, TURN_PAGES * 16);
		else
			assert_in_range(after - before, TURN_PAGES * 31, TURN_PAGES * 35);
		world_end(&w);
	}
}

/* An image has tokens of its own: a tenant that sends images does not make the text of all others
 * larger. */
static void images_teach_nothing(void **state)
{
	static const char *const urls[] = { "https://x.example/cat.png", "data:image/png;base64,AAAA" };
	struct world w;
	char uid[16];
	uint64_t before;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	for (int i = 0; i < 40; i++) {
		w.body.n = 0;
		say(&w.body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[");
		say(&w.body, "{\"type\":\"text\",\"text\":\"what is this?\"},{\"type\":\"image_url\",");
		say(&w.body, "\"image_url\":{\"url\":\"%s\"}}]}]}", urls[i % 2]);
		snprintf(uid, sizeof(uid), "u%d", i);
		send(&w, uid);
		tell_count(&w, uid, 2800);
	}
	before = server(&w, "s1").v.held_tokens;
	ask(&w, "text", "b");
	assert_int_equal(server(&w, "s1").v.held_tokens - before, TURN_PAGES * 16);
	world_end(&w);
}

/* What an engine has stored is in its count, and not in the body. */
static void continued_responses_teach_nothing(void **state)
{
	static const char *const kinds[] = { "\"previous_response_id\":\"resp_1\"",
		"\"conversation\":\"conv_1\"", "\"conversation\":{\"id\":\"conv_1\"}" };

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		uint64_t before;
		struct world w;
		char uid[16];

		world_start(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		for (int i = 0; i < 40; i++) {
			w.q.path = SPAN("/v1/responses");
			w.body.n = 0;
			say(&w.body, "{\"model\":\"m\",%s,\"input\":\"and then, %d?\"}", kinds[k], i);
			snprintf(uid, sizeof(uid), "u%d", i);
			send(&w, uid);
			tell_count(&w, uid, 5000);
		}
		before = server(&w, "s1").v.held_tokens;
		w.q.path = SPAN("/v1/chat/completions");
		ask(&w, "text", "b");
		assert_int_equal(server(&w, "s1").v.held_tokens - before, TURN_PAGES * 16);
		world_end(&w);
	}
}

/* Texts of one tenant do not change what pages of others hold. */
static void tenants_are_apart(void **state)
{
	struct world w;
	char uid[16];
	uint64_t before;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	for (int i = 0; i < 60; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		w.q.tenant = i % 3 == 0 ? SPAN("hostile") : i % 3 == 1 ? SPAN("acme") : SPAN("umbrella");
		ask(&w, uid, (char[]){ (char)('a' + i % 26), '\0' });
		tell_count(&w, uid, i % 3 == 0 ? 1000000 : TURN_PAGES * 16);
	}
	w.q.tenant = SPAN("acme");
	before = server(&w, "s1").v.held_tokens;
	ask(&w, "text", "A");
	assert_in_range(server(&w, "s1").v.held_tokens - before, TURN_PAGES * 15, TURN_PAGES * 18);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_lines_teach_it),
		cmocka_unit_test(images_teach_nothing),
		cmocka_unit_test(continued_responses_teach_nothing),
		cmocka_unit_test(tenants_are_apart),
	};

	return cmocka_run_group_tests_name("density", tests, NULL, NULL);
}
