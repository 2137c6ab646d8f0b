/* hastats.h - what HAProxy's stats socket says of every server, row by row.
 *
 * Pools above 64 servers need it, for whom `load` is too long, and drain, which `load` does not show at all.
 * loop/polls.c owns the socket, the clock and the way back; here bytes go in and rows come out.
 *
 *     ask for    "show stat -1 4 -1" (all proxies, servers only), alone on its connection or as one of many
 *     answer     # pxname,svname,qcur,...,status,weight,...,type,...      which column is which: 2.6, 3.0
 *                pool,s1,0,...,no check,10,...,2,...                      and 3.2 differ in number
 *                pool,s2,0,...,DRAIN,20,...,2,...
 *                (an empty line)
 *
 * Why this and not "show servers state": that one has the bits behind drain and maintenance, but neither
 * sessions nor queues. The status here says the same (the weight does not: a drained server keeps it), so
 * one question is enough.
 *
 * Bytes may arrive in any cuts. All of it is checked: a row that makes no sense is counted and left out,
 * an answer that makes none ends with an error, and the memory is that of the struct, whatever comes. */
#ifndef KVROUTE_FEED_HASTATS_H
#define KVROUTE_FEED_HASTATS_H

#include <sys/types.h>

#include "agent/base/types.h"

#define HASTATS_FIELD_MAX	127		/* of a field we read; a row with a longer one is left out */
#define HASTATS_COLUMNS_MAX	1024		/* 3.2 has 207; those behind are not looked at */
#define HASTATS_LINE_MAX	(64u << 10)	/* a row of 3.2 is some 400 bytes */
#define HASTATS_ANSWER_MAX	(32u << 20)	/* that many rows of 80,000 servers */

/* Texts of hastats_strerror(). */
enum {
	HASTATS_E_FOREIGN = 1,	/* not "# " and column names: a sentence of the CLI, or no HAProxy at all */
	HASTATS_E_COLUMN,	/* a column we need is not there */
	HASTATS_E_LINE,		/* a line longer than HASTATS_LINE_MAX */
	HASTATS_E_ANSWER,	/* an answer longer than HASTATS_ANSWER_MAX */
	HASTATS_E_COUNT
};

/* What new requests a server takes, from the first word of `status`. */
enum hastats_state {
	HASTATS_UP,		/* "UP", "UP 1/3" (failing), "no check" */
	HASTATS_DOWN,		/* "DOWN", "DOWN 1/2" (recovering), "DOWN (agent)" */
	HASTATS_DRAIN,		/* "DRAIN", "DRAIN (agent)", "NOLB" (404 on its check): none but persistent */
	HASTATS_MAINT		/* "MAINT", "MAINT (via pool/s1)", "MAINT (resolution)" */
};

/* The spans are good until the callback returns. */
struct hastats_row {
	struct span pool, server;	/* of letters, digits and "._:-", as HAProxy has them */
	enum hastats_state state;
	uint32_t weight;		/* in force now: slow start and agent checks move it; 0 takes nothing */
	bool backup;			/* a "backup" server; false where there is no such column */
	uint32_t sessions, queue;	/* of this HAProxy process: being served, and waiting for this server */
};

typedef void hastats_row_fn(void *arg, const struct hastats_row *row);

enum hastats_column {
	HASTATS_POOL, HASTATS_SERVER, HASTATS_QUEUE, HASTATS_SESSIONS, HASTATS_STATUS, HASTATS_WEIGHT,
	HASTATS_TYPE,
	HASTATS_BACKUP,		/* the ones before it must be there */
	HASTATS_WANTED
};

/* One answer being read. Fields are for hastats.c, but for what is said to be the caller's. */
struct hastats {
	hastats_row_fn *row;
	void *arg;
	struct hastats_field {
		char text[HASTATS_FIELD_MAX + 1];
		uint32_t n;		/* bytes of it; more than HASTATS_FIELD_MAX: not all of them are there */
	} fields[HASTATS_WANTED], name;	/* of the row; of the column being named */
	uint8_t wanted[HASTATS_COLUMNS_MAX];	/* HASTATS_WANTED: none of ours */
	uint32_t columns, column;
	uint32_t line_bytes, answer_bytes;
	enum { HASTATS_HASH, HASTATS_SPACE, HASTATS_NAMES, HASTATS_ROWS, HASTATS_FOREIGN } part;
	enum { HASTATS_START, HASTATS_PLAIN, HASTATS_QUOTED, HASTATS_QUOTE } at;	/* in a field */
	int error;			/* negative; feeding goes on giving it */

	/* the caller's, to read: */
	uint64_t rows, bad_rows;	/* given to the callback; servers' rows left out */
	const char *missing;		/* HASTATS_E_COLUMN: the first column that is not there */
	char said[HASTATS_FIELD_MAX + 1];	/* HASTATS_E_FOREIGN: its first line, fit for a log */
};

void hastats_init(struct hastats *h, hastats_row_fn *row, void *arg);

/* > 0  bytes used: the answer has ended with them, what is behind is the next one's (hastats_init() first)
 *   0  all used, the answer goes on; if the connection ends here, it was cut and says nothing of the
 *      servers it did not come to
 * < 0  -HASTATS_E_...
 * The callback is called from inside, with whole rows only; n == 0 is allowed and gives 0. */
ssize_t hastats_feed(struct hastats *h, const void *p, size_t n);

const char *hastats_strerror(int error);

#endif
