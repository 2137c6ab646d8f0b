/* events.h - what `kvroutectl events` counts and prints of a stream of KV cache events. */
#ifndef KVROUTE_CTL_EVENTS_H
#define KVROUTE_CTL_EVENTS_H

#include <stdio.h>

#include "agent/feed/kvevent.h"
#include "agent/feed/kvframe.h"

#define EVENTS_LAGS	4096	/* the newest that the median is taken of */

struct events_tally {
	FILE *out;			/* a line for each event; NULL: only the sums */
	bool begun;
	uint64_t next;			/* sequence expected */
	uint64_t batches, events, stored, removed, cleared, unknown, bad, damaged;
	uint64_t lost, gaps, restarts;	/* batches lost; sequences that jumped, or began again */
	int64_t lag_ms[EVENTS_LAGS];
	uint64_t lags;
};

/* Count and print one live message. <now>: seconds since 1970. */
void events_message(struct events_tally *t, const struct kvframe *f, double now);

/* Count and print a message that is no frame of events: <n> parts. */
void events_foreign(struct events_tally *t, unsigned n);

void events_sums(struct events_tally *t, FILE *out);

#endif
