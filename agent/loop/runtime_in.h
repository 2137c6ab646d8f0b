/* runtime_in.h - the runtime socket: commands of an operator on a unix socket (runtime.path).
 *
 *      line  ->  command.h  ->  runtime_answer()  ->  text, then an empty line
 *
 *      without prompt    one line, its answers, close
 *      with prompt       "> " after the answers of each line, until quit
 *
 * Served by the background thread, which serves the log feed as well. So one turn of the loop
 * executes one command of a connection, or one step of a walk over the index, and sends at most
 * RUNTIME_SEND bytes. Everything is bounded: the line by COMMAND_LINE_MAX, a body by
 * COMMAND_BODY_MAX and one at a time, the answer by RUNTIME_ANSWER_MAX, the time of each phase by
 * RUNTIME_MS, and connections by RUNTIME_CONNS_MAX. A further connection closes one that has been
 * idle for RUNTIME_IDLE_MS; if there is none, it is refused with a sentence. */
#ifndef KVROUTE_LOOP_RUNTIME_IN_H
#define KVROUTE_LOOP_RUNTIME_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/loop/acceptor_in.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/command.h"

#define RUNTIME_CONNS_MAX	16
#define RUNTIME_MS		10000	/* of a phase: waiting for a line, reading a body, sending */
#define RUNTIME_PROMPT_MS	600000	/* waiting for a line in prompt mode */
#define RUNTIME_IDLE_MS		1000
#define RUNTIME_SEND		65536u
#define RUNTIME_ANSWER_MAX	(4u << 20)	/* of one command */
#define RUNTIME_WALK_LOOKS	2048u	/* numbers of nodes in one step: some 0.2 ms */

struct runtime {
	struct agent *agent;
	struct ev_loop *loop;
	struct acceptor acceptor;
	struct list conns;		/* those whose phase began first come first */
	unsigned n_conns;
	bool body;			/* a connection reads a body */
	struct list walking;		/* connections whose walk goes on; they take turns */
	ev_prepare turn_end;
	ev_idle idle;			/* active while there are such connections */
	uint64_t accept_errors;
};

void runtime_start(struct runtime *rt, struct agent *a, struct ev_loop *loop);
void runtime_sweep(struct runtime *rt, msec now);	/* closes connections that are too slow */
void runtime_stop(struct runtime *rt);

/* ---- runtime_answer.c --------------------------------------------------------------------- */

/* A walk over the index, in steps. Zeroed before. */
struct runtime_walk {
	struct spaces_walk at;
	uint64_t records;		/* cut */
	struct buf json;		/* list of spaces so far */
	unsigned n;
};

/* Append the answer to <c>, without its empty line. <body>: of ask. Returns false if it is a walk,
 * which goes on with runtime_walk_step(). */
bool runtime_answer(struct agent *a, const struct command *c, struct span body, struct buf *out);

/* Do a step. Returns true at the end, with the answer in <out>. */
bool runtime_walk_step(
    struct agent *a, const struct command *c, struct runtime_walk *w, struct buf *out);

#endif
