/* grown.h - what a conversation left at the server of its last turn: the engine keeps the blocks that it generated, and the next turn,
 * which brings that text back, finds them there.
 *
 *   turn 1   [ prompt: 5 pages ][ tail ]  answer of <tokens>         remembered at its end, under the prompt's pages
 *   turn 2   [ the same 5 pages ][ tail + answer ... ][ new ]        matches 5 pages at that server: it holds more
 *
 * The answer's text is never seen here, so this is a guess, and bounded three ways: by what was generated, as the log line tells; the next prompt
 * must match all pages of the one before at that server, and go on with the same tail where ids are known; and the assistant's
 * message that it brings must be long enough: an answer whose thoughts the client or the template dropped is another text.
 * A prompt in one piece has no messages, so only the engine's own count bounds it there: if a
 * client extends it without the answer, that turn is expected too high by the answer's pages.
 *
 * A table of GROWN_PLACES, a later one takes an earlier one's place; 24 bytes each. Locked by its owner. O(1). */
#ifndef KVROUTE_ROUTE_GROWN_IN_H
#define KVROUTE_ROUTE_GROWN_IN_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

#define GROWN_PLACES	8192u

/* The end of a prompt. */
struct grown_end {
	uint64_t key;		/* of its space and all its pages; 0: none */
	uint64_t tokens;	/* of it, exactly where pages are of ids */
	uint32_t tail;		/* hash of the ids after the last page; 0: there are none, or they are not known */
	uint16_t n_tail;	/* of them */
};

struct grown_place {
	uint64_t key;		/* of an end and a server; 0: free */
	uint64_t tokens;	/* of prompt and answer, without the last one, which the engine has not computed */
	uint32_t tail;
	uint16_t n_tail;
	bool told;		/* the engine told how many it generated */
};

struct grown_table;
struct grown_table *grown_table_new(void);	/* NULL: no memory */
void grown_table_free(struct grown_table *t);	/* takes NULL */
size_t grown_table_bytes(void);

/* <server>, a hash of its name, answered the prompt that ends so with <output> tokens; <told>: by the engine's own count. */
void grown_put(struct grown_table *t, const struct grown_end *e, uint64_t server, uint64_t output, bool told);
/* What <server> answered to a prompt with the key <key>; NULL: nothing is known. */
const struct grown_place *grown_find(const struct grown_table *t, uint64_t key, uint64_t server);

#endif
