/* Each allocation of building, sharing and using an encoder fails once, in turn: nothing leaks, and
 * ids written before the failure stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fault.h"
#include "tests/unit/tok/bpe_truth.h"

static uint8_t text[5000];
static const uint32_t ends[] = { 3, 9, 200, 5000 };

static void make_vocab(struct vocab *v, struct rng *r)
{
	static const char *const letters[] = { "a", "b", "c" };
	size_t i;

	vocab_init(v);
	vocab_bytes(v, 0);
	vocab_random(v, r, letters, 3, 60);
	for (i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)letters[rng_below(r, 3)][0];
}

/* Encode after an id that must stay. Returns 0, or -1 if an allocation failed. */
static int encode(const struct bpe *b, struct bpe_scratch *c)
{
	struct ids out = { 0 };
	int rc;

	if (ids_reserve(&out, 1) < 0)
		return -1;
	out.p[out.n++] = 12345;
	rc = bpe_encode(b, c, text, ends, 4, &out);
	if (rc < 0)
		assert_int_equal(out.n, 1);
	else
		assert_true(out.n > 4);
	assert_int_equal(out.p[0], 12345);
	ids_free(&out);
	return rc;
}

static int story(const struct vocab *v)
{
	struct bpe_scratch *c = bpe_scratch_new();
	struct bpe *b = bpe_new(&v->spec, NULL);
	struct bpe *lent = b ? bpe_of_image(bpe_image(b)) : NULL;
	int rc = -1;

	if (c != NULL && b != NULL && lent != NULL && encode(b, c) == 0)
		rc = encode(lent, c);
	bpe_free(lent);
	bpe_free(b);
	bpe_scratch_free(c);
	return rc;
}

static void every_allocation_fails(void **state)
{
	unsigned long k;
	struct vocab v;
	struct rng r;

	rng_init(&r, 7);
	make_vocab(&v, &r);
	for (k = 1; ; k++) {
		int rc;

		fault_begin(k);
		rc = story(&v);
		if (!fault_end()) {
			assert_int_equal(rc, 0);
			break;
		}
		assert_int_equal(rc, -1);
	}
	assert_true(k > 10);
	vocab_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
