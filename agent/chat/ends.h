/* ends.h - where the messages of a body end in its bytes. */
#ifndef KVROUTE_CHAT_ENDS_H
#define KVROUTE_CHAT_ENDS_H

#include "agent/base/types.h"

#define ENDS_KEPT	4u	/* of the last messages */

struct ends {
	uint32_t n;			/* messages */
	uint64_t first;			/* bytes up to the end of the first one */
	uint64_t last[ENDS_KEPT];	/* of message i (from 0), at i % ENDS_KEPT */
};

/* Find the ends of all elements, objects or lists, of the list "messages" of <raw>, which is valid
 * JSON. Returns false if that name is there twice, or any name has an escape. */
bool ends_find(struct span raw, struct ends *e);

/* The same from byte <at> on, the end of the element e->n - 1. */
bool ends_go_on(struct span raw, uint64_t at, struct ends *e);

#endif
