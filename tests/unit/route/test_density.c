/* How many tokens a page of text takes: 4 bytes each until engines say otherwise, model by
 * model. */
#include "agent/route/density.h"
#include "tests/unit/route/world.h"

static void what_is_not_known_is_four_bytes_a_token(void **state)
{
	struct density d = { 0 };

	(void)state;
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
	for (int i = 0; i < DENSITY_LEAST - 1; i++)
		density_learn(&d, 1, 3000, 1000);
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
	density_learn(&d, 1, 0, 1000);
	density_learn(&d, 1, 3000, 0);
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
}

static void each_model_has_its_own(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		density_learn(&d, 1, 2000, 1000);
		density_learn(&d, 2, 5000, 1000);
	}
	assert_int_equal(density_room(&d, 1, 64), 32 * ROOM_OF_TOKEN);
	assert_in_range(density_room(&d, 2, 64), 12.7 * ROOM_OF_TOKEN, 12.9 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 3, 64), 16 * ROOM_OF_TOKEN);
}

static void it_follows_and_has_bounds(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		density_learn(&d, 1, 4000, 1000);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 2000, 1000);
	assert_in_range(density_room(&d, 1, 64), 31.9 * ROOM_OF_TOKEN, 32 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 1, UINT32_MAX);
	assert_int_equal(density_room(&d, 1, 64), 64 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, UINT64_MAX / 2, 1);
	assert_int_equal(density_room(&d, 1, 64), 4 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 1), 1);
}

static void there_is_room_for_so_many(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (uint64_t key = 1; key <= DENSITY_MODELS + 5; key++)
		for (int i = 0; i < 20; i++)
			density_learn(&d, key, 2000, 1000);
	assert_int_equal(density_room(&d, DENSITY_MODELS, 64), 32 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, DENSITY_MODELS + 1, 64), 16 * ROOM_OF_TOKEN);
}

static void tell_count(struct world *w, const char *uid, int64_t prompt_tokens)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = SPAN("s1");
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 20;
	f.prompt_tokens = prompt_tokens;
	route_learn(w->r, &f, w->now);
}

/* What engines count of whole prompts of text; of prompts that came cut nothing is learned. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_known_is_four_bytes_a_token),
		cmocka_unit_test(each_model_has_its_own),
		cmocka_unit_test(it_follows_and_has_bounds),
		cmocka_unit_test(there_is_room_for_so_many),
		cmocka_unit_test(log_lines_teach_it),
	};

	return cmocka_run_group_tests_name("density", tests, NULL, NULL);
}
