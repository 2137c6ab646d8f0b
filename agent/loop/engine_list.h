/* engine_list.h - one entry for each engine, from the configuration and the addresses of servers.
 *
 *      engines:                                     servers, as HAProxy's stats sockets show them
 *        - {name: "*", pool: chat,                    chat/gpu1   10.0.0.1   8000
 *           metrics: "{address}:{port}"}              chat/gpu2   [fd00::2]  8000
 *        - {name: gpu2, pool: chat, ...}              code/gpu1   10.0.0.1   8001
 *                       |                                       |
 *                       '-------- engine_list_make() -----------'
 *                                         |
 *                       chat/gpu1  metrics 10.0.0.1:8000
 *                       chat/gpu2  as configured
 *
 * Pure: no socket, no clock. */
#ifndef KVROUTE_LOOP_ENGINE_LIST_H
#define KVROUTE_LOOP_ENGINE_LIST_H

#include "agent/feed/hastats.h"
#include "agent/feed/server_info.h"
#include "agent/loop/engine_url.h"
#include "agent/loop/loop.h"

#define ENGINES_MAX	SERVERS_MAX	/* of a list */

struct engine_server {
	char pool[POOL_NAME_MAX + 1], name[SERVER_NAME_MAX + 1];
	char host[ENGINE_HOST_MAX];	/* "10.0.0.7", "[fd00::7]" */
	uint16_t port;
};

/* Parse the address of a row, "10.0.0.7:8000" or "[fd00::7]:8000". Returns 0, or -1 if it is
 * anything else, or an address of no host (0.0.0.0, [::]). */
int engine_server_address(struct span text, char host[ENGINE_HOST_MAX], uint16_t *port);

/* Write at most <cap> entries to <out>: those of <conf> without a place-holder, and for each of
 * <servers> that an entry with one stands for, this entry with its name and address. Each server
 * must be in <servers> once. An entry whose address would be too long is left out. Returns their
 * number, also of those beyond <cap>. */
size_t engine_list_make(const struct engine_opts *conf, size_t n_conf,
    const struct engine_server *servers, size_t n_servers, struct engine_opts *out, size_t cap);

/* Returns true if an address in <conf> depends on a server of <pool>. */
bool engine_list_needs(const struct engine_opts *conf, size_t n_conf, struct span pool);

#define ENGINE_EVENTS_AUTO	"auto"	/* endpoint: the engine is asked for it */

/* What an engine has told about itself. */
struct engine_told {
	bool answered;			/* or failed to: nothing more is to be expected soon */
	uint32_t ranks;			/* by its metrics; 0: not told */
	double started;			/* the same */
	struct server_info info;	/* of /server_info */
};

static inline bool engine_events_are_auto(const struct engine_opts *e)
{
	return strcmp(e->events.endpoint, ENGINE_EVENTS_AUTO) == 0;
}

/* Set endpoint, replay, topic and ranks of <e>, as far as they are left to the engine, from what it
 * has told; NULL: it is not polled. Returns false if its events cannot be read, or not yet. */
bool engine_events_fill(struct engine_opts *e, const struct engine_told *told);

/* Returns true if an address of <e> has a place-holder, or <e> stands for all servers of a pool. */
bool engine_is_open(const struct engine_opts *e);

#endif
