/* fleet.h - the events of a fleet of engines with full caches, made in memory.
 *
 *   request --> query     all its blocks: what a router would look up
 *               removed   what the engine's cache evicts for it, least recently used first
 *               stored    what it did not have, after the parent that it has
 *
 * Each engine is an LRU cache of blocks. A request's blocks are touched from the last to the first,
 * as vLLM does, so the end of a conversation goes before its beginning. Conversations begin with
 * one of a few system prompts, grow turn by turn and stay with their engine, except for one request
 * in ten. More are open at a time than fit, so some come back to a part of their blocks. */
#ifndef TESTS_BENCH_EVENTS_FLEET_H
#define TESTS_BENCH_EVENTS_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fleet_kind { FLEET_QUERY, FLEET_STORED, FLEET_REMOVED, FLEET_KINDS };

struct fleet_op {
	enum fleet_kind kind;
	uint16_t server;
	bool has_parent;
	uint32_t n;
	uint64_t parent;
	size_t keys, handles;		/* indexes of fleet_ops.words */
};

/* Operations of one stretch. */
struct fleet_ops {
	struct fleet_op *ops;
	uint64_t *words;
	size_t n_ops, n_words, room_ops, room_words;
	uint64_t blocks[FLEET_KINDS];
};

struct fleet;

struct fleet *fleet_new(uint32_t servers, uint32_t capacity, uint64_t seed);
void fleet_free(struct fleet *f);
uint64_t fleet_held(const struct fleet *f);	/* blocks in all caches */

/* Replace <o> by the operations of requests that store at least <blocks>. */
void fleet_run(struct fleet *f, uint64_t blocks, struct fleet_ops *o);
void fleet_ops_free(struct fleet_ops *o);

#endif
