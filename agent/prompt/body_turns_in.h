/* body_turns_in.h - private to body_turns.c and body_slices.c: points of struct turns. */
#ifndef KVROUTE_PROMPT_BODY_TURNS_IN_H
#define KVROUTE_PROMPT_BODY_TURNS_IN_H

#include "agent/prompt/body_in.h"

struct point {
	struct mark mark;
	uint32_t n_messages;		/* pages that follow, of messages */
	uint32_t n_front;		/* pages of system and tools before those */
	uint16_t n_model, n_lora;	/* bytes of the names after the pages */
	bool first;
};

/* Set the trail to the start of bodies of <tenant>; the copy has its item if it is rooted. Returns
 * false if there is no memory. */
bool trail_root(struct body *b, struct turns *t, uint64_t tenant);

/* Take system, tools and names of a first border. Returns false if there is no memory. */
bool trail_take_front(struct body *b, const struct point *pt, const page_key *pages);

/* Set all but the pages, names and trail to the state at the border <m>. */
void trail_restore(struct body *b, const struct mark *m);

/* Return the key of chunk <k>, the bytes at <p>, which follows <from>. */
struct hash128 trail_chunk_key(
    const struct trail *tr, const struct turns *t, struct hash128 from, const char *p, size_t k);

/* The same for the body at <p>, if body_recall() has not made it. */
struct hash128 trail_next_key(
    const struct trail *tr, const struct turns *t, struct hash128 from, const char *p, size_t k);

/* Copy the longest of the tips <of>, after the last known chunk, that agrees with the <n> bytes at
 * <p>. Returns false if there is none. */
bool trail_find_tip(
    struct body *b, struct turns *t, const struct turns_tail *of, const char *p, size_t n);

/* Store the points of a body: trail_put_start() returns the border before the first chunk that is
 * not known, and each trail_put_chunk() the one before the next chunk; last the tip at the last
 * border. They need trail.turns. */
const struct mark *trail_put_start(struct body *b);
const struct mark *trail_put_chunk(
    struct body *b, struct hash128 key, size_t k, const struct mark *before);
void trail_put_tip(struct body *b, struct hash128 chunk, struct hash128 key, struct turns_tail tail,
    const struct mark *before);

#endif
