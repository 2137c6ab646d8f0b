/* opener.h - a process beside the agent that opens files for it, at each reload: the configuration, and those of models.
 *
 *      agent, which can open nothing              opener, which reads nothing
 *
 *      a number                     ---->
 *                                   <----        the number, and the open configuration or an errno
 *      a number, a path             ---->
 *                                   <----        the number, and that file beneath models_dir or an errno
 *
 * A filter of system calls cannot tell one path from another, and a file that an editor replaces is
 * not the one that was open: so the right to open belongs to a process that knows one file and one directory
 * and gets out of neither, whatever the agent says (beneath.h). It ends when the agent does, however that ends. */
#ifndef KVROUTE_LOOP_OPENER_H
#define KVROUTE_LOOP_OPENER_H

#include "agent/base/types.h"

#define OPENER_WAIT_S	5	/* a file system may hang; the agent must not */

struct opener {
	int fd;			/* -1: there is none */
	uint32_t asked;
};

/* Before threads start and sockets are open. <path> and <models_dir> (NULL: none) are used from the working directory of now.
 * -1: errno; <o> can be used, and never opens anything. */
int opener_start(struct opener *o, const char *path, const char *models_dir);

/* A new descriptor for reading, or -errno: ETIMEDOUT, ESRCH when the opener is gone, or what open()
 * said. It does not wait for the writer of a pipe. From one thread. */
int opener_open(struct opener *o);

/* The same for a regular file beneath models_dir, which <path> says from there on. */
int opener_open_model(struct opener *o, const char *path);

void opener_stop(struct opener *o);

#endif
