/* whole.h - a reference encoder for SentencePiece-like tokenizers: each segment between two added
 * tokens is one piece for the merges, and no segment is cut. For tests of the code that cuts
 * (bpe_border.c, chunk.c). */
#ifndef TESTS_TOK_WHOLE_H
#define TESTS_TOK_WHOLE_H

#include <stdlib.h>

#include "agent/base/utf8.h"
#include "agent/tok/parts.h"

/* Append the ids of a segment. Returns false if the tokenizer searches tokens in normalized text,
 * if the splitter makes more than one piece, or if memory runs out. */
static inline bool whole_segment(const struct tok *t, struct tok_scratch *c, struct span text,
				 enum part part, struct ids *out)
{
	struct tok_parts with = tok_parts(t);
	struct tok_scratch_parts in = tok_scratch_parts(c);
	static struct pieces b;
	uint32_t end;

	if (with.normalized != NULL)
		return false;
	if (with.normal != NULL)
		normal_run_part(with.normal, in.normal, text, part, &text);
	if (text.p == NULL || text.n == 0)
		return text.p != NULL;
	end = (uint32_t)text.n;
	if (with.split == NULL)
		return bpe_encode(with.bpe, in.bpe, (const uint8_t *)text.p, &end, 1, out) == 0;
	if (split_next(with.split, in.split, (const uint8_t *)text.p, text.n, part, true, &b) < 0 ||
	    b.n != 1 || b.used != text.n)
		return false;
	return bpe_encode(with.bpe, in.bpe, b.text, b.end, 1, out) == 0;
}

static inline bool whole_ids(const struct tok *t, struct tok_scratch *c, struct span text,
			     struct ids *out)
{
	char *valid = malloc(text.n * 3 + 1);
	struct tok_cut cut;
	size_t from = 0;
	bool good = valid != NULL;

	text = span_of(valid,
		       good ? utf8_mend((const uint8_t *)text.p, text.n, (uint8_t *)valid) : 0);
	while (good && tok_next_cut(t, text, from, &cut)) {
		good = whole_segment(t, c, span_of(text.p + from, cut.at - from),
				     from == 0 ? PART_FIRST : PART_SEGMENT, out) &&
		       ids_reserve(out, 1) == 0;
		if (good)
			out->p[out->n++] = cut.id;
		from = cut.at + cut.n;
	}
	good = good && whole_segment(t, c, span_of(text.p + from, text.n - from),
				     from == 0 ? PART_FIRST : PART_SEGMENT, out);
	free(valid);
	return good;
}

#endif
