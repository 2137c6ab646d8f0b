/* test_response_id.c - the id of a response in the first bytes of its answer: of each form, cut at
 * every byte, and in what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/feed/response_id.h"
#include "tests/unit/edge.h"

#define X16	"xxxxxxxxxxxxxxxx"
#define X128	X16 X16 X16 X16 X16 X16 X16 X16

static const struct {
	const char *head, *id;		/* "": none */
} cases[] = {
	{ "{\"id\":\"resp_1\",\"object\":\"response\"", "resp_1" },
	{ " {\n  \"object\" : \"response\",\n  \"id\" : \"resp-2.a:b\" }", "resp-2.a:b" },
	{ "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
	  "\"response\":{\"id\":\"resp_3\",\"object\"", "resp_3" },
	{ "data: {\"response\":{\"error\":{\"id\":\"no\"},\"id\":\"resp_4\"}}", "resp_4" },
	{ "{\"output\":[{\"id\":\"msg\"}],\"response\":{},\"x\":{\"id\":\"no\"},\"id\":\"r\"}", "r" },
	{ "{\"text\":\"\\\"id\\\":\\\"no\\\" \\\\\",\"id\":\"r\"}", "r" },
	{ "{\"x\":\"id\",\"id\":\"" X128 "\"}", X128 },
	{ "{\"id\":\"" X128 "x\"}", "" },
	{ "{\"id\":\"a b\"}", "" },
	{ "{\"id\":\"a\\nb\"}", "" },
	{ "{\"id\":\"\"}", "" },
	{ "{\"id\":5,\"x\":{\"id\":\"no\"}}", "" },
	{ "{\"x\":1}{\"id\":\"no\"}", "" },
	{ "{\"x\":{\"response\":{\"id\":\"no\"}}}", "" },
	{ "{\"id\"", "" },
	{ "{\"id\":", "" },
	{ "data: [DONE]", "" },
	{ "", "" },
};

static void of_each_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].head);

		for (size_t k = 0; k <= n; k++) {
			uint8_t *copy = edge_copy(cases[i].head, k);
			struct span id = response_id(span_of(copy, k));

			if (id.n > 0 || k == n) {	/* a cut head has the same one, or none */
				if (!span_eq(id, span_str(cases[i].id)))
					fail_msg("%s: " SPAN_FMT, cases[i].head, SPAN_ARG(id));
			}
			edge_free(copy, k);
		}
	}
}

static void only_good_ones_pass(void **state)
{
	(void)state;
	assert_int_equal(response_id_checked(SPAN("resp_1")).n, 6);
	assert_int_equal(response_id_checked(SPAN("")).n, 0);
	assert_int_equal(response_id_checked(SPAN("a\"b")).n, 0);
	assert_int_equal(response_id_checked(SPAN(X128 "x")).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_each_form),
		cmocka_unit_test(only_good_ones_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
