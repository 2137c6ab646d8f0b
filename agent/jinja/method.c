/* Methods of strings, lists and dicts.
 *
 * Parts of a string (strip, split, partition) point into it; composed strings are new. Searching
 * uses memmem(), which is linear. Unsupported are Python's methods that are not in the table at
 * the end, and methods of a string from |safe, which escape their arguments. */
#include "agent/jinja/method_in.h"

/* ---- search and replace ------------------------------------------------------------------ */

static bool m_find_at(struct run *r, struct jval s, const struct args *a, bool last, bool must,
		      struct jval *out)
{
	const char *q;

	if (a->n > 1 || a->n_kw > 0)
		return jx_unknown(r, "find() from a place in the text");
	if (!want_args(r, "find()", a, 1, 1) || !want_str(r, "find() argument", a->v[0]) ||
	    !jx_step_search(r, s.n, a->v[0]) || (last && !jx_step_chars(r, s.n)))
		return false;
	if (!last)
		q = memmem(s.s, s.n, a->v[0].s, a->v[0].n);
	else if (!find_last(r, s.s, s.s + s.n, a->v[0], &q))
		return false;
	if (q == NULL && must)
		return jx_raise(r, "ValueError: substring not found");
	*out = jval_int(q == NULL ? -1 : (int64_t)jval_chars(part_of(s, s.s, q)));
	return true;
}

static bool m_find(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return m_find_at(r, s, a, false, false, out);
}

static bool m_rfind(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return m_find_at(r, s, a, true, false, out);
}

static bool m_rindex(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return m_find_at(r, s, a, true, true, out);
}

static bool count_text(struct run *r, struct jval s, struct jval x, struct jval *out)
{
	const char *p = s.s, *end = s.s + s.n;
	int64_t n = 0;

	if (!want_str(r, "count() argument", x) || !jx_step_search(r, s.n, x))
		return false;
	if (x.n == 0)
		n = (int64_t)jval_chars(s) + 1;
	else
		for (; (p = memmem(p, (size_t)(end - p), x.s, x.n)) != NULL; p += x.n)
			n++;
	*out = jval_int(n);
	r->steps += (uint64_t)n;
	return step(r);
}

static bool m_count(struct run *r, struct jval self, const struct args *a, struct jval *out)
{
	int64_t n = 0;
	uint32_t i;
	bool same;

	if (a->n > 1 && self.kind == JV_STR)
		return jx_unknown(r, "count() from a place in the text");
	if (!want_args(r, "count()", a, 1, 1))
		return false;
	if (self.kind == JV_STR)
		return count_text(r, self, a->v[0], out);
	if (self.kind == JV_RANGE)
		return jx_unknown(r, "count() of a range");
	for (i = 0; i < self.n; i++, n += same)
		if (!jx_equal(r, self.v[i], a->v[0], &same))
			return false;
	*out = jval_int(n);
	return jx_step_bytes(r, self.n * sizeof(self));
}

static bool m_index(struct run *r, struct jval self, const struct args *a, struct jval *out)
{
	uint32_t i;
	bool same;

	if (self.kind == JV_STR)
		return m_find_at(r, self, a, false, true, out);
	if (self.kind == JV_RANGE || a->n > 1)
		return jx_unknown(r, "index() of a range or of a part");
	if (!want_args(r, "index()", a, 1, 1) || !jx_step_bytes(r, self.n * sizeof(self)))
		return false;
	for (i = 0; i < self.n; i++) {
		if (!jx_equal(r, self.v[i], a->v[0], &same))
			return false;
		if (same) {
			*out = jval_int(i);
			return true;
		}
	}
	return jx_raise(r, "ValueError: value is not in %s", jval_type(self.kind));
}

/* Implement startswith() and endswith() for one string or a tuple of them. */
static bool has_affix(struct run *r, struct jval s, const struct args *a, bool front,
		      struct jval *out)
{
	const char *what = front ? "startswith" : "endswith";
	struct jval x, item;
	uint32_t i, n;
	bool is = false;

	if (a->n > 1)
		return jx_unknown(r, "%s() from a place in the text", what);
	if (!want_args(r, what, a, 1, 1))
		return false;
	x = a->v[0];
	if (x.kind != JV_STR && x.kind != JV_TUPLE)
		return jx_raise(r, "TypeError: %s first arg must be str or a tuple of str, not %s",
				what, jval_type(x.kind));
	n = x.kind == JV_STR ? 1 : x.n;
	for (i = 0; i < n && !is; i++) {
		item = x.kind == JV_STR ? x : x.v[i];
		if (item.kind != JV_STR)
			return jx_raise(r, "TypeError: tuple for %s must only contain str, not %s",
					what, jval_type(item.kind));
		is = item.n <= s.n && memcmp(front ? s.s : s.s + s.n - item.n, item.s, item.n) == 0;
	}
	*out = jval_bool(is);
	return true;
}

static bool m_startswith(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return has_affix(r, s, a, true, out);
}

static bool m_endswith(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return has_affix(r, s, a, false, out);
}

/* Insert <new> before each character and at the end. */
static bool replace_nothing(struct run *r, struct jval s, struct jval new, int64_t count,
			    struct text *t)
{
	const char *p = s.s, *end = s.s + s.n;
	unsigned n;

	for (; p < end && count != 0; p += n, count--) {
		n = char_len(p, end);
		if (!step(r) || !jx_text_add(r, t, new.s, new.n) || !jx_text_add(r, t, p, n))
			return false;
	}
	return jx_text_add(r, t, p, (size_t)(end - p)) && (count == 0 || jx_text_add(r, t, new.s, new.n));
}

bool jx_str_replace(struct run *r, struct jval s, struct jval old, struct jval new, int64_t count,
		    struct jval *out)
{
	const char *p = s.s, *end = s.s + s.n, *q;
	struct text t = { 0 };

	if (!jx_step_search(r, s.n, old))
		return false;
	if (old.n == 0) {
		if (!replace_nothing(r, s, new, count, &t))
			return false;
		*out = jx_text_value(&t);
		return true;
	}
	q = memmem(p, s.n, old.s, old.n);
	if (q == NULL || count == 0) {
		*out = s;
		out->flags &= JV_ASCII;
		return true;
	}
	for (; q != NULL && count != 0; count--) {
		if (!step(r) || !jx_text_add(r, &t, p, (size_t)(q - p)) || !jx_text_add(r, &t, new.s, new.n))
			return false;
		p = q + old.n;
		q = memmem(p, (size_t)(end - p), old.s, old.n);
	}
	if (!jx_text_add(r, &t, p, (size_t)(end - p)))
		return false;
	*out = jx_text_value(&t);
	out->flags = s.flags & new.flags & JV_ASCII;
	return jx_step_bytes(r, t.n);
}

static bool m_replace(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	if (!want_args(r, "replace", a, 2, 3) || !want_str(r, "replace() argument 1", a->v[0]) ||
	    !want_str(r, "replace() argument 2", a->v[1]))
		return false;
	if (a->n > 2 && !is_integer(a->v[2]))
		return jx_raise(r, "TypeError: '%s' object cannot be interpreted as an integer",
				jval_type(a->v[2].kind));
	return jx_str_replace(r, s, a->v[0], a->v[1], a->n > 2 ? a->v[2].i : -1, out);
}

/* ---- upper and lower --------------------------------------------------------------------- */

static bool word_begins(uint32_t c, enum words words)
{
	if (words == WORDS_CASED)
		return !jx_char_cased(c);
	return words == WORDS_SEPARATED &&
	       (jx_is_space_char(c) || (c < 0x80 && c != 0 && strchr("-({[<", (int)c) != NULL));
}

bool jx_str_case(struct run *r, struct jval s, enum letter_case first, enum letter_case rest,
		 enum words words, struct jval *out)
{
	const char *p = s.s, *end = s.s + s.n;
	uint32_t c, to[3];
	struct text t = { 0 };
	bool at_start = true;
	unsigned i, n;
	char put[4];

	if (!jx_step_bytes(r, (size_t)s.n * STEP_BYTES))	/* a search in tables for each */
		return false;
	while (p < end) {
		p += utf8_get(p, (size_t)(end - p), &c);
		if (c == 0x3a3 && (at_start ? first : rest) == TO_LOWER)
			return jx_unknown(r, "the lower case of a sigma");
		n = jx_char_case(c, at_start ? first : rest, to);
		for (i = 0; i < n; i++)
			if (!jx_text_add(r, &t, put, utf8_put(put, to[i])))
				return false;
		at_start = word_begins(c, words);
	}
	*out = jx_text_value(&t);
	out->flags = s.flags & (JV_ASCII | JV_MARKUP);
	return true;
}

static bool m_lower(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return want_args(r, "lower()", a, 0, 0) && jx_str_case(r, s, TO_LOWER, TO_LOWER, WORDS_ONE, out);
}

static bool m_upper(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return want_args(r, "upper()", a, 0, 0) && jx_str_case(r, s, TO_UPPER, TO_UPPER, WORDS_ONE, out);
}

static bool m_title(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return want_args(r, "title()", a, 0, 0) && jx_str_case(r, s, TO_TITLE, TO_LOWER, WORDS_CASED, out);
}

static bool m_capitalize(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return want_args(r, "capitalize()", a, 0, 0) &&
	       jx_str_case(r, s, TO_TITLE, TO_LOWER, WORDS_ONE, out);
}

/* ---- kinds of characters, ASCII only ----------------------------------------------------- */

enum { C_DIGIT = 1, C_UPPER = 2, C_LOWER = 4, C_SPACE = 8 };

static unsigned class_of(char c)
{
	if (c >= '0' && c <= '9')
		return C_DIGIT;
	if (c >= 'A' && c <= 'Z')
		return C_UPPER;
	if (c >= 'a' && c <= 'z')
		return C_LOWER;
	return jx_space_at(&c, &c + 1) ? C_SPACE : 0;
}

/* Tell if the string is not empty and all its characters have a class of <all>; or if some have
 * a class of <some> and none of <none>. */
static bool all_are(struct run *r, struct jval s, const struct args *a, unsigned all, unsigned some,
		    unsigned none, struct jval *out)
{
	bool is = s.n > 0 && some == 0;
	uint32_t i;
	unsigned c;

	if (!want_args(r, "is...()", a, 0, 0))
		return false;
	if (!jval_ascii(s))
		return jx_unknown(r, "the kind of characters that are not ASCII");
	for (i = 0; i < s.n; i++) {
		c = class_of(s.s[i]);
		if ((all != 0 && !(c & all)) || (c & none)) {
			is = false;
			break;
		}
		if (c & some)
			is = true;
	}
	*out = jval_bool(is);
	return jx_step_chars(r, s.n);
}

static bool m_isdigit(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, C_DIGIT, 0, 0, out);
}

static bool m_isalpha(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, C_UPPER | C_LOWER, 0, 0, out);
}

static bool m_isalnum(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, C_UPPER | C_LOWER | C_DIGIT, 0, 0, out);
}

static bool m_isspace(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, C_SPACE, 0, 0, out);
}

static bool m_isupper(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, 0, C_UPPER, C_LOWER, out);
}

static bool m_islower(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return all_are(r, s, a, 0, C_LOWER, C_UPPER, out);
}

static bool m_isascii(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	*out = jval_bool(jval_ascii(s));
	return want_args(r, "isascii()", a, 0, 0) && jx_step_bytes(r, s.n);
}

/* ---- padding ----------------------------------------------------------------------------- */

static bool fill(struct run *r, struct jval s, const struct args *a, bool left, struct jval *out)
{
	struct jval with = lit(" ");
	struct text t = { 0 };
	int64_t n, i;

	if (!want_args(r, "ljust", a, 1, 2))
		return false;
	if (!is_integer(a->v[0]))
		return jx_raise(r, "TypeError: '%s' object cannot be interpreted as an integer",
				jval_type(a->v[0].kind));
	if (a->n > 1)
		with = a->v[1];
	if (with.kind != JV_STR || jval_chars(with) != 1)
		return jx_raise(r, "TypeError: The fill character must be exactly one character long");
	n = a->v[0].i - (int64_t)jval_chars(s);
	if (n > (int64_t)r->limit.output)
		return jx_over(r, "output");
	if (!jx_step_chars(r, n > 0 ? (size_t)n : 0))
		return false;
	if (!left && !jx_text_add(r, &t, s.s, s.n))
		return false;
	for (i = 0; i < n; i++)
		if (!jx_text_add(r, &t, with.s, with.n))
			return false;
	if (left && !jx_text_add(r, &t, s.s, s.n))
		return false;
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

static bool m_ljust(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return fill(r, s, a, false, out);
}

static bool m_rjust(struct run *r, struct jval s, const struct args *a, struct jval *out)
{
	return fill(r, s, a, true, out);
}

/* ---- dicts ------------------------------------------------------------------------------- */

static bool m_get(struct run *r, struct jval d, const struct args *a, struct jval *out)
{
	const struct jval *v;

	if (!want_args(r, "get", a, 1, 2))
		return false;
	if (!jval_hashable(a->v[0]))
		return jx_raise(r, "TypeError: unhashable type: '%s'", jval_type(a->v[0].kind));
	v = jdict_get(d.d, a->v[0]);
	*out = v != NULL ? *v : a->n > 1 ? a->v[1] : jval_none();
	return true;
}

static bool view(struct run *r, struct jval d, const struct args *a, char which, struct jval *out)
{
	*out = (struct jval){ .kind = JV_VIEW, .aux = (uint16_t)which, .d = d.d };
	return want_args(r, "dict method", a, 0, 0);
}

static bool m_items(struct run *r, struct jval d, const struct args *a, struct jval *out)
{
	return view(r, d, a, 'i', out);
}

static bool m_keys(struct run *r, struct jval d, const struct args *a, struct jval *out)
{
	return view(r, d, a, 'k', out);
}

static bool m_values(struct run *r, struct jval d, const struct args *a, struct jval *out)
{
	return view(r, d, a, 'v', out);
}

/* Return the value itself, because values never change. */
static bool m_copy(struct run *r, struct jval self, const struct args *a, struct jval *out)
{
	*out = self;
	return want_args(r, "copy()", a, 0, 0);
}

static const struct {
	const char *name;
	method *run;
} methods[] = {
	{ "get", m_get },
	{ "split", jx_m_split },
	{ "strip", jx_m_strip },
	{ "items", m_items },
	{ "lstrip", jx_m_lstrip },
	{ "rstrip", jx_m_rstrip },
	{ "startswith", m_startswith },
	{ "endswith", m_endswith },
	{ "replace", m_replace },
	{ "format", jx_format_braces },
	{ "rsplit", jx_m_rsplit },
	{ "splitlines", jx_m_splitlines },
	{ "join", jx_m_join },
	{ "partition", jx_m_partition },
	{ "rpartition", jx_m_rpartition },
	{ "removeprefix", jx_m_removeprefix },
	{ "removesuffix", jx_m_removesuffix },
	{ "find", m_find },
	{ "rfind", m_rfind },
	{ "index", m_index },
	{ "rindex", m_rindex },
	{ "count", m_count },
	{ "lower", m_lower },
	{ "upper", m_upper },
	{ "title", m_title },
	{ "capitalize", m_capitalize },
	{ "isdigit", m_isdigit },
	{ "isdecimal", m_isdigit },
	{ "isnumeric", m_isdigit },
	{ "isalpha", m_isalpha },
	{ "isalnum", m_isalnum },
	{ "isspace", m_isspace },
	{ "isupper", m_isupper },
	{ "islower", m_islower },
	{ "isascii", m_isascii },
	{ "ljust", m_ljust },
	{ "rjust", m_rjust },
	{ "keys", m_keys },
	{ "values", m_values },
	{ "copy", m_copy },
};

bool jx_call_method(struct run *r, struct jval self, unsigned id, const struct args *a,
		    struct jval *out)
{
	const char *name = jx_method_name(id);
	size_t i;

	if (self.kind == JV_STR && (self.flags & JV_MARKUP))
		return jx_unknown(r, "the method %s of a string that went through |safe", name);
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strcmp(methods[i].name, name) == 0)
			return methods[i].run(r, self, a, out);
	return jx_unknown(r, "the method %s of %s", name, jval_type(self.kind));
}
