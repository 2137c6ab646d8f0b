/* Filters over sequences. map, select, reject, their attr forms, unique and items are generators
 * (iter.c). Sorting uses merge sort, because it must be stable and a comparison may fail. */
#include "agent/jinja/filter_in.h"

static struct jval no_item(const char *hint)
{
	return undefined(UNDEF_HINT, hint, strlen(hint), 0);
}

bool jx_f_length(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	uint64_t n;

	if (!jx_length_of(r, in, &n))
		return false;
	*out = jval_int((int64_t)n);
	return true;
}

bool jx_f_list(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_list(r, in, out);
}

bool jx_f_first(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct iter it;
	int more;

	if (!jx_iter_start(r, in, &it))
		return false;
	more = jx_iter_next(r, &it, out);
	if (more == 0)
		*out = no_item("No first item, sequence was empty.");
	return more >= 0;
}

static bool reversible(struct run *r, struct jval in)
{
	if (jx_iterable(in) && in.kind != JV_GEN && in.kind != JV_LOOP)
		return true;
	return jx_raise(r, "TypeError: '%s' object is not reversible", jval_type(in.kind));
}

bool jx_f_last(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval l;

	if (!reversible(r, in) || !jx_to_list(r, in, &l))
		return false;
	*out = l.n > 0 ? l.v[l.n - 1] : no_item("No last item, sequence was empty.");
	return true;
}

static int list_next(struct run *r, struct gen *g, struct jval *out)
{
	return jx_iter_next(r, &g->it, out);
}

/* Reverse: a string gives a string, any other value an iterator. */
bool jx_f_reverse(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	const struct jval whole[3] = { jval_none(), jval_none(), jval_int(-1) };
	struct args none = { 0 };
	struct jval l;

	if (in.kind == JV_STR)
		return jx_get_slice(r, in, whole, out);
	if (!jx_iterable(in))
		return jx_raise(r, "FilterArgumentError: argument must be iterable");
	if (!jx_to_list(r, in, &l) || !jx_get_slice(r, l, whole, &l))
		return false;
	if (in.kind == JV_GEN) {
		*out = l;
		return true;
	}
	return jx_gen_new(r, list_next, l, &none, 0, out);
}

static int items_next(struct run *r, struct gen *g, struct jval *out)
{
	return jx_iter_next(r, &g->it, out);
}

static int items_wrong(struct run *r, struct gen *g, struct jval *out)
{
	jx_raise(r, "TypeError: Can only get item pairs from a mapping.");
	return -1;
}

bool jx_f_items(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct args none = { 0 };

	if (in.kind == JV_DICT) {
		in.kind = JV_VIEW;
		in.aux = 'i';
	} else if (!is_undef(in)) {
		return jx_gen_new(r, items_wrong, jval_list(NULL, 0), &none, 0, out);
	}
	return jx_gen_new(r, items_next, in, &none, 0, out);
}

/* ---- attributes and keys ----------------------------------------------------------------- */

/* Convert a string to lower case, unless <case_sensitive>. */
static bool fold(struct run *r, struct jval case_sensitive, struct jval *v)
{
	if (jval_truth(case_sensitive) || v->kind != JV_STR)
		return true;
	return jx_str_case(r, *v, TO_LOWER, TO_LOWER, WORDS_ONE, v);
}

static bool key_of(struct run *r, struct jval item, struct jval attribute,
		   struct jval case_sensitive, struct jval *out)
{
	if (attribute.kind == JV_MISSING)
		attribute = jval_none();
	return jx_get_path(r, item, attribute, out) && fold(r, case_sensitive, out);
}

bool jx_f_join(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct list l = { 0 };
	struct jval sep = lit(""), item;
	struct iter it;
	int more;

	if (v[0].kind != JV_MISSING && !jx_to_str(r, v[0], &sep))
		return false;
	if (!jx_iter_start(r, in, &it))
		return false;
	while ((more = jx_iter_next(r, &it, &item)) > 0) {
		if (v[1].kind != JV_MISSING && !jx_get_path(r, item, v[1], &item))
			return false;
		if (!jx_to_str(r, item, &item) || !jx_list_add(r, &l, item))
			return false;
	}
	return more == 0 && jx_str_join(r, sep, l.v, l.n, out);
}

bool jx_f_sum(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval item;
	struct iter it;
	int more;

	*out = v[1].kind != JV_MISSING ? v[1] : jval_int(0);
	if (out->kind == JV_STR)
		return jx_raise(r, "TypeError: sum() can't sum strings [use ''.join(seq) instead]");
	if (!jx_iter_start(r, in, &it))
		return false;
	while ((more = jx_iter_next(r, &it, &item)) > 0) {
		if (v[0].kind != JV_MISSING && !jx_get_path(r, item, v[0], &item))
			return false;
		if (!step(r) || !jx_binary_op(r, OP_ADD, *out, item, out))
			return false;
	}
	return more == 0;
}

static int unique_next(struct run *r, struct gen *g, struct jval *out)
{
	struct jval key;
	bool same;
	size_t i;
	int more;

	while ((more = jx_iter_next(r, &g->it, out)) > 0) {
		if (!key_of(r, *out, g->args.v[1], g->args.v[0], &key))
			return -1;
		if (!jval_hashable(key)) {
			jx_raise(r, "TypeError: unhashable type: '%s'", jval_type(key.kind));
			return -1;
		}
		for (i = 0, same = false; i < g->seen.n && !same; i += !same)
			if (!jx_equal(r, g->seen.v[i], key, &same))
				return -1;
		if (i == g->seen.n)
			return jx_list_add(r, &g->seen, key) ? 1 : -1;
	}
	return more;
}

bool jx_f_unique(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval *kept = jx_take(r, 2 * sizeof(*kept));
	struct args a = { .v = kept, .n = 2 };

	if (kept == NULL)
		return false;
	memcpy(kept, v, 2 * sizeof(*kept));
	return jx_gen_new(r, unique_next, in, &a, 0, out);
}

static bool least(struct run *r, struct jval in, const struct jval *v, enum op op, struct jval *out)
{
	struct jval item, key, best;
	struct iter it;
	bool better;
	int more;

	if (!jx_iter_start(r, in, &it))
		return false;
	more = jx_iter_next(r, &it, out);
	if (more == 0)
		*out = no_item("No aggregated item, sequence was empty.");
	if (more <= 0)
		return more == 0;
	if (!key_of(r, *out, v[1], v[0], &best))
		return false;
	while ((more = jx_iter_next(r, &it, &item)) > 0) {
		if (!step(r) || !key_of(r, item, v[1], v[0], &key) ||
		    !jx_compare_values(r, op, key, best, &better))
			return false;
		if (better) {
			best = key;
			*out = item;
		}
	}
	return more == 0;
}

bool jx_f_min(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return least(r, in, v, OP_LT, out);
}

bool jx_f_max(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return least(r, in, v, OP_GT, out);
}

/* ---- sorting ----------------------------------------------------------------------------- */

struct keyed {
	struct jval key, item;
};

/* Sort <v>[n] by key; <w>[n] is scratch. Equal items keep their order, also if <reverse>. */
static bool merge_sort(struct run *r, struct keyed *v, struct keyed *w, size_t n, bool reverse)
{
	size_t half = n / 2, i = 0, k = half, o = 0;
	bool second;

	if (n < 2)
		return true;
	if (!merge_sort(r, v, w, half, reverse) || !merge_sort(r, v + half, w, n - half, reverse))
		return false;
	memcpy(w, v, n * sizeof(*v));
	while (i < half && k < n) {
		if (!step(r) || !jx_compare_values(r, OP_LT, reverse ? w[i].key : w[k].key,
						   reverse ? w[k].key : w[i].key, &second))
			return false;
		v[o++] = second ? w[k++] : w[i++];
	}
	while (i < half)
		v[o++] = w[i++];
	while (k < n)
		v[o++] = w[k++];
	return true;
}

static bool sort_keyed(struct run *r, struct keyed *v, size_t n, bool reverse, struct jval *out)
{
	struct keyed *w = jx_take(r, n * sizeof(*w));
	struct jval *items = jx_take(r, n * sizeof(*items));
	size_t i;

	if (w == NULL || items == NULL || !merge_sort(r, v, w, n, reverse))
		return false;
	for (i = 0; i < n; i++)
		items[i] = v[i].item;
	*out = jval_list(items, n);
	return true;
}

/* Compute the sort key of an item for "a,b.c": the list of the values at each path, or the value
 * at a single path. */
static bool multi_key(struct run *r, struct jval item, struct jval attribute,
		      struct jval case_sensitive, struct jval *out)
{
	const char *p, *end, *comma;
	struct list l = { 0 };
	struct jval part;

	if (attribute.kind != JV_STR || memchr(attribute.s, ',', attribute.n) == NULL)
		return key_of(r, item, attribute, case_sensitive, out);
	p = attribute.s;
	end = p + attribute.n;
	for (;;) {
		comma = memchr(p, ',', (size_t)(end - p));
		part = jval_str(p, (size_t)((comma != NULL ? comma : end) - p));
		if (!key_of(r, item, part, case_sensitive, &part) || !jx_list_add(r, &l, part))
			return false;
		if (comma == NULL)
			break;
		p = comma + 1;
	}
	*out = jval_list(l.v, l.n);
	return true;
}

bool jx_f_sort(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct keyed *k;
	struct jval l;
	uint32_t i;

	if (!jx_to_list(r, in, &l))
		return false;
	k = jx_take(r, l.n * sizeof(*k));
	if (k == NULL)
		return false;
	for (i = 0; i < l.n; i++) {
		k[i].item = l.v[i];
		if (!step(r) || !multi_key(r, l.v[i], v[2], v[1], &k[i].key))
			return false;
	}
	return sort_keyed(r, k, l.n, jval_truth(v[0]), out);
}

bool jx_f_dictsort(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval l, pairs = in;
	struct keyed *k;
	uint32_t i;
	bool by_value = v[1].kind != JV_MISSING && jval_eq(v[1], lit("value"));

	if (v[1].kind != JV_MISSING && !by_value && !jval_eq(v[1], lit("key")))
		return jx_raise(r, "FilterArgumentError: You can only sort by either \"key\" or \"value\"");
	if (is_undef(in))
		return jx_use_undefined(r, in);
	if (in.kind != JV_DICT)
		return jx_raise(r, "AttributeError: '%s' object has no attribute 'items'", jval_type(in.kind));
	pairs.kind = JV_VIEW;
	pairs.aux = 'i';
	if (!jx_to_list(r, pairs, &l))
		return false;
	k = jx_take(r, l.n * sizeof(*k));
	if (k == NULL)
		return false;
	for (i = 0; i < l.n; i++) {
		k[i].item = l.v[i];
		k[i].key = l.v[i].v[by_value];
		if (!step(r) || !fold(r, v[0], &k[i].key))
			return false;
	}
	return sort_keyed(r, k, l.n, jval_truth(v[2]), out);
}

/* ---- map and select ---------------------------------------------------------------------- */

/* map(attribute="a", default=x) */
static int map_attribute(struct run *r, struct gen *g, struct jval *out)
{
	const struct named *kw = g->args.kw;
	uint32_t i, n = g->args.n_kw;
	struct jval attribute = jval_none(), other = jval_none();
	int more = jx_iter_next(r, &g->it, out);

	if (more <= 0)
		return more;
	for (i = 0; i < n; i++) {
		if (span_eq(kw[i].name, SPAN("attribute"))) {
			attribute = kw[i].v;
		} else if (span_eq(kw[i].name, SPAN("default"))) {
			other = kw[i].v;
		} else {
			jx_raise(r,
				 "FilterArgumentError: Unexpected keyword argument '" SPAN_FMT "'",
				 SPAN_ARG(kw[i].name));
			return -1;
		}
	}
	if (!jx_get_path(r, *out, attribute, out))
		return -1;
	if (is_undef(*out) && other.kind != JV_NONE)
		*out = other;
	return 1;
}

/* map("filter", ...) */
static int map_filter(struct run *r, struct gen *g, struct jval *out)
{
	struct args rest = { .kw = g->args.kw, .n_kw = g->args.n_kw };
	int more = jx_iter_next(r, &g->it, out);
	struct span name;

	if (more <= 0)		/* also for a false value without a filter's name, which is no error */
		return more;
	rest.v = g->args.v + 1;
	rest.n = g->args.n - 1;
	if (g->args.v[0].kind != JV_STR) {
		jx_unknown(r, "map with a filter that is not a name");
		return -1;
	}
	name = jval_span(g->args.v[0]);
	r->steps += STEPS_CALL + STEPS_NAME;
	return jx_filter_call(r, jx_filter_id(name), name, *out, &rest, out) ? 1 : -1;
}

static int map_nothing(struct run *r, struct gen *g, struct jval *out)
{
	jx_raise(r, "FilterArgumentError: map requires a filter argument");
	return -1;
}

/* Return an empty sequence for a false or empty value, which may be of any type. */
static struct jval source_of(struct jval in)
{
	return jval_truth(in) ? in : jval_list(NULL, 0);
}

bool jx_f_map(struct run *r, struct jval in, const struct args *a, struct jval *out)
{
	bool by_name = false;
	uint32_t i;

	for (i = 0; i < a->n_kw; i++)
		by_name = by_name || span_eq(a->kw[i].name, SPAN("attribute"));
	if (a->n == 0 && by_name)
		return jx_gen_new(r, map_attribute, source_of(in), a, 0, out);
	return jx_gen_new(r, a->n == 0 && jval_truth(in) ? map_nothing : map_filter, source_of(in),
			  a, 0, out);
}

static bool selected(struct run *r, const struct gen *g, struct jval item, bool *is)
{
	const struct args *a = &g->args;
	unsigned off = g->flags & SELECT_ATTR ? 1 : 0;
	struct args rest = { .kw = a->kw, .n_kw = a->n_kw };
	struct span name;

	if (off && a->n == 0)
		return jx_raise(r, "FilterArgumentError: Missing parameter for attribute name");
	if (off && !jx_get_path(r, item, a->v[0], &item))
		return false;
	if (a->n <= off) {
		*is = jval_truth(item);
	} else {
		if (a->v[off].kind != JV_STR)
			return jx_unknown(r, "select with a test that is not a name");
		name = jval_span(a->v[off]);
		rest.v = a->v + off + 1;
		rest.n = a->n - off - 1;
		r->steps += STEPS_CALL + STEPS_NAME;
		if (!jx_test_call(r, jx_test_id(name), name, item, &rest, is))
			return false;
	}
	*is = *is != ((g->flags & SELECT_NOT) != 0);
	return true;
}

static int select_next(struct run *r, struct gen *g, struct jval *out)
{
	bool is;
	int more;

	while ((more = jx_iter_next(r, &g->it, out)) > 0) {
		if (!step(r) || !selected(r, g, *out, &is))
			return -1;
		if (is)
			return 1;
	}
	return more;
}

bool jx_f_select(struct run *r, struct jval in, const struct args *a, unsigned how,
		 struct jval *out)
{
	return jx_gen_new(r, select_next, source_of(in), a, how, out);
}
