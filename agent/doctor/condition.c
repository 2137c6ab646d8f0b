/* condition.c - the condition of a ".if" (manual, 2.4): predicates joined by "!", "&&", "||" and
 * parentheses. What only HAProxy's own process could tell, such as enabled(POLL), is true. */
#include <ctype.h>
#include <stdlib.h>

#include "agent/doctor/doctor_in.h"

#define NESTED_MOST	32

struct condition {
	const struct doctor_opts *o;
	const struct dr_env *env;
	const char *p, *why;
	unsigned nested;
};

static bool eval_or(struct condition *c);

static void skip_blanks(struct condition *c)
{
	while (isspace((unsigned char)*c->p))
		c->p++;
}

/* Take the text up to one of <stops>, without blanks around it. */
static struct span take_text(struct condition *c, const char *stops)
{
	const char *from, *end;

	skip_blanks(c);
	from = c->p;
	c->p += strcspn(c->p, stops);
	for (end = c->p; end > from && isspace((unsigned char)end[-1]); end--)
		continue;
	return span_of(from, (size_t)(end - from));
}

/* Return the number of "3.0.11-1" in the form of DOCTOR_VERSION(). */
static int version_of(struct span s)
{
	int part[3] = { 0, 0, 0 }, i = 0;

	for (size_t k = 0; k < s.n && i < 3; k++) {
		if (isdigit((unsigned char)s.p[k]))
			part[i] = part[i] < 1000 ? part[i] * 10 + s.p[k] - '0' : 999;
		else if (s.p[k] == '.')
			i++;
		else
			break;
	}
	return DOCTOR_VERSION(part[0] % 1000, part[1] % 1000, part[2] % 1000);
}

/* "+THREAD" is in the list of features. */
static bool has_feature(const char *list, struct span name)
{
	if (list == NULL)
		return true;
	for (const char *p = list; (p = strchr(p, '+')) != NULL; p++) {
		if (strncmp(p + 1, name.p, name.n) == 0 &&
		    (p[1 + name.n] == ' ' || p[1 + name.n] == '\0' || p[1 + name.n] == '\n'))
			return true;
	}
	return false;
}

static bool span_has(struct span text, struct span part)
{
	return part.n == 0 || memmem(text.p, text.n, part.p, part.n) != NULL;
}

static bool predicate(struct condition *c, struct span name, struct span a, struct span b)
{
	if (span_eq(name, SPAN("version_atleast")))
		return c->o->version >= version_of(a);
	if (span_eq(name, SPAN("version_before")))
		return c->o->version < version_of(a);
	if (span_eq(name, SPAN("defined")))
		return dr_env_get(c->env, a) != NULL;
	if (span_eq(name, SPAN("feature")))
		return has_feature(c->o->features, a);
	if (span_eq(name, SPAN("streq")))
		return span_eq(a, b);
	if (span_eq(name, SPAN("strneq")))
		return !span_eq(a, b);
	if (span_eq(name, SPAN("strstr")))
		return span_has(a, b);
	if (span_eq(name, SPAN("openssl_version_before")) ||
	    span_eq(name, SPAN("awslc_api_before")))
		return false;
	if (span_eq(name, SPAN("enabled")) || span_eq(name, SPAN("openssl_version_atleast")) ||
	    span_eq(name, SPAN("ssllib_name_startswith")) ||
	    span_eq(name, SPAN("awslc_api_atleast")))
		return true;
	c->why = "unknown predicate after .if";
	return false;
}

static bool eval_term(struct condition *c)
{
	struct span name, a, b = SPAN("");
	bool yes;

	skip_blanks(c);
	if ((*c->p == '!' || *c->p == '(') && ++c->nested > NESTED_MOST) {
		c->why = "the condition is nested too deeply";
		return false;
	}
	if (*c->p == '!') {
		c->p++;
		return !eval_term(c);
	}
	if (*c->p == '(') {
		c->p++;
		yes = eval_or(c);
		skip_blanks(c);
		if (*c->p != ')') {
			c->why = "a \"(\" has no \")\"";
			return false;
		}
		c->p++;
		return yes;
	}
	name = take_text(c, "(&|) \t");
	if (*c->p != '(') {
		if (name.n == 0 || !isdigit((unsigned char)name.p[0]))
			c->why = "a condition is neither a predicate nor a number";
		return name.n > 0 && strtol(name.p, NULL, 10) != 0;
	}
	c->p++;
	a = take_text(c, ",)");
	if (*c->p == ',') {
		c->p++;
		b = take_text(c, ")");
	}
	if (*c->p != ')') {
		c->why = "a predicate has no \")\"";
		return false;
	}
	c->p++;
	return predicate(c, name, a, b);
}

/* Evaluate terms joined by <mark>, "&&" or "||". All of them are read. */
static bool eval_and(struct condition *c)
{
	bool yes = eval_term(c);

	for (skip_blanks(c); c->why == NULL && c->p[0] == '&' && c->p[1] == '&'; skip_blanks(c)) {
		c->p += 2;
		yes = eval_term(c) && yes;
	}
	return yes;
}

static bool eval_or(struct condition *c)
{
	bool yes = eval_and(c);

	for (skip_blanks(c); c->why == NULL && c->p[0] == '|' && c->p[1] == '|'; skip_blanks(c)) {
		c->p += 2;
		yes = eval_and(c) || yes;
	}
	return yes;
}

int dr_condition(const struct doctor_opts *o, const struct dr_env *env, const char *text,
		 const char **why)
{
	struct condition c = { .o = o, .env = env, .p = text };
	bool yes;

	skip_blanks(&c);
	if (*c.p == '\0')
		return 0;
	yes = eval_or(&c);
	if (c.why == NULL && *c.p != '\0')
		c.why = "a condition has words after its end";
	*why = c.why;
	return c.why != NULL ? -1 : yes;
}
