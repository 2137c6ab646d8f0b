/* rules_front.c - the frontends that lead to a pool: unique-id, tenant, session, streaming. */
#include <stdio.h>

#include "agent/doctor/doctor_in.h"

static bool from_client(const char *expr)
{
	return dr_has(expr, "hdr(") || dr_has(expr, "cook(") || dr_has(expr, "url_param(") ||
	    dr_has(expr, "urlp(");
}

/* Return the header of "req.hdr(NAME)"; empty: none. */
static struct span header_of(const char *expr)
{
	const char *at = strstr(expr, "hdr(");

	return at != NULL ? span_of(at + 4, strcspn(at + 4, "),")) : SPAN("");
}

static bool removed(const dr_lines *rules, struct span header, unsigned before)
{
	for (size_t i = 0; i < rules->n && rules->p[i].no < before; i++) {
		const struct dr_line *l = &rules->p[i];

		if (l->n > 2 && (dr_is(l->w[1], "del-header") || dr_is(l->w[1], "set-header")) &&
		    strlen(l->w[2]) == header.n && strncasecmp(l->w[2], header.p, header.n) == 0)
			return true;
	}
	return false;
}

static const char *const secrets[] = { "authorization", "cookie", "x-api-key" };

static bool is_secret(struct span header)
{
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (header.n == strlen(secrets[i]) && strncasecmp(header.p, secrets[i], header.n) == 0)
			return true;
	return false;
}

/* Judge "set-var-fmt(txn.session) %[req.hdr(a)]%[req.hdr(b)]". */
static void check_joined(struct doctor *d, const struct dr_line *l)
{
	char call[32];

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		snprintf(call, sizeof(call), "hdr(%s)", secrets[i]);
		if (dr_has(l->w[2], call))
			dr_say(d, DR_SESSION_SECRET, l, secrets[i], "remove %%[req.%s...]", call);
	}
}

static void check_rule(struct doctor *d, const dr_lines *rules, const struct dr_line *l)
{
	struct span header = header_of(l->n > 2 ? l->w[2] : "");

	if (l->n > 2 && dr_is(l->w[1], "set-var-fmt(txn.session)"))
		check_joined(d, l);
	if (header.n == 0)
		return;
	if (dr_is(l->w[1], "set-var(txn.tenant)") && !dr_has(l->w[2], "map") &&
	    !removed(rules, header, l->no))
		dr_say(d, DR_TENANT_CLIENT, l, dr_text(&d->mem, header.p, header.n),
		    "take the tenant from a map of keys, as recipes/tenants.cfg does");
	if (!dr_is(l->w[1], "set-var(txn.session)"))
		return;
	if (is_secret(header))
		dr_say(d, DR_SESSION_SECRET, l, dr_text(&d->mem, header.p, header.n),
		    "take x-session-id, or a hash: %s,sha2(256),hex", l->w[2]);
	else if (!dr_has(l->w[2], "bytes(0,"))
		dr_say(d, DR_SESSION_LONG, l, dr_text(&d->mem, header.p, header.n), "write: %s %s,bytes(0,128)",
		    l->w[1], l->w[2]);
}

static void check_one(struct doctor *d, const struct dr_section *f)
{
	const struct dr_line *l = dr_find(d, f, "unique-id-format", NULL);
	dr_lines rules = { 0 };

	if (l == NULL)
		dr_say(d, DR_UID_MISSING, &f->at, f->name, "add: unique-id-format %%[uuid()]");
	else if (from_client(dr_join(d, l, 1)))
		dr_say(d, DR_UID_CLIENT, l, "", "write: unique-id-format %%[uuid()]");
	if (dr_find(d, f, "option", "http-no-delay") == NULL)
		dr_say(d, DR_NO_DELAY, &f->at, f->name, "add the line: option http-no-delay");
	dr_collect(d, f, "http-request", &rules);
	for (size_t i = 0; i < rules.n; i++)
		check_rule(d, &rules, &rules.p[i]);
	vec_free(&rules);
}

void dr_check_front(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct dr_line *at = NULL;
	const struct spoe_part *m = dr_spoe_message(&a->spoe, a->routes ? "route" : "model");
	const char *tenant = dr_spoe_arg(m, "tenant=", &at);

	if (tenant != NULL && header_of(tenant).n > 0 && !dr_has(tenant, "map"))
		dr_say(d, DR_TENANT_CLIENT, at, tenant, "write tenant=var(txn.tenant), and take it from a map "
		    "of keys, as recipes/tenants.cfg does");
	if (m != NULL && dr_spoe_arg(m, "uid=", &at) == NULL)
		dr_say(d, DR_UID_MISSING, at, "", "add uid=unique-id to the line args");
	for (size_t i = 0; i < d->sections.n; i++) {
		if (dr_leads(d, &d->sections.p[i], s))
			check_one(d, &d->sections.p[i]);
	}
}
