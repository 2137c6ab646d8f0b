/* test_verdict.c - the verdict on a server for each termination state and status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/feed/fact.h"

static const struct {
	const char *ts;		/* "": not known, as in a fact of the first byte */
	int32_t status;
	enum verdict verdict;
} cases[] = {
	/* the server answered */
	{ "--", 200, VERDICT_WORKED }, { "--", 299, VERDICT_WORKED }, { "", 200, VERDICT_WORKED },
	{ "--", 500, VERDICT_5XX }, { "--", 502, VERDICT_5XX }, { "--", 503, VERDICT_5XX },
	{ "--", 599, VERDICT_5XX }, { "", 500, VERDICT_5XX }, { "", 503, VERDICT_5XX },
	{ "--", 429, VERDICT_429 }, { "", 429, VERDICT_429 },
	/* caused by the client, or no failure */
	{ "--", 400, VERDICT_NONE }, { "--", 401, VERDICT_NONE }, { "--", 404, VERDICT_NONE },
	{ "--", 413, VERDICT_NONE }, { "--", 422, VERDICT_NONE }, { "--", 428, VERDICT_NONE },
	{ "--", 430, VERDICT_NONE }, { "--", 499, VERDICT_NONE }, { "--", 304, VERDICT_NONE },
	{ "", 400, VERDICT_NONE }, { "--", -1, VERDICT_NONE }, { "", -1, VERDICT_NONE },
	{ "--", 199, VERDICT_NONE }, { "--", 300, VERDICT_NONE }, { "--", 600, VERDICT_NONE },
	/* not reached: HAProxy answers in its place */
	{ "SC", 503, VERDICT_CONNECT }, { "sC", 503, VERDICT_CONNECT }, { "SC", -1, VERDICT_CONNECT },
	/* the server broke off or timed out, before or within the answer */
	{ "SH", 502, VERDICT_BROKEN }, { "sH", 504, VERDICT_BROKEN }, { "PH", 502, VERDICT_BROKEN },
	{ "SD", 200, VERDICT_BROKEN }, { "sD", 200, VERDICT_BROKEN }, { "SL", 200, VERDICT_BROKEN },
	{ "DH", 503, VERDICT_BROKEN }, { "DD", 200, VERDICT_BROKEN }, { "SH", 429, VERDICT_BROKEN },
	/* the client left, at any time */
	{ "CD", 200, VERDICT_NONE }, { "CD", 500, VERDICT_NONE }, { "CH", -1, VERDICT_NONE },
	{ "CC", 503, VERDICT_NONE }, { "CQ", 503, VERDICT_NONE }, { "cD", 200, VERDICT_NONE },
	{ "CR", 400, VERDICT_NONE }, { "cR", 408, VERDICT_NONE },
	/* never left the queue; ended by HAProxy */
	{ "sQ", 503, VERDICT_NONE }, { "SQ", 503, VERDICT_NONE }, { "DQ", 503, VERDICT_NONE },
	{ "PR", 429, VERDICT_NONE }, { "PD", 502, VERDICT_NONE }, { "RC", 503, VERDICT_NONE },
	{ "IH", 500, VERDICT_NONE }, { "LR", 503, VERDICT_NONE }, { "KD", 200, VERDICT_NONE },
};

static void verdicts(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fact f;
		enum verdict got;

		fact_init(&f, cases[i].ts[0] ? FACT_DONE : FACT_FIRST);
		f.status = cases[i].status;
		f.end = fact_end_of(span_str(cases[i].ts));
		got = fact_verdict(&f);
		if (got != cases[i].verdict)
			fail_msg("\"%s\" %d: %d, expected %d", cases[i].ts, cases[i].status, got,
				 cases[i].verdict);
	}
	print_message("%zu ends and statuses\n", sizeof(cases) / sizeof(cases[0]));
}

/* How people are told it ended. */
static void causes(void **state)
{
	static const struct {
		const char *ts;
		int status;
		const char *word;
	} ends[] = {
		{ "--", 200, "ok" }, { "--", 304, "ok" }, { "--", 404, "client_error" },
		{ "--", 429, "too_many" }, { "--", 500, "server_error" }, { "--", 503, "server_error" },
		{ "--", -1, "" }, { "", -1, "" }, { "", 500, "server_error" },
		{ "SC", 503, "connect_refused" }, { "sC", 503, "connect_timeout" },
		{ "SH", 502, "server_closed" }, { "SD", 200, "server_closed" },
		{ "sH", 504, "server_timeout" }, { "sD", 200, "server_timeout" },
		{ "DD", 200, "server_down" }, { "PH", 502, "not_http" },
		{ "CD", 200, "client_gone" }, { "CC", 503, "client_gone" }, { "CQ", 503, "client_gone" },
		{ "cD", 200, "client_timeout" }, { "cR", 408, "client_timeout" },
		{ "sQ", 503, "queue_timeout" }, { "PR", 429, "haproxy" }, { "KD", 200, "haproxy" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct fact f;

		fact_init(&f, FACT_DONE);
		f.status = ends[i].status;
		fact_take_end(&f, span_str(ends[i].ts));
		assert_string_equal(fact_cause_word(fact_cause(&f)), ends[i].word);
		assert_int_equal(f.ts[0] != '\0', ends[i].ts[0] != '\0');
	}
}

/* An end whose letters are not known may be a timeout, or any other. */
static void causes_without_letters(void **state)
{
	static const struct { enum fact_end end; const char *word; } ends[] = {
		{ END_CONNECT, "" }, { END_CLIENT, "" }, { END_SERVER, "" },
		{ END_QUEUE, "queue_timeout" }, { END_PROXY, "haproxy" }, { END_OK, "ok" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct fact f;

		fact_init(&f, FACT_DONE);
		f.status = 200;
		f.end = ends[i].end;
		assert_string_equal(fact_cause_word(fact_cause(&f)), ends[i].word);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts), cmocka_unit_test(causes),
		cmocka_unit_test(causes_without_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
