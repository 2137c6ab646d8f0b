/* turns_state.h - keep more in struct turns than the scanner's state: what others know of the first
 * bytes of a body, by a keyed hash of all of them.
 *
 *   chunks   |------ 1 ------|------ 2 ------|--- 3 ...      keys of the scanner's points (turns.h)
 *   state                                       ^ at         key: of chunk 2, what, the bytes since
 *
 * <what> tells kinds apart, and all that a state depends on besides those bytes. The tips after a
 * chunk are found as those of points are. */
#ifndef KVROUTE_PROMPT_TURNS_STATE_H
#define KVROUTE_PROMPT_TURNS_STATE_H

#include "agent/prompt/turns_in.h"

struct turns_state {
	struct hash128 key;
	size_t at;		/* bytes of the body that it is known of */
	size_t near;		/* of the caller: it may be in this chunk, or after it */
	struct turns_copy copy;	/* its data; memory is kept until vec_free() */
};

/* Find the state of the most bytes of <raw>, which <b> was recalled for, in this or in one of the
 * chunks before the last one that is known. Returns false if there is none. */
bool turns_state_find(const struct body *b, struct turns *t, uint64_t what, struct span raw,
    struct turns_state *out);

/* Return the bytes up to the end of the last message that <b> has read or recalled; 0: unknown. */
uint64_t turns_state_border(const struct body *b);

/* Return a hash of the bytes that have no part in the keys, because they count for nothing in text
 * mode; 0: there are none. */
uint64_t turns_state_hole(const struct body *b, const struct turns *t, struct span raw);

/* Store a state of the first <at> bytes, and set its key. Returns false if that is not possible. */
bool turns_state_put(const struct body *b, struct turns *t, uint64_t what, struct span raw,
    size_t at, const void *data, size_t n, struct hash128 *key);

/* Compute the keys of chunks again from <raw>, for a scanner that has read it in an earlier
 * message: only samples of it were compared. */
void turns_state_again(struct body *b, const struct turns *t, struct span raw);

#endif
