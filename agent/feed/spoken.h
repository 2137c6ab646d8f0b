/* spoken.h - recognise the protocol of a connection by its first bytes, so that a log message
 * can name traffic sent to the wrong port. */
#ifndef KVROUTE_FEED_SPOKEN_H
#define KVROUTE_FEED_SPOKEN_H

#include "agent/base/types.h"

enum spoken {
	SPOKEN_UNKNOWN,
	SPOKEN_SPOP,	/* HAProxy's HELLO frame */
	SPOKEN_HTTP,	/* a request of HTTP/1, or the preface of HTTP/2 */
	SPOKEN_TLS,	/* a ClientHello */
	SPOKEN_PROXY,	/* the PROXY protocol, version 1 or 2 */
	SPOKEN_LOG	/* a syslog line, or a JSON object */
};

/* Return the protocol of the <n> bytes. Reads at most 17. */
enum spoken spoken_of(const void *bytes, size_t n);

#endif
