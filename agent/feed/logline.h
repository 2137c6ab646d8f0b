/* logline.h - decode HAProxy's log into facts: one JSON object per line (the recipes' log-format).
 *
 * The log line is the only signal that covers every request, however it ended. Fields, all optional
 * except uid: uid be srv want why err st ts tw tc tr ta out in rc sq bq ptok gtok token. Unknown
 * fields are skipped, and so are a syslog header before the '{' and everything after the end of the
 * object (recipes/keep-your-log.cfg), because a client can influence that text. */
#ifndef KVROUTE_FEED_LOGLINE_H
#define KVROUTE_FEED_LOGLINE_H

#include "agent/feed/fact.h"

#define LOGLINE_MAX	8192	/* the caller drops and counts longer lines */

/* Scratch memory for the decoded strings of one line. */
struct logline {
	char text[LOGLINE_MAX];
	size_t n;
};

/* Decode one line into <f>, which borrows from <l>. Returns 0, -1 if the line has no JSON
 * object, or LOGLINE_NAMELESS if the object has no uid. */
#define LOGLINE_NAMELESS	(-2)
int logline_parse(struct logline *l, const char *p, size_t n, struct fact *f);

#endif
