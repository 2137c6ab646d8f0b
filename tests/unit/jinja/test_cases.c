/* The cases in tests/data/jinja; the first lines of each file explain its format. The answers are
 * those of Python's Jinja2 (tests/tools/oracle_jinja.py), except for templates that only this
 * engine refuses. */
#include <glob.h>

#include "tests/unit/jinja/render.h"

struct kase {
	const char *file, *name;
	char *template, *vars, *answer;		/* <vars> is NULL if there are none */
};

static unsigned say(const struct kase *k, const char *what, const char *got, size_t n)
{
	printf("%s: %s: %s: %.*s\n    wanted: %s\n", k->file, k->name, what, (int)n, got, k->answer);
	return 1;
}

/* Compare an error with the answer "XX line words". */
static unsigned check_refused(const struct kase *k, const struct err *e)
{
	char *words;
	long line = strtol(k->answer + 3, &words, 10);

	if (strncmp(k->answer, "XX ", 3) != 0)
		return say(k, "refused", e->text, strlen(e->text));
	words += strspn(words, " ");
	if ((line != 0 && line != e->line) || e->text[0] == '\0' || strstr(e->text, words) == NULL) {
		printf("line %d: ", e->line);
		return say(k, "refused", e->text, strlen(e->text));
	}
	return 0;
}

static unsigned check_text(const struct kase *k, struct jinja_mem *m, const struct buf *t)
{
	struct jval want;

	if (strncmp(k->answer, "-> ", 3) != 0)
		return say(k, "text", t->p, t->n);
	assert_int_equal(jval_from_json(m, span_str(k->answer + 3), 0, &want, NULL), 0);
	if (span_eq(jval_span(want), span_of(t->p, t->n)))
		return 0;
	return say(k, "text", t->p, t->n);
}

/* Return whether both errors are of the same kind: the word before the colon. The rest may differ
 * from Python's. */
static bool same_error(const char *answer, const char *text)
{
	size_t n = strcspn(text, ":");

	return strncmp(answer, "!! ", 3) == 0 && strcspn(answer + 3, ":") == n &&
	    memcmp(answer + 3, text, n) == 0;
}

static unsigned check_result(const struct kase *k, struct jinja_mem *m, const struct jinja *t)
{
	struct jinja_limits limits = jinja_limits_defaults();
	struct buf text = { .max = 1 << 20 };
	struct jval vars = jval_dict(m, 0);
	struct jinja_error why;
	enum jinja_result result;
	unsigned bad = 0;

	if (k->vars != NULL)
		assert_int_equal(jval_from_json(m, span_str(k->vars), 0, &vars, NULL), 0);
	result = jinja_render(t, m, vars.d, &story_time, &limits, jinja_buf_sink, &text, &why);
	if (result == JINJA_OK)
		bad = check_text(k, m, &text);
	else if (result == JINJA_RAISED)
		bad = !same_error(k->answer, why.text);
	else
		bad = result != JINJA_UNKNOWN || strncmp(k->answer, "?? ", 3) != 0 ||
		    strstr(why.text, k->answer + 3) == NULL;
	if (bad && result != JINJA_OK)
		say(k, jinja_result_name(result), why.text, strlen(why.text));
	buf_free(&text);
	return bad;
}

static unsigned check(const struct kase *k)
{
	struct jinja_mem *m = jinja_mem_new(16 << 20, &test_key);
	struct err e = { 0 };
	struct jinja *t = jinja_compile(span_str(k->template), &e);
	unsigned bad = t == NULL ? check_refused(k, &e) : check_result(k, m, t);

	jinja_free(t);
	jinja_mem_free(m);
	return bad;
}

/* Cut off and return the line at <*p>; NULL if there is none. */
static char *line(char **p)
{
	char *from = *p, *end;

	if (from == NULL)
		return NULL;
	end = strchr(from, '\n');
	*p = end != NULL ? end + 1 : NULL;
	if (end != NULL)
		*end = '\0';
	return from;
}

static bool is_answer(const char *l)
{
	return strncmp(l, "-> ", 3) == 0 || strncmp(l, "!! ", 3) == 0 ||
	    strncmp(l, "?? ", 3) == 0 || strncmp(l, "XX ", 3) == 0;
}

/* Read a case from the line after its "== " line to its answer. */
static void read_case(char **p, struct kase *k)
{
	char *l, *end = NULL;

	k->template = *p;
	k->vars = NULL;
	while ((l = line(p)) != NULL && !is_answer(l)) {
		if (strncmp(l, "-- ", 3) == 0)
			k->vars = l + 3;
		else if (end == NULL)
			end = l + strlen(l);
		else
			*end = '\n', end = l + strlen(l);
	}
	assert_non_null(l);
	assert_non_null(end);
	*end = '\0';
	k->answer = l;
}

static void check_file(const char *path, unsigned *seen, unsigned *bad)
{
	struct kase k = { .file = path };
	char *text, *p, *l;
	size_t n = 0;

	text = p = whole_file(path, &n);
	assert_non_null(text);
	while ((l = line(&p)) != NULL) {
		if (strncmp(l, "== ", 3) != 0)
			continue;
		k.name = l + 3;
		read_case(&p, &k);
		(*seen)++;
		*bad += check(&k);
	}
	free(text);
}

static void test_files(void **state)
{
	unsigned seen = 0, bad = 0;
	glob_t g;
	size_t i;

	assert_int_equal(glob("tests/data/jinja/*.txt", 0, NULL, &g), 0);
	for (i = 0; i < g.gl_pathc; i++)
		check_file(g.gl_pathv[i], &seen, &bad);
	globfree(&g);
	assert_true(seen > 500);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
