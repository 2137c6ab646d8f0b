/* compare_page_in.h - GET /compare: the compared rules of each pool as a table for people. Programs
 * read /metrics. */
#ifndef KVROUTE_LOOP_COMPARE_PAGE_IN_H
#define KVROUTE_LOOP_COMPARE_PAGE_IN_H

#include "agent/loop/page_text_in.h"
#include "agent/route/route.h"

/* Write the page: for each pool at most two lines of heading and four of rules. */
void compare_page_write(struct route *r, struct buf *t);

#endif
