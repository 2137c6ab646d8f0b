/* stream.h - a text that comes in parts, encoded as it comes, in steps that are as long as the caller likes.
 *
 *   stream_feed(part), stream_step() ... stream_feed(part), stream_step() ... stream_end(), stream_step() until 0
 *
 *   bytes fed   |---- encoded ----|-- kept back --|       what is kept back may still become part of an added token, or of
 *               ids               buffer                   a chunk (chunk.h) that is not all there
 *
 * The ids are those of tok_encode() for the whole text, however it is cut, in the middle of characters too; its chunks are
 * those of tok_cached_encode(), which finds what a stream has put into the cache, and the other way round. What cannot be
 * cut, or belongs to a tokenizer whose segments depend on each other, is collected and encoded at the end. */
#ifndef KVROUTE_TOK_STREAM_H
#define KVROUTE_TOK_STREAM_H

#include "agent/tok/cached.h"

enum stream_result {
	STREAM_DONE = 0,		/* nothing to be done with what there is */
	STREAM_MORE = 1,		/* the budget is used up: call stream_step() again */
	STREAM_NO_MEMORY = -1,		/* or PCRE2 gave up; the text cannot be encoded */
	STREAM_TOO_LONG = -2,		/* more than max_bytes would have to be kept */
	STREAM_SPENT = -3		/* stream_work(): what has to be done in one go takes more than the budget */
};

struct stream_opts {
	size_t max_bytes;		/* of text that is kept at a time */
	unsigned flags;			/* TOK_SPECIAL */
};

struct stream;

struct stream *stream_new(const struct stream_opts *o);	/* NULL: no memory */
void stream_free(struct stream *s);			/* wipes it */

/* A new text with <c>, which is copied; what it names is borrowed until the next stream_begin() or stream_free(). Forgets
 * and wipes the one before it. The first ids of TOK_SPECIAL are in <out> then. <out> is the caller's, the same until the
 * end. */
enum stream_result stream_begin(struct stream *s, const struct cached *c, struct ids *out);

/* Take all of <part>, copied; nothing is encoded yet. DONE, NO_MEMORY, TOO_LONG. */
enum stream_result stream_feed(struct stream *s, struct span part);

/* The text is complete. */
void stream_end(struct stream *s);

/* A budget that holds a loop for less than 5 ms, whatever the text, where no pattern is run by PCRE2. */
#define STREAM_BUDGET	32768u

/* Encode for about <budget> steps of work.h, a chunk at least: into <out>. MORE, or DONE: feed more; after stream_end(), all
 * ids are there. A result below 0 stays. */
enum stream_result stream_step(struct stream *s, size_t budget);

/* The same for no more than *budget, which becomes what is left of it: MORE also when a chunk needs more than that. Also SPENT. */
enum stream_result stream_work(struct stream *s, uint64_t *budget);

/* Another thread goes on: with its scratch. */
void stream_scratch(struct stream *s, struct tok_scratch *scratch);

/* Bytes that were fed and are not encoded. */
size_t stream_left(const struct stream *s);

/* When stream_step() says DONE and the end of the text is not there: append to <out> the ids of what is kept back, as far as nothing that may
 * follow changes them, *n bytes of it, within *budget. The stream is as before, and gives them again. 0, -1: no memory. */
int stream_peek(struct stream *s, struct ids *out, size_t *n, uint64_t *budget);

size_t stream_bytes(const struct stream *s);		/* memory it holds */

#endif
