/* find.c - the last occurrence, in linear time; of the first one memmem() is as good.
 *
 * A short one is compared at each place from the end on. A long one may come from a client, who may send a text of one letter and half as
 * many of it to look for: beginning anew at each place would never end. So it is looked for as Knuth, Morris and Pratt do it,
 * backwards. memmem() again and again from behind each hit has the same trouble, as hits overlap. */
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

/* The <i>-th byte from the end. */
static inline char from_end(struct span s, size_t i)
{
	return s.p[s.n - 1 - i];
}

bool jinja_find_last(struct jinja_mem *m, struct span in, struct span what, const char **at)
{
	uint32_t *back, k = 0;	/* back[i]: of the last i bytes of <what>, how many at their front are also at their end */

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
