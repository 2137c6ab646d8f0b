/* opener_in.h - what agent and opener say to each other; both are this program. */
#ifndef KVROUTE_OS_OPENER_IN_H
#define KVROUTE_OS_OPENER_IN_H

#include <stddef.h>
#include <sys/socket.h>

#include "agent/os/opener.h"
#include "agent/os/safe_path.h"

enum opener_what {
	OPENER_CONF, OPENER_MODEL, OPENER_SNAPSHOT_NEW, OPENER_SNAPSHOT_KEEP, OPENER_SNAPSHOT_DROP, OPENER_SOCKET_REMOVE,
	OPENER_RECORD_NEW
};

struct question {
	uint32_t asked, what;
	uint64_t dev, ino;		/* of a socket */
	char path[SAFE_PATH_MAX];	/* of a model or a socket: as much as was sent, without its NUL */
};
#define QUESTION_HEAD	offsetof(struct question, path)

struct reply {
	uint32_t asked;
	int32_t error;		/* errno, or 0: done, with a descriptor where one was asked for */
};

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

/* The life of the opener, in the process that was forked for it. */
_Noreturn void opener_child(int from, const struct opener_files *f);

#endif
