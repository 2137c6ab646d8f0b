/* rules_place.c - where filters, messages and routing lines stand. */
#include "agent/doctor/doctor_in.h"

const struct dr_line *dr_sends(const struct doctor *d, const struct dr_attached *a,
			       const char *ruleset, const char *group)
{
	const struct dr_section *s = &d->sections.p[a->section];

	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];

		if (dr_is(l->w[0], ruleset) && l->n > 3 && dr_is(l->w[1], "send-spoe-group") &&
		    dr_is(l->w[2], a->engine) && (group == NULL || dr_is(l->w[3], group)))
			return l;
	}
	return NULL;
}

static void check_twice(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section], *other;

	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *b = &d->attached.p[i];

		if (b == a || !dr_is(a->engine, b->engine))
			continue;
		other = &d->sections.p[b->section];
		if (other == s ? b < a : dr_is_back(s) && other->kind == DR_FRONTEND &&
		    dr_leads(d, other, s))
			dr_say(d, DR_FILTER_TWICE, &a->filter, a->engine, "delete one of the lines \"filter "
			    "spoe engine %s\": lines %u and %u", a->engine, b->filter.no, a->filter.no);
	}
}

static void check_filter(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *l;

	if (a->routes && s->kind == DR_FRONTEND)
		dr_say(d, DR_FILTER_FRONTEND, &a->filter, s->name,
		    "move the line \"filter spoe engine %s config %s\" into each backend of engines",
		    a->engine, a->path);
	l = dr_find(d, s, "compression", NULL);
	if (l != NULL && dr_find(d, s, "filter", "compression") == NULL)
		dr_say(d, DR_COMPRESSION, &a->filter, s->name,
		    "add to %s %s the line: filter compression", s->at.w[0], s->name);
	check_twice(d, a);
}

static void check_follow(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *agent = NULL;
	dr_lines uses = { 0 };
	const char *prefix = a->engine, *server;
	bool follows = false;

	if (a->spoe.agents.n > 0) {
		prefix = a->spoe.agents.p[0].name;
		agent = dr_part_line(&a->spoe.agents.p[0], "option", "var-prefix");
	}
	if (agent != NULL)
		prefix = agent->w[2];
	server = dr_printf(&d->mem, "%%[var(txn.%s.server)]", prefix);
	dr_collect(d, s, "use-server", &uses);
	for (size_t i = 0; i < uses.n; i++)
		follows = follows || dr_is(uses.p[i].w[1], server);
	if (!follows && uses.n > 0 && dr_has(uses.p[0].w[1], ".server)"))
		dr_say(d, DR_ANSWER_LOST, &uses.p[0], uses.p[0].w[1], "write use-server %s, because "
		    "option var-prefix is %s", server, prefix);
	else if (!follows)
		dr_say(d, DR_NOT_FOLLOWED, &s->at, s->name, "add the line: use-server %s if { "
		    "var(txn.%s.server) -m found }", server, prefix);
	vec_free(&uses);
}

static void check_first(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_line *l = dr_sends(d, a, "http-response", "first"), *w = NULL, *t;
	const struct dr_section *s = &d->sections.p[a->section];
	unsigned at;

	if (d->o.version < DOCTOR_VERSION(3, 0, 0)) {
		if (l != NULL)
			dr_say(d, DR_FIRST_EARLY, l, "", "put the line between \".if version_atleast(3.0)\" "
			    "and \".endif\"");
		return;
	}
	if (l == NULL) {
		dr_say(d, DR_FIRST_MISSING, &s->at, s->name, "add: http-response send-spoe-group %s first if "
		    "{ var(txn.kvroute.why) -m found } { nbsrv(spoe_agent) gt 0 }", a->engine);
		return;
	}
	for (size_t i = 0; i < s->lines.n && s->lines.p[i].no < l->no; i++) {
		if (dr_is(s->lines.p[i].w[0], "http-response") && dr_word(&s->lines.p[i], "at-least", 1))
			w = &s->lines.p[i];
	}
	if (w == NULL) {
		dr_say(d, DR_FIRST_HEADERS, l, "", "add before it: http-response wait-for-body time 10m "
		    "at-least 1 if { var(txn.kvroute.why) -m found }");
		return;
	}
	at = dr_word(w, "time", 1);
	t = dr_find(d, s, "timeout", "server");
	if (t != NULL && at > 0 && dr_time(t->w[2]) > dr_time(w->w[at + 1]))
		dr_say(d, DR_TIMEOUT, w, w->w[at + 1], "write time %s, as timeout server in line %u: when it "
		    "expires, the client gets a 504", t->w[2], t->no);
}

static void check_sends(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_line *l = dr_sends(d, a, "http-request", NULL), *at = NULL, *agent;
	const struct dr_section *s = &d->sections.p[a->section];
	const char *backend = "spoe_agent";

	if (l == NULL) {
		if (a->routes && dr_part_line(dr_spoe_message(&a->spoe, "route"), "event", NULL) == NULL)
			dr_say(d, DR_NOT_ASKED, &s->at, s->name, "add: http-request send-spoe-group %s route if "
			    "{ var(txn.api) -m found } { nbsrv(spoe_agent) gt 0 }", a->engine);
		return;
	}
	agent = a->spoe.agents.n > 0 ? dr_part_line(&a->spoe.agents.p[0], "use-backend", NULL) : NULL;
	if (agent != NULL)
		backend = agent->w[1];
	for (size_t i = 0; i < s->lines.n; i++) {
		at = &s->lines.p[i];
		if (at->n > 3 && dr_is(at->w[1], "send-spoe-group") && dr_is(at->w[2], a->engine) &&
		    !dr_has(dr_join(d, at, 1), dr_printf(&d->mem, "nbsrv(%s)", backend)) &&
		    !dr_has(dr_join(d, at, 1), "kvroute.more"))
			dr_say(d, DR_NO_CONDITION, at, at->w[3], "add { nbsrv(%s) gt 0 } to the line", backend);
	}
}

void dr_check_place(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *l;

	check_filter(d, a);
	if (!a->readable || a->spoe.scope.n == 0)
		return;
	check_sends(d, a);
	if (!a->routes || !dr_is_back(s))
		return;
	check_follow(d, a);
	check_first(d, a);
	if (dr_find(d, s, "option", "http-no-delay") == NULL)
		dr_say(d, DR_NO_DELAY, &s->at, s->name, "add the line: option http-no-delay");
	if ((l = dr_find(d, s, "option", "persist")) != NULL)
		dr_say(d, DR_PERSIST, l, s->name, "delete the line");
}
