/* pages.h - keys of pages and digests of chunks, as fast as this CPU can.
 *
 * A key is hash64() of one page, a digest is hash64() of one chunk (a run of pages): the same numbers
 * whatever the instruction set, so they may be kept, written down and compared with others'. What differs is
 * the time. The library's libxxhash.so knows SSE2 alone; here the hash is compiled once per instruction set.
 *
 * Input needs no alignment. <n> may be 0, and then nothing is read. */
#ifndef KVROUTE_INDEX_PAGES_H
#define KVROUTE_INDEX_PAGES_H

#include "agent/base/types.h"

struct hash_key;

#define PAGES_PER_CHUNK_MAX 32

struct pages_ops {
	const char *isa;	/* "sse2" "avx2" "avx512", or "generic" where there are none of them */

	/* The key of one page. */
	page_key (*key)(const struct hash_key *k, const uint8_t *p, size_t page_bytes);

	/* The keys of <n> pages in a row. Pages of 64 bytes go several at a time. */
	void (*keys)(const struct hash_key *k, const uint8_t *p, size_t page_bytes, size_t n, page_key *out);

	/* How many of the first <n> pages have these keys: up to the first that has another. */
	size_t (*same)(const struct hash_key *k, const uint8_t *p, size_t page_bytes, const page_key *keys,
		       size_t n);

	/* The digest of one chunk of <n> bytes, any number; 2048 is what it is made for. */
	uint64_t (*digest)(const struct hash_key *k, const uint8_t *p, size_t n);

	/* The digests of <n> chunks in a row. */
	void (*digests)(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes, size_t n, uint64_t *out);

	/* How many of the first <n> chunks have these digests. */
	size_t (*same_digests)(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes,
			       const uint64_t *digests, size_t n);

	/* The keys and the digests of whole chunks; each byte comes from memory once. <keys> has room for
	 * pages_per_chunk * n_chunks, <digests> for n_chunks. */
	void (*chunks)(const struct hash_key *k, const uint8_t *p, size_t page_bytes, size_t pages_per_chunk,
		       size_t n_chunks, page_key *keys, uint64_t *digests);

	/* How many of the first <n> keys are the same in both. */
	size_t (*same_keys)(const page_key *a, const page_key *b, size_t n);
};

/* The fastest that this CPU has. Asks the CPU: call it once and keep the answer, which is constant. */
const struct pages_ops *pages_ops_best(void);

/* One of them, for tests and benches; NULL when this CPU or this build lacks it. */
const struct pages_ops *pages_ops_named(const char *isa);

#endif
