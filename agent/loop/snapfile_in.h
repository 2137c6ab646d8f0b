/* snapfile_in.h - the snapshot as a file: read at start, written in between and at the end.
 *
 *      <file>           the last one that was written whole
 *      <file>.tmp.<pid> one that is being written: synced and renamed when all of it is there
 *
 * So a crash or a full disk leaves the old file as it was. In the sandbox the opener makes and
 * renames the file (opener.h): this process only writes to it. Periodic writing is a thread of its
 * own: a disk that is slow keeps nobody waiting. */
#ifndef KVROUTE_LOOP_SNAPFILE_IN_H
#define KVROUTE_LOOP_SNAPFILE_IN_H

#include "agent/loop/log_in.h"
#include "agent/loop/loop.h"
#include "agent/os/newfile.h"
#include "agent/os/opener.h"
#include "agent/os/thread_sleep.h"

struct snapfile {
	int dir;			/* -1: no snapshot is wanted */
	struct opener *opener;		/* who makes and renames files, where there is a sandbox; NULL: we do */
	uint64_t bytes_most;		/* a file that has more is not of this index */
	char path[PATH_CHARS_MAX], dir_path[PATH_CHARS_MAX];	/* as configured */
	char name[PATH_CHARS_MAX], tmp[NEWFILE_NAME_MAX];	/* in the directory */
	msec every_ms;			/* 0: only at the end */
	struct route *route;
	struct log *log;
	pthread_t thread;
	struct thread_sleep sleep;
	bool running;
	/* atomics: */
	uint64_t written, failed, bytes;	/* files; of the last one */
	uint64_t loaded_pages;
	msec written_at;		/* 0: none yet */
};

/* Its names, for an index of so many bytes; nothing is opened. */
void snapfile_init(struct snapfile *s, const struct loop_opts *o, size_t index_bytes, struct opener *opener);

/* Open the directory, if a file is configured; <kept>: the key is. -1: <e>. */
int snapfile_open(struct snapfile *s, const struct loop_opts *o, bool kept, struct err *e);
/* Read it into <r>, which is new. What cannot be read is told and left alone. */
void snapfile_load(struct snapfile *s, struct route *r, struct log *log);
int snapfile_start(struct snapfile *s, struct err *e);
void snapfile_stop(struct snapfile *s);		/* a file that is half written is given up */
void snapfile_write(struct snapfile *s);	/* all of it, now */
void snapfile_close(struct snapfile *s);

#endif
