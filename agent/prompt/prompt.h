/* prompt.h - a request body made into pages: what a router needs to know of a prompt, and no more.
 *
 * The body of one inference request is pushed into a scanner, whole or in slices; what comes out is
 * the same. Text is never kept: it is hashed page by page as it passes. A body may be cut short
 * (HAProxy shows what fits its buffer), and clients send "messages" first and "model" and "tools"
 * behind them, so a cut body often lacks its head; what was seen is said.
 *
 * Pages. In text mode the canonical text is cut into pages of <text_page> bytes; in token mode
 * (the body brings token ids) into pages of <token_page> ids, 4 bytes each, little endian.
 * The prompt is made of segments that each start on a page of their own, and so does every message
 * within them; keys are not chained, so segments are put in order afterwards:
 *
 *   system    "system" (Anthropic), "instructions" (Responses)     a part page of text at the end of
 *   tools     "tools", "functions", "documents"                    a message is padded, and carries
 *   messages  leading system and developer messages: part          role and name in its hash; a part
 *             of the system segment when it is put in order        page of token ids is dropped
 *
 *   A message "s of 150 bytes" with role user, text_page 64:  [s 0..63] [s 64..127] [s 128.. + user]
 *
 * What the words below mean for each API stands in body.c, beside the tables. Rules for all:
 *   - of keys that come twice the last wins, as in the engines (also inside a message)
 *   - the order of keys does not matter, but for a cut body, where what was not seen is missing
 *   - tool calls, tool results, tool definitions count as JSON text without white space
 *   - images, audio, video, files count as one page, by a hash of their content or URL
 *   - ids, cache_control, annotations and the like, which move between turns, do not count
 *   - a body is good when it is JSON and has a prompt; nothing else is judged here
 * Prefix property: the segments of a body cut anywhere are prefixes of the whole body's; only a key
 * that comes twice takes back what was shown of the first. */
#ifndef KVROUTE_PROMPT_PROMPT_H
#define KVROUTE_PROMPT_PROMPT_H

#include "agent/base/hash.h"
#include "agent/base/json.h"

enum prompt_api {
	API_NONE,		/* no inference request we know: no prompt */
	API_CHAT, API_COMPLETIONS, API_RESPONSES, API_MESSAGES, API_EMBEDDINGS, API_GENERATE
};

/* By the end of the path, so that prefixes (/openai/v1/...) do not matter; a query is left out. */
enum prompt_api prompt_api_of_path(struct span path);
const char *prompt_api_name(enum prompt_api api);

#define PROMPT_TOKEN_PAGE_MAX	512

struct prompt_opts {
	uint32_t text_page;	/* bytes a page in text mode; default 64; 16 .. 256 */
	uint32_t token_page;	/* ids a page in token mode; default 16; 1 .. PROMPT_TOKEN_PAGE_MAX */
	uint32_t max_pages;	/* of one prompt, all segments; what is beyond is not counted; 65536 */
	uint16_t max_depth;	/* of nesting; default 128 */
};

void prompt_defaults(struct prompt_opts *o);

enum prompt_mode { PROMPT_TEXT, PROMPT_TOKENS };

#define PROMPT_NAME_MAX	255	/* longer model, adapter, salt and user names count by their hash */

struct prompt_name {
	bool seen;			/* the key was there, whole */
	uint16_t n;
	char s[PROMPT_NAME_MAX + 1];	/* NUL-terminated */
};

struct page_vec {
	page_key *p;
	uint32_t n, cap;
};

/* What was made of a body so far; readable after every prompt_feed(). */
struct prompt {
	enum prompt_api api;
	enum prompt_mode mode;
	enum json_state json;		/* JSON_DONE: the body was whole */
	bool found;			/* there is a prompt (a key that holds one, with something in it) */
	bool in_media;			/* the bytes seen end inside an image or the like */
	bool truncated;			/* max_pages was reached, or memory ran out */
	bool system_seen, tools_seen;	/* the key was there, to its end */
	bool developer;			/* a message has role developer, or in the Messages API role system: engines may put it in front */
	bool prompt_seen;		/* messages, prompt, input: to its end */
	bool truncates;			/* "truncate_prompt_tokens" of completions and embeddings: the engine takes a part of its ids */
	struct prompt_name model, lora, salt, user;
	struct page_vec system, tools, messages;	/* segments; messages in the body's order */
	uint32_t n_leading;		/* pages of <messages> that are leading system messages */
	uint32_t n_history;		/* pages of <messages> in front of the last of role assistant; 0: none is there */
	uint64_t n_units;		/* bytes of canonical text, or token ids, pages or not: the
					 * unaligned length of all segments together */
	uint64_t n_bytes;		/* body bytes taken */
	uint32_t n_events;		/* keys, values, ends and parts of strings in them: what they cost more than their bytes do */
};

struct body;		/* the scanner: one request's state, a few KB; may change threads between calls */

/* NULL: no memory. <key> must outlive it. body_reset() makes it as new for another request and
 * keeps its memory, so that a warm scanner allocates nothing. */
struct body *body_new(const struct prompt_opts *o, const struct hash_key *key);
void body_free(struct body *b);		/* wipes what it held of text */
void body_reset(struct body *b, enum prompt_api api);

/* Take more bytes. JSON_BAD or JSON_DONE: more bytes change nothing but that they may be bad. */
enum json_state body_feed(struct body *b, const char *p, size_t n);
const struct prompt *body_prompt(const struct body *b);
size_t body_bytes(const struct body *b);	/* memory it holds, for budgets */

/* ---- the prompt in order ---------------------------------------------------------------- */

enum text_part { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES, TEXT_PARTS };

/* Which segment comes when in the canonical text of a model; default system, tools, messages. */
struct text_order {
	uint8_t part[TEXT_PARTS];
};

/* What a cut body did not show and another body with the same opening did (heads.h). */
struct prompt_head {
	struct span model, lora;
	const page_key *system, *tools;
	uint32_t n_system, n_tools;
	bool developer;			/* as in struct prompt */
};

/* Put the pages in order into <out> (emptied first). <head> (may be NULL) stands in for what <p> has
 * not seen to its end: system, tools. -1: no memory; <out> then holds what fitted.
 * In token mode the last token is always computed again by the engine, so at most
 * floor((n - 1) / page) pages count: the caller's rule, not this function's. */
int prompt_pages(const struct prompt *p, const struct text_order *order,
		 const struct prompt_head *head, struct page_vec *out);

int page_vec_push(struct page_vec *v, page_key k);	/* -1: no memory, and nothing changed */
int page_vec_append(struct page_vec *v, const page_key *p, uint32_t n);		/* the same */
void page_vec_free(struct page_vec *v);

#endif
