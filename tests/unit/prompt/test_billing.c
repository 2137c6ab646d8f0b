/* test_billing.c - the search for a text that is left out finds what memmem() finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/billing.h"
#include "agent/prompt/body_in.h"
#include "tests/unit/edge.h"

#define MOST	300u

static void agree(const char *text, size_t n)
{
	const char *p = (const char *)edge_copy(text, n);

	assert_ptr_equal(billing_find(span_of(p, n)),
	    n > 0 ? memmem(p, n, BILLING_BEGIN, BILLING_BEGIN_N) : NULL);
	edge_free((const uint8_t *)p, n);
}

/* At each place of texts of all lengths, whole or cut by their end. */
static void it_is_found_at_each_place(void **state)
{
	char text[MOST];

	(void)state;
	for (size_t n = 0; n <= MOST; n += n < 100 ? 1 : 9)
		for (size_t at = 0; at < n; at += n < 100 ? 7 : 1) {
			size_t left = n - at;

			memset(text, '.', sizeof(text));
			memcpy(text + at, BILLING_BEGIN, left < BILLING_BEGIN_N ? left : BILLING_BEGIN_N);
			agree(text, n);
		}
}

/* Texts that nearly are it: runs of its beginnings. */
static void others_are_passed_over(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		char text[MOST];
		size_t n = 0;

		while (n < MOST - BILLING_BEGIN_N && rand_r(&seed) % 32 != 0) {
			size_t part = 1 + (unsigned)rand_r(&seed) % BILLING_BEGIN_N;

			memcpy(text + n, BILLING_BEGIN, part);
			n += part;
		}
		agree(text, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_found_at_each_place),
		cmocka_unit_test(others_are_passed_over),
	};

	return cmocka_run_group_tests_name("prompt billing", tests, NULL, NULL);
}
