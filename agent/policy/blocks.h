/* blocks.h - which owners hold which blocks: the table of the rules that keep one of their own.
 *
 *      key --> block: the set of its owners          one look tells all of them
 *                |
 *                |--- held by owner 0     each in the list of its owner, from the block touched longest
 *                `--- held by owner 3     ago to the newest: the LRU of that owner
 *
 * A block is a 64-bit key of one page or a few, chained to what is before them or of its place alone. An owner is
 * what a server holds in one scope; a rule that needs no scopes uses 0. Stamps are what the caller counts, and
 * never go down: what is behind is taken for the newest.
 *
 * All memory is taken by blocks_new(), but for pools of more than 64 owners: the table is then made anew for twice
 * as many, within the same bytes, and begins empty. When it is full, what was touched longest ago by any owner goes.
 * Nothing here locks. Cost, one core of a shared AMD EPYC, 32 MiB: a look at a block 8 ns, whatever the number of owners up
 * to 64; a touch 20; a new block in the place of an old one 60 to 300 (bench_tables). */
#ifndef KVROUTE_POLICY_BLOCKS_H
#define KVROUTE_POLICY_BLOCKS_H

#include "agent/policy/policy.h"

#define OWNERS_MAX	1024
#define OWNER_NONE	((uint16_t)0xffff)
#define SCOPES_MAX	8

struct blocks;

struct blocks *blocks_new(size_t max_bytes);	/* NULL: no memory, or so few bytes that it would hold nothing */
void blocks_free(struct blocks *b);
size_t blocks_bytes(const struct blocks *b);	/* what is taken: at most <max_bytes> */

/* A rule's own struct that begins with its blocks, of <size> bytes, the rest 0; both together take at most <max_bytes>. */
void *with_blocks_new(size_t size, size_t max_bytes);		/* NULL: as above */
void with_blocks_free(void *m);
size_t with_blocks_bytes(const void *m, size_t size);

/* ---- the keys of a prompt ------------------------------------------------------------------ */

/* From the first block of a prompt to the last, once. */
struct block_walk {
	const page_key *pages;
	uint32_t at, end;		/* pages */
	uint32_t per;			/* pages in a block; 0: a page each, by its place and not by what is before */
	uint64_t h;
};

/* Blocks of <per> pages, the last of what is left, each with all before it in its key; of the first <pages>. */
struct block_walk walk_chain(const struct policy_prompt *p, uint32_t pages, uint32_t per);

/* Blocks of a page, each with its place in its key and nothing of those before it. */
struct block_walk walk_places(const struct policy_prompt *p);
uint64_t place_key(const struct policy_prompt *p, uint32_t page);

/* The next keys, at most <max>; 0: that was all. */
size_t walk_next(struct block_walk *w, uint64_t *keys, size_t max);

/* ---- owners ---------------------------------------------------------------------------------- */

/* The owner of a server in a scope, or OWNER_NONE; blocks_join() makes one, where there is room. */
uint16_t blocks_owner(const struct blocks *b, unsigned scope, server_id server);
uint16_t blocks_join(struct blocks *b, unsigned scope, server_id server);
server_id blocks_server(const struct blocks *b, uint16_t owner);
uint32_t blocks_owned(const struct blocks *b, uint16_t owner);		/* how many it holds */
uint32_t blocks_newest(const struct blocks *b, uint16_t owner);		/* stamp; 0: it holds none */
uint32_t blocks_count(const struct blocks *b);				/* blocks that anybody holds */

/* None of these is an owner any more. O(1): what they hold is dropped in steps, by later calls of blocks_add(). */
void blocks_gone(struct blocks *b, server_id server);
void blocks_scope_gone(struct blocks *b, unsigned scope);

/* ---- blocks ---------------------------------------------------------------------------------- */

/* How many blocks of <w> each owner of <scope> has, as n[owner]; all others are 0. <whole>: from the first without a
 * gap; otherwise all up to the first that nobody has. */
void blocks_match(const struct blocks *b, unsigned scope, struct block_walk w, bool whole, uint32_t n[OWNERS_MAX]);

/* The same as policy_match() wants it: tokens[server], for blocks of <per> pages. */
void blocks_match_tokens(const struct blocks *b, const struct policy_prompt *p, uint32_t pages, uint32_t per, bool whole,
			 uint32_t *tokens);

bool blocks_held(const struct blocks *b, uint64_t key, uint16_t owner);

/* How many blocks of walk_places() <owner> seems to hold, by a binary search that takes it to hold all that come before
 * one it holds. It reports a false length where another prompt left the same page at the same place. O(log pages). */
uint32_t blocks_search(const struct blocks *b, const struct policy_prompt *p, uint16_t owner);

/* <owner> holds all of <w>, and touched it now, in that order; <last_oldest>: in the order from its last to its
 * first, so that a prompt loses its end first. Of a prompt that would fill more than half of the table only the
 * beginning is kept. */
void blocks_add(struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp, bool last_oldest);

/* The same for those of <w> that it holds already; others stay as they are. */
void blocks_touch(struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp);

/* Drop what was touched longest ago, at most <steps>: of <owner> until it holds <max>; of all until there are <max>
 * blocks; of all what was last touched before <stamp>. */
void blocks_trim(struct blocks *b, uint16_t owner, uint32_t max, uint32_t steps);
void blocks_trim_all(struct blocks *b, uint32_t max, uint32_t steps);
void blocks_expire(struct blocks *b, uint32_t stamp, uint32_t steps);

#endif
