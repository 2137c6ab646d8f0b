/* method_in.h - private to method.c and method_split.c. */
#ifndef KVROUTE_JINJA_METHOD_IN_H
#define KVROUTE_JINJA_METHOD_IN_H

#include "agent/jinja/run_in.h"

typedef bool method(struct run *r, struct jval self, const struct args *a, struct jval *out);

method jx_m_strip, jx_m_lstrip, jx_m_rstrip, jx_m_removeprefix, jx_m_removesuffix, jx_m_split,
	jx_m_rsplit, jx_m_partition, jx_m_rpartition, jx_m_join, jx_m_splitlines;

static inline struct jval part_of(struct jval s, const char *p, const char *end)
{
	struct jval v = jval_str(p, (size_t)(end - p));

	v.flags = s.flags & (JV_ASCII | JV_MARKUP);
	return v;
}

static inline bool want_args(struct run *r, const char *what, const struct args *a, unsigned least,
			     unsigned most)
{
	if (a->n_kw > 0)
		return jx_raise(r, "TypeError: %s takes no keyword arguments", what);
	if (a->n < least || a->n > most)
		return jx_raise(r, "TypeError: %s expected %u to %u arguments, got %u", what, least, most, a->n);
	return true;
}

static inline bool want_str(struct run *r, const char *what, struct jval v)
{
	return v.kind == JV_STR ||
	       jx_raise(r, "TypeError: %s must be str, not %s", what, jval_type(v.kind));
}

static inline unsigned char_len(const char *p, const char *end)
{
	return (unsigned)(jx_chars_on(p, end, 1) - p);
}

/* Set <at> to the last <x> in <p>..<end>, or to NULL. Returns false if there is no memory. */
static inline bool find_last(struct run *r, const char *p, const char *end, struct jval x,
			     const char **at)
{
	return jinja_find_last(r->m, span_of(p, (size_t)(end - p)), jval_span(x), at) || jx_no_room(r);
}

#endif
