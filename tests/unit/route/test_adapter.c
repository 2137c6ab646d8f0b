/* test_adapter.c - LoRA adapters of a model with a tokenizer: tokens, and spaces of their own. */
#include "tests/unit/route/tokens.h"

static struct request_preview as(struct world *w, const char *model)
{
	w->q.model = span_str(model);
	return preview(w);
}

static bool same_space(const struct request_preview *a, const struct request_preview *b)
{
	return memcmp(&a->space, &b->space, sizeof(a->space)) == 0;
}

static void named_by_the_configuration(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview base, alias, one, two, exact;
	struct world w;

	token_world(&w, t, 16);
	strcpy(token_models[0].adapters[0], "ad1");
	strcpy(token_models[0].adapters[1], "team-*-sql");
	token_models[1] = w.o.model_default;
	strcpy(token_models[1].name, "team-x-sql");	/* a name goes before a pattern */
	w.o.n_models = 2;
	world_open(&w);
	completion(&w.body, 5, 900, "");
	base = as(&w, "m");
	alias = as(&w, "alias");
	one = as(&w, "ad1");
	two = as(&w, "team-a-sql");
	exact = as(&w, "team-x-sql");
	assert_int_equal(one.mode, PROMPT_TOKENS);
	assert_int_equal(two.mode, PROMPT_TOKENS);
	assert_int_equal(one.pages, base.pages);
	assert_int_equal(two.pages, base.pages);
	assert_int_equal(exact.mode, PROMPT_TEXT);
	assert_int_equal(as(&w, "ad2").mode, PROMPT_TEXT);
	assert_true(same_space(&base, &alias));
	assert_false(same_space(&base, &one));
	assert_false(same_space(&base, &two));
	assert_false(same_space(&one, &two));
	world_end(&w);
	tok_unref(t);
}

static void report(struct world *w, const char *pool, const char *name)
{
	struct engine_report e = { .waiting = -1, .running = -1, .kv_used = -1 };

	if (name != NULL) {
		e.n_adapters = 1;
		strcpy(e.adapter[0].name, name);
		e.adapter[0].running = true;
	}
	route_observe_engine(w->r, span_str(pool), SPAN("s1"), &e, w->now, w->now + 1000);
}

static void named_by_an_engine(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview base, one;
	struct world w;

	token_world(&w, t, 16);
	world_open(&w);
	completion(&w.body, 5, 900, "");
	send(&w, "1");				/* servers are known from now on */
	base = as(&w, "m");
	report(&w, "pool", "ad1");
	report(&w, "nobody-s", "ad2");
	one = as(&w, "ad1");
	assert_int_equal(one.mode, PROMPT_TOKENS);
	assert_false(same_space(&base, &one));
	assert_int_equal(as(&w, "ad2").mode, PROMPT_TEXT);
	w.q.pool = SPAN("other");
	assert_int_equal(as(&w, "ad1").mode, PROMPT_TEXT);
	w.q.pool = SPAN("pool");
	report(&w, "pool", NULL);			/* it has no requests just now */
	assert_int_equal(as(&w, "ad1").mode, PROMPT_TOKENS);
	world_end(&w);
	tok_unref(t);
}

/* If two models could be its base, the base is the one that requests to its pool have named, if
 * that is only one. */
static void of_which_model(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;

	token_world(&w, t, 16);
	token_models[1] = token_models[0];
	strcpy(token_models[1].name, "n");
	token_models[1].aliases[0][0] = '\0';
	token_models[1].block_size = 32;
	w.o.n_models = 2;
	world_open(&w);
	completion(&w.body, 5, 900, "");
	w.q.model = SPAN("other");
	send(&w, "0");
	report(&w, "pool", "ad1");
	assert_int_equal(as(&w, "ad1").mode, PROMPT_TEXT);
	w.q.model = SPAN("n");
	send(&w, "1");
	assert_int_equal(as(&w, "ad1").page, 32);
	w.q.model = SPAN("ad1");
	send(&w, "2");
	assert_int_equal(as(&w, "ad1").page, 32);
	w.q.model = SPAN("m");
	send(&w, "3");
	assert_int_equal(as(&w, "ad1").mode, PROMPT_TEXT);
	token_models[1].mode = MODEL_TEXT;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(as(&w, "ad1").page, 16);	/* now only one is left */
	world_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_by_the_configuration),
		cmocka_unit_test(named_by_an_engine),
		cmocka_unit_test(of_which_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
