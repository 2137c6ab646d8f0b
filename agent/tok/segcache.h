/* segcache.h - segments of text that were encoded before, with their ids: shared by all threads.
 *
 *   system prompt |  turn 1  |  answer 1  |  turn 2      each is a segment: between two added tokens, or a chunk of a long one
 *    hash -> ids    hash -> ids  hash -> ids  new        found wherever it stands, in whatever conversation
 *
 * What makes a segment the same: its bytes, its length, the tokenizer, the tenant, and whether it begins a text. All that goes
 * into a keyed hash of 128 bits, which is compared along with the length; the text is not kept. So a tenant never meets what
 * another one sent, and time tells nothing of others.
 *
 * Ids are content of prompts. They are kept XORed with a pad that is made of the segment's text (segcache_pad.h): who reads the
 * memory, the process's key too, can test whether a text that he guesses was asked, as with the hashes of pages, and no more.
 * An entry is wiped when it leaves, and all of them by segcache_clear() and segcache_free().
 *
 * The memory is taken at once, when the cache is made, and never grows. It is divided into shards, each with its lock, which
 * is held for the time of one copy. */
#ifndef KVROUTE_TOK_SEGCACHE_H
#define KVROUTE_TOK_SEGCACHE_H

#include "agent/base/hash.h"
#include "agent/tok/bpe/bpe.h"
#include "agent/tok/part.h"
#include "agent/tok/segcache_pad.h"

struct segcache;

#define SEGCACHE_LEAST	16384u		/* the smallest max_bytes */

struct segcache_opts {
	size_t max_bytes;		/* all of it, tables included */
	unsigned threads;		/* that will use it at a time: more shards for more of them */
};

/* <key> is copied. NULL: no memory, or max_bytes below SEGCACHE_LEAST. */
struct segcache *segcache_new(const struct segcache_opts *o, const struct hash_key *key);
void segcache_free(struct segcache *c);		/* wipes it; nobody may use it any more */
/* Forget all, shard by shard, and wipe it: 64 MiB take some 10 ms, in which each lock is held for the time of its shard. */
void segcache_clear(struct segcache *c);

/* Whose segments are looked for. */
struct segcache_scope {
	uint64_t tokenizer;		/* tok_fingerprint() */
	uint64_t tenant;		/* a hash of its name; 0: no tenants */
};

struct segcache_key {
	struct hash128 hash;
	size_t bytes;
	struct pad_seed seed;		/* as secret as the text */
	uint32_t pad[PAD_WORDS];	/* its first batch */
};

/* <part>: what the bytes begin, where that makes a difference, else PART_SEGMENT. About 120 ns and the time of XXH3 (50 GB/s with AVX2). */
struct segcache_key segcache_key(const struct segcache *c, struct segcache_scope scope, struct span text, enum part part);

/* 1: the ids are appended to <out>. 0: not here. -1: no memory. */
int segcache_get(struct segcache *c, const struct segcache_key *k, struct ids *out);

/* Keep <n> ids, copied. What is larger than a sixteenth of a shard is not kept; nothing is said of it but a count.
 * Others make room, the oldest first; what was found again since it came, or was spared, is spared once more. */
void segcache_put(struct segcache *c, const struct segcache_key *k, const token_id *ids, size_t n);

struct segcache_stats {
	uint64_t hits, misses, hit_ids;		/* lookups; ids that needed no encoding */
	uint64_t stored, evicted, spared;	/* entries: taken in, gone for others, found again and so left */
	uint64_t too_large;			/* refused for their size */
	size_t entries, used_bytes, max_bytes;	/* now */
	unsigned shards;
};
void segcache_stats(struct segcache *c, struct segcache_stats *out);

#endif
