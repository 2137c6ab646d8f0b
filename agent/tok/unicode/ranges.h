/* ranges.h - tables of ranges of characters, in order: for properties of few characters, and of
 * other versions of Unicode than the tables of unicode.h. ranges.py writes their rows. */
#ifndef KVROUTE_TOK_UNICODE_RANGES_H
#define KVROUTE_TOK_UNICODE_RANGES_H

#include "agent/base/types.h"

struct uc_range {
	uint32_t first;
	uint32_t last : 24, kind : 8;	/* <kind>: what the table says of them; 0 if it has one kind */
};

/* Return the range that has <cp>, or NULL. <n> is the number of ranges. O(log n). */
static inline const struct uc_range *uc_range_of(const struct uc_range *r, size_t n, uint32_t cp)
{
	size_t low = 0, high = n;

	while (low < high) {		/* the first range that does not end before <cp> */
		size_t middle = low + (high - low) / 2;

		if (r[middle].last < cp)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && r[low].first <= cp ? &r[low] : NULL;
}

#endif
