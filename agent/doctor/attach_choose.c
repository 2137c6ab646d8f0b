/* attach_choose.c - the backends of engines, the frontends that lead to them, and what keeps them
 * from being attached by a diff. */
#include <ctype.h>

#include "agent/doctor/attach_in.h"

#define SERVERS_PRACTICAL	64
#define CANDIDATES_TOLD		20u

static bool is_http(const struct doctor *d, const struct dr_section *s)
{
	const struct dr_line *mode = dr_find(d, s, "mode", NULL);

	return mode != NULL && dr_is(mode->w[1], "http");
}

static size_t count_servers(struct dr_plan *p, const struct dr_section *s)
{
	dr_servers servers = { 0 };
	size_t n;

	dr_servers_of(p->d, s, &servers);
	n = servers.n;
	vec_free(&servers);
	return n;
}

static void choose(struct dr_plan *p, bool pool, const struct dr_section *s)
{
	unsigned at = (unsigned)(s - p->d->sections.p);

	if ((pool ? vec_push(&p->pools, at) : vec_push(&p->fronts, at)) < 0)
		p->d->mem.nomem = true;
}

static bool reached(const struct doctor *d, const struct dr_section *b)
{
	for (size_t i = 0; i < d->sections.n; i++) {
		if (dr_leads(d, &d->sections.p[i], b))
			return true;
	}
	return false;
}

/* ---- pools --------------------------------------------------------------------------------- */

static bool is_candidate(struct dr_plan *p, const struct dr_section *s)
{
	return dr_is_back(s) && is_http(p->d, s) && count_servers(p, s) > 0 && reached(p->d, s);
}

static void name_candidates(struct dr_plan *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->d->sections.n && n < CANDIDATES_TOLD; i++) {
		const struct dr_section *s = &p->d->sections.p[i];

		if (is_candidate(p, s) && ++n > 0)
			dr_ask(p, &s->at, "if the servers of %s are engines, add: --pool %s", s->name, s->name);
	}
}

static void choose_only(struct dr_plan *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->d->sections.n; i++) {
		if (is_candidate(p, &p->d->sections.p[i]) && ++n == 1)
			choose(p, true, &p->d->sections.p[i]);
	}
	if (n == 0)
		dr_refuse(p, NULL, "no backend has servers, mode http and a frontend that leads to it, so "
		    "there is nothing to attach: name all files of the configuration with -c; --pool NAME "
		    "tells what a backend lacks");
	if (n <= 1)
		return;
	dr_ask(p, NULL, "%u backends have servers, and not all of them may have engines: choose some", n);
	name_candidates(p);
}

static void choose_named(struct dr_plan *p, const char *name)
{
	const struct dr_section *s = dr_named(p->d, DR_BACKS, name);

	if (s == NULL)
		dr_refuse(p, NULL, "--pool %s: no file of -c has this backend: correct the name, or name all "
		    "files of the configuration with -c", name);
	else if (!is_http(p->d, s))
		dr_refuse(p, &s->at, "--pool %s: it is not in mode http, and kvroute reads requests of HTTP: "
		    "write mode http",
		    name);
	else if (count_servers(p, s) == 0)
		dr_refuse(p, &s->at, "--pool %s: it has no server lines, so there is nothing to choose from: "
		    "name the backend that has them", name);
	else
		choose(p, true, s);
	if (s == NULL || p->refused)
		return;
	for (size_t i = 0; i + 1 < p->pools.n; i++) {
		if (&p->d->sections.p[p->pools.p[i]] == s)
			p->pools.n--;
	}
}

/* ---- frontends ----------------------------------------------------------------------------- */

static bool leads_to_pool(struct dr_plan *p, const struct dr_section *f, enum dr_lead at_least)
{
	for (size_t i = 0; i < p->pools.n; i++) {
		if (dr_lead(p->d, f, &p->d->sections.p[p->pools.p[i]]) >= at_least)
			return true;
	}
	return false;
}

static bool is_named(const char *const *list, const char *name)
{
	for (; list != NULL && *list != NULL; list++) {
		if (dr_is(*list, name))
			return true;
	}
	return false;
}

static void choose_front(struct dr_plan *p, const struct dr_section *f)
{
	if (!dr_is_front(f) || !leads_to_pool(p, f, DR_MAY_LEAD))
		return;
	if (!is_http(p->d, f) && leads_to_pool(p, f, DR_LEADS))
		dr_refuse(p, &f->at, "%s leads to a pool, but not in mode http: write mode http, or lead its "
		    "requests through a frontend with mode http", f->name);
	if (!is_http(p->d, f))
		return;
	if (p->o->frontends != NULL ? is_named(p->o->frontends, f->name) :
	    leads_to_pool(p, f, DR_LEADS))
		choose(p, false, f);
	else if (p->o->frontends == NULL)
		dr_ask(p, &f->may_lead, "%s chooses its backend at run time by %s, so it may or may not lead "
		    "to a pool: name all frontends that do: --frontend %s", f->name, f->may_lead.w[1], f->name);
}

static void check_named(struct dr_plan *p, const char *name)
{
	const struct dr_section *s = dr_named(p->d, 1u << DR_FRONTEND | 1u << DR_LISTEN, name);

	if (s == NULL)
		dr_refuse(p, NULL, "--frontend %s: no file of -c has this frontend: correct the name, or name "
		    "all files of the configuration with -c", name);
	else if (!leads_to_pool(p, s, DR_MAY_LEAD))
		dr_refuse(p, &s->at, "--frontend %s: none of its rules leads to a pool: leave this option out, "
		    "or name the pool that it leads to with --pool", name);
}

static void check_reached(struct dr_plan *p)
{
	bool named = p->o->frontends != NULL && *p->o->frontends != NULL;

	for (size_t i = 0; i < p->pools.n; i++) {
		const struct dr_section *s = &p->d->sections.p[p->pools.p[i]];
		bool found = false;

		for (size_t k = 0; k < p->fronts.n; k++)
			found = found || dr_leads(p->d, &p->d->sections.p[p->fronts.p[k]], s);
		if (!found && !p->refused)
			dr_refuse(p, &s->at, "no frontend%s leads to %s, so no request would be routed: %s", named ?
			    " of --frontend" : "", s->name, named ? "add the one that does with --frontend" :
			    "write the use_backend or default_backend that does, or leave this pool out");
	}
}

/* Refuse a name that the added lines would have wrong. */
static void check_set(struct dr_plan *p, const struct dr_line *l)
{
	if ((l->unset & 2) != 0)
		dr_refuse(p, l, "this name has a variable that is not set here, so it would be \"%s\": run the "
		    "command with HAProxy's environment", l->w[1]);
}

/* Nothing may be found because names of backends are unknown. */
static void refuse_unset_leads(struct dr_plan *p)
{
	for (size_t i = 0; i < p->d->sections.n; i++) {
		const struct dr_section *s = &p->d->sections.p[i];

		for (size_t k = 0; k < s->lines.n; k++) {
			if (dr_is(s->lines.p[k].w[0], "default_backend") || dr_is(s->lines.p[k].w[0], "use_backend"))
				check_set(p, &s->lines.p[k]);
		}
	}
}

static void choose_all(struct dr_plan *p)
{
	const char *const *names = p->o->pools;

	if (names == NULL || *names == NULL)
		choose_only(p);
	for (; names != NULL && *names != NULL; names++)
		choose_named(p, *names);
	if (p->refused)
		return;
	for (names = p->o->frontends; names != NULL && *names != NULL; names++)
		check_named(p, *names);
	for (size_t i = 0; i < p->d->sections.n; i++)
		choose_front(p, &p->d->sections.p[i]);
	check_reached(p);
}

void dr_plan_choose(struct dr_plan *p)
{
	choose_all(p);
	if (p->refused)
		refuse_unset_leads(p);
}

/* ---- judgement ----------------------------------------------------------------------------- */

static const char *const variables[] = {
	"txn.api", "txn.load", "txn.pool", "txn.session", "txn.ptok", "txn.gtok", "txn.head",
	"proc.kvroute_vars",
};

static const struct {
	enum dr_kind kind;
	const char *name;
} sections[] = {
	{ DR_BACKEND, "spoe_agent" }, { DR_DEFAULTS, "kvroute-agent" }, { DR_RING, "kvroute-feed" },
};

/* Tell if a line sets a variable of the agent. Those that read one stay: the list of variables has
 * what they read. */
static bool sets_agents(struct span line)
{
	static const char *const begins[] = { "set-var(txn.kvroute.", "set-var-fmt(txn.kvroute." };

	return memmem(line.p, line.n, begins[0], strlen(begins[0])) != NULL ||
	    memmem(line.p, line.n, begins[1], strlen(begins[1])) != NULL;
}

static const char *used_variable(struct span line)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (dr_has_variable(line, variables[i]))
			return variables[i];
	}
	return sets_agents(line) ? "txn.kvroute" : NULL;
}

/* Variables that the SPOE file sends to the agent if lines of the operator set them. */
static const struct {
	const char *name, *meaning;
} sent[] = {
	{ "(txn.tenant)", "txn.tenant is sent to the agent as the tenant of the request: clients must not "
	    "be able to choose it" },
	{ "(txn.model)", "txn.model is sent to the agent as the model of the request, instead of that in "
	    "its body: delete \"model=var(txn.model)\" from the SPOE file if it is something else" },
};

/* Note the first line that sets each of them. */
static void note_sent(struct dr_plan *p)
{
	for (size_t v = 0; v < sizeof(sent) / sizeof(sent[0]); v++) {
		bool found = false;

		for (unsigned i = 0; i < p->raws.n && !found; i++) {
			for (unsigned k = 0; k < p->raws.p[i].n && !found; k++) {
				struct span text = p->raws.p[i].p[k].text;
				struct dr_line at = { .file = p->d->files.p[i].path, .no = k + 1 };

				found = p->raws.p[i].p[k].word.n > 0 && memmem(text.p, text.n, " set-var", 8) != NULL &&
				    memmem(text.p, text.n, sent[v].name, strlen(sent[v].name)) != NULL;
				if (found)
					dr_note(p, &at, "%s", sent[v].meaning);
			}
		}
	}
}

/* Names that the added lines use must be free. */
static void judge_names(struct dr_plan *p)
{
	const struct doctor *d = p->d;
	const char *name;

	for (unsigned i = 0; i < p->raws.n; i++) {
		for (unsigned k = 0; k < p->raws.p[i].n; k++) {
			struct dr_line at = { .file = d->files.p[i].path, .no = k + 1 };

			if (p->raws.p[i].p[k].word.n > 0 && !p->refused &&
			    (name = used_variable(p->raws.p[i].p[k].text)) != NULL)
				dr_refuse(p, &at, "the variable %s is in use: rename it here, because the added lines "
				    "set it, or attach by hand with another name", name);
		}
	}
	for (size_t i = 0; i < d->sections.n; i++) {
		for (size_t k = 0; k < sizeof(sections) / sizeof(sections[0]); k++) {
			if (d->sections.p[i].kind == sections[k].kind &&
			    dr_is(d->sections.p[i].name, sections[k].name))
				dr_refuse(p, &d->sections.p[i].at, "the name %s is taken: rename the section, or remove "
				    "it if it belongs to kvroute", sections[k].name);
		}
	}
}

static void refuse_silent(struct dr_plan *p, const struct dr_line *l)
{
	dr_refuse(p, l, "the agent learns from the log how requests ended, and this rule silences it: "
	    "give it a condition that no request of an API satisfies");
}

static bool plain_name(const char *s)
{
	for (; *s != '\0'; s++) {
		if (!isalnum((unsigned char)*s) && strchr("-_.:", *s) == NULL)
			return false;
	}
	return true;
}

static void judge_pool(struct dr_plan *p, const struct dr_section *s)
{
	dr_servers servers = { 0 };
	const struct dr_line *l;

	if (s->at.depth + 1 >= DR_DEPTH)
		dr_refuse(p, &s->at, "%s is in as many nested .if as HAProxy takes, and --write needs one more: "
		    "take it out of one", s->name);
	check_set(p, &s->at);
	if ((l = dr_silent(p->d, s)) != NULL)
		refuse_silent(p, l);
	dr_servers_of(p->d, s, &servers);
	for (size_t i = 0; i < servers.n; i++) {
		if (i == 0 || servers.p[i].line != servers.p[i - 1].line)
			check_set(p, servers.p[i].line);
		if (!plain_name(servers.p[i].name) || !plain_name(s->name))
			dr_refuse(p, servers.p[i].line, "this name, or %s, has characters that HAProxy does not take: "
			    "rename it", s->name);
	}
	if (servers.n > SERVERS_PRACTICAL && !p->d->o.agent.stats_feed)
		dr_refuse(p, &s->at, "%s has %zu servers, too many for a line that reports each: write "
		    DR_STATS_FEED " into the agent's configuration, "
		    "name it with -f, and write into global: " DR_STATS_LINE, s->name, servers.n);
	vec_free(&servers);
	if ((l = dr_find(p->d, s, "option", "persist")) != NULL)
		dr_note(p, l, "option persist keeps requests on servers that are down: delete it");
}

static void note_rewrites(struct dr_plan *p, const struct dr_section *s)
{
	static const char *const words[] = { "set-path", "replace-path", "set-uri", "replace-uri",
		"set-pathq", "replace-pathq", "normalize-uri" };
	dr_lines rules = { 0 };

	dr_collect(p->d, s, "http-request", &rules);
	for (size_t i = 0; i < rules.n; i++) {
		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
			if (dr_starts(rules.p[i].w[1], words[k]))
				dr_note(p, &rules.p[i], "this rule changes the path: requests are routed if the path "
				    "after it is one of those in haproxy-conf/api-paths.lst");
		}
	}
	vec_free(&rules);
}

static bool from_client(const char *expr)
{
	return dr_has(expr, "hdr(") || dr_has(expr, "cook(") || dr_has(expr, "url_param(") ||
	    dr_has(expr, "urlp(");
}

static void judge_front(struct dr_plan *p, const struct dr_section *f)
{
	struct doctor *d = p->d;
	const struct dr_line *l;
	dr_lines logs = { 0 };

	if ((l = dr_find(d, f, "unique-id-format", NULL)) != NULL && from_client(dr_join(d, l, 1)))
		dr_refuse(p, l, "a client can choose this unique-id: write unique-id-format %%[uuid()]");
	if ((l = dr_find(d, f, "option", "dontlog-normal")) != NULL)
		dr_refuse(p, l, "the agent learns from the log how requests ended: delete option "
		    "dontlog-normal, or set a log level for your own target");
	if ((l = dr_silent(d, f)) != NULL)
		refuse_silent(p, l);
	if ((l = dr_find(d, f, "option", "logasap")) != NULL)
		dr_refuse(p, l, "the agent learns from the log how requests ended, and with option logasap %s "
		    "writes its lines when answers begin: delete it, or add \"no option logasap\" there",
		    f->name);
	if ((l = dr_find(d, f, "log-format-sd", NULL)) != NULL)
		dr_refuse(p, l, "kvroute needs log-format-sd in %s for itself: move what it logs into "
		    "log-format, or attach by hand as recipes/keep-your-log.cfg does", f->name);
	dr_collect(d, f, "log", &logs);
	for (size_t i = 0; i < d->sections.n; i++) {
		if (d->sections.p[i].kind == DR_GLOBAL)
			dr_collect(d, &d->sections.p[i], "log", &logs);
	}
	for (size_t i = 0; i < logs.n; i++) {
		if (dr_word(&logs.p[i], "rfc5424", 1) > 0)
			dr_note(p, &logs.p[i], "this target has format rfc5424, so its lines from %s get the agent's "
			    "JSON as structured data", f->name);
	}
	if (logs.n > 0 && dr_find(d, f, "log-format", NULL) == NULL && !dr_option(d, f, "httplog") &&
	    !dr_option(d, f, "httpslog") && !dr_option(d, f, "tcplog"))
		dr_note(p, &f->at, "%s has no log format, so its own log lines change to option httplog",
		    f->name);
	vec_free(&logs);
	note_rewrites(p, f);
}

void dr_plan_judge(struct dr_plan *p)
{
	const struct doctor_agent *a = &p->d->o.agent;

	judge_names(p);
	note_sent(p);
	if (a->spop[0] == NULL || (a->feed[0] == NULL && a->udp[0] == NULL))
		dr_refuse(p, NULL, "the agent's configuration has no address in spop.listen or in log_feed, "
		    "so HAProxy cannot reach the agent: write one, or name another configuration with -f");
	if (a->feed_token)
		dr_refuse(p, NULL, "the agent wants a token in log lines (log_feed.token_file): attach by hand, "
		    "as recipes/log-token.cfg does");
	for (size_t i = 0; i < p->pools.n; i++)
		judge_pool(p, &p->d->sections.p[p->pools.p[i]]);
	for (size_t i = 0; i < p->fronts.n; i++)
		judge_front(p, &p->d->sections.p[p->fronts.p[i]]);
}
