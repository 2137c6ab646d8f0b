/* chunk.h - a long text in chunks that are encoded on their own, and that are the same chunks in a text that has grown.
 *
 *   |Once upon ... the end.| And then ... nobody knew.| The rest|       each of CHUNK_LEAST to CHUNK_MOST bytes
 *
 * Two things are asked of a cut: no piece of the splitter and no unit of the normalizer spans it, whatever stands on either
 * side (the ids of the chunks, one after the other, are those of the whole); and it is found by what stands near it, so that
 * a text with more behind it, or with more in front, has the same cuts. The proof for each place is in chunk.c. */
#ifndef KVROUTE_TOK_CHUNK_H
#define KVROUTE_TOK_CHUNK_H

#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"

/* Kinds of places where a text may be cut. */
enum {
	CHUNK_SPACE = 1,	/* before a space behind what is no white space */
	CHUNK_LINE = 2,		/* behind a line end that follows what is no white space */
	CHUNK_DIGIT = 4,	/* between a letter of ASCII and a digit */
	CHUNK_CJK = 8,		/* before a full-width comma or full stop behind an ideograph or kana */
	CHUNK_WORD = 16,	/* before a space after a letter of ASCII: a part of CHUNK_SPACE */
	CHUNK_ALL = 15,
	CHUNK_MOST_KIND = 16
};

#define CHUNK_LEAST	1536u
#define CHUNK_MOST	4096u
#define CHUNK_AHEAD	3u		/* bytes behind a cut that are looked at */

/* The places of a tokenizer with this splitter and these <n> steps of a normalizer; 0: nowhere, a segment is one chunk. */
unsigned chunk_places(struct split_traits split, const struct normal_step *normal, size_t n);

/* May a text be cut before <p>? At least 4 bytes of it stand before, CHUNK_AHEAD behind. */
bool chunk_place(unsigned places, const uint8_t *p);

/* Where a search stands: for a chunk that is longer than what has come yet. All zero where a chunk begins. */
struct chunk_search {
	size_t seen;
};

/* The length of the chunk at the beginning of <text>: the whole of it when <ended> says that nothing follows and CHUNK_MOST
 * bytes or fewer are left, or when no place is found. 0: it cannot be said yet, come back with these bytes and more. However
 * a text comes, its chunks are the same. O(length of the chunk), of which most is not looked at. */
size_t chunk_next(unsigned places, struct chunk_search *s, struct span text, bool ended);

/* The last place where <text>, of CHUNK_MOST + CHUNK_AHEAD bytes or fewer, may be cut whatever follows it; 0: none. */
size_t chunk_last(unsigned places, struct span text);

#endif
