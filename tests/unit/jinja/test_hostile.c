/* Crafted templates and texts that try to occupy a thread. Each ends quickly or at the bound of
 * steps. They would run for years if comparisons and searches were not counted or were repeated. */
#include "tests/unit/jinja/render.h"

static enum jinja_result render(const char *template, const char *vars)
{
	struct err e;
	struct jinja *t = jinja_compile(span_str(template), &e);
	struct jinja_mem *m = jinja_mem_new(1 << 26, &test_key);
	struct rendered r;
	struct jval v;
	size_t at;

	if (t == NULL)
		fail_msg("%s", e.text);
	assert_int_equal(jval_from_json(m, span_str(vars), 0, &v, &at), 0);
	r = render_dict(t, m, v.d);
	buf_free(&r.text);
	jinja_mem_free(m);
	jinja_free(t);
	return r.result;
}

/* Each list holds the list of the level below twice, so a comparison at level sixty would visit
 * 2^60 lists. */
static void lists_that_double(void **state)
{
	static const char make[] = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
		"{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
	static const char *const use[] = {
		"{{ ns.a == ns.b }}", "{{ ns.a is eq(ns.b) }}", "{{ ns.a in [ns.b] }}",
		"{{ [ns.b].count(ns.a) }}", "{{ [ns.b].index(ns.a) }}",
		"{{ [ns.a] < [ns.b] }}",
	};
	char text[600];

	for (size_t i = 0; i < sizeof(use) / sizeof(use[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", make, use[i]);
		assert_int_equal(render(text, "{}"), JINJA_LIMIT);
	}
}

static void tuples_that_double(void **state)
{
	static const char make[] = "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}"
		"{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}{% endfor %}";
	static const char *const use[] = {
		"{{ {}.get(ns.a) }}", "{{ {ns.a: 1}.get(ns.b) }}",
		"{{ [ns.a, ns.b] | unique | list | length }}",
	};
	char text[600];

	for (size_t i = 0; i < sizeof(use) / sizeof(use[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", make, use[i]);
		assert_int_not_equal(render(text, "{}"), JINJA_OK);
	}
}

static char *letters(const char *before, size_t n, const char *between, size_t m,
    const char *behind)
{
	size_t all = strlen(before) + n + strlen(between) + m + strlen(behind);
	char *p = malloc(all + 1), *q = p;

	assert_non_null(p);
	q = stpcpy(q, before);
	memset(q, 'a', n);
	q = stpcpy(q + n, between);
	memset(q, 'a', m);
	strcpy(q + m, behind);
	return p;
}

/* The text to search for may also come from the request body. */
static void find_last_in_one_letter(void **state)
{
	static const char *const use[] = { "{{ x.rfind(y) }}", "{{ x.rpartition(y) | length }}",
		"{{ x.rsplit(y) | length }}" };
	char *vars = letters("{\"x\":\"", 1600000, "\",\"y\":\"", 800000, "b\"}");

	for (size_t i = 0; i < sizeof(use) / sizeof(use[0]); i++)
		assert_int_equal(render(use[i], vars), JINJA_OK);
	free(vars);
}

static void strip_with_many_characters(void **state)
{
	char *vars = letters("{\"x\":\"", 400000, "\",\"y\":\"", 0, "b\"}"),
	     *set = letters("{\"y\":\"", 400000, "b\",\"x\":\"", 0, "\"}");

	assert_int_equal(render("{{ ('b' * 200000).strip(y) }}", set), JINJA_LIMIT);
	assert_int_equal(render("{{ x.strip('a') }}", vars), JINJA_OK);
	free(vars);
	free(set);
}

/* ---- the last occurrence --------------------------------------------------------------------- */

static const char *slowly(struct span in, struct span what)
{
	if (what.n > in.n)
		return NULL;
	for (size_t i = in.n - what.n + 1; i > 0; i--)
		if (memcmp(in.p + i - 1, what.p, what.n) == 0)
			return in.p + i - 1;
	return NULL;
}

/* Search in texts of two letters, for texts around the length from which the search uses a table.
 */
static void find_last_matches_the_reference(void **state)
{
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	unsigned x = 1, found = 0;
	char in[400], what[100];
	const char *at;

	for (unsigned round = 0; round < 20000; round++) {
		size_t n = round % sizeof(in), k = round / 7 % 100, from;

		for (size_t i = 0; i < n; i++) {
			x = x * 1103515245 + 12345;
			in[i] = (x >> 24) % 16 == 0 ? 'b' : 'a';
		}
		for (size_t i = 0; i < k; i++)
			what[i] = 'a';
		x = x * 1103515245 + 12345;
		from = n > k ? (x >> 16) % (n - k) : 0;
		if (n > k && round % 3 > 0)
			memcpy(what, in + from, k);
		jinja_mem_reset(m);
		assert_true(jinja_find_last(m, span_of(in, n), span_of(what, k), &at));
		assert_ptr_equal(at, slowly(span_of(in, n), span_of(what, k)));
		found += at != NULL && k > 64;
	}
	assert_true(found > 1000);
	jinja_mem_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find_last_matches_the_reference),
		cmocka_unit_test(strip_with_many_characters),
		cmocka_unit_test(find_last_in_one_letter),
		cmocka_unit_test(lists_that_double),
		cmocka_unit_test(tuples_that_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
