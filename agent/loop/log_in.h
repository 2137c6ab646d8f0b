/* log_in.h - the agent's log: key=value, one event per line, one write per line.
 *
 *      ts=2026-01-31T09:00:00.125Z level=warn msg="connection closed" peer=127.0.0.1:4711 status=4
 *
 * Lines are built field by field, so a value from outside cannot forge a field or a line: a value
 * that is not plain is quoted, and bytes that are not printable ASCII are written as \xNN. Prompt
 * text is never logged. */
#ifndef KVROUTE_LOOP_LOG_IN_H
#define KVROUTE_LOOP_LOG_IN_H

#include <pthread.h>

#include "agent/loop/loop.h"

#define LOG_LINE_MAX	2048	/* below PIPE_BUF: a write to a pipe is whole or fails */
#define LOG_VALUE_MAX	400	/* bytes of one value that are shown */
#define LOG_KEPT	32	/* last lines of level warn and error that can be read again */
#define LOG_BURST	10	/* lines of one kind at once; after them, */
#define LOG_EVERY_MS	1000	/* one line in this time */
/* for kinds that HAProxy repeats with every check: one line in this time */
#define LOG_PATIENT_MS	30000

/* Kinds with a rate limit of their own. LOG_LIFE (start, reload, end) has none. */
enum log_kind {
	LOG_LIFE, LOG_ACCEPT, LOG_FULL, LOG_FRAME, LOG_FRAME_SIZE, LOG_PEER, LOG_TIMEOUT, LOG_MEMORY,
	LOG_FEED, LOG_POLL, LOG_EVENTS, LOG_SHARE, LOG_ADMIN, LOG_OVERLOAD, LOG_KINDS
};

/* A token bucket of LOG_BURST lines, refilled by one every LOG_EVERY_MS. A patient one holds one
 * line, refilled every LOG_PATIENT_MS. */
struct log_gate {
	bool patient;
	msec since;		/* when the bucket was full, or filled up to <used> */
	uint32_t used;
	uint64_t suppressed;	/* lines suppressed since the last one that passed */
};

/* Returns true if a line may pass, with the number of lines suppressed before it in
 * <*suppressed>. */
bool log_gate_pass(struct log_gate *g, msec now, uint64_t *suppressed);

struct log {
	int fd;
	int level;		/* atomic */
	uint64_t lost;		/* atomic; lines dropped because the descriptor was not ready */
	pthread_mutex_t lock;	/* guards the gates, the writing and what is kept */
	struct log_gate gate[LOG_KINDS];
	uint64_t n_kept, cleared;	/* lines kept so far; of these, not shown any more */
	char kept[LOG_KEPT][LOG_LINE_MAX];	/* without newlines; line n is at n % LOG_KEPT */
};

void log_init(struct log *l, int fd, enum log_level level);
void log_fini(struct log *l);
void log_set_level(struct log *l, enum log_level level);
uint64_t log_lost(const struct log *l);

/* Copy the first kept line after number <*n>, and set <*n> to its number. Returns false if there is
 * none. Begin with 0. */
bool log_kept(struct log *l, uint64_t *n, char out[LOG_LINE_MAX]);
void log_clear_kept(struct log *l);

struct log_line {
	struct log *log;
	enum log_level level;
	uint64_t suppressed;
	size_t n;
	bool full;		/* a field did not fit; it was left out */
	char text[LOG_LINE_MAX];
};

/* Start a line. Returns false if it is below the level or suppressed; then nothing more is to be
 * done.
 *
 *      if (log_begin(&ln, log, LOG_WARN, LOG_FULL, "connection refused")) {
 *              log_int(&ln, "limit", max);
 *              log_end(&ln);
 *      } */
bool log_begin(struct log_line *ln, struct log *l, enum log_level level, enum log_kind kind,
	       const char *msg);
void log_span(struct log_line *ln, const char *key, struct span value);
void log_text(struct log_line *ln, const char *key, const char *value);
void log_int(struct log_line *ln, const char *key, int64_t value);
void log_end(struct log_line *ln);

/* Write a line that has no fields. */
void log_msg(struct log *l, enum log_level level, enum log_kind kind, const char *msg);

#endif
