/* test_logline.c - HAProxy's log lines into facts. The lines have the log-format of the shipped
 * configuration and values of real HAProxies: -1 for an event that never happened, a '+' before a
 * retry count that ended in a redispatch, names in angle brackets for no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/feed/logline.h"
#include "tests/unit/edge.h"

#define UID	"0c7c1e0e-4a45-4f70-9b3e-2f2b8b3d9c1a"

struct line_case {
	const char *name, *line;
	int rc;
	/* expected when rc is 0 */
	const char *uid, *pool, *server, *wanted;
	int32_t status;
	enum fact_end end;
	int64_t queue, connect, response, total, out, in;
	int32_t retries;
	bool redispatched;
};

#define NO_TIMES	-1, -1, -1, -1, -1, -1

static const struct line_case cases[] = {
	{ "served, streamed",
	  "{\"uid\":\"" UID "\",\"be\":\"pool\",\"srv\":\"s1\",\"want\":\"s1\",\"why\":\"cached\","
	  "\"err\":\"\",\"st\":200,\"ts\":\"--\",\"tw\":0,\"tc\":1,\"tr\":182,\"ta\":5310,"
	  "\"out\":90210,\"in\":16421,\"rc\":\"0\",\"sq\":0,\"bq\":0}", 0,
	  UID, "pool", "s1", "s1", 200, END_OK, 0, 1, 182, 5310, 90210, 16421, 0, false },
	{ "refused, and served elsewhere",
	  "{\"uid\":\"" UID "\",\"be\":\"pool\",\"srv\":\"s2\",\"want\":\"s1\",\"why\":\"cold\","
	  "\"err\":\"\",\"st\":200,\"ts\":\"--\",\"tw\":0,\"tc\":0,\"tr\":95,\"ta\":400,"
	  "\"out\":800,\"in\":512,\"rc\":\"+1\",\"sq\":0,\"bq\":0}", 0,
	  UID, "pool", "s2", "s1", 200, END_OK, 0, 0, 95, 400, 800, 512, 1, true },
	{ "retried on the same server",
	  "{\"uid\":\"u\",\"be\":\"pool\",\"srv\":\"s1\",\"want\":\"s1\",\"st\":200,\"ts\":\"--\","
	  "\"tw\":0,\"tc\":1001,\"tr\":9,\"ta\":1010,\"out\":1,\"in\":2,\"rc\":\"2\"}", 0,
	  "u", "pool", "s1", "s1", 200, END_OK, 0, 1001, 9, 1010, 1, 2, 2, false },
	{ "the client left before the headers",
	  "{\"uid\":\"u\",\"be\":\"pool\",\"srv\":\"s1\",\"want\":\"s1\",\"why\":\"cached\","
	  "\"err\":\"\",\"st\":-1,\"ts\":\"CH\",\"tw\":0,\"tc\":0,\"tr\":-1,\"ta\":812,\"out\":0,"
	  "\"in\":800,\"rc\":\"0\",\"sq\":0,\"bq\":0}", 0,
	  "u", "pool", "s1", "s1", -1, END_CLIENT, 0, 0, -1, 812, 0, 800, 0, false },
	{ "timed out in the queue",
	  "{\"uid\":\"u\",\"be\":\"pool\",\"srv\":\"<NOSRV>\",\"want\":\"s3\",\"why\":\"cached\","
	  "\"err\":\"\",\"st\":503,\"ts\":\"sQ\",\"tw\":30001,\"tc\":-1,\"tr\":-1,\"ta\":30001,"
	  "\"out\":217,\"in\":800,\"rc\":\"0\",\"sq\":3,\"bq\":9}", 0,
	  "u", "pool", "<NOSRV>", "s3", 503, END_QUEUE, 30001, -1, -1, 30001, 217, 800, 0, false },
	{ "the agent was asked and silent",
	  "{\"uid\":\"u\",\"be\":\"pool\",\"srv\":\"s1\",\"want\":\"\",\"why\":\"\",\"err\":\"1\","
	  "\"st\":200,\"ts\":\"--\",\"tw\":0,\"tc\":0,\"tr\":5,\"ta\":6,\"out\":7,\"in\":8,"
	  "\"rc\":\"0\",\"sq\":0,\"bq\":0}", 0,
	  "u", "pool", "s1", "", 200, END_OK, 0, 0, 5, 6, 7, 8, 0, false },
	{ "a syslog header before it",
	  "<134>Nov 21 01:15:00 lb1 haproxy[77]: {\"uid\":\"u\",\"st\":200}", 0,
	  "u", "", "", "", 200, END_UNKNOWN, NO_TIMES, -1, false },
	{ "a new line behind it", "{\"uid\":\"u\"}\n", 0, "u", "", "", "", -1, END_UNKNOWN,
	  NO_TIMES, -1, false },
	{ "spaces anywhere", " { \"uid\" : \"u\" , \"st\" : 200 } \r\n", 0, "u", "", "", "", 200,
	  END_UNKNOWN, NO_TIMES, -1, false },
	{ "fields we do not know, of every kind",
	  "{\"a\":1,\"b\":\"two\",\"c\":null,\"d\":true,\"e\":false,\"f\":{},\"g\":[],\"uid\":\"u\","
	  "\"h\":-1.5e9,\"be\":\"p\"}", 0, "u", "p", "", "", -1, END_UNKNOWN, NO_TIMES, -1, false },
	{ "our names, but nested",
	  "{\"x\":{\"uid\":\"no\",\"st\":1,\"be\":\"no\"},\"y\":[\"no\",7,{\"srv\":\"no\"}],"
	  "\"uid\":\"u\",\"srv\":{\"uid\":\"no\"},\"be\":[\"no\"],\"st\":[1],\"tr\":{\"tr\":5}}", 0,
	  "u", "", "", "", -1, END_UNKNOWN, NO_TIMES, -1, false },
	{ "escapes", "{\"\\u0075id\":\"a\\u0041\\\"\\\\\\/\\n\",\"be\":\"\\u00e4\\ud83d\\ude00\"}", 0,
	  "aA\"\\/\n", "\xc3\xa4\xf0\x9f\x98\x80", "", "", -1, END_UNKNOWN, NO_TIMES, -1, false },
	{ "numbers as strings", "{\"uid\":\"u\",\"st\":\"200\",\"tr\":\"-1\",\"ta\":\"12\",\"rc\":3}", 0,
	  "u", "", "", "", 200, END_UNKNOWN, -1, -1, -1, 12, -1, -1, 3, false },
	{ "numbers that are none of ours",
	  "{\"uid\":\"u\",\"st\":2e2,\"tw\":1.5,\"tc\":\"\",\"tr\":\"+\",\"ta\":\"1 \",\"out\":true,"
	  "\"in\":null,\"rc\":\"-1\"}", 0, "u", "", "", "", -1, END_UNKNOWN, NO_TIMES, -1, false },
	{ "numbers too large",
	  "{\"uid\":\"u\",\"st\":2147483648,\"tw\":999999999999999999,\"tc\":1000000000000000000,"
	  "\"rc\":\"2147483648\"}", 0, "u", "", "", "", -1, END_UNKNOWN, 999999999999999999, -1, -1,
	  -1, -1, -1, -1, false },
	{ "numbers where words belong", "{\"uid\":\"u\",\"be\":5,\"ts\":7,\"srv\":null}", 0, "u", "", "",
	  "", -1, END_UNKNOWN, NO_TIMES, -1, false },
	{ "the last of two wins", "{\"uid\":\"a\",\"st\":1,\"uid\":\"b\",\"st\":2}", 0, "b", "", "", "",
	  2, END_UNKNOWN, NO_TIMES, -1, false },
	{ "no uid", "{\"be\":\"pool\",\"st\":200}", LOGLINE_NAMELESS },
	{ "an empty uid", "{\"uid\":\"\",\"st\":200}", LOGLINE_NAMELESS },
	{ "a uid that is no string", "{\"uid\":5}", LOGLINE_NAMELESS },
	{ "a uid one level down", "{\"x\":{\"uid\":\"u\"}}", LOGLINE_NAMELESS },
	{ "not an object", "[\"uid\",\"u\"]", -1 },
	{ "a header and nothing else", "<134>Nov 21 01:15:00 lb1 haproxy[77]: ", -1 },
	{ "HAProxy's ordinary log",
	  "10.0.0.1:5000 [21/Nov/2025:01:15:00.000] llm pool/s1 0/0/1/182/5310 200 90210 - - ---- "
	  "1/1/0/0/0 0/0 \"POST /v1/chat/completions HTTP/1.1\"", -1 },
	{ "two objects: the first", "{\"uid\":\"u\"}{\"uid\":\"v\",\"st\":1}", 0, "u", "", "", "", -1,
	  END_UNKNOWN, NO_TIMES, -1, false },
	{ "words behind it", "{\"uid\":\"u\"} and {", 0, "u", "", "", "", -1, END_UNKNOWN, NO_TIMES,
	  -1, false },
	{ "nothing", "", -1 },
	{ "a nesting bomb", "{\"uid\":\"u\",\"x\":[[[[[[[[[[[[1]]]]]]]]]]]]}", -1 },
	{ "broken inside", "{\"uid\":\"u\",\"st\":}", -1 },
};

static void check_span(const char *name, const char *what, struct span got, const char *want)
{
	if (!span_eq(got, span_str(want)))
		fail_msg("%s: %s is \"" SPAN_FMT "\", expected \"%s\"", name, what, SPAN_ARG(got), want);
}

static void check_number(const char *name, const char *what, int64_t got, int64_t want)
{
	if (got != want)
		fail_msg("%s: %s is %lld, expected %lld", name, what, (long long)got, (long long)want);
}

static int parse(struct logline *l, const char *text, size_t n, struct fact *f)
{
	uint8_t *edge = edge_copy(text, n);
	int rc = logline_parse(l, (const char *)edge, n, f);

	edge_free(edge, n);	/* the fact borrows from <l>, not from the line */
	return rc;
}

static void check_case(const struct line_case *t, const struct fact *f)
{
	assert_int_equal(f->kind, FACT_DONE);
	check_span(t->name, "uid", f->uid, t->uid);
	check_span(t->name, "be", f->pool, t->pool);
	check_span(t->name, "srv", f->server, t->server);
	check_span(t->name, "want", f->wanted, t->wanted);
	check_span(t->name, "ct", f->type, "");
	check_number(t->name, "st", f->status, t->status);
	check_number(t->name, "ts", f->end, t->end);
	check_number(t->name, "tw", f->queue_ms, t->queue);
	check_number(t->name, "tc", f->connect_ms, t->connect);
	check_number(t->name, "tr", f->response_ms, t->response);
	check_number(t->name, "ta", f->total_ms, t->total);
	check_number(t->name, "out", f->bytes_out, t->out);
	check_number(t->name, "in", f->bytes_in, t->in);
	check_number(t->name, "rc", f->retries, t->retries);
	check_number(t->name, "rc's sign", f->redispatched, t->redispatched);
}

static void lines(void **state)
{
	static struct logline l;
	struct fact f;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check_number(cases[i].name, "result",
			     parse(&l, cases[i].line, strlen(cases[i].line), &f), cases[i].rc);
		if (cases[i].rc == 0)
			check_case(&cases[i], &f);
	}
}

/* A line that TCP or HAProxy's maxlen cut is no fact, wherever the cut is. */
static void cut_lines_are_no_facts(void **state)
{
	static struct logline l;
	struct fact f;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *end = strrchr(cases[i].line, '}');

		if (cases[i].rc < 0 || strchr(cases[i].name, ':') != NULL)
			continue;	/* no whole object, or more than one */
		for (size_t n = 0; n < (size_t)(end - cases[i].line); n++)
			assert_int_equal(parse(&l, cases[i].line, n, &f), -1);
	}
}

/* The token is a string of the object itself, at any place in it. A client's text after the object
 * has no effect. */
static void token(void **state)
{
	static const struct { const char *line, *token; } table[] = {
		{ "{\"token\":\"t\",\"uid\":\"u\"}", "t" }, { "{\"uid\":\"u\",\"token\":\"t\"}", "t" },
		{ "{\"uid\":\"u\"}", "" }, { "{\"uid\":\"u\",\"token\":\"\"}", "" },
		{ "{\"uid\":\"u\",\"token\":7}", "" }, { "{\"uid\":\"u\",\"token\":[\"t\"]}", "" },
		{ "{\"uid\":\"u\",\"x\":{\"token\":\"t\"}}", "" }, { "{\"uid\":\"u\"} {\"token\":\"t\"}", "" },
		{ "{\"uid\":\"u\",\"Token\":\"t\"}", "" },
	};
	static struct logline l;
	struct fact f;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(parse(&l, table[i].line, strlen(table[i].line), &f), 0);
		check_span(table[i].line, "token", f.token, table[i].token);
	}
}

/* The load header of a response; HAProxy writes "-" if there was none. */
static void load_header(void **state)
{
	static const struct { const char *line, *orca; } table[] = {
		{ "{\"uid\":\"u\",\"orca\":\"TEXT named_metrics.x=1, y=2\"}", "TEXT named_metrics.x=1, y=2" },
		{ "{\"uid\":\"u\",\"orca\":\"JSON {\\\"named_metrics\\\":{}}\"}", "JSON {\"named_metrics\":{}}" },
		{ "{\"uid\":\"u\",\"orca\":\"-\"}", "" }, { "{\"uid\":\"u\",\"orca\":\"\"}", "" },
		{ "{\"uid\":\"u\"}", "" }, { "{\"uid\":\"u\",\"orca\":7}", "" },
		{ "{\"uid\":\"u\",\"orca\":{\"orca\":\"x\"}}", "" },
	};
	static struct logline l;
	struct fact f;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(parse(&l, table[i].line, strlen(table[i].line), &f), 0);
		check_span(table[i].line, "orca", f.orca, table[i].orca);
	}
}

static void check_same(const char *line, const struct fact *a, const struct fact *b)
{
	const struct span sa[] = { a->uid, a->pool, a->server, a->wanted, a->why, a->token, a->orca };
	const struct span sb[] = { b->uid, b->pool, b->server, b->wanted, b->why, b->token, b->orca };
	const int64_t na[] = { a->status, a->end, a->queue_ms, a->connect_ms, a->response_ms, a->total_ms,
		a->bytes_out, a->bytes_in, a->retries, a->redispatched, a->prompt_tokens, a->output_tokens,
		a->cached_tokens, a->error, a->has_why, a->line };
	const int64_t nb[] = { b->status, b->end, b->queue_ms, b->connect_ms, b->response_ms, b->total_ms,
		b->bytes_out, b->bytes_in, b->retries, b->redispatched, b->prompt_tokens, b->output_tokens,
		b->cached_tokens, b->error, b->has_why, b->line };

	for (size_t i = 0; i < sizeof(sa) / sizeof(sa[0]); i++)
		if (!span_eq(sa[i], sb[i]))
			fail_msg("%s: " SPAN_FMT ", spaced " SPAN_FMT, line, SPAN_ARG(sa[i]), SPAN_ARG(sb[i]));
	assert_memory_equal(na, nb, sizeof(na));
	assert_ptr_equal(a->lacks, b->lacks);
}

/* A line as recipes write it is read directly, and one with white space by the scanner. */
static void check_spaced(const char *line, size_t n)
{
	static struct logline l, l2;
	const char *brace = memchr(line, '{', n);
	size_t before = brace != NULL ? (size_t)(brace - line) + 1 : n;
	char spaced[600];
	struct fact a, b;

	assert_true(n < sizeof(spaced));
	memcpy(spaced, line, before);
	spaced[before] = ' ';
	memcpy(spaced + before + 1, line + before, n - before);
	assert_int_equal(parse(&l, line, n, &a), parse(&l2, spaced, n + 1, &b));
	if (a.line)
		check_same(line, &a, &b);
}

static void spaces_change_nothing(void **state)
{
	static struct logline l;
	struct fact f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_spaced(cases[i].line, strlen(cases[i].line));
	parse(&l, cases[0].line, strlen(cases[0].line), &f);
	assert_int_equal(l.n, strlen(cases[0].line));	/* the whole line was copied: read directly */
}

/* With any one byte changed, the line gives a fact or an error, and no byte outside is read. */
static void damaged_lines(void **state)
{
	static const char bytes[] = { 0, '"', '\\', '{', '}', '[', ',', ':', '0', '9', '-', '.', 'e',
		' ', (char)0xff };
	static struct logline l;
	struct fact f;
	char line[512];

	(void)state;
	for (size_t n = strlen(cases[1].line), i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++) {
			memcpy(line, cases[1].line, n);
			line[i] = bytes[k];
			if (parse(&l, line, n, &f) == 0)
				assert_true(f.uid.n > 0);
			check_spaced(line, n);
		}
	}
}

/* Strings decode into the scratch of one line. */
static void strings_too_long_are_left_out(void **state)
{
	static struct logline l;
	static char line[4 * LOGLINE_MAX];
	struct fact f;
	int n;

	(void)state;
	n = sprintf(line, "{\"be\":\"%0*d\",\"uid\":\"u\"}", LOGLINE_MAX - 1, 7);
	assert_int_equal(parse(&l, line, (size_t)n, &f), 0);
	assert_int_equal(f.pool.n, LOGLINE_MAX - 1);
	check_span("just fits", "uid", f.uid, "u");
	n = sprintf(line, "{\"be\":\"%0*d\",\"uid\":\"u\"}", LOGLINE_MAX, 7);
	assert_int_equal(parse(&l, line, (size_t)n, &f), LOGLINE_NAMELESS);	/* no room for the uid */
	n = sprintf(line, "{\"uid\":\"u\",\"be\":\"%0*d\",\"srv\":\"s1\"}", LOGLINE_MAX, 7);
	if (parse(&l, line, (size_t)n, &f) == 0)
		assert_int_equal(f.pool.n, 0);
	n = sprintf(line, "{\"uid\":\"u\",\"x\":\"%0*d\",\"be\":\"p\"}", 2 * LOGLINE_MAX, 7);
	assert_int_equal(parse(&l, line, (size_t)n, &f), 0);	/* unused members need no room */
	check_span("unknown and long", "be", f.pool, "p");
}

#define WHOLE	"\"be\":\"pool\",\"srv\":\"s1\",\"want\":\"-\",\"st\":200,\"ts\":\"--\",\"tr\":1," \
		"\"out\":2,\"rc\":\"0\","

/* Outcome of the agent for the request as HAProxy reports it, and the first missing field. */
static void answers_and_errors(void **state)
{
	static const struct {
		const char *line;
		bool has_why;
		const char *why;
		int32_t error;
		const char *lacks;
	} table[] = {
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"cached\",\"err\":\"-\"}", true, "cached", 0,
		    NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"-\",\"err\":\"257\"}", true, "-", 257, NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"\",\"err\":3}", true, "", 3, NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"\",\"err\":\"\"}", true, "", 0, NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"-\",\"err\":\"-9\"}", true, "-", 0, NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"-\",\"err\":\"99999999999\"}", true, "-", 0,
		    NULL },
		{ "{" WHOLE "\"uid\":\"u\",\"err\":\"1\"}", false, "", 1, "why" },
		{ "{" WHOLE "\"uid\":\"u\",\"why\":\"cold\"}", true, "cold", -1, "err" },
		{ "{" WHOLE "\"uid\":\"u\"}", false, "", -1, "why" },
		{ "{\"uid\":\"u\",\"srv\":\"s1\"}", false, "", -1, "be" },
	};
	static struct logline l;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct fact f;

		assert_int_equal(parse(&l, table[i].line, strlen(table[i].line), &f), 0);
		assert_true(f.line);
		check_number(table[i].line, "has_why", f.has_why, table[i].has_why);
		check_span(table[i].line, "why", f.why, table[i].why);
		check_number(table[i].line, "error", f.error, table[i].error);
		if ((f.lacks == NULL) != (table[i].lacks == NULL) ||
		    (f.lacks != NULL && strcmp(f.lacks, table[i].lacks) != 0))
			fail_msg("%s lacks %s", table[i].line, f.lacks ? f.lacks : "nothing");
	}
}

static void ends(void **state)
{
	static const struct { const char *ts; enum fact_end end; } table[] = {
		{ "--", END_OK }, { "----", END_OK },
		{ "CD", END_CLIENT }, { "CH", END_CLIENT }, { "CC", END_CLIENT }, { "CR", END_CLIENT },
		{ "CL", END_CLIENT }, { "cD", END_CLIENT }, { "cR", END_CLIENT },
		{ "SH", END_SERVER }, { "SD", END_SERVER }, { "SC", END_CONNECT },
		{ "sH", END_SERVER }, { "sD", END_SERVER }, { "sC", END_CONNECT },
		{ "sQ", END_QUEUE }, { "CQ", END_QUEUE }, { "SQ", END_QUEUE }, { "RQ", END_QUEUE },
		{ "PH", END_SERVER }, { "DD", END_SERVER }, { "DH", END_SERVER },
		{ "PR", END_PROXY }, { "PD", END_PROXY }, { "PT", END_PROXY },
		{ "PC", END_PROXY }, { "RC", END_PROXY }, { "IH", END_PROXY }, { "LR", END_PROXY },
		{ "UD", END_PROXY }, { "KD", END_PROXY },
		{ "", END_UNKNOWN }, { "-", END_UNKNOWN }, { "C", END_UNKNOWN }, { "Q", END_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check_number(table[i].ts, "end", fact_end_of(span_str(table[i].ts)), table[i].end);
	assert_int_equal(fact_end_of((struct span){ 0 }), END_UNKNOWN);
}

/* Token counts as the recipes' set-var-fmt writes them from an engine's usage, and hostile ones. */
static void counts(void **state)
{
	static const struct { const char *text; int64_t want;
	} said[] = {
		{ "123 ", 123 },
		{ " 77", 77 },
		{ " 8+30+", 38 },
		{ " 8+30+2", 40 },
		{ "123 ++", 123 },
		{ "0 ", 0 },
		{ "12 7+1+", 12 },
		{ " ++", -1 },
		{ " ", -1 },
		{ "", -1 },
		{ "-", -1 },
		{ "-5 ", -1 },
		{ "-5 9", 9 },
		{ "x 9", 9 },
		{ "1e3", -1 },
		{ "1.5 ", -1 },
		{ " 4+-1+", -1 },
		{ " 4+x+", -1 },
		{ "1099511627776", 1099511627776 },
		{ "1099511627777", -1 },
		{ "1099511627776+1", -1 },
		{ "99999999999999999999", -1 },
	};
	static struct logline l;
	char line[128];
	struct fact f;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		snprintf(line, sizeof(line),
		    "{\"uid\":\"u\",\"gtok\":\"%s\",\"ptok\":\"%s\",\"ctok\":\"%s\"}", said[i].text,
		    said[i].text, said[i].text);
		assert_int_equal(parse(&l, line, strlen(line), &f), 0);
		check_number(said[i].text, "ptok", f.prompt_tokens, said[i].want);
		check_number(said[i].text, "gtok", f.output_tokens, said[i].want);
		check_number(said[i].text, "ctok", f.cached_tokens, said[i].want);
	}
	snprintf(line, sizeof(line), "{\"uid\":\"u\",\"gtok\":40,\"ptok\":-7}");
	assert_int_equal(parse(&l, line, strlen(line), &f), 0);
	assert_int_equal(f.output_tokens, 40);
	assert_int_equal(f.prompt_tokens, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(lines),
		cmocka_unit_test(cut_lines_are_no_facts),
		cmocka_unit_test(token),
		cmocka_unit_test(load_header),
		cmocka_unit_test(spaces_change_nothing),
		cmocka_unit_test(damaged_lines),
		cmocka_unit_test(strings_too_long_are_left_out),
		cmocka_unit_test(answers_and_errors),
		cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests_name("feed logline", tests, NULL, NULL);
}
