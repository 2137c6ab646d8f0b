/* text_ids_in.h - private to agent/request: the token ids of a prompt that is text or ids, over all
 * slices of its body.
 *
 *   body  ->  prompt_text (text, as it comes)  ->  ids of each prompt  ->  pages of a block each
 *
 * There are two steps because the model, and so the tokenizer, may come after the prompt. The text
 * is kept whatever the model is. Ids are made when the model is known, and continue with the next
 * slice. If a later slice changes the prompt, the model or the special tokens, all ids are made
 * again.
 *
 * It waits in struct sliced between slices and counts in their budget. For bodies that come whole
 * each thread has one. */
#ifndef KVROUTE_REQUEST_TEXT_IDS_IN_H
#define KVROUTE_REQUEST_TEXT_IDS_IN_H

#include "agent/prompt/text.h"
#include "agent/request/request.h"
#include "agent/tok/cached.h"

struct text_ids *text_ids_new(void);			/* NULL: no memory */
void text_ids_free(struct text_ids *w);			/* wipes it; <w> may be NULL */
size_t text_ids_bytes(const struct text_ids *w);	/* memory it holds; 0 for NULL */

/* Wipe it for another request; memory is kept. */
void text_ids_reset(struct text_ids *w, enum prompt_api api, uint16_t max_depth);
void text_ids_feed(struct text_ids *w, struct span body);

/* ---- ids ----------------------------------------------------------------------------------- */

/* Who encodes, and within which bounds. */
struct ids_ask {
	struct tok *tok;		/* NULL: only ids that the body brings */
	struct tok_scratch *scratch;
	struct segcache *cache;		/* NULL: none */
	uint64_t tenant;		/* struct segcache_scope */
	enum model_special special;
	size_t max_ids;			/* further ids would have no pages */
	struct work_left *work;		/* the request's; it is charged */
};

/* Ids of all prompts, one after the other. Borrowed until the next call for its maker. */
struct prompt_ids {
	const token_id *p;
	/* where each prompt ends in <p>; whole if no further id can follow */
	const struct text_item *runs;
	size_t n, n_runs;
	uint64_t before;		/* ids before <p>, of which only the pages are known */
	uint32_t known;			/* these pages: the first of the scratch's */
	bool leaves;			/* request_chat_leave() has something to store */
	uint64_t bytes;			/* of text that these ids stand for */
	uint64_t left;			/* of text without ids: what follows may change them, or too much text */
};

enum ids_result {
	IDS_NONE,		/* no prompt of that kind */
	IDS_FAILED,		/* no memory, or a pattern gave up; stays so until the prompt is another */
	IDS_MADE
};

enum ids_result text_ids_make(struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out);

/* Return what is new since the last call. */
struct ids_news text_ids_news(struct text_ids *w);

#endif
