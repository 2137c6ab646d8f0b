/* traffic.h - requests on their way to a file that a simulation replays (record.file): when each
 * came, how long its prompt was, which server got it, and what became of it. No text, no token ids,
 * and no hash that leaves this process.
 *
 *      decide --traffic_ask()--> queue --traffic_take()--> traffic_text: numbers, lines --> file
 *      learn  --traffic_end()-->
 *
 * The queue is two halves of bytes of fixed size. Deciding threads fill one half while the writer
 * empties the other. They hold its lock for one copy, at most TRAFFIC_BYTES_MAX; the writer only to
 * exchange the halves. Items that do not fit are dropped and counted, so no decision waits for a
 * disk. All functions except traffic_take() take NULL, which means that nothing is recorded, and
 * may be called from any thread. */
#ifndef KVROUTE_ROUTE_TRAFFIC_H
#define KVROUTE_ROUTE_TRAFFIC_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

#define TRAFFIC_BLOCKS_MAX	4096u	/* of one prompt; a replay takes the rest for new */
#define TRAFFIC_BYTES_MAX	(sizeof(struct traffic_asked) + TRAFFIC_BLOCKS_MAX * sizeof(uint64_t))

/* One decision. Hashes are keyed with the agent's key, blocks once more with a key of the process;
 * 0: none. */
struct traffic_asked {
	uint64_t uid;
	msec at;
	uint64_t pool, model, tenant, session, server;
	uint64_t tokens;		/* of the prompt, with the unseen rest of a truncated body */
	uint32_t cached;		/* of these, expected in the server's cache */
	uint32_t block_tokens, n_blocks;
};

enum traffic_kind { TRAFFIC_FIRST, TRAFFIC_DONE };

/* One fact. */
struct traffic_ended {
	uint64_t uid;
	msec at;
	enum traffic_kind kind;
	bool stream;			/* FIRST: its first token; else the whole answer is ready */
	int32_t status;			/* -1: unknown */
	uint32_t output_tokens;		/* DONE: answer_in.h */
};

struct traffic;

/* Allocate a queue: halves of <half_bytes>, blocks of about <block_tokens>. Returns NULL if there
 * is no memory. */
struct traffic *traffic_new(
    size_t half_bytes, uint32_t block_tokens, const struct hash_key *key, uint64_t seed);
void traffic_free(struct traffic *r);

/* Tell if anything is recorded; otherwise nothing need be prepared. */
bool traffic_wants(const struct traffic *r);
/* Accept nothing more. Items in the queue can still be taken. */
void traffic_close(struct traffic *r);

/* Write the hashes of the whole blocks of a prompt of <n> pages of <page_tokens> each. Each depends
 * on <space> and all blocks before it. Returns how many, at most TRAFFIC_BLOCKS_MAX, and sets
 * <*block_tokens> to the size of one. O(n). Takes no lock. */
uint32_t traffic_blocks(const struct traffic *r, uint64_t space, const page_key *pages, uint32_t n,
    uint32_t page_tokens, uint64_t *out, uint32_t *block_tokens);

void traffic_ask(struct traffic *r, const struct traffic_asked *a, const uint64_t *blocks);
void traffic_end(struct traffic *r, const struct traffic_ended *e);

uint64_t traffic_dropped(const struct traffic *r);

/* For the writer: call back for all items since the last call, in order. <blocks> is valid during
 * the call. */
struct traffic_sink {
	void *arg;
	void (*asked)(void *arg, const struct traffic_asked *a, const uint64_t *blocks);
	void (*ended)(void *arg, const struct traffic_ended *e);
};
void traffic_take(struct traffic *r, const struct traffic_sink *s);

#endif
