/* close_body.h - use a body that was cut: its whole members, and the whole messages of its
 * conversation. */
#ifndef KVROUTE_CHAT_CLOSE_BODY_H
#define KVROUTE_CHAT_CLOSE_BODY_H

#include "agent/base/buf.h"

struct cut {
	size_t n;		/* the first <n> bytes of the body, followed by */
	const char *close;	/* this text, are a JSON object */
	bool in_list;		/* the cut is within the list: later messages have not arrived */
};

/* Find where to end the cut body <raw>; <list> is the member that holds the conversation. Returns
 * false if nothing in it is whole or it is not JSON. O(n). */
bool cut_find(struct span raw, const char *list, struct cut *out);

/* Return the offset after the closing quote of the JSON string that starts at <at>; raw.n + 1 if
 * there is none. */
size_t chat_string_end(struct span raw, size_t at);

#endif
