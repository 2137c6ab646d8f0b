/* engine_url.h - addresses of an engine.
 *
 *      metrics   "127.0.0.1:8000", "http://[::1]:8000/prometheus/metrics", "unix@/run/engine.sock".
 *                The default path is /metrics, and the only one with unix@.
 *      events    "tcp://10.0.0.7:5557", "ipc:///run/engine.events"
 *
 * Both may hold "{address}" and "{port}", which stand for the server's address as HAProxy's stats
 * socket shows it. */
#ifndef KVROUTE_LOOP_ENGINE_URL_H
#define KVROUTE_LOOP_ENGINE_URL_H

#include "agent/loop/loop.h"
#include "agent/os/addr.h"

#define ENGINE_URL_PATH	"/metrics"

struct engine_url {
	struct addr to;
	char host[ADDR_MAX];		/* for the Host header */
	char path[ENGINE_URL_MAX + 1];
};

/* Split <text> into <addr> and <path>, which point into <text> or to literals. Nothing is
 * checked. */
void engine_url_split(struct span text, struct span *addr, struct span *path);

/* Parse <text>. Returns 0, or -1 with <e>. */
int engine_url_parse(const char *text, struct engine_url *t, struct err *e);

/* Returns the port of "tcp://10.0.0.7:5557"; 0 for any other text. */
uint16_t engine_endpoint_port(const char *text);

/* Returns true for an endpoint that the agent binds: its host is "*", 0.0.0.0 or [::]. */
bool engine_endpoint_is_bound(const char *text);

#define ENGINE_HOST_MAX	48	/* "[fd00::7]", with its NUL */

/* Returns true if <text> has "{address}" or "{port}" in it. */
bool engine_url_has_address(const char *text), engine_url_has_port(const char *text);

/* Write <text> to <out> with <host> ("10.0.0.7", "[fd00::7]") for each "{address}" and <port> for
 * each "{port}". Returns 0, or -1 if <out> is too small. */
int engine_url_fill(struct span text, const char *host, uint16_t port, char *out, size_t cap);

#endif
