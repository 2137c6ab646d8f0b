/* rules_in.h - private to agent/prompt: the meaning of each key of a request body, by API. */
#ifndef KVROUTE_PROMPT_RULES_IN_H
#define KVROUTE_PROMPT_RULES_IN_H

#include "agent/prompt/prompt.h"

/* The object that holds a key. */
enum place {
	PLACE_TOP,		/* the body itself */
	PLACE_METADATA,		/* its member "metadata" */
	PLACE_NVEXT,		/* its member "nvext" */
	PLACE_HINTS,		/* "agent_hints" in that */
	PLACE_LIMITS,		/* "sampling_params" or "generationConfig" */
	PLACE_CONVERSATION,	/* its member "conversation" */
	PLACE_MESSAGE,		/* an element of "messages", "input" or "contents" */
	PLACE_PART,		/* an element of a list of content parts */
	PLACE_CALL		/* an element of "tool_calls", and "function" in it */
};

#define PLACES	(PLACE_CALL + 1)

enum act {
	ACT_NONE,		/* does not count */
	/* top */
	ACT_NAME,		/* <arg> enum name_slot */
	ACT_METADATA, ACT_NVEXT, ACT_HINTS, ACT_LIMITS,
	ACT_CONVERSATION,	/* a name, or an object that has one */
	ACT_PRIORITY,		/* a number; <arg> 1: goes before one of <arg> 0 */
	ACT_LIMIT,		/* a number of tokens; <arg> 1: goes before one of <arg> 0 */
	ACT_OUTPUT,		/* the same, expected */
	ACT_SYSTEM,		/* text or a list of parts -> the system segment; <arg> 1: or a message */
	ACT_TOOLS,		/* any value -> the tools segment; <arg>: TOOLS_... */
	ACT_MESSAGES,		/* list of messages; a string is one of role "user" */
	ACT_PROMPT,		/* text, ids, or a list of either */
	ACT_OPTION,		/* if not null or false, the template may make another prompt of the same messages */
	ACT_STREAM,		/* if true, the answer comes token by token */
	ACT_TRUNCATE,		/* if not null, the engine uses a part of the prompt only */
	/* message */
	ACT_ROLE, ACT_MESSAGE_NAME, ACT_TYPE,
	ACT_CONTENT,		/* text or a list of parts */
	ACT_CALLS,		/* list of calls, or one call */
	ACT_CALL_TEXT,		/* the arguments of a message that is a call itself */
	ACT_ASIDE,		/* reasoning, refusal: text */
	/* part; <arg> of the first three: the byte before it, MARK_... */
	ACT_TEXT,
	ACT_JSON,		/* text, or a value as JSON text */
	ACT_PARTS,		/* text or a list of parts, one level down */
	ACT_MEDIA,
	ACT_PART_NAME,		/* of a call */
	/* call */
	ACT_FUNCTION,		/* an object with the same keys */
	ACT_CALL_NAME, ACT_ARGUMENTS
};

/* Names. Where several keys set one name, the lower value wins. */
enum name_slot {
	NAME_MODEL,
	NAME_LORA_PATH, NAME_LORA_NAME, NAME_ADAPTER,
	NAME_SALT, NAME_EXTRA, NAME_IMAGES,
	NAME_USER, NAME_META_USER,
	NAME_CACHE_KEY, NAME_CONVERSATION, NAME_SAFETY, NAME_RESPONSE,	/* only hashes are kept */
	NAMES
};

enum { TOOLS_TOOLS, TOOLS_FUNCTIONS, TOOLS_DOCUMENTS, TOOLS_SLOTS };

/* Bytes that never occur in UTF-8, so no text can contain them. */
enum {
	MARK_TEXT = 0xff,	/* between two parts of text; not before the first */
	MARK_CALL = 0xfe,	/* 8 bytes of hash follow: the name of a call, at its end */
	MARK_THINK = 0xfd,
	MARK_REFUSAL = 0xfc,
	MARK_RESULT = 0xfb,	/* parts of a tool result follow, up to MARK_RESULT_END */
	MARK_JSON = 0xfa,	/* JSON text follows */
	MARK_RESULT_END = 0xf9
};

struct rule {
	const char *key;
	uint8_t n, act, arg;
};

/* Return the rule of <key> in <place>, or NULL if the key does not count there. */
const struct rule *rule_find(enum prompt_api api, enum place place, struct span key);

/* Return the rule of "content" in PLACE_MESSAGE of an API whose messages have that key. */
const struct rule *rule_content(enum prompt_api api);

/* Return the number of a rule of PLACE_PART, below 64. */
unsigned int rule_part_bit(const struct rule *r);

#endif
