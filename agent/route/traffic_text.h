/* traffic_text.h - recorded requests as lines of a trace: joined with what became of them, hashes
 * made into numbers.
 *
 *      {"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[1,2,3,9],"block_size":128, ...}
 *
 * A line is made when its request has ended, or when it has waited for TRAFFIC_AGE_MS, or when
 * there is no more room for those that wait; kvroutectl(8) has the fields. A block's number is the
 * place in the order in which blocks were first seen: it tells who started alike and nothing of
 * what. Blocks are kept in two tables of <blocks>/2; when one is full the older is forgotten, and a
 * forgotten block that comes again gets a new number, so that less reuse is seen than there was,
 * never more. Names of servers, pools, models, tenants and sessions are 32 bits of a hash under a
 * secret that traffic_text_secret() sets and that nobody writes. For one thread. */
#ifndef KVROUTE_ROUTE_TRAFFIC_TEXT_H
#define KVROUTE_ROUTE_TRAFFIC_TEXT_H

#include "agent/route/traffic.h"

#define TRAFFIC_LINE_MAX		(TRAFFIC_BLOCKS_MAX * 12 + 1024)
#define TRAFFIC_AGE_MS		(30 * 60 * 1000)

struct traffic_text_opts {
	uint32_t blocks;		/* that have a number; default 2^19, 2 x 6 MiB */
	uint32_t waiting;		/* requests whose end is to come; default 2^14 */
	size_t waiting_bytes;		/* of their blocks; default 8 MiB */
};

void traffic_text_defaults(struct traffic_text_opts *o);
uint64_t traffic_text_bytes(const struct traffic_text_opts *o);	/* what it may take at most */

struct traffic_text;

/* <put> is called with each line, whose newline it has. NULL: no memory. */
struct traffic_text *traffic_text_new(const struct traffic_text_opts *o,
				    void (*put)(void *arg, const char *line, size_t n), void *arg);
void traffic_text_free(struct traffic_text *t);

/* Under which names are hashed from now on. */
void traffic_text_secret(struct traffic_text *t, const struct hash_key *secret);

/* For struct traffic_sink, with <arg> the text. */
void traffic_text_asked(void *t, const struct traffic_asked *a, const uint64_t *blocks);
void traffic_text_ended(void *t, const struct traffic_ended *e);

/* Make lines of requests that are TRAFFIC_AGE_MS older than the newest; <all>: of all. */
void traffic_text_flush(struct traffic_text *t, bool all);

#endif
