/* Default options: loopback addresses only, and a bound for every size. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/loop/engine_list.h"
#include "agent/loop/kvsub_in.h"
#include "agent/loop/recfile_in.h"
#include "agent/loop/share.h"

static void set_text(char *to, size_t cap, const char *text)
{
	snprintf(to, cap, "%s", text);
}

static void share_defaults(struct share_opts *o)
{
	set_text(o->fleet, sizeof(o->fleet), "kvroute");
	o->max_bytes = 16u << 20;
	o->stream_entries = 65536;
	o->snapshot_every_ms = 300000;
	o->warm_timeout_ms = 10000;
	o->timeout_ms = 1000;
	o->snapshot_from_every_ms = 60000;
}

void loop_defaults(struct loop_opts *o)
{
	memset(o, 0, sizeof(*o));
	set_text(o->spop[0], ADDR_MAX, "127.0.0.1:9400");
	set_text(o->spop[1], ADDR_MAX, "unix@/run/kvroute/spop.sock");
	o->spop_optional[1] = true;
	set_text(o->log_tcp[0], ADDR_MAX, "127.0.0.1:9401");
	set_text(o->log_udp[0], ADDR_MAX, "127.0.0.1:9401");
	set_text(o->metrics[0], ADDR_MAX, "127.0.0.1:9402");
	o->socket_mode = 0660;
	o->runtime_mode = 0600;
	o->threads = 0;
	o->max_connections = 4096;
	o->spop_max_bytes = 256u << 20;
	o->spop_send_buffer = 128u << 10;
	o->max_feeds = 64;
	o->hello_timeout_ms = 5000;
	o->idle_timeout_ms = 300000;
	o->timeout_processing_ms = 50;
	o->drain_ms = 5000;
	spop_conn_defaults(&o->spop_conn);
	set_text(o->state_dir, PATH_CHARS_MAX, "/var/lib/kvroute");
	set_text(o->models_dir, PATH_CHARS_MAX, "/etc/kvroute/models");
	o->record_max_bytes = 256u << 20;
	o->record_block_tokens = 128;
	o->log_level = LOG_INFO;
	o->stats_interval_ms = o->engine_interval_ms = 500;
	o->stats_timeout_ms = o->engine_timeout_ms = 1000;
	share_defaults(&o->share);
}

void loop_opts_free(struct loop_opts *o)
{
	mem_free(o->engines);
	o->engines = NULL;
	o->n_engines = 0;
}

static bool is_polled(const struct engine_opts *e, bool star)
{
	return e->metrics[0] != '\0' && (strcmp(e->name, "*") == 0) == star;
}

size_t loop_peers(const struct loop_opts *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_engines; i++)
		n += is_polled(&o->engines[i], false);
	for (unsigned i = 0; i < LISTEN_MAX && o->stats[i][0] != '\0'; i++)
		n++;
	return n;
}

size_t loop_peers_most(const struct loop_opts *o)
{
	for (size_t i = 0; i < o->n_engines; i++)
		if (is_polled(&o->engines[i], true))
			return ENGINES_MAX + LISTEN_MAX;
	return loop_peers(o);
}

unsigned loop_threads_most(const struct loop_opts *o)
{
	return o->threads > 0 ? o->threads : THREADS_DEFAULT_MAX;
}

uint64_t loop_budget(const struct loop_opts *o)
{
	return o->spop_max_bytes + (uint64_t)o->max_connections * CONN_BYTES +
	    (uint64_t)o->max_feeds * FEED_BYTES + loop_peers_most(o) * POLL_BYTES +
	    recfile_budget(o) + (kvsub_wanted(o) ? KVSUB_BUDGET : 0) + share_budget(o);
}
