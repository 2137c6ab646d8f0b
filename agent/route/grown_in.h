/* grown_in.h - how far an engine's cache extends a prompt by the answer that it generated. The next
 * turn of the conversation brings that text back.
 *
 *   turn 1   [ prompt: 5 pages ][ tail ]  answer of <tokens>     stored under the prompt's pages
 *   turn 2   [ the same 5 pages ][ tail + answer ... ][ new ]    5 pages match there: it holds more
 *
 * The text of the answer is never seen, so this is a guess. The next prompt must match all pages of
 * the last one at that server, and continue with the same tail if ids are known. The tokens
 * generated are the engine's own count, if the log line has it. Otherwise they are estimated by
 * bytes, and the ids of the message in the next prompt replace the estimate if they are about as
 * many. Without ids that message must be long enough, because an answer whose thoughts the client
 * or the template dropped is another text. A prompt without messages has only the engine's own
 * count as a bound: if a client extends it without the answer, the expected hit is too high by the
 * answer's pages.
 *
 * Output is evicted before its prompt; after that nothing is expected. Once a prompt brings it
 * back, the pages hold it and it no longer counts as output.
 *
 * A table of GROWN_PLACES of 40 bytes: two for a prompt, of which a server has one. A later entry
 * replaces an earlier one. Locked by its owner. O(1). */
#ifndef KVROUTE_ROUTE_GROWN_IN_H
#define KVROUTE_ROUTE_GROWN_IN_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

#define GROWN_PLACES	8192u

/* The end of a prompt. */
struct grown_end {
	uint64_t key;		/* hash of its space and all its pages; 0: unknown */
	uint64_t tokens;	/* exact if its pages are of ids */
	uint32_t tail;		/* hash of the ids after the last page; 0: none, or unknown */
	uint16_t n_tail;	/* their number */
};

struct grown_place {
	uint64_t key;		/* hash of an end and a server; 0: free */
	uint64_t tokens;	/* of prompt and answer, without the last token, which was not computed */
	uint32_t tail;
	uint16_t n_tail;
	bool told;		/* by the engine's own count */
	uint32_t bytes;		/* of a stream, until its tokens are known; else 0 */
	msec at;		/* end of the answer */
};

/* An answer that ended. */
struct grown_answer {
	uint64_t tokens;	/* told or estimated */
	bool told;		/* by the engine's own count */
	uint32_t bytes;		/* of a stream whose tokens are estimated; else 0 */
	msec at;
};

struct grown_table;
struct grown_table *grown_table_new(void);	/* NULL: no memory */
void grown_table_free(struct grown_table *t);	/* <t> may be NULL */
size_t grown_table_bytes(void);

/* Store that <server>, a hash of its name, answered the prompt that ends with <e> by <a>. */
void grown_put(struct grown_table *t, const struct grown_end *e, uint64_t server,
    const struct grown_answer *a);
/* Begin to read what is known of the prompt <key>, for grown_find(). */
void grown_prefetch(const struct grown_table *t, uint64_t key);
/* Find what <server> answered to the prompt <key>. Returns NULL if nothing is known. */
struct grown_place *grown_find(struct grown_table *t, uint64_t key, uint64_t server);

#endif
