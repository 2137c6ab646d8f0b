/* spoken.h - which protocol the first bytes of a connection are of, to name what came to the
 * wrong port. */
#ifndef KVROUTE_FEED_SPOKEN_H
#define KVROUTE_FEED_SPOKEN_H

#include "agent/base/types.h"

enum spoken {
	SPOKEN_UNKNOWN,
	SPOKEN_SPOP,	/* a HELLO of HAProxy's */
	SPOKEN_HTTP,	/* a request, of version 1 or the preface of 2 */
	SPOKEN_TLS,	/* a ClientHello */
	SPOKEN_PROXY,	/* the PROXY protocol, version 1 or 2 */
	SPOKEN_LOG	/* a syslog line, or a JSON object */
};

/* Looks at 17 bytes at most. */
enum spoken spoken_of(const void *bytes, size_t n);

#endif
