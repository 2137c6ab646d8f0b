/* What the agent does when nobody says otherwise: loopback only, every size bounded. */
#include <stdio.h>

#include "agent/loop/loop.h"

static void set(char *to, size_t cap, const char *text)
{
	snprintf(to, cap, "%s", text);
}

void loop_defaults(struct loop_opts *o)
{
	memset(o, 0, sizeof(*o));
	set(o->spop[0], ADDR_MAX, "127.0.0.1:9400");
	set(o->spop[1], ADDR_MAX, "unix@/run/kvroute/spop.sock");
	o->spop_optional[1] = true;
	set(o->log_tcp[0], ADDR_MAX, "127.0.0.1:9401");
	set(o->log_udp[0], ADDR_MAX, "127.0.0.1:9401");
	set(o->metrics[0], ADDR_MAX, "127.0.0.1:9402");
	o->socket_mode = 0660;
	o->threads = 0;
	o->max_connections = 4096;
	o->spop_max_bytes = 256u << 20;
	o->spop_send_buffer = 128u << 10;
	o->max_feeds = 64;
	o->hello_timeout_ms = 5000;
	o->idle_timeout_ms = 300000;
	o->drain_ms = 5000;
	spop_conn_defaults(&o->spop_conn);
	set(o->state_dir, PATH_CHARS_MAX, "/var/lib/kvroute");
	o->log_level = LOG_INFO;
}

uint64_t loop_budget(const struct loop_opts *o)
{
	return o->spop_max_bytes + (uint64_t)o->max_connections * CONN_BYTES + (uint64_t)o->max_feeds * FEED_BYTES;
}
