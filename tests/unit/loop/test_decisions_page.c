/* test_decisions_page.c - /decisions of a real core: its parameters, its members, and data that it
 * must never show. Every answer must be JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/json.h"
#include "agent/loop/decisions_page_in.h"
#include "agent/route/route_in.h"

/* world.h has its own <text> */
#define text	body_text
#include "tests/unit/route/world.h"
#undef text

#define WALL	1795260725123	/* 2026-11-21T11:32:05.123Z */

static struct text_seen { char p[1 << 20]; } seen;

static void no_sink(void *arg, const struct json *j, enum json_event ev, struct span text)
{
}

static bool is_json(struct span s)
{
	struct json j;

	json_init(&j, 16, no_sink, NULL);
	return json_feed(&j, s.p, s.n) == JSON_DONE;
}

static bool with_token = true;	/* log lines need one */
static unsigned steps;	/* of the last page, after its first */

static size_t count_in(const struct buf *t, const char *what)
{
	size_t n = 0, len = strlen(what);

	for (const char *p = t->p;
	     p != NULL && (p = memmem(p, t->n - (size_t)(p - t->p), what, len)) != NULL; p += len)
		n++;
	return n;
}

/* Return the page, which lives until the next call. */
static char *get(struct world *w, const char *query, int want)
{
	struct decisions_page *p = NULL;
	const char *type = "";
	struct buf t = { .p = NULL };
	int status;

	buf_start(&t, sizeof(seen.p) - 1);
	status = decisions_page_begin(&p, w->r, span_str(query), with_token, w->now, WALL, &t, &type);
	for (steps = 0; p != NULL && status == 200; steps++) {
		size_t n = count_in(&t, "{\"decision\":"), bytes = t.n;
		int end = decisions_page_step(p);

		assert_true(count_in(&t, "{\"decision\":") - n <= DECISIONS_STEP);
		assert_true(t.n - bytes <= DECISIONS_STEP_BYTES + 16384);
		if (end == 0)
			continue;
		status = end;
		break;
	}
	decisions_page_free(p);
	if (status != want)
		fail_msg("%s: %d", query, status);
	memcpy(seen.p, t.p, t.n);
	seen.p[t.n] = '\0';
	buf_free(&t);
	if (status == 200 && strcmp(type, "application/json") == 0)
		assert_true(is_json(span_str(seen.p)));
	return seen.p;
}

static unsigned count(const char *in, const char *what)
{
	unsigned n = 0;

	for (; (in = strstr(in, what)) != NULL; in++)
		n++;
	return n;
}

static void assert_has(const char *in, const char *what)
{
	if (strstr(in, what) == NULL)
		fail_msg("no %s in %s", what, in);
}

static void all_of_a_decision(void **state)
{
	struct world w;
	char *s;

	world_start(&w);
	ask(&w, "one", "a");
	served(&w, "one");
	w.now += 1500;
	w.q.tenant = SPAN("acme");
	w.q.session = SPAN("talk-7");
	ask(&w, "two", "ab");
	w.now += 500;
	route_took(w.r, &w.a, 41);
	s = get(&w, "", 200);
	assert_has(s,
	    "{\"decisions\":[\n{\"decision\":2,\"time\":\"2026-11-21T11:32:04.623Z\",\"pool\":\"pool\","
	    "\"mode\":\"on\",\"rule\":\"cost\",\"why\":\"cold\",\"us\":41,\"cut\":false,"
	    "\"prompt_tokens\":320,");
	assert_has(s,
	    "\"server\":\"s2\",\"alt\":\"s3\",\"matched_tokens\":0,\"hit\":0,\"pages\":0,"
	    "\"facts\":\"first\"");
	assert_has(s,
	    "\"n_candidates\":4,\"candidates\":[{\"load\":0,\"server\":\"s2\",\"wait_s\":0,"
	    "\"cached_tokens\":0,");
	assert_has(s, "\"after\":{\"state\":\"open\"}}");
	assert_has(s, "{\"decision\":1,");
	assert_has(s, "\"uid\":\"one\"");
	assert_has(s,
	    "\"after\":{\"state\":\"done\",\"server\":\"s1\",\"status\":200,\"end\":\"ok\",\"ts\":\"--\","
	    "\"first_ms\":0,\"done_ms\":0}}");
	assert_has(s, "\"session\":\"new\"");
	assert_null(strstr(s, "acme"));
	assert_null(strstr(s, "talk-7"));
	assert_null(strstr(s, "\"m\""));		/* the model: only for who names the uid */
	assert_has(get(&w, "uid=two", 200), "\"pool\":\"pool\",\"model\":\"m\",");
	assert_has(get(&w, "uid=two", 200), "\"matched_as\":\"text\",");
	world_end(&w);
}

/* The hidden part of a body is known from the session only. */
static void what_a_session_adds(void **state)
{
	struct world w;
	char *s;

	world_start(&w);
	w.q.session = SPAN("talk-7");
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	w.body.n -= 40;
	w.q.visible = (int64_t)w.body.n;
	for (unsigned i = 0; i < 2; i++) {
		w.q.whole = 200000 + 8000 * i;
		send(&w, i ? "two" : "one");
		served(&w, i ? "two" : "one");
	}
	s = get(&w, "uid=two", 200);
	assert_has(s, "\"session\":\"turn\",\"session_turns\":1,\"session_server\":\"s3\"");
	assert_has(s, "\"session_tokens\":");
	assert_null(strstr(s, "talk-7"));
	assert_has(get(&w, "uid=one", 200), "\"session\":\"new\"");
	assert_null(strstr(get(&w, "uid=one", 200), "session_"));
	world_end(&w);
}

/* A uid is shown only to a client that sends it, because it knows it already. */
static void uids_that_help_to_forge_are_hidden(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "se/cret", "a");
	assert_null(strstr(get(&w, "", 200), "cret"));
	assert_has(get(&w, "uid=se%2fcret", 200), "\"uid\":\"se/cret\"");
	assert_has(get(&w, "uid=se%2Fcret", 200), "\"decision\":1,");
	assert_int_equal(count(get(&w, "uid=secret", 200), "\"decision\":"), 0);
	tell_done(&w, "se/cret", "s1", 200, "--", 5);
	assert_has(get(&w, "", 200), "\"uid\":\"se/cret\"");
	with_token = false;		/* uids of closed requests let a client guess others */
	assert_null(strstr(get(&w, "", 200), "cret"));
	assert_has(get(&w, "uid=se%2fcret", 200), "\"uid\":\"se/cret\"");
	with_token = true;
	world_end(&w);
}

static struct tok *small_tok(void)
{
	static char file[65536];
	struct tok_source src = { .name = "llama" };
	FILE *f = fopen("tests/data/tok/llama.tokenizer.json", "r");
	struct tok *t;

	assert_non_null(f);
	src.file = span_of(file, fread(file, 1, sizeof(file), f));
	fclose(f);
	assert_non_null(t = tok_load(&src, NULL));
	return t;
}

/* The page reports that a text was not encoded completely, and which limit was reached. */
static void reached_limits_are_shown(void **state)
{
	static const char *const bounds[BOUNDS] = { "body", "tenant", "late" };
	static struct body_text said;
	static struct model_opts model;
	struct world w;

	world_options(&w);
	model = w.o.model_default;
	strcpy(model.name, "m");
	model.mode = MODEL_TOKENS;
	model.tok = small_tok();
	model.block_size = 16;
	w.o.models = &model;
	w.o.n_models = 1;
	w.q.path = SPAN("/v1/completions");
	w.q.model = SPAN("m");
	world_open(&w);
	say(&said, "{\"prompt\":\"");
	while (said.n < 40000)
		say(&said, " the server has %u pages and that is", (unsigned)said.n);
	say(&said, "\"}");
	send_body(&w, "1", span_of(said.p, said.n));
	assert_has(get(&w, "uid=1", 200), "\"work\":");
	assert_null(strstr(seen.p, "bounded"));
	w.q.work = 12000;
	w.q.tenant = SPAN("another");
	send_body(&w, "2", span_of(said.p, said.n));
	assert_has(get(&w, "uid=2", 200), "\"work\":12000,\"bounded\":\"late\",\"server\":");
	for (unsigned i = 0; i < BOUNDS; i++)
		assert_string_equal(work_bound_text((enum work_bound)i), bounds[i]);
	world_end(&w);
	tok_unref(model.tok);
}

static void so_many_and_from_where(void **state)
{
	struct world w;
	char uid[16];

	world_start(&w);
	for (int i = 1; i <= 150; i++) {
		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
	}
	assert_int_equal(count(get(&w, "", 200), "\"decision\":"), 100);
	assert_int_equal(count(get(&w, "n=150", 200), "\"decision\":"), 150);
	assert_int_equal(steps, 150 / DECISIONS_STEP);		/* and the last one */
	assert_int_equal(count(get(&w, "n=99999999", 200), "\"decision\":"), 150);
	assert_int_equal(count(get(&w, "n=17&before=20", 200), "\"decision\":"), 17);
	assert_has(seen.p, "\"decision\":19,");
	assert_has(seen.p, "\"decision\":3,");
	assert_int_equal(count(get(&w, "&before=1&", 200), "\"decision\":"), 0);
	for (const char **q = (const char *[]){ "n=", "n=0", "n=-1", "n=x", "m=1", "before=0",
		 "format=xml", "uid=", "uid=%4", "uid=%zz", "n=1;n=2", NULL };
	     *q != NULL; q++)
		get(&w, *q, 400);
	memset(w.body.p, 'u', 300);
	memcpy(w.body.p, "uid=", 4);
	w.body.p[300] = '\0';
	get(&w, w.body.p, 400);
	world_end(&w);
}

/* Names from a peer may contain any bytes. */
static void any_name_is_a_string(void **state)
{
	struct world w;

	world_start(&w);
	w.q.pool = SPAN("a\"b\\c\nd\xff");
	w.q.load = SPAN("lb1/1;x\"]}\x01=1,0,0,1");
	ask(&w, "\"\\\x7f", "a");
	tell_done(&w, "\"\\\x7f", "", 200, "--", 5);
	assert_has(get(&w, "", 200), "\"pool\":\"a\\\"b\\\\c\\u000ad\\u00ff\"");
	assert_has(seen.p, "\"server\":\"x\\\"]}\\u0001\"");
	assert_has(seen.p, "\"uid\":\"\\\"\\\\\\u007f\"");
	world_end(&w);
}

/* The trace for kvroutectl sim: oldest first, only lines with a prompt. */
static void lines_are_a_trace(void **state)
{
	struct world w;
	char *s, *end;
	unsigned n = 0;

	world_start(&w);
	send_body(&w, "bad", SPAN("{]"));
	for (int i = 0; i < 40; i++, w.now += 10) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "abcdefgh");
	}
	s = get(&w, "format=lines&n=4000", 200);
	assert_true(steps > 0);
	for (s = seen.p; *s != '\0'; s = end + 1, n++) {
		char want[80];

		end = strchr(s, '\n');
		assert_non_null(end);
		assert_true(is_json(span_of(s, (size_t)(end - s))));
		snprintf(want, sizeof(want),
		    "{\"timestamp\":%d,\"input_length\":1280,\"output_length\":0,\"hash_ids\":[",
		    1000000 + (int)n * 10);
		assert_memory_equal(s, want, strlen(want));
		*end = '\0';
		assert_int_equal(count(s, ","), 6);	/* three ids */
		assert_has(s, "],\"block_size\":512}");
	}
	assert_int_equal(n, 40);
	assert_int_equal(count(get(&w, "format=lines&n=7", 200), "\n"), 7);
	assert_has(seen.p, "{\"timestamp\":1000390,");
	assert_int_equal(count(get(&w, "format=lines&n=7&before=41", 200), "\n"), 7);
	assert_null(strstr(seen.p, "{\"timestamp\":1000390,"));
	world_end(&w);
}

static void none_are_kept(void **state)
{
	struct world w;

	world_options(&w);
	w.o.decisions_keep = 0;
	world_open(&w);
	assert_has(get(&w, "", 404), "decisions.keep");
	world_end(&w);
}

static void a_too_long_page_is_an_error(void **state)
{
	struct decisions_page *p;
	struct world w;
	struct buf t = { .p = NULL };
	const char *type;

	world_start(&w);
	ask(&w, "1", "a");
	buf_start(&t, 200);
	assert_int_equal(decisions_page_begin(&p, w.r, SPAN(""), false, w.now, WALL, &t, &type), 200);
	assert_int_equal(decisions_page_step(p), 500);
	decisions_page_free(p);
	assert_true(t.failed);
	buf_free(&t);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_a_decision),
		cmocka_unit_test(what_a_session_adds),
		cmocka_unit_test(uids_that_help_to_forge_are_hidden),
		cmocka_unit_test(reached_limits_are_shown),
		cmocka_unit_test(so_many_and_from_where),
		cmocka_unit_test(any_name_is_a_string),
		cmocka_unit_test(lines_are_a_trace),
		cmocka_unit_test(none_are_kept),
		cmocka_unit_test(a_too_long_page_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
