/* routes.c - which backends a frontend leads to: "default_backend" and "use_backend".
 *
 * A dynamic name is resolved where it is plain: a string, a map whose file can be read, with its
 * default, or a variable that this frontend sets to one of these. Of any other the frontend may
 * lead to each backend. */
#include <ctype.h>

#include "agent/doctor/doctor_in.h"

#define MAP_LINES	20000u	/* a larger map is not read */
#define VARS_DEEP	4

struct route_finder {
	struct doctor *d;
	struct dr_section *f;
};

static void add_back(struct route_finder *r, struct span name)
{
	struct doctor *d = r->d;
	const struct dr_section *b = dr_named(d, DR_BACKS, dr_text(&d->mem, name.p, name.n));
	unsigned at;

	if (b == NULL)
		return;
	at = (unsigned)(b - d->sections.p);
	for (size_t i = 0; i < r->f->leads.n; i++) {
		if (r->f->leads.p[i] == at)
			return;
	}
	if (vec_push(&r->f->leads, at) < 0)
		d->mem.nomem = true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Add the value of a line "KEY VALUE" of a map. */
static void add_value(struct route_finder *r, const char *p, const char *end)
{
	const char *from;

	while (p < end && is_blank(*p))
		p++;
	if (p == end || *p == '#')
		return;
	while (p < end && !is_blank(*p))
		p++;
	while (p < end && is_blank(*p))
		p++;
	for (from = p; p < end && !is_blank(*p);)
		p++;
	if (p > from)
		add_back(r, span_of(from, (size_t)(p - from)));
}

static bool add_map(struct route_finder *r, const char *path)
{
	const struct doctor_opts *o = &r->d->o;
	const char *why, *p, *end, *stop;
	struct span text;
	unsigned lines = 0;

	if (o->open == NULL || o->open(o->arg, path, &text, &why) < 0)
		return false;
	for (p = text.n > 0 ? text.p : "", end = p + text.n; p < end; p = stop + 1) {
		if (++lines > MAP_LINES)
			return false;
		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		add_value(r, p, stop);
	}
	return true;
}

/* Return the arguments of the last converter of <expr> if it is a map: "FILE" or "FILE,DEFAULT". */
static struct span map_of(const char *expr)
{
	const char *at = NULL, *open, *close = expr + strlen(expr);

	for (const char *p = expr; (p = strstr(p, ",map")) != NULL; p++)
		at = p;
	if (at == NULL || close[-1] != ')' || (open = strchr(at, '(')) == NULL)
		return SPAN("");
	for (const char *c = at + 1; c < open; c++) {
		if (!isalpha((unsigned char)*c) && *c != '_')
			return SPAN("");
	}
	return strchr(open, ')') != close - 1 ? SPAN("") :
	    span_of(open + 1, (size_t)(close - open - 2));
}

static bool resolve(struct route_finder *r, const char *expr, unsigned deep);

/* Resolve each rule of the frontend that sets the variable <name>. */
static bool resolve_variable(struct route_finder *r, struct span name, unsigned deep)
{
	static const char *const rules[] = { "http-request", "tcp-request" };
	const char *set = dr_printf(&r->d->mem, "set-var(" SPAN_FMT ")", SPAN_ARG(name));
	const char *fmt = dr_printf(&r->d->mem, "set-var-fmt(" SPAN_FMT ")", SPAN_ARG(name));
	bool known = false, all = true;
	unsigned at;

	for (size_t k = 0; k < 2; k++) {
		dr_lines lines = { 0 };

		dr_collect(r->d, r->f, rules[k], &lines);
		for (size_t i = 0; i < lines.n; i++) {
			all = all && dr_word(&lines.p[i], fmt, 1) == 0;
			if ((at = dr_word(&lines.p[i], set, 1)) == 0)
				continue;
			known = true;
			all = all && resolve(r, lines.p[i].w[at + 1], deep + 1);
		}
		vec_free(&lines);
	}
	return known && all;
}

static bool resolve(struct route_finder *r, const char *expr, unsigned deep)
{
	size_t n = strlen(expr);
	struct span map = map_of(expr);
	const char *comma;

	if (deep > VARS_DEEP)
		return false;
	if (map.n > 0) {
		if ((comma = memchr(map.p, ',', map.n)) != NULL)
			add_back(r, span_of(comma + 1, map.n - (size_t)(comma + 1 - map.p)));
		return add_map(r, dr_text(&r->d->mem, map.p, comma != NULL ? (size_t)(comma - map.p) :
		    map.n));
	}
	if (n < 5 || strcspn(expr, ")") != n - 1)
		return false;
	if (dr_starts(expr, "str(")) {
		add_back(r, span_of(expr + 4, n - 5));
		return true;
	}
	return dr_starts(expr, "var(") && resolve_variable(r, span_of(expr + 4, n - 5), deep);
}

static void find_routes(struct doctor *d, struct dr_section *f)
{
	struct route_finder r = { d, f };
	const struct dr_line *l = dr_find(d, f, "default_backend", NULL);
	dr_lines uses = { 0 };

	f->routed = true;
	if (l != NULL)
		add_back(&r, span_str(l->w[1]));
	dr_collect(d, f, "use_backend", &uses);
	for (size_t i = 0; i < uses.n; i++) {
		const char *name = uses.p[i].w[1], *close = name + strlen(name) - 1;

		if (!dr_has(name, "%"))
			add_back(&r, span_str(name));
		else if (!dr_starts(name, "%[") || *close != ']' ||
		    !resolve(&r, dr_text(&d->mem, name + 2, (size_t)(close - name - 2)), 0))
			f->may_lead = uses.p[i];
	}
	vec_free(&uses);
}

enum dr_lead dr_lead(const struct doctor *d, const struct dr_section *f, const struct dr_section *b)
{
	struct dr_section *own = (struct dr_section *)f;

	if (!dr_is_front(f))
		return DR_LEADS_NOT;
	if (f == b)
		return DR_LEADS;
	if (!own->routed)
		find_routes((struct doctor *)d, own);
	for (size_t i = 0; i < f->leads.n; i++) {
		if (&d->sections.p[f->leads.p[i]] == b)
			return DR_LEADS;
	}
	return f->may_lead.n > 0 ? DR_MAY_LEAD : DR_LEADS_NOT;
}

bool dr_leads(const struct doctor *d, const struct dr_section *f, const struct dr_section *b)
{
	return dr_lead(d, f, b) != DR_LEADS_NOT;
}
