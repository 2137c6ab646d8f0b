/* answer_in.h - how many tokens an answer has, by HAProxy's log line.
 *
 * The engine's own count ("gtok" of the log line) is used if it is there. Otherwise only bytes are
 * known. In a stream each token is an event with the fields around it. In a whole answer it is its
 * text. The bytes per token are learned: from whole answers whose count is known, and from streams
 * whose text the next turn of the conversation brings back as ids. Not locked: the owner locks. */
#ifndef KVROUTE_ROUTE_ANSWER_IN_H
#define KVROUTE_ROUTE_ANSWER_IN_H

#include "agent/feed/fact.h"

struct answer_size {
	/* of text in whole answers; both are halved now and then; zero at first */
	uint64_t bytes, tokens;
	uint64_t stream_bytes, stream_tokens;	/* the same of streams */
};

/* Learn from <f>, the end of an answer. <whole>: it was no stream. */
void answer_learn(struct answer_size *a, const struct fact *f, bool whole);

/* Tell if a stream ended with less than one event: with none, or with an error in its place. */
bool answer_empty(const struct fact *f);

/* Return the bytes of the stream that <f> ends, without headers; 0 if unknown. */
uint32_t answer_stream_bytes(const struct fact *f);
/* Learn from a stream of <bytes> that had <tokens>. */
void answer_learn_stream(struct answer_size *a, uint32_t bytes, uint32_t tokens);

/* Return the generated tokens, told or estimated, at most ANSWER_TOKENS_MAX; 0 if none, or unknown.
 * An estimate is at most what an engine generates in the time that the answer took. It is 0 if a
 * whole answer has far more bytes than the text of that would have. */
#define ANSWER_TOKENS_MAX	(1u << 20)
uint32_t answer_tokens(const struct answer_size *a, const struct fact *f, bool whole);

#endif
