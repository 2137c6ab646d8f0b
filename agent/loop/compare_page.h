/* compare_page.h - GET /compare: the compared rules of each pool as a table for people; programs
 * read /metrics. */
#ifndef KVROUTE_LOOP_COMPARE_PAGE_H
#define KVROUTE_LOOP_COMPARE_PAGE_H

#include "agent/loop/text.h"
#include "agent/route/route.h"

/* Write all of it: at most four lines a pool, and two before them. */
void compare_page_write(struct route *r, struct text *t);

#endif
