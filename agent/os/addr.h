/* addr.h - where to listen: "127.0.0.1:9400", "[::1]:9400", "unix@/path"; and who is calling. */
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

/* Numeric addresses only: a name that a resolver must answer has no place in a start. "*:9400" and
 * ":9400" are all IPv4 addresses. -1: <e> has a sentence that names <text>. */
int addr_parse(const char *text, struct addr *a, struct err *e);

/* Is it a loopback address or a unix socket? A text that is no address counts as one: others report it. */
bool addr_is_loopback(const char *text);

/* One open listening (or, for datagrams, bound) socket. */
struct listener {
	int fd;			/* -1: closed, or never opened */
	struct addr addr;
	char text[ADDR_MAX];	/* as bound: port 0 has become a real one */
	uint64_t dev, ino;	/* of a unix socket's file, to unlink our own and no other's */
};

/* Open <text>, non-blocking. <type>: SOCK_STREAM or SOCK_DGRAM; <mode> is for a unix socket's file,
 * in force before anyone can connect. A socket file that nobody answers on is replaced, by one of those
 * that try at once; one that answers, and a file that is no socket, are errors. 0 opened; 1 its directory is missing; -1: <e>. */
int listener_open(struct listener *l, const char *text, int type, uint32_t mode, struct err *e);

/* Close, and remove the unix socket's file if it still is ours; <by>: the process that does this,
 * NULL or gone: this one. */
struct opener;
void listener_close(struct listener *l, struct opener *by);

/* Remove the socket at <path>, if it is the one of this <dev> and <ino>. -1: errno. */
int addr_remove_socket(const char *path, uint64_t dev, uint64_t ino);

/* "127.0.0.1:4711", "[::1]:4711", "unix". */
void addr_print(const union sockaddr_any *a, char *out, size_t cap);

#endif
