/* way.c - the names that a request meets on its way, for a look at a running HAProxy. */
#include "agent/doctor/doctor_in.h"

bool doctor_is_pool(const struct doctor *d, const char *backend)
{
	for (size_t i = 0; i < d->attached.n; i++) {
		if (d->attached.p[i].routes && dr_is(d->sections.p[d->attached.p[i].section].name, backend))
			return true;
	}
	return false;
}

size_t doctor_bufsize(const struct doctor *d)
{
	const struct dr_line *at;

	return (size_t)dr_bufsize(d, &at);
}

bool doctor_sees_drain(const struct doctor *d)
{
	return d->o.agent.stats_feed;
}

/* Return the address of a bind line as a client on this host can use it; "": none. */
static const char *address_of(struct doctor *d, const struct dr_line *bind)
{
	const char *a = bind->n > 1 ? dr_address(d, bind->w[1]) : "";

	if (dr_word(bind, "accept-proxy", 2) > 0)
		return "";
	if (*a == '/')
		return dr_printf(&d->mem, "unix@%s", a);
	if (dr_starts(a, "ipv4@") || dr_starts(a, "ipv6@"))
		a += 5;
	if (*a == ':' || dr_starts(a, "*:") || dr_starts(a, "0.0.0.0:"))
		return dr_printf(&d->mem, "127.0.0.1:%u", dr_port(a));
	if (dr_starts(a, "[::]:") || dr_starts(a, ":::"))
		return dr_printf(&d->mem, "[::1]:%u", dr_port(a));
	return dr_starts(a, "unix@") || (dr_port(a) != 0 && strchr(a, '@') == NULL) ? a : "";
}

/* The same if the line is with TLS as <tls> says, and asks for no certificate of the client. */
static const char *client_of(struct doctor *d, const struct dr_line *bind, bool tls)
{
	unsigned verify = dr_word(bind, "verify", 2);
	const char *a;

	if ((dr_word(bind, "ssl", 2) > 0) != tls || (verify > 0 && dr_is(bind->w[verify + 1], "required")))
		return "";
	a = address_of(d, bind);
	return tls && *a != '\0' ? dr_printf(&d->mem, "https://%s", a) : a;
}

static void find_client(struct doctor *d, const struct dr_section *f, bool tls,
			struct doctor_way *w)
{
	for (size_t i = 0; i < f->lines.n && w->client[0] == '\0'; i++) {
		if (dr_is(f->lines.p[i].w[0], "bind"))
			w->client = client_of(d, &f->lines.p[i], tls);
	}
	if (w->client[0] != '\0')
		w->frontend = f->name;
}

static bool feeds(struct doctor *d, const struct dr_section *ring)
{
	const char *address;

	for (size_t i = 0; i < ring->lines.n; i++) {
		if (!dr_is(ring->lines.p[i].w[0], "server") || ring->lines.p[i].n < 3)
			continue;
		address = dr_address(d, ring->lines.p[i].w[2]);
		for (size_t k = 0; k < DOCTOR_ADDRS && d->o.agent.feed[k] != NULL; k++) {
			if (dr_same_address(address, d->o.agent.feed[k]))
				return true;
		}
	}
	return false;
}

/* Find an address of a frontend that leads to a pool. */
static void find_frontend(struct doctor *d, bool tls, struct doctor_way *w)
{
	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		for (size_t k = 0; a->routes && k < d->sections.n && w->client[0] == '\0'; k++) {
			if (dr_leads(d, &d->sections.p[k], &d->sections.p[a->section]))
				find_client(d, &d->sections.p[k], tls, w);
		}
	}
}

void doctor_way_of(struct doctor *d, struct doctor_way *w)
{
	const char **pools = dr_alloc(&d->mem, (d->attached.n + 1) * sizeof(*pools));
	const struct dr_line *use;

	*w = (struct doctor_way){ "", "", "", "", pools, 0 };
	find_frontend(d, false, w);
	find_frontend(d, true, w);
	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		if (!a->routes || a->spoe.agents.n == 0)
			continue;
		use = dr_part_line(&a->spoe.agents.p[0], "use-backend", NULL);
		if (use != NULL)
			w->agent = use->w[1];
		if (pools != NULL)
			pools[w->n_pools++] = d->sections.p[a->section].name;
	}
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		if (s->kind == DR_RING && (w->ring[0] == '\0' || feeds(d, s)))
			w->ring = s->name;
	}
}
