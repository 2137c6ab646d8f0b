/* canon.h - JSON values as text without white space, for hashing. Inside agent/prompt only.
 *
 * As compact JSON, with one difference: a string stands between two bytes CANON_QUOTE, which UTF-8
 * never contains, and has no escapes inside; so its text need not be looked at again. White space,
 * "\u0041" for "A" and "\/" for "/" make no difference; the order of keys and 1 for 1.0 do. Keys
 * count by their first JSON_KEY_MAX bytes. Keys that come twice stand there twice. */
#ifndef KVROUTE_PROMPT_CANON_H
#define KVROUTE_PROMPT_CANON_H

#include "agent/base/json.h"

#define CANON_QUOTE	'\xff'
#define CANON_ROOM	(JSON_KEY_MAX + 8)

struct canon {
	bool comma;		/* a value came before on this level */
};

/* The bytes that one event adds; they lie in <room> or in <text>. */
struct span canon_event(struct canon *c, enum json_event ev, struct span text, char *room);

#endif
