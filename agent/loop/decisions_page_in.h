/* decisions_page_in.h - GET /decisions: the last decisions as JSON, newest first.
 *
 *      /decisions              the last 100
 *      ?n=500                  the last 500; at most DECISIONS_PAGE_MAX
 *      ?before=41              only decisions older than number 41
 *      ?uid=...                only the decision with this uid
 *      ?blocks=1               with the numbers of the blocks of each prompt, as in lines
 *      ?format=lines           one JSON object per line, oldest first: a trace
 *
 * kvroute(8), HTTP, describes each field. The uid is shown only if the query names it, or if log
 * lines need a token and the request is closed, because anyone who knows a uid can send facts for
 * it, and a few uids of HAProxy reveal the following ones. The model is shown only to who names the
 * uid.
 *
 * A page is written in steps, so that a long one does not delay the rest of its thread. */
#ifndef KVROUTE_LOOP_DECISIONS_PAGE_IN_H
#define KVROUTE_LOOP_DECISIONS_PAGE_IN_H

#include "agent/loop/page_text_in.h"
#include "agent/route/route.h"

#define DECISIONS_PAGE_MAX	4096u

/* Limits of one step; the first one reached ends it. A record takes about 4 us, and up to 10 KiB as
 * a line. */
#define DECISIONS_STEP		32u
#define DECISIONS_STEP_BYTES	32768u

struct decisions_page;

/* Begin a page whose text goes to <t>, which must stay valid. <query> is not kept. <now> is the
 * core's time, <wall> the same moment in milliseconds since 1970. Returns 200 with <*p>, which the
 * caller frees, and <*type>; or another HTTP status with its text in <t>.
 * <uids>: show the uids of closed requests. */
int decisions_page_begin(struct decisions_page **p, struct route *r, struct span query, bool uids,
    msec now, int64_t wall, struct buf *t, const char **type);

/* Write the next step. Returns 0 if the page goes on, or the HTTP status at its end. */
int decisions_page_step(struct decisions_page *p);

/* Append one decision as a JSON object, with its uid and its model: for who has named its uid, or
 * may command the agent. */
struct decision;
void decisions_page_one(
    struct route *r, const struct decision *x, msec now, int64_t wall, struct buf *t);

void decisions_page_free(struct decisions_page *p);

#endif
