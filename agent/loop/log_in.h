/* log_in.h - the agent's log: key=value, one event a line, one write a line, rare.
 *
 *      ts=2026-01-31T09:00:00.125Z level=warn msg="connection closed" peer=127.0.0.1:4711 status=4
 *
 * Lines are built field by field, so that a value from outside cannot forge another field or line:
 * whatever is not plain is quoted, and bytes that are not printable ASCII are written as \xNN.
 * Prompt text is never given to it. */
#ifndef KVROUTE_LOOP_LOG_IN_H
#define KVROUTE_LOOP_LOG_IN_H

#include <pthread.h>

#include "agent/loop/loop.h"

#define LOG_LINE_MAX	2048	/* below PIPE_BUF: a write to a pipe is whole or not at all */
#define LOG_VALUE_MAX	400	/* bytes of one value that are shown */
#define LOG_BURST	10	/* lines of one kind at once; after that */
#define LOG_EVERY_MS	1000	/* one in so long */
#define LOG_PATIENT_MS	30000	/* kinds that HAProxy repeats with every check: one line in so long */

/* What is limited together. LIFE (start, reload, end) never is. */
enum log_kind {
	LOG_LIFE, LOG_ACCEPT, LOG_FULL, LOG_FRAME, LOG_FRAME_SIZE, LOG_PEER, LOG_TIMEOUT, LOG_MEMORY,
	LOG_FEED, LOG_POLL, LOG_ADMIN, LOG_OVERLOAD, LOG_KINDS
};

/* A bucket of LOG_BURST lines that fills by one every LOG_EVERY_MS; a patient one holds a single line. */
struct log_gate {
	bool patient;
	msec since;		/* the bucket was full then, or filled up to <used> */
	uint32_t used;
	uint64_t suppressed;	/* lines kept back since the last one let through */
};

/* True: the line may pass; <*suppressed> tells how many before it could not. */
bool log_gate_pass(struct log_gate *g, msec now, uint64_t *suppressed);

struct log {
	int fd;
	int level;		/* atomic */
	uint64_t lost;		/* atomic; lines nobody took in time */
	pthread_mutex_t lock;	/* the gates, and the writing */
	struct log_gate gate[LOG_KINDS];
};

void log_init(struct log *l, int fd, enum log_level level);
void log_fini(struct log *l);
void log_set_level(struct log *l, enum log_level level);
uint64_t log_lost(const struct log *l);

struct log_line {
	struct log *log;
	uint64_t suppressed;
	size_t n;
	bool full;		/* a field did not fit; it was left out whole */
	char text[LOG_LINE_MAX];
};

/* Start a line; false: it is below the level or kept back, and nothing more needs to be done.
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

/* A whole line without fields. */
void log_msg(struct log *l, enum log_level level, enum log_kind kind, const char *msg);

#endif
