/* body_in.h - private to agent/prompt: struct body, and what the files that read a body share. */
#ifndef KVROUTE_PROMPT_BODY_IN_H
#define KVROUTE_PROMPT_BODY_IN_H

#include "agent/prompt/message_in.h"
#include "agent/prompt/turns_in.h"

#define LEVELS		12
#define EMPTY_TOOLS	2	/* bytes of [] or {} */

enum level {
	IN_UNKNOWN, IN_TOP, IN_METADATA, IN_NVEXT, IN_HINTS, IN_LIMITS, IN_CONVERSATION,
	IN_NAMES, IN_SYSTEM,
	IN_MESSAGES, IN_MESSAGE, IN_PARTS, IN_PART,
	IN_CALLS, IN_CALL, IN_FUNCTION, IN_BATCH, IN_IDS
};

enum take {
	TAKE_NOTHING, TAKE_SKIP, TAKE_TEXT, TAKE_BILLING, TAKE_JSON, TAKE_DIGEST, TAKE_NAME, TAKE_SALT,
	TAKE_MEDIA
};

enum after {
	AFTER_NOTHING, AFTER_NAME, AFTER_TOOLS, AFTER_SYSTEM, AFTER_INPUT, AFTER_PROMPT, AFTER_ITEM,
	AFTER_ROLE, AFTER_MESSAGE_NAME, AFTER_TYPE, AFTER_CONTENT, AFTER_CALLS, AFTER_MEDIA, AFTER_RESULT,
	AFTER_PART_NAME, AFTER_CALL_NAME
};

enum kind { KIND_NONE, KIND_TEXT, KIND_IDS, KIND_LISTS };

/* The prompt of completions, embeddings and generate: a text, ids, or a list of either. */
struct batch {
	enum kind kind;
	bool open;		/* inside a text */
	bool any;		/* this list of ids is not empty */
	bool used;		/* some list has begun, also of an earlier value */
	uint32_t n_items;	/* prompts that were not empty */
	uint32_t fill;		/* ids in <ids> */
	uint64_t mark;
	uint32_t ids[PROMPT_TOKEN_PAGE_MAX];
};

/* An image, audio, video or file: the sum of the hashes of its members. */
struct media {
	bool object;
	uint64_t sum, key;
	bool plain, skip;	/* leave the member's key out of the hash; leave the member out */
};

/* A text that may be left out (billing.c). */
struct billing {
	uint8_t held;		/* bytes that agree with the beginning; they are in no page yet */
	bool part;		/* it is a part: a mark comes before it */
	bool line;		/* only its first line is left out */
	bool line_ended;
};

/* The state of one request; wiped before the next one (body_wipe.c). */
struct request {
	struct json json;
	uint8_t level[LEVELS];
	enum take take;
	enum after after;
	uint16_t take_depth;
	uint16_t drop_levels;		/* depth at which "cache_control" is dropped */
	const struct rule *rule;	/* rule of the last key */
	struct pager *out;
	struct media media;
	struct billing billing;
	enum name_slot name_slot, lora_slot, user_slot;
	bool salt_seen[3];		/* cache_salt, extra_key, images of generate */
	uint64_t salt_hash[3];
	const struct rule *prompt_rule;	/* rule of the key that the messages segment is from */
	bool found, bad_prompt, leading, tools_open;
	uint32_t n_leading, n_history, n_answer, n_first;
	unsigned shape;			/* enum prompt_shape, of the messages */
	bool options;
	uint32_t output_limit[2];	/* by the rule's <arg> */
	uint64_t system_units, message_units, tools_units[TOOLS_SLOTS];
	/* these have room for text, of which most requests use little */
	struct prompt_name name;
	struct digest digest;
	struct batch batch;
	struct message msg;
	struct pager tools;
};

/* The state at a border: the end of an element of the top-level list of messages. */
struct mark {
	uint64_t at;			/* bytes before it */
	uint64_t system_units, message_units, tools_units[TOOLS_SLOTS];
	const struct rule *prompt_rule;
	uint32_t used, n_events;
	uint32_t n_system, n_tools, n_messages;		/* pages */
	uint32_t n_leading, n_history, n_answer, n_first;
	uint32_t output_limit[2], output_hint;
	uint16_t shape;
	int8_t priority;
	uint8_t lora_slot, user_slot;
	bool leading, options, priority_hinted, developer, truncates, streams;
	bool system_seen, tools_seen, model_seen, lora_seen;
};

_Static_assert(sizeof(struct mark) <= 120, "each point of a body that is remembered has one");

/* The value of "tools", for struct turns. */
struct tools_value {
	uint64_t at, n;			/* bytes of the body; n 0: none, or it is known */
	uint32_t n_pages, n_events;
	uint64_t units;
};

/* The chunks of a body that comes in slices (body_slices.c). */
struct walk {
	struct turns *turns;		/* NULL: nothing is noted or found */
	bool known;			/* all whole chunks so far */
	bool failed;			/* no memory: nothing more is found, and nothing stored */
	bool moved;			/* pages were added after those that the scanner has read */
	bool tipped;			/* tips were looked for after the last known chunk */
	uint64_t end, hashed;		/* bytes so far; in whole chunks */
	uint64_t read;			/* where the scanner is */
	uint64_t saved;			/* bytes that it did not read */
	VEC(struct hash128) keys;	/* before the first whole chunk and after each of them */
	struct turns_tail tails[TURNS_TAILS];	/* of the last known chunk */
	/* at the last border that was read */
	uint64_t tip_at;
	struct hash128 tip_key;
	struct turns_tail tip;
};

/* Bytes of the first chunk that count for nothing (billing.c), whatever plain text they are; <n> 0:
 * none. */
struct hole {
	uint32_t from, n;
};

/* Keys of whole chunks, made ahead of those that are looked for (body_recall.c). The last
 * TRAIL_KEYS of the <made> are kept, each at its number modulo TRAIL_KEYS. */
#define TRAIL_KEYS	3u

struct keys_ahead {
	struct hash128 key[TRAIL_KEYS], last;
	size_t made;
};

/* Borders of one body, for struct turns. */
struct trail {
	struct hole hole;		/* it has no part in the keys of chunks */
	struct turns *turns;		/* while the body is fed; NULL: nothing is noted or found */
	uint64_t tenant;
	struct span raw;
	size_t chunk;
	struct tools_value tools;
	bool tools_met;			/* they were looked for: each time may hash the rest of the body */
	bool on;			/* borders are noted */
	bool rooted;			/* there is an item for the start of such bodies */
	size_t recalled;		/* bytes that were not read */
	size_t known;			/* chunks that have a point, from the first one */
	struct hash128 key;		/* of the last of them */
	VEC(struct hash128) keys;	/* before the first and after each of them; none: not looked for */
	struct keys_ahead ahead;	/* of <raw> */
	VEC(struct mark) marks;		/* the last border in each chunk that has one */
	struct prompt_name model, lora;	/* at the first border */
	uint64_t named[PROMPT_NAMED + 1];	/* the same: of sessions, and of the response */
	struct turns_copy copy;
	struct walk walk;
};

struct body {
	struct prompt_opts opts;
	const struct hash_key *key;
	uint64_t h_system, h_developer, h_user, h_assistant, h_model, h_tool, h_function, h_message;
	struct page_env env;
	struct prompt prompt;
	struct page_vec side[2];	/* calls, aside */
	struct page_vec slot[TOOLS_SLOTS];	/* [0] is unused: tools go directly to the prompt */
	struct request r;
	struct trail trail;
};

/* body_turns.c, body_tools.c */
void body_border(struct body *b);	/* note that an element of a list of messages has ended */
/* A list of messages, or the value of a key that made pages, comes again. */
void body_trail_void(struct body *b, const struct page_vec *pages);
/* At the start of the value of "tools": set its pages and leave it out, if it is known. */
bool body_tools_recall(struct body *b);
void body_tools_note(struct body *b);		/* at its end */
void body_tools_void(struct body *b);		/* another value replaces it */
void body_tools_remember(struct body *b);

/* body_value.c: consume a whole value, from the event that starts it to its end */
void body_value_read(struct body *b, enum take what, enum after after, enum json_event ev,
		struct span text);
void body_value_skip(struct body *b, enum json_event ev);
void body_value_text(struct body *b, struct pager *out, enum after after);	/* at JSON_STRING */
void body_value_json(struct body *b, struct pager *out, enum after after, enum json_event ev,
	       struct span text, uint16_t drop_levels);
void body_value_event(struct body *b, uint16_t depth, enum json_event ev, struct span text);
uint64_t body_value_hash(struct body *b);	/* hash of the string or medium just consumed */

/* body.c */
void body_taken(struct body *b);	/* handle the end of a consumed value */
void body_enter(struct body *b, enum level what, enum json_event ev);

/* body_wipe.c */
void body_wipe(struct body *b);		/* set all that a request has changed to zero, but vectors */

/* body_top.c: values of keys at the top of the body */
/* Start the value of a key whose rule is b->r.rule. <ev>: its first event. */
void body_top_value(struct body *b, enum json_event ev, struct span text);
void body_system_close(struct body *b);	/* the end of a system text */
void body_tools_done(struct body *b);	/* the end of tools, functions or documents */
void body_top_end(struct body *b);	/* the end of the body: append functions and documents */

/* body_message.c: values inside messages */
void body_messages(struct body *b, enum json_event ev);	/* the list, or one text */
void body_message(struct body *b, enum json_event ev);		/* one element of it */
void body_role(struct body *b, uint64_t hash);		/* the open message has the role of <hash> */
bool body_message_leads(const struct body *b);	/* its role is system or developer */
uint64_t body_message_units(const struct message *m);
void body_message_end(struct body *b, bool keep_empty);
void body_media_end(struct body *b);
void body_result_end(struct body *b);
void body_part(struct body *b, enum json_event ev, struct span text);
void body_call(struct body *b, enum json_event ev, struct span text);
void body_message_value(struct body *b, enum json_event ev, struct span text);
void body_parts_element(struct body *b, enum json_event ev);

/* billing.c: a text that Claude Code changes with each request is left out */
/* Tell if a text of the open message may begin so. <n_parts>: open parts around such a text. */
bool billing_may_begin(const struct body *b, unsigned n_parts);
/* Consume it, at JSON_STRING. <part>: it is a part of a content. */
void billing_start(struct body *b, enum after after, bool part);
void billing_event(struct body *b, enum json_event ev, struct span text);
/* Return the bytes after the beginning of such a text, if it begins in <p> before all messages, and
 * they end there. <b> was reset, and is again. Costs a search, and to read up to the text if there
 * is one. */
struct hole billing_hole(struct body *b, struct span p);
/* Return the first place of the beginning in <s>; NULL: it is not there. */
const char *billing_find(struct span s);

/* named.c: names of which only a hash is kept */
/* Set what <slot> names. <h>: hash of its value; 0: void. <text>: the value, or its start */
void named_set(struct body *b, enum name_slot slot, uint64_t h, struct span text);
void conversation_start(struct body *b, enum json_event ev, struct span text);

/* names.c: model, adapter, salt, user. All bytes of a name after its text are zero. */
void name_clear(struct prompt_name *m);
void name_set(struct prompt_name *m, const char *s, uint16_t n);	/* without <seen> */
void name_copy(struct prompt_name *to, const struct prompt_name *from);
void name_start(struct body *b, enum json_event ev, struct span text);
void name_element(struct body *b, enum json_event ev, struct span text);
void name_done(struct body *b);

/* batch.c: prompts of completions, embeddings and generate */
void prompt_start(struct body *b, enum json_event ev, struct span text);
void prompt_void(struct body *b, bool null);
void batch_element(struct body *b, enum json_event ev, struct span text);
void batch_id(struct body *b, enum json_event ev, struct span text);
void batch_text_end(struct body *b);
void batch_ids_end(struct body *b);

#endif
