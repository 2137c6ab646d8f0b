/* status_page_in.h - GET /status.json: the figures of the page at /.
 *
 * One object; kvroute(8), HTTP, lists its members. Members may be added; none changes its
 * meaning. Names of pools, servers, rules and siblings are in it, nothing of a request. */
#ifndef KVROUTE_LOOP_STATUS_PAGE_IN_H
#define KVROUTE_LOOP_STATUS_PAGE_IN_H

#include "agent/loop/agent_in.h"
#include "agent/loop/command.h"

/* Costs some 10 us, and a few for each server; the lock of the servers is held for a copy of each.
 * The caller checks t->failed. */
void status_page_write(const struct agent *a, int64_t wall_ms, struct buf *t);

/* Write the part of it that <what> names, as an object: info, servers, pools, index, problems,
 * share or events. */
void status_part_write(
    const struct agent *a, enum command_show what, int64_t wall_ms, struct buf *t);

#endif
