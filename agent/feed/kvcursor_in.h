/* kvcursor_in.h - what kvcursor.c (live frames) and kvcursor_replay.c share. */
#ifndef KVROUTE_FEED_KVCURSOR_IN_H
#define KVROUTE_FEED_KVCURSOR_IN_H

#include "agent/feed/kvcursor.h"

/* Apply the batch <sequence>, which is <c->next>. */
void kvcursor_apply(struct kvcursor *c, uint64_t sequence, struct span payload);

/* <sequence> is the first batch to apply. */
void kvcursor_begin_at(struct kvcursor *c, uint64_t sequence);

/* <sequence> is the first batch of a replay: apply what is held before it. */
void kvcursor_begin_before(struct kvcursor *c, uint64_t sequence);

/* Count <n> batches as lost, and clear if they are too many. The caller sets <c->next>. */
void kvcursor_lose(struct kvcursor *c, uint64_t n);

/* Apply the batches held that come next. */
void kvcursor_drain(struct kvcursor *c);
void kvcursor_drop_held(struct kvcursor *c);

/* Forget all blocks. */
void kvcursor_forget(struct kvcursor *c, bool from_start, bool restarted);

/* The engine was restarted: clear, and begin anew. */
void kvcursor_restarted(struct kvcursor *c, bool from_start, msec now);
/* It may have been restarted: the same, but a full replay is not asked again. */
void kvcursor_unverified(struct kvcursor *c);

/* Go on without the batches that are missing and that no replay can bring. */
void kvcursor_give_up(struct kvcursor *c, msec now);

/* Tell if a replay can be asked at all, and for which reason one is needed. */
bool kvcursor_can(const struct kvcursor *c, msec now);
enum kvcursor_need kvcursor_need(const struct kvcursor *c, msec now);

/* End the replay, if one is under way, without a result. */
void kvcursor_abort(struct kvcursor *c);

/* Update what follows from the rest: is a replay awaited, or is there no hope of one. The last call
 * of each function of kvcursor.h. */
void kvcursor_look(struct kvcursor *c, msec now);

#endif
