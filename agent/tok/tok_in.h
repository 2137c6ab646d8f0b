/* tok_in.h - inside of a tokenizer: for tok.c, tok_encode.c and tok_image.c. */
#ifndef KVROUTE_TOK_TOK_IN_H
#define KVROUTE_TOK_TOK_IN_H

#include "agent/tok/added.h"
#include "agent/tok/bpe/bpe_border.h"
#include "agent/tok/normal.h"
#include "agent/tok/parts.h"
#include "agent/tok/split/split.h"
#include "agent/tok/tok.h"

struct tok {
	unsigned int refs;		/* counted atomically; all else never changes */
	uint64_t fingerprint;
	struct normal *normal;		/* NULL: none */
	struct split *split;		/* NULL: the whole text is one piece */
	struct bpe *bpe;
	struct borders *borders;	/* what cuts a piece that is the whole text; NULL: nothing does */
	struct added *raw, *normalized;	/* looked for in the text as it came, and then in normalised text */
	struct added_token *tokens;	/* all of them, for tok_id(); contents are in <recipe> */
	uint32_t n_tokens;
	token_id *added_ids;		/* of the same, sorted */
	bool plain;			/* all of them are hidden: recipe.h */
	struct ids prefix, suffix;
	struct tok_segments segments;
	uint8_t dropped[32];		/* bytes that are left out: draft.c */
	bool drops;
	struct span recipe;		/* owned */
	void (*gone)(void *arg);	/* of a mapped image: nobody needs it any more */
	void *gone_arg;
};

struct tok_scratch {
	struct normal_buf normal;
	struct split_scratch *split;
	struct bpe_scratch *bpe;
	struct buf mended;		/* text that was not valid UTF-8, made so */
	struct buf kept;		/* pieces without what is dropped */
	struct pieces pieces, cut;
	struct work_left work;
};

/* A tokenizer from its recipe and its vocabulary: takes both, also when it fails. NULL and <e> filled. */
struct tok *tok_make(struct span recipe, struct bpe *bpe, struct err *e);

#endif
