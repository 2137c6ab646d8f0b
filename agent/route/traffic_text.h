/* traffic_text.h - recorded requests as lines of a trace: joined with what became of them, and with
 * numbers in place of hashes.
 *
 *   {"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[1,2,3,9], ...}
 *
 * A line is made when its request has ended, when it has waited for TRAFFIC_AGE_MS, or when there
 * is no more room for waiting requests; kvroutectl(8) lists the fields. A block's number is its
 * place in the order in which blocks were first seen: it says which prompts began alike and nothing
 * of their content. Blocks are in two tables of <blocks>/2. When one is full the older table is
 * dropped. A dropped block that comes again gets a new number, so a trace may show less reuse than
 * there was, never more. Names of servers, pools, models, tenants and sessions become 32 bits of a
 * hash under a secret that is never written (traffic_text_secret()). For one thread. */
#ifndef KVROUTE_ROUTE_TRAFFIC_TEXT_H
#define KVROUTE_ROUTE_TRAFFIC_TEXT_H

#include "agent/route/traffic.h"

#define TRAFFIC_LINE_MAX		(TRAFFIC_BLOCKS_MAX * 12 + 1024)
#define TRAFFIC_AGE_MS		(30 * 60 * 1000)

struct traffic_text_opts {
	uint32_t blocks;		/* with a number; default 2^19, 2 x 6 MiB */
	uint32_t waiting;		/* requests whose end is to come; default 2^14 */
	size_t waiting_bytes;		/* of their blocks; default 8 MiB */
};

void traffic_text_defaults(struct traffic_text_opts *o);
uint64_t traffic_text_bytes(const struct traffic_text_opts *o);	/* what it may take at most */

struct traffic_text;

/* <put> is called with each line, newline included. Returns NULL if there is no memory. */
struct traffic_text *traffic_text_new(const struct traffic_text_opts *o,
				    void (*put)(void *arg, const char *line, size_t n), void *arg);
void traffic_text_free(struct traffic_text *t);

/* Set the secret that names are hashed with from now on. */
void traffic_text_secret(struct traffic_text *t, const struct hash_key *secret);

/* Functions for struct traffic_sink; its <arg> is the struct traffic_text. */
void traffic_text_asked(void *t, const struct traffic_asked *a, const uint64_t *blocks);
void traffic_text_ended(void *t, const struct traffic_ended *e);

/* Make lines of requests that are TRAFFIC_AGE_MS older than the newest, or of all if <all>. */
void traffic_text_flush(struct traffic_text *t, bool all);

#endif
