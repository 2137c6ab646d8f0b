/* snapshot_page_in.h - the pages /snapshot and /snapshot/sessions, for siblings without store. */
#ifndef KVROUTE_LOOP_SNAPSHOT_PAGE_IN_H
#define KVROUTE_LOOP_SNAPSHOT_PAGE_IN_H

#include "agent/base/buf.h"
#include "agent/loop/sibling_in.h"

struct snapshot_page;

/* Begin the page of the index, or of the sessions, which will be written to <out>. Returns 200, or
 * the status of an error: 404 if it is not served, 403 if <query> does not prove that the key is
 * known, 503 if there is no memory. */
int snapshot_page_begin(struct snapshot_page **page, const struct sibling_reader *s,
    struct route *r, bool sessions, struct span query, msec now, struct buf *out);

/* Replace what is in the buffer by the next part. Returns 1, 0 at the end, or -1 on failure. */
int snapshot_page_step(struct snapshot_page *p);
void snapshot_page_free(struct snapshot_page *p);

#endif
