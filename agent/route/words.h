/* words.h - one request's prompt as the token ids that its engine makes of it, over all slices of its body.
 *
 *   body  ->  prompt_text (words, as they come)  ->  ids of each prompt  ->  pages of a block each
 *
 * Two steps, as the model, and so the tokenizer, may come behind the prompt: the words are taken whatever the model is, the ids are made
 * when it is known, and go on from where they were with the next slice.
 *
 * Waits in struct sliced between slices, and then counts in their budget; for bodies that come whole each thread has one. */
#ifndef KVROUTE_ROUTE_WORDS_H
#define KVROUTE_ROUTE_WORDS_H

#include "agent/prompt/text.h"

struct words;

struct words *words_new(void);			/* NULL: no memory */
void words_free(struct words *w);		/* wipes it; takes NULL */
size_t words_bytes(const struct words *w);	/* memory it holds; 0 for NULL */

/* For another request; wiped, memory kept. */
void words_reset(struct words *w, enum prompt_api api, uint16_t max_depth);
void words_feed(struct words *w, struct span body);

/* The ids of all prompts, one after the other. Borrowed until the next call for <w>. */
struct words_ids {
	const token_id *p;
	const struct text_item *runs;	/* where each prompt ends in <p>; whole when no id of it follows */
	size_t n, n_runs;
};

/* False: there are none, or something was lost for want of memory. */
bool words_ids(struct words *w, struct words_ids *out);

#endif
