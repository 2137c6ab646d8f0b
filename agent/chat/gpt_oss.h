/* gpt_oss.h - a body of chat completions as the conversation that engines make of it for gpt-oss.
 *
 * As vLLM does (vllm/entrypoints/openai: parser/harmony_utils.py, serving_chat.py):
 *   - a system message with the date of the engine's day and "reasoning_effort"
 *   - a developer message when there are tools; but none of them with tool_choice "none" is up to the engine's options, so they stay
 *   - an answer becomes final; with calls its text is commentary and each call a message to functions.NAME, of type json; what
 *     was thought is analysis in front, and is left out where the turn it belongs to has its final answer behind it
 *   - what a tool says comes from functions.NAME, found by the id of its call, to the assistant */
#ifndef KVROUTE_CHAT_GPT_OSS_H
#define KVROUTE_CHAT_GPT_OSS_H

#include "agent/chat/harmony.h"

struct gpt_oss_opts {
	struct span date;	/* "2025-06-28" */
	bool completion;	/* the assistant's turn begins at the end */
};

/* <body>: a dict with "messages", a list of dicts; memory of <m> is used until it is reset. Besides the results of
 * harmony_render(): HARMONY_REFUSED when <body> is no such conversation. */
enum harmony_result gpt_oss_render(struct jinja_mem *m, struct jval body, const struct gpt_oss_opts *o, harmony_put *put,
				   void *arg);

#endif
