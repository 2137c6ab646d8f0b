/* logline.h - HAProxy's own log as facts: one JSON object a line (the recipes' log-format).
 *
 * The log line is the only signal that covers every request, whatever became of it. Fields, all
 * optional but uid: uid be srv want why err st ts tw tc tr ta out in rc sq bq token. Unknown ones are
 * skipped; a syslog header before the '{' is too, and so is all that stands behind the object's end
 * (recipes/keep-your-log.cfg): the client has a say in that. */
#ifndef KVROUTE_FEED_LOGLINE_H
#define KVROUTE_FEED_LOGLINE_H

#include "agent/feed/fact.h"

#define LOGLINE_MAX	8192	/* longer lines are dropped whole, and counted by the caller */

/* Scratch for one line: what strings decode into. */
struct logline {
	char text[LOGLINE_MAX];
	size_t n;
};

/* 0: <f> is the fact, borrowing from <l>; -1: no JSON in that line; LOGLINE_NAMELESS: JSON, and no uid. */
#define LOGLINE_NAMELESS	(-2)
int logline_parse(struct logline *l, const char *p, size_t n, struct fact *f);

#endif
