/* traffic.h - requests on their way to a file that a simulation replays (record.file): what was
 * asked, when, how long it was, who got it, and what became of it. No text, no token ids, and no
 * hash that leaves this process.
 *
 *      decide --traffic_ask()--> queue --traffic_take()--> traffic_text: numbers, lines --> file
 *      learn  --traffic_end()-->
 *
 * The queue has a fixed number of bytes, twice: threads that decide fill one half while the writer
 * empties the other. They hold its lock for one copy, at most TRAFFIC_BYTES_MAX; the writer only to
 * change halves. What does not fit is dropped and counted, so that no decision waits for a disk.
 * All functions of this header take NULL for "nothing is recorded" but traffic_take(), and may be
 * called from any thread. */
#ifndef KVROUTE_ROUTE_TRAFFIC_H
#define KVROUTE_ROUTE_TRAFFIC_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

#define TRAFFIC_BLOCKS_MAX	4096u	/* of one prompt; what is beyond is new to all who look */
#define TRAFFIC_BYTES_MAX	(sizeof(struct traffic_asked) + TRAFFIC_BLOCKS_MAX * sizeof(uint64_t))

/* One decision. Hashes are keyed with the agent's key, blocks once more with one of the process. 0:
 * there is none. */
struct traffic_asked {
	uint64_t uid;
	msec at;
	uint64_t pool, model, tenant, session, server;
	uint64_t tokens;		/* of the prompt, the unseen rest of a cut body with them */
	uint32_t cached;		/* of them expected in the server's cache */
	uint32_t block_tokens, n_blocks;
};

enum traffic_kind { TRAFFIC_FIRST, TRAFFIC_DONE };

/* One fact. */
struct traffic_ended {
	uint64_t uid;
	msec at;
	enum traffic_kind kind;
	bool stream;			/* FIRST: its first token; else the whole answer is ready */
	int32_t status;			/* -1: not known */
	uint32_t output_tokens;		/* DONE: answer.h */
};

struct traffic;

/* Halves of <half_bytes> each; blocks of about <block_tokens>. NULL: no memory. */
struct traffic *traffic_new(size_t half_bytes, uint32_t block_tokens, const struct hash_key *key, uint64_t seed);
void traffic_free(struct traffic *r);

/* False: nothing is recorded (any more), so there is nothing to prepare. */
bool traffic_wants(const struct traffic *r);
/* Nothing more comes in. What is in the queue can still be taken. */
void traffic_close(struct traffic *r);

/* Set the block hashes of a prompt of <n> pages of <page_tokens> each, as many as have all their
 * pages, each with <space> and all before it in its hash. Returns how many, at most
 * TRAFFIC_BLOCKS_MAX; <*block_tokens> is the size of one. O(n). Without a lock. */
uint32_t traffic_blocks(const struct traffic *r, uint64_t space, const page_key *pages, uint32_t n, uint32_t page_tokens,
		       uint64_t *out, uint32_t *block_tokens);

void traffic_ask(struct traffic *r, const struct traffic_asked *a, const uint64_t *blocks);
void traffic_end(struct traffic *r, const struct traffic_ended *e);

uint64_t traffic_dropped(const struct traffic *r);

/* For the one who writes: call back for all that came since the last call, in order. <blocks> is
 * valid for the call. */
struct traffic_sink {
	void *arg;
	void (*asked)(void *arg, const struct traffic_asked *a, const uint64_t *blocks);
	void (*ended)(void *arg, const struct traffic_ended *e);
};
void traffic_take(struct traffic *r, const struct traffic_sink *s);

#endif
