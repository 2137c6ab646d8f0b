/* answer.h - how many tokens an answer has, as HAProxy's log tells it.
 *
 * The engine's own count goes first ("gtok" of the log line). Without it there are only bytes: in a stream each token is an event of
 * its own, with the fields around it; in a whole answer it is its text, and how many bytes of text a token has is learned from the
 * whole answers whose count is known. Not locked: the owner is. */
#ifndef KVROUTE_ROUTE_ANSWER_IN_H
#define KVROUTE_ROUTE_ANSWER_IN_H

#include "agent/feed/fact.h"

struct answer_size {
	uint64_t bytes, tokens;		/* of the text of whole answers; both are halved now and then. All zero at first */
};

/* Learn from <f>, the end of an answer; <whole>: it was no stream. */
void answer_learn(struct answer_size *a, const struct fact *f, bool whole);

/* Tokens that were generated, as told or estimated; ANSWER_TOKENS_MAX at most. 0: nothing is known, or there were none. */
#define ANSWER_TOKENS_MAX	(1u << 20)
uint32_t answer_tokens(const struct answer_size *a, const struct fact *f, bool whole);

#endif
