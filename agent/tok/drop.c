/* drop.c - remove bytes that the vocabulary lacks. Such texts are rare, so they are copied. */
#include "agent/tok/drop.h"

static inline bool is_dropped(const uint8_t dropped[32], uint8_t b)
{
	return dropped[b / 8] >> b % 8 & 1;
}

static bool has_dropped(const uint8_t dropped[32], const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_dropped(dropped, p[i]))
			return true;
	return false;
}

int drop_bytes(const uint8_t dropped[32], struct buf *kept, const uint8_t **text, uint32_t *end,
    size_t *n)
{
	const uint8_t *p = *text;
	uint32_t m = 0, i = 0, last = 0;
	size_t left = 0;
	uint8_t *to;

	if (*n == 0 || !has_dropped(dropped, p, end[*n - 1]))
		return 0;
	buf_start(kept, 0);
	if (!buf_room(kept, end[*n - 1]))
		return -1;
	to = (uint8_t *)kept->p;
	for (size_t k = 0; k < *n; k++) {
		for (; i < end[k]; i++) {
			if (!is_dropped(dropped, p[i]))
				to[m++] = p[i];
		}
		if (m > last)
			end[left++] = last = m;
	}
	buf_wrote(kept, m);
	*text = to;
	*n = left;
	return 0;
}
