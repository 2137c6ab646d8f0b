/* rules_agent.c - the backend that leads to the agent. */
#include "agent/doctor/doctor_in.h"

static bool in_list(const char *const *list, const char *address)
{
	for (size_t i = 0; i < DOCTOR_ADDRS && list[i] != NULL; i++) {
		if (dr_same_address(address, list[i]))
			return true;
	}
	return false;
}

/* Tell if a server of <s> is the agent. Others of <s> may be agents with other configurations. */
static bool has_agent(struct doctor *d, const struct dr_section *s)
{
	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];

		if (dr_is(l->w[0], "server") && l->n > 2 &&
		    in_list(d->o.agent.spop, dr_address(d, l->w[2])))
			return true;
	}
	return false;
}

/* Return the first TCP address of a list; NULL: there is none. */
static const char *first_tcp(const char *const *list)
{
	for (size_t i = 0; i < DOCTOR_ADDRS && list[i] != NULL; i++) {
		if (dr_unix_path(list[i]) == NULL)
			return list[i];
	}
	return NULL;
}

/* HAProxy connects after chroot, so it finds a socket of the agent only below that folder. */
static void check_chroot(struct doctor *d, const struct dr_line *l, const char *address)
{
	const char *folder = dr_chroot(d), *path = dr_unix_path(address),
	    *tcp = first_tcp(d->o.agent.spop);

	if (folder == NULL || path == NULL)
		return;
	if (tcp != NULL)
		dr_say(d, DR_AGENT_CHROOT, l, folder, "write the address %s, unless %s%s leads to the agent",
		    tcp, folder, path);
	else
		dr_say(d, DR_AGENT_CHROOT, l, folder, "name unix@%s%s in spop.listen, unless it leads to the "
		    "agent", folder, path);
}

/* Tell if the agent listens where HAProxy finds the unix socket <address> below its chroot. */
static bool is_below_chroot(struct doctor *d, const char *address)
{
	const char *folder = dr_chroot(d), *path = dr_unix_path(address);

	return folder != NULL && path != NULL &&
	    in_list(d->o.agent.spop, dr_printf(&d->mem, "%s%s", folder, path));
}

static void check_address(struct doctor *d, const struct dr_section *s, const struct dr_line *l)
{
	const struct doctor_agent *a = &d->o.agent;
	bool another = has_agent(d, s);
	const char *address = dr_address(d, l->w[2]);

	if (is_below_chroot(d, address))
		return;
	if (in_list(a->spop, address)) {
		check_chroot(d, l, address);
		return;
	}
	if (in_list(a->feed, address))
		dr_say(d, DR_SPOP_ON_FEED, l, address, "write the address %s", a->spop[0]);
	else if (in_list(a->metrics, address))
		dr_say(d, DR_SPOP_ON_HTTP, l, address, "write the address %s", a->spop[0]);
	else if (!another)
		dr_say(d, DR_AGENT_ADDRESS, l, address, a->given ? "write the address %s" :
		    "write the address %s, or give the agent's configuration with -f",
		    a->spop[0] != NULL ? a->spop[0] : "of spop.listen");
}

static void check_server(struct doctor *d, const struct dr_section *s, const struct dr_line *l)
{
	check_address(d, s, l);
	if (dr_server_has(d, s, l, "send-proxy") || dr_server_has(d, s, l, "send-proxy-v2"))
		dr_say(d, DR_PROXY_ON_SPOP, l, l->w[1], NULL);
	if (dr_server_has(d, s, l, "ssl"))
		dr_say(d, DR_TLS_ON_SPOP, l, l->w[1], NULL);
	if (!dr_server_has(d, s, l, "check"))
		dr_say(d, DR_AGENT_CHECK, l, l->w[1],
		    "add to the line: check inter 500ms fall 1 rise 1 on-marked-down shutdown-sessions");
	if (dr_word(l, "maxconn", 3) == 0 && dr_server_has(d, s, l, "maxconn"))
		dr_say(d, DR_AGENT_LIMIT, l, l->w[1], "write \"backend %s from kvroute-agent\" with defaults "
		    "of its own", s->name);
	if (dr_find(d, s, "option", "httpchk") != NULL && dr_find(d, s, "option", "spop-check") == NULL &&
	    !dr_server_has(d, s, l, "port"))
		dr_say(d, DR_HTTP_ON_SPOP, l, l->w[1], NULL);
}

/* A proxy takes the agent's defaults because it follows them without "from". */
static void check_reach(struct doctor *d, const struct dr_section *agent)
{
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		if (s != agent && dr_proxy(s) && s->base >= 0 && s->base == agent->base &&
		    s->from[0] == '\0' && agent->from[0] != '\0')
			dr_say(d, DR_AGENT_DEFAULTS, &s->at, s->name, "move \"defaults %s\" and what follows to "
			    "the end of the file, or add \"from NAME\" to this line", agent->from);
	}
}

void dr_check_agent(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_line *use = a->spoe.agents.n > 0 ?
	    dr_part_line(&a->spoe.agents.p[0], "use-backend", NULL) : NULL, *l;
	const struct dr_section *s = use != NULL ? dr_named(d, DR_BACKS, use->w[1]) : NULL;
	unsigned n = 0;

	if (s == NULL) {
		dr_say(d, DR_AGENT_BACKEND, use != NULL ? use : &a->spoe.scope, use != NULL ? use->w[1] : "",
		    "write use-backend spoe_agent, and copy the backend spoe_agent from haproxy.cfg");
		return;
	}
	for (size_t i = 0; i < s->lines.n; i++) {
		l = &s->lines.p[i];
		if (dr_is(l->w[0], "server") && l->n > 2) {
			check_server(d, s, l);
			n++;
		}
	}
	if (n == 0)
		dr_say(d, DR_AGENT_BACKEND, &s->at, s->name, "add: server a1 127.0.0.1:9400 check inter 500ms "
		    "fall 1 rise 1 on-marked-down shutdown-sessions");
	if ((l = dr_find(d, s, "mode", NULL)) != NULL && dr_is(l->w[1], "http"))
		dr_say(d, DR_AGENT_MODE, l, s->name, "write mode tcp into %s", s->name);
	if (dr_find(d, s, "option", "spop-check") == NULL && dr_find(d, s, "option", "httpchk") == NULL)
		dr_say(d, DR_AGENT_CHECK, &s->at, s->name, "add: option spop-check");
	if (dr_find(d, s, "timeout", "server") == NULL)
		dr_say(d, DR_TIMEOUT, &s->at, "server", "add: timeout server 5m");
	if (dr_find(d, s, "timeout", "connect") == NULL)
		dr_say(d, DR_TIMEOUT, &s->at, "connect", "add: timeout connect 200ms");
	check_reach(d, s);
}
