/* measure.c - compare the tick counter with the kernel's clock; order statistics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/index/measure.h"
#include "tests/lib/bench.h"

void measure_clock(struct clock_facts *c)
{
	double ns = now_ns(), least = 1e18, d;
	uint64_t t = ticks(), a;
	int i;

	while (now_ns() - ns < 100e6)
		;
	c->ns = (now_ns() - ns) / (double)(ticks() - t);
	for (i = 0; i < 10000; i++) {
		a = ticks();
		d = (double)(ticks() - a);
		least = d < least ? d : least;
	}
	c->own_ns = least * c->ns;
}

double measure_thread_cpu_ns(void)
{
	return cpu_ns();
}

void *measure_must(void *p)
{
	if (p != NULL)
		return p;
	fprintf(stderr, "bench_index: no memory\n");
	exit(1);
}

void series_init(struct series *s, size_t n)
{
	s->n = n;
	s->least = measure_must(malloc((n + 1) * sizeof(*s->least)));
	memset(s->least, 0xff, n * sizeof(*s->least));
}

void series_fini(struct series *s)
{
	free(s->least);
	s->least = NULL;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

struct summary series_sum(const struct series *s, double ns_per_tick)
{
	struct summary r = { 0 };
	uint32_t *v;
	size_t i;

	if (s->n == 0)
		return r;
	v = measure_must(malloc(s->n * sizeof(*v)));
	memcpy(v, s->least, s->n * sizeof(*v));
	qsort(v, s->n, sizeof(*v), by_value);
	for (i = 0; i < s->n; i++)
		r.mean += v[i];
	r.mean *= ns_per_tick / (double)s->n;
	r.p50 = v[s->n / 2] * ns_per_tick;
	r.p99 = v[s->n - 1 - s->n / 100] * ns_per_tick;
	r.most = v[s->n - 1] * ns_per_tick;
	free(v);
	return r;
}

uint64_t measure_read(const uint64_t *p, size_t n)
{
	uint64_t sum[8] = { 0 }, all = 0;
	size_t i, k;

	for (i = 0; i + 8 <= n; i += 8)
		for (k = 0; k < 8; k++)
			sum[k] ^= p[i + k];
	for (; i < n; i++)
		all ^= p[i];
	for (k = 0; k < 8; k++)
		all ^= sum[k];
	return all;
}
