/* hastats.h - decode the server rows of HAProxy's stats socket.
 *
 * Pools above 64 servers need it, because their `load` string would be too long. It also shows
 * drain, which `load` does not. loop/polls.c owns the socket and the clock; this decoder takes
 * bytes and returns rows.
 *
 *     command    "show stat -1 4 -1" (all proxies, servers only), alone on its connection or one
 *     of many
 *     answer     # pxname,svname,qcur,...,status,weight,...,type,...      the position of a column
 *                pool,s1,0,...,no check,10,...,2,...                      differs in 2.6, 3.0
 *                and 3.2 pool,s2,0,...,DRAIN,20,...,2,... (an empty line)
 *
 * "show servers state" would tell drain and maintenance exactly, but has neither sessions nor
 * queues. The status column here tells the same, so one command is enough. (The weight does not:
 * a drained server keeps it.)
 *
 * The column `addr` has a server's address. It is empty on a socket of level user, and for a server
 * whose name is not resolved (measured with 2.6, 3.0 and 3.2).
 *
 * Bytes may arrive in pieces of any size. An invalid row is counted and skipped, an invalid
 * answer returns an error. Memory is that of the struct, whatever the input. */
#ifndef KVROUTE_FEED_HASTATS_H
#define KVROUTE_FEED_HASTATS_H

#include <sys/types.h>

#include "agent/base/types.h"

#define HASTATS_FIELD_MAX	127		/* bytes of a field; a row with a longer one is skipped */
#define HASTATS_COLUMNS_MAX	1024		/* 3.2 has 207; later columns are ignored */
#define HASTATS_LINE_MAX	(64u << 10)	/* a row of 3.2 has about 400 bytes */
#define HASTATS_ANSWER_MAX	(32u << 20)	/* rows of 80,000 servers */

/* Texts of hastats_strerror(). */
enum {
	HASTATS_E_FOREIGN = 1,	/* no column names: an error text of the CLI, or not HAProxy */
	HASTATS_E_COLUMN,	/* a required column is missing */
	HASTATS_E_LINE,		/* a line longer than HASTATS_LINE_MAX */
	HASTATS_E_ANSWER,	/* an answer longer than HASTATS_ANSWER_MAX */
	HASTATS_E_COUNT
};

/* Which new requests a server accepts, from the first word of `status`. */
enum hastats_state {
	HASTATS_UP,		/* "UP", "UP 1/3" (failing), "no check" */
	HASTATS_DOWN,		/* "DOWN", "DOWN 1/2" (recovering), "DOWN (agent)" */
	HASTATS_DRAIN,		/* "DRAIN", "DRAIN (agent)", "NOLB" (404 on its check): persistent only */
	HASTATS_MAINT		/* "MAINT", "MAINT (via pool/s1)", "MAINT (resolution)" */
};

/* The spans are valid until the callback returns. */
struct hastats_row {
	struct span pool, server;	/* letters, digits and "._:-", as HAProxy allows */
	enum hastats_state state;
	uint32_t weight;		/* effective: slow start and agent checks change it; 0: no traffic */
	bool backup;			/* a "backup" server; false if there is no such column */
	struct span address;		/* any bytes; "10.0.0.7:8000", "[fd00::7]:8000", "unix"; else empty */
	uint32_t sessions, queue;	/* of this HAProxy process: in service, and queued for it */
};

typedef void hastats_row_fn(void *arg, const struct hastats_row *row);

enum hastats_column {
	HASTATS_POOL, HASTATS_SERVER, HASTATS_QUEUE, HASTATS_SESSIONS, HASTATS_STATUS, HASTATS_WEIGHT,
	HASTATS_TYPE,
	HASTATS_BACKUP,		/* optional, as are all after it */
	HASTATS_ADDRESS,
	HASTATS_WANTED
};

/* The state of one answer. Fields are private to hastats.c up to the caller's. */
struct hastats {
	hastats_row_fn *row;
	void *arg;
	struct hastats_field {
		char text[HASTATS_FIELD_MAX + 1];
		uint32_t n;		/* its bytes; if more than HASTATS_FIELD_MAX, it is truncated */
	} fields[HASTATS_WANTED], name;	/* of the row; the current column name */
	uint8_t wanted[HASTATS_COLUMNS_MAX];	/* enum hastats_column; HASTATS_WANTED: ignored */
	uint32_t columns, column;
	uint32_t line_bytes, answer_bytes;
	enum { HASTATS_HASH, HASTATS_SPACE, HASTATS_NAMES, HASTATS_ROWS, HASTATS_FOREIGN } part;
	enum { HASTATS_START, HASTATS_PLAIN, HASTATS_QUOTED, HASTATS_QUOTE } at;	/* in a field */
	int error;			/* negative; returned by all later calls */

	/* for the caller: */
	uint64_t rows, bad_rows;	/* reported to the callback; server rows skipped */
	const char *missing;		/* HASTATS_E_COLUMN: the first missing column */
	char said[HASTATS_FIELD_MAX + 1];	/* HASTATS_E_FOREIGN: its first line, safe for a log */
};

void hastats_init(struct hastats *h, hastats_row_fn *row, void *arg);

/* Consume <n> bytes, which may be 0, and call the callback for each complete row. Returns
 *   > 0  bytes used: the answer ended with them; later bytes belong to the next (hastats_init()
 *   first)
 *     0  all used, the answer is incomplete; if the connection ends here, servers without a row are
 *        unknown
 *   < 0  -HASTATS_E_... */
ssize_t hastats_feed(struct hastats *h, const void *p, size_t n);

const char *hastats_strerror(int error);

#endif
