/* histogram.h - counts of values in buckets, each with the request that gave its last value.
 *
 *      bounds    0.1   0.2   0.5            n bounds, n + 1 buckets: the last has no bound
 *      bucket  7  |  3  |  0  |  1
 *      who     41 | 17  |  0  | 22          a request of each, 0: none; for exemplars
 *
 * One thread writes, or several under a lock; any thread may read meanwhile. Then the counts are of
 * slightly different moments, but a request always comes with its own value. An addition takes some
 * nanoseconds and no locked instruction. */
#ifndef KVROUTE_BASE_HISTOGRAM_H
#define KVROUTE_BASE_HISTOGRAM_H

#include "agent/base/count.h"

#define HISTOGRAM_BUCKETS	16

struct histogram {
	uint64_t bucket[HISTOGRAM_BUCKETS], sum;
	uint64_t who[HISTOGRAM_BUCKETS], value[HISTOGRAM_BUCKETS];
};

/* Add <v>, which <who> gave; 0: no one to name. <bounds>: HISTOGRAM_BUCKETS - 1, rising; a value
 * that equals a bound is below it. <who> is cleared while its value changes, so that a reader which
 * sees the same one before and after has its value. */
static inline void histogram_add(
    struct histogram *h, const uint32_t *bounds, uint64_t v, uint64_t who)
{
	unsigned b = 0;

	while (b + 1 < HISTOGRAM_BUCKETS && v > bounds[b])
		b++;
	count_add(&h->bucket[b], 1);
	count_add(&h->sum, v);
	if (who == 0)
		return;
	__atomic_store_n(&h->who[b], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->value[b], v, __ATOMIC_RELEASE);
	__atomic_store_n(&h->who[b], who, __ATOMIC_RELEASE);
}

/* Add the counts of <from>, and take its requests with higher numbers. <to> is the caller's own. */
static inline void histogram_merge(struct histogram *to, const struct histogram *from)
{
	to->sum += count_read(&from->sum);
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
		uint64_t who = __atomic_load_n(&from->who[b], __ATOMIC_ACQUIRE);
		uint64_t value = __atomic_load_n(&from->value[b], __ATOMIC_ACQUIRE);

		to->bucket[b] += count_read(&from->bucket[b]);
		if (who <= to->who[b] || who != __atomic_load_n(&from->who[b], __ATOMIC_RELAXED))
			continue;
		to->who[b] = who;
		to->value[b] = value;
	}
}

#endif
