/* test_agree.c - compare our token counts with the engine's, and turn token mode off for requests
 * that differ. */
#include "tests/unit/route/tokens.h"

#define DAY	((msec)24 * 3600 * 1000)

static struct agree_ref of(uint64_t who, uint32_t conversation, uint16_t kind)
{
	return (struct agree_ref){ .model = 7, .who = who, .conversation = conversation, .kind = kind };
}

static void compare(
    struct agree *a, uint64_t who, uint32_t conversation, uint16_t kind, bool differs, msec now)
{
	struct agree_ref q = of(who, conversation, kind);

	agree_learn(a, &q, 100, 100 + differs, now);
}

static bool is_off(struct agree *a, uint64_t who, uint16_t kind, msec now)
{
	struct agree_ref q = of(who, 0, kind);

	return agree_off(a, &q, now);
}

static struct agree *with_model(void)
{
	struct agree *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	agree_init(a);
	agree_meet(a, 7, "m", 1);
	return a;
}

static uint32_t models_off(struct agree *a)
{
	struct agree_counts c;

	agree_counts(a, &c);
	return c.models_off;
}

/* Add <n> differing conversations of a tenant, each once. */
static void differ(struct agree *a, uint64_t who, uint16_t kind, unsigned n, msec now)
{
	for (unsigned i = 0; i < n; i++)
		compare(a, who, 1000 + i, kind, true, now);
}

static void eight_conversations_and_one_in_eight(void **state)
{
	struct agree *a = with_model();

	differ(a, 1, 5, AGREE_LEAST - 1, 10);
	assert_false(is_off(a, 1, 5, 10));
	assert_int_equal(a->n_off, 0);
	for (int i = 0; i < 57; i++)				/* 7 of 64, and then one more */
		compare(a, 1, 5000, 5, false, 10);
	compare(a, 1, 6000, 5, true, 10);
	assert_false(is_off(a, 1, 5, 10));
	for (int i = 0; i < 9; i++)				/* all of the last 64 differ less than before */
		compare(a, 1, 6001 + (uint32_t)i, 5, i > 0, 10);
	assert_true(is_off(a, 1, 5, 10));
	assert_int_equal(a->differed, AGREE_LEAST + 8);
	free(a);
}

/* A conversation that is sent repeatedly counts once. */
static void one_conversation_counts_once(void **state)
{
	struct agree *a = with_model();

	for (int i = 0; i < 100; i++)
		compare(a, 1, 42, 5, true, 10);
	assert_false(is_off(a, 1, 5, 10));
	assert_int_equal(a->differed, 100);
	differ(a, 1, 5, AGREE_LEAST - 2, 10);
	assert_false(is_off(a, 1, 5, 10));
	compare(a, 1, 43, 5, true, 10);
	assert_true(is_off(a, 1, 5, 10));
	free(a);
}

static void only_its_kind_and_its_tenant(void **state)
{
	struct agree *a = with_model();
	struct agree_ref other = of(1, 0, 5);

	differ(a, 1, 5, 14, 10);
	assert_true(a->n_off > 0);
	assert_true(is_off(a, 1, 5, 10));
	assert_false(is_off(a, 1, 6, 10));
	assert_false(is_off(a, 2, 5, 10));
	other.model = 8;
	assert_false(agree_off(a, &other, 10));
	agree_meet(a, 8, "other", 1);
	assert_int_equal(agree_count_off(a, 7), 1);
	assert_int_equal(agree_count_off(a, 8), 0);
	assert_int_equal(models_off(a), 1);
	free(a);
}

static void it_is_tried_again(void **state)
{
	struct agree *a = with_model();
	msec now = 10;

	for (msec ms = AGREE_OFF_MS; ms < 10 * (msec)AGREE_OFF_MAX_MS; ms *= 2) {
		msec off = ms < AGREE_OFF_MAX_MS ? ms : AGREE_OFF_MAX_MS;

		differ(a, 1, 5, AGREE_LEAST, now);
		assert_true(is_off(a, 1, 5, now + off - 1));
		compare(a, 1, 1, 5, true, now + 1);		/* decided before that: changes nothing */
		assert_false(is_off(a, 1, 5, now + off));
		now += off;
	}
	for (int i = 0; i < AGREE_LAST; i++)
		compare(a, 1, (uint32_t)i, 5, false, now);
	assert_int_equal(a->n_off, 0);
	for (int i = 0; i < AGREE_PLACES; i++)
		assert_int_equal(a->place[i].model, 0);		/* as before */
	differ(a, 1, 5, AGREE_LEAST, now);
	assert_false(is_off(a, 1, 5, now + AGREE_OFF_MS));
	free(a);
}

/* For any number of made up kinds and tenants. */
static void places_are_bounded(void **state)
{
	struct agree *a = with_model();
	uint32_t off = 0;

	differ(a, 1, 5, AGREE_LEAST, 10);
	for (unsigned i = 0; i < 4 * AGREE_WAYS; i++)		/* new evidence evicts no place that is off */
		compare(a, 1, i, (uint16_t)(100 + i), true, 20 + (msec)i);
	assert_true(is_off(a, 1, 5, 10));
	for (uint64_t who = 2; who < 2000; who++)
		differ(a, who, 5, AGREE_LEAST, (msec)who);
	for (int i = 0; i < AGREE_PLACES; i++)
		off += a->place[i].until != 0;
	assert_int_equal(off, a->n_off);
	for (uint64_t key = 100; key < 300; key++)
		agree_meet(a, key, "n", (msec)key);
	assert_int_equal(a->n_models, AGREE_MODELS);
	free(a);
}

static void logged_once_an_hour(void **state)
{
	struct agree *a = with_model();
	struct agree_news n;

	assert_false(agree_news(a, 10, &n));
	differ(a, 1, 5, AGREE_LEAST, 10);
	assert_true(agree_news(a, 10, &n));
	assert_string_equal(n.model, "m");
	assert_int_equal(n.kind, 5);
	assert_int_equal(n.for_ms, AGREE_OFF_MS);
	assert_false(agree_news(a, 11, &n));
	for (uint64_t who = 2; who < 100; who++)
		differ(a, who, 5, AGREE_LEAST, 12);
	assert_false(agree_news(a, 13, &n));
	differ(a, 1, 6, AGREE_LEAST, 14);
	assert_true(agree_news(a, 15, &n));
	assert_int_equal(n.kind, 6);
	assert_int_equal(agree_count_off(a, 7), a->n_off);
	agree_news(a, DAY, &n);
	assert_int_equal(models_off(a), 0);
	free(a);
}

/* ---- kinds of bodies --------------------------------------------------------------------- */

static void kinds(void **state)
{
	static const struct { const char *path, *body, *want;
	} cases[] = {
		{ "/v1/completions", "{\"prompt\":\"a\"}", "completions" },
		{ "/v1/completions", "{\"prompt\":[1,2,3]}", "completions ids" },
		{ "/v1/completions", "{\"prompt\":\"a\",\"add_special_tokens\":false}",
		    "completions" },
		{ "/v1/completions", "{\"prompt\":\"a\",\"add_special_tokens\":true}",
		    "completions options" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true}",
		    "chat" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\","
		    "\"content\":\"a\"},"
		    "{\"role\":\"assistant\",\"content\":\"a\"}]}",
		    "chat system assistant assistant-last" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"},{\"role\":\"assistant\","
		    "\"content\":\"a\","
		    "\"reasoning\":\"b\"},{\"role\":\"tool\",\"content\":\"c\"}]}",
		    "chat developer assistant results thoughts" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
		    "\"arguments\":"
		    "\"{}\"}}]},{\"role\":\"pirate\",\"content\":\"c\"}],\"tools\":[{\"type\":\"function\"}]}",
		    "chat assistant other-role calls tools" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
		    "\"image_url\":{\"url\":\"x\"}}]}],"
		    "\"tools\":[],\"reasoning_effort\":\"low\"}",
		    "chat media options" },
		{ "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}],\"messages\":[{\"role\":\"user\","
		    "\"content\":\"a\"}]}",
		    "chat" },
		{ "/v1/messages",
		    "{\"system\":\"s\",\"messages\":[{\"role\":\"assistant\","
		    "\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\"},"
		    "{\"type\":\"tool_use\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\","
		    "\"content\":[{\"type\":\"tool_result\",\"content\":\"r\"}]}]}",
		    "messages system assistant results calls thoughts" },
		{ "/v1/responses",
		    "{\"input\":\"a\",\"instructions\":\"s\",\"reasoning\":{\"effort\":\"low\"}}",
		    "responses system options" },
		{ "/v1/responses",
		    "{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"function_call\","
		    "\"name\":\"f\",\"arguments\":\"{}\"},"
		    "{\"type\":\"function_call_output\",\"output\":\"r\"}]}",
		    "responses results calls" },
		{ "/v1/embeddings", "{\"input\":[\"a\",\"b\"]}", "embeddings" },
	};
	struct hash_key key = test_key();
	char text[AGREE_KIND_TEXT];
	struct prompt_opts o;
	struct body *b;

	prompt_defaults(&o);
	assert_non_null(b = body_new(&o, &key));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		body_reset(b, prompt_api_of_path(span_str(cases[i].path)));
		assert_int_equal(body_feed(b, cases[i].body, strlen(cases[i].body)), JSON_DONE);
		agree_kind_text(agree_kind(body_prompt(b)), text, sizeof(text));
		assert_string_equal(text, cases[i].want);
	}
	agree_kind_text(UINT16_MAX, text, sizeof(text));
	assert_in_range(strlen(text), 1, AGREE_KIND_TEXT - 2);	/* all of them fit */
	agree_kind_text(UINT16_MAX, text, 10);
	assert_int_equal(strlen(text), 9);
	body_free(b);
}

/* ---- through the front door ---------------------------------------------------------------- */

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

/* Send a new prompt for which the engine counts <more> tokens than we do. Returns our number of its
 * pages. */
static uint32_t ask_and_tell(struct world *w, const char *tenant, unsigned seed, int64_t more)
{
	static unsigned n;
	char uid[16];
	int64_t ours;

	w->q.tenant = span_str(tenant);
	snprintf(uid, sizeof(uid), "%u", ++n);
	completion(&w->body, seed, 900, "");
	ours = (int64_t)preview(w).units;
	send(w, uid);
	told(w, uid, ours + more);
	w->q.uid = SPAN("");	/* because <uid> ends here */
	return w->a.prompt_pages;
}

struct seen {
	unsigned n, tenants;
	char text[64];
};

static void see_mode(void *arg, const struct route_model_view *v)
{
	struct seen *s = arg;

	if (strcmp(v->name, "m") == 0) {
		snprintf(s->text, sizeof(s->text), "%s %u", v->mode, v->kinds_off);
		s->n++;
	}
}

static void see_kind(void *arg, const struct route_kind_view *v)
{
	struct seen *s = arg;

	s->n++;
	s->tenants = v->tenants;
	snprintf(s->text, sizeof(s->text), "%s: %s", v->model, v->kind);
}

static void mode_is(struct world *w, const char *want)
{
	struct seen s = { .n = 0 };

	route_each_model(w->r, see_mode, &s);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.text, want);
}

static void only_the_tenant_loses_the_kind(void **state)
{
	struct tok *t = tok_with(NULL, NULL), *t2;
	struct route_disagreement d;
	struct seen s = { .n = 0 };
	uint32_t as_ids, as_text;
	struct route_stats st;
	struct world w;

	token_world(&w, t, 16);
	world_open(&w);
	mode_is(&w, "mixed 0");			/* it has no template */
	as_ids = ask_and_tell(&w, "b", 1, 0);
	for (unsigned i = 0; i < 14; i++)
		ask_and_tell(&w, "a", 50, 1);	/* the same again: that is one conversation */
	assert_int_equal(ask_and_tell(&w, "a", 1, 0), as_ids);
	for (unsigned i = 0; i < 14; i++)
		ask_and_tell(&w, "a", 100 + i, 1);
	as_text = ask_and_tell(&w, "a", 1, 0);
	assert_int_not_equal(as_text, as_ids);
	assert_int_equal(ask_and_tell(&w, "b", 1, 0), as_ids);
	w.q.tenant = SPAN("a");
	completion(&w.body, 1, 900, ",\"add_special_tokens\":true");
	assert_int_equal(preview(&w).mode, PROMPT_TOKENS);	/* another kind */
	assert_true(route_disagrees(w.r, w.now, &d));
	assert_string_equal(d.model, "m");
	assert_string_equal(d.kind, "completions");
	assert_int_equal(d.for_ms, AGREE_OFF_MS);
	assert_false(route_disagrees(w.r, w.now, &d));
	route_each_kind(w.r, see_kind, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.tenants, 1);
	assert_string_equal(s.text, "m: completions");
	mode_is(&w, "mixed 1");
	route_stats(w.r, &st);
	assert_int_equal(st.models_disagree, 1);
	w.now += AGREE_OFF_MS;
	assert_int_equal(ask_and_tell(&w, "a", 1, 0), as_ids);	/* tried again */
	for (unsigned i = 0; i < 14; i++)
		ask_and_tell(&w, "a", 200 + i, 1);
	assert_int_equal(ask_and_tell(&w, "a", 1, 0), as_text);
	t2 = tok_with("<|end|>", "<|fin|>");
	token_models[0].tok = t2;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_not_equal(ask_and_tell(&w, "a", 1, 0), as_text);
	assert_int_equal(preview(&w).mode, PROMPT_TOKENS);	/* another tokenizer is another chance */
	route_disagrees(w.r, w.now, &d);
	mode_is(&w, "mixed 0");
	token_models[0].mode = MODEL_TEXT;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	mode_is(&w, "text 0");
	world_end(&w);
	tok_unref(t);
	tok_unref(t2);
}

static void one_that_agrees_stays(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;

	token_world(&w, t, 16);
	world_open(&w);
	for (unsigned i = 0; i < 3 * AGREE_LEAST; i++)
		ask_and_tell(&w, "a", i, 0);
	assert_int_equal(w.r->requests.agree.compared, 3 * AGREE_LEAST);
	assert_int_equal(w.r->requests.agree.differed, 0);
	for (int i = 0; i < AGREE_PLACES; i++)
		assert_int_equal(w.r->requests.agree.place[i].model, 0);		/* a kind that agrees costs no place */
	world_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_conversations_and_one_in_eight),
		cmocka_unit_test(one_conversation_counts_once),
		cmocka_unit_test(only_its_kind_and_its_tenant),
		cmocka_unit_test(it_is_tried_again),
		cmocka_unit_test(places_are_bounded),
		cmocka_unit_test(logged_once_an_hour),
		cmocka_unit_test(kinds),
		cmocka_unit_test(only_the_tenant_loses_the_kind),
		cmocka_unit_test(one_that_agrees_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
