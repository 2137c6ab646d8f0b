/* The origin of each piece of output, and each limit just met and just exceeded. */
#include "tests/unit/jinja/render.h"

static struct jinja *compile(const char *text)
{
	struct err e = { 0 };
	struct jinja *t = jinja_compile(span_str(text), &e);

	if (t == NULL)
		printf("%d: %s\n", e.line, e.text);
	assert_non_null(t);
	return t;
}

static enum jinja_result run(const char *text, struct jinja_mem *m, struct jinja_limits limits,
    struct jinja_error *why)
{
	struct buf out = { .max = 1 << 20 };
	struct jinja *t = compile(text);
	struct jval vars = jval_dict(m, 0);
	enum jinja_result result;

	assert_true(jdict_put_str(m, vars.d, "word", jval_str("value", 5)));
	result = jinja_render(t, m, vars.d, NULL, &limits, jinja_buf_sink, &out, why);
	buf_free(&out);
	jinja_free(t);
	return result;
}

/* ---- origins --------------------------------------------------------------------------------- */

struct pieces {
	struct { const char *p; size_t n; enum jinja_origin origin; } v[64];
	unsigned n, stop_at;
};

static bool note(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	struct pieces *s = arg;

	assert_true(n > 0);
	assert_true(s->n < 64);
	s->v[s->n].p = p;
	s->v[s->n].n = n;
	s->v[s->n].origin = origin;
	return ++s->n != s->stop_at;
}

static enum jinja_result pieces_of(const struct jinja *t, struct jinja_mem *m, struct jval content,
    struct pieces *s)
{
	struct jinja_limits limits = jinja_limits_defaults();
	struct jval vars = jval_dict(m, 0);

	assert_true(jdict_put_str(m, vars.d, "content", content));
	return jinja_render(t, m, vars.d, NULL, &limits, note, s, NULL);
}

static void test_origins(void **state)
{
	static const char body[] = "  said  ";
	struct jinja *t = compile("<a>{{ '<b>' + content + '<c>' ~ '<d>' }}{% macro m() %}<e>{{ content "
		"| trim }}{% endmacro %}"
				  "{{ m() }}{{ '<f>' if content else content }}{% set x = '<g>' %}{{ x }}"
				  "{{ x ~ content }}{{ x + x }}");
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	struct pieces one = { .n = 0 }, two = { .n = 0 };
	unsigned i, constants = 0;

	assert_int_equal(pieces_of(t, m, jval_str(body, 8), &one), JINJA_OK);
	assert_int_equal(pieces_of(t, m, jval_str("other", 5), &two), JINJA_OK);
	assert_int_equal(one.n, two.n);
	for (i = 0; i < one.n; i++) {
		assert_int_equal(one.v[i].origin, two.v[i].origin);
		if (one.v[i].origin != JINJA_CONST)
			continue;
		assert_ptr_equal(one.v[i].p, two.v[i].p);
		assert_int_equal(one.v[i].n, two.v[i].n);
		constants++;
	}
	assert_int_equal(one.n, 12);
	assert_int_equal(constants, 8);
	/* text that the template does not change is not copied */
	assert_ptr_equal(one.v[2].p, body);
	assert_ptr_equal(one.v[5].p, body + 2);
	assert_int_equal(one.v[5].n, 4);
	jinja_mem_free(m);
	jinja_free(t);
}

static void test_stopped(void **state)
{
	struct jinja *t = compile("a{{ content }}b{{ content }}c");
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	struct pieces s = { .stop_at = 3 };

	assert_int_equal(pieces_of(t, m, jval_str("x", 1), &s), JINJA_STOPPED);
	assert_int_equal(s.n, 3);
	jinja_mem_free(m);
	jinja_free(t);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Raise a limit from 0 until <text> renders. Every smaller limit must give JINJA_LIMIT. */
static void least(const char *text, bool steps)
{
	struct jinja_limits l = jinja_limits_defaults();
	struct jinja_mem *m;
	enum jinja_result result = JINJA_LIMIT;
	unsigned n;

	for (n = 0; result != JINJA_OK; n++) {
		m = jinja_mem_new(1 << 20, &test_key);
		if (steps)
			l.steps = n;
		else
			l.depth = n;
		result = run(text, m, l, NULL);
		assert_true(result == JINJA_OK || result == JINJA_LIMIT);
		assert_true(n < 100000);
		jinja_mem_free(m);
	}
	assert_true(n > 3);
}

static void test_steps_and_depth(void **state)
{
	static const char text[] = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{{ word|upper }}"
		"{% endmacro %}"
		"{% for i in range(3) %}{{ f(i) }}{{ [[i]]|tojson }}{% endfor %}{{ [1, 2]|map('string')|join }}";

	least(text, true);
	least(text, false);
}

static void test_output(void **state)
{
	struct jinja_limits l = jinja_limits_defaults();
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);

	l.output = 10;
	assert_int_equal(run("{{ word }}{{ word }}", m, l, NULL), JINJA_OK);
	assert_int_equal(run("{{ word }}{{ word }}.", m, l, NULL), JINJA_LIMIT);
	assert_int_equal(run("{% set x = 'a' * 1000000000 %}", m, l, NULL), JINJA_LIMIT);
	jinja_mem_free(m);
}

/* Endless growth reaches one of the limits. */
static void test_endless(void **state)
{
	static const char *const texts[] = {
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('aaaaaaaa') }}",
		"{% set n = namespace(x=[]) %}{% for a in range(100000) %}{% set n.x = [n.x] %}{% endfor %}{{ "
		"n.x|tojson }}",
		"{% set n = namespace(x=[]) %}{% for a in range(100000) %}{% set n.x = [n.x] %}{% endfor %}{{ "
		"n.x }}",
		"{% set n = namespace(x=()) %}{% for a in range(100000) %}{% set n.x = (n.x,) %}{% endfor %}"
		"{{ n.x < ((),) }}{{ n.x|string }}",
		"{% set n = namespace(x='a') %}{% for a in range(100000) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
		"{% set n = namespace(x=[1]) %}{% for a in range(100000) %}{% set n.x = n.x + n.x %}{% endfor %}",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"{% set n = namespace(x=[1]) %}{% for a in range(100000) %}{% set n.x = n.x|map('string') %}{% "
		"endfor %}"
		"{{ n.x|list }}",
		"{% set n = namespace() %}{% set n.x = n %}{{ n }}",
	};
	struct jinja_limits l = jinja_limits_defaults();
	struct jinja_mem *m;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		m = jinja_mem_new(16 << 20, &test_key);
		assert_int_equal(run(texts[i], m, l, NULL), JINJA_LIMIT);
		jinja_mem_free(m);
	}
}

/* Deeply nested values are compared and hashed within limits, too. */
static void test_deep_values(void **state)
{
	static const char text[] = "{% set n = namespace(x=(), y=()) %}{% for a in range(5000) %}{% set "
		"n.x = (n.x,) %}"
		"{% set n.y = (n.y,) %}"
		"{% endfor %}{{ n.x == n.y }}{{ {}.get(n.x) }}";
	struct jinja_mem *m = jinja_mem_new(16 << 20, &test_key);
	struct jinja_error why;

	assert_int_equal(run(text, m, jinja_limits_defaults(), &why), JINJA_RAISED);
	assert_non_null(strstr(why.text, "unhashable"));
	jinja_mem_free(m);
}

static void test_deep_templates(void **state)
{
	static const char *const open[] = { "(", "[", "{% if 1 %}", "not ", "-", "a[", "a if " };
	char text[20000];
	struct err e;
	size_t i, k, n;

	for (i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		n = (size_t)sprintf(text, "%s", open[i][0] == '{' ? "" : "{{ ");
		for (k = 0; k < 1500; k++)
			n += (size_t)sprintf(text + n, "%s", open[i]);
		assert_null(jinja_compile(span_of(text, n), &e));
	}
	n = (size_t)sprintf(text, "{{ 1");
	for (k = 0; k < 1000; k++)
		n += (size_t)sprintf(text + n, "+1");
	n += (size_t)sprintf(text + n, "}}");
	assert_null(jinja_compile(span_of(text, n), &e));
	assert_non_null(strstr(e.text, "deep"));
}

static void test_memory(void **state)
{
	struct jinja_limits l = jinja_limits_defaults();
	struct jinja_error why;
	struct jinja_mem *m = jinja_mem_new(64 << 10, &test_key);
	unsigned i;

	assert_int_equal(run("{% set x = 'a' * 30000 %}ok", m, l, &why), JINJA_OK);
	assert_int_equal(run("{% set x = 'a' * 90000 %}", m, l, &why), JINJA_LIMIT);
	for (i = 0; i < 100; i++) {
		jinja_mem_reset(m);
		assert_int_equal(run("{% set x = 'a' * 30000 %}ok", m, l, &why), JINJA_OK);
	}
	jinja_mem_wipe(m);
	assert_int_equal(jinja_mem_used(m), 0);
	jinja_mem_free(m);
}

static void test_no_time(void **state)
{
	struct jinja_mem *m = jinja_mem_new(64 << 10, &test_key);

	assert_int_equal(run("{{ strftime_now('%Y') }}", m, jinja_limits_defaults(), NULL), JINJA_UNKNOWN);
	jinja_mem_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_steps_and_depth),
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_deep_values),
		cmocka_unit_test(test_deep_templates),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
