/* harmony.h - the format of gpt-oss, which its engines write by code and not by a template.
 *
 *     <|start|>system<|message|>You are ChatGPT, ...<|end|>
 *     <|start|>developer<|message|># Instructions ... # Tools ...<|end|>
 *     <|start|>user<|message|>What is 2 + 2?<|end|>
 *     <|start|>assistant
 *
 * Source: the openai-harmony library (its rendering, its test data) and what vLLM puts in front of it. Two things differ from a
 * template: what looks like a special token in a text is text, and each run of text is encoded by itself, so that ids do not merge
 * across runs; so the output says where runs begin. Pure; O(length). */
#ifndef KVROUTE_CHAT_HARMONY_H
#define KVROUTE_CHAT_HARMONY_H

#include "agent/jinja/value.h"

enum harmony_role { HARMONY_SYSTEM, HARMONY_DEVELOPER, HARMONY_USER, HARMONY_ASSISTANT, HARMONY_TOOL };

enum harmony_effort { EFFORT_NONE, EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH };

#define HARMONY_CHANNELS_MAX	4

/* What a system message holds; n == 0: that line is left out. */
struct harmony_system {
	struct span identity, cutoff, date;	/* date: "2025-06-28" */
	enum harmony_effort effort;
	bool browser, python;			/* tools that the model was trained on */
	struct span channels[HARMONY_CHANNELS_MAX];
	unsigned n_channels;
};

/* The library's own: ChatGPT, cutoff 2024-06, medium, analysis, commentary and final; no date. */
void harmony_system_defaults(struct harmony_system *s);

/* What a developer message holds. Of a tool the members "name", "description" and "parameters" (a JSON schema). */
struct harmony_developer {
	struct span instructions;
	bool has_instructions;
	const struct jval *tools;	/* dicts */
	size_t n_tools;
};

struct harmony_message {
	enum harmony_role role;
	struct span name;		/* of a tool; or a user's */
	struct span recipient, channel, content_type;	/* n == 0: none */
	/* one of these three */
	const struct harmony_system *system;
	const struct harmony_developer *developer;
	const struct span *text;	/* runs */
	size_t n_text;
};

enum harmony_piece {
	PIECE_TOKEN,	/* a special token, as its text */
	PIECE_TEXT	/* a run of text, whole, never special */
};

/* -1 ends the rendering. <text> lives for the call. */
typedef int harmony_put(void *arg, enum harmony_piece what, struct span text);

enum harmony_result {
	HARMONY_DONE,
	HARMONY_REFUSED,	/* a tool's answer without a name, a schema nested beyond HARMONY_DEPTH: no rendering */
	HARMONY_NO_MEMORY,
	HARMONY_ENDED,		/* by <put> */
	HARMONY_LIMIT		/* a run is longer than <max_run>: the indents of a schema make much of little */
};

#define HARMONY_RUN_MAX	((size_t)16 << 20)

#define HARMONY_DEPTH	64

struct harmony_opts {
	bool drop_analysis;	/* where the last answer was final, thoughts in front of the first final one are left out */
	bool completion;	/* the assistant's turn begins at the end */
	size_t max_run;		/* bytes of one run; 0, and at most: HARMONY_RUN_MAX */
};

enum harmony_result harmony_render(const struct harmony_message *m, size_t n, struct harmony_opts o, harmony_put *put,
				   void *arg);

#endif
