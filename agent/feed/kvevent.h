/* kvevent.h - decode the KV cache events that vLLM, SGLang, TensorRT-LLM and LMCache publish.
 *
 * One payload is one batch of events, in MessagePack. Three encodings are in use: positional
 * arrays (vLLM up to 0.23, older SGLang), tagged maps in a positional batch (vLLM 0.24 and later,
 * newer SGLang, TensorRT-LLM), and maps throughout. The type of each value tells which one it is;
 * nothing is configured. Unknown events, keys and later positions are skipped.
 *
 * The decoder borrows from the payload and allocates nothing. kvevent_open() checks the form of
 * all of it once. An event then gives its hashes, tokens and extra keys as lists that the caller
 * reads as it goes, so no length on the wire sizes a buffer.
 *
 * Fields by version: vllm/distributed/kv_events.py and sglang/srt/disaggregation/kv_events.py. */
#ifndef KVROUTE_FEED_KVEVENT_H
#define KVROUTE_FEED_KVEVENT_H

#include "agent/feed/msgpack.h"

enum kvevent_kind {
	KVEVENT_STORED, KVEVENT_REMOVED,
	KVEVENT_CLEARED,	/* every block of this rank, in every tier */
	KVEVENT_UNKNOWN,	/* a tag of a newer engine: skip the event */
	KVEVENT_BAD		/* a field of the wrong type: skip the event */
};

/* Where a block is stored, from near to far. A medium that is not known counts as the farthest. */
enum kv_tier { TIER_DEVICE, TIER_HOST, TIER_DISK, TIER_REMOTE, TIERS };

/* Attention of the layers whose blocks an event names. Hybrid models publish for each group of
 * layers; only blocks of full attention hold the whole prefix. */
enum kv_attention { ATTENTION_UNSAID, ATTENTION_FULL, ATTENTION_OTHER };

/* Elements of one array, to be read one after the other. */
struct kv_list {
	struct msgpack at;
	uint32_t left;
};

struct kvevent {
	enum kvevent_kind kind;
	struct kv_list hashes;		/* STORED, REMOVED: kvevent_hash() */
	struct kv_list tokens;		/* STORED: kvevent_tokens() */
	struct kv_list extra;		/* STORED: kvevent_extra(); empty: no block has extra keys */
	bool has_parent;		/* false: the first block is the first of a prompt */
	uint64_t parent;		/* the hash before the first of <hashes> */
	uint32_t block_size;		/* tokens; 0: a placeholder, which has no tokens */
	enum kv_tier tier;
	bool remote;			/* shared storage, or a locality that is not known */
	bool reused;			/* announced again, not stored again */
	bool has_group;
	uint32_t group;			/* of layers, in a hybrid model */
	enum kv_attention attention;
	bool has_lora_id;
	int64_t lora_id;		/* deprecated; <lora_name> counts where both are there */
	struct span lora_name, salt;	/* empty: none */
};

struct kvevent_batch {
	double time;			/* seconds since 1970, by the engine's clock */
	bool has_rank;
	uint32_t rank;			/* of data parallelism; a rank is a cache of its own */
	struct span epoch;		/* of the publisher; empty: not said. Another one: it restarted */
	uint32_t n_events;
	/* private */
	struct kv_list events;
};

enum { KVEVENT_E_FORM = 1, KVEVENT_E_BATCH, KVEVENT_E_COUNT };

/* Start to read a payload. Returns 0, or -KVEVENT_E_FORM if it is not MessagePack, or
 * -KVEVENT_E_BATCH if it is no batch of events. O(bytes). */
int kvevent_open(struct kvevent_batch *b, struct span payload);
const char *kvevent_strerror(int error);

/* Read the next event. Returns false after the last one. */
bool kvevent_next(struct kvevent_batch *b, struct kvevent *e);

/* Tell if the tokens of a stored event are those of its blocks, all of them and no others. They are
 * not where the engine stores only some blocks of a window, or no tokens at all. */
static inline bool kvevent_dense(const struct kvevent *e)
{
	return e->block_size > 0 && e->hashes.left > 0 &&
	       e->tokens.left == (uint64_t)e->hashes.left * e->block_size;
}

/* Read the next hash: an integer as it is, bytes by their last eight, big endian, which is how
 * engines make the integer of the bytes. Returns false after the last one, or if it is neither. */
bool kvevent_hash(struct kv_list *l, uint64_t *hash);

/* Read <n> tokens; of pairs (EAGLE) the first of each. Returns false if fewer are left or one is
 * not a token. */
bool kvevent_tokens(struct kv_list *l, uint32_t *out, uint32_t n);

/* Extra keys of one block: what its hash covers besides tokens. */
struct kv_extra {
	struct span salt;	/* of the first block of a prompt; empty: none */
	bool other;		/* images, embeddings, or what is not known: no text matches this block */
};

/* Read the extra keys of the next block. <first>: it is the first block of a prompt, where a string
 * that is not <lora_name> is the salt; elsewhere such a string names an image. Returns false after
 * the last block. */
bool kvevent_extra(struct kv_list *l, struct span lora_name, bool first, struct kv_extra *out);

#endif
