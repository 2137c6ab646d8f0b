/* segcache.h - a cache of encoded segments of text and their ids, shared by all threads.
 *
 *   system prompt |  turn 1  |  answer 1  |  turn 2    each is a segment: the text between two
 *    hash -> ids    hash -> ids  hash -> ids  new      added tokens, or a chunk of a long one;
 *                                                      found in any place of any conversation
 *
 * A segment is identified by its bytes, its length, the tokenizer, the tenant, and whether it
 * begins a text. All of that goes into a keyed hash of 128 bits, which is compared along with the
 * length; the text is not stored. So a tenant never gets another tenant's entries, and timing tells
 * nothing about others.
 *
 * Ids are content of prompts. They are stored XORed with a pad derived from the segment's text
 * (segcache_pad.h). A reader of the memory and of the process's key can only test whether a guessed
 * text was sent, as with hashes of pages. An entry is wiped when it leaves; segcache_clear() and
 * segcache_free() wipe all.
 *
 * All memory is allocated at creation and never grows. It is divided into shards, each with a lock
 * that is held for the time of one copy. */
#ifndef KVROUTE_TOK_SEGCACHE_H
#define KVROUTE_TOK_SEGCACHE_H

#include "agent/base/hash.h"
#include "agent/tok/bpe/bpe.h"
#include "agent/tok/part.h"
#include "agent/tok/segcache_pad.h"

struct segcache;

#define SEGCACHE_LEAST	16384u		/* the smallest max_bytes */

struct segcache_opts {
	size_t max_bytes;		/* all memory, tables included */
	unsigned threads;		/* concurrent users: more shards for more threads */
};

/* Copies <key>. Returns NULL if there is no memory or max_bytes is below SEGCACHE_LEAST. */
struct segcache *segcache_new(const struct segcache_opts *o, const struct hash_key *key);
void segcache_free(struct segcache *c);		/* wipes it; no thread may use it any more */
/* Forget and wipe all, shard by shard. 64 MiB take about 10 ms; each lock is held for its shard's
 * part. */
void segcache_clear(struct segcache *c);

/* Whose segments are looked up. */
struct segcache_scope {
	uint64_t tokenizer;		/* tok_fingerprint() */
	uint64_t tenant;		/* a hash of its name; 0: no tenants */
};

struct segcache_key {
	struct hash128 hash;
	size_t bytes;
	struct pad_seed seed;		/* as secret as the text */
	uint32_t pad[PAD_WORDS];	/* the first batch */
};

/* Hash a segment. <part>: what it begins, or PART_SEGMENT if that makes no difference. About 120 ns
 * plus the time of XXH3 (50 GB/s with AVX2). */
struct segcache_key segcache_key(const struct segcache *c, struct segcache_scope scope,
    struct span text, enum part part);

/* Returns 1 if found: the ids are appended to <out>. Returns 0 if not found, -1 if there is no
 * memory. */
int segcache_get(struct segcache *c, const struct segcache_key *k, struct ids *out);

/* Store a copy of <n> ids. More than a sixteenth of a shard is not stored, only counted. The oldest
 * entries are evicted; one that was found since it came, or was spared, is spared once more. */
void segcache_put(struct segcache *c, const struct segcache_key *k, const token_id *ids, size_t n);

struct segcache_stats {
	uint64_t hits, misses, hit_ids;		/* lookups; ids that needed no encoding */
	/* entries: stored, evicted, spared because they were found again */
	uint64_t stored, evicted, spared;
	uint64_t too_large;			/* rejected for their size */
	size_t entries, used_bytes, max_bytes;	/* now */
	unsigned shards;
};
void segcache_stats(struct segcache *c, struct segcache_stats *out);

#endif
