/* tok_in.h - private to tok.c, tok_encode.c and tok_image.c: the inside of a tokenizer. */
#ifndef KVROUTE_TOK_TOK_IN_H
#define KVROUTE_TOK_TOK_IN_H

#include "agent/tok/added.h"
#include "agent/tok/bpe/bpe_border.h"
#include "agent/tok/lexicon/lexicon.h"
#include "agent/tok/normal.h"
#include "agent/tok/parts.h"
#include "agent/tok/split/split.h"
#include "agent/tok/tok.h"

struct tok {
	unsigned int refs;		/* atomic; all other fields are constant */
	uint64_t fingerprint;
	struct normal *normal;		/* NULL: none */
	struct split *split;		/* NULL: the whole text is one piece */
	struct bpe *bpe;		/* this or <lexicon> */
	struct lexicon *lexicon;
	struct borders *borders;	/* cuts a piece that is the whole text; NULL: nothing does */
	struct added *raw, *normalized;	/* searched in the raw text, then in normalized text */
	struct added *kept;		/* pieces of the user that <lexicon> has; NULL: none */
	struct added_token *tokens;	/* all of them, for tok_id(); contents are in <recipe> */
	uint32_t n_tokens;
	token_id *added_ids;		/* of the same, sorted */
	bool plain;			/* some are hidden, none is searched in raw text */
	struct ids prefix, suffix;
	struct tok_segments segments;
	uint8_t dropped[32];		/* one bit for each byte that is dropped: draft.c */
	bool drops;
	struct span recipe;		/* owned */
	void (*gone)(void *arg);	/* called when a mapped image is no longer used */
	void *gone_arg;
};

struct tok_scratch {
	struct normal_buf normal;
	struct split_scratch *split;
	struct bpe_scratch *bpe;
	struct lexicon_scratch *lexicon;
	struct buf mended;		/* a repaired copy of text that was not UTF-8 */
	struct buf kept;		/* pieces without dropped bytes */
	struct pieces pieces, cut;
	struct work_left work;
};

/* Make a tokenizer from a recipe and a vocabulary, <bpe> or <lexicon>. Takes all over, also on
 * failure: returns NULL and fills <e>. */
struct tok *tok_make(struct span recipe, struct bpe *bpe, struct lexicon *lexicon, struct err *e);

#endif
