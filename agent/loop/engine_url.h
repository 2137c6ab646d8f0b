/* engine_url.h - where an engine's metrics are asked for: "127.0.0.1:8000", "http://[::1]:8000/prometheus/metrics",
 * "unix@/run/engine.sock". Without a path it is /metrics; with unix@ there is no other. */
#ifndef KVROUTE_LOOP_ENGINE_URL_H
#define KVROUTE_LOOP_ENGINE_URL_H

#include "agent/loop/loop.h"
#include "agent/os/addr.h"

#define ENGINE_URL_PATH	"/metrics"

struct engine_url {
	struct addr to;
	char host[ADDR_MAX];		/* as the Host header has it */
	char path[ENGINE_URL_MAX + 1];
};

/* <addr> and <path> borrow from <text>, or are literals. Nothing is checked. */
void engine_url_split(struct span text, struct span *addr, struct span *path);

/* -1: <e> has a sentence. */
int engine_url_parse(const char *text, struct engine_url *t, struct err *e);

#endif
