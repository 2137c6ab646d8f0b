/* agentic.h - sessions of coding agents: who asks when, and how much of the last prompt stays.
 *
 *   turn 0 --answer, tool--> turn 1 --> turn 2 --+--> subagent 1: turn, turn --+--> turn 3 --> ...
 *                                                '--> subagent 2: turn --------'
 *
 * A turn sends the whole conversation again: <keep> tokens as in the last prompt of the same agent,
 * then <add> new ones. The first <shared> tokens are tools and system prompt of the client program,
 * equal in all its sessions. A subagent begins after them with a task of its own and ends after a
 * few turns; the next turn of its parent waits for all subagents. A prompt that reaches <limit> is
 * summarized: one turn with a long answer, then the shared tokens and the summary.
 *
 * The defaults agree with published figures of 2026: median 43 turns, median 142K tokens of input,
 * median 444 of output, input to output 131 to 1, subagents in 44 % of the sessions, pauses of
 * seconds to minutes. At 4 bytes a token most bodies have 300 KB to 720 KB. */
#ifndef KVROUTE_SIM_AGENTIC_H
#define KVROUTE_SIM_AGENTIC_H

#include "agent/base/rng.h"
#include "agent/base/types.h"

#define AGENTIC_TURNS_MAX	1000u	/* of a session, with those of subagents */
#define AGENTIC_NONE		UINT32_MAX
#define AGENTIC_LIMIT_MAX	(1u << 20)

struct agentic_opts {
	uint32_t programs;	/* client programs; the k-th has 1 / (k + 1) of the sessions of the first */
	uint32_t shared;	/* tokens of tools and system prompt */
	uint32_t limit;		/* tokens of a prompt; above, it is summarized */
	double turns;		/* of a session, median */
	double task;		/* tokens of the first message, median */
	double read;		/* tokens more of a turn while the agent explores: at first, and after a summary */
	double add;		/* tokens of a tool's result, median */
	double out;		/* tokens of an answer, median */
	double summary;		/* tokens of a summary, median */
	double pause_s;		/* of a quick tool, median; slow tools and users take longer */
	double subagents;	/* share of the sessions that start some */
	double edits;		/* share of the turns that change an earlier message */
};

void agentic_defaults(struct agentic_opts *o);

struct agentic_turn {
	uint32_t agent;		/* 0: the main one; subagents count from 1 */
	uint32_t after;		/* the turn whose answer it waits for; AGENTIC_NONE: the first of all */
	uint32_t join;		/* a later turn that waits for this one too, or AGENTIC_NONE */
	double pause_s;		/* it comes so long after the last of these answers */
	uint32_t keep, add;	/* tokens, see above; keep + add is the prompt */
	uint32_t out;		/* tokens of the answer, at least 1 */
};

/* Turns of one agent are in order, and those of a subagent are adjacent. */
struct agentic_session {
	uint32_t program, agents;
	uint32_t n;
	struct agentic_turn turn[AGENTIC_TURNS_MAX];
};

/* Draw a session. Equal options and numbers give equal sessions. */
void agentic_session(struct agentic_session *s, const struct agentic_opts *o, struct rng *rng);

#endif
