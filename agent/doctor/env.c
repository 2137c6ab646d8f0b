/* env.c - environment variables, as lines of "global" change them, and their use in addresses. */
#include <ctype.h>

#include "agent/doctor/doctor_in.h"

const char *dr_env_get(const struct dr_env *e, struct span name)
{
	for (size_t i = e->vars.n; i-- > 0;) {
		if (span_eq(e->vars.p[i].name, name))
			return e->vars.p[i].value;
	}
	for (const char *const *v = e->env; v != NULL && *v != NULL; v++) {
		if (strncmp(*v, name.p, name.n) == 0 && (*v)[name.n] == '=')
			return *v + name.n + 1;
	}
	return NULL;
}

static void set(struct doctor *d, struct span name, const char *value)
{
	if (vec_push(&d->env.vars, (struct dr_var){ name, value }) < 0)
		d->mem.nomem = true;
}

/* Unset all variables but those that <l> names. */
static void reset(struct doctor *d, const struct dr_line *l)
{
	size_t n = d->env.vars.n;
	struct span name;

	for (size_t i = 0; i < n; i++) {
		name = d->env.vars.p[i].name;
		if (dr_word(l, dr_text(&d->mem, name.p, name.n), 1) == 0)
			d->env.vars.p[i].value = NULL;
	}
	for (const char *const *v = d->env.env; v != NULL && *v != NULL; v++) {
		name = span_of(*v, strcspn(*v, "="));
		if (dr_word(l, dr_text(&d->mem, name.p, name.n), 1) == 0)
			set(d, name, NULL);
	}
}

void dr_take_env(struct doctor *d, const struct dr_line *l)
{
	if (dr_is(l->w[0], "setenv") && l->n > 2)
		set(d, span_str(l->w[1]), l->w[2]);
	else if (dr_is(l->w[0], "presetenv") && l->n > 2 &&
	    dr_env_get(&d->env, span_str(l->w[1])) == NULL)
		set(d, span_str(l->w[1]), l->w[2]);
	else if (dr_is(l->w[0], "resetenv"))
		reset(d, l);
	for (unsigned i = 1; dr_is(l->w[0], "unsetenv") && i < l->n; i++)
		set(d, span_str(l->w[i]), NULL);
}

/* Append the value of the variable at <p>, which is after "$". Returns the place after it. */
static const char *put_variable(struct doctor *d, struct buf *b, const char *p)
{
	bool brace = *p == '{';
	const char *from = p += brace, *value;

	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	value = dr_env_get(&d->env, span_of(from, (size_t)(p - from)));
	buf_str(b, value != NULL ? value : "");
	return p + (brace && *p == '}');
}

const char *dr_address(struct doctor *d, const char *word)
{
	struct buf b = { 0 };
	const char *text;

	if (strchr(word, '$') == NULL)
		return word;
	while (*word != '\0') {
		size_t plain = strcspn(word, "$");

		buf_add(&b, word, plain);
		word += plain;
		if (*word == '$')
			word = put_variable(d, &b, word + 1);
	}
	d->mem.nomem = d->mem.nomem || b.failed;
	text = dr_text(&d->mem, b.p, b.n);
	buf_free(&b);
	return text;
}
