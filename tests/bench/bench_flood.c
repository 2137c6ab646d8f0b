/* bench_flood.c - compare crafted messages with random ones: hashing them with the key, and storing
 * and finding them in the index. Passes of both alternate and the fastest of each counts, so that
 * other load affects both. Lines: bench flood set=NAME hash_ratio=R index_ratio=R, where random
 * throughput is 1. */

#include "agent/index/index.h"
#include "tests/lib/bench.h"
#include "tests/unit/flood.h"

#define PASSES	60

struct messages {
	uint8_t m[FLOOD_N][FLOOD_MAX];
	size_t n;
	page_key page[FLOOD_N];
};

static void make(struct messages *s, enum flood_set set, const struct hash_key *k, size_t n)
{
	for (unsigned i = 0; i < FLOOD_N; i++) {
		size_t own = flood_message(set, i, s->m[i]);

		/* random ones have the length of the crafted ones */
		for (; own < n; own += 64)
			memcpy(s->m[i] + own, s->m[i], n - own < 64 ? n - own : 64);
		s->n = own;
		s->page[i] = hash64(k, s->m[i], own);
	}
}

static double hash_pass(const struct messages *s, const struct hash_key *k, uint64_t *sum)
{
	double start = now_ns();

	for (unsigned i = 0; i < FLOOD_N; i++)	/* few at a time, so that memory is not measured */
		*sum += hash64(k, s->m[i % 32], s->n);
	return now_ns() - start;
}

static double index_pass(const struct messages *s)
{
	struct space_key sp = { .h = { 1, 2 } };
	struct index_match match;
	struct index_opts o;
	struct index *ix;
	double start, took;

	index_defaults(&o);
	o.max_bytes = 4u << 20;
	ix = index_new(&o);
	if (ix == NULL || index_match_init(&match) < 0)
		exit(1);
	start = now_ns();
	for (unsigned i = 0; i < FLOOD_N; i++)
		index_confirm(ix, index_commit(ix, &sp, &s->page[i], 1, NULL, 1, 0, 0), 0);
	for (unsigned i = 0; i < FLOOD_N; i++)
		index_match(ix, &sp, &s->page[i], 1, &match);
	took = now_ns() - start;
	index_match_fini(&match);
	index_free(ix);
	return took;
}

static void keep_least(double *best, double t)
{
	if (t < *best)
		*best = t;
}

int main(void)
{
	static struct messages crafted, random;
	struct hash_key k;
	struct rng rng;
	uint64_t sum = 0;

	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	for (enum flood_set set = 0; set < FLOOD_SETS; set++) {
		double hash[2] = { 1e18, 1e18 }, ix[2] = { 1e18, 1e18 };

		make(&crafted, set, &k, 0);
		make(&random, FLOOD_RANDOM, &k, crafted.n);
		for (int pass = 0; pass < PASSES; pass++) {
			keep_least(&hash[0], hash_pass(&crafted, &k, &sum));
			keep_least(&hash[1], hash_pass(&random, &k, &sum));
			keep_least(&ix[0], index_pass(&crafted));
			keep_least(&ix[1], index_pass(&random));
		}
		printf("bench flood set=%s bytes=%zu hash_ratio=%.2f index_ratio=%.2f index_ns=%.0f sum=%u\n",
		       flood_names[set], crafted.n, hash[1] / hash[0], ix[1] / ix[0], ix[0] / FLOOD_N,
		       (unsigned)sum & 1);
	}
	return 0;
}
