/* stream.h - encode a text while it arrives, in steps of any length.
 *
 *   stream_feed(part), stream_step() ... stream_feed(part), stream_step() ...
 *   stream_end(), stream_step() until it returns 0
 *
 *   bytes fed   |---- encoded ----|-- held back --|  may still become part of an added token, or of
 *               ids               buffer              a chunk (chunk.h) that is incomplete
 *
 * The ids are those of tok_encode() for the whole text, wherever it is divided, also inside
 * characters. The chunks are those of tok_cached_some(), so both share cache entries. A text that
 * cannot be cut, or whose tokenizer has segments that depend on each other, is collected and
 * encoded at the end. */
#ifndef KVROUTE_TOK_STREAM_H
#define KVROUTE_TOK_STREAM_H

#include "agent/tok/cached.h"

enum stream_result {
	STREAM_DONE = 0,		/* nothing to do with the bytes so far */
	STREAM_MORE = 1,		/* the budget is used up: call stream_step() again */
	STREAM_NO_MEMORY = -1,		/* or PCRE2 gave up; the text cannot be encoded */
	STREAM_TOO_LONG = -2,		/* more than max_bytes would have to be held */
	STREAM_SPENT = -3		/* stream_work(): an indivisible part costs more than the budget */
};

struct stream_opts {
	size_t max_bytes;		/* of text held at a time */
	unsigned flags;			/* TOK_SPECIAL */
};

struct stream;

struct stream *stream_new(const struct stream_opts *o);	/* NULL: no memory */
void stream_free(struct stream *s);			/* wipes it */

/* Start a new text with a copy of <c>; what it points to is borrowed until the next stream_begin()
 * or stream_free(). Forgets and wipes the text before. Writes the first ids of TOK_SPECIAL to
 * <out>, which the caller owns and passes until the end. */
enum stream_result stream_begin(struct stream *s, const struct cached *c, struct ids *out);

/* The same after an added token: the text that follows it is encoded on its own. <shown>: bytes of
 * it, for what looks back; at most STREAM_SHOWN. */
#define STREAM_SHOWN	64u
enum stream_result stream_begin_on(
    struct stream *s, const struct cached *c, struct span shown, struct ids *out);

/* Note the last added token that ends in the first <settled> bytes that are fed. */
void stream_note(struct stream *s, size_t settled);
/* Set where it ends, its bytes, and the ids up to it. Returns false if there is none. */
bool stream_noted(const struct stream *s, size_t *cut, size_t *cut_n, size_t *n_ids);

/* Copy all of <part>, without encoding. Returns DONE, NO_MEMORY or TOO_LONG. */
enum stream_result stream_feed(struct stream *s, struct span part);

/* Mark the text as complete. */
void stream_end(struct stream *s);

/* A budget that takes less than 5 ms for any text, unless PCRE2 runs a pattern. */
#define STREAM_BUDGET	32768u

/* Encode for about <budget> steps of work.h, at least one chunk, into <out>. Returns MORE, or DONE:
 * feed more; after stream_end(), all ids are written. A negative result stays. */
enum stream_result stream_step(struct stream *s, size_t budget);

/* The same for at most *budget, which becomes the rest. Returns MORE also if a chunk needs more
 * than that; or SPENT. */
enum stream_result stream_work(struct stream *s, uint64_t *budget);

/* Continue with the scratch of another thread. */
void stream_scratch(struct stream *s, struct tok_scratch *scratch);

/* Return the number of bytes that were fed but not encoded. */
size_t stream_left(const struct stream *s);

/* After stream_step() returned DONE before the end of the text: append to <out> the ids of the held
 * bytes, as far as nothing later changes them, *n bytes, within *budget. The stream does not change
 * and will write them again. Returns 0, or -1 if there is no memory. */
int stream_peek(struct stream *s, struct ids *out, size_t *n, uint64_t *budget);

size_t stream_bytes(const struct stream *s);		/* memory it holds */

#endif
