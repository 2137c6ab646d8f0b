/* test_trace.c - traces: lines, times, sessions, and every way a line can be wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/sim/spread.h"
#include "agent/sim/trace.h"

#define LINE(stamp, in, out, ids)	"{\"timestamp\": " stamp ", \"input_length\": " in \
	", \"output_length\": " out ", \"hash_ids\": [" ids "]}\n"

static const struct trace_opts usual = { .block = 100 };

static void read_ok(struct sim_trace *t, const char *text, const struct trace_opts *o)
{
	struct err e;

	if (trace_read(t, span_str(text), o, &e) < 0)
		fail_msg("line %d: %s", e.line, e.text);
}

static void what_a_line_says(void **state)
{
	struct sim_trace t;

	read_ok(&t,
	    LINE("500", "250", "7", "900, 901, 902") "\r\n\n" LINE(
		"1500", "200", "1", "900, \"x\""),
	    &usual);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.n_blocks, 4);
	assert_true(t.r[0].at == 0 && t.r[1].at == 1);
	assert_int_equal(t.r[0].n_full, 2);
	assert_int_equal(t.r[0].n_ids, 3);
	assert_int_equal(t.r[0].max_hit, 2);
	assert_int_equal(t.r[1].n_full, 2);
	assert_int_equal(t.r[1].max_hit, 1);	/* its last token is always computed */
	assert_int_equal(t.ids[t.r[1].first], t.ids[t.r[0].first]);
	assert_int_equal(t.r[0].session, t.r[1].session);
	trace_free(&t);
}

static void sorted_and_spread(void **state)
{
	struct trace_opts o = usual;
	struct sim_trace t;

	read_ok(&t, LINE("4000", "1", "1", "") LINE("1000", "2", "1", "") LINE("1000", "3", "1", ""), &o);
	assert_int_equal(t.r[0].n_in, 2);
	assert_int_equal(t.r[1].n_in, 3);
	assert_true(t.r[1].at == 1.5 && t.r[2].at == 3);
	trace_free(&t);
	o.keep_stamps = true;
	read_ok(&t, LINE("4000", "1", "1", "") LINE("1000", "2", "1", "") LINE("1000", "3", "1", ""), &o);
	assert_true(t.r[1].at == 0);
	trace_free(&t);
	o.limit = 1;
	read_ok(&t, LINE("4000", "1", "1", "") LINE("1000", "2", "1", ""), &o);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.r[0].n_in, 2);
	trace_free(&t);
}

static void sessions(void **state)
{
	struct sim_trace t;

	read_ok(&t,
	    LINE("1", "200", "1", "1, 2") LINE("2", "200", "1", "3, 4")
		LINE("3", "300", "1", "1, 2, 5"),
	    &usual);
	assert_int_equal(t.r[0].session, t.r[2].session);
	assert_int_not_equal(t.r[0].session, t.r[1].session);
	trace_free(&t);
	read_ok(&t,
	    "{\"session\":\"a\",\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n"
	    "{\"session\":7,\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n"
	    "{\"session\":\"a\",\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}",
	    &usual);
	assert_int_equal(t.r[0].session, t.r[2].session);
	assert_int_not_equal(t.r[0].session, t.r[1].session);
	trace_free(&t);
	/* a line without a session among others that have one is alone */
	read_ok(&t, LINE("1", "1", "1", "") LINE("2", "1", "1", "")
		"{\"session\":7,\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}", &usual);
	assert_int_not_equal(t.r[0].session, t.r[1].session);
	assert_int_not_equal(t.r[1].session, t.r[2].session);
	trace_free(&t);
}

static const struct { const char *text; int line; const char *words;
} wrong[] = {
	{ "", 0, "no request" },
	{ "\n  \n", 0, "no request" },
	{ "{", 1, "not JSON" },
	{ "\n" LINE("1", "2", "3", "4") "nonsense\n", 3, "not JSON" },
	{ "[1]\n", 1, "needs timestamp" },
	{ "{\"timestamp\":1,\"input_length\":1,\"hash_ids\":[]}", 1, "needs timestamp" },
	{ "{\"timestamp\":1,\"input_length\":\"1\",\"output_length\":1,\"hash_ids\":[]}", 1,
	    "needs timestamp" },
	{ LINE("-1", "1", "1", ""), 1, "timestamp has to be" },
	{ LINE("1e99", "1", "1", ""), 1, "timestamp has to be" },
	{ LINE("1", "1.5", "1", ""), 1, "tokens" },
	{ LINE("1", "-1", "1", ""), 1, "tokens" },
	{ LINE("1", "16777217", "1", ""), 1, "tokens" },
	{ LINE("1", "1", "99999999999", ""), 1, "tokens" },
	{ LINE("1", "300", "1", "1, 2, 1"), 1, "comes twice" },
	{ LINE("1", "1", "1", "1,2,3,4,5,6,7,8,9,10,11"), 1, "--block" },
	{ "{\"a\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}", 1, "not JSON" },
};

static void wrong_lines(void **state)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct sim_trace t;
		struct err e;

		assert_int_equal(trace_read(&t, span_str(wrong[i].text), &usual, &e), -1);
		if (e.line != wrong[i].line || strstr(e.text, wrong[i].words) == NULL)
			fail_msg("%s: line %d: %s", wrong[i].text, e.line, e.text);
		assert_null(t.r);
	}
}

/* What a full disk leaves of a recording: all but its last line counts. */
static void a_cut_last_line_is_left_out(void **state)
{
	static const char whole[] = LINE("1", "200", "1", "1, 2"), last[] = LINE("2", "300", "1", "1, 2");
	char text[sizeof(whole) + sizeof(last)];
	struct sim_trace t;

	for (size_t n = 1; n < sizeof(last) - 2; n++) {
		snprintf(text, sizeof(text), "%s%.*s", whole, (int)n, last);
		read_ok(&t, text, &usual);
		assert_int_equal(t.n, 1);
		assert_true(t.recorded.cut);
		trace_free(&t);
	}
	snprintf(text, sizeof(text), "%s%.*s", whole, (int)sizeof(last) - 2, last);
	read_ok(&t, text, &usual);
	assert_int_equal(t.n, 2);
	assert_false(t.recorded.cut);
	trace_free(&t);
}

/* More ids than any table starts with: equal ones are equal, others differ. */
static void many_ids(void **state)
{
	enum { N = 5000 };
	static char text[N * 20];
	struct sim_trace t;
	size_t n = 0;

	for (unsigned round = 0; round < 2; round++) {
		n += (size_t)sprintf(text + n,
		    "{\"timestamp\":%u,\"input_length\":%u,\"output_length\":1,\"hash_ids\":[",
		    round, N * 100);
		for (unsigned i = 0; i < N; i++)
			n += (size_t)sprintf(text + n, "%s%u", i ? "," : "", 7 * (i + round * N / 2));
		n += (size_t)sprintf(text + n, "]}\n");
	}
	read_ok(&t, text, &usual);
	assert_int_equal(t.n_blocks, N + N / 2);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(t.ids[i], i);
		assert_int_equal(t.ids[t.r[1].first + i], i + N / 2);
	}
	trace_free(&t);
}

/* Every prefix of a good file is read or refused, and no byte after it is read. */
static void every_prefix(void **state)
{
	static const char good[] =
	    LINE("500", "250", "7", "900, 901, \"\\u00e4\"") LINE("1500", "200", "1", "900, -7");

	for (size_t n = 0; n < sizeof(good); n++) {
		char *copy = mem_copy(good, n);
		struct sim_trace t;
		struct err e;

		assert_non_null(copy);
		if (trace_read(&t, span_of(copy, n), &usual, &e) == 0)
			trace_free(&t);
		mem_free(copy);
	}
}

static void block_sizes(void **state)
{
	assert_int_equal(trace_block_of(SPAN("{\"block_size\": 512, \"source\": \"x\"}")), 512);
	assert_int_equal(trace_block_of(SPAN("{\"block_size\": 0}")), 0);
	assert_int_equal(trace_block_of(SPAN("{\"block_size\": 1e9}")), 0);
	assert_int_equal(trace_block_of(SPAN("{}")), 0);
	assert_int_equal(trace_block_of(SPAN("nonsense")), 0);
}

/* Each arrival moves by half a gap at most, by its seed, and nothing else changes. */
static void jittered(void **state)
{
	struct sim_trace t, again;
	const char *text = LINE("0", "1", "1", "") LINE("1000", "2", "1", "") LINE("2000", "3", "1", "")
			   LINE("3000", "4", "1", "");
	bool moved = false;

	read_ok(&t, text, &usual);
	read_ok(&again, text, &usual);
	trace_jitter(&t, 7);
	trace_jitter(&again, 7);
	for (size_t i = 0; i < t.n; i++) {
		assert_true(t.r[i].at == again.r[i].at);
		assert_int_equal(t.r[i].n_in, i + 1);
		assert_true(t.r[i].at >= (double)i - 1 && t.r[i].at <= (double)i + 1);
		moved |= t.r[i].at != (double)i;
	}
	assert_true(moved && t.r[0].at == 0);
	trace_free(&t);
	trace_free(&again);
}

#define RECORDED(stamp, in, ids, more) \
	"{\"timestamp\":" stamp ",\"input_length\":" in ",\"output_length\":0," \
	"\"hash_ids\":[" ids "]" more "}\n"

/* A recording of an agent has its own block size and outcomes; failures, other block sizes and
 * lengths that no prompt has are left out. */
static void a_recording(void **state)
{
	const struct trace_opts o = { .keep_stamps = true };
	struct sim_trace t;
	struct err e;

	read_ok(&t,
	    RECORDED("0", "100", "1,2,3",
	    ",\"block_size\":32,\"cached\":0,\"first_ms\":500,\"status\":200,\"server\":\"a\"")
	    RECORDED("10", "100", "1,2,3",
	    ",\"block_size\":32,\"cached\":96,\"total_ms\":9,\"server\":\"b\"")
	    RECORDED("20", "100", "1,2,3",
	    ",\"block_size\":32,\"cached\":96,\"status\":503,\"server\":\"c\"")
	    RECORDED("30", "100", "7", ",\"block_size\":64,\"cached\":0,\"server\":\"a\"")
	    RECORDED("35", "74956000", "1", ",\"block_size\":32,\"cached\":0,\"server\":\"a\"")
	    RECORDED("40", "100", "1,2,9",
	    ",\"block_size\":32,\"cached\":1e9,\"first_ms\":1500,\"server\":\"a\""),
	    &o);
	assert_int_equal(t.block, 32);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.r[0].max_hit, 3);
	assert_int_equal(t.r[0].n_out, 1);
	assert_int_equal(t.recorded.n, 3);
	assert_int_equal(t.recorded.servers, 2);
	assert_int_equal(t.recorded.tokens, 300);
	assert_int_equal(t.recorded.cached, 96);
	assert_int_equal(t.recorded.n_first, 2);
	assert_true(t.recorded.first_s == 2);
	assert_int_equal(t.recorded.failed, 1);
	assert_int_equal(t.recorded.unlike, 1);
	assert_int_equal(t.recorded.too_long, 1);
	trace_free(&t);
	assert_int_equal(t.recorded.n, 0);
	/* a size given by an option is final: here all requests have another one */
	assert_int_equal(
	    trace_read(
		&t, span_str(RECORDED("0", "100", "1,2,3", ",\"block_size\":32")), &usual, &e),
	    -1);
	assert_string_equal(e.text, "it has no request");
}

static void spreads(void **state)
{
	double v[] = { 1, 9, 2, 9, 6, 9 };
	struct spread s = spread_of(v, 3, 2 * sizeof(*v));

	assert_true(s.mean == 3 && s.min == 1 && s.max == 6);
	assert_true(fabs(s.se * s.se - 7.0 / 3) < 1e-12);	/* variance (4 + 1 + 9) / 2, over 3 */
	assert_true(spread_of(v, 1, sizeof(*v)).se == 0 && spread_of(v, 0, 0).mean == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_line_says),
		cmocka_unit_test(sorted_and_spread),
		cmocka_unit_test(sessions),
		cmocka_unit_test(wrong_lines),
		cmocka_unit_test(a_cut_last_line_is_left_out),
		cmocka_unit_test(many_ids),
		cmocka_unit_test(every_prefix),
		cmocka_unit_test(block_sizes),
		cmocka_unit_test(jittered),
		cmocka_unit_test(a_recording),
		cmocka_unit_test(spreads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
