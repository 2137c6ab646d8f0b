/* The tables of keys. They are short, so a lookup scans from the start: it compares the length
 * and one byte before the rest, and frequent keys come first.
 *
 *              system segment         prompt                  tools segment
 *   chat       -                      messages                tools, functions, documents
 *   completions -                     prompt                  -
 *   responses  instructions           input                   tools
 *   messages   system                 messages                tools
 *   embeddings -                      input or messages       -
 *   generate   -                      text or input_ids       -
 *   contents   systemInstruction      contents                tools
 *
 * A message:   role, name              meta, in the hash of its last page
 *              content, output, parts  first run of pages
 *              tool_calls, function_call, and of Responses items arguments, input, action, code,
 *              queries                 second run
 *              reasoning_content, reasoning, refusal     third run
 * A part:      text; thinking; refusal; content (of a tool result); input (of a tool call); media;
 *              of contents functionCall, functionResponse, executableCode, codeExecutionResult
 *
 * The contents API is Google's (ai.google.dev/api/generate-content). Its keys come in camel case
 * and, as protocol buffers allow, in snake case.
 *
 * Omitted because engines do not put them into the prompt: ids (id, call_id, tool_call_id,
 * item_id), status, annotations, citations, cache_control, signature, "summary" and
 * "encrypted_content" of reasoning items, sampling parameters, response formats. */
#include "agent/prompt/rules_in.h"

#define RULE(key, act, arg)	{ key, sizeof(key) - 1, act, arg }
#define END			{ NULL, 0, 0, 0 }

static const struct rule top_all[] = {
	RULE("model", ACT_NAME, NAME_MODEL),
	RULE("stream", ACT_STREAM, 0),
	RULE("max_tokens", ACT_LIMIT, 0),
	RULE("max_completion_tokens", ACT_LIMIT, 1),
	RULE("user", ACT_NAME, NAME_USER),
	RULE("metadata", ACT_METADATA, 0),
	RULE("prompt_cache_key", ACT_NAME, NAME_CACHE_KEY),
	RULE("safety_identifier", ACT_NAME, NAME_SAFETY),
	RULE("conversation", ACT_CONVERSATION, NAME_CONVERSATION),
	RULE("previous_response_id", ACT_NAME, NAME_RESPONSE),
	RULE("cache_salt", ACT_NAME, NAME_SALT),
	RULE("extra_key", ACT_NAME, NAME_EXTRA),
	RULE("lora_path", ACT_NAME, NAME_LORA_PATH),
	RULE("lora_name", ACT_NAME, NAME_LORA_NAME),
	RULE("adapter_id", ACT_NAME, NAME_ADAPTER),
	RULE("priority", ACT_PRIORITY, 0),
	RULE("max_output_tokens", ACT_LIMIT, 0),
	RULE("nvext", ACT_NVEXT, 0),
	END
};

static const struct rule top_none[] = { END };

static const struct rule top_chat[] = {
	RULE("messages", ACT_MESSAGES, 0),
	RULE("tools", ACT_TOOLS, TOOLS_TOOLS),
	RULE("functions", ACT_TOOLS, TOOLS_FUNCTIONS),
	RULE("documents", ACT_TOOLS, TOOLS_DOCUMENTS),
	RULE("tool_choice", ACT_OPTION, 0),
	RULE("chat_template_kwargs", ACT_OPTION, 0),
	RULE("chat_template", ACT_OPTION, 0),
	RULE("reasoning_effort", ACT_OPTION, 0),
	RULE("continue_final_message", ACT_OPTION, 0),
	RULE("add_special_tokens", ACT_OPTION, 0),
	RULE("truncate_prompt_tokens", ACT_OPTION, 0),
	END
};

static const struct rule top_completions[] = {
	RULE("prompt", ACT_PROMPT, 0),
	RULE("truncate_prompt_tokens", ACT_TRUNCATE, 0),
	RULE("add_special_tokens", ACT_OPTION, 0),
	END
};

static const struct rule top_responses[] = {
	RULE("input", ACT_MESSAGES, 1),
	RULE("instructions", ACT_SYSTEM, 0),
	RULE("tools", ACT_TOOLS, TOOLS_TOOLS),
	RULE("tool_choice", ACT_OPTION, 0),
	RULE("reasoning", ACT_OPTION, 0),
	END
};

static const struct rule top_messages[] = {
	RULE("messages", ACT_MESSAGES, 0),
	RULE("system", ACT_SYSTEM, 0),
	RULE("tools", ACT_TOOLS, TOOLS_TOOLS),
	RULE("tool_choice", ACT_OPTION, 0),
	RULE("thinking", ACT_OPTION, 0),
	END
};

static const struct rule top_embeddings[] = {
	RULE("input", ACT_PROMPT, 0),
	RULE("messages", ACT_MESSAGES, 0),
	RULE("truncate_prompt_tokens", ACT_TRUNCATE, 0),
	END
};

static const struct rule top_generate[] = {
	RULE("text", ACT_PROMPT, 0),
	RULE("input_ids", ACT_PROMPT, 1),
	RULE("image_data", ACT_NAME, NAME_IMAGES),
	RULE("sampling_params", ACT_LIMITS, 0),
	END
};

static const struct rule top_contents[] = {
	RULE("contents", ACT_MESSAGES, 0),
	RULE("systemInstruction", ACT_SYSTEM, 1),
	RULE("system_instruction", ACT_SYSTEM, 1),
	RULE("tools", ACT_TOOLS, TOOLS_TOOLS),
	RULE("toolConfig", ACT_OPTION, 0),
	RULE("tool_config", ACT_OPTION, 0),
	RULE("generationConfig", ACT_LIMITS, 0),
	RULE("generation_config", ACT_LIMITS, 0),
	RULE("cachedContent", ACT_NAME, NAME_EXTRA),	/* a stored prompt, before this one */
	RULE("cached_content", ACT_NAME, NAME_EXTRA),
	END
};

static const struct rule *const top[PROMPT_APIS] = {
	[API_NONE] = top_none,
	[API_CHAT] = top_chat,
	[API_COMPLETIONS] = top_completions,
	[API_RESPONSES] = top_responses,
	[API_MESSAGES] = top_messages,
	[API_EMBEDDINGS] = top_embeddings,
	[API_GENERATE] = top_generate,
	[API_CONTENTS] = top_contents,
};

static const struct rule metadata[] = { RULE("user_id", ACT_NAME, NAME_META_USER), END };
static const struct rule conversation[] = { RULE("id", ACT_NAME, NAME_CONVERSATION), END };
static const struct rule nvext[] = { RULE("agent_hints", ACT_HINTS, 0), END };
static const struct rule hints[] = {
	RULE("priority", ACT_PRIORITY, 1), RULE("osl", ACT_OUTPUT, 0), END
};

static const struct rule limits[] = {
	RULE("max_new_tokens", ACT_LIMIT, 0),
	RULE("maxOutputTokens", ACT_LIMIT, 0),
	RULE("max_output_tokens", ACT_LIMIT, 0),
	END
};

static const struct rule message[] = {
	RULE("role", ACT_ROLE, 0),
	RULE("content", ACT_CONTENT, 0),	/* the second: rule_content() */
	RULE("tool_calls", ACT_CALLS, 0),
	RULE("name", ACT_MESSAGE_NAME, 0),
	RULE("reasoning_content", ACT_ASIDE, 0),
	RULE("reasoning", ACT_ASIDE, 1),
	RULE("refusal", ACT_ASIDE, 2),
	RULE("function_call", ACT_CALLS, 1),
	END
};

static const struct rule item[] = {
	RULE("role", ACT_ROLE, 0),
	RULE("content", ACT_CONTENT, 0),	/* the second: rule_content() */
	RULE("type", ACT_TYPE, 0),
	RULE("name", ACT_MESSAGE_NAME, 0),
	RULE("output", ACT_CONTENT, 1),
	RULE("arguments", ACT_CALL_TEXT, 0),
	RULE("input", ACT_CALL_TEXT, 1),
	RULE("action", ACT_CALL_TEXT, 2),
	RULE("code", ACT_CALL_TEXT, 3),
	RULE("queries", ACT_CALL_TEXT, 4),
	END
};

static const struct rule content[] = {
	RULE("role", ACT_ROLE, 0),
	RULE("parts", ACT_CONTENT, 0),
	END
};

static const struct rule part[] = {
	RULE("text", ACT_TEXT, MARK_TEXT),
	RULE("image_url", ACT_MEDIA, 0),
	RULE("source", ACT_MEDIA, 0),
	RULE("content", ACT_PARTS, MARK_RESULT),
	RULE("input", ACT_JSON, MARK_JSON),
	RULE("name", ACT_PART_NAME, 0),
	RULE("thinking", ACT_TEXT, MARK_THINK),
	RULE("refusal", ACT_TEXT, MARK_REFUSAL),
	RULE("input_audio", ACT_MEDIA, 0),
	RULE("audio_url", ACT_MEDIA, 0),
	RULE("audio", ACT_MEDIA, 0),
	RULE("video_url", ACT_MEDIA, 0),
	RULE("input_video", ACT_MEDIA, 0),
	RULE("video", ACT_MEDIA, 0),
	RULE("image", ACT_MEDIA, 0),
	RULE("input_image", ACT_MEDIA, 0),
	RULE("image_embeds", ACT_MEDIA, 0),
	RULE("audio_embeds", ACT_MEDIA, 0),
	RULE("file", ACT_MEDIA, 0),
	RULE("file_data", ACT_MEDIA, 0),
	RULE("file_url", ACT_MEDIA, 0),
	RULE("file_id", ACT_MEDIA, 0),
	RULE("data", ACT_MEDIA, 0),
	/* contents */
	RULE("functionCall", ACT_JSON, MARK_JSON),
	RULE("function_call", ACT_JSON, MARK_JSON),
	RULE("functionResponse", ACT_JSON, MARK_RESULT),
	RULE("function_response", ACT_JSON, MARK_RESULT),
	RULE("executableCode", ACT_JSON, MARK_JSON),
	RULE("executable_code", ACT_JSON, MARK_JSON),
	RULE("codeExecutionResult", ACT_JSON, MARK_RESULT),
	RULE("code_execution_result", ACT_JSON, MARK_RESULT),
	RULE("inlineData", ACT_MEDIA, 0),
	RULE("inline_data", ACT_MEDIA, 0),
	RULE("fileData", ACT_MEDIA, 0),
	END
};

_Static_assert(sizeof(part) / sizeof(part[0]) <= 64, "one bit per rule of a part");

static const struct rule call[] = {
	RULE("function", ACT_FUNCTION, 0),
	RULE("arguments", ACT_ARGUMENTS, 0),
	RULE("name", ACT_CALL_NAME, 0),
	RULE("custom", ACT_FUNCTION, 1),
	RULE("input", ACT_ARGUMENTS, 1),
	END
};

static const struct rule *look(const struct rule *r, struct span key)
{
	for (; r->key != NULL; r++)
		if (r->n == key.n && r->key[0] == key.p[0] && memcmp(r->key, key.p, key.n) == 0)
			return r;
	return NULL;
}

const struct rule *rule_find(enum prompt_api api, enum place place, struct span key)
{
	const struct rule *r;

	if (key.n == 0)
		return NULL;
	switch (place) {
	case PLACE_TOP:
		r = look(top[api], key);
		return r != NULL ? r : look(top_all, key);
	case PLACE_METADATA:
		return look(metadata, key);
	case PLACE_NVEXT:
		return look(nvext, key);
	case PLACE_CONVERSATION:
		return look(conversation, key);
	case PLACE_HINTS:
		return look(hints, key);
	case PLACE_LIMITS:
		return look(limits, key);
	case PLACE_MESSAGE:
		return look(api == API_RESPONSES ? item : api == API_CONTENTS ? content : message, key);
	case PLACE_PART:
		return look(part, key);
	case PLACE_CALL:
		return look(call, key);
	}
	return NULL;
}

const struct rule *rule_content(enum prompt_api api)
{
	return &(api == API_RESPONSES ? item : message)[1];
}

unsigned int rule_part_bit(const struct rule *r)
{
	return (unsigned int)(r - part);
}
