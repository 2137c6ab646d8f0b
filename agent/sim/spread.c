/* spread.c - mean and standard error in two passes, because the squares of large means lose the
 * digits that tell repeats apart. */
#include <math.h>
#include <string.h>

#include "agent/sim/spread.h"

static double value_at(const void *v, size_t i, size_t step)
{
	double x;

	memcpy(&x, (const char *)v + i * step, sizeof(x));
	return x;
}

struct spread spread_of(const void *v, size_t n, size_t step)
{
	struct spread s = { 0 };
	double squares = 0, x;

	for (size_t i = 0; i < n; i++) {
		x = value_at(v, i, step);
		s.mean += x / (double)n;
		if (i == 0 || x < s.min)
			s.min = x;
		if (i == 0 || x > s.max)
			s.max = x;
	}
	for (size_t i = 0; i < n; i++) {
		x = value_at(v, i, step) - s.mean;
		squares += x * x;
	}
	s.se = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0;
	return s;
}
