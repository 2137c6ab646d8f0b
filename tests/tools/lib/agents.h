/* agents.h - replay a plan of agents' sessions (tests/tools/agents_plan.c) as requests of an API.
 *
 *   plan line: keep, add, kind        agents_text.c               agents.c
 *   ------------------------------>   a body of 4 (keep + add)    whose turn is due, and when
 *                                     bytes, of words that the    (answers decide, as for a real
 *                                     seed makes                  client)
 *
 * A turn sends the whole conversation again: tools and system prompt of the program, the messages
 * of the last turn, the answer that came (without its last 30 %, as if reasoning were removed) with
 * a call of a tool, and the result of that call, which has the length that is missing. A summarized
 * conversation goes on with the answer that was the summary. An edit shortens an earlier result. */
#ifndef KVROUTE_TOOLS_AGENTS_H
#define KVROUTE_TOOLS_AGENTS_H

#include <stdio.h>

#include "tests/tools/lib/load.h"

#define AGENTS_NONE	UINT32_MAX

enum agents_kind { AGENTS_FIRST, AGENTS_NEXT, AGENTS_EDIT, AGENTS_SUMMARIZE, AGENTS_COMPACTED,
		   AGENTS_KINDS };

struct agents_turn {
	uint32_t agent, after, join;	/* of its session, as in agent/sim/agentic.h */
	uint32_t keep, add, out;
	double pause_s;
	enum agents_kind kind;
	uint32_t waits;			/* answers that it still waits for */
};

/* A piece of text in what an agent has said that an edit may shorten. */
struct agents_result {
	size_t at, n;
};

/* What one agent has said: a conversation of its own. */
struct agents_talk {
	struct talk talk;		/* .said: its messages; .id: of all plans' agents; .turn: done */
	struct agents_session *session;
	uint32_t agent, turn;		/* the turn that is due or under way, of the session */
	uint32_t calls;			/* of tools */
	size_t opening;			/* bytes of tools and system prompt */
	struct buf answer;		/* of its last turn */
	struct agents_result *results;
	size_t n_results;
};

struct agents_session {
	uint32_t number, program, n, cap, n_talks, done;
	double start_s;
	bool failed;
	struct agents_turn *turns;
	struct agents_talk *talks;	/* one for each agent */
};

struct agents {
	struct agents_session **sessions;
	uint32_t n_sessions, n_talks, n_turns;
};

/* Read the plan <path>. Returns NULL, with a message on stderr, if it is none. */
struct agents *agents_read(const char *path);
void agents_free(struct agents *a);

/* ---- agents.c: whose turn is due ---- */

/* Put the first turn of each session into <d>. */
void agents_begin(struct agents *a, struct due *d);

/* Turn <t> was answered with <text> at <now>: put what waited for it into <d>. Returns true if it
 * was the last one of its session. */
bool agents_answered(struct talk *t, struct span text, double now, struct due *d);

/* The turn <t> failed: no other turn of its session will be due. Returns true if no other one has
 * failed before. Turns of <d> that are due already are dropped by agents_dropped(). */
bool agents_failed(struct talk *t);
bool agents_dropped(const struct talk *t);

bool agents_is_first(const struct talk *t);	/* of a session or a subagent */
void agents_trace(const struct talk *t, FILE *f);	/* its place in the plan, as words key=value */

/* Write each request to <f> instead of sending it, as if words were the answers: a JSON object a
 * line, of session, agent, turn, kind, head and body. */
void agents_dry(struct agents *a, const struct load_opts *o, FILE *f);

/* ---- agents_text.c: what they say ---- */

/* Say what is new in the turn that is due, and write its request to <out>. */
void agents_request(struct talk *t, const struct load_opts *o, struct buf *out);

/* The parts of the request alone. Called in this order. */
void agents_say(struct agents_talk *a, const struct load_opts *o);
void agents_put_body(const struct agents_talk *a, const struct load_opts *o, struct buf *out);
void agents_put_names(const struct agents_talk *a, const struct load_opts *o, struct buf *out);

#endif
