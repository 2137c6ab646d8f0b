/* kvcursor.h - the order of one publisher's batches: gaps, replays, restarts.
 *
 *               live = last + 1: apply
 *                    .------.
 *                    v      |   live > last + 1
 *   WAITING -----> SYNCED --'--------------------> GAP ---- replay asked ----> REPLAYING
 *   first batch      ^  ^                           |                           |    |
 *   replayed or      |  '------- gap closed --------+---------------------------'    |
 *   a replay is      |                              no replay socket, or             |
 *   impossible       |                              lost batches are gone            |
 *                    '---- cleared, or as many ------ DEGRADED <---------------------'
 *                          blocks removed as were
 *                          there at the loss
 *
 * Without a connection the state is OFF. A publisher is one rank of one engine. It numbers its
 * batches from 0, and keeps some thousands to send them again:
 *
 *      replay    asked from     why
 *      full      0              nothing is known yet; at most once for each start of the engine,
 *                               and once more if nothing came; an empty answer does not count
 *      gap       last + 1       batches are missing
 *      overlap   last           the connection was lost: the engine may have been restarted, and
 *                               then another payload has this number, or none
 *      probe     last + 1       nothing came for a while: the last batches may be lost
 *
 * While a replay is due or under way, live batches are held, within limits. A batch above the
 * limits is dropped and comes with a later replay, because the publisher has it too. Batches that
 * cannot be had any more are lost: blocks that were removed may still seem to be there, so the
 * state is DEGRADED until as many blocks have been removed as were there, or the engine clears its
 * cache. After too many losses everything is cleared and begins anew.
 *
 * Batches are applied in ascending order, each number at most once, between two clears. Frames
 * without a sequence (old publishers) are applied as they come, because TCP keeps their order, and
 * losses cannot be seen; the state is SYNCED. They are dropped once a frame had a sequence.
 *
 * Pure: bytes of no socket, time passed in. loop/kvsub.c owns the sockets. It calls a function
 * below for each thing that happens, and then reads state, kvcursor_replay_due() and
 * kvcursor_replaying(). */
#ifndef KVROUTE_FEED_KVCURSOR_H
#define KVROUTE_FEED_KVCURSOR_H

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/base/types.h"
#include "agent/feed/kvframe.h"

enum kvcursor_state {
	KVCURSOR_OFF,		/* there is no connection */
	KVCURSOR_SYNCED,	/* every batch since the first was applied, in order */
	KVCURSOR_GAP,		/* batches are missing, and a replay is due */
	KVCURSOR_REPLAYING,
	KVCURSOR_DEGRADED,	/* batches are lost for good: what was applied may be wrong */
	KVCURSOR_WAITING,	/* connected, and no batch came since */
	KVCURSOR_STATES
};

struct kvcursor_opts {
	bool replay;			/* there is a replay socket; default false */
	msec silence_ms;		/* without a frame, a replay has ended; 1000 */
	msec total_ms;			/* longest replay; 120000 */
	msec spacing_ms;		/* from the end of a replay to the next; 50 */
	msec retry_ms;			/* after a replay without a new batch; 1000, and up to as much again */
	uint32_t attempts;		/* such replays in a row; 3 */
	msec cooldown_ms;		/* no replay after the last of them; 30000, and up to half again */
	msec probe_ms;			/* without a live batch: probe. Doubles up to 16 times; 10000 */
	uint32_t hold_batches;		/* live batches held; 4096 */
	size_t hold_bytes;		/* 8 MiB */
	uint64_t lost_max;		/* batches lost since the last clear: clear; 1000 */
};

void kvcursor_defaults(struct kvcursor_opts *o);

/* Bytes that several cursors hold, and their caller for them, together. */
struct kvcursor_store {
	size_t used, max;
};

/* What one batch did; zeroed before. */
struct kvcursor_effect {
	uint64_t stored, removed;	/* blocks; not those whose removal is not reported */
	bool cleared;			/* the engine emptied its cache */
};

struct kvcursor_calls {
	/* Apply a payload. Returns false if it cannot be decoded: its events count as lost. It may be
	 * applied later, in order: then <out> stays zeroed, and kvcursor_took() follows. */
	bool (*apply)(void *arg, struct span payload, struct kvcursor_effect *out);
	/* Forget all blocks. <from_start>: the next batch is the first of the engine. <restarted>: the
	 * engine was restarted, so that its cache is empty. */
	void (*clear)(void *arg, bool from_start, bool restarted);
	void *arg;
};

struct kvcursor_counters {
	uint64_t applied;		/* batches, replayed ones too */
	uint64_t gaps;			/* in the sequence of live batches, or found by a probe */
	uint64_t replays;		/* asked */
	uint64_t replayed;		/* batches applied from replays */
	uint64_t lost;			/* batches */
	uint64_t restarts;		/* of the engine */
	uint64_t clears;		/* after too many losses, or because a restart could not be ruled out */
	uint64_t undecoded;		/* batches */
	uint64_t repeated;		/* live batches that were applied before */
	uint64_t foreign;		/* frames of a replay that do not belong to it, or without a sequence */
	uint64_t unheld;		/* live batches that could not be held */
	uint64_t unanswered;		/* replays of which nothing came */
};

enum kvcursor_need {
	KVCURSOR_NONE, KVCURSOR_FULL, KVCURSOR_FILL, KVCURSOR_OVERLAP, KVCURSOR_PROBE
};

struct kvcursor_held {
	uint64_t sequence;
	struct span payload;		/* allocated */
};

struct kvcursor {
	/* for the caller to read */
	struct kvcursor_counters count;
	bool from_start;		/* no batch is missing since the engine began or cleared its cache */
	bool clean;			/* the last replay ended with its end, so no frame of it can follow */
	uint32_t unanswered;		/* replays in a row of which nothing came */
	/* private */
	const struct kvcursor_opts *o;
	const struct kvcursor_calls *calls;
	const struct hash_key *key;
	struct kvcursor_store *store;
	struct rng *rng;
	void *arg;
	bool connected;
	bool begun;			/* <next> is known */
	bool unsure;			/* connected again: the engine may have been restarted */
	bool numbered, unnumbered;	/* frames had a sequence, or none */
	bool degraded;
	bool full_used;			/* batch 0 was asked for */
	bool full_again;		/* and may be asked for again, because nothing came */
	bool torn;			/* the last replay ended in a hole or in silence */
	bool waits;			/* for a replay to begin */
	uint64_t next;			/* sequence to apply */
	uint64_t live_next;		/* after the last live frame; 0: none yet */
	bool has_hash;
	uint64_t hash;			/* of the payload of <next> - 1 */
	uint64_t blocks, owed;		/* held now; to be removed before the loss does not matter */
	uint64_t lost;			/* since the last clear */
	msec quiet_at, probe_after;	/* since then nothing came; a probe is due after this time */
	double started;			/* of the engine's process; 0: unknown */
	double started_before;		/* of the process before it */
	/* replay */
	enum kvcursor_need replay;	/* under way */
	bool sent, overlapped;		/* the batch to compare has come */
	uint64_t items, progress;	/* frames; batches applied */
	msec began, heard;
	msec due, rest_until;		/* of the next replay; no gap is filled before <rest_until> */
	uint32_t failed;		/* replays in a row without progress */
	/* live batches held, in ascending order: a ring */
	struct kvcursor_held *held;
	bool unheld;			/* one was dropped */
	uint32_t held_at, n_held, held_room;
	size_t held_bytes;
};

/* <o>, <calls>, <key>, <store> and <rng> must live as long as <c>. */
void kvcursor_init(struct kvcursor *c, const struct kvcursor_opts *o,
    const struct kvcursor_calls *calls, void *arg, const struct hash_key *key,
    struct kvcursor_store *store, struct rng *rng);
void kvcursor_fini(struct kvcursor *c);

enum kvcursor_state kvcursor_state(const struct kvcursor *c);

/* How far the batches go that were applied: what a cursor in another process continues from, with
 * the same key and the same blocks. */
struct kvcursor_place {
	uint64_t next;		/* sequence */
	uint64_t hash;		/* of the payload before it */
	uint64_t blocks;
	bool from_start;
};

/* Set <p>. Returns false if a new beginning would be no worse: nothing was applied yet, sequences
 * are missing, or what was applied may be wrong. */
bool kvcursor_place(const struct kvcursor *c, struct kvcursor_place *p);

/* Continue from <p>, before the first connection. That is then as if the connection had been lost:
 * the engine may have been restarted meanwhile. */
void kvcursor_resume(struct kvcursor *c, const struct kvcursor_place *p);

/* The connection of the live socket. */
void kvcursor_connected(struct kvcursor *c, msec now);
void kvcursor_disconnected(struct kvcursor *c, msec now);

/* A live frame. One that comes after the connection was lost is applied if it is the next, and
 * dropped otherwise. */
void kvcursor_live(struct kvcursor *c, const struct kvframe *f, msec now);

/* The engine's process began at <start_s> (seconds since 1970), by its metrics. */
void kvcursor_process_start(struct kvcursor *c, double start_s, msec now);

/* Tell if a replay should be asked now. */
bool kvcursor_replay_due(const struct kvcursor *c, msec now);

/* Begin it: ask for all batches from the returned sequence on. */
uint64_t kvcursor_replay_begin(struct kvcursor *c, msec now);
void kvcursor_replay_sent(struct kvcursor *c, msec now);

/* A frame of the replay. */
void kvcursor_replay_frame(struct kvcursor *c, const struct kvframe *f, msec now);

/* The socket failed. */
void kvcursor_replay_broken(struct kvcursor *c, msec now);

/* Returns false once the replay has ended, or if none was begun. Frames that come later belong to
 * no replay. Any call may end it. */
static inline bool kvcursor_replaying(const struct kvcursor *c)
{
	return c->replay != KVCURSOR_NONE;
}

/* What a batch did that was applied later. */
void kvcursor_took(struct kvcursor *c, const struct kvcursor_effect *did);

/* Nothing was read until <now>, because batches were applied: the silence means nothing. */
void kvcursor_was_busy(struct kvcursor *c, msec now);

/* Time has passed: ends silent replays. Call it several times a second. */
void kvcursor_tick(struct kvcursor *c, msec now);

#endif
