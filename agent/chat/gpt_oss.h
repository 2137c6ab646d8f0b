/* gpt_oss.h - convert a body of chat completions or responses to the conversation that engines
 * build for gpt-oss.
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
 *   - the assistant's turn starts at the end, whatever the body says
 *
 * Of responses (vllm/entrypoints/openai/responses/harmony.py), each item is one message or none:
 *   - "instructions", even if empty, are those of the developer message before; without them, the
 *     first item is as above. Later items of role system or developer without text are omitted.
 *   - a message of the assistant is final, even if empty or before a call. Of a list of parts each
 *     text is a run; a part without text, as an image, is omitted.
 *   - reasoning is analysis: all texts of "content", and none of "summary", joined by line ends.
 *     Without content there is no message.
 *   - a call and its answer are as above. An answer is to the last call before it with its id; one
 *     to no call is refused.
 *   - a tool that is not a function, other items, an answer of parts and another effort give
 *     HARMONY_UNKNOWN: vLLM 0.32 rejects most of them, and writes its own tools as its servers
 *     describe them; SGLang takes some of them */
#ifndef KVROUTE_CHAT_GPT_OSS_H
#define KVROUTE_CHAT_GPT_OSS_H

#include "agent/chat/gpt_oss_turn.h"

struct gpt_oss_opts {
	struct span date;	/* "2025-06-28" */
	bool items;		/* "messages" has items of responses */
	bool completion;	/* the assistant's turn starts at the end; false for a cut body */
	size_t max_run;		/* as in struct harmony_opts */
	struct gpt_oss_turn *turn;	/* gpt_oss_turn.h; NULL: nothing is known or left */
};

/* Render <body>, a dict with "messages", a list of dicts, and if they are items perhaps with
 * "instructions". Memory of <m> is used until it is reset.
 * Returns the results of harmony_render(), and HARMONY_REFUSED if <body> is no such conversation.
 * If messages are passed over, what follows them is written, or HARMONY_MISSED is returned. */
enum harmony_result gpt_oss_render(struct jinja_mem *m, struct jval body,
    const struct gpt_oss_opts *o, harmony_put *put, void *arg);

#endif
