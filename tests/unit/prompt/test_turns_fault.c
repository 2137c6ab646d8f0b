/* test_turns_fault.c - each allocation fails once, in turn: less may then be remembered, but bodies
 * mean the same, and nothing leaks or is counted twice. */
#include "agent/prompt/turns.h"
#include "tests/unit/fault.h"
#include "tests/unit/prompt/bodies.h"

static char text[60000];

static size_t write_body(unsigned messages)
{
	size_t n = (size_t)sprintf(text, "{\"model\":\"m\",\"system\":\"s\",\"messages\":[");

	for (unsigned i = 0; i < messages; i++)
		n += (size_t)sprintf(
		    text + n, "%s{\"role\":\"user\",\"content\":\"%0900u\"}", i > 0 ? "," : "", i);
	return n + (size_t)sprintf(text + n, "]}");
}

static void feed(struct body *b, struct turns *t, size_t n)
{
	size_t at;

	body_reset(b, API_CHAT);
	at = body_recall(b, t, 1, text, n);
	body_feed(b, text + at, n - at);
	body_remember(b, n, true);
}

/* The same in slices; every other one is looked at. */
static void feed_slices(struct body *b, struct turns *t, size_t n)
{
	size_t from = 0, end = 0;

	body_reset(b, API_CHAT);
	body_slices_start(b, t, 1);
	for (unsigned i = 0; end < n; i++) {
		struct span held;
		uint64_t at;

		end = end + 10000 < n ? end + 10000 : n;
		held = span_of(text + from, end - from);
		body_slice(b, held, from);
		if (end == n || i % 2 == 0 || !body_slice_known(b)) {
			at = body_slice_ready(b, held, from);
			body_slice_read(b, text + at, end - (size_t)at);
		}
		from = (size_t)body_slice_needs(b, held, from);
	}
	body_slices_remember(b, true);
}

static void story(const struct page_vec *right)
{
	const struct turns_opts o = {
		.max_bytes = 1 << 20, .floor_bytes = 1000, .least_bytes = 4096, .chunk_bytes = 8192
	};
	struct turns *t = turns_new(&o, &key);
	struct body *b = body_new(&opts, &key);
	struct turns_stats s;

	for (unsigned i = 0; t != NULL && b != NULL && i < 8; i++) {
		if (i % 2 == 0)
			feed(b, t, write_body(9 + 4 * i));
		else
			feed_slices(b, t, write_body(9 + 4 * i));
		if (!body_prompt(b)->truncated)
			assert_true(vec_eq(&body_prompt(b)->messages, &right[i]));
	}
	if (t != NULL) {
		turns_clear(t);
		turns_stats(t, &s);
		assert_int_equal(s.points, 0);
	}
	body_free(b);
	turns_free(t);
}

static void each_allocation_may_fail(void **state)
{
	struct page_vec right[8] = { { NULL, 0, 0 } };
	struct body *b = body_make();
	unsigned long k;

	for (unsigned i = 0; i < 8; i++) {
		feed(b, NULL, write_body(9 + 4 * i));
		page_vec_append(&right[i], body_prompt(b)->messages.p, body_prompt(b)->messages.n);
	}
	for (k = 1;; k++) {
		fault_begin(k);
		story(right);
		if (!fault_end())
			break;
	}
	assert_true(k > 20);
	for (unsigned i = 0; i < 8; i++)
		page_vec_free(&right[i]);
	body_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_allocation_may_fail) };

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
