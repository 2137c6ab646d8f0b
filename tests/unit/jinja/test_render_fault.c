/* Each allocation of compiling, reading JSON and rendering fails once, in turn: the call returns an
 * error, nothing leaks, and the next try gives the right text. */
#include <errno.h>

#include "tests/unit/fault.h"
#include "tests/unit/jinja/render.h"

static const char template[] =
	"{% macro m(x, y=2) %}{% set z | upper %}{{ x }}{{ y }}{% endset %}{{ z }}{{ caller() if caller "
	"}}{% endmacro %}"
	"{% for a in v.list if a != 'no' %}{{ loop.index }}{{ m(a) }}{% call m(1) %}{{ a }}{% endcall "
	"%}{% endfor %}"
	"{% set n = namespace(a=1) %}{% set n.b = [1, {'x': (2,)}] %}{{ n.b|tojson(indent=2) }}{{ n.b }}"
	"{{ v.text.split(' ')|join('-') }}"
	"{{ v.list|map('title')|select('string')|sort|unique|list }}{{ v|dictsort }}{{ '%s:%d' % ('a', "
	"2) }}"
	"{{ '{}'.format(1.5) }}"
	"{{ 'x' ~ v.text|indent }}{{ range(3)|list }}{{ strftime_now('%Y') }}{{ ('<'|safe) + v.text }}{{ "
	"dict(a=1, **v)|length }}"
	"{% if v.big|length > 9 %}{{ v.big.k11 }}{% endif %}{{ v.list[::-1] }}{{ 'a' * 40000 }}";
static const char vars[] =
	"{\"v\": {\"list\": [\"a\", \"no\", \"b\\u00e9\\n\"], \"text\": \"two words\", \"f\": 1.5, "
	"\"big\": {\"k1\":1"
	",\"k2\":1,\"k3\":1,\"k4\":1,"
	"\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1,\"k9\":1,\"k10\":1,\"k11\":[[[]]],\"k12\":1}}}";

/* Return the rendered text; NULL if an allocation failed. */
static char *story(void)
{
	struct jinja_mem *m = jinja_mem_new(4 << 20, &test_key);
	struct jinja_limits l = jinja_limits_defaults();
	struct buf text = { .max = 1 << 20 };
	struct err e = { 0 };
	struct jinja *t = jinja_compile(span_str(template), &e);
	struct jval v;
	enum jinja_result result = JINJA_NO_MEMORY;

	if (t == NULL)
		assert_non_null(strstr(e.text, "memory"));
	if (m != NULL && t != NULL) {
		if (jval_from_json(m, span_str(vars), 0, &v, NULL) == 0)
			result = jinja_render(t, m, v.d, &story_time, &l, jinja_buf_sink, &text, NULL);
		else
			assert_int_equal(errno, ENOMEM);
		assert_true(result == JINJA_OK || result == JINJA_NO_MEMORY ||
		    (result == JINJA_STOPPED && !text.full));
	}
	jinja_free(t);
	jinja_mem_free(m);
	if (result == JINJA_OK && jinja_buf_sink(&text, "", 1, JINJA_CONST))
		return text.p;
	buf_free(&text);
	return NULL;
}

static void test_each_fails_once(void **state)
{
	char *good = story(), *p;
	unsigned long k;

	assert_non_null(good);
	for (k = 1; ; k++) {
		fault_begin(k);
		p = story();
		if (!fault_end())
			break;
		assert_null(p);
	}
	assert_string_equal(p, good);
	assert_true(k > 8);
	mem_free(p);
	mem_free(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
