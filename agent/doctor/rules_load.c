/* rules_load.c - the load line and the name of the pool, against the servers of the backend. */
#include "agent/doctor/doctor_in.h"

#define SERVERS_PRACTICAL	64
#define TWICE_MOST		2000u	/* servers that are compared with those before */

/* Find the rule that sets txn variable <name> in <s>. */
static const struct dr_line *setter(const struct dr_section *s, struct span name)
{
	const struct dr_line *last = NULL;

	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];
		const char *w = l->n > 1 ? l->w[1] : "";
		size_t skip = dr_starts(w, "set-var-fmt(") ? 12 : dr_starts(w, "set-var(") ? 8 : 0;

		if (skip > 0 && strncmp(w + skip, name.p, name.n) == 0 &&
		    (w[skip + name.n] == ')' || w[skip + name.n] == ','))
			last = l;
	}
	return last;
}

static const struct dr_line *setter_before(const struct doctor *d, const struct dr_section *s,
					   struct span name)
{
	const struct dr_line *l = setter(s, name);

	for (size_t i = 0; l == NULL && i < d->sections.n; i++) {
		if (dr_leads(d, &d->sections.p[i], s))
			l = setter(&d->sections.p[i], name);
	}
	return l;
}

/* Return NAME of "var(NAME)"; empty if <arg> is another expression. */
static struct span variable_of(const char *arg)
{
	return dr_starts(arg, "var(") ? span_of(arg + 4, strcspn(arg + 4, "),")) : SPAN("");
}

static bool same_name(struct span a, const char *b)
{
	return span_eq(a, span_str(b));
}

/* Return the server that an entry describes: S of "srv_is_up(S)" or "srv_is_up(backend/S)". */
static struct span described(const char *entry, size_t n)
{
	const char *at = memmem(entry, n, "srv_is_up(", 10), *slash;
	size_t len;

	if (at == NULL)
		return SPAN("");
	at += 10;
	len = strcspn(at, ")");
	slash = memchr(at, '/', len);
	return slash == NULL ? span_of(at, len) : span_of(slash + 1, len - (size_t)(slash + 1 - at));
}

static void check_entry(struct doctor *d, const struct dr_line *l, const char *p, size_t n,
			const dr_servers *servers, bool *seen, const char *fix)
{
	const char *eq = memchr(p, '=', n);
	struct span label = span_of(p, eq != NULL ? (size_t)(eq - p) : n), server = described(p, n);
	const char *name = dr_text(&d->mem, server.n > 0 ? server.p : p, server.n > 0 ? server.n : n);
	char mark = eq != NULL && (eq[1] == 'b' || eq[1] == 'B') ? eq[1] : '\0';

	if (eq == NULL || server.n == 0) {
		dr_say(d, DR_LOAD_BAD, l, name, "write the line: %s", fix);
		return;
	}
	for (size_t i = 0; i < servers->n; i++) {
		if (!same_name(server, servers->p[i].name))
			continue;
		seen[i] = true;
		if (!span_eq(label, server))
			dr_say(d, DR_LOAD_LABEL, l, dr_text(&d->mem, label.p, label.n), "write the line: %s",
			    fix);
		if (mark != servers->p[i].backup)
			dr_say(d, DR_LOAD_BACKUP, l, name, "write the line: %s", fix);
		return;
	}
	dr_say(d, DR_LOAD_ABSENT, l, name, "write the line: %s", fix);
}

#define UNNAMED_TOLD	8u	/* servers that one line does not name */

/* <fix>: the line that should be there. */
static void check_format(struct doctor *d, const struct dr_section *s, const struct dr_line *l,
			 const char *fix)
{
	dr_servers servers = { 0 };
	const char *p, *end;
	unsigned told = 0;
	bool *seen;

	dr_servers_of(d, s, &servers);
	seen = dr_alloc(&d->mem, servers.n + 1);
	p = strchr(l->w[2], ';');
	for (; p != NULL && seen != NULL; p = *end == ';' ? end : NULL) {
		p++;
		end = p + strcspn(p, ";");
		if (end > p)
			check_entry(d, l, p, (size_t)(end - p), &servers, seen, fix);
	}
	for (size_t i = 0; seen != NULL && i < servers.n && told < UNNAMED_TOLD; i++) {
		if (!seen[i] && ++told > 0)
			dr_say(d, DR_SERVER_UNNAMED, l, servers.p[i].name, "write the line: %s", fix);
	}
	if (servers.n > SERVERS_PRACTICAL)
		dr_say(d, DR_LOAD_LONG, l, s->name, "delete the line, name a stats socket in stats_feed, and "
		    "write into global: " DR_STATS_LINE);
	vec_free(&servers);
}

/* Return the line that should be there; a long one by the command that prints it. */
static const char *fix_of(struct doctor *d, const struct dr_section *s)
{
	dr_servers servers = { 0 };
	size_t n;

	dr_servers_of(d, s, &servers);
	n = servers.n;
	vec_free(&servers);
	return n <= SERVERS_PRACTICAL ? dr_load_line(d, s, " if { var(txn.api) -m found }") :
	    dr_printf(&d->mem, "that of \"load.sh -f %s %s\"", s->at.file, s->name);
}

/* A server-template may make the name of another line. */
static void check_twice(struct doctor *d, const struct dr_section *s)
{
	dr_servers servers = { 0 };

	dr_servers_of(d, s, &servers);
	for (size_t i = 1; i < servers.n && i < TWICE_MOST; i++) {
		for (size_t k = 0; k < i; k++) {
			if (dr_is(servers.p[i].name, servers.p[k].name))
				dr_say(d, DR_SERVER_TWICE, servers.p[i].line, servers.p[i].name,
				    "write another name; line %u has it as well", servers.p[k].line->no);
		}
	}
	vec_free(&servers);
}

/* The load string has no drain, and use-server ignores it. An operator can set weight 0 instead; a
 * server that drains itself cannot. */
static void check_drain(struct doctor *d, const struct dr_section *s)
{
	dr_servers servers = { 0 };

	dr_servers_of(d, s, &servers);
	for (size_t i = 0; i < servers.n && !d->o.agent.stats_feed; i++) {
		if (!dr_server_has(d, s, servers.p[i].line, "agent-check"))
			continue;
		dr_say(d, DR_DRAIN_UNSEEN, servers.p[i].line, servers.p[i].name,
		    "name HAProxy's stats socket in the agent's configuration: " DR_STATS_FEED
		    ", and write into global: " DR_STATS_LINE);
		break;
	}
	vec_free(&servers);
}

void dr_check_load(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *at = NULL, *l, *send = dr_sends(d, a, "http-request", "route");
	const char *arg = dr_spoe_arg(dr_spoe_message(&a->spoe, "route"), "load=", &at);
	struct span name = variable_of(arg != NULL ? arg : "");
	const char *fix = fix_of(d, s);

	check_twice(d, s);
	check_drain(d, s);
	if (arg == NULL && !d->o.agent.stats_feed)
		dr_say(d, DR_LOAD_MISSING, at, "", NULL);
	if (name.n == 0)
		return;
	l = setter_before(d, s, name);
	if (l == NULL && !d->o.agent.stats_feed)
		dr_say(d, DR_LOAD_UNSET, send != NULL ? send : &s->at, s->name,
		    "put before send-spoe-group: %s", fix);
	if (l == NULL)
		return;
	if (l->n < 3 || l->w[2][0] == '\0' || dr_is(l->w[2], "if")) {
		dr_say(d, DR_LOAD_EMPTY, l, "", "delete the line, or write: %s", fix);
		return;
	}
	if (send != NULL && setter(s, name) == l && l > send && dr_is(l->w[0], "http-request"))
		dr_say(d, DR_LOAD_LATE, l, "", "move line %u before line %u", l->no, send->no);
	if (dr_starts(l->w[1], "set-var-fmt"))
		check_format(d, s, l, fix);
}

/* ---- pool ---------------------------------------------------------------------------------- */

static void check_name(struct doctor *d, const struct dr_section *s, const struct dr_line *at,
		       const char *expr)
{
	struct span name = dr_starts(expr, "str(") ? span_of(expr + 4, strcspn(expr + 4, ")")) : SPAN("");

	if (name.n > 0 && !same_name(name, s->name))
		dr_say(d, DR_POOL_DIFFERS, at, dr_text(&d->mem, name.p, name.n),
		    "write str(%s) there, or set txn.pool in each backend: http-request set-var(txn.pool) "
		    "str(%s)", s->name, s->name);
}

static void check_known(struct doctor *d)
{
	bool known;

	for (const char *const *p = d->o.agent.pools; p != NULL && *p != NULL; p++) {
		known = false;
		for (size_t i = 0; i < d->attached.n; i++)
			known = known || dr_is(d->sections.p[d->attached.p[i].section].name, *p);
		if (!known)
			dr_say(d, DR_POOL_UNKNOWN, NULL, *p, "write the name of a backend under pools of the "
			    "agent's configuration");
	}
}

void dr_check_pool(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *at = NULL, *l, *send = dr_sends(d, a, "http-request", "route");
	const char *arg = dr_spoe_arg(dr_spoe_message(&a->spoe, "route"), "pool=", &at);
	struct span name = variable_of(arg != NULL ? arg : "");

	check_known(d);
	if (arg == NULL) {
		dr_say(d, DR_POOL_UNSET, at, "", "add pool=str(%s) to the line args", s->name);
		return;
	}
	check_name(d, s, at, arg);
	if (name.n == 0)
		return;
	l = setter_before(d, s, name);
	if (l == NULL || (send != NULL && setter(s, name) == l && l > send))
		dr_say(d, DR_POOL_UNSET, send != NULL ? send : &s->at, s->name,
		    "put before send-spoe-group: http-request set-var(txn.pool) str(%s)", s->name);
	else if (l->n > 2)
		check_name(d, s, l, l->w[2]);
}
