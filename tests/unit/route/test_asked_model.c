/* test_asked_model.c - the model that a body asks for, before there is a pool. */
#include "tests/unit/route/world.h"

struct ask {
	const char *tenant, *pool, *argument, *path;
};

static struct route_model asked(struct world *w, const struct ask *a, struct span body)
{
	struct route_request q = {
		.tenant = span_str(a->tenant ? a->tenant : ""), .pool = span_str(a->pool ? a->pool : ""),
		.model = span_str(a->argument ? a->argument : ""),
		.path = span_str(a->path ? a->path : "/v1/chat/completions"),
		.body = body, .seq = 3, .visible = -1, .whole = -1,
	};
	struct route_model m;

	route_model(w->r, w->s, &q, &m);
	return m;
}

#define assert_model(m, f, text)	assert_model_((m), (f), (text), __FILE__, __LINE__)
static void assert_model_(struct route_model m, enum model_from from, const char *text, const char *file, int line)
{
	if (m.from == from && m.n == strlen(text) && strcmp(m.name, text) == 0)
		return;
	print_error("\"%s\" from %s is not \"%s\" from %s\n", m.name, model_from_text(m.from), text, model_from_text(from));
	_fail(file, line);
}

static const struct { const char *name, *path, *body; enum model_from from; const char *model; } whole[] = {
	{ "first", NULL, "{\"model\":\"a\",\"messages\":[]}", MODEL_FROM_BODY, "a" },
	{ "last", NULL, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"model\":\"org/a-1.5:b@c\"}", MODEL_FROM_BODY, "org/a-1.5:b@c" },
	{ "twice: the last, as engines read it", NULL, "{\"model\":\"a\",\"messages\":[],\"model\":\"b\"}", MODEL_FROM_BODY, "b" },
	{ "escapes", NULL, "{\"mod\\u0065l\":\"\\u0061\"}", MODEL_FROM_BODY, "a" },
	{ "nested only", NULL, "{\"x\":{\"model\":\"a\"},\"messages\":[]}", MODEL_FROM_NONE, "" },
	{ "in a text", NULL, "{\"messages\":[{\"content\":\"\\\"model\\\":\\\"a\\\"\"}]}", MODEL_FROM_NONE, "" },
	{ "none", NULL, "{\"messages\":[]}", MODEL_FROM_NONE, "" },
	{ "empty", NULL, "{\"model\":\"\"}", MODEL_FROM_NONE, "" },
	{ "no string", NULL, "{\"model\":[\"a\"]}", MODEL_FROM_NONE, "" },
	{ "no JSON", NULL, "{\"model\":\"a\"]", MODEL_FROM_NONE, "" },
	{ "nothing", NULL, "", MODEL_FROM_NONE, "" },
	{ "a quote", NULL, "{\"model\":\"a\\\"b\"}", MODEL_FROM_NONE, "" },
	{ "a backslash", NULL, "{\"model\":\"a\\\\b\"}", MODEL_FROM_NONE, "" },
	{ "a new line", NULL, "{\"model\":\"a\\nb\"}", MODEL_FROM_NONE, "" },
	{ "a space", NULL, "{\"model\":\"a b\"}", MODEL_FROM_NONE, "" },
	{ "beyond ASCII", NULL, "{\"model\":\"\xc3\xa4\"}", MODEL_FROM_NONE, "" },
	{ "a path that is not known", "/v1/rerank", "{\"query\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "completions", "/v1/completions", "{\"prompt\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "responses", "/v1/responses", "{\"input\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "messages", "/v1/messages", "{\"messages\":[],\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "embeddings", "/v1/embeddings", "{\"input\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "seen before the cut", NULL, "{\"model\":\"a\",\"messages\":[{\"content\":\"x", MODEL_FROM_BODY, "a" },
	{ "cut in it", NULL, "{\"model\":\"a", MODEL_FROM_NONE, "" },
};

static void from_the_body(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		struct route_model m = asked(&w, &(struct ask){ .path = whole[i].path }, span_str(whole[i].body));

		if (m.from != whole[i].from || strcmp(m.name, whole[i].model) != 0)
			fail_msg("%s: \"%s\" from %s", whole[i].name, m.name, model_from_text(m.from));
	}
	assert_int_equal(stats(&w).requests, 0);
	assert_int_equal(stats(&w).models[MODEL_FROM_BODY] + stats(&w).models[MODEL_FROM_NONE], sizeof(whole) / sizeof(whole[0]));
	world_end(&w);
}

/* 255 bytes are a name; what is longer is known by a hash, which is no name. */
static void long_names(void **state)
{
	struct world w;
	struct text t;
	struct route_model m;

	(void)state;
	world_start(&w);
	for (int n = PROMPT_NAME_MAX; n <= PROMPT_NAME_MAX + 1; n++) {
		t.n = 0;
		say(&t, "{\"messages\":[],\"model\":\"%0*d\"}", n, 1);
		m = asked(&w, &(struct ask){ 0 }, span_of(t.p, t.n));
		assert_int_equal(m.n, n <= PROMPT_NAME_MAX ? n : 0);
		assert_int_equal(m.from, n <= PROMPT_NAME_MAX ? MODEL_FROM_BODY : MODEL_FROM_NONE);
	}
	world_end(&w);
}

static void the_argument_and_aliases(void **state)
{
	struct model_opts models[2];
	struct world w;

	(void)state;
	world_options(&w);
	models[0] = models[1] = w.o.model_default;
	strcpy(models[0].name, "llama-70b");
	strcpy(models[0].aliases[0], "big");
	strcpy(models[1].name, "qwen*");
	w.o.models = models;
	w.o.n_models = 2;
	world_open(&w);
	assert_model(asked(&w, &(struct ask){ 0 }, SPAN("{\"model\":\"big\"}")), MODEL_FROM_BODY, "llama-70b");
	assert_model(asked(&w, &(struct ask){ 0 }, SPAN("{\"model\":\"qwen-7b\"}")), MODEL_FROM_BODY, "qwen-7b");
	assert_model(asked(&w, &(struct ask){ .argument = "big" }, SPAN("{\"model\":\"x\"}")), MODEL_FROM_ARGUMENT, "llama-70b");
	assert_model(asked(&w, &(struct ask){ .argument = "y" }, SPAN("no json")), MODEL_FROM_ARGUMENT, "y");
	assert_model(asked(&w, &(struct ask){ .argument = "a\"b" }, SPAN("{\"model\":\"x\"}")), MODEL_FROM_BODY, "x");
	world_end(&w);
}

/* {"messages":[...] and <n> bytes less than all of them. */
static struct span cut_chat(struct world *w, const char *turns, size_t n)
{
	chat(&w->body, "", turns, "");
	return span_of(w->body.p, w->body.n - n);
}

static void learn(struct world *w, const struct ask *a, const char *turns, const char *after)
{
	chat(&w->body, "", turns, after);
	asked(w, a, span_of(w->body.p, w->body.n));
}

static void from_an_earlier_body(void **state)
{
	const struct ask acme = { .tenant = "acme" }, umbrella = { .tenant = "umbrella" }, nobody = { 0 };
	const struct ask elsewhere = { .tenant = "acme", .pool = "other" };
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.isolate_tenants = false;	/* of no pool that could be meant */
	world_open(&w);
	assert_model(asked(&w, &acme, cut_chat(&w, "abc", 40)), MODEL_FROM_NONE, "");
	learn(&w, &acme, "ab", ",\"model\":\"llama\"");
	assert_model(asked(&w, &acme, cut_chat(&w, "abc", 40)), MODEL_FROM_HEAD, "llama");
	assert_model(asked(&w, &acme, cut_chat(&w, "xyz", 40)), MODEL_FROM_NONE, "");
	assert_model(asked(&w, &umbrella, cut_chat(&w, "abc", 40)), MODEL_FROM_NONE, "");
	assert_model(asked(&w, &nobody, cut_chat(&w, "abc", 40)), MODEL_FROM_NONE, "");
	assert_model(asked(&w, &elsewhere, cut_chat(&w, "abc", 40)), MODEL_FROM_NONE, "");
	learn(&w, &umbrella, "ab", ",\"model\":\"qwen\"");
	assert_model(asked(&w, &umbrella, cut_chat(&w, "abc", 40)), MODEL_FROM_HEAD, "qwen");
	assert_model(asked(&w, &acme, cut_chat(&w, "abc", 40)), MODEL_FROM_HEAD, "llama");
	learn(&w, &acme, "abcd", ",\"model\":\"newer\"");	/* the last one of that opening, the deepest first */
	assert_model(asked(&w, &acme, cut_chat(&w, "abcdef", 40)), MODEL_FROM_HEAD, "newer");
	chat(&w.body, "\"model\":\"seen\",", "abcdef", "");
	assert_model(asked(&w, &acme, span_of(w.body.p, w.body.n - 40)), MODEL_FROM_BODY, "seen");
	world_end(&w);
}

/* Neither remembered nor recalled; and what a pool's requests left behind is not found here. */
static void salted_bodies(void **state)
{
	const struct ask acme = { .tenant = "acme" };
	struct world w;

	(void)state;
	world_start(&w);
	learn(&w, &acme, "ab", ",\"cache_salt\":\"s\",\"model\":\"secret\"");
	assert_model(asked(&w, &acme, cut_chat(&w, "abc", 40)), MODEL_FROM_NONE, "");
	learn(&w, &acme, "ab", ",\"model\":\"plain\"");
	chat(&w.body, "\"cache_salt\":\"s\",", "abc", "");
	assert_model(asked(&w, &acme, span_of(w.body.p, w.body.n - 40)), MODEL_FROM_NONE, "");
	assert_model(asked(&w, &acme, cut_chat(&w, "abc", 40)), MODEL_FROM_HEAD, "plain");
	w.q.tenant = SPAN("acme");
	w.q.pool = SPAN("");
	ask(&w, "u", "pq");
	assert_model(asked(&w, &acme, cut_chat(&w, "pqr", 40)), MODEL_FROM_NONE, "");
	world_end(&w);
}

static void overload(void **state)
{
	struct route_model m;
	struct world w;

	(void)state;
	world_start(&w);
	route_model_decline(w.r, &m);
	assert_model(m, MODEL_FROM_OVERLOAD, "");
	assert_int_equal(stats(&w).models[MODEL_FROM_OVERLOAD], 1);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_body),
		cmocka_unit_test(long_names),
		cmocka_unit_test(the_argument_and_aliases),
		cmocka_unit_test(from_an_earlier_body),
		cmocka_unit_test(salted_bodies),
		cmocka_unit_test(overload),
	};

	return cmocka_run_group_tests_name("route asked model", tests, NULL, NULL);
}
