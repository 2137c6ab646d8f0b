/* parts.h - the parts of a tokenizer and of a scratch, for code of this folder that encodes in
 * steps. tok.c owns both. */
#ifndef KVROUTE_TOK_PARTS_H
#define KVROUTE_TOK_PARTS_H

#include "agent/base/buf.h"
#include "agent/tok/added.h"
#include "agent/tok/bpe/bpe_border.h"
#include "agent/tok/lexicon/lexicon.h"
#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"
#include "agent/tok/tok.h"

struct tok_parts {
	const struct normal *normal;	/* NULL: none */
	const struct split *split;	/* NULL: the whole segment is one piece */
	const struct bpe *bpe;		/* this or <lexicon> */
	const struct lexicon *lexicon;
	const struct borders *borders;	/* cuts the whole segment; NULL: nothing does */
	/* tokens to cut out of normalized text before it is split; NULL: none */
	const struct added *normalized;
	const uint8_t *dropped;		/* bytes to remove from pieces: drop.h; NULL: none */
};

struct tok_scratch_parts {
	struct normal_buf *normal;
	struct split_scratch *split;
	struct bpe_scratch *bpe;
	struct lexicon_scratch *lexicon;
	struct buf *kept;		/* for drop_bytes() */
};

/* Borrowed for the life of <t> and of <c>. */
struct tok_parts tok_parts(const struct tok *t);
struct tok_scratch_parts tok_scratch_parts(struct tok_scratch *c);

#endif
