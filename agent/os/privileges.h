/* privileges.h - which user the process runs as once its addresses are bound, and with which
 * capabilities: none.
 *
 *      root:  find the user  ->  bind, read key and token  ->  become the user, drop all capabilities  ->  everything else
 *
 * So what a reload or a snapshot may read and write later is what may be read and written at the
 * start. */
#ifndef KVROUTE_OS_PRIVILEGES_H
#define KVROUTE_OS_PRIVILEGES_H

#include <sys/types.h>

#include "agent/base/err.h"
#include "agent/base/types.h"
#include "agent/os/limits.h"

struct identity {
	bool change;		/* the process has another one now */
	uid_t uid;
	gid_t gid;
	char name[NAME_CHARS_MAX];	/* for its further groups; "": it has none */
};

/* What <user> and <group> ask for ("": nothing), or what the process has. -1: <e>: there is no such user or group, or only root
 * may change to it. */
int identity_find(const char *user, const char *group, struct identity *id, struct err *e);

/* Is a file of <uid> ours: of root, of the process, or of who it will be? */
bool identity_owns(const struct identity *id, uid_t uid);

/* No program that is run later has a capability. Needs CAP_SETPCAP, so before identity_take(). */
void privileges_bound(void);

/* Become <id>, with no way back. Before any thread is made. -1: <e>. */
int identity_take(const struct identity *id, struct err *e);

/* Drop every capability; true: there is none now. Before any thread is made. */
bool privileges_drop(void);

#endif
