/* decisions_page.h - GET /decisions: the last decisions as JSON, newest first.
 *
 *      /decisions              the last 100
 *      ?n=500                  so many, DECISIONS_PAGE_MAX at most
 *      ?before=41              of those that are older than the one with that number
 *      ?uid=...                that one
 *      ?format=lines           what was asked for, an object a line, oldest first: a trace
 *
 * kvroute(8), HTTP, says what each field means. The uid of a request that is open, so that facts still count for
 * it, is only shown to who asks for that uid. */
#ifndef KVROUTE_LOOP_DECISIONS_PAGE_H
#define KVROUTE_LOOP_DECISIONS_PAGE_H

#include "agent/loop/text.h"
#include "agent/route/route.h"

#define DECISIONS_PAGE_MAX	4096u

/* Fill <t>; returns the HTTP status. <now> is the core's time, <wall> the same moment in ms since 1970. */
int decisions_page(struct route *r, struct span query, msec now, int64_t wall, struct text *t, const char **type);

#endif
