/* words.h - one request's prompt as the token ids that its engine makes of it, over all slices of its body.
 *
 *   body  ->  prompt_text (words, as they come)  ->  ids of each prompt  ->  pages of a block each
 *
 * Two steps, as the model, and so the tokenizer, may come behind the prompt: the words are taken whatever the model is, the ids are made
 * when it is known, and go on from where they were with the next slice. If a later slice says that the prompt, the model or
 * the special tokens are others after all, the ids are made anew.
 *
 * Waits in struct sliced between slices, and then counts in their budget; for bodies that come whole each thread has one. */
#ifndef KVROUTE_ROUTE_WORDS_H
#define KVROUTE_ROUTE_WORDS_H

#include "agent/prompt/text.h"
#include "agent/route/route.h"
#include "agent/tok/cached.h"

struct words;

struct words *words_new(void);			/* NULL: no memory */
void words_free(struct words *w);		/* wipes it; takes NULL */
size_t words_bytes(const struct words *w);	/* memory it holds; 0 for NULL */

/* For another request; wiped, memory kept. */
void words_reset(struct words *w, enum prompt_api api, uint16_t max_depth);
void words_feed(struct words *w, struct span body);

/* ---- ids ------------------------------------------------------------------------------------ */

/* Who encodes, and within which bounds. */
struct words_ask {
	struct tok *tok;		/* NULL: only ids that the body brings */
	struct tok_scratch *scratch;
	struct segcache *cache;		/* NULL: none */
	uint64_t tenant;		/* struct segcache_scope */
	enum model_special special;
	size_t max_ids;			/* what is beyond has no pages anyway */
	struct work_left *work;		/* of the request: what is done is charged to it */
};

/* Of all prompts, one after the other. Borrowed until the next call for <w>. */
struct words_ids {
	const token_id *p;
	const struct text_item *runs;	/* where each prompt ends in <p>; whole when no id of it follows */
	size_t n, n_runs;
	uint64_t bytes, left;	/* of the words, those that these ids are of; others: kept back, as what follows may change them, or too much */
};

enum words_result {
	WORDS_NONE,		/* no such prompt: nothing to be made of it */
	WORDS_FAILED,		/* no memory, or a pattern that gave up; stays so until the prompt is another */
	WORDS_MADE
};

enum words_result words_ids(struct words *w, const struct words_ask *a, struct words_ids *out);

/* What is new since it was last asked, for counters: what slices do together counts once. */
struct words_news {
	bool made, bounded, failed;	/* ids of words; <work> or <max_ids> was reached, or a text is too long to wait for its end */
	uint64_t ids;
};
struct words_news words_news(struct words *w);

#endif
