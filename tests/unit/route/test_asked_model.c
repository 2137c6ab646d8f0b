/* test_asked_model.c - the model that a body names, before a pool is chosen. */
#include "tests/unit/route/world.h"

struct ask {
	const char *tenant, *pool, *argument, *path, *uid;
};

static struct route_model asked(struct world *w, const struct ask *a, struct span body)
{
	struct route_request q = {
		.tenant = span_str(a->tenant ? a->tenant : ""), .pool = span_str(a->pool ? a->pool : ""),
		.model = span_str(a->argument ? a->argument : ""),
		.path = span_str(a->path ? a->path : "/v1/chat/completions"),
		.uid = span_str(a->uid ? a->uid : ""), .body = body, .seq = 3, .visible = -1, .whole = -1,
	};
	struct route_model m;

	route_model(w->r, w->s, &q, w->now, &m);
	return m;
}

#define assert_model(m, f, text)	assert_model_((m), (f), (text), __FILE__, __LINE__)
static void assert_model_(
    struct route_model m, enum model_from from, const char *text, const char *file, int line)
{
	if (m.from == from && m.n == strlen(text) && strcmp(m.name, text) == 0)
		return;
	print_error("\"%s\" from %s is not \"%s\" from %s\n", m.name, model_from_text(m.from), text,
	    model_from_text(from));
	_fail(file, line);
}

static const struct {
	const char *name, *path, *body;
	enum model_from from;
	const char *model;
} whole[] = {
	{ "first", NULL, "{\"model\":\"a\",\"messages\":[]}", MODEL_FROM_BODY, "a" },
	{ "last", NULL,
	    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"model\":\"org/a-1.5:b@c\"}",
	    MODEL_FROM_BODY, "org/a-1.5:b@c" },
	{ "twice: the last, as engines read it", NULL,
	    "{\"model\":\"a\",\"messages\":[],\"model\":\"b\"}", MODEL_FROM_BODY, "b" },
	{ "escapes", NULL, "{\"mod\\u0065l\":\"\\u0061\"}", MODEL_FROM_BODY, "a" },
	{ "nested only", NULL, "{\"x\":{\"model\":\"a\"},\"messages\":[]}", MODEL_FROM_NONE, "" },
	{ "in a text", NULL, "{\"messages\":[{\"content\":\"\\\"model\\\":\\\"a\\\"\"}]}",
	    MODEL_FROM_NONE, "" },
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
	{ "a path that is not known", "/v1/rerank", "{\"query\":\"q\",\"model\":\"a\"}",
	    MODEL_FROM_BODY, "a" },
	{ "completions", "/v1/completions", "{\"prompt\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY,
	    "a" },
	{ "responses", "/v1/responses", "{\"input\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "messages", "/v1/messages", "{\"messages\":[],\"model\":\"a\"}", MODEL_FROM_BODY, "a" },
	{ "embeddings", "/v1/embeddings", "{\"input\":\"q\",\"model\":\"a\"}", MODEL_FROM_BODY,
	    "a" },
	{ "in the path", "/v1beta/models/gemma-3:generateContent", "{\"contents\":[]}",
	    MODEL_FROM_ARGUMENT, "gemma-3" },
	{ "in the path of another API", "/v1/models/gemma-3/messages", "{\"messages\":[]}",
	    MODEL_FROM_NONE, "" },
	{ "seen before the cut", NULL, "{\"model\":\"a\",\"messages\":[{\"content\":\"x",
	    MODEL_FROM_BODY, "a" },
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
	assert_int_equal(stats(&w).models[MODEL_FROM_BODY] + stats(&w).models[MODEL_FROM_NONE] +
			 stats(&w).models[MODEL_FROM_ARGUMENT], sizeof(whole) / sizeof(whole[0]));
	world_end(&w);
}

/* 255 bytes are a name; of a longer one only a hash is known, which is no name. */
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
	assert_model(asked(&w, &(struct ask){ 0 }, SPAN("{\"model\":\"big\"}")), MODEL_FROM_BODY,
	    "llama-70b");
	assert_model(asked(&w, &(struct ask){ 0 }, SPAN("{\"model\":\"qwen-7b\"}")),
	    MODEL_FROM_BODY, "qwen-7b");
	assert_model(asked(&w, &(struct ask){ .argument = "big" }, SPAN("{\"model\":\"x\"}")),
	    MODEL_FROM_ARGUMENT, "llama-70b");
	assert_model(
	    asked(&w, &(struct ask){ .argument = "y" }, SPAN("no json")), MODEL_FROM_ARGUMENT, "y");
	assert_model(asked(&w, &(struct ask){ .argument = "a\"b" }, SPAN("{\"model\":\"x\"}")),
	    MODEL_FROM_BODY, "x");
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
	w.o.pool_default.isolate_tenants = false;	/* of no possible pool */
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
	/* the last one of that opening, the deepest first */
	learn(&w, &acme, "abcd", ",\"model\":\"newer\"");
	assert_model(asked(&w, &acme, cut_chat(&w, "abcdef", 40)), MODEL_FROM_HEAD, "newer");
	chat(&w.body, "\"model\":\"seen\",", "abcdef", "");
	assert_model(asked(&w, &acme, span_of(w.body.p, w.body.n - 40)), MODEL_FROM_BODY, "seen");
	world_end(&w);
}

/* No head is stored or found; heads stored by a pool's requests are not found here either. */
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

/* A decision, and the number of heads after it. */
struct seen { enum why why; uint32_t hit, pages, prompt_pages; bool cut; uint64_t openings; };

static struct seen decided(struct world *w, const char *uid, struct span body)
{
	send_body(w, uid, body);
	served(w, uid);
	return (struct seen){ w->a.why, w->a.hit, w->a.pages, w->a.prompt_pages, w->a.cut,
		stats(w).heads.openings };
}

/* Three turns of a conversation, the last one cut, each with the message <model> of <uid> before.
 */
static void conversation(struct world *w, bool same_uid, struct seen *to)
{
	static const char *const turns[] = { "ab", "abcd", "abcdef" };
	const struct ask acme = { .tenant = "acme", .uid = "u" };
	struct span body;

	world_start(w);
	w->q.tenant = SPAN("acme");
	for (unsigned i = 0; i < 3; i++) {
		chat(&w->body, "", turns[i], ",\"model\":\"llama\"");
		body = span_of(w->body.p, w->body.n - (i == 2 ? 60 : 0));
		assert_model(asked(w, &acme, body), i == 2 ? MODEL_FROM_HEAD : MODEL_FROM_BODY, "llama");
		w->now += 1;
		to[i] = decided(w, same_uid ? "u" : "v", body);
	}
}

/* The answers are the same, and a body is read, paid for and remembered once. */
static void read_once_for_both_messages(void **state)
{
	struct seen once[3], twice[3];
	struct world w, v;

	(void)state;
	conversation(&w, true, once);
	conversation(&v, false, twice);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(once[i].why, twice[i].why);
		assert_int_equal(once[i].hit, twice[i].hit);
		assert_int_equal(once[i].pages, twice[i].pages);
		assert_int_equal(once[i].prompt_pages, twice[i].prompt_pages);
		assert_int_equal(once[i].cut, twice[i].cut);
		assert_true(once[i].openings * 2 == twice[i].openings);
	}
	assert_true(once[2].pages > 0 && once[2].cut && once[2].why == WHY_CACHED);
	assert_int_equal(stats(&w).scans_shared, 3);
	assert_int_equal(stats(&v).scans_shared, 0);
	assert_true(w.s->rq.meter.all > 0 && w.s->rq.meter.all * 2 == v.s->rq.meter.all);
	world_end(&w);
	world_end(&v);
}

/* A tenant that sends only the message <model> pays for its work as well. */
static void the_tenant_pays(void **state)
{
	const struct ask acme = { .tenant = "acme" };
	uint64_t paid;
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "abcdefgh", ",\"model\":\"llama\"");
	asked(&w, &acme, span_of(w.body.p, w.body.n));
	paid = w.s->rq.meter.all;
	assert_true(paid > w.body.n / 50);
	asked(&w, &acme, span_of(w.body.p, w.body.n));
	/* the second time most of it is hashed, and not read */
	assert_true(w.s->rq.meter.all > paid && w.s->rq.meter.all < 2 * paid);
	assert_int_equal(w.s->rq.meter.strangers, w.s->rq.meter.all);
	world_end(&w);
}

/* A scanner is given back for the same uid, tenant, API and bytes, within a second. */
static void another_body_is_read_anew(void **state)
{
	static const struct {
		const char *name, *uid, *tenant, *path;
		int differs;
		msec later;
		bool shared;
	} cases[] = {
		{ "the same", "u", "acme", "/v1/chat/completions", 0, 900, true },
		{ "uid", "v", "acme", "/v1/chat/completions", 0, 0, false },
		{ "tenant", "u", "umbrella", "/v1/chat/completions", 0, 0, false },
		{ "API", "u", "acme", "/v1/messages", 0, 0, false },
		{ "a byte", "u", "acme", "/v1/chat/completions", 1, 0, false },
		{ "a byte less", "u", "acme", "/v1/chat/completions", 2, 0, false },
		{ "too late", "u", "acme", "/v1/chat/completions", 0, 1101, false },
	};
	const struct ask acme = { .tenant = "acme", .uid = "u" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t pages;
		struct world w;

		world_start(&w);
		chat(&w.body, "", "abcd", ",\"model\":\"llama\"");
		asked(&w, &acme, span_of(w.body.p, w.body.n));
		w.body.p[w.body.n - 3] = cases[i].differs == 1 ? 'b' : 'a';	/* of the name */
		w.now += cases[i].later;
		route_tick(w.r, w.now);
		w.q.tenant = span_str(cases[i].tenant);
		w.q.path = span_str(cases[i].path);
		send_body(&w, cases[i].uid, span_of(w.body.p, w.body.n - (cases[i].differs == 2)));
		if (stats(&w).scans_shared != cases[i].shared)
			fail_msg("%s: read %s", cases[i].name, cases[i].shared ? "anew" : "once");
		pages = w.a.prompt_pages;
		route_tick(w.r, w.now + 2 * SCANNED_MS);
		assert_int_equal(w.r->requests.scanned.n, 0);
		assert_int_equal(stats(&w).scans_lost, !cases[i].shared);
		send_body(&w, "x", span_of(w.body.p, w.body.n - (cases[i].differs == 2)));
		assert_int_equal(w.a.prompt_pages, pages);
		world_end(&w);
	}
}

/* More requests than there are places, and bodies too large for one: read twice, no more memory. */
static void places_are_few(void **state)
{
	static char large[1 << 20];
	const struct ask nobody = { 0 };
	struct ask a = nobody;
	struct world w;
	char uid[16];
	size_t n;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "abcd", ",\"model\":\"llama\"");
	a.uid = uid;
	for (unsigned i = 0; i < 8 * SCANNED_PLACES; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		asked(&w, &a, span_of(w.body.p, w.body.n));
		assert_true(w.r->requests.scanned.n <= SCANNED_PLACES);
	}
	assert_int_equal(w.r->requests.scanned.n, SCANNED_PLACES);
	n = (size_t)snprintf(large, sizeof(large),
	    "{\"model\":\"llama\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	memset(large + n, 'a', sizeof(large) - n);
	a.uid = "large";
	assert_model(asked(&w, &a, span_of(large, sizeof(large))), MODEL_FROM_BODY, "llama");
	send_body(&w, "large", span_of(large, sizeof(large)));
	assert_int_equal(stats(&w).scans_shared, 0);
	send_body(&w, uid, span_of(w.body.p, w.body.n));	/* a large scanner is not left in its place */
	for (unsigned i = 0; i < SCANNED_PLACES; i++)
		assert_true(w.r->requests.scanned.place[i].body == NULL ||
		    body_bytes(w.r->requests.scanned.place[i].body) <= SCANNED_BYTES);
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
		cmocka_unit_test(read_once_for_both_messages),
		cmocka_unit_test(the_tenant_pays),
		cmocka_unit_test(another_body_is_read_anew),
		cmocka_unit_test(places_are_few),
		cmocka_unit_test(overload),
	};

	return cmocka_run_group_tests_name("route asked model", tests, NULL, NULL);
}
