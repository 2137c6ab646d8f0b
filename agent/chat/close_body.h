/* close_body.h - a body that was cut, as far as it makes sense: its whole members, and of its conversation the whole messages. */
#ifndef KVROUTE_CHAT_CLOSE_BODY_H
#define KVROUTE_CHAT_CLOSE_BODY_H

#include "agent/base/buf.h"

struct cut {
	size_t n;		/* so many bytes of it, and behind them */
	const char *close;	/* this, are a JSON object */
	bool in_list;		/* the cut is within the list: messages behind those that are there were not seen */
};

/* Where the body <raw>, of which the end was not seen, is best ended; <list> is the member that holds the conversation. False: nothing of it is
 * whole, or it is no JSON. O(n). */
bool cut_find(struct span raw, const char *list, struct cut *out);

#endif
