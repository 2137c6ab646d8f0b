/* kvcursor.h - the order of one publisher's batches: gaps, replays, restarts.
 *
 *               live = last + 1: apply
 *                    .------.
 *                    v      |   live > last + 1
 *   new ---------> SYNCED --'--------------------> GAP ---- replay asked ----> REPLAYING
 *   first batch      ^  ^                           |                           |    |
 *   replayed or      |  '------- gap closed --------+---------------------------'    |
 *   a replay is      |                              no replay socket, or             |
 *   impossible       |                              lost batches are gone            |
 *                    '---- rebuilt, or old blocks ------- DEGRADED <-----------------'
 *                          must have been evicted
 *
 * Pure: bytes of no socket, time passed in. loop/kvsub.c owns the sockets. */
#ifndef KVROUTE_FEED_KVCURSOR_H
#define KVROUTE_FEED_KVCURSOR_H

#include "agent/base/types.h"

enum kvcursor_state {
	KVCURSOR_OFF,		/* no batch yet, or the connection is lost */
	KVCURSOR_SYNCED,	/* every batch since the first was applied, in order */
	KVCURSOR_GAP,		/* batches are missing, and a replay is due */
	KVCURSOR_REPLAYING,
	KVCURSOR_DEGRADED,	/* batches are lost for good: what was applied may be wrong */
	KVCURSOR_STATES
};

#endif
