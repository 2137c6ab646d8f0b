/* bench_histogram.c - what a value costs that is added to a histogram: a spread of values, so that
 * no branch is always the same, with and without the number of a decision. */
#include <stdbool.h>
#include <stdio.h>

#include "agent/base/histogram.h"
#include "tests/lib/bench.h"
#include "agent/base/rng.h"

#define ROUNDS	20000000u

static const uint32_t bounds[HISTOGRAM_BUCKETS - 1] = {
	5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 20000,
};

static double each_ns(struct histogram *h, const uint32_t values[1024], bool numbered)
{
	double start = now_ns();

	for (uint64_t i = 0; i < ROUNDS; i++)
		histogram_add(h, bounds, values[i % 1024], numbered ? i + 1 : 0);
	return (now_ns() - start) / ROUNDS;
}

int main(void)
{
	static uint32_t values[1024];
	struct histogram h = { .sum = 0 };
	struct rng rng;
	double plain, numbered;

	rng_init(&rng, 1);
	for (int i = 0; i < 1024; i++)
		values[i] = (uint32_t)rng_below(&rng, 400);
	plain = each_ns(&h, values, false);
	numbered = each_ns(&h, values, true);
	printf("bench histogram add_ns=%.1f add_with_decision_ns=%.1f sum=%llu\n", plain, numbered,
	    (unsigned long long)h.sum);
	return 0;
}
