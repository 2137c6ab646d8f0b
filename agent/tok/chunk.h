/* chunk.h - divide a long text into chunks that are encoded on their own, and that stay the same
 * when the text grows.
 *
 *   |Once upon ... the end.| And then ... happily.| The rest|   of CHUNK_LEAST to CHUNK_MOST bytes
 *
 * A cut obeys two rules. No piece of the splitter and no unit of the normalizer spans it, whatever
 * is on either side: the ids of the chunks, joined, are those of the text. And it depends on nearby
 * bytes only: a text with more before or after it has the same cuts. chunk.c proves each place. */
#ifndef KVROUTE_TOK_CHUNK_H
#define KVROUTE_TOK_CHUNK_H

#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"

/* Kinds of places where a text may be cut. */
enum {
	CHUNK_SPACE = 1,	/* before a space that follows no white space */
	CHUNK_LINE = 2,		/* after a line end that follows no white space */
	CHUNK_DIGIT = 4,	/* between an ASCII letter and a digit */
	CHUNK_CJK = 8,		/* before a full-width comma or full stop after an ideograph or kana */
	CHUNK_WORD = 16,	/* before a space after an ASCII letter: a part of CHUNK_SPACE */
	CHUNK_ALL = 15,
	CHUNK_MOST_KIND = 16
};

#define CHUNK_LEAST	1536u
#define CHUNK_MOST	4096u
#define CHUNK_AHEAD	3u		/* bytes after a cut that are read */

/* Return the places of a tokenizer with this splitter and these <n> steps of a normalizer. 0: none,
 * a segment is one chunk. */
unsigned chunk_places(struct split_traits split, const struct normal_step *normal, size_t n);

/* Tell if a text may be cut before <p>. At least 4 bytes precede <p> and CHUNK_AHEAD follow. */
bool chunk_place(unsigned places, const uint8_t *p);

/* The state of a search, for a chunk that has not arrived completely. All zero at the start of a
 * chunk. */
struct chunk_search {
	size_t seen;
};

/* Return the length of the chunk at the start of <text>. The whole text is one if no place is
 * found, or if it has <ended> and has at most CHUNK_MOST bytes. Returns 0 if that is unknown yet:
 * call again with these bytes and more. The chunks do not depend on how a text arrives. O(length),
 * most of it skipped. */
size_t chunk_next(unsigned places, struct chunk_search *s, struct span text, bool ended);

/* Return the last place where <text>, of at most CHUNK_MOST + CHUNK_AHEAD bytes, may be cut
 * whatever follows, or 0. */
size_t chunk_last(unsigned places, struct span text);

#endif
