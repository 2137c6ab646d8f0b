/* rules_vars.c - the list of variables that an answer sets, the argument "vars" of the message
 * route, and those that the configuration reads:
 *
 *   args vars=var(proc.kvroute_vars)            of the message, or vars=str(LIST)
 *   set-var proc.kvroute_vars str(LIST)         in global */
#include "agent/doctor/attach.h"
#include "agent/doctor/doctor_in.h"

/* ---- what is read -------------------------------------------------------------------------- */

/* Tell if the variable that begins at <at> of <word> is set there, and not read. */
static bool is_set_at(const char *word, const char *at)
{
	static const char *const rules[] = { "set-var(", "set-var-fmt(" };
	size_t n;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		n = strlen(rules[i]);
		if ((size_t)(at - word) >= n && memcmp(at - n, rules[i], n) == 0)
			return true;
	}
	return false;
}

static bool word_reads(const char *word, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = word; (p = strstr(p, name)) != NULL; p += n) {
		if (dr_has_variable(span_of(p, n + (p[n] != '\0')), name) && !is_set_at(word, p))
			return true;
	}
	return false;
}

static const struct dr_line *lines_read(const dr_lines *lines, const char *name)
{
	for (size_t i = 0; i < lines->n; i++) {
		for (unsigned w = 0; w < lines->p[i].n; w++) {
			if (word_reads(lines->p[i].w[w], name))
				return &lines->p[i];
		}
	}
	return NULL;
}

/* Return the first line that reads the variable <v>; NULL: none does. */
static const struct dr_line *reader_of(struct doctor *d, const char *prefix, unsigned v)
{
	const char *name = dr_printf(&d->mem, "txn.%s.%s", prefix, route_var_names[v].p);
	const struct dr_line *l = NULL;

	for (size_t i = 0; i < d->sections.n && l == NULL; i++)
		l = lines_read(&d->sections.p[i].lines, name);
	for (size_t i = 0; i < d->attached.n && l == NULL; i++) {
		const spoe_parts *m = &d->attached.p[i].spoe.messages;

		for (size_t k = 0; k < m->n && l == NULL; k++)
			l = lines_read(&m->p[k].lines, name);
	}
	return l;
}

uint32_t dr_vars_read(struct doctor *d, const char *prefix)
{
	uint32_t vars = 0;

	for (unsigned v = 0; v < N_VARS; v++)
		vars |= (uint32_t)(reader_of(d, prefix, v) != NULL) << v;
	return vars;
}

const char *dr_vars_text(struct doctor *d, uint32_t vars)
{
	static const enum route_var first[] = { VAR_SERVER, VAR_ALT, VAR_WHY };
	const char *text = "";

	for (unsigned i = 0; i < 3 + N_VARS; i++) {
		unsigned v = i < 3 ? first[i] : i - 3;

		if (!(vars >> v & 1))
			continue;
		vars &= ~(1u << v);
		text = dr_printf(&d->mem, "%s%s%s", text, text[0] != '\0' ? "+" : "", route_var_names[v].p);
	}
	return text;
}

/* ---- what is listed ------------------------------------------------------------------------ */

struct listed {
	uint32_t vars;
	const struct dr_line *at;	/* the line with the list; NULL: all are set, or it is unknown */
	const char *begin;		/* of what to write instead, up to "str(" */
};

/* Take <expr> if it is "str(LIST)". */
static void take_list(struct listed *to, const struct dr_line *at, const char *expr)
{
	const char *end = strchr(expr, ')');

	to->at = NULL;
	to->vars = VARS_ALL;
	if (!dr_starts(expr, "str(") || end == NULL || end[1] != '\0' || end == expr + 4)
		return;
	to->at = at;
	to->vars = route_vars(span_of(expr + 4, (size_t)(end - expr - 4)));
}

/* Take the list in the variable <name>, which only "global" sets. */
static void take_global(struct doctor *d, struct listed *to, const char *name)
{
	const char *set = dr_printf(&d->mem, "set-var(%s", name);

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		for (size_t k = 0; k < s->lines.n; k++) {
			const struct dr_line *l = &s->lines.p[k];

			if (s->kind == DR_GLOBAL && dr_starts(l->w[0], "set-var") && dr_is(l->w[1], name)) {
				take_list(to, l, dr_is(l->w[0], "set-var") ? l->w[2] : "");
			} else if (dr_starts(l->w[1], set)) {
				*to = (struct listed){ .vars = VARS_ALL };
				return;
			}
		}
	}
	to->begin = dr_printf(&d->mem, "set-var %s ", name);
}

static struct listed listed_by(struct doctor *d, const struct dr_attached *a)
{
	struct listed to = { .vars = VARS_ALL, .begin = "vars=" };
	const struct dr_line *at = NULL;
	const char *arg = dr_spoe_arg(dr_spoe_message(&a->spoe, "route"), "vars=", &at);

	if (arg != NULL && dr_starts(arg, "var(proc.") && strchr(arg, ')') != NULL)
		take_global(d, &to, dr_text(&d->mem, arg + 4, strcspn(arg + 4, ",)")));
	else if (arg != NULL)
		take_list(&to, at, arg);
	return to;
}

static const char *prefix_of(const struct dr_attached *a)
{
	const struct dr_line *l = dr_part_line(&a->spoe.agents.p[0], "option", "var-prefix");

	return l != NULL ? l->w[2] : a->spoe.agents.p[0].name;
}

/* Return what other engines set under the same prefix: all, or of the message model, its model. */
static uint32_t set_by_others(struct doctor *d, const struct dr_attached *a)
{
	uint32_t vars = 0;

	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *b = &d->attached.p[i];

		if (b == a || b->spoe.agents.n == 0 || !dr_is(prefix_of(a), prefix_of(b)) ||
		    (dr_is(a->path, b->path) && dr_is(a->engine, b->engine)))
			continue;
		vars |= b->routes ? listed_by(d, b).vars : 1u << VAR_MODEL;
	}
	return vars;
}

/* ---- rule ---------------------------------------------------------------------------------- */

void dr_check_vars(struct doctor *d, const struct dr_attached *a)
{
	struct listed list;
	const char *all, *prefix;
	uint32_t left;

	if (!a->routes || a->spoe.agents.n == 0 || (list = listed_by(d, a)).at == NULL)
		return;
	prefix = prefix_of(a);
	left = dr_vars_read(d, prefix) & ~(list.vars | set_by_others(d, a));
	all = dr_vars_text(d, list.vars | left);
	for (unsigned v = 0; v < N_VARS; v++) {
		if (left >> v & 1)
			dr_say(d, DR_VARS_LEFT_OUT, reader_of(d, prefix, v), route_var_names[v].p,
			    "%swrite in %s, line %u: %sstr(%s)%s", d->marked ? "take the diff of --update, or " : "",
			    list.at->file, list.at->no, list.begin, all, d->marked ? " " DOCTOR_MARK : "");
	}
}

bool doctor_sets(struct doctor *d, const char *backend, const char *name)
{
	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		if (a->routes && a->spoe.agents.n > 0 && dr_is(d->sections.p[a->section].name, backend))
			return (listed_by(d, a).vars & route_vars(span_str(name))) != 0;
	}
	return true;
}
