/* test_slices.c - bodies that wait for more slices: the table alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/request/slices.h"

static struct hash_key test_key(void)
{
	struct hash_key k;
	struct rng rng;

	rng_init(&rng, 42);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)rng_next(&rng);
	return k;
}

static struct sliced *slice_of(const struct hash_key *k, uint64_t uid)
{
	struct prompt_opts o;
	struct sliced *s;

	prompt_defaults(&o);
	s = sliced_new(&o, k, SPAN("pool"), SPAN("tenant"), SPAN("model"));
	assert_non_null(s);
	s->uid = uid;
	return s;
}

static void slices_wait_and_are_taken(void **state)
{
	const struct hash_key k = test_key();
	struct sliced *s;
	struct slices t;
	bool waits;

	(void)state;
	slices_init(&t);
	assert_null(slices_take(&t, 1, 0, &waits));
	for (uint64_t i = 0; i < 600; i++)	/* several in each bucket */
		slices_put(&t, slice_of(&k, i), SIZE_MAX, 1000);
	assert_int_equal(t.n, 600);
	for (uint64_t i = 0; i < 600; i += 3) {
		s = slices_take(&t, i, 0, &waits);
		assert_int_equal(s->uid, i);
		assert_true(span_eq(s->pool, SPAN("pool")));
		assert_true(span_eq(s->tenant, SPAN("tenant")));
		assert_true(span_eq(s->model, SPAN("model")));
		sliced_free(s);
		assert_null(slices_take(&t, i, 0, &waits));
	}
	slices_restart(&t, 1);
	slices_restart(&t, 1);
	assert_int_equal(t.again, 1);
	assert_int_equal(t.n, 399);
	slices_put(&t, slice_of(&k, 2), SIZE_MAX, 2000);	/* the same uid: the later one stays */
	assert_int_equal(t.n, 399);
	s = slices_take(&t, 2, 0, &waits);
	assert_int_equal(s->since, 2000);
	sliced_free(s);
	slices_fini(&t);
}

static void slices_are_bounded_in_bytes(void **state)
{
	const struct hash_key k = test_key();
	struct slices t;
	bool waits;
	size_t one;

	(void)state;
	slices_init(&t);
	slices_put(&t, slice_of(&k, 0), SIZE_MAX, 1000);
	one = t.bytes;
	assert_true(one >= sizeof(struct sliced) + 100);
	for (uint64_t i = 1; i < 10; i++) {
		slices_put(&t, slice_of(&k, i), 3 * one + 1, 1000);
		assert_true(t.bytes <= 3 * one + 1);
	}
	assert_int_equal(t.n, 3);
	assert_int_equal(t.dropped, 7);
	for (uint64_t i = 0; i < 10; i++) {
		struct sliced *s = slices_take(&t, i, 0, &waits);

		assert_int_equal(s != NULL, i >= 7);	/* the oldest went */
		sliced_free(s);
	}
	assert_int_equal(t.bytes, 0);
	slices_put(&t, slice_of(&k, 10), one, 1000);
	assert_int_equal(t.n, 1);
	slices_put(&t, slice_of(&k, 11), one - 1, 1000);	/* too large alone: no budget is overdrawn */
	assert_int_equal(t.n, 0);
	assert_int_equal(t.bytes, 0);
	slices_fini(&t);
}

static void slices_are_bounded_in_age(void **state)
{
	const struct hash_key k = test_key();
	struct slices t;

	(void)state;
	slices_init(&t);
	for (uint64_t i = 0; i < 10; i++)
		slices_put(&t, slice_of(&k, i), SIZE_MAX, 1000 + (msec)i);
	slices_age(&t, 1000, 64);
	assert_int_equal(t.n, 10);
	slices_age(&t, 1003, 64);
	assert_int_equal(t.n, 7);
	slices_age(&t, 9999, 4);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.aged, 7);
	slices_fini(&t);
	assert_int_equal(t.bytes, 0);
}

static void names_too_long_for_a_slice(void **state)
{
	const struct hash_key k = test_key();
	char name[SLICE_NAMES_MAX + 1] = { 0 };
	struct prompt_opts o;
	struct sliced *s;

	(void)state;
	prompt_defaults(&o);
	s = sliced_new(&o, &k, span_of(name, SLICE_NAMES_MAX - 1), SPAN("x"), (struct span){ 0 });
	assert_non_null(s);
	sliced_free(s);
	assert_null(sliced_new(&o, &k, span_of(name, SLICE_NAMES_MAX - 1), SPAN("x"), SPAN("y")));
	assert_null(sliced_new(&o, &k, span_of(name, SLICE_NAMES_MAX + 1), SPAN(""), SPAN("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_wait_and_are_taken),
		cmocka_unit_test(slices_are_bounded_in_bytes),
		cmocka_unit_test(slices_are_bounded_in_age),
		cmocka_unit_test(names_too_long_for_a_slice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
