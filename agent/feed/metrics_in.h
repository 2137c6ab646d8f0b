/* metrics_in.h - private to metrics.c and metrics_series.c: between bytes and their meaning. */
#ifndef KVROUTE_FEED_METRICS_IN_H
#define KVROUTE_FEED_METRICS_IN_H

#include "agent/feed/metrics.h"

/* Return the row of a metric, or -1 if it is unknown. */
int metrics_row_of(struct span name);

enum metrics_label metrics_label_of(struct span name);	/* LABEL_OTHER: unknown */

/* Start a series of m->row: no label is known. */
void metrics_series_start(struct metrics *m);

/* End it: its labels are known, and m->number is the text of its value. */
void metrics_series_end(struct metrics *m);

/* Fill <r> after the last line. Returns as metrics_end(). */
int metrics_report(struct metrics *m, struct engine_report *r);

#endif
