/* text.h - the prompt of a body that is no conversation, word for word: texts or token ids, as the engine gets them.
 *
 *   {"prompt": ["Once upon", "a time"]}      text  |Once upon|a time|      items end at 9 and 15
 *   {"prompt": [[1, 2], [3]]}                ids   |1 2|3|                 items end at 2 and 3
 *
 * Token mode needs the words themselves, and the scanner (prompt.h) keeps none. So this is a second, smaller scanner beside it, for
 * the APIs of completions, embeddings and generate. Which key holds the prompt, which of two wins, and what is no prompt at all is
 * settled as there: for every body, cut or whole, the items here are those that the scanner counts.
 *
 * Bytes come in pieces of any size. What was taken stays until the body says that it is void (a key that comes twice). */
#ifndef KVROUTE_PROMPT_TEXT_H
#define KVROUTE_PROMPT_TEXT_H

#include "agent/prompt/prompt.h"
#include "agent/tok/bpe.h"

#define TEXT_ITEMS_MAX	65536	/* prompts of one body; more have no pages left anyway */

enum text_kind {
	TEXT_NONE,
	TEXT_WORDS,	/* a text, or a list of texts */
	TEXT_IDS,	/* one list of ids */
	TEXT_LISTS	/* a list of such lists */
};

struct text_item {
	size_t end;		/* bytes of <words>, or <ids>; it begins where the one before ends */
	bool whole;		/* its end was seen */
};

/* Readable between two calls. */
struct prompt_text {
	enum text_kind kind;
	bool bad;		/* it is none that an engine takes: text and ids mixed, a wrong type */
	bool lost;		/* no memory, or too many items: there is more than this */
	int8_t special;		/* "add_special_tokens" of completions and embeddings: 0, 1; -1: not said */
	int64_t keep;		/* "truncate_prompt_tokens" of the same: so many; 0: as many as the engine can, or none; -1: not said, all */
	char side;		/* "truncation_side", which is cut off: 'l', 'r'; '\0': not said */
	uint32_t lives;		/* grows whenever what was taken is void, and something else comes */
	struct { char *p; size_t n, cap; } words;	/* valid UTF-8, but for the last character of a cut one */
	struct ids ids;
	struct { struct text_item *p; size_t n, cap; } items;	/* also empty ones; only the last may not be whole */
	/* its own */
	struct json json;
	enum prompt_api api;
	const void *rule, *held;	/* of the key that stands; whose value was taken */
	bool taking;
};

bool prompt_text_possible(enum prompt_api api);		/* it has prompts of that kind */

/* NULL: no memory. */
struct prompt_text *prompt_text_new(void);
void prompt_text_free(struct prompt_text *t);		/* wipes it; takes NULL */
size_t prompt_text_bytes(const struct prompt_text *t);	/* memory it holds; 0 for NULL */

/* As new, for a body of <api>; wiped, its memory kept. <max_depth> as in struct prompt_opts. */
void prompt_text_reset(struct prompt_text *t, enum prompt_api api, uint16_t max_depth);
void prompt_text_feed(struct prompt_text *t, const char *p, size_t n);

/* The whole pages of <n> ids of one prompt into <out>, at most up to <max> pages in it: as batch.c makes them of a body's own ids, so that
 * a prompt of ids and the text they came from have the same pages. <page>: 1 .. PROMPT_TOKEN_PAGE_MAX. <later>: it is not the first prompt of its
 * body. -1: no memory. */
int prompt_pages_of_ids(const struct hash_key *key, const token_id *ids, size_t n, uint32_t page, bool later, uint32_t max,
			struct page_vec *out);

#endif
