/* opener.h - a process that opens files for the agent, because the sandboxed agent cannot.
 *
 *      agent, which can open nothing              opener, which reads nothing
 *
 *      number, request               ---->       open the configuration, a file below models_dir or
 *                                                 a new snapshot; rename or remove the snapshot;
 *                                                 remove a socket; rename the recording and create
 *                                                 its next file
 *                                    <----        number, and a descriptor, 0 or an errno
 *
 * A filter of system calls cannot compare paths, and an editor replaces a file instead of writing
 * to it. So the right to open files belongs to a process of its own. It knows its few paths from
 * the start and one directory for models, and opens nothing else, whatever the agent sends
 * (safe_path.h). It ends when the agent ends, for any reason. */
#ifndef KVROUTE_OS_OPENER_H
#define KVROUTE_OS_OPENER_H

#include <pthread.h>

#include "agent/base/types.h"
#include "agent/os/privileges.h"
#include "agent/os/sandbox_refused.h"

#define OPENER_WAIT_S		5	/* a file system may hang; the agent must not */
#define OPENER_SOCKETS_MAX	33	/* LISTEN_MAX in each of four lists; the runtime socket */

struct opener {
	int fd;			/* -1: not running */
	uint32_t number;
	pthread_mutex_t lock;	/* one request at a time */
};

/* All files that the opener may touch. Relative paths are relative to the working directory at the
 * start. */
struct opener_files {
	const char *conf;		/* NULL: none */
	const char *models_dir;		/* NULL: none */
	const char *snapshot_dir;	/* NULL: none */
	const char *snapshot, *snapshot_tmp;	/* names in <snapshot_dir> */
	const char *record_dir;		/* NULL: none */
	const char *record, *record_old;	/* names in <record_dir> */
	const char *socket[OPENER_SOCKETS_MAX];	/* paths */
	size_t n_sockets;
	const struct identity *as;	/* the user it changes to */
	struct refused_count *refused;	/* counter of calls refused to it, in shared memory; or NULL */
};

/* Start the opener. Call it before threads start and sockets are open. Returns 0, or -1 with errno;
 * then <o> can be used, but every request fails. */
int opener_start(struct opener *o, const struct opener_files *f);

/* All functions below may be called from any thread. They return -errno on failure: -ETIMEDOUT,
 * -ESRCH if the opener has ended, or the error of its call. */

/* Open the configuration for reading. Returns a descriptor. Does not wait for the writer of a
 * pipe. */
int opener_open(struct opener *o);
/* Open the regular file <path> below models_dir for reading. Returns a descriptor. */
int opener_open_model(struct opener *o, const char *path);

/* Create the file of the next snapshot. Returns a descriptor for writing. Removes an unfinished
 * file of this process. */
int opener_snapshot_new(struct opener *o);
/* Rename the recording to <record_old> and create the next file. Returns a descriptor for
 * writing. */
int opener_record_new(struct opener *o);
/* Rename the new file to <snapshot>, or remove it. Returns 0. */
int opener_snapshot_keep(struct opener *o);
int opener_snapshot_drop(struct opener *o);

/* Remove the socket at <path> if it is one of <socket> and has this <dev> and <ino>. Returns 0. */
int opener_remove_socket(struct opener *o, const char *path, uint64_t dev, uint64_t ino);

void opener_stop(struct opener *o);

#endif
