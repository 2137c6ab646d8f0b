/* test_why.c - decisions as text: compare the text made from /decisions letter by letter. Then feed
 * it hostile answers, because any process may listen at that address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/ctl/why.h"

#define HEAD(more)	"{\"decision\":7,\"time\":\"2026-11-21T11:32:05.123Z\",\"uid\":\"5f3c\"," \
			"\"pool\":\"chat\"," more
#define S(name, load, wait, cached, compute, cost) \
	"{\"load\":" load ",\"server\":\"" name "\",\"wait_s\":" wait ",\"cached_tokens\":" cached \
	",\"compute_s\":" compute ",\"penalty\":0,\"cost_s\":" cost "}"
#define CHOICE(why, server, tokens) \
	"\"mode\":\"on\",\"rule\":\"cost\",\"why\":\"" why \
	"\",\"us\":41,\"cut\":false,\"prompt_tokens\":" tokens "," \
	"\"unseen_tokens\":0,\"prompt_pages\":1000,\"server\":\"" server \
	"\",\"alt\":\"s1\",\"matched_tokens\":12288," \
	"\"facts\":\"first\",\"imbalanced\":false,\"min_load\":0,\"max_load\":2,\"regret_s\":0," \
	"\"n_candidates\":2,"

static const struct {
	const char *name, *json, *text;
} cases[] = {
	{ "cached",
	    HEAD(CHOICE("cached", "s3", "16000") "\"candidates\":[" S(
		"s3", "2", "0.41", "12288", "0.46", "1.4") "," S("s1", "0", "0", "0", "2.0",
		"4.0") "],"
		       "\"expected_ms\":431,\"after\":{\"state\":\"done\","
		       "\"server\":\"s3\",\"status\":200,\"first_ms\":420,"
		       "\"done_ms\":2600}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s3 (cached, by cost): 12,288 of 16,000 tokens were there, 0.41 s of work waited; "
	    "s1 was idle but would have had to compute all: 2.0 s\n"
	    "    its answer began after 0.42 s (expected: 0.43 s), it was over after 2.6 s, "
	    "status 200\n" },
	{ "cold, and the holder is busy",
	    HEAD(CHOICE("cold", "s1", "1600") "\"candidates\":[" S(
		"s1", "1", "0", "0", "0.2", "0.4") "," S("s3", "31", "12.5", "1500", "0.01",
		"13.1") "],"
			"\"after\":{\"state\":\"first\",\"first_ms\":4}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 1,600 tokens were there, no work waited; s3 held "
	    "1,500 of them, "
	    "but had 31 requests open and 12 s of work waiting\n"
	    "    its answer began after 4 ms\n" },
	{ "refused by a rule of HAProxy",
	    HEAD(CHOICE("cold", "s1", "1600") "\"candidates\":[" S("s1", "9", "4", "0", "0.2", "4.2")
		 "],\"after\":{\"state\":\"done\",\"end\":\"haproxy\",\"ts\":\"PR\",\"status\":429,"
		 "\"done_ms\":2}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    was to go to s1 (cold, by cost): none of its 1,600 tokens were there, 4.0 s of work "
	    "waited\n"
	    "    no server got it, it was over after 2 ms, status 429\n"
	    "    it failed: HAProxy itself ended it: a rule, a limit or its end (PR in HAProxy's log)\n" },
	{ "left in HAProxy's queue",
	    HEAD(CHOICE("cold", "s1", "1600") "\"candidates\":[" S("s1", "9", "4", "0", "0.2", "4.2")
		 "],\"after\":{\"state\":\"done\",\"end\":\"client_gone\",\"ts\":\"CQ\",\"done_ms\":900}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    was to go to s1 (cold, by cost): none of its 1,600 tokens were there, 4.0 s of work "
	    "waited\n"
	    "    no server got it, it was over after 0.90 s\n"
	    "    it failed: the client closed the connection before its answer was whole (CQ in "
	    "HAProxy's log)\n" },
	{ "all of it, an idle one with a part, one that fails",
	    HEAD(CHOICE("cached", "s3", "1600") "\"candidates\":[" S("s3", "1", "1", "1600", "0",
		"1") ","
		     "{\"load\":0,\"server\":\"s1\",\"wait_s\":0,\"cached_tokens\":160,\"compute_s\":0.18,"
		     "\"penalty\":2,\"cost_s\":2}],"
		     "\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s3 (cached, by cost): all of its 1,600 tokens were there, 1.0 s of work waited; "
	    "s1 "
	    "was idle and "
	    "has been failing (counts as 2 more) but would have had to compute 1,440: 0.18 s\n" },
	{ "a rule that regrets, others that would not",
	    HEAD(
		"\"mode\":\"on\",\"rule\":\"random\",\"why\":\"cold\",\"prompt_tokens\":8000,\"server\":\"s2\","
		"\"facts\":\"load\","
		"\"unseen_tokens\":2000,\"regret_s\":1.25,\"work\":350000,\"bounded\":\"body\","
		"\"candidates\":[" S("s2", "9", "3", "0", "1", "5") "," S("s1", "0", "0", "0", "1",
		    "3.75") "],"
			    "\"compare\":[{\"rule\":\"least_conn\",\"server\":\"s1\",\"cached_tokens\":0,"
			    "\"regret_s\":0},"
			    "{\"rule\":\"round_robin\",\"server\":\"s3\",\"regret_s\":2.25},{\"rule\":\"cost\","
			    "\"server\":\"s2\",\"regret_s\":1.25},"
			    "{\"rule\":\"power_of_two\",\"server\":\"\",\"regret_s\":1.25}],"
			    "\"after\":{\"state\":\"done\",\"server\":\"s4\",\"status\":503,"
			    "\"end\":\"connect_timeout\",\"ts\":\"sC\",\"done_ms\":30500,"
			    "\"retries\":1}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    was to go to s2 (cold, by random): none of its 8,000 tokens were there, 3.0 s of work "
	    "waited; s1 was idle; "
	    "by our estimate s1 was cheaper by 1.2 s\n"
	    "    HAProxy sent it to s4, 1 retry, it was over after 30 s, status 503\n"
	    "    it failed: HAProxy could not connect to the server within timeout connect (sC in "
	    "HAProxy's log)\n"
	    "    least_conn: s1, cheaper by 1.2 s\n"
	    "    round_robin: s3, dearer by 1.0 s\n"
	    "    cost: the same\n"
	    "    power_of_two: a server that has gone, at the same cost\n"
	    "    an estimated 2,000 of the tokens were not seen, as the body was cut; if all seen ones "
	    "were there, half of these count as there\n"
	    "    its text was made into tokens in part only, as a body of its size may not cost more: "
	    "350,000 steps of work\n"
	    "    no report had come yet how requests end, so waits were estimated\n" },
	{ "computed by a prefill server",
	    HEAD(CHOICE("cold", "s1", "4000") "\"prefill\":\"p1\",\"prefill_best\":\"p1\","
		"\"prefill_wait_s\":0.2,\"prefill_cached_tokens\":1000,\"prefill_s\":0.57,"
		"\"transfer_s\":0.06,\"here_s\":1.4,\"there_s\":0.75,"
		"\"candidates\":[" S("s1", "3", "0", "0", "0.5", "0.84") "],"
		"\"after\":{\"state\":\"first\",\"first_ms\":640}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 4,000 tokens were there, no work waited\n"
	    "    p1 was to compute the prompt: at p1 1,000 of 4,000 tokens were there and 0.20 s of work "
	    "waited, ready after an estimated 0.57 s and 0.06 s of transfer; this cost 0.75 s, and at s1 "
	    "1.4 s, with the delay of its answers\n"
	    "    its answer began after 0.64 s\n" },
	{ "not computed by a prefill server",
	    HEAD(CHOICE("cold", "s1", "4000") "\"prefill_best\":\"p1\","
		"\"prefill_wait_s\":0,\"prefill_cached_tokens\":0,\"prefill_s\":0.5,"
		"\"transfer_s\":0.06,\"here_s\":0.65,\"there_s\":0.71,"
		"\"candidates\":[" S("s1", "0", "0", "0", "0.5", "0.65") "],"
		"\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 4,000 tokens were there, no work waited\n"
	    "    s1 was to compute the prompt, not p1: at p1 none of its 4,000 tokens were there and no "
	    "work waited, ready after an estimated 0.50 s and 0.06 s of transfer; this cost 0.71 s, and "
	    "at s1 0.65 s, with the delay of its answers\n" },
	{ "shadow, out of balance",
	    "{\"time\":\"t\",\"pool\":\"chat\",\"mode\":\"shadow\",\"rule\":\"cost\","
	    "\"why\":\"imbalance\",\"prompt_tokens\":160,"
	    "\"server\":\"s2\",\"facts\":\"end\",\"imbalanced\":true,\"min_load\":0,\"max_load\":1070,"
	    "\"candidates\":[" S("s2", "0", "0", "0", "0.02", "0.04") "," S("s1", "1070", "0",
		"160", "0",
		"32") "],"
		      "\"after\":{\"state\":\"first\",\"server\":\"s1\",\"first_ms\":100}}",
	    "t chat (still open)\n"
	    "    would have gone to s2 (imbalance, by cost): none of its 160 tokens were there, no work "
	    "waited; the pool was out "
	    "of balance, its loads from 0 to 1,070; s1 held 160 of them, but had 1,070 requests open\n"
	    "    HAProxy sent it to s1, its answer began after 0.10 s\n" },
	{ "best in everything, and at once",
	    HEAD(CHOICE("cached", "s3", "1600") "\"candidates\":[" S("s3", "0", "0", "800", "0.1",
		"0.2") "," S("s1", "1", "0", "160", "0.18", "0.4") "," S("s2", "1", "0", "0", "0.2",
		"0.5") "],\"after\":{\"state\":\"done\",\"server\":\"s3\",\"first_ms\":0,\"done_ms\":0}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s3 (cached, by cost): 800 of 1,600 tokens were there, no work waited; any other "
	    "would have had to "
	    "compute 1,440: 0.18 s\n"
	    "    its answer began at once, it was over at once\n" },
	{ "adapters",
	    HEAD(CHOICE("cold", "s1",
		"1600") "\"candidates\":[{\"load\":1,\"server\":\"s1\",\"wait_s\":0,\"cached_tokens\":0,"
		"\"compute_s\":0.2,\"adapter_s\":0.5,"
			"\"penalty\":0,\"cost_s\":1},{\"load\":0,\"server\":\"s2\",\"wait_s\":0,\"cached_tokens\":0,"
			"\"compute_s\":0.3,"
			"\"adapter_s\":0.5,\"penalty\":0,\"cost_s\":2}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 1,600 tokens were there, no work waited, the "
	    "adapter had to be loaded "
	    "(0.50 s); s2 was idle and has not loaded the adapter (0.50 s)\n" },
	{ "a turn of a session whose body was cut",
	    HEAD(CHOICE("cached", "s1",
		"1600") "\"unseen_tokens\":1000,\"session\":\"turn\",\"session_turns\":6,"
			"\"session_server\":\"s1\",\"candidates\":[{\"load\":0,\"server\":\"s1\",\"wait_s\":0,"
			"\"cached_tokens\":1500,\"session_tokens\":900,\"compute_s\":0.2,\"penalty\":0,"
			"\"cost_s\":1}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cached, by cost): 1,500 of 1,600 tokens were there, no work waited\n"
	    "    turn 7 of its session, whose last one went to s1; only that tells of 900 tokens there\n"
	    "    an estimated 1,000 of the tokens were not seen, as the body was cut\n" },
	{ "a new session",
	    HEAD(CHOICE("cold", "s1",
		"1600") "\"session\":\"new\",\"candidates\":[{\"load\":0,\"server\":\"s1\",\"wait_s\":0,"
			"\"cached_tokens\":0,\"compute_s\":0.2,\"promised_s\":0.25,\"penalty\":0,"
			"\"cost_s\":1}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 1,600 tokens were there, no work waited\n"
	    "    a new session: those that will come back to s1 count as 0.25 s\n" },
	{ "a session that was compacted",
	    HEAD(CHOICE("cold", "s1",
		"1600") "\"session\":\"compacted\",\"session_turns\":9,\"session_server\":\"s2\","
			"\"candidates\":[{\"load\":0,\"server\":\"s1\",\"wait_s\":0,"
			"\"cached_tokens\":0,\"compute_s\":0.2,\"penalty\":0,"
			"\"cost_s\":1}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 1,600 tokens were there, no work waited\n"
	    "    its session was compacted: what only its old prompt had at s2 was let go\n" },
	{ "a session that does not count",
	    HEAD(CHOICE("cold", "s1",
		"1600") "\"session\":\"open\",\"session_turns\":9,\"session_server\":\"s2\","
			"\"candidates\":[{\"load\":0,\"server\":\"s1\",\"wait_s\":0,"
			"\"cached_tokens\":0,\"compute_s\":0.2,\"penalty\":0,"
			"\"cost_s\":1}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cold, by cost): none of its 1,600 tokens were there, no work waited\n"
	    "    its session does not count, because another request of it was open\n" },
	{ "blocks in slower tiers",
	    HEAD(CHOICE("cached", "s1",
		"1600") "\"candidates\":[{\"load\":1,\"server\":\"s1\",\"wait_s\":0,\"cached_tokens\":800,"
		"\"compute_s\":0.1,\"load_s\":0.25,"
			"\"penalty\":0,\"cost_s\":1},{\"load\":0,\"server\":\"s2\",\"wait_s\":0,\"cached_tokens\":800,"
			"\"compute_s\":0.1,"
			"\"load_s\":0.5,\"penalty\":0,\"cost_s\":2}],\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cached, by cost): 800 of 1,600 tokens were there, no work waited, cached "
	    "blocks had to be loaded (0.25 s); s2 was idle and has to load cached blocks (0.50 s)\n" },
	{ "events that do not count alone",
	    HEAD(CHOICE("cached", "s1",
		"1600") "\"candidates\":[{\"load\":1,\"server\":\"s1\",\"wait_s\":0,\"cached_tokens\":800,"
		"\"truth\":\"both\",\"truth_cause\":\"no_room\",\"compute_s\":0.1,\"cost_s\":1},"
		"{\"load\":1,\"server\":\"s2\",\"wait_s\":0,\"cached_tokens\":800,\"truth\":\"tree\","
		"\"truth_cause\":\"gap\",\"compute_s\":0.1,\"cost_s\":2},"
		"{\"load\":1,\"server\":\"s3\",\"wait_s\":0,\"cached_tokens\":800,\"truth\":\"both\","
		"\"truth_cause\":\"no_room\",\"compute_s\":0.1,\"cost_s\":2},"
		"{\"load\":1,\"server\":\"s4\",\"wait_s\":0,\"cached_tokens\":800,\"truth\":\"tree\","
		"\"truth_cause\":\"new\",\"compute_s\":0.1,\"cost_s\":2}],"
		"\"after\":{\"state\":\"open\"}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    went to s1 (cached, by cost): 800 of 1,600 tokens were there by requests and its "
	    "engine's events, no work waited\n"
	    "    events of s1, s3 do not count alone: some blocks had no room in events.max_bytes\n"
	    "    events of s2 do not count alone: batches are missing\n"
	    "    events of s4 do not count alone: new\n" },
	{ "no body that makes sense",
	    HEAD(
		"\"mode\":\"on\",\"rule\":\"cost\",\"why\":\"badbody\",\"after\":{\"state\":\"done\","
		"\"status\":400,\"done_ms\":3}}"),
	    "2026-11-21T11:32:05.123Z chat 5f3c\n"
	    "    no server was named (badbody): its body is no JSON, or its chat template refuses it\n"
	    "    it was over after 3 ms, status 400\n" },
	{ "nothing at all", "{}", "?\n    no server was named (): the agent does not say more\n" },
};

struct said {
	FILE *to;
	unsigned n;
};

static void take(void *arg, const struct why_decision *d)
{
	struct said *s = arg;

	s->n++;
	why_say(s->to, d);
}

/* Return the text made from <json>, given in pieces of <step> bytes; the caller frees it. */
static char *said_of(const char *json, size_t step, unsigned *n)
{
	struct why_reader r;
	struct said s = { .n = 0 };
	size_t size, len = strlen(json);
	char *text = NULL;

	assert_non_null(s.to = open_memstream(&text, &size));
	why_start(&r, take, &s);
	for (size_t i = 0; i < len; i += step)
		why_feed(&r, json + i, len - i < step ? len - i : step);
	fclose(s.to);
	*n = s.n;
	return text;
}

static char *list_of(const char *decision)
{
	char *all = NULL;

	assert_true(asprintf(&all, "{\"decisions\":[\n%s\n]}\n", decision) > 0);
	return all;
}

static void in_words(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *json = list_of(cases[i].json);

		for (size_t step = 1; step < 5000; step = step * 3 + 1) {
			unsigned n;
			char *text = said_of(json, step, &n);

			assert_int_equal(n, 1);
			if (strcmp(text, cases[i].text) != 0)
				fail_msg("%s:\n%s\n---- and not:\n%s", cases[i].name, text, cases[i].text);
			free(text);
		}
		free(json);
	}
}

static void all_of_a_list(void **state)
{
	char *both, *json, *text;
	unsigned n;

	assert_true(asprintf(&both, "%s,\n%s", cases[0].json, cases[5].json) > 0);
	json = list_of(both);
	text = said_of(json, 100, &n);
	assert_int_equal(n, 2);
	assert_memory_equal(text, cases[0].text, strlen(cases[0].text));
	assert_string_equal(text + strlen(cases[0].text), cases[5].text);
	free(both);
	free(json);
	free(text);
}

static void say_all(void *arg, const struct why_decision *d)
{
	why_say_all(arg, d);
}

static void every_term_of_one(void **state)
{
	static const char json[] =
		"{\"decisions\":[{\"decision\":7,\"pool\":\"chat\",\"model\":\"acme/70b\",\"mode\":\"on\","
		"\"rule\":\"cost\",\"why\":\"cached\",\"us\":41,\"cut\":true,\"prompt_tokens\":16000,"
		"\"matched_as\":\"tokens\",\"unseen_tokens\":4000,\"prompt_pages\":750,\"server\":\"s3\","
		"\"facts\":\"first\",\"pressure\":0.5,\"sacrifice\":0.3,\"n_candidates\":9,\"candidates\":["
		"{\"load\":2,\"server\":\"s3\",\"wait_s\":0.25,\"cached_tokens\":12288,\"truth\":\"events\","
		"\"session_tokens\":512,\"promised_s\":0.04,"
		"\"compute_s\":0.5,\"shared_s\":0.125,\"load_s\":0.01,\"kv_s\":0.02,\"adapter_s\":0.03,"
		"\"penalty\":4,\"cost_s\":1.5}],\"after\":{\"state\":\"done\",\"engine_tokens\":15990,"
		"\"cached_tokens\":12000,\"output_tokens\":77}}]}";
	static const char want[] =
		"    prompt: 16000 tokens in 750 pages of tokens, 4000 of them not seen; the body came cut\n"
		"    model: acme/70b; pool: chat, mode on, rule cost; facts: first\n"
		"    decided in 41 us among 9 servers; pressure 0.5 s, sacrifice 0.3\n"
		"      server open    wait   cached session compute  shared    load      kv adapter promise"
		" fail     cost  truth\n"
		"    * s3        2   0.250    12288     512   0.500   0.125   0.010   0.020   0.030   0.040"
		"    4    1.500  events\n"
		"      and 8 more, which cost more\n"
		"    its engine counted 15990 tokens of prompt, 12000 of them from its cache\n"
		"    the answer has about 77 tokens\n";
	struct why_reader r;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	why_start(&r, say_all, f);
	assert_int_equal(why_feed(&r, json, strlen(json)), JSON_DONE);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

/* Values of wrong type, in wrong places, too many, too long, and with terminal control bytes. */
static void hostile_answers(void **state)
{
	static const char *const wrong[] = {
		"{\"server\":5,\"time\":{\"server\":\"x\"},\"prompt_tokens\":\"many\",\"after\":7,\"pool\":null}",
		"{\"candidates\":7,\"server\":\"s1\"}",
		"{\"candidates\":{\"a\":{\"server\":\"x\",\"load\":1}},\"compare\":{\"b\":{\"rule\":\"x\"}}}",
		"{\"candidates\":[[{\"server\":\"x\"}],5,\"s\",{\"server\":[1,\"a\",{\"load\":3}]}],\"load\":4}",
		"{\"compare\":[[[]]],\"candidates\":[],\"server\":[[\"x\"]]}",
		("{\"prompt_tokens\":-1e308,\"regret_s\":1e308,\"server\":\"s\",\"candidates\":[{\"cost_s\":5,"
		    "\"wait_s\":1e300},"
		 "{\"cost_s\":1,\"load\":1e300,\"cached_tokens\":1e300}],\"after\":{\"status\":1e300,"
		 "\"done_ms\":1e300,\"retries\":9e9}}"),
	};
	char *json, *text;
	char many[8000] = "{\"server\":\"s\",\"candidates\":[{}";
	unsigned n;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		json = list_of(wrong[i]);
		text = said_of(json, 3, &n);
		assert_int_equal(n, 1);
		free(text);
		free(json);
	}
	for (int i = 0; i < 50; i++)
		strcat(many, ",{\"server\":\"x\",\"load\":1}");
	strcat(many, "],\"compare\":[{}");
	for (int i = 0; i < 50; i++)
		strcat(many, ",{\"rule\":\"x\",\"server\":\"y\"}");
	strcat(many, "],\"uid\":\"\\u001b[2J\\u0085\\u00e9\x7f");
	memset(many + strlen(many), 'u', 1000);
	strcat(many, "\"}");
	json = list_of(many);
	text = said_of(json, 7, &n);
	assert_int_equal(n, 1);
	for (size_t i = 0; text[i] != '\0'; i++)
		assert_true((text[i] >= 0x20 && text[i] < 0x7f) || text[i] == '\n');
	assert_non_null(strstr(text, "? ?[2J???uuu"));
	free(text);
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_words),
		cmocka_unit_test(all_of_a_list),
		cmocka_unit_test(every_term_of_one),
		cmocka_unit_test(hostile_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
