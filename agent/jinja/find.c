/* find.c - find the last occurrence of a text in linear time. memmem() finds the first one.
 *
 * A short needle is compared at each place from the end. A long needle may be chosen by a
 * client, for example half of a text of one letter, which makes that method quadratic. It is
 * searched backwards by the algorithm of Knuth, Morris and Pratt. Repeated memmem() would be
 * quadratic too, because hits overlap. */
#include "agent/jinja/value.h"

#define SHORT	64u

static const char *by_comparing(struct span in, struct span what)
{
	for (const char *p = in.p + (in.n - what.n); ; p--) {
		if (what.n == 0 || memcmp(p, what.p, what.n) == 0)
			return p;
		if (p == in.p)
			return NULL;
	}
}

/* Return the <i>-th byte from the end. */
static inline char from_end(struct span s, size_t i)
{
	return s.p[s.n - 1 - i];
}

bool jinja_find_last(struct jinja_mem *m, struct span in, struct span what, const char **at)
{
	uint32_t *back, k = 0;	/* back[i]: longest proper border of the last i bytes of <what> */

	*at = NULL;
	if (what.n > in.n || what.n > UINT32_MAX - 1)
		return true;
	if (what.n <= SHORT) {
		*at = by_comparing(in, what);
		return true;
	}
	if ((back = jinja_mem_take(m, (what.n + 1) * sizeof(*back))) == NULL)
		return false;
	back[0] = back[1] = 0;
	for (uint32_t i = 1; i < what.n; back[++i] = k) {
		while (k > 0 && from_end(what, k) != from_end(what, i))
			k = back[k];
		k += from_end(what, k) == from_end(what, i);
	}
	k = 0;
	for (size_t i = 0; i < in.n && k < what.n; i++) {
		while (k > 0 && from_end(what, k) != from_end(in, i))
			k = back[k];
		k += from_end(what, k) == from_end(in, i);
		*at = k == what.n ? in.p + (in.n - 1 - i) : NULL;
	}
	return true;
}
