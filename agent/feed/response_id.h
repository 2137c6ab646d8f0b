/* response_id.h - the id of a response, from the first bytes of the answer that brings it. */
#ifndef KVROUTE_FEED_RESPONSE_ID_H
#define KVROUTE_FEED_RESPONSE_ID_H

#include "agent/base/types.h"

#define RESPONSE_ID_MAX	128u

/* Return "id" of the JSON object in <head>, or of its member "response". The object may be the data
 * of the first event of a stream, and be cut. The id borrows from <head>; empty: none was found, or
 * it has other characters than letters, digits and -_.: or is too long. O(bytes). */
struct span response_id(struct span head);

/* Return <id> if it is one, else an empty span. */
struct span response_id_checked(struct span id);

#endif
