/* compare_page_in.h - GET /compare: the compared rules of each pool as a table for people; programs
 * read /metrics. */
#ifndef KVROUTE_LOOP_COMPARE_PAGE_IN_H
#define KVROUTE_LOOP_COMPARE_PAGE_IN_H

#include "agent/loop/text_in.h"
#include "agent/route/route.h"

/* Write all of it: at most four lines a pool, and two before them. */
void compare_page_write(struct route *r, struct text *t);

#endif
