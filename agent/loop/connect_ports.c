/* Collects the TCP ports of the peers that a configuration polls. */
#include "agent/loop/connect_ports_in.h"
#include "agent/loop/engine_url.h"

static bool has_port(const struct connect_ports *o, uint16_t port)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->port[i] == port)
			return true;
	return false;
}

/* A text that is not an address is skipped, because its error is reported elsewhere. */
static void add_peer_port(struct connect_ports *out, const char *text)
{
	struct engine_url t;
	struct err e;
	uint16_t port;

	out->any = true;
	if (engine_url_parse(text, &t, &e) != 0 || t.to.a.sa.sa_family == AF_UNIX)
		return;
	port = ntohs(t.to.a.sa.sa_family == AF_INET6 ? t.to.a.in6.sin6_port : t.to.a.in.sin_port);
	if (!has_port(out, port) && out->n < CONNECT_PORTS_MAX)
		out->port[out->n++] = port;
}

void connect_ports_of(const struct loop_opts *o, struct connect_ports *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		add_peer_port(out, o->stats[i]);
	for (size_t i = 0; i < o->n_engines; i++)
		add_peer_port(out, o->engines[i].metrics);
}

int connect_ports_cover(
    const struct connect_ports *have, bool ports, const struct connect_ports *want, struct err *e)
{
	if (want->any && !have->any)
		return err_set(e,
			"A reload cannot add the first of stats_feed.sockets and engines: the sandbox was closed to "
			"all outgoing connections at the start; restart for that, all settings stay as they were.");
	for (size_t i = 0; ports && i < want->n; i++)
		if (!has_port(have, want->port[i]))
			return err_set(e,
				"A reload cannot add an engine or a stats socket at port %u: the sandbox was closed at the "
				"start to all ports except those configured then; restart for that, all settings stay as "
				"they were.", want->port[i]);
	return 0;
}

_Static_assert(CONNECT_PORTS_MAX >= SERVERS_MAX + LISTEN_MAX,
	"ports of a configuration would be left out");
