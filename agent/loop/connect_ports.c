/* Collects the TCP ports of the peers that a configuration connects to. */
#include <stdlib.h>

#include "agent/loop/connect_ports_in.h"
#include "agent/loop/engine_list.h"
#include "agent/route/sources.h"

/* A text that is not an address is skipped, because its error is reported elsewhere. */
static void add_peer_port(struct connect_ports *out, const char *text)
{
	char full[ENGINE_URL_MAX + 1];
	struct engine_url t;
	struct err e;

	if (text[0] == '\0')
		return;
	out->any = true;
	out->every |= engine_url_has_port(text);
	if (engine_url_fill(span_str(text), "127.0.0.1", 1, full, sizeof(full)) != 0 ||
	    engine_url_has_port(text) || engine_url_parse(full, &t, &e) != 0 ||
	    t.to.a.sa.sa_family == AF_UNIX)
		return;
	connect_ports_add(out, ntohs(t.to.a.sa.sa_family == AF_INET6 ? t.to.a.in6.sin6_port :
				     t.to.a.in.sin_port));
}

/* The host may be a name. */
static void add_store_port(struct connect_ports *out, const char *text)
{
	const char *colon = strrchr(text, ':');

	out->any = true;
	if (strncmp(text, "unix@", 5) != 0 && colon != NULL)
		connect_ports_add(out, (uint16_t)strtoul(colon + 1, NULL, 10));
}

/* The number of ranks may be known from the engine only. */
static void add_rank_ports(struct connect_ports *out, const char *text, uint32_t ranks)
{
	uint32_t port = engine_endpoint_port(text);

	if (text[0] == '\0')
		return;
	out->events = true;
	if (engine_endpoint_is_bound(text))
		return;
	out->any = true;
	out->every |= engine_url_has_port(text) || strcmp(text, ENGINE_EVENTS_AUTO) == 0;
	for (uint32_t r = 0; port > 0 && r < (ranks > 0 ? ranks : SOURCE_RANKS_MAX); r++)
		if (port + r <= UINT16_MAX)
			connect_ports_add(out, (uint16_t)(port + r));
}

void connect_ports_of(const struct loop_opts *o, struct connect_ports *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		add_peer_port(out, o->stats[i]);
	for (unsigned i = 0; i < LISTEN_MAX && o->share.snapshot_from[i][0] != '\0'; i++)
		add_store_port(out, o->share.snapshot_from[i]);
	for (unsigned i = 0; i < STORE_SERVERS_MAX && o->share.servers[i][0] != '\0'; i++)
		add_store_port(out, o->share.servers[i]);
	for (size_t i = 0; i < o->n_engines; i++) {
		const struct engine_events_opts *v = &o->engines[i].events;

		add_peer_port(out, o->engines[i].metrics);
		add_rank_ports(out, v->endpoint, v->ranks);
		add_rank_ports(out, v->replay, v->ranks);
		add_rank_ports(out, o->engines[i].load, v->ranks);
	}
}

/* Returns a port that <want> has and <have> has not, or 0. */
static uint32_t first_missing(const struct connect_ports *have, const struct connect_ports *want)
{
	for (uint32_t port = 1; port <= UINT16_MAX; port++)
		if (connect_ports_has(want, (uint16_t)port) && !connect_ports_has(have, (uint16_t)port))
			return port;
	return 0;
}

int connect_ports_cover(
    const struct connect_ports *have, bool ports, const struct connect_ports *want, struct err *e)
{
	uint32_t port;

	if (want->any && !have->any)
		return err_set(e,
			"A reload cannot add the first of stats_feed.sockets and engines: the sandbox was closed to "
			"all outgoing connections at the start; restart for that, all settings stay as they were.");
	if (want->events && !have->events)
		return err_set(e,
			"A reload cannot add the first engines.events: the sandbox was closed at the start to what "
			"reading them needs; restart for that, all settings stay as they were.");
	if (ports && want->every && !have->every)
		return err_set(e,
			"A reload cannot add the first {port} or auto of engines: the sandbox was closed at the start "
			"to all ports except those configured then; restart for that, all settings stay as they "
			"were.");
	if (ports && (port = first_missing(have, want)) != 0)
		return err_set(e,
			"A reload cannot add an engine or a stats socket at port %u: the sandbox was closed at the "
			"start to all ports except those configured then; restart for that, all settings stay as "
			"they were.", port);
	return 0;
}
