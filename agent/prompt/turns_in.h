/* turns_in.h - private to agent/prompt: the table of turns.c, for those that store in it. */
#ifndef KVROUTE_PROMPT_TURNS_IN_H
#define KVROUTE_PROMPT_TURNS_IN_H

#include "agent/base/hash_wide.h"
#include "agent/prompt/turns.h"
#include "agent/prompt/turns_grid.h"

#define TURNS_TAILS	8u

/* A tip after a point: the length of the bytes between, and a hash of the last of them, so that few
 * bodies hash all. <n> 0: free. */
struct turns_tail {
	uint32_t n, quick;
};

/* A copy of one item; memory is kept. */
struct turns_copy {
	struct turns_tail tails[TURNS_TAILS];	/* newest first */
	VEC(uint8_t) data;
};

hash128_fn *turns_hash(const struct turns *t);
const struct turns_opts *turns_options(const struct turns *t);
const struct hash_key *turns_key(const struct turns *t);

/* Copy the item of <key>. Returns false if there is none, or no memory. */
bool turns_get(struct turns *t, struct hash128 key, struct turns_copy *out);

/* The same, and prefetch the item of <next>, which is looked for next; NULL: none. In time if
 * turns_prefetch() was called for it some time before. */
bool turns_get_and_prefetch(
    struct turns *t, struct hash128 key, const struct hash128 *next, struct turns_copy *out);
void turns_prefetch(const struct turns *t, struct hash128 key);

/* Copy the first <n_first> bytes of the item of <key> to <first>, and its last <n_last> bytes to
 * <last>. Returns false if there is none, or it has fewer bytes than one of these. */
bool turns_get_ends(struct turns *t, struct hash128 key, void *first, size_t n_first, void *last,
    size_t n_last);

/* Store a copy of <n> bytes, unless there is an item of <key>. */
void turns_put(struct turns *t, uint64_t tenant, struct hash128 key, const void *data, size_t n);

/* The same, and add the tip <tail> to the item of <point>, which <key> comes after, if there is
 * one; the oldest of too many is forgotten. */
void turns_put_tip(struct turns *t, uint64_t tenant, struct hash128 point, struct turns_tail tail,
    struct hash128 key, const void *data, size_t n);

/* Return the key of what follows <from> by <n> bytes. */
struct hash128 turns_next_key(const struct turns *t, struct hash128 from, const char *p, size_t n);

/* Return the tip that is <n> bytes after a point. */
struct turns_tail turns_tail_of(const struct turns *t, const char *p, size_t n);

/* Copy the item of the longest of the TURNS_TAILS tips <of>, which come after the point of key
 * <from>, that agrees with <rest>. Sets its key. Returns its bytes; 0: none agrees. <of> may be
 * out->tails. */
size_t turns_find_tip(struct turns *t, struct hash128 from, const struct turns_tail *of,
    struct span rest, struct turns_copy *out, struct hash128 *key);

/* Append to data that has the room. */
void turns_copy_put(struct turns_copy *c, const void *p, size_t n);

void turns_count(struct turns *t, size_t saved_bytes);

#endif
