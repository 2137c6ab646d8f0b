/* prompt.h - divide a request body into pages for routing.
 *
 * The caller feeds the body of one inference request to a scanner, whole or in slices; the
 * result is the same. Text is hashed page by page and never kept. A body may be truncated,
 * because HAProxy shows only what fits its buffer. Clients send "messages" first and "model" and
 * "tools" after them, so a truncated body often lacks its head; struct prompt says which parts
 * were seen.
 *
 * Pages. In text mode the canonical text is divided into pages of <text_page> bytes. In token
 * mode (the body holds token ids) it is divided into pages of <token_page> ids of 4 bytes,
 * little endian. A prompt consists of segments. Each segment, and each message in it, starts on
 * a page of its own. Keys are not chained, so segments can be put in order afterwards:
 *
 *   system    "system" (Anthropic), "instructions" (Responses)
 *   tools     "tools", "functions", "documents"
 *   messages  leading system and developer messages: part of the system segment when it is put in
 *             order
 *
 * The last page of a message has its role and name in its hash, and the text after the last whole
 * page, if any. A part page of token ids is dropped.
 *
 *   150 bytes with role user, text_page 64:  [0..63] [64..127] [128..149 + user]
 *
 * rules.c lists the keys of each API. Rules for all APIs:
 *   - if a key comes twice the last one wins, as in the engines, also inside a message
 *   - the order of keys does not matter, except that a truncated body lacks what it did not reach,
 *     and that billing.c looks for a role before the content
 *   - tool calls, tool results, tool definitions count as JSON text without white space
 *   - images, audio, video, files count as one page, by a hash of their content or URL
 *   - ids, cache_control, annotations and similar, which change between turns, do not count; nor
 *     does the text of base/billing.h at the beginning of a system text (billing.c)
 *   - a body is valid if it is JSON and has a prompt; nothing else is checked here
 * Prefix property: the segments of a truncated body are prefixes of those of the whole body. The
 * one exception is a key that comes twice, which replaces pages of the first that were shown
 * before. */
#ifndef KVROUTE_PROMPT_PROMPT_H
#define KVROUTE_PROMPT_PROMPT_H

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/vec.h"

enum prompt_api {
	API_NONE,		/* not a known inference request: no prompt */
	API_CHAT, API_COMPLETIONS, API_RESPONSES, API_MESSAGES, API_EMBEDDINGS, API_GENERATE,
	API_CONTENTS
};

#define PROMPT_APIS	(API_CONTENTS + 1)

/* Return the API of a request path. Only the end of the path counts, so prefixes such as
 * /openai/v1/... do not matter; a query is ignored. */
enum prompt_api prompt_api_of_path(struct span path);
const char *prompt_api_name(enum prompt_api api);

/* Return the model that a path of API_CONTENTS names, as in /v1beta/models/NAME:generateContent.
 * It borrows from <path>; it is empty for every other API. */
struct span prompt_model_of_path(struct span path);

/* Return the id of a stored response that a path names: .../responses/ID, .../responses/ID/cancel,
 * .../responses/ID/input_items. It borrows from <path>; any bytes but '/'. It is empty for every
 * other path. */
struct span prompt_response_of_path(struct span path);

#define PROMPT_TOKEN_PAGE_MAX	512

struct prompt_opts {
	uint32_t text_page;	/* bytes per page in text mode; default 64; 16 .. 256 */
	uint32_t token_page;	/* ids per page in token mode; default 16; 1 .. PROMPT_TOKEN_PAGE_MAX */
	uint32_t max_pages;	/* of one prompt, all segments; later pages do not count; 65536 */
	uint16_t max_depth;	/* of nesting; default 128 */
};

void prompt_defaults(struct prompt_opts *o);

enum prompt_mode { PROMPT_TEXT, PROMPT_TOKENS };

#define PROMPT_NAME_MAX	255	/* a longer model, adapter, salt or user name is replaced by its hash */

struct prompt_name {
	bool seen;			/* the key had a complete value */
	uint16_t n;
	char s[PROMPT_NAME_MAX + 1];	/* NUL-terminated */
};

/* What occurs in a prompt, a bit each. */
enum prompt_shape {
	/* messages of that role */
	SHAPE_SYSTEM = 1 << 0, SHAPE_DEVELOPER = 1 << 1, SHAPE_ASSISTANT = 1 << 2,
	SHAPE_RESULTS = 1 << 3,		/* results of tool calls */
	SHAPE_OTHER = 1 << 4,		/* messages of a role that is none of these nor "user" */
	SHAPE_CALLS = 1 << 5,		/* tool calls */
	SHAPE_THOUGHTS = 1 << 6,	/* reasoning, or a refusal */
	SHAPE_MEDIA = 1 << 7,
	SHAPE_TOOLS = 1 << 8,		/* tool definitions */
	SHAPE_LAST = 1 << 9,		/* the last message is the assistant's */
	/* of the template: "chat_template_kwargs", "reasoning_effort", "tool_choice" and the like */
	SHAPE_OPTIONS = 1 << 10,
	SHAPE_IDS = 1 << 11		/* the prompt came as token ids */
};

#define PROMPT_PRIORITY_MIN	(-8)
#define PROMPT_PRIORITY_MAX	23

#define PROMPT_OUTPUT_MAX	(1u << 20)

/* What may name the session of a request; the first that is told counts. Only hashes are kept. */
enum prompt_named {
	NAMED_CACHE_KEY,	/* "prompt_cache_key" */
	NAMED_SESSION,		/* the session in "metadata": {"user_id"}, if that has one */
	NAMED_CONVERSATION,	/* "conversation", or "id" in it */
	NAMED_SAFETY,		/* "safety_identifier" */
	NAMED_USER,		/* "user" */
	NAMED_META_USER,	/* all of "metadata": {"user_id"} */
	PROMPT_NAMED
};

#define PROMPT_SHAPES	12		/* bits */
const char *prompt_shape_word(unsigned bit);	/* "system", ... */

/* A vector (vec.h) of page keys. */
struct page_vec {
	page_key *p;
	size_t n, cap;
};

/* The prompt of the body so far. Valid after every body_feed(). */
struct prompt {
	enum prompt_api api;
	enum prompt_mode mode;
	enum json_state json;		/* JSON_DONE: the body is complete */
	bool found;			/* the body has a prompt that is not empty */
	bool in_media;			/* the bytes so far end inside an image or similar */
	bool truncated;			/* max_pages was reached, or memory ran out */
	bool system_seen, tools_seen;	/* the value of the key is complete */
	/* a message has role developer, or in the Messages API role system: engines may move its
	 * text to the start */
	bool developer;
	bool prompt_seen;		/* messages, prompt or input is complete */
	/* the body has "truncate_prompt_tokens" (completions, embeddings): the engine drops ids */
	bool truncates;
	bool streams;			/* "stream": true: send the answer token by token */
	/* "priority", or "nvext": {"agent_hints": {"priority"}}, which overrides it: higher stays
	 * longer in the cache. Limited to PROMPT_PRIORITY_MIN .. _MAX; default 0 */
	int8_t priority;
	bool priority_hinted;		/* it is that of agent_hints */
	/* tokens of its answer, at most PROMPT_OUTPUT_MAX; 0: not told. <output_limit>: the engine makes
	 * no more ("max_completion_tokens", else "max_tokens" or "max_output_tokens"; "max_new_tokens" in
	 * SGLang's "sampling_params", "maxOutputTokens" in Google's "generationConfig"). <output_hint>:
	 * the client expects so many ("nvext": {"agent_hints": {"osl"}}) */
	uint32_t output_limit, output_hint;
	struct prompt_name model, lora, salt, user;
	uint64_t named[PROMPT_NAMED];	/* keyed hashes; 0: not told */
	uint64_t previous;		/* the same of "previous_response_id" */
	struct page_vec system, tools, messages;	/* segments; messages in the body's order */
	uint32_t n_leading;		/* pages of <messages> that are leading system messages */
	/* pages of <messages> up to the end of the last one of role assistant; 0: none */
	uint32_t n_answer;
	uint32_t n_first;		/* pages of <messages> before the first one of role assistant; 0: none */
	uint16_t shape;			/* enum prompt_shape */
	uint32_t n_history;		/* pages of <messages> before the last one of role assistant; 0: none */
	uint64_t n_units;		/* length of all segments in bytes of canonical text, or in ids,
					 * not rounded to pages */
	uint64_t n_bytes;		/* body bytes consumed */
	/* JSON events other than pieces of strings: they cost time beyond that of their bytes */
	uint32_t n_events;
	/* what an earlier body has shown: it was not read again (turns.h) */
	struct { uint64_t bytes, units; uint32_t events; } known;
};

/* Callers read no further than this: 3 ms; 1 MB of messages of 50 bytes each. */
#define PROMPT_EVENTS_MOST	200000u

struct body;	/* the scanner: state of one request, a few KB; may change threads between calls */

/* Allocate a scanner. Returns NULL if there is no memory. <key> must outlive it. */
struct body *body_new(const struct prompt_opts *o, const struct hash_key *key);
void body_free(struct body *b);		/* wipes the text it held */

/* Prepare for another request. Memory is kept, so a warm scanner allocates nothing. */
void body_reset(struct body *b, enum prompt_api api);

/* Consume more bytes. After JSON_BAD nothing changes; after JSON_DONE only JSON_BAD may follow. */
enum json_state body_feed(struct body *b, const char *p, size_t n);
const struct prompt *body_prompt(const struct body *b);
size_t body_bytes(const struct body *b);	/* memory it holds, for budgets */

/* Return the hash of what names the session of <p>; 0: nothing. */
static inline uint64_t prompt_session(const struct prompt *p)
{
	unsigned i = 0;

	while (i < PROMPT_NAMED - 1 && p->named[i] == 0)
		i++;
	return p->named[i];
}

/* Tell if the engine puts what it has stored before the input of <p>: a response that it continues,
 * or a conversation. */
static inline bool prompt_continues_stored(const struct prompt *p)
{
	return p->previous != 0 || (p->api == API_RESPONSES && p->named[NAMED_CONVERSATION] != 0);
}

/* Hash the id of a response as "previous_response_id" is hashed. */
uint64_t prompt_response_hash(const struct hash_key *key, struct span id);

/* ---- segments in order ------------------------------------------------------------------ */

enum text_part { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES, TEXT_PARTS };

/* Order of the segments in the canonical text of a model; default system, tools, messages. */
struct text_order {
	uint8_t part[TEXT_PARTS];
};

/* The head of an earlier body with the same opening, for a truncated body (heads.h). */
struct prompt_head {
	struct span model, lora;
	const page_key *system, *tools;
	uint32_t n_system, n_tools;
	bool developer;			/* as in struct prompt */
};

/* Write the pages of <p> in order to <out>, which is emptied first. <head> (may be NULL)
 * replaces system and tools where <p> has not seen them to their end. Returns -1 if there is no
 * memory; <out> then holds the pages that fitted. In token mode an engine always computes the
 * last token again, so at most floor((n - 1) / page) pages count; the caller applies this rule.
 * Pages of an input that continues what the engine has stored differ from those of any other. */
int prompt_pages(const struct prompt *p, const struct text_order *order,
		 const struct prompt_head *head, struct page_vec *out);

/* Append keys. Return -1, without a change, if there is no memory. */
static inline int page_vec_push(struct page_vec *v, page_key k)
{
	return vec_push(v, k);
}

static inline int page_vec_append(struct page_vec *v, const page_key *p, size_t n)
{
	if (n == 0)
		return 0;
	if (vec_reserve(v, n) < 0)
		return -1;
	memcpy(v->p + v->n, p, n * sizeof(*p));
	v->n += n;
	return 0;
}

static inline void page_vec_free(struct page_vec *v)
{
	vec_free(v);
}

#endif
