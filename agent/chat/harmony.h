/* harmony.h - the format of gpt-oss, which its engines write by code instead of by a template.
 *
 *     <|start|>system<|message|>You are ChatGPT, ...<|end|>
 *     <|start|>developer<|message|># Instructions ... # Tools ...<|end|>
 *     <|start|>user<|message|>What is 2 + 2?<|end|>
 *     <|start|>assistant
 *
 * Source: the openai-harmony library (its rendering, its test data) and what vLLM puts before it.
 * Two things differ from a template: a special token in a text is plain text, and each run of text
 * is encoded by itself, so ids never merge across runs. So the output says where runs start. Pure;
 * O(length). */
#ifndef KVROUTE_CHAT_HARMONY_H
#define KVROUTE_CHAT_HARMONY_H

#include "agent/jinja/value.h"

enum harmony_role {
	HARMONY_SYSTEM,
	HARMONY_DEVELOPER,
	HARMONY_USER,
	HARMONY_ASSISTANT,
	HARMONY_TOOL
};

enum harmony_effort { EFFORT_NONE, EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH };

#define HARMONY_CHANNELS_MAX	4

/* Contents of a system message; a line with n == 0 is omitted. */
struct harmony_system {
	struct span identity, cutoff, date;	/* date: "2025-06-28" */
	enum harmony_effort effort;
	bool browser, python;			/* built-in tools of the model */
	struct span channels[HARMONY_CHANNELS_MAX];
	unsigned n_channels;
};

/* Set the library's defaults: ChatGPT, cutoff 2024-06, medium, analysis, commentary and final; no
 * date. */
void harmony_system_defaults(struct harmony_system *s);

/* Contents of a developer message. Of a tool, the members "name", "description" and "parameters" (a
 * JSON schema) are used. */
struct harmony_developer {
	struct span instructions;
	bool has_instructions;
	const struct jval *tools;	/* dicts */
	size_t n_tools;
};

struct harmony_message {
	enum harmony_role role;
	struct span name;		/* of a tool, or of a user */
	struct span recipient, channel, content_type;	/* n == 0: none */
	/* one of these three is set */
	const struct harmony_system *system;
	const struct harmony_developer *developer;
	const struct span *text;	/* runs */
	size_t n_text;
};

enum harmony_piece {
	PIECE_TOKEN,	/* a special token, as text */
	PIECE_TEXT	/* a whole run of text, never special */
};

/* Receive a piece; <text> is valid during the call. Return -1 to end the rendering. */
typedef int harmony_put(void *arg, enum harmony_piece what, struct span text);

enum harmony_result {
	HARMONY_DONE,
	/* no rendering: a tool's answer without a name, or a schema nested beyond HARMONY_DEPTH */
	HARMONY_REFUSED,
	HARMONY_UNKNOWN,	/* engines differ in it (gpt_oss.h) */
	HARMONY_NO_MEMORY,
	HARMONY_ENDED,		/* <put> ended it */
	HARMONY_LIMIT,		/* a run is longer than <max_run>: indents multiply a deep schema */
	HARMONY_MISSED		/* it does not go on from the turn before (gpt_oss.h) */
};

#define HARMONY_RUN_MAX	((size_t)16 << 20)

#define HARMONY_DEPTH	64

struct harmony_opts {
	bool drop_analysis;	/* if the last answer is final, drop reasoning before the first final one */
	bool completion;	/* the assistant's turn starts at the end */
	size_t max_run;		/* bytes of one run; 0, and at most: HARMONY_RUN_MAX */
};

enum harmony_result harmony_render(
    const struct harmony_message *m, size_t n, struct harmony_opts o, harmony_put *put, void *arg);

#endif
