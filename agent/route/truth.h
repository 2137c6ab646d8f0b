/* truth.h - by which knowledge a server is expected to hold a part of a prompt.
 *
 *     tree     as requests taught: it publishes no events, they cannot be trusted now, or the
 *              tokens of the request are unknown
 *     events   as its engine reports
 *     sent     the same, and an open request with the same beginning was sent there, whose blocks
 *              are not reported yet
 *     both     the larger of tree and events, because the oldest events are missing,
 *              or the index of events had no room for all blocks */
#ifndef KVROUTE_ROUTE_TRUTH_H
#define KVROUTE_ROUTE_TRUTH_H

enum truth { TRUTH_TREE, TRUTH_EVENTS, TRUTH_SENT, TRUTH_BOTH, TRUTHS };

const char *truth_text(enum truth t);

#endif
