/* gpt_oss.h - a body of chat completions as the conversation that engines make of it for gpt-oss.
 *
 * As vLLM does (vllm/entrypoints/openai/parser/harmony_utils.py, vllm/renderers/online_renderer.py):
 *   - a system message with the date of the engine's day and "reasoning_effort"
 *   - a developer message when there are instructions or tools. Instructions are the text of the first message, if that is of role
 *     system or developer. None of the tools with tool_choice "none" is up to the engine's options, so they stay
 *   - other messages of these roles are developer messages with instructions, where they are
 *   - an answer becomes final; with calls its text is commentary and each call a message to functions.NAME, of type json; what
 *     was thought is analysis in front, and is left out where there is a final answer behind it
 *   - what a tool says comes from functions.NAME, found by the id of its call, to the assistant
 *   - the assistant's turn begins at the end, whatever the body says */
#ifndef KVROUTE_CHAT_GPT_OSS_H
#define KVROUTE_CHAT_GPT_OSS_H

#include "agent/chat/harmony.h"

struct gpt_oss_opts {
	struct span date;	/* "2025-06-28" */
	bool completion;	/* the assistant's turn begins at the end: not of a cut body */
	size_t max_run;		/* as in struct harmony_opts */
};

/* <body>: a dict with "messages", a list of dicts; memory of <m> is used until it is reset. Besides the results of
 * harmony_render(): HARMONY_REFUSED when <body> is no such conversation. */
enum harmony_result gpt_oss_render(struct jinja_mem *m, struct jval body, const struct gpt_oss_opts *o, harmony_put *put,
				   void *arg);

#endif
