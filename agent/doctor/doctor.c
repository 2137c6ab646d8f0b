/* doctor.c - the findings of all rules, in order of files and lines. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/doctor/attach.h"
#include "agent/doctor/doctor_in.h"

const struct dr_rule_row dr_rules[DR_RULE_COUNT] = {
#define X(name, word, problem, severity, what) \
	[DR_##name] = { word, problem, DOCTOR_##severity, what },
	DR_RULES(X)
#undef X
};

void doctor_defaults(struct doctor_opts *o)
{
	*o = (struct doctor_opts){
		.version = DOCTOR_VERSION(3, 2, 0),
		.agent = {
			.spop = { "127.0.0.1:9400", "unix@/run/kvroute/spop.sock" },
			.feed = { "127.0.0.1:9401" }, .udp = { "127.0.0.1:9401" },
			.metrics = { "127.0.0.1:9402" }, .max_frame_size = 1u << 20,
		},
	};
}

struct doctor *doctor_new(const struct doctor_opts *o)
{
	struct doctor *d = mem_alloc(sizeof(*d));

	if (d == NULL)
		return NULL;
	d->o = *o;
	d->env.env = o->env;
	d->defaults = -1;
	return d;
}

void doctor_free(struct doctor *d)
{
	if (d == NULL)
		return;
	for (size_t i = 0; i < d->sections.n; i++) {
		vec_free(&d->sections.p[i].lines);
		vec_free(&d->sections.p[i].leads);
	}
	for (size_t i = 0; i < d->attached.n; i++)
		dr_spoe_free(&d->attached.p[i].spoe);
	vec_free(&d->env.vars);
	vec_free(&d->files);
	vec_free(&d->sections);
	vec_free(&d->attached);
	vec_free(&d->findings);
	dr_mem_free(&d->mem);
	mem_free(d);
}

/* ---- findings ------------------------------------------------------------------------------ */

static bool same(const struct doctor_finding *a, const struct doctor_finding *b)
{
	return a->line == b->line && dr_is(a->rule, b->rule) && dr_is(a->file, b->file) &&
	    dr_is(a->subject, b->subject);
}

static void keep(struct doctor *d, const struct doctor_finding *f)
{
	for (size_t i = 0; i < d->findings.n; i++) {
		if (same(&d->findings.p[i], f))
			return;
	}
	if (d->findings.n == DR_FINDINGS)
		d->findings_lost++;
	else if (vec_push(&d->findings, *f) < 0)
		d->mem.nomem = true;
}

/* Tell if a remedy ends with a line to write, by its first word. */
static bool ends_with_line(const char *remedy)
{
	static const char *const words[] = { "http-request ", "http-response ", "use-server ", "option ",
		"unique-id-format ", "log-format", "timeout ", "server ", "filter " };
	const char *at = NULL;

	for (const char *p = remedy; (p = strstr(p, ": ")) != NULL; p += 2) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (dr_starts(p + 2, words[i]))
				at = p;
	}
	return at != NULL;
}

static bool in_configuration(const struct doctor *d, const char *file)
{
	for (size_t i = 0; i < d->files.n; i++) {
		if (dr_is(d->files.p[i].path, file))
			return true;
	}
	return false;
}

void dr_say(struct doctor *d, enum dr_rule rule, const struct dr_line *at, const char *subject,
	    const char *remedy, ...)
{
	const struct dr_rule_row *row = &dr_rules[rule];
	const struct problem_row *p = row->word == NULL ? &problem_rows[row->problem] : NULL;
	struct doctor_finding f = {
		.severity = row->severity, .rule = p != NULL ? p->word : row->word,
		.file = at != NULL ? at->file : d->files.n > 0 ? d->files.p[0].path : "",
		.line = at != NULL ? at->no : 0, .what = p != NULL ? p->message : row->what,
		.subject = subject, .remedy = p != NULL ? p->remedy : "",
	};
	va_list ap;

	if (remedy != NULL) {
		va_start(ap, remedy);
		f.remedy = dr_vprintf(&d->mem, remedy, ap);
		va_end(ap);
		if (d->marked && in_configuration(d, f.file) && ends_with_line(f.remedy))
			f.remedy = dr_printf(&d->mem, "%s%s " DOCTOR_MARK,
			    dr_starts(f.remedy, "write the line: http-request set-var-fmt(") ?
			    "take the diff of --update, or " : "", f.remedy);
	}
	keep(d, &f);
}

/* Return how many findings before <i> have the same rule and file. */
static size_t alike_before(const struct doctor *d, size_t i)
{
	const struct doctor_finding *f = &d->findings.p[i];
	size_t n = 0;

	for (size_t k = 0; k < i; k++)
		n += dr_is(d->findings.p[k].rule, f->rule) && dr_is(d->findings.p[k].file, f->file);
	return n;
}

/* Return the line of an earlier finding that has printed the same long remedy; 0: none. */
static unsigned said_at(const struct doctor *d, size_t i)
{
	const struct doctor_finding *f = &d->findings.p[i];

	for (size_t k = 0; k < i && strlen(f->remedy) > DR_REMEDY_LONG; k++) {
		if (dr_is(d->findings.p[k].remedy, f->remedy) && dr_is(d->findings.p[k].file, f->file) &&
		    alike_before(d, k) < DR_ALIKE)
			return d->findings.p[k].line;
	}
	return 0;
}

static void print_place(const struct doctor_finding *f, struct buf *to)
{
	static const char *const words[] = { "note", "warning", "fault", "unreadable" };
	char line[24];

	buf_str(to, f->file);
	if (f->line > 0) {
		snprintf(line, sizeof(line), ":%u", f->line);
		buf_str(to, line);
	}
	buf_str(to, ": [");
	buf_str(to, words[f->severity]);
	buf_str(to, " ");
	buf_str(to, f->rule);
	buf_str(to, "] ");
}

static void print_finding(const struct doctor *d, size_t i, struct buf *to)
{
	const struct doctor_finding *f = &d->findings.p[i];
	unsigned before = said_at(d, i);
	char text[64];

	print_place(f, to);
	buf_str(to, f->what);
	if (f->subject[0] != '\0') {
		buf_str(to, " (");
		buf_str(to, f->subject);
		buf_str(to, ")");
	}
	buf_str(to, ": ");
	snprintf(text, sizeof(text), "as above for line %u", before);
	buf_str(to, before > 0 ? text : f->remedy);
	buf_str(to, "\n");
}

/* Print how many findings from <i> on are like it and not shown. */
static void print_more(const struct doctor *d, size_t i, struct buf *to)
{
	struct doctor_finding f = d->findings.p[i];
	size_t n = 0;
	char text[64];

	for (size_t k = i; k < d->findings.n; k++)
		n += dr_is(d->findings.p[k].rule, f.rule) && dr_is(d->findings.p[k].file, f.file);
	snprintf(text, sizeof(text), "and %zu more like these\n", n);
	print_place(&f, to);
	buf_str(to, text);
}

void doctor_print(const struct doctor *d, struct buf *to)
{
	for (size_t i = 0; i < d->findings.n; i++) {
		size_t alike = alike_before(d, i);

		if (alike < DR_ALIKE)
			print_finding(d, i, to);
		else if (alike == DR_ALIKE)
			print_more(d, i, to);
	}
	if (d->findings_lost > 0)
		buf_str(to, "more findings are not shown\n");
}

int doctor_status(const struct doctor *d)
{
	int status = d->mem.nomem ? 2 : 0;

	for (size_t i = 0; i < d->findings.n; i++) {
		if (d->findings.p[i].severity == DOCTOR_UNREADABLE)
			return 2;
		if (d->findings.p[i].severity >= DOCTOR_WARNING && status == 0)
			status = 1;
	}
	return status;
}

/* ---- attachments --------------------------------------------------------------------------- */

/* A file that cannot be judged belongs to kvroute if a name says so. */
static bool named_kvroute(const struct dr_attached *a)
{
	return dr_has(a->engine, "kvroute") || dr_has(a->path, "kvroute");
}

static bool is_kvroute(struct dr_attached *a)
{
	bool model;

	if (!a->readable || a->spoe.scope.n == 0 || a->spoe.agents.n == 0)
		return a->routes = named_kvroute(a);
	a->routes = dr_spoe_message(&a->spoe, "route") != NULL;
	model = dr_spoe_message(&a->spoe, "model") != NULL && named_kvroute(a);
	return a->routes || model;
}

static void attach_one(struct doctor *d, unsigned section, const struct dr_line *l)
{
	unsigned engine = dr_word(l, "engine", 2), config = dr_word(l, "config", 2);
	struct dr_attached a = {
		.section = section, .filter = *l, .engine = engine > 0 ? l->w[engine + 1] : "",
		.path = config > 0 ? l->w[config + 1] : "",
	};
	const char *why = "no file can be opened";
	struct span text;

	if (d->o.open != NULL && d->o.open(d->o.arg, a.path, &text, &why) == 0) {
		a.readable = true;
		dr_spoe_read(d, &a.spoe, a.path, text, a.engine);
		if (a.engine[0] == '\0' && a.spoe.agents.n > 0)
			a.engine = a.spoe.agents.p[0].name;
	}
	if (!is_kvroute(&a)) {
		dr_spoe_free(&a.spoe);
		return;
	}
	if (vec_push(&d->attached, a) < 0) {
		d->mem.nomem = true;
		dr_spoe_free(&a.spoe);
		return;
	}
	if (!a.readable)
		dr_say(d, DR_SPOE_FILE, l, a.path, "%s; correct the path after \"config\"", why);
	else if (a.spoe.scope.n == 0 && a.engine[0] == '\0')
		dr_say(d, DR_SPOE_ENGINE, l, a.path, "write \"engine NAME\" into the filter line, where [NAME] "
		    "is above spoe-agent in the file");
	else if (a.spoe.scope.n == 0)
		dr_say(d, DR_SPOE_ENGINE, l, a.engine, "write [%s] above spoe-agent in %s", a.engine,
		    a.path);
}

static void find_attached(struct doctor *d)
{
	for (unsigned i = 0; i < d->sections.n; i++) {
		dr_lines filters = { 0 };

		if (dr_proxy(&d->sections.p[i]))
			dr_collect(d, &d->sections.p[i], "filter", &filters);
		for (size_t k = 0; k < filters.n; k++) {
			if (dr_is(filters.p[k].w[1], "spoe"))
				attach_one(d, i, &filters.p[k]);
		}
		vec_free(&filters);
	}
}

/* Without a proxy for HTTP there is nothing to attach. */
static bool has_http(const struct doctor *d)
{
	const struct dr_line *mode;

	for (size_t i = 0; i < d->sections.n; i++) {
		if (!dr_proxy(&d->sections.p[i]))
			continue;
		mode = dr_find(d, &d->sections.p[i], "mode", NULL);
		if (mode != NULL && dr_is(mode->w[1], "http"))
			return true;
	}
	return false;
}

static int by_place(const void *a, const void *b, void *arg)
{
	const struct doctor_finding *x = a, *y = b;
	int order = strcmp(x->file, y->file);

	return order != 0 ? order : x->line != y->line ? (x->line < y->line ? -1 : 1) :
	    strcmp(x->rule, y->rule) != 0 ? strcmp(x->rule, y->rule) : strcmp(x->subject, y->subject);
}

/* Tell if a file has a marked line. */
static bool has_marks(const struct doctor *d)
{
	for (size_t i = 0; i < d->files.n; i++) {
		struct span t = d->files.p[i].text;

		if (t.n > 0 && memmem(t.p, t.n, DOCTOR_MARK "\n", sizeof(DOCTOR_MARK)) != NULL)
			return true;
	}
	return false;
}

int doctor_check(struct doctor *d)
{
	d->marked = has_marks(d);
	find_attached(d);
	if (d->attached.n == 0 && has_http(d))
		dr_say(d, DR_NOT_ATTACHED, NULL, "", "run \"kvroutectl doctor --write\", or add the "
		    "lines of haproxy-conf/README.md");
	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		dr_check_place(d, a);
		if (!a->readable || a->spoe.scope.n == 0)
			continue;
		dr_check_spoe(d, a);
		dr_check_vars(d, a);
		dr_check_agent(d, a);
		dr_check_front(d, a);
		dr_check_body(d, a);
		dr_check_paths(d, a);
		if (!a->routes || !dr_is_back(&d->sections.p[a->section]))
			continue;
		dr_check_load(d, a);
		dr_check_pool(d, a);
		dr_check_feed(d, a);
	}
	if (d->mem.nomem)
		return -1;
	if (d->findings.n > 1)
		qsort_r(d->findings.p, d->findings.n, sizeof(*d->findings.p), by_place, NULL);
	return 0;
}
