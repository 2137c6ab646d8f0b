/* measure.h - ticks, the least of several passes for each operation, and summaries. */
#ifndef TESTS_BENCH_INDEX_MEASURE_H
#define TESTS_BENCH_INDEX_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

/* Read the tick counter after everything before is done, and before anything after begins. */
static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	uint64_t t;

	_mm_lfence();
	t = __rdtsc();
	_mm_lfence();
	return t;
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

/* Make the compiler compute <v>. */
static inline void measure_keep(uint64_t v)
{
	__asm__ volatile("" : : "r"(v) : "memory");
}

/* Sum <n> words as fast as the compiler can. */
uint64_t measure_read(const uint64_t *p, size_t n);

/* Nanoseconds of a tick, and the distance of two readings: part of every figure. */
struct clock_facts {
	double ns, own_ns;
};

void measure_clock(struct clock_facts *c);
double measure_thread_cpu_ns(void);
void *measure_must(void *p);		/* ends the program when there is no memory */

/* The least number of ticks of each operation over all passes. */
struct series {
	uint32_t *least;
	size_t n;
};

void series_init(struct series *s, size_t n);
void series_fini(struct series *s);

static inline void series_put(struct series *s, size_t i, uint64_t t)
{
	uint32_t v = t < UINT32_MAX ? (uint32_t)t : UINT32_MAX;

	if (v < s->least[i])
		s->least[i] = v;
}

struct summary {
	double mean, p50, p99, most;	/* ns */
};

/* Sorts a copy. */
struct summary series_sum(const struct series *s, double ns_per_tick);

#endif
