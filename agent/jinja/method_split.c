/* Methods that split, strip and join strings. Parts point into the string they come from. */
#include "agent/jinja/method_in.h"

/* ---- strip ------------------------------------------------------------------------------- */

/* Tell if the character at <p> is in <set>, by a linear search. */
static bool char_in(struct run *r, const char *p, unsigned n, struct jval set)
{
	return jx_step_bytes(r, set.n) && memmem(set.s, set.n, p, n) != NULL;
}

static unsigned len_before(const char *begin, const char *end)
{
	return (unsigned)(end - jx_char_before(begin, end));
}

struct span jval_strip(struct span s, bool left, bool right)
{
	const char *p = s.p, *end = s.p + s.n;
	unsigned n;

	while (left && p < end && (n = jx_space_at(p, end)) > 0)
		p += n;
	while (right && p < end && (n = jx_space_before(p, end)) > 0)
		end -= n;
	return span_of(p, (size_t)(end - p));
}

bool jx_str_strip(struct run *r, struct jval s, struct jval chars, int sides, struct jval *out)
{
	const char *p = s.s, *end = s.s + s.n;
	unsigned n;

	if (chars.kind != JV_NONE && chars.kind != JV_STR)
		return jx_raise(r, "TypeError: strip arg must be None or str, not %s", jval_type(chars.kind));
	while ((sides & 1) && p < end) {
		n = chars.kind == JV_NONE ? jx_space_at(p, end) : char_len(p, end);
		if (n == 0 || (chars.kind == JV_STR && !char_in(r, p, n, chars)))
			break;
		p += n;
	}
	while ((sides & 2) && p < end) {
		n = chars.kind == JV_NONE ? jx_space_before(p, end) : len_before(p, end);
		if (n == 0 || (chars.kind == JV_STR && !char_in(r, end - n, n, chars)))
			break;
		end -= n;
	}
	*out = part_of(s, p, end);
	return jx_step_chars(r, s.n - out->n);
}

static bool strip_with(struct run *r, struct jval s, const struct args *a, int sides,
		       struct jval *out)
{
	if (!want_args(r, "strip", a, 0, 1))
		return false;
	return jx_str_strip(r, s, a->n > 0 ? a->v[0] : jval_none(), sides, out);
}

bool jx_m_strip(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return strip_with(r, s, a, 3, out);
}

bool jx_m_lstrip(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return strip_with(r, s, a, 1, out);
}

bool jx_m_rstrip(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return strip_with(r, s, a, 2, out);
}

static bool remove_affix(struct run *r, struct jval s, const struct args *a, bool front,
			 struct jval *out)
{
	const char *end = s.s + s.n;
	struct jval x;

	if (!want_args(r, "removeprefix()", a, 1, 1) || !want_str(r, "removeprefix() argument", a->v[0]))
		return false;
	x = a->v[0];
	*out = s;
	if (x.n <= s.n && memcmp(front ? s.s : end - x.n, x.s, x.n) == 0)
		*out = front ? part_of(s, s.s + x.n, end) : part_of(s, s.s, end - x.n);
	return true;
}

bool jx_m_removeprefix(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return remove_affix(r, s, a, true, out);
}

bool jx_m_removesuffix(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return remove_affix(r, s, a, false, out);
}

/* ---- split and join ---------------------------------------------------------------------- */

/* Append a part. Each costs a step, like a node, however short it is. */
static bool add_part(struct run *r, struct list *l, struct jval v)
{
	return step(r) && jx_list_add(r, l, v);
}

static bool split_space(struct run *r, struct jval s, int64_t most, struct list *l)
{
	const char *p = s.s, *end = s.s + s.n, *from;
	unsigned n;

	if (!jx_step_chars(r, s.n))
		return false;
	for (;;) {
		while (p < end && (n = jx_space_at(p, end)) > 0)
			p += n;
		if (p == end)
			return true;
		from = p;
		if (most >= 0 && (int64_t)l->n >= most)
			return add_part(r, l, part_of(s, from, end));
		while (p < end && jx_space_at(p, end) == 0)
			p += char_len(p, end);
		if (!add_part(r, l, part_of(s, from, p)))
			return false;
	}
}

static bool split_at(struct run *r, struct jval s, struct jval sep, int64_t most, struct list *l)
{
	const char *p = s.s, *end = s.s + s.n, *q;

	if (!jx_step_search(r, s.n, sep))
		return false;
	while ((most < 0 || (int64_t)l->n < most) &&
	       (q = memmem(p, (size_t)(end - p), sep.s, sep.n)) != NULL) {
		if (!add_part(r, l, part_of(s, p, q)))
			return false;
		p = q + sep.n;
	}
	return add_part(r, l, part_of(s, p, end));
}

static bool rsplit_at(struct run *r, struct jval s, struct jval sep, int64_t most, struct list *l)
{
	const char *end = s.s + s.n, *q;
	size_t i;
	struct jval swap;

	if (!jx_step_chars(r, s.n))
		return false;
	while (most < 0 || (int64_t)l->n < most) {
		if (!find_last(r, s.s, end, sep, &q))
			return false;
		if (q == NULL)
			break;
		if (!add_part(r, l, part_of(s, q + sep.n, end)))
			return false;
		end = q;
	}
	if (!add_part(r, l, part_of(s, s.s, end)))
		return false;
	for (i = 0; i < l->n / 2; i++) {
		swap = l->v[i];
		l->v[i] = l->v[l->n - 1 - i];
		l->v[l->n - 1 - i] = swap;
	}
	return true;
}

static bool split_with(struct run *r, struct jval s, const struct args *a, bool right,
		       struct jval *out)
{
	static const char *const names[] = { "sep", "maxsplit" };
	struct list l = { 0 };
	struct jval v[2];
	int64_t most = -1;
	bool ok;

	if (!jx_bind(r, "split()", a, names, 2, v))
		return false;
	if (v[1].kind != JV_MISSING && !is_integer(v[1]))
		return jx_raise(r, "TypeError: '%s' object cannot be interpreted as an integer",
				jval_type(v[1].kind));
	if (v[1].kind != JV_MISSING && v[1].i >= 0)
		most = v[1].i;
	if (v[0].kind == JV_MISSING || v[0].kind == JV_NONE) {
		if (right && most >= 0)
			return jx_unknown(r, "rsplit() at white space");
		ok = split_space(r, s, most, &l);
	} else {
		if (v[0].kind != JV_STR)
			return jx_raise(r, "TypeError: must be str or None, not %s", jval_type(v[0].kind));
		if (v[0].n == 0)
			return jx_raise(r, "ValueError: empty separator");
		ok = right ? rsplit_at(r, s, v[0], most, &l) : split_at(r, s, v[0], most, &l);
	}
	*out = jval_list(l.v, l.n);
	return ok && jx_step_bytes(r, s.n);
}

bool jx_m_split(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return split_with(r, s, a, false, out);
}

bool jx_m_rsplit(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return split_with(r, s, a, true, out);
}

/* Return the tuple (before, <sep>, after). */
static bool partition(struct run *r, struct jval s, const struct args *a, bool last,
		      struct jval *out)
{
	const char *end = s.s + s.n, *q;
	struct jval *v = jx_take(r, 3 * sizeof(*v)), x;

	if (v == NULL || !want_args(r, "partition()", a, 1, 1) ||
	    !want_str(r, "partition() argument", a->v[0]))
		return false;
	x = a->v[0];
	if (x.n == 0)
		return jx_raise(r, "ValueError: empty separator");
	if (last ? !jx_step_chars(r, s.n) : !jx_step_search(r, s.n, x))
		return false;
	if (!last)
		q = memmem(s.s, s.n, x.s, x.n);
	else if (!find_last(r, s.s, end, x, &q))
		return false;
	v[0] = v[1] = v[2] = lit("");
	if (q == NULL) {
		v[last ? 2 : 0] = s;
	} else {
		v[0] = part_of(s, s.s, q);
		v[1] = x;
		v[2] = part_of(s, q + x.n, end);
	}
	*out = (struct jval){ .kind = JV_TUPLE, .n = 3, .v = v };
	return jx_step_bytes(r, s.n);
}

bool jx_m_partition(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return partition(r, s, a, false, out);
}

bool jx_m_rpartition(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return partition(r, s, a, true, out);
}

bool jx_str_join(struct run *r, struct jval sep, const struct jval *v, size_t n, struct jval *out)
{
	struct text t = { 0 };
	size_t i;

	for (i = 0; i < n; i++) {
		if (v[i].kind != JV_STR)
			return jx_raise(r, "TypeError: sequence item %zu: expected str instance, %s found", i,
			     jval_type(v[i].kind));
		if ((i > 0 && !jx_text_add(r, &t, sep.s, sep.n)) ||
		    !jx_text_add(r, &t, v[i].s, v[i].n) || !step(r))
			return false;
	}
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

bool jx_m_join(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	struct jval l;

	if (!want_args(r, "str.join()", a, 1, 1))
		return false;
	if (!jx_iterable(a->v[0]))
		return jx_raise(r, "TypeError: can only join an iterable");
	return jx_to_list(r, a->v[0], &l) && jx_str_join(r, s, l.v, l.n, out);
}

/* Return the byte after a line break at <p>, or <p> if there is none. */
static const char *line_break(const char *p, const char *end)
{
	uint32_t c;
	unsigned n = utf8_get(p, (size_t)(end - p), &c);

	if (c == '\r' && end - p > 1 && p[1] == '\n')
		return p + 2;
	if ((c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
	    c == 0x2029)
		return p + n;
	return p;
}

bool jx_str_lines(struct run *r, struct jval s, bool keep_ends, struct jval *out)
{
	const char *p = s.s, *end = s.s + s.n, *from = p, *next;
	struct list l = { 0 };

	if (!jx_step_chars(r, s.n))
		return false;
	while (p < end) {
		next = line_break(p, end);
		if (next == p) {
			p += char_len(p, end);
			continue;
		}
		if (!add_part(r, &l, part_of(s, from, keep_ends ? next : p)))
			return false;
		p = from = next;
	}
	if (from < end && !add_part(r, &l, part_of(s, from, end)))
		return false;
	*out = jval_list(l.v, l.n);
	return true;
}

bool jx_m_splitlines(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	static const char *const names[] = { "keepends" };
	struct jval keep;

	return jx_bind(r, "splitlines()", a, names, 1, &keep) && jx_str_lines(r, s, jval_truth(keep), out);
}
