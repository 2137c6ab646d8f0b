/* index_test.h - look inside an index from tests, benches and fuzzing: check.c, dump.c, pairs.c. */
#ifndef TESTS_LIB_INDEX_TEST_H
#define TESTS_LIB_INDEX_TEST_H

#include <sched.h>

#include "agent/index/index.h"

/* Check every invariant that index.h and the private headers of agent/index name. Returns NULL if
 * all hold, else a static sentence. O(everything), with all locks held. */
const char *index_check(struct index *ix);

/* Print the tree of a space, children in page order: "[A B C] a b:2\n  [D] a\n" with keys in hex
 * and servers as numbers. ":2" follows a server that has only the first 2 pages; '*' one that only
 * claims them, with the number of pages that it holds if that is not 0. Calls <put> with pieces. */
void index_dump(struct index *ix, const struct space_key *space,
		void (*put)(void *arg, const char *text, size_t n), void *arg);

/* Call <fn> for each page that a server holds, with the chain hash of all pages up to it; with
 * <claimed> also for those that are only claimed. To be called while no other thread works.
 * O(everything x depth). */
struct hash_key;
void index_each_pair(struct index *ix, const struct hash_key *key, bool claimed,
    void (*fn)(void *arg, server_id server, uint64_t prefix), void *arg);

/* Do all steps of index_drop_step(). */
static inline void index_drop_server(struct index *ix, server_id server)
{
	while (!index_drop_step(ix, server, 64))
		sched_yield();
}

/* Return the bytes of nodes that count for a tenant. */
int64_t index_tenant_bytes(const struct index *ix, uint32_t tenant);

#endif
