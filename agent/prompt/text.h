/* text.h - extract the prompt of completions, embeddings and generate verbatim: texts or token ids.
 *
 *   {"prompt": ["Once upon", "a time"]}      text  |Once upon|a time|      items end at 9 and 15
 *   {"prompt": [[1, 2], [3]]}                ids   |1 2|3|                 items end at 2 and 3
 *
 * Token mode needs the text itself, and the scanner of prompt.h keeps none. This is a second,
 * smaller scanner beside it for those APIs. It follows the same rules for the key that holds the
 * prompt, for keys that come twice and for invalid prompts: for every body, truncated or whole,
 * its items are those that the other scanner counts.
 *
 * Bytes are fed in pieces of any size. Items stay until a key that comes twice replaces them. */
#ifndef KVROUTE_PROMPT_TEXT_H
#define KVROUTE_PROMPT_TEXT_H

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "agent/prompt/prompt.h"
#include "agent/tok/bpe/bpe.h"

#define TEXT_ITEMS_MAX	65536	/* prompts of one body: no more than it can have pages */

enum text_kind {
	TEXT_NONE,
	TEXT_WORDS,	/* a text, or a list of texts */
	TEXT_IDS,	/* one list of ids */
	TEXT_LISTS	/* a list of such lists */
};

struct text_item {
	size_t end;		/* offset in <words> or <ids>; it starts at the end of the one before */
	bool whole;		/* complete */
};

/* A caller may read the fields before "private" between two calls. */
struct prompt_text {
	enum text_kind kind;
	bool bad;		/* no engine accepts it: text and ids mixed, or a wrong type */
	bool lost;		/* incomplete: no memory, or too many items */
	/* options of completions and embeddings: */
	int8_t special;		/* "add_special_tokens": 0, 1; -1: absent */
	int64_t keep;		/* "truncate_prompt_tokens": ids to keep; 0: other value; -1: absent */
	char side;		/* "truncation_side", the side to drop: 'l', 'r'; '\0': absent */
	uint32_t lives;		/* incremented whenever the items were dropped for other ones */
	struct buf words;	/* UTF-8; only a truncated last character is bad */
	struct ids ids;
	VEC(struct text_item) items;	/* only the last may be incomplete */
	/* private */
	struct json json;
	enum prompt_api api;
	const void *rule, *held;	/* rule of the current key; rule of the key of the items */
	bool taking;
};

bool prompt_text_possible(enum prompt_api api);		/* tells if <api> has such prompts */

/* Allocate a scanner. Returns NULL if there is no memory. */
struct prompt_text *prompt_text_new(void);
void prompt_text_free(struct prompt_text *t);		/* wipes it; <t> may be NULL */
size_t prompt_text_bytes(const struct prompt_text *t);	/* memory it holds; 0 for NULL */

/* Wipe it and prepare for a body of <api>; memory is kept. <max_depth> as in struct prompt_opts. */
void prompt_text_reset(struct prompt_text *t, enum prompt_api api, uint16_t max_depth);
void prompt_text_feed(struct prompt_text *t, const char *p, size_t n);

/* Append the full pages of the <n> ids of one prompt to <out>, until it holds <max> pages. Pages
 * equal those that batch.c makes of ids in a body, so that ids and the text they came from
 * match. <page>: 1 .. PROMPT_TOKEN_PAGE_MAX. <later>: it is not the first prompt of its body.
 * Returns -1 if there is no memory. */
int prompt_pages_of_ids(const struct hash_key *key, const token_id *ids, size_t n, uint32_t page,
			bool later, uint32_t max, struct page_vec *out);

#endif
