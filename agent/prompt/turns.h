/* turns.h - remember where the bytes of bodies agree, so that a turn of a conversation costs what
 * is new in it: the old bytes are hashed, the new ones read.
 *
 *   raw bytes   {"messages":[{...},{...........},{.....},{...},{....}],"model":...
 *   grid        |-------- 1 --------|-------- 2 --------|---- 3 ...
 *   points          {...} ^ of 1           {.....} ^ of 2
 *   tip                                                        {....} ^
 *
 * A point holds the state of the scanner (prompt.h) at the end of the last message within so many
 * chunks of the grid, and the pages since the point before it. Its key is a chain: the hash of the
 * chunk, and the key of the chunk before. A tip is the same at the end of the last message, with a
 * hash of the bytes since the last whole chunk. All are keyed hashes of 128 bits that cover every
 * byte before, the tenant and the API: bodies that differ anywhere never share a point, nor do
 * tenants. Only a text before the messages that counts for nothing (billing.c) has no part in the
 * key of the first chunk, except its place and length: it is another one in each turn.
 *
 * The tools, which many clients send after the messages, are remembered by themselves: by their
 * first kilobyte their length and last bytes, and by all of their bytes their pages.
 *
 * No text of a prompt is stored, because at the end of a message no page is unfinished: hashes of
 * pages, counts, and the names of model and adapter. Bodies with a salt are not remembered, because
 * a salt must not be guessed; nor are those with a user's name before the messages.
 *
 * Bounded in bytes, but for the item that each thread adds and those that it evicts for it. A point
 * that was used since it came, or that belongs to a tenant with fewer bytes than the floor, is
 * passed over by the eviction a few times; then the tenant that adds evicts its own. Locks itself,
 * for the time of one copy. */
#ifndef KVROUTE_PROMPT_TURNS_H
#define KVROUTE_PROMPT_TURNS_H

#include "agent/prompt/prompt.h"

struct turns;

struct turns_opts {
	size_t max_bytes;	/* default 32 MiB; below TURNS_LEAST: nothing is remembered */
	size_t floor_bytes;	/* of a tenant; default 1 MiB */
	uint32_t least_bytes;	/* shorter bodies are read; default 4096 */
	uint32_t chunk_bytes;	/* of the grid (turns_grid.h), even, at least 64; default 8192 */
};

#define TURNS_LEAST	65536u

void turns_defaults(struct turns_opts *o);

/* <key> must outlive it. Returns NULL if there is no memory. */
struct turns *turns_new(const struct turns_opts *o, const struct hash_key *key);
void turns_free(struct turns *t);	/* <t> may be NULL */
void turns_clear(struct turns *t);	/* forget all */

struct turns_stats {
	uint64_t bytes, points;		/* now; <bytes> includes the tables */
	uint64_t found, missed;		/* bodies that agreed with an earlier one, or did not */
	uint64_t saved_bytes;		/* of bodies that were hashed instead of read */
	uint64_t evicted;
};

void turns_stats(struct turns *t, struct turns_stats *s);

/* Bring <b>, which was reset for its API and fed nothing, to the state after the most bytes of the
 * body <p> that are remembered for <tenant>. Returns how many these are: the caller feeds the rest,
 * then calls body_remember(), and keeps <p> and <t> until then. <t> may be NULL.
 *
 * Costs a hash of the bytes that are known and a look-up for each chunk of them. Returns 0 if
 * nothing is known, if the body is too short or if there is no memory: then all is to be fed. */
size_t body_recall(
    struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n);

/* A body that comes in slices, after body_reset(). <held>: its bytes from <from> on, with the new
 * slice at the end. The caller keeps them until the next slice from byte body_slice_needs() of the
 * body on, or from an earlier one; <from> is then that byte.
 *
 *   body_slices_start()
 *   body_slice()               a new slice: whole chunks are hashed, once
 *   body_slice_ready()         if somebody wants to see the prompt: where to read on
 *     body_slice_read() ...      all bytes from there
 *   body_slice_needs()         the first byte that the next slices may need
 *   body_slices_remember()     after the last slice
 */

/* Begin. <t> may be NULL; otherwise it must stay until body_slices_remember(), or until <b> is
 * reset or freed. Without memory the body is read as if <t> were NULL. Costs one look-up. */
void body_slices_start(struct body *b, struct turns *t, uint64_t tenant);

/* Take a new slice. Costs a hash of each whole chunk that is new, and a look-up of it while all
 * before it are known. Without memory no further chunk is hashed, and the rest is read. */
void body_slice(struct body *b, struct span held, uint64_t from);

/* Tell if all whole chunks so far are known: then reading can wait. No cost. */
bool body_slice_known(const struct body *b);

/* Set the scanner after the most bytes that are known, if it has not read them. Returns the first
 * byte of the body to be read. Costs a few look-ups, and for each a hash of at most a chunk. */
uint64_t body_slice_ready(struct body *b, struct span held, uint64_t from);

/* Read the next bytes, at the cost of body_feed(). All of them are read whatever their events: the
 * caller stops at PROMPT_EVENTS_MOST, and reads no more of the body then. */
void body_slice_read(struct body *b, const char *p, size_t n);

/* Return the first byte of the body that later slices may need. Costs a hash of at most a chunk. */
uint64_t body_slice_needs(struct body *b, struct span held, uint64_t from);

/* End. If <keep>, store what is new, unless the body is no JSON or has a salt. Costs a copy of each
 * new point. What there is no memory for is not remembered. */
void body_slices_remember(struct body *b, bool keep);

/* Remember a body that body_recall() was called for, and that was fed up to byte <n> since, if
 * <keep>, unless it is no JSON or has a salt. Costs a hash of the bytes that were new and a copy of
 * each new point. What there is no memory for is not remembered. */
void body_remember(struct body *b, size_t n, bool keep);

#endif
