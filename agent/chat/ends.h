/* ends.h - where the messages of a body end in its bytes. */
#ifndef KVROUTE_CHAT_ENDS_H
#define KVROUTE_CHAT_ENDS_H

#include "agent/base/buf.h"

struct ends {
	struct span list;	/* of the caller: the name of the list, as "messages" */
	struct buf *all;	/* of the caller: a uint32_t for each end is appended */
	uint32_t n;		/* messages */
	uint64_t first;		/* bytes up to the end of the first one */
	struct span tools;	/* set by ends_find(): "tools", if its last value is a list */
};

/* Find the ends of all elements, objects or lists, of the list <e->list> of <raw>, which is valid
 * JSON. Returns false if that name is there twice, or any name has an escape. */
bool ends_find(struct span raw, struct ends *e);

/* The same from byte <at> on, the end of the element e->n - 1. */
bool ends_go_on(struct span raw, uint64_t at, struct ends *e);

#endif
