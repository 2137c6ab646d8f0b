/* engine_url.h - the address of an engine's metrics: "127.0.0.1:8000",
 * "http://[::1]:8000/prometheus/metrics" or "unix@/run/engine.sock". The default path is /metrics,
 * and the only one with unix@. */
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

#endif
