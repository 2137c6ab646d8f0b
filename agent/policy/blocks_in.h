/* blocks_in.h - which owners hold which blocks: the table of rules that keep one of their own.
 *
 *      key --> block: the set of its owners        one lookup finds all of them
 *                |
 *                |--- held by owner 0     each in the list of its owner, from the least recently
 *                `--- held by owner 3     touched block to the most recently touched: its LRU
 *
 * A block is a 64-bit key of one page or a few. A key is chained to what is before the block, or
 * made of its place. An owner is a server in one scope; rules without scopes use scope 0. The
 * caller counts stamps. They never go down: a smaller one is taken for the newest.
 *
 * blocks_new() allocates all memory, except for pools of more than 64 owners: then the table is
 * made again for twice as many owners within the same bytes, and starts empty. A full table drops
 * the least recently touched block of any owner. Nothing here locks. Cost, one core of a shared AMD
 * EPYC, 32 MiB: 8 ns to look up a block, whatever the number of owners up to 64; 20 to touch one;
 * 60 to 300 to add one in the place of an old one (bench_tables). */
#ifndef KVROUTE_POLICY_BLOCKS_IN_H
#define KVROUTE_POLICY_BLOCKS_IN_H

#include "agent/policy/policy.h"

#define OWNERS_MAX	1024
#define OWNER_NONE	((uint16_t)0xffff)
#define SCOPES_MAX	8

struct blocks;

struct blocks *blocks_new(size_t max_bytes);	/* NULL: no memory, or too few bytes for any block */
void blocks_free(struct blocks *b);

/* Allocate a rule's struct of <size> bytes that begins with its blocks; the rest is 0. Both take at
 * most <max_bytes> together. */
void *with_blocks_new(size_t size, size_t max_bytes);		/* NULL: as above */
void with_blocks_free(void *m);

/* ---- the keys of a prompt ---- */

/* Walks once from the first block of a prompt to the last. */
struct block_walk {
	const page_key *pages;
	uint32_t at, end;		/* pages */
	uint32_t per;			/* pages a block; 0: one page each, keyed by its place only */
	uint64_t h;
};

/* Walk blocks of <per> pages, each chained to all before it, over the first <pages>; the last one
 * may be shorter. */
struct block_walk walk_chain(const struct policy_prompt *p, uint32_t pages, uint32_t per);

/* Walk blocks of one page, each keyed by its place and its content only. */
struct block_walk walk_places(const struct policy_prompt *p);
uint64_t place_key(const struct policy_prompt *p, uint32_t page);

/* Write the next keys, at most <max>. Returns their number; 0: that was all. */
size_t walk_next(struct block_walk *w, uint64_t *keys, size_t max);

/* ---- owners ---- */

/* Return the owner of a server in a scope, or OWNER_NONE. blocks_join() makes one if there is
 * room. */
uint16_t blocks_owner(const struct blocks *b, unsigned scope, server_id server);
uint16_t blocks_join(struct blocks *b, unsigned scope, server_id server);
server_id blocks_server(const struct blocks *b, uint16_t owner);
uint32_t blocks_owned(const struct blocks *b, uint16_t owner);		/* number of blocks it holds */
uint32_t blocks_newest(const struct blocks *b, uint16_t owner);		/* stamp; 0: it holds none */

/* Forget these owners. O(1): later calls of blocks_add() drop their records in steps. */
void blocks_gone(struct blocks *b, server_id server);
void blocks_scope_gone(struct blocks *b, unsigned scope);

/* ---- blocks ---- */

/* Count the blocks of <w> that each owner of <scope> has, as n[owner]; others get 0. <whole>: from
 * the first without a gap; otherwise all before the first that no owner has. */
void blocks_match(const struct blocks *b, unsigned scope, struct block_walk w, bool whole,
    uint32_t n[OWNERS_MAX]);

/* Do the same for policy_match(): tokens[server], for blocks of <per> pages. */
void blocks_match_tokens(const struct blocks *b, const struct policy_prompt *p, uint32_t pages,
    uint32_t per, bool whole, uint32_t *tokens);

bool blocks_held(const struct blocks *b, uint64_t key, uint16_t owner);

/* Estimate how many blocks of walk_places() <owner> holds, by a binary search that assumes an owner
 * of a block to hold all before it. The result is too long if another prompt left the same page at
 * the same place. O(log pages). */
uint32_t blocks_search(const struct blocks *b, const struct policy_prompt *p, uint16_t owner);

/* Let <owner> hold and touch all of <w>, in that order. With <last_oldest> it touches them from the
 * last to the first, so that a prompt loses its end first. If a prompt would fill more than half of
 * the table, only its beginning is kept. */
void blocks_add(
    struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp, bool last_oldest);

/* Touch those of <w> that the owner holds already, and add none. */
void blocks_touch(struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp);

/* Drop the least recently touched blocks, at most <steps>: of <owner> until it holds <max>; of all
 * until there are <max> blocks; of all that were last touched before <stamp>. */
void blocks_trim(struct blocks *b, uint16_t owner, uint32_t max, uint32_t steps);
void blocks_trim_all(struct blocks *b, uint32_t max, uint32_t steps);
void blocks_expire(struct blocks *b, uint32_t stamp, uint32_t steps);

#endif
