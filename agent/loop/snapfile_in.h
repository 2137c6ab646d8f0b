/* snapfile_in.h - the file of the snapshot: read at the start, written at an interval and at the
 * end.
 *
 *      <file>            the last complete snapshot
 *      <file>.tmp.<pid>  the one being written; synced and renamed when it is complete
 *
 * After the index follow the positions in the streams of siblings, if the agent shares, and the
 * blocks that engines reported. A part that is refused leaves the others.
 *
 * So a crash or a full disk leaves the old file unchanged. In the sandbox the opener creates and
 * renames the file (opener.h), and this process only writes to it. A thread of its own writes at
 * the interval, so a slow disk delays no other thread. */
#ifndef KVROUTE_LOOP_SNAPFILE_IN_H
#define KVROUTE_LOOP_SNAPFILE_IN_H

#include "agent/loop/log_in.h"
#include "agent/loop/loop.h"
#include "agent/os/newfile.h"
#include "agent/os/opener.h"
#include "agent/os/thread_sleep.h"

struct share;

struct snapfile {
	int dir;			/* -1: no snapshot is configured */
	struct share *share;		/* its positions go with the index; NULL: none */
	struct opener *opener;		/* creates and renames files in the sandbox; NULL: this process does */
	uint64_t bytes_most;		/* a larger file is not from this index */
	char path[PATH_CHARS_MAX], dir_path[PATH_CHARS_MAX];	/* as configured */
	char name[PATH_CHARS_MAX], tmp[NEWFILE_NAME_MAX];	/* names in the directory */
	msec every_ms;			/* 0: only at the end */
	bool on_demand;			/* snapfile_ask() may be called */
	struct route *route;
	struct log *log;
	pthread_t thread;
	struct thread_sleep sleep;
	bool running;
	/* atomics: */
	bool asked;
	uint64_t written, failed, bytes;	/* files; bytes of the last one */
	uint64_t loaded_pages;
	msec written_at;		/* 0: never */
};

/* Set the names of the file, and its limit by the budgets of <ro>. Opens nothing. */
void snapfile_init(
    struct snapfile *s, const struct loop_opts *o, const struct route_opts *ro,
    struct opener *opener);

/* Open the directory, if a file is configured. <kept>: the key is permanent. Returns 0, or -1 with
 * <e>. */
int snapfile_open(struct snapfile *s, const struct loop_opts *o, bool kept, struct err *e);
/* Read the snapshot into <r>, which is new. A snapshot that cannot be read is logged and renamed to
 * .refused. */
void snapfile_load(struct snapfile *s, struct route *r, struct log *log);
int snapfile_start(struct snapfile *s, struct err *e);
void snapfile_stop(struct snapfile *s);		/* an unfinished file is removed */
void snapfile_write(struct snapfile *s);	/* writes a whole snapshot now */
/* Let the thread write a snapshot soon. Returns false if none is configured. Any thread. */
bool snapfile_ask(struct snapfile *s);
void snapfile_close(struct snapfile *s);

#endif
