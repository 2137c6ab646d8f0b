/* decision_rows_in.h - "show decisions" as text: what a terminal has room for; all is in JSON. */
#ifndef KVROUTE_LOOP_DECISION_ROWS_IN_H
#define KVROUTE_LOOP_DECISION_ROWS_IN_H

#include "agent/base/buf.h"
#include "agent/route/route.h"

/* Append the last <n> decisions, newest first, as JSON with short names. <r> keeps decisions.
 * <now>: the core's time; <wall>: the same moment in milliseconds since 1970. */
void decision_rows_write(struct route *r, uint64_t n, msec now, int64_t wall, struct buf *t);

#endif
