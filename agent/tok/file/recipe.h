/* recipe.h - a tokenizer but for its vocabulary, as a run of bytes: what a tokenizer is made from, whether its files were read
 * or an image is mapped. Small: steps, added tokens, the ids around a text. */
#ifndef KVROUTE_TOK_FILE_RECIPE_H
#define KVROUTE_TOK_FILE_RECIPE_H

#include "agent/tok/file/draft.h"

struct recipe_token {
	struct added_token token;
	bool normalized;	/* looked for in normalised text */
	bool hidden;		/* looked for in no text */
};

struct recipe {
	uint64_t fingerprint;
	uint32_t n_normal, n_split, n_tokens, n_before, n_behind;
	struct normal_step *normal;
	struct split_step *split;
	struct recipe_token *tokens;	/* in the order in which equals count */
	token_id *before, *behind;
	uint8_t dropped[32];
};

/* A new run of bytes, to be freed. p == NULL: no memory. */
struct span recipe_write(const struct draft *d, uint64_t fingerprint);

/* Strings are borrowed from <bytes>. -1: no memory, or not such a recipe. */
int recipe_read(struct span bytes, struct recipe *r);
void recipe_fini(struct recipe *r);

#endif
