/* num.h - numbers: a bound, hexadecimal digits, and decimal numbers in text that is not
 * NUL-terminated. */
#ifndef KVROUTE_BASE_NUM_H
#define KVROUTE_BASE_NUM_H

#include "agent/base/types.h"

/* Return <n>, or <most> if that is less. */
static inline uint64_t at_most(uint64_t n, uint64_t most)
{
	return n < most ? n : most;
}

/* Return the value of a hexadecimal digit, or -1. */
static inline int num_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#define NUM_DIGITS_MAX	18	/* always fits 63 bits */

/* Parse all of <s>: an optional sign, then 1 to NUM_DIGITS_MAX digits. Returns false, without
 * changing <v>, if <s> is anything else. */
static inline bool num_parse(struct span s, int64_t *v)
{
	int64_t n = 0;
	size_t i = 0;
	bool neg = false;

	if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		neg = s.p[i++] == '-';
	if (i == s.n || s.n - i > NUM_DIGITS_MAX)
		return false;
	for (; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		n = n * 10 + (s.p[i] - '0');
	}
	*v = neg ? -n : n;
	return true;
}

#endif
