/* recfile_in.h - the file of the recorded traffic: record.file.
 *
 *      <file>     the growing file; created at the start and, with rotate, when it has max_bytes
 *      <file>.1   the file before it; an older one is overwritten
 *
 * A thread of its own reads the queue of traffic.h ten times a second and writes whole lines. So a
 * slow disk delays no decision: the queue fills, and what does not fit is dropped. In the sandbox
 * the opener creates and renames the files. Mode 0600. A failed write, or max_bytes without rotate,
 * ends the recording until the next start; both are logged. */
#ifndef KVROUTE_LOOP_RECFILE_IN_H
#define KVROUTE_LOOP_RECFILE_IN_H

#include "agent/loop/log_in.h"
#include "agent/loop/loop.h"
#include "agent/os/newfile.h"
#include "agent/os/opener.h"
#include "agent/os/thread_sleep.h"

struct traffic;
struct traffic_text;

struct recfile {
	int dir, fd;			/* -1: none */
	struct opener *opener;		/* creates and renames files in the sandbox */
	char path[PATH_CHARS_MAX], dir_path[PATH_CHARS_MAX];	/* as configured */
	char name[PATH_CHARS_MAX], old[NEWFILE_NAME_MAX];	/* names in the directory */
	uint64_t max_bytes;
	bool rotate;
	struct traffic *queue;		/* NULL: no recording */
	struct traffic_text *text;
	struct log *log;
	struct thread_sleep sleep;
	pthread_t thread;
	bool running;
	/* atomics: */
	uint64_t lines, bytes;		/* in all; in the current file */
	bool ended;			/* the file is full, or could not be written */
};

/* Returns the bytes of memory of a recording. */
uint64_t recfile_budget(const struct loop_opts *o);

/* Set the names. Opens nothing. */
void recfile_init(struct recfile *f, const struct loop_opts *o, struct opener *opener);
/* Create the first file and the queue, if record.file is set, and give the queue to <r>. Returns 0,
 * or -1 with <e>. */
int recfile_open(struct recfile *f, const struct loop_opts *o, struct route *r,
    const struct hash_key *key, struct log *log, struct err *e);
int recfile_start(struct recfile *f, struct err *e);
/* Write the rest of the queue, with open requests. Call it when no thread decides any more. */
void recfile_stop(struct recfile *f);
void recfile_close(struct recfile *f);

#endif
