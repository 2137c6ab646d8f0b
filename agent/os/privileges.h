/* privileges.h - the user that the process runs as after its addresses are bound, and its
 * capabilities: none.
 *
 *      root:  find the user  ->  bind, read key and token  ->  become the user, drop all
 *             capabilities  ->  everything else
 *
 * So a reload or a snapshot may later read and write exactly the files that the start may read and
 * write. */
#ifndef KVROUTE_OS_PRIVILEGES_H
#define KVROUTE_OS_PRIVILEGES_H

#include <sys/types.h>

#include "agent/base/err.h"
#include "agent/base/types.h"
#include "agent/os/limits.h"

struct identity {
	bool change;		/* differs from the current user or group */
	uid_t uid;
	gid_t gid;
	char name[NAME_CHARS_MAX];	/* user name, for its supplementary groups; "": none */
};

/* Find the identity that <user> and <group> name; "" means the current one. Returns 0, or -1 with
 * <e> if a name is unknown or only root may change to it. */
int identity_find(const char *user, const char *group, struct identity *id, struct err *e);

/* Returns true if <uid> is root, the current user or the user of <id>. */
bool identity_owns(const struct identity *id, uid_t uid);

/* Ensure that no program run later gets a capability. Needs CAP_SETPCAP, so call it before
 * identity_become(). */
void privileges_bound(void);

/* Change to <id> for good. Call it before any thread starts. Returns 0, or -1 with <e>. */
int identity_become(const struct identity *id, struct err *e);

/* Drop every capability. Call it before any thread starts. Returns true if none is left. */
bool privileges_drop(void);

#endif
