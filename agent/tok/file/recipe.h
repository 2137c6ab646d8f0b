/* recipe.h - a tokenizer without its vocabulary, as bytes. A tokenizer is always made from one,
 * whether its files were read or an image was mapped. Small: steps, added tokens, the ids around a
 * text. */
#ifndef KVROUTE_TOK_FILE_RECIPE_H
#define KVROUTE_TOK_FILE_RECIPE_H

#include "agent/tok/file/draft.h"

struct recipe_token {
	struct added_token token;
	bool normalized;	/* searched in normalized text */
	bool hidden;		/* never searched in text */
};

struct recipe {
	uint64_t fingerprint;
	uint32_t n_normal, n_split, n_tokens, n_before, n_after;
	struct normal_step *normal;
	struct split_step *split;
	struct recipe_token *tokens;	/* in the order of precedence */
	token_id *before, *after;
	uint8_t dropped[32];
};

/* Allocate a recipe; the caller frees it. p == NULL: no memory. */
struct span recipe_write(const struct draft *d, uint64_t fingerprint);

/* Strings are borrowed from <bytes>. Returns -1 if there is no memory or it is no recipe. */
int recipe_read(struct span bytes, struct recipe *r);
void recipe_fini(struct recipe *r);

#endif
