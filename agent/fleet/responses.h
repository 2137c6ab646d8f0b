/* responses.h - which server has stored which response, for requests that continue one by its id
 * ("previous_response_id"): any other server would answer that it does not know it.
 *
 * A table of fixed size, in sets of four places. A response replaces the oldest of its set. Keys
 * are keyed hashes of the id and the tenant, so a tenant finds none of another. Not locked: the
 * owner locks. O(1) each. All functions take NULL, which means that none are known. */
#ifndef KVROUTE_FLEET_RESPONSES_H
#define KVROUTE_FLEET_RESPONSES_H

#include "agent/base/types.h"

struct responses;

#define RESPONSES_LEAST	8192u

/* <max_bytes> below RESPONSES_LEAST: returns NULL, as without memory. */
struct responses *responses_new(size_t max_bytes);
void responses_free(struct responses *t);

/* <at> has stored the response <key>, which is not 0. A request that continues it has <tokens>
 * before its own input; 0: unknown, or as was told before. */
void responses_put(struct responses *t, uint64_t key, server_id at, uint32_t tokens);

/* Return the server that has it, or SERVER_NONE, and then <tokens> stays as it is. */
server_id responses_find(const struct responses *t, uint64_t key, uint32_t *tokens);

/* <id> has left; the number may be given to another server. */
void responses_server_gone(struct responses *t, server_id id);

struct response_saved {
	uint64_t key;
	server_id at;
};

#define RESPONSES_READ_LEAST	4u

/* Copy at most <n>, which is RESPONSES_READ_LEAST at least, from place <*from> on, which moves on.
 * Returns how many; 0: the end. Tokens are not copied. */
uint32_t responses_read(
    const struct responses *t, uint32_t *from, struct response_saved *out, uint32_t n);

/* Return how many are known. */
uint64_t responses_known(const struct responses *t);

#endif
