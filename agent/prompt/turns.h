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
 * tenants.
 *
 * The tools, which many clients send after the messages, are remembered by themselves: by their
 * first kilobyte their length and last bytes, and by all of their bytes their pages.
 *
 * No text of a prompt is stored, because at the end of a message no page is unfinished: hashes of
 * pages, counts, and the names of model and adapter. Bodies with a salt are not remembered, because
 * a salt must not be guessed; nor are those with a user's name before the messages.
 *
 * Bounded in bytes. A point that was used since it came, or that belongs to a tenant with fewer
 * bytes than the floor, is passed over by the eviction a few times; then the tenant that adds
 * evicts its own. Locks itself, for the time of one copy. */
#ifndef KVROUTE_PROMPT_TURNS_H
#define KVROUTE_PROMPT_TURNS_H

#include "agent/prompt/prompt.h"

struct turns;

struct turns_opts {
	size_t max_bytes;	/* default 32 MiB; below TURNS_LEAST: nothing is remembered */
	size_t floor_bytes;	/* of a tenant; default 1 MiB */
	uint32_t least_bytes;	/* shorter bodies are read; default 4096 */
	uint32_t chunk_bytes;	/* of the grid, at least 64; default 8192, others are for tests */
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
 * then calls body_remember(), and keeps <p> until then. <t> may be NULL. */
size_t body_recall(
    struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n);

/* Remember a body that body_recall() was called for, and that was fed up to byte <n> since, if
 * <keep>, unless it is no JSON or has a salt. */
void body_remember(struct body *b, size_t n, bool keep);

#endif
