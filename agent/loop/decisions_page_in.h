/* decisions_page_in.h - GET /decisions: the last decisions as JSON, newest first.
 *
 *      /decisions              the last 100
 *      ?n=500                  so many, DECISIONS_PAGE_MAX at most
 *      ?before=41              of those that are older than the one with that number
 *      ?uid=...                that one
 *      ?format=lines           what was asked for, one JSON object per line, oldest first: a trace
 *
 * kvroute(8), HTTP, says what each field means. The uid of a request that is open, so that facts still count for
 * it, is only shown to who asks for that uid.
 *
 * A page is written in steps, so that nothing else of its thread waits for a long one. */
#ifndef KVROUTE_LOOP_DECISIONS_PAGE_IN_H
#define KVROUTE_LOOP_DECISIONS_PAGE_IN_H

#include "agent/loop/text_in.h"
#include "agent/route/route.h"

#define DECISIONS_PAGE_MAX	4096u

/* Of one step: whichever comes first. A record takes some 4 us, and up to 10 KiB as a line. */
#define DECISIONS_STEP		32u
#define DECISIONS_STEP_BYTES	32768u

struct decisions_page;

/* Begin a page whose text goes to <t>, which must stay: 200 and <*p>, to be freed, and the <*type>;
 * or another HTTP status, with its text in <t>. Nothing of <query> is kept. <now> is the core's
 * time, <wall> the same moment in ms since 1970. */
int decisions_page_begin(struct decisions_page **p, struct route *r, struct span query, msec now, int64_t wall,
			 struct text *t, const char **type);

/* Write the next step: the HTTP status when the page is finished, 0 before. */
int decisions_page_step(struct decisions_page *p);

void decisions_page_free(struct decisions_page *p);

#endif
