/* test_sgl_load.c - SGLang's load, by message and by /v1/loads, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/feed/sgl_load.h"
#include "tests/unit/edge.h"

#define B(lit)		lit, sizeof(lit) - 1
#define TAG		"\xa8" "LoadStat"
#define RUNS		"\xb0" "num_running_reqs"
#define WAITS		"\xb0" "num_waiting_reqs"
#define TOKENS		"\xaa" "num_tokens"
#define MAX		"\xb4" "max_total_num_tokens"

/* ---- messages ---- */

static const struct {
	const char *name, *bytes;
	size_t n;
	int rc;
	struct sgl_rank_load want;
} messages[] = {
	/* the third frame of shared/data/kvevents/sglang_load.frames */
	{ "a map", B("\x85\xa4type" TAG RUNS "\x05" WAITS "\x02" TOKENS "\xcd\x03\x2c" MAX
	    "\xce\x00\x01\x00\x00"), 0, { 0, 5, 2, true, 812, 65536 } },
	{ "an array, first version", B("\x96" TAG "\x07\x03\xcd\x04\x00\xcd\x20\x00\x02"), 0,
	  { 2, 7, 3, true, 1024, 8192 } },
	{ "an array, with tokens that wait",
	  B("\x97" TAG "\x07\x03\xcd\x04\x00\xcd\x20\x00\x02\xcd\x10\x00"),
	  0, { 2, 7, 3, true, 1024, 8192 } },
	{ "they are withheld", B("\x97" TAG "\x07\x03\xcd\x04\x00\xcd\x20\x00\x02\xc0"), 0,
	  { 2, 7, 3, true, 1024, 8192 } },
	{ "an array of a later version",
	  B("\x9b" TAG "\x01\x00\x09\x64\x05\xcd\x10\x00\xcd\x13\xe8\x40"
	    "\xce\x07\x5b\xcd\x15\xce\x3a\xde\x68\xb1"),
	  0, { 5, 1, 0, true, 9, 100 } },
	{ "with values of other types behind", B("\x98" TAG "\x01\x00\x09\x64\x05\xa1x\x81\xa1y\x90"), 0,
	  { 5, 1, 0, true, 9, 100 } },
	{ "no rank", B("\x95" TAG "\x01\x00\x09\x64"), 0, { 0, 1, 0, true, 9, 100 } },
	{ "rank nil", B("\x96" TAG "\x01\x00\x09\x64\xc0"), 0, { 0, 1, 0, true, 9, 100 } },
	{ "requests alone", B("\x93" TAG "\x01\x04"), 0, { 0, 1, 4, false, 0, 0 } },
	{ "a cache of 0 tokens", B("\x95" TAG "\x01\x04\x00\x00"), 0, { 0, 1, 4, false, 0, 0 } },
	{ "wide integers",
	  B("\x93" TAG "\xcf\x00\x00\x00\x00\x00\x00\x00\x01" "\xd3\x00\x00\x00\x00\x00\x00\x00\x04"),
	  0, { 0, 1, 4, false, 0, 0 } },
	{ "a map with unknown keys",
	  B("\x84\xa4type" TAG "\xa1x\x93\x01\x02\x03" RUNS "\x01" WAITS "\x00"),
	  0, { 0, 1, 0, false, 0, 0 } },
	{ "another tag", B("\x93\xa8KvEvents\x01\x04"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "a batch of events", B("\x93\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x90\xc0"), -SGL_LOAD_E_OTHER,
	  { 0 } },
	{ "a map without a tag", B("\x82" RUNS "\x01" WAITS "\x00"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "a map with keys of another type", B("\x81\x01\x02"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "a number", B("\x07"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "an empty array", B("\x90"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "an empty map", B("\x80"), -SGL_LOAD_E_OTHER, { 0 } },
	{ "too short", B("\x92" TAG "\x01"), -SGL_LOAD_E_FIELD, { 0 } },
	{ "a needed field is nil", B("\x93" TAG "\x01\xc0"), -SGL_LOAD_E_FIELD, { 0 } },
	{ "a negative count", B("\x93" TAG "\xff\x04"), -SGL_LOAD_E_FIELD, { 0 } },
	{ "a count of text", B("\x93" TAG "\xa1" "5\x04"), -SGL_LOAD_E_FIELD, { 0 } },
	{ "a fraction", B("\x93" TAG "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\x04"), -SGL_LOAD_E_FIELD,
	  { 0 } },
	{ "too many", B("\x93" TAG "\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x04"), -SGL_LOAD_E_FIELD, { 0 } },
	{ "a rank beyond 65535", B("\x96" TAG "\x01\x00\x09\x64\xce\x00\x01\x00\x00"), -SGL_LOAD_E_FIELD,
	  { 0 } },
	{ "nothing", B(""), -SGL_LOAD_E_FORM, { 0 } },
	{ "an array of 2^32 - 1", B("\xdd\xff\xff\xff\xff" TAG), -SGL_LOAD_E_FORM, { 0 } },
	{ "and more bytes", B("\x93" TAG "\x01\x04\x00"), -SGL_LOAD_E_FORM, { 0 } },
};

static bool same_rank(const struct sgl_rank_load *a, const struct sgl_rank_load *b)
{
	return a->rank == b->rank && a->running == b->running && a->waiting == b->waiting &&
	       a->has_tokens == b->has_tokens &&
	       (!a->has_tokens || (a->tokens == b->tokens && a->max_tokens == b->max_tokens));
}

static void each_message(void **state)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		uint8_t *edge = edge_copy(messages[i].bytes, messages[i].n);
		struct sgl_rank_load got;
		int rc = sgl_load_message(span_of((char *)edge, messages[i].n), &got);

		if (rc != messages[i].rc || (rc == 0 && !same_rank(&got, &messages[i].want)))
			fail_msg("%s: %d (%s), rank %u running %llu waiting %llu", messages[i].name, rc,
			    sgl_load_strerror(rc), got.rank, (unsigned long long)got.running,
			    (unsigned long long)got.waiting);
		edge_free(edge, messages[i].n);
	}
}

static void no_beginning_is_a_message(void **state)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		for (size_t n = 0; messages[i].rc == 0 && n < messages[i].n; n++) {
			uint8_t *edge = edge_copy(messages[i].bytes, n);
			struct sgl_rank_load got;

			assert_int_equal(sgl_load_message(span_of((char *)edge, n), &got), -SGL_LOAD_E_FORM);
			edge_free(edge, n);
		}
	}
}

/* ---- the ranks of a server ---- */

static void ranks_are_summed(void **state)
{
	struct sgl_loads l = { 0 };
	struct engine_load sum;

	sgl_loads_sum(&l, &sum);
	assert_false(engine_load_told(&sum));
	assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ 1, 5, 2, true, 30, 100 }), 0);
	assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ 0, 1, 0, true, 30, 200 }), 0);
	sgl_loads_sum(&l, &sum);
	assert_true(sum.running == 6 && sum.waiting == 2 && sum.kv_used == 0.2 && sum.capacity == 300);
	assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ 1, 0, 0, true, 250, 100 }), 0);
	sgl_loads_sum(&l, &sum);
	assert_true(sum.running == 1 && sum.waiting == 0 && sum.kv_used == 280.0 / 300);
	assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ 0, 1, 0, false, 0, 0 }), 0);
	sgl_loads_sum(&l, &sum);
	assert_true(sum.running == 1 && sum.kv_used < 0 && sum.capacity == 0);
	for (uint32_t i = 2; i < SGL_LOAD_RANKS_MAX; i++)
		assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ i, 1, 1, false, 0, 0 }), 0);
	assert_int_equal(
	    sgl_loads_put(&l, &(struct sgl_rank_load){ 1000, 1, 1, false, 0, 0 }), -SGL_LOAD_E_RANKS);
	assert_int_equal(sgl_loads_put(&l, &(struct sgl_rank_load){ 7, 9, 9, false, 0, 0 }), 0);
	sgl_loads_sum(&l, &sum);
	assert_true(sum.running == 1 + 61 + 9);
}

/* ---- /v1/loads ---- */

#define RANK(rank, run, wait, used, max) \
	"{\"dp_rank\":" rank ",\"num_running_reqs\":" run ",\"num_waiting_reqs\":" wait \
	",\"num_waiting_uncached_tokens\":4096,\"num_used_tokens\":" used \
	",\"max_total_num_tokens\":" max \
	",\"token_usage\":0.0124,\"lora\":{\"slots_used\":1},\"x\":[1,{\"num_running_reqs\":9}]}"
#define LOADS(list) \
	"{\"timestamp\":\"2026-09-01T00:00:00+00:00\",\"version\":\"0.5.18\",\"loads\":[" \
	list "],\"num_accelerators\":1}"

static const struct {
	const char *name, *body;
	int rc;
	struct engine_load want;
} answers[] = {
	{ "one rank", LOADS(RANK("0", "5", "2", "812", "65536")), 0, { 2, 5, 812.0 / 65536, 65536 } },
	{ "two ranks", LOADS(RANK("0", "5", "2", "100", "400") "," RANK("1", "1", "0", "100", "600")), 0,
	  { 2, 6, 0.2, 1000 } },
	{ "without tokens", "{\"loads\":[{\"num_running_reqs\":1,\"num_waiting_reqs\":0}]}", 0,
	  { 0, 1, -1, 0 } },
	{ "ranks without numbers", "{\"loads\":[{\"num_running_reqs\":1,\"num_waiting_reqs\":0},"
	    "{\"num_running_reqs\":3,\"num_waiting_reqs\":1}]}", 0, { 1, 4, -1, 0 } },
	{ "no rank", LOADS(""), -SGL_LOAD_E_OTHER, { 0 } },
	{ "an old form", "[{\"dp_rank\":0,\"num_reqs\":1,\"num_waiting_reqs\":0}]", -SGL_LOAD_E_OTHER,
	  { 0 } },
	{ "another answer", "{\"detail\":\"Not Found\"}", -SGL_LOAD_E_OTHER, { 0 } },
	{ "not a list", "{\"loads\":{\"num_running_reqs\":1,\"num_waiting_reqs\":0}}", -SGL_LOAD_E_OTHER,
	  { 0 } },
	{ "a field is missing", "{\"loads\":[{\"num_running_reqs\":1}]}", -SGL_LOAD_E_FIELD, { 0 } },
	{ "a negative count", LOADS(RANK("0", "-5", "2", "1", "2")), -SGL_LOAD_E_FIELD, { 0 } },
	{ "cut", "{\"loads\":[{\"num_running_reqs\":1,\"num_waiting_reqs\":0}", -SGL_LOAD_E_FORM, { 0 } },
	{ "metrics", "# TYPE sglang:num_running_reqs gauge\n", -SGL_LOAD_E_FORM, { 0 } },
	{ "nothing", "", -SGL_LOAD_E_FORM, { 0 } },
};

static int feed(const char *body, size_t step, struct engine_load *out)
{
	static struct sgl_loads_answer a;
	size_t n = strlen(body);

	sgl_loads_answer_init(&a);
	for (size_t i = 0; i < n; i += step)
		sgl_loads_answer_feed(&a, body + i, n - i < step ? n - i : step);
	return sgl_loads_answer_end(&a, out);
}

static void each_answer_in_any_pieces(void **state)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		for (size_t step = 1; step < 80; step += 13) {
			struct engine_load got;
			int rc = feed(answers[i].body, step, &got);
			const struct engine_load *w = &answers[i].want;

			if (rc != answers[i].rc || (rc == 0 && (got.waiting != w->waiting ||
			    got.running != w->running || got.kv_used != w->kv_used ||
			    got.capacity != w->capacity)))
				fail_msg("%s: %d (%s)", answers[i].name, rc, sgl_load_strerror(rc));
		}
	}
}

static void an_answer_is_bounded(void **state)
{
	static struct sgl_loads_answer a;
	static char blanks[4096];
	struct engine_load out;
	char one[80];

	memset(blanks, ' ', sizeof(blanks));
	sgl_loads_answer_init(&a);
	for (size_t i = 0; i < SGL_LOAD_ANSWER_MAX / sizeof(blanks); i++)
		assert_int_equal(sgl_loads_answer_feed(&a, blanks, sizeof(blanks)), 0);
	assert_int_equal(sgl_loads_answer_feed(&a, blanks, 1), -SGL_LOAD_E_FORM);
	assert_int_equal(sgl_loads_answer_end(&a, &out), -SGL_LOAD_E_FORM);

	sgl_loads_answer_init(&a);
	sgl_loads_answer_feed(&a, "{\"loads\":[", 10);
	for (unsigned i = 0; i <= SGL_LOAD_RANKS_MAX; i++) {
		int n = snprintf(one, sizeof(one), "%s{\"num_running_reqs\":1,\"num_waiting_reqs\":1}",
		    i > 0 ? "," : "");

		assert_int_equal(sgl_loads_answer_feed(&a, one, (size_t)n),
		    i < SGL_LOAD_RANKS_MAX ? 0 : -SGL_LOAD_E_RANKS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message),
		cmocka_unit_test(no_beginning_is_a_message),
		cmocka_unit_test(ranks_are_summed),
		cmocka_unit_test(each_answer_in_any_pieces),
		cmocka_unit_test(an_answer_is_bounded),
	};

	return cmocka_run_group_tests_name("feed sgl_load", tests, NULL, NULL);
}
