/* opener.h - a process beside the agent that does for it what needs a path, once the agent itself
 * may use none.
 *
 *      agent, which can open nothing              opener, which reads nothing
 *
 *      a number, what                ---->        opens the configuration | a file beneath models_dir | a new snapshot;
 *                                                 renames the snapshot, or removes it; removes a socket;
 *                                                 renames the recorded traffic and makes a new file for it
 *                                    <----        the number, and an open file, 0, or an errno
 *
 * A filter of system calls cannot tell one path from another, and a file that an editor replaces is
 * not the one that was open: so the right to open belongs to a process that knows its few paths
 * from the start, and one directory for models, and gets out of neither, whatever the agent says
 * (safe_path.h). It ends when the agent does, however that ends. */
#ifndef KVROUTE_OS_OPENER_H
#define KVROUTE_OS_OPENER_H

#include <pthread.h>

#include "agent/base/types.h"
#include "agent/os/privileges.h"
#include "agent/os/sandbox_refused.h"

#define OPENER_WAIT_S		5	/* a file system may hang; the agent must not */
#define OPENER_SOCKETS_MAX	32	/* LISTEN_MAX in each of four lists */

struct opener {
	int fd;			/* -1: there is none */
	uint32_t asked;
	pthread_mutex_t lock;	/* one question at a time */
};

/* All that it may ever touch. The texts are used from the working directory of the start. */
struct opener_files {
	const char *conf;		/* NULL: none */
	const char *models_dir;		/* NULL: none */
	const char *snapshot_dir;	/* NULL: none */
	const char *snapshot, *snapshot_tmp;	/* names in it */
	const char *record_dir;		/* NULL: none */
	const char *record, *record_old;	/* names in it */
	const char *socket[OPENER_SOCKETS_MAX];	/* paths */
	size_t n_sockets;
	const struct identity *as;	/* what it becomes */
	struct refused_count *refused;	/* calls that it was refused; shared memory, or NULL */
};

/* Before threads start and sockets are open. -1: errno; <o> can be used, and never opens anything.
 */
int opener_start(struct opener *o, const struct opener_files *f);

/* All may be called from any thread. They give -errno: ETIMEDOUT, ESRCH when the opener is gone, or
 * what the call said. */

/* A new descriptor for reading of the configuration. It does not wait for the writer of a pipe. */
int opener_open(struct opener *o);
/* The same for a regular file beneath models_dir, which <path> says from there on. */
int opener_open_model(struct opener *o, const char *path);

/* A new descriptor for writing of the file that is to become the snapshot; an old one of this
 * process goes away. */
int opener_snapshot_new(struct opener *o);
/* The same for the recorded traffic: the file that is there becomes <record_old>. */
int opener_record_new(struct opener *o);
/* It becomes the snapshot; or goes away. 0 done. */
int opener_snapshot_keep(struct opener *o);
int opener_snapshot_drop(struct opener *o);

/* Remove the file of a socket of ours, if it still is this one. 0 done. */
int opener_remove_socket(struct opener *o, const char *path, uint64_t dev, uint64_t ino);

void opener_stop(struct opener *o);

#endif
