/* target.h - where an engine's metrics are asked for: "127.0.0.1:8000", "http://[::1]:8000/prometheus/metrics",
 * "unix@/run/engine.sock". Without a path it is /metrics; with unix@ there is no other. */
#ifndef KVROUTE_LOOP_TARGET_H
#define KVROUTE_LOOP_TARGET_H

#include "agent/os/addr.h"

#define TARGET_PATH	"/metrics"

struct target {
	struct addr to;
	char host[ADDR_MAX];		/* as the Host header has it */
	char path[ENGINE_URL_MAX + 1];
};

/* <addr> and <path> borrow from <text>, or are literals. Nothing is checked. */
void target_split(struct span text, struct span *addr, struct span *path);

/* -1: <e> has a sentence. */
int target_parse(const char *text, struct target *t, struct err *e);

#endif
