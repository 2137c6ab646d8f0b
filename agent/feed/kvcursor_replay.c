/* The replays of a cursor: when one is due, what its frames mean, and how it ends.
 *
 * A publisher sends a replay in one go, and its socket drops what is above its high water mark, the
 * end too. So a replay may end in a hole or in silence; the next one goes on from there. */
#include "agent/feed/kvcursor_in.h"

#define PROBE_MOST	16	/* times <probe_ms> */

bool kvcursor_can(const struct kvcursor *c, msec now)
{
	return c->o->replay && c->connected && now >= c->rest_until &&
	       (c->numbered || !c->unnumbered);
}

enum kvcursor_need kvcursor_need(const struct kvcursor *c, msec now)
{
	bool zero = !c->full_used;	/* may be asked for */

	if (!kvcursor_can(c, now))
		return KVCURSOR_NONE;
	if (!c->begun)
		return zero ? KVCURSOR_FULL : KVCURSOR_NONE;
	if (c->unsure)
		return KVCURSOR_OVERLAP;
	if (c->next == 0 && !zero)
		return KVCURSOR_NONE;
	if (c->live_next > c->next || c->torn)
		return KVCURSOR_FILL;
	return now - c->quiet_at >= c->probe_after ? KVCURSOR_PROBE : KVCURSOR_NONE;
}

static bool waits(const struct kvcursor *c, msec now)
{
	enum kvcursor_need need = kvcursor_need(c, now);

	return (c->replay == KVCURSOR_NONE || c->replay == KVCURSOR_PROBE) &&
	       need != KVCURSOR_NONE && need != KVCURSOR_PROBE;
}

void kvcursor_look(struct kvcursor *c, msec now)
{
	bool behind = c->begun && !c->unsure && c->live_next > c->next;

	c->waits = waits(c, now);
	if (!c->connected || c->replay != KVCURSOR_NONE || c->waits || (c->n_held == 0 && !behind))
		return;
	kvcursor_give_up(c, now);
	c->waits = waits(c, now);
}

bool kvcursor_replay_due(const struct kvcursor *c, msec now)
{
	return c->replay == KVCURSOR_NONE && now >= c->due && kvcursor_need(c, now) != KVCURSOR_NONE;
}

uint64_t kvcursor_replay_begin(struct kvcursor *c, msec now)
{
	enum kvcursor_need need = kvcursor_need(c, now);

	c->replay = need;
	c->sent = c->overlapped = c->clean = false;
	c->items = c->progress = 0;
	c->began = c->heard = now;
	c->waits = false;
	c->count.replays++;
	if (need == KVCURSOR_FULL)
		return 0;
	return need == KVCURSOR_OVERLAP ? c->next - 1 : c->next;
}

static bool asks_zero(const struct kvcursor *c)
{
	return !c->begun || (c->replay == KVCURSOR_OVERLAP ? c->next == 1 : c->next == 0);
}

void kvcursor_replay_sent(struct kvcursor *c, msec now)
{
	if (c->replay == KVCURSOR_NONE || c->sent)
		return;
	c->sent = true;
	c->heard = now;
	c->full_used = c->full_used || asks_zero(c);
}

void kvcursor_abort(struct kvcursor *c)
{
	c->replay = KVCURSOR_NONE;
	c->clean = false;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* The answer was empty. Returns false if that means a restart. */
static bool end_empty(struct kvcursor *c, enum kvcursor_need was)
{
	if (was == KVCURSOR_OVERLAP)
		return false;	/* the engine's last batch has a lower number */
	if (c->next == 0 && c->live_next == 0) {
		c->full_used = false;
		if (!c->begun)
			kvcursor_begin_at(c, 0);
	}
	return true;
}

/* <missing>: batches are missing still. */
static void plan_next(struct kvcursor *c, bool missing, msec now)
{
	if (c->progress > 0 || !missing) {
		c->failed = 0;
		c->due = now + c->o->spacing_ms;
		return;
	}
	c->due = now + c->o->retry_ms + rng_below(c->rng, (uint32_t)c->o->retry_ms);
	if (++c->failed < c->o->attempts)
		return;
	c->failed = 0;
	c->torn = false;
	c->rest_until = now + c->o->cooldown_ms + rng_below(c->rng, (uint32_t)c->o->cooldown_ms / 2);
}

/* Nothing came. A request is lost if its socket was still connected to the engine's last process,
 * so that batch 0 may be asked for once more. */
static void ask_zero_again(struct kvcursor *c)
{
	if (!c->sent || !asks_zero(c) || c->full_again)
		return;
	c->full_again = true;
	c->full_used = false;
}

/* <clean>: the publisher said that this is all. */
static void stop(struct kvcursor *c, bool clean, msec now)
{
	enum kvcursor_need was = c->replay;

	if (!clean && c->items == 0)
		ask_zero_again(c);
	c->replay = KVCURSOR_NONE;
	c->clean = clean;
	c->unanswered = clean || c->items > 0 ? 0 : c->unanswered + 1;
	c->count.unanswered += c->unanswered > 0;
	c->quiet_at = now + rng_below(c->rng, (uint32_t)c->o->probe_ms / 8);
	if (was == KVCURSOR_PROBE && c->probe_after < PROBE_MOST * c->o->probe_ms)
		c->probe_after *= 2;
	if (clean && c->items == 0 && !end_empty(c, was)) {
		kvcursor_restarted(c, false, now);
		return;
	}
	c->torn = !clean && (c->items > 0 || c->torn);
	if (c->begun && !c->unsure)
		kvcursor_drain(c);
	plan_next(c, !clean || !c->begun || c->unsure || c->live_next > c->next, now);
}

void kvcursor_replay_broken(struct kvcursor *c, msec now)
{
	if (c->replay != KVCURSOR_NONE)
		stop(c, false, now);
	kvcursor_look(c, now);
}

void kvcursor_tick(struct kvcursor *c, msec now)
{
	if (c->replay != KVCURSOR_NONE &&
	    (now - c->heard >= c->o->silence_ms || now - c->began >= c->o->total_ms))
		stop(c, false, now);
	kvcursor_look(c, now);
}

/* ---- its frames ------------------------------------------------------------------------- */

/* The first frame after a new connection. Returns true if it is also one to apply. */
static bool take_overlap(struct kvcursor *c, const struct kvframe *f, msec now)
{
	if (f->sequence + 1 < c->next) {
		c->count.foreign++;
		c->items--;
		return false;
	}
	c->overlapped = true;
	if (f->sequence >= c->next) {	/* what could be compared is gone */
		c->count.lost += f->sequence - c->next;
		c->count.clears++;
		kvcursor_forget(c, false, false);
		kvcursor_begin_at(c, f->sequence);
		c->unsure = false;
		return true;
	}
	if (hash64(c->key, f->payload.p, f->payload.n) == c->hash)
		c->unsure = false;
	else
		kvcursor_restarted(c, false, now);
	return false;
}

static void take_item(struct kvcursor *c, const struct kvframe *f, msec now)
{
	if (c->items == 1)
		kvcursor_begin_before(c, f->sequence);
	if (f->sequence < c->next)
		return;		/* applied from a live frame meanwhile */
	if (f->sequence > c->next && c->items > 1) {
		stop(c, false, now);	/* a hole */
		return;
	}
	kvcursor_lose(c, f->sequence - c->next);	/* the publisher has them no more */
	c->count.gaps += c->replay == KVCURSOR_PROBE && c->progress == 0;
	c->progress++;
	c->count.replayed++;
	kvcursor_apply(c, f->sequence, f->payload);
}

void kvcursor_replay_frame(struct kvcursor *c, const struct kvframe *f, msec now)
{
	if (c->replay == KVCURSOR_NONE)
		return;
	c->heard = now;
	if (f->end) {
		stop(c, true, now);
	} else if (!f->has_sequence || f->sequence == UINT64_MAX) {
		c->count.foreign++;
	} else {
		c->items++;
		if (c->replay != KVCURSOR_OVERLAP || c->overlapped || take_overlap(c, f, now))
			take_item(c, f, now);
	}
	kvcursor_look(c, now);
}
