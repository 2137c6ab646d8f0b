/* gpt_oss.h - convert a body of chat completions to the conversation that engines build for
 * gpt-oss.
 *
 * As in vLLM (vllm/entrypoints/openai/parser/harmony_utils.py, vllm/renderers/online_renderer.py):
 *   - a system message has the current date of the engine and "reasoning_effort"
 *   - a developer message follows if there are instructions or tools. Instructions are the
 *     text of the first message, if its role is system or developer. Tools stay even if
 *     tool_choice is "none", because dropping them is an option of the engine.
 *   - later messages of these roles are developer messages with instructions, in place
 *   - an answer becomes final; if it has calls, its text is commentary, and each call is a
 *     message to functions.NAME of type json. Reasoning is analysis before it, and is
 *     dropped if a final answer follows.
 *   - the answer of a tool comes from functions.NAME, found by the id of its call, and goes
 *     to the assistant
 *   - the assistant's turn starts at the end, whatever the body says */
#ifndef KVROUTE_CHAT_GPT_OSS_H
#define KVROUTE_CHAT_GPT_OSS_H

#include "agent/chat/gpt_oss_turn.h"

struct gpt_oss_opts {
	struct span date;	/* "2025-06-28" */
	bool completion;	/* the assistant's turn starts at the end; false for a cut body */
	size_t max_run;		/* as in struct harmony_opts */
	struct gpt_oss_turn *turn;	/* gpt_oss_turn.h; NULL: nothing is known or left */
};

/* Render <body>, a dict with "messages", a list of dicts. Memory of <m> is used until it is reset.
 * Returns the results of harmony_render(), and HARMONY_REFUSED if <body> is no such conversation.
 * If messages are passed over, what follows them is written, or HARMONY_MISSED is returned. */
enum harmony_result gpt_oss_render(struct jinja_mem *m, struct jval body,
    const struct gpt_oss_opts *o, harmony_put *put, void *arg);

#endif
