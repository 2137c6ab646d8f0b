/* top_view.h - the screen of kvroutectl top, without the terminal.
 *
 *      kvroute 0.1.0  ready  up 3 h  12 connections          head
 *      1,234 requests  12/s  5 open  hits 53 %
 *      ! load_unset (pool chat): the argument load is empty  problems, each with its remedy
 *      chat  on  facts first  pressure 0.20 s                pools
 *      SERVER         OPEN  WAIT  HITS ...                   servers, sorted; columns that fit
 *      q quit  sort: n o w h p c f  r reverse                foot
 *
 * Pure: figures and a size in, bytes for a terminal out. No line is wider than the screen, and
 * there are never more lines than rows. */
#ifndef KVROUTE_CTL_TOP_VIEW_H
#define KVROUTE_CTL_TOP_VIEW_H

#include "agent/base/buf.h"
#include "agent/ctl/status.h"

struct top_view {
	int columns, rows;	/* <rows> 0: no limit, and no escape sequences */
	char sort;		/* key of a column */
	bool reverse;
	const char *trouble;	/* why <now> is old; NULL: it is not */
};

/* Return true if <key> changes what is shown: a column to sort by, or 'r'. */
bool top_view_key(struct top_view *v, char key);

/* Append the screen. <before>: earlier figures, for rates; NULL: none. */
void top_view_draw(const struct top_view *v, const struct status *now,
    const struct status *before, struct buf *out);

#endif
