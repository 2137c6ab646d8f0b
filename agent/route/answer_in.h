/* answer_in.h - how many tokens an answer has, by HAProxy's log line.
 *
 * The engine's own count ("gtok" of the log line) is used if it is there. Otherwise only bytes are
 * known. In a stream each token is an event with the fields around it. In a whole answer it is its
 * text; the bytes of text per token are learned from whole answers whose count is known. Not
 * locked: the owner locks. */
#ifndef KVROUTE_ROUTE_ANSWER_IN_H
#define KVROUTE_ROUTE_ANSWER_IN_H

#include "agent/feed/fact.h"

struct answer_size {
	/* of text in whole answers; both are halved now and then; zero at first */
	uint64_t bytes, tokens;
};

/* Learn from <f>, the end of an answer. <whole>: it was no stream. */
void answer_learn(struct answer_size *a, const struct fact *f, bool whole);

/* Return the generated tokens, told or estimated, at most ANSWER_TOKENS_MAX; 0 if none, or unknown.
 */
#define ANSWER_TOKENS_MAX	(1u << 20)
uint32_t answer_tokens(const struct answer_size *a, const struct fact *f, bool whole);

#endif
