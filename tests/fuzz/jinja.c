/* jinja - a template, and after the first NUL its variables as JSON. Limits of steps, depth, output
 * and memory hold. A second run, a run in reset memory, and a copy of the template give the same
 * text. A piece marked as constant has the same bytes the next time. Values printed as JSON and
 * read again are equal. */
#include <errno.h>

#include "agent/base/mem.h"
#include "agent/jinja/jinja.h"
#include "tests/fuzz/lib/fuzz.h"

#define MEMORY	((size_t)1 << 20)
#define OUTPUT	65536

static const struct jinja_limits limits = { .steps = 20000, .output = OUTPUT, .depth = 200 };
static const struct jinja_time now = { 2026, 8, 1, 12, 0, 0, 0 };
static const struct hash_key key = { "fuzz" };

struct seen {
	char text[OUTPUT];
	size_t n, constants;
	const char *first;
	enum jinja_result result;
	struct jinja_error why;
};

static bool sink(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	struct seen *s = arg;

	must(n > 0 && n <= OUTPUT - s->n);
	memcpy(s->text + s->n, p, n);
	s->n += n;
	if (origin == JINJA_CONST) {
		s->constants += n;
		s->first = s->first != NULL ? s->first : p;
	}
	return true;
}

static void render(const struct jinja *t, struct jinja_mem *m, struct span vars, struct seen *s)
{
	struct jval v;
	size_t at;

	memset(s, 0, sizeof(*s));
	if (jval_from_json(m, vars, 40, &v, &at) != 0 || v.kind != JV_DICT) {
		must(at <= vars.n);
		v = jval_dict(m, 0);
		must(v.kind == JV_DICT || jinja_mem_full(m));
	}
	if (v.kind == JV_DICT)
		s->result = jinja_render(t, m, v.d, &now, &limits, sink, s, &s->why);
	else
		s->result = JINJA_LIMIT;
	must(s->result <= JINJA_LIMIT);
	must(jinja_mem_used(m) <= MEMORY);
	must((s->result == JINJA_OK) == (s->why.text[0] == '\0') || v.kind != JV_DICT);
}

static void same(const struct seen *a, const struct seen *b)
{
	must(a->result == b->result && strcmp(a->why.text, b->why.text) == 0 &&
	    a->why.line == b->why.line);
	must(a->n == b->n && memcmp(a->text, b->text, a->n) == 0 && a->constants == b->constants);
}

/* {{ v|tojson }} of what is read from JSON, read again. */
static void check_json(struct span text)
{
	struct jinja *t = must_alloc(jinja_compile(SPAN("{{ v|tojson }}"), NULL));
	struct jinja_mem *m = must_alloc(jinja_mem_new(MEMORY * 8, &key));
	struct jval v, w, vars;
	static struct seen s;

	memset(&s, 0, sizeof(s));
	if (jval_from_json(m, text, 40, &v, NULL) == 0) {
		vars = jval_dict(m, 1);
		must(jdict_put_str(m, vars.d, "v", v));
		s.result = jinja_render(t, m, vars.d, NULL, &limits, sink, &s, NULL);
		if (s.result == JINJA_OK && memmem(s.text, s.n, "Infinity", 8) == NULL) {
			must(jval_from_json(m, span_of(s.text, s.n), 40, &w, NULL) == 0);
			must(jval_eq(v, w));
		}
	} else {
		must(errno == EINVAL || errno == ENOMEM);
	}
	jinja_mem_free(m);
	jinja_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t n = nul != NULL ? (size_t)(nul - data) : size;
	char *text = exact(data, n),
	     *vars = exact(nul != NULL ? nul + 1 : data, nul != NULL ? size - n - 1 : 0);
	struct span v = span_of(vars, nul != NULL ? size - n - 1 : 0);
	struct err e = { 0 };
	struct jinja *t = jinja_compile(span_of(text, n), &e), *copy;
	struct jinja_mem *m = must_alloc(jinja_mem_new(MEMORY, &key)),
			 *fresh = must_alloc(jinja_mem_new(MEMORY, &key));
	static struct seen one, two;

	must((t == NULL) == (e.text[0] != '\0'));
	if (t != NULL) {
		copy = must_alloc(jinja_compile(span_of(text, n), &e));
		free(text);
		text = NULL;
		render(t, m, v, &one);
		render(copy, fresh, v, &two);
		same(&one, &two);
		jinja_mem_wipe(m);
		render(t, m, v, &two);
		/* a chunk that was kept leaves other room */
		if (one.result != JINJA_LIMIT && two.result != JINJA_LIMIT) {
			same(&one, &two);
			must(one.first == two.first);
		}
		jinja_free(copy);
	}
	check_json(v);
	jinja_free(t);
	jinja_mem_free(m);
	jinja_mem_free(fresh);
	free(text);
	free(vars);
	return 0;
}
