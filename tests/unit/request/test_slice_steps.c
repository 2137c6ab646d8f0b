/* test_slice_steps.c - reading a body is charged once, in however many slices it comes; and how
 * many steps a body of a size may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/request/request.h"

#define MESSAGES	200u

static const struct hash_key key = { { 7, 8, 9 } };

/* Return the steps charged for all of <body> in <slices> slices; each is charged. *may: what the
 * last one may take. */
static uint64_t steps_of(struct span body, unsigned slices, uint64_t *may)
{
	struct request_opts o = { .slices_max_bytes = 1 << 20 };
	struct request_scratch scratch;
	struct model_opts fallback;
	struct request_env env;
	struct request rq;
	uint64_t steps = 0;

	memset(&scratch, 0, sizeof(scratch));
	memset(&env, 0, sizeof(env));
	model_defaults(&fallback);
	prompt_defaults(&o.prompt);
	heads_defaults(&o.heads);
	turns_defaults(&o.turns);
	o.turns.max_bytes = 0;
	o.models.fallback = &fallback;
	assert_int_equal(request_env_init(&env, &o, &key), 0);
	assert_int_equal(request_scratch_init(&scratch, &o.prompt, &key), 0);
	for (unsigned i = 0; i < slices; i++) {
		size_t from = body.n / slices * i, to = i + 1 == slices ? body.n : body.n / slices * (i + 1);
		const struct request_message m = {
			.has_uid = true, .uid = 3, .pool = SPAN("pool"), .path = SPAN("/v1/chat/completions"),
			.body = span_of(body.p + from, to - from), .seq = i,
			.visible = (int64_t)body.n, .whole = (int64_t)body.n,
		};
		uint64_t had;

		request_start(&rq, &env, &scratch, &m, 1);
		assert_true(request_take_body(&rq, &m));
		assert_int_equal(rq.more, i + 1 < slices);
		*may = had = request_take_work(&rq, REQUEST_WORK_FULL);
		assert_false(work_spent(&rq.work));
		steps += request_pay_work(&rq, had);
		request_keep_body(&rq);
	}
	request_scratch_fini(&scratch);
	request_env_fini(&env);
	return steps;
}

static void a_body_is_read_and_paid_once(void **state)
{
	char *p = malloc(MESSAGES * 300 + 100);
	size_t n;
	uint64_t once, may;

	(void)state;
	assert_non_null(p);
	n = (size_t)sprintf(p, "{\"messages\":[");
	for (unsigned i = 0; i < MESSAGES; i++)
		n += (size_t)sprintf(p + n, "%s{\"role\":\"user\",\"content\":\"%0*u\"}", i > 0 ? "," : "",
		    (int)(i % 200) + 1, i);
	n += (size_t)sprintf(p + n, "]}");
	once = steps_of(span_of(p, n), 1, &may);
	assert_true(once > n / 100);
	for (unsigned slices = 2; slices <= 64; slices *= 2)
		assert_int_equal(steps_of(span_of(p, n), slices, &may), once);
	free(p);
}

/* Up to 2 KiB 28 steps a byte, up to 16 KiB no more than within a millisecond, then 6 a byte. */
static void a_body_of_a_size_may_take(void **state)
{
	static const struct { size_t n; uint64_t steps; } c[] = { { 100, 12800 }, { 2047, 67316 },
		{ 2048, 67344 }, { 4096, 67344 }, { 16384, 67344 }, { 17384, 73344 },
		{ 65536, REQUEST_WORK_FULL } };
	static const char begin[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
	static const char end[] = "\"}]}";
	static char p[65536];
	uint64_t may;

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		memset(p, 'a', c[i].n);
		memcpy(p, begin, sizeof(begin) - 1);
		memcpy(p + c[i].n - (sizeof(end) - 1), end, sizeof(end) - 1);
		steps_of(span_of(p, c[i].n), 1, &may);
		assert_int_equal(may, c[i].steps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_is_read_and_paid_once),
		cmocka_unit_test(a_body_of_a_size_may_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
