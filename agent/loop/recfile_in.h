/* recfile_in.h - the recorded traffic as a file: record.file.
 *
 *      <file>     the one that grows; made at the start and, with rotate, whenever it has max_bytes
 *      <file>.1   the one before it; what stood there is lost
 *
 * A thread of its own takes the queue of traffic.h ten times a second and writes whole lines: a
 * disk that is slow keeps no decision waiting, the queue fills and what does not fit is dropped. In
 * the sandbox the opener makes and renames files. Mode 0600. A write that fails, and the end of
 * max_bytes without rotate, end the recording until the agent is started again; both are logged. */
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
	struct opener *opener;		/* who makes and renames files, where there is a sandbox */
	char path[PATH_CHARS_MAX], dir_path[PATH_CHARS_MAX];	/* as configured */
	char name[PATH_CHARS_MAX], old[NEWFILE_NAME_MAX];	/* in the directory */
	uint64_t max_bytes;
	bool rotate;
	struct traffic *queue;		/* NULL: nothing is recorded */
	struct traffic_text *text;
	struct log *log;
	struct thread_sleep sleep;
	pthread_t thread;
	bool running;
	/* atomics: */
	uint64_t lines, bytes;		/* ever; in the file */
	bool ended;			/* it is full, or could not be written */
};

/* Bytes of memory that a recording takes. */
uint64_t recfile_budget(const struct loop_opts *o);

/* Its names; nothing is opened. */
void recfile_init(struct recfile *f, const struct loop_opts *o, struct opener *opener);
/* Make the first file and the queue, and give it to <r>, if a file is configured. -1: <e>. */
int recfile_open(struct recfile *f, const struct loop_opts *o, struct route *r, const struct hash_key *key,
		 struct log *log, struct err *e);
int recfile_start(struct recfile *f, struct err *e);
/* once nobody decides any more: write what is there, also of open requests */
void recfile_stop(struct recfile *f);
void recfile_close(struct recfile *f);

#endif
