/* kvframe.h - the parts of a ZeroMQ message that carries KV cache events.
 *
 *   live      topic | sequence | payload      sequence: 8 bytes, big endian, from 0
 *             topic | payload                 old ROCm builds; payload alone, too
 *   replay    "" | sequence | payload         vLLM before 0.26, SGLang
 *             "" | topic | sequence | payload vLLM 0.26 and later
 *   its end   the sequence ff..ff with an empty payload
 *
 * Both forms of a replay are read from the end of the message, so no version is configured. */
#ifndef KVROUTE_FEED_KVFRAME_H
#define KVROUTE_FEED_KVFRAME_H

#include "agent/base/types.h"

#define KVFRAME_PARTS_MAX	4

struct kvframe {
	struct span topic, payload;
	bool has_sequence;
	uint64_t sequence;
	bool end;		/* of a replay */
};

/* Split a live message. Returns false if it has none of the forms above. */
bool kvframe_live(const struct span *parts, unsigned n, struct kvframe *f);

/* Split a message from the replay socket, as a DEALER receives it. Returns false as above. */
bool kvframe_replay(const struct span *parts, unsigned n, struct kvframe *f);

#endif
