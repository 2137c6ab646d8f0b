/* test_agree.c - our count of tokens against the engine's, and what is concluded. */
#include "tests/unit/route/tokens.h"

static void one_in_eight(void **state)
{
	static struct agree a;

	agree_meet(&a, 7, "m");
	agree_meet(&a, 7, "again");
	agree_meet(&a, 9, "other");
	assert_int_equal(a.n, 2);
	agree_learn(&a, 5, 1, 2);
	assert_int_equal(a.compared, 0);
	for (int i = 0; i < 6; i++)
		agree_learn(&a, 7, 100, 100);
	agree_learn(&a, 7, 100, 101);
	assert_false(agree_off(&a, 7));
	agree_learn(&a, 7, 100, 100);		/* one of eight */
	assert_false(agree_off(&a, 7));
	for (int i = 0; i < 55; i++)
		agree_learn(&a, 7, 100, 100);
	for (int i = 0; i < 7; i++)
		agree_learn(&a, 7, 100, 99);
	assert_false(agree_off(&a, 7));		/* eight of 70, seven or eight of the last 64 */
	agree_learn(&a, 7, 100, 99);
	agree_learn(&a, 7, 100, 99);
	assert_true(agree_off(&a, 7));
	assert_false(agree_off(&a, 9));
	assert_int_equal(agree_count_off(&a), 1);
	assert_string_equal(agree_news(&a), "m");
	assert_null(agree_news(&a));
	assert_int_equal(a.differed, 10);
}

static void more_models_than_are_compared(void **state)
{
	static struct agree a;

	for (uint64_t i = 1; i <= AGREE_MODELS + 5; i++)
		agree_meet(&a, i, "m");
	assert_int_equal(a.n, AGREE_MODELS);
	for (int i = 0; i < 20; i++)
		agree_learn(&a, AGREE_MODELS + 1, 1, 2);
	assert_false(agree_off(&a, AGREE_MODELS + 1));
}

static void told(struct world *w, const char *uid, int64_t tokens)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = w->a.server;
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 5;
	f.prompt_tokens = tokens;
	route_learn(w->r, &f, w->now);
}

/* A model whose engine counts one token more each time is in text mode from then on; another tokenizer is another chance. */
static void a_model_that_disagrees_goes_back_to_text(void **state)
{
	struct tok *t = tok_with(NULL, NULL), *t2;
	struct route_stats st;
	struct world w;
	char uid[16];		/* the world points to it */

	token_world(&w, t, 16);
	world_open(&w);
	completion(&w.body, 5, 900, "");
	for (unsigned i = 0; i < AGREE_LEAST; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		assert_int_equal(preview(&w).mode, PROMPT_TOKENS);
		send(&w, uid);
		told(&w, uid, (int64_t)preview(&w).units + 1);
	}
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	route_stats(w.r, &st);
	assert_int_equal(st.tokens_compared, AGREE_LEAST);
	assert_int_equal(st.tokens_differed, AGREE_LEAST);
	assert_int_equal(st.models_disagree, 1);
	assert_string_equal(route_disagrees(w.r), "m");
	assert_null(route_disagrees(w.r));
	t2 = tok_with("<|end|>", "<|fin|>");
	token_models[0].tok = t2;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(preview(&w).mode, PROMPT_TOKENS);
	world_end(&w);
	tok_unref(t);
	tok_unref(t2);
}

static void one_that_agrees_stays(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;
	char uid[16];

	token_world(&w, t, 16);
	world_open(&w);
	completion(&w.body, 5, 900, "");
	for (unsigned i = 0; i < 3 * AGREE_LEAST; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		send(&w, uid);
		told(&w, uid, (int64_t)preview(&w).units);
	}
	assert_int_equal(preview(&w).mode, PROMPT_TOKENS);
	assert_int_equal(w.r->agree.compared, 3 * AGREE_LEAST);
	world_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_in_eight),
		cmocka_unit_test(more_models_than_are_compared),
		cmocka_unit_test(a_model_that_disagrees_goes_back_to_text),
		cmocka_unit_test(one_that_agrees_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
