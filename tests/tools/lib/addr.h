/* addr.h - addresses on the command lines of test tools: host:port, [v6]:port, :port or
 * unix@/path. */
#ifndef KVROUTE_TOOLS_ADDR_H
#define KVROUTE_TOOLS_ADDR_H

#include <sys/socket.h>
#include <sys/un.h>

#include "agent/base/err.h"
#include "agent/base/types.h"

#define ADDR_TEXT_MAX	160

struct addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Parse an address. Names are resolved, which may take time. Returns -1 with <err> if invalid. */
int addr_parse(struct addr *a, const char *text, struct err *err);

/* A non-blocking socket. A stale unix socket is removed before it is listened on again. Port 0
 * becomes the port that was given: <a> says it afterwards. -1 and <err>. */
int addr_listen(struct addr *a, struct err *err);

/* A non-blocking socket on its way; -1 and errno. */
int addr_connect(const struct addr *a);

/* As addr_parse() reads it, into <out> of ADDR_TEXT_MAX bytes. */
const char *addr_text(const struct addr *a, char *out);

#endif
