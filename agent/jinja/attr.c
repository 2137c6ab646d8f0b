/* Members: obj.name, obj[key], obj[a:b].
 *
 * As in Jinja2, a dot looks for Python's attribute first and then for the item; brackets do the
 * reverse: tool.items is the method even if the tool has a member "items". The attributes are those
 * of Python 3.11 for each kind. Attributes that change a list or a dict are unsafe in the sandbox
 * and evaluate to an undefined value that raises when used. An unsupported attribute of Python
 * evaluates, but cannot be called. */
#include "agent/jinja/run_in.h"

#define K(kind)	(1u << (kind))
#define S	K(JV_STR)
#define L	K(JV_LIST)
#define T	K(JV_TUPLE)
#define D	K(JV_DICT)
#define I	(K(JV_INT) | K(JV_BOOL) | K(JV_BIG))
#define F	K(JV_FLOAT)
#define R	K(JV_RANGE)
#define V	K(JV_VIEW)
#define G	K(JV_GEN)

static const struct {
	const char *name;
	uint32_t kinds, unsafe;
} attributes[] = {
	{ "", 0, 0 },
	{ "append", L, L },
	{ "as_integer_ratio", I | F, 0 },
	{ "bit_count", I, 0 },
	{ "bit_length", I, 0 },
	{ "capitalize", S, 0 },
	{ "casefold", S, 0 },
	{ "center", S, 0 },
	{ "clear", L | D, L | D },
	{ "close", G, 0 },
	{ "conjugate", I | F, 0 },
	{ "copy", L | D, 0 },
	{ "count", S | L | T | R, 0 },
	{ "denominator", I, 0 },
	{ "encode", S, 0 },
	{ "endswith", S, 0 },
	{ "expandtabs", S, 0 },
	{ "extend", L, L },
	{ "find", S, 0 },
	{ "format", S, 0 },
	{ "format_map", S, 0 },
	{ "from_bytes", I, 0 },
	{ "fromhex", F, 0 },
	{ "fromkeys", D, 0 },
	{ "get", D, 0 },
	{ "gi_code", G, G },
	{ "gi_frame", G, G },
	{ "gi_running", G, 0 },
	{ "gi_suspended", G, 0 },
	{ "gi_yieldfrom", G, 0 },
	{ "hex", F, 0 },
	{ "imag", I | F, 0 },
	{ "index", S | L | T | R, 0 },
	{ "insert", L, L },
	{ "is_integer", F, 0 },
	{ "isalnum", S, 0 },
	{ "isalpha", S, 0 },
	{ "isascii", S, 0 },
	{ "isdecimal", S, 0 },
	{ "isdigit", S, 0 },
	{ "isdisjoint", V, 0 },
	{ "isidentifier", S, 0 },
	{ "islower", S, 0 },
	{ "isnumeric", S, 0 },
	{ "isprintable", S, 0 },
	{ "isspace", S, 0 },
	{ "istitle", S, 0 },
	{ "isupper", S, 0 },
	{ "items", D, 0 },
	{ "join", S, 0 },
	{ "keys", D, 0 },
	{ "ljust", S, 0 },
	{ "lower", S, 0 },
	{ "lstrip", S, 0 },
	{ "maketrans", S, 0 },
	{ "mapping", V, 0 },
	{ "numerator", I, 0 },
	{ "partition", S, 0 },
	{ "pop", L | D, L | D },
	{ "popitem", D, D },
	{ "real", I | F, 0 },
	{ "remove", L, L },
	{ "removeprefix", S, 0 },
	{ "removesuffix", S, 0 },
	{ "replace", S, 0 },
	{ "reverse", L, L },
	{ "rfind", S, 0 },
	{ "rindex", S, 0 },
	{ "rjust", S, 0 },
	{ "rpartition", S, 0 },
	{ "rsplit", S, 0 },
	{ "rstrip", S, 0 },
	{ "send", G, 0 },
	{ "setdefault", D, D },
	{ "sort", L, L },
	{ "split", S, 0 },
	{ "splitlines", S, 0 },
	{ "start", R, 0 },
	{ "startswith", S, 0 },
	{ "step", R, 0 },
	{ "stop", R, 0 },
	{ "strip", S, 0 },
	{ "swapcase", S, 0 },
	{ "throw", G, 0 },
	{ "title", S, 0 },
	{ "to_bytes", I, 0 },
	{ "translate", S, 0 },
	{ "update", D, D },
	{ "upper", S, 0 },
	{ "values", D, 0 },
	{ "zfill", S, 0 },
};

uint16_t jx_method_id(struct span name)
{
	uint16_t i;

	for (i = 1; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (span_eq(name, span_str(attributes[i].name)))
			return i;
	return 0;
}

const char *jx_method_name(unsigned id)
{
	return attributes[id].name;
}

static bool method_of(struct run *r, struct jval obj, unsigned id, struct jval *out)
{
	struct jval *self;

	if (attributes[id].unsafe & K(obj.kind)) {
		*out = undefined(UNDEF_UNSAFE, attributes[id].name, strlen(attributes[id].name), obj.kind);
		return true;
	}
	self = jx_take(r, sizeof(*self));
	if (self == NULL)
		return false;
	*self = obj;
	*out = (struct jval){ .kind = JV_METHOD, .aux = (uint16_t)id, .v = self };
	return true;
}

/* Look up a Python attribute of <obj>. Sets <*found> if there is one of this name. */
static bool attribute(struct run *r, struct jval obj, struct jval name, unsigned id,
		      struct jval *out, bool *found)
{
	const struct jval *v;

	*found = false;
	if (id != 0 && (attributes[id].kinds & K(obj.kind))) {
		*found = true;
		return method_of(r, obj, id, out);
	}
	if (name.n > 4 && memcmp(name.s, "__", 2) == 0 && memcmp(name.s + name.n - 2, "__", 2) == 0)
		return jx_unknown(r, "the attribute " SPAN_FMT, SPAN_ARG(jval_span(name)));
	switch (obj.kind) {
	case JV_NS:
		v = jdict_get(obj.d, name);
		if (v != NULL) {
			jx_member_read(r, obj.d, v);
			*found = true;
			*out = *v;
		}
		return true;
	case JV_LOOP:
		return jx_loop_attr(r, obj.p, jval_span(name), out, found);
	case JV_MACRO: case JV_FUNC:	/* a method has only attributes with underscores */
		return jx_unknown(r, "an attribute of a function");
	}
	return true;
}

bool jx_get_attr(struct run *r, struct jval obj, struct jval name, unsigned id, struct jval *out)
{
	const struct jval *v;
	bool found;

	if (obj.kind == JV_UNREAD && jx_unread_role(obj, name, out))
		return true;
	if (obj.kind == JV_UNREAD && !jx_read_item(r, &obj))
		return false;
	if (obj.kind == JV_DICT && (id == 0 || !(attributes[id].kinds & D))) {
		v = jdict_get(obj.d, name);
		if (v != NULL) {
			*out = *v;
			return true;
		}
	}
	if (is_undef(obj) && (name.n < 2 || memcmp(name.s, "__", 2) != 0))
		return jx_use_undefined(r, obj);
	if (!attribute(r, obj, name, id, out, &found))
		return false;
	if (!found)
		*out = undefined(UNDEF_ATTR, name.s, name.n, obj.kind);
	return true;
}

static bool no_item(struct run *r, struct jval obj, struct jval key, struct jval *out)
{
	struct jval *k;
	bool found;

	if (key.kind == JV_STR) {
		if (!attribute(r, obj, key, jx_method_id(jval_span(key)), out, &found))
			return false;
		if (!found)
			*out = undefined(UNDEF_ATTR, key.s, key.n, obj.kind);
		return true;
	}
	k = jx_take(r, sizeof(*k));
	if (k == NULL)
		return false;
	*k = key;
	*out = (struct jval){ .kind = JV_UNDEF, .flags = UNDEF_ELEMENT, .aux = obj.kind, .v = k };
	return true;
}

/* Convert a Python index, which counts from the end if negative. Returns false if out of range. */
static bool index_in(int64_t i, uint64_t n, uint64_t *at)
{
	if (i < 0)
		i += (int64_t)n;
	*at = (uint64_t)i;
	return i >= 0 && (uint64_t)i < n;
}

static bool item_of_text(struct run *r, struct jval s, int64_t i, struct jval *out, bool *found)
{
	const char *p, *end = s.s + s.n;
	uint64_t at;

	if (!jx_step_bytes(r, s.flags & JV_ASCII ? 0 : s.n))
		return false;
	*found = index_in(i, jval_chars(s), &at);
	if (!*found)
		return true;
	p = s.flags & JV_ASCII ? s.s + at : jx_chars_on(s.s, end, at);
	*out = jval_str(p, (size_t)(jx_chars_on(p, end, 1) - p));
	out->flags = s.flags & (JV_ASCII | JV_MARKUP);
	return true;
}

bool jx_get_item(struct run *r, struct jval obj, struct jval key, struct jval *out)
{
	const struct jrange *g;
	const struct jval *v;
	uint64_t at;
	bool found;

	switch (obj.kind) {
	case JV_MISSING: case JV_UNDEF:
		return jx_use_undefined(r, obj);
	case JV_UNREAD:
		if (jx_unread_role(obj, key, out))
			return true;
		return jx_read_item(r, &obj) && jx_get_item(r, obj, key, out);
	case JV_DICT:
		v = jval_hashable(key) ? jdict_get(obj.d, key) : NULL;
		if (v == NULL)
			return no_item(r, obj, key, out);
		*out = *v;
		return true;
	case JV_LIST: case JV_TUPLE:
		if (!is_integer(key) || !index_in(key.i, obj.n, &at))
			return no_item(r, obj, key, out);
		*out = obj.v[at];
		return true;
	case JV_STR:
		if (!is_integer(key))
			return no_item(r, obj, key, out);
		return item_of_text(r, obj, key.i, out, &found) && (found || no_item(r, obj, key, out));
	case JV_RANGE:
		g = obj.p;
		if (!is_integer(key) || !index_in(key.i, g->n, &at))
			return no_item(r, obj, key, out);
		*out = jval_int((int64_t)((uint64_t)g->start + at * (uint64_t)g->step));
		return true;
	}
	return no_item(r, obj, key, out);
}

static bool all_digits(struct jval s)
{
	uint32_t i;

	for (i = 0; i < s.n && s.s[i] >= '0' && s.s[i] <= '9'; i++)
		;
	return i == s.n && s.n > 0 && s.n < 18;
}

bool jx_get_path(struct run *r, struct jval obj, struct jval path, struct jval *out)
{
	const char *p, *end, *dot;
	struct jval part;

	*out = obj;
	if (path.kind != JV_STR)
		return path.kind == JV_NONE || jx_get_item(r, obj, path, out);
	p = path.s;
	end = p + path.n;
	for (;; p = dot + 1) {
		dot = memchr(p, '.', (size_t)(end - p));
		part = jval_str(p, (size_t)((dot != NULL ? dot : end) - p));
		r->steps += STEPS_PATH;
		if (all_digits(part))
			jx_parse_int(part, 10, &part);
		if (!jx_get_item(r, *out, part, out))
			return false;
		if (dot == NULL)
			return true;
	}
}

/* ---- slices ------------------------------------------------------------------------------ */

static bool bound_of(struct run *r, struct jval v, int64_t n, int64_t low, int64_t high,
		     int64_t unset, int64_t *out)
{
	if (v.kind == JV_NONE) {
		*out = unset;
		return true;
	}
	if (!is_integer(v))
		return jx_raise(r, "TypeError: slice indices must be integers or None or have an "
				   "__index__ method");
	*out = v.i < 0 ? v.i + n : v.i;
	if (*out < low)
		*out = low;
	if (*out > high)
		*out = high;
	return true;
}

/* Take <count> items of <obj> from <i> on, at distance <step_>. */
static bool picked_items(struct run *r, struct jval obj, int64_t i, int64_t step_, int64_t count,
			 struct jval *out)
{
	struct jval *v;
	int64_t k;

	*out = obj;
	out->n = (uint32_t)count;
	if (step_ == 1) {
		out->v = obj.v + (count > 0 ? i : 0);
		return true;
	}
	v = jx_take(r, (size_t)count * sizeof(*v));
	if (v == NULL || !jx_step_bytes(r, (size_t)count * sizeof(*v)))
		return false;
	for (k = 0; k < count; k++, i += step_)
		v[k] = obj.v[i];
	out->v = v;
	return true;
}

static bool picked_chars(struct run *r, struct jval s, int64_t i, int64_t step_, int64_t count,
			 struct jval *out)
{
	const char *end = s.s + s.n, *p, *q;
	struct text t = { 0 };
	int64_t k;

	if (step_ == 1 || count == 0) {
		p = count == 0 ? s.s : s.flags & JV_ASCII ? s.s + i : jx_chars_on(s.s, end, (size_t)i);
		q = s.flags & JV_ASCII ? p + count : jx_chars_on(p, end, (size_t)count);
		*out = jval_str(p, (size_t)(q - p));
		out->flags = s.flags & (JV_ASCII | JV_MARKUP);
		return true;
	}
	if (!jval_ascii(s) && step_ != -1)
		return jx_unknown(r, "every n-th character of a text that is not ASCII");
	if (!jx_step_chars(r, (size_t)count))
		return false;
	if (jval_ascii(s)) {
		for (k = 0; k < count; k++, i += step_)
			if (!jx_text_char(r, &t, s.s[i]))
				return false;
	} else {
		for (p = jx_chars_on(s.s, end, (size_t)i + 1); count > 0 && p > s.s; count--, p = q) {
			q = jx_char_before(s.s, p);
			if (!jx_text_add(r, &t, q, (size_t)(p - q)))
				return false;
		}
	}
	*out = jx_text_value(&t);
	out->flags = s.flags & (JV_ASCII | JV_MARKUP);
	return true;
}

bool jx_get_slice(struct run *r, struct jval obj, const struct jval part[3], struct jval *out)
{
	bool list = obj.kind == JV_LIST || obj.kind == JV_TUPLE;
	int64_t n, by = 1, start = 0, stop = 0, count;

	if (is_undef(obj))
		return jx_use_undefined(r, obj);
	if (obj.kind == JV_DICT)
		return jx_raise(r, "TypeError: unhashable type: 'slice'");
	if (obj.kind == JV_RANGE)
		return jx_unknown(r, "a part of a range");
	if (!list && obj.kind != JV_STR)
		return jx_raise(r, "TypeError: '%s' object is not subscriptable", jval_type(obj.kind));
	n = list ? obj.n : (int64_t)jval_chars(obj);
	if (!list && obj.n == (uint64_t)n)
		obj.flags |= JV_ASCII;
	if (part[2].kind != JV_NONE && (!is_integer(part[2]) || part[2].i == 0))
		return jx_raise(r, is_integer(part[2]) ? "ValueError: slice step cannot be zero" :
			     "TypeError: slice indices must be integers or None or have an __index__ method");
	if (part[2].kind != JV_NONE)
		by = part[2].i > INT32_MAX ? INT32_MAX : part[2].i < -INT32_MAX ? -INT32_MAX : part[2].i;
	if (!bound_of(r, part[0], n, by < 0 ? -1 : 0, by < 0 ? n - 1 : n, by < 0 ? n - 1 : 0, &start) ||
	    !bound_of(r, part[1], n, by < 0 ? -1 : 0, by < 0 ? n - 1 : n, by < 0 ? -1 : n, &stop) ||
	    !jx_step_bytes(r, list ? 0 : obj.n))
		return false;
	if (by > 0)
		count = stop > start ? (stop - start - 1) / by + 1 : 0;
	else
		count = start > stop ? (start - stop - 1) / -by + 1 : 0;
	return list ? picked_items(r, obj, start, by, count, out) :
		      picked_chars(r, obj, start, by, count, out);
}
