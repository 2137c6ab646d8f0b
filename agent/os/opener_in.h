/* opener_in.h - the messages between agent and opener. Both are this program, so they are plain
 * structs. */
#ifndef KVROUTE_OS_OPENER_IN_H
#define KVROUTE_OS_OPENER_IN_H

#include <stddef.h>
#include <sys/socket.h>

#include "agent/os/opener.h"
#include "agent/os/safe_path.h"

enum opener_what {
	OPENER_CONF,
	OPENER_MODEL,
	OPENER_SNAPSHOT_NEW,
	OPENER_SNAPSHOT_KEEP,
	OPENER_SNAPSHOT_DROP,
	OPENER_SOCKET_REMOVE,
	OPENER_RECORD_NEW
};

struct opener_request {
	uint32_t number, what;
	uint64_t dev, ino;		/* of a socket */
	char path[SAFE_PATH_MAX];	/* of a model or socket; only the bytes before its NUL are sent */
};
#define OPENER_REQUEST_HEAD	offsetof(struct opener_request, path)

struct opener_reply {
	uint32_t number;
	int32_t error;		/* errno; or 0, with a descriptor if one was requested */
};

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

/* The main function of the opener process. */
_Noreturn void opener_child(int from, const struct opener_files *f);

#endif
