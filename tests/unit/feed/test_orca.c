/* test_orca.c - load reports of response headers: each form that engines use, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/feed/orca.h"
#include "tests/unit/edge.h"

#define UNTOLD	-1, -1, -1, 0
#define LONG	"1234567890123456789012345678901234567890"

static const struct {
	const char *name, *header;
	int rc;
	struct engine_load want;
} cases[] = {
	{ "vLLM, text",
	  "TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=2.0",
	  0, { 2, -1, 0.4, 0 } },
	{ "without its format",
	  "named_metrics.kv_cache_usage_perc=0.4,named_metrics.num_requests_waiting=2",
	  0, { 2, -1, 0.4, 0 } },
	{ "vLLM, JSON",
	  "JSON {\"named_metrics\": {\"kv_cache_usage_perc\": 0.4, \"num_requests_waiting\": 2.0}}", 0,
	  { 2, -1, 0.4, 0 } },
	{ "JSON without its format",
	  "{\"named_metrics\":{\"kv_cache_usage_perc\":0.4,\"num_requests_waiting\":2}}", 0,
	  { 2, -1, 0.4, 0 } },
	{ "the format in small letters", "text named_metrics.num_requests_waiting=7", 0,
	  { 7, -1, -1, 0 } },
	{ "Envoy's colon", "named_metrics.num_requests_waiting:7,cpu_utilization:0.7", 0,
	  { 7, -1, -1, 0 } },
	{ "Triton", "named_metrics.kv_cache_utilization=0.25,named_metrics.max_token_capacity=4096", 0,
	  { -1, -1, 0.25, 4096 } },
	{ "running", "named_metrics.num_requests_running=12", 0, { -1, 12, -1, 0 } },
	{ "at the top level", "kv_cache_usage_perc=1", 0, { -1, -1, 1, 0 } },
	{ "0 is told", "kv_cache_usage_perc=0,num_requests_waiting=0", 0, { 0, -1, 0, 0 } },
	{ "an exponent", "kv_cache_usage_perc=2.5e-05", 0, { -1, -1, 2.5e-05, 0 } },
	{ "more than all of the cache", "kv_cache_usage_perc=1.7", 0, { -1, -1, 1, 0 } },
	{ "spaces anywhere", " TEXT  named_metrics.num_requests_waiting = 3 ,\tx = 1 ", 0,
	  { 3, -1, -1, 0 } },
	{ "the last of two counts", "num_requests_waiting=1,num_requests_waiting=2", 0, { 2, -1, -1, 0 } },
	{ "unknown metrics of any kind", "a=b,named_metrics.c=" LONG ",num_requests_waiting=1", 0,
	  { 1, -1, -1, 0 } },
	{ "JSON, unknown members",
	  "{\"cpu_utilization\":0.5,\"x\":[{\"num_requests_waiting\":9}],\"named_metrics\":{\"y\":\"z\","
	  "\"num_requests_waiting\":4,\"w\":{\"num_requests_waiting\":9}}}", 0, { 4, -1, -1, 0 } },
	{ "JSON, elsewhere", "{\"request_cost\":{\"num_requests_waiting\":4}}", -ORCA_E_NOTHING,
	  { UNTOLD } },
	{ "the largest count", "num_requests_waiting=1000000000000", 0, { 1000000000000, -1, -1, 0 } },
	{ "a larger one", "num_requests_waiting=1000000000001", -ORCA_E_NUMBER, { UNTOLD } },
	{ "a negative one", "num_requests_waiting=-1", -ORCA_E_NUMBER, { UNTOLD } },
	{ "no number", "num_requests_waiting=many", -ORCA_E_NUMBER, { UNTOLD } },
	{ "not a number", "kv_cache_usage_perc=nan", -ORCA_E_NUMBER, { UNTOLD } },
	{ "infinite", "kv_cache_usage_perc=1e999", -ORCA_E_NUMBER, { UNTOLD } },
	{ "hexadecimal", "kv_cache_usage_perc=0x1p-1", -ORCA_E_NUMBER, { UNTOLD } },
	{ "two numbers", "kv_cache_usage_perc=0.1 0.2", -ORCA_E_NUMBER, { UNTOLD } },
	{ "digits for ever", "kv_cache_usage_perc=0." LONG LONG, -ORCA_E_NUMBER, { UNTOLD } },
	{ "an empty number", "kv_cache_usage_perc=", -ORCA_E_NUMBER, { UNTOLD } },
	{ "JSON, text for a number", "{\"named_metrics\":{\"num_requests_waiting\":\"2\"}}",
	  -ORCA_E_NUMBER, { UNTOLD } },
	{ "JSON, a list for a number", "{\"named_metrics\":{\"num_requests_waiting\":[2]}}",
	  -ORCA_E_NUMBER, { UNTOLD } },
	{ "JSON, a number below 0", "{\"named_metrics\":{\"kv_cache_usage_perc\":-0.1}}",
	  -ORCA_E_NUMBER, { UNTOLD } },
	{ "nothing known", "TEXT cpu_utilization=0.3", -ORCA_E_NOTHING, { UNTOLD } },
	{ "nothing", "", -ORCA_E_FORM, { UNTOLD } },
	{ "the format alone", "TEXT ", -ORCA_E_FORM, { UNTOLD } },
	{ "binary", "BIN CZqZmZmZmbk/MQAAAAAAAABAQg4KA2ZvbxGamZmZmZm5Pw", -ORCA_E_FORM, { UNTOLD } },
	{ "cut in a name", "num_requests_waiting=2, named_metrics.kv_cache_us", -ORCA_E_FORM, { UNTOLD } },
	{ "cut after a comma", "num_requests_waiting=2,", -ORCA_E_FORM, { UNTOLD } },
	{ "JSON, cut", "{\"named_metrics\":{\"num_requests_waiting\":2", -ORCA_E_FORM, { UNTOLD } },
	{ "JSON, and more", "{\"named_metrics\":{\"num_requests_waiting\":2}} x", -ORCA_E_FORM,
	  { UNTOLD } },
	{ "JSON, nested for ever", "{\"a\":[[[[[[[[[[[[", -ORCA_E_FORM, { UNTOLD } },
};

static bool same_load(const struct engine_load *a, const struct engine_load *b)
{
	return a->waiting == b->waiting && a->running == b->running && a->kv_used == b->kv_used &&
	       a->capacity == b->capacity;
}

static void headers(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].header);
		uint8_t *edge = edge_copy(cases[i].header, n);
		struct engine_load got;
		int rc = orca_parse(span_of((char *)edge, n), &got);

		if (rc != cases[i].rc || (rc == 0 && !same_load(&got, &cases[i].want)))
			fail_msg("%s: %d (%s), waiting %lld running %lld used %g capacity %llu", cases[i].name,
			    rc, orca_strerror(rc), (long long)got.waiting, (long long)got.running,
			    got.kv_used, (unsigned long long)got.capacity);
		edge_free(edge, n);
	}
}

/* A prefix is an error, or a report whose last number may be cut. */
static void beginnings(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t n = 0; n < strlen(cases[i].header); n++) {
			uint8_t *edge = edge_copy(cases[i].header, n);
			struct engine_load got;

			if (orca_parse(span_of((char *)edge, n), &got) == 0)
				assert_true(engine_load_told(&got) && got.kv_used <= 1);
			edge_free(edge, n);
		}
	}
}

static void a_long_header_is_refused(void **state)
{
	static char text[ORCA_MAX + 1];
	struct engine_load got;

	memset(text, ' ', sizeof(text));
	memcpy(text, "num_requests_waiting=2", 22);
	assert_int_equal(orca_parse(span_of(text, ORCA_MAX), &got), 0);
	assert_int_equal(orca_parse(span_of(text, ORCA_MAX + 1), &got), -ORCA_E_FORM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers),
		cmocka_unit_test(beginnings),
		cmocka_unit_test(a_long_header_is_refused),
	};

	return cmocka_run_group_tests_name("feed orca", tests, NULL, NULL);
}
