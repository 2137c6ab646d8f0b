/* addr.h - addresses as text ("127.0.0.1:9400", "[::1]:9400", "unix@/path") and the sockets that
 * listen on them. */
#ifndef KVROUTE_OS_ADDR_H
#define KVROUTE_OS_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/base/err.h"
#include "agent/base/types.h"
#include "agent/os/limits.h"

union sockaddr_any {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct addr {
	union sockaddr_any a;
	socklen_t len;
};

/* Parse <text>. Hosts must be numeric, because a start must not depend on a resolver. "*:9400" and
 * ":9400" are all IPv4 addresses. Returns 0, or -1 with <e>, a sentence that names <text>. */
int addr_parse(const char *text, struct addr *a, struct err *e);

/* Returns true for a loopback address and for a unix socket, and also for a text that is not an
 * address, because its error is reported elsewhere. */
bool addr_is_loopback(const char *text);
/* The same for an address, as of a peer. */
bool sockaddr_is_loopback(const union sockaddr_any *a);

/* One open listening socket, or a bound one for datagrams. */
struct listener {
	int fd;			/* -1: closed, or never opened */
	struct addr addr;
	char text[ADDR_MAX];	/* as bound: port 0 is replaced by the real one */
	uint64_t dev, ino;	/* of a unix socket's file, so that only this file is unlinked */
};

/* Open the address <text>, non-blocking. <type> is SOCK_STREAM or SOCK_DGRAM. <mode> is the mode of
 * a unix socket's file before any client can connect. A socket file on which no process listens is
 * replaced; if several processes try at once, one succeeds. Returns 0, 1 with <e> if the directory
 * is missing, or -1 with <e>. A file on which a process listens, or that is not a socket, is an
 * error. */
int listener_open(struct listener *l, const char *text, int type, uint32_t mode, struct err *e);

/* Close <l>, and remove the unix socket's file if it is still the one that was bound. <by> removes
 * it; if <by> is NULL or has ended, this process does. */
struct opener;
void listener_close(struct listener *l, struct opener *by);

/* Remove the socket at <path> if it has this <dev> and <ino>. Returns 0, or -1 with errno. */
int addr_remove_socket(const char *path, uint64_t dev, uint64_t ino);

/* Write "127.0.0.1:4711", "[::1]:4711" or "unix" to <out>. */
void addr_print(const union sockaddr_any *a, char *out, size_t cap);

#endif
