/* pages_isa.h - the functions of pages.h in the instruction set of the file that includes this one: the
 * compiler's flags choose what XXH_INLINE_ALL becomes. Included by pages_*.c alone, after
 *
 *	#define PAGES_OPS	the name of the table
 *	#define PAGES_ISA	what it calls itself
 *
 * A file that knows better how to hash pages of 64 bytes defines PAGES_LANES, how many at a time, and the
 * three functions lanes_init(), lanes_keys() and lanes_other(); see below for what they do. */
#include "agent/base/hash.h"
#include "agent/index/pages.h"

#define PAGE64		64u	/* bytes: 16 token ids */

#ifndef PAGES_LANES
#define PAGES_LANES	4

/* hash64() of 64 bytes, written out: eight words of the secret, four multiplications, one avalanche. The
 * library's own has a choice of lengths in the way, and reads the secret anew for each page. */
struct lanes {
	uint64_t s[8];
};

static inline uint64_t lanes_word(const uint8_t *p)
{
	return XXH_readLE64(p);
}

static inline uint64_t lanes_fold(uint64_t a, uint64_t b)
{
	return XXH3_mul128_fold64(a, b);
}

/* The key made ready. */
static inline void lanes_init(struct lanes *l, const struct hash_key *k)
{
	static const uint8_t at[4] = { 0, 32, 48, 16 };	/* of the secret, for each 16 bytes of a page */
	int i;

	for (i = 0; i < 4; i++) {
		l->s[2 * i] = lanes_word(k->secret + at[i]);
		l->s[2 * i + 1] = lanes_word(k->secret + at[i] + 8);
	}
}

static inline page_key lanes_one(const struct lanes *l, const uint8_t *p)
{
	uint64_t h = PAGE64 * XXH_PRIME64_1;

	h += lanes_fold(lanes_word(p) ^ l->s[0], lanes_word(p + 8) ^ l->s[1]);
	h += lanes_fold(lanes_word(p + 16) ^ l->s[2], lanes_word(p + 24) ^ l->s[3]);
	h += lanes_fold(lanes_word(p + 32) ^ l->s[4], lanes_word(p + 40) ^ l->s[5]);
	h += lanes_fold(lanes_word(p + 48) ^ l->s[6], lanes_word(p + 56) ^ l->s[7]);
	h ^= h >> 37;
	h *= 0x165667919E3779F9ull;
	return h ^ h >> 32;
}

/* The keys of PAGES_LANES pages. */
static inline void lanes_keys(const struct lanes *l, const uint8_t *p, page_key *out)
{
	page_key a = lanes_one(l, p), b = lanes_one(l, p + 64);
	page_key c = lanes_one(l, p + 128), d = lanes_one(l, p + 192);

	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = d;
}

/* One bit for each of PAGES_LANES pages that has another key. */
static inline unsigned lanes_other(const struct lanes *l, const uint8_t *p, const page_key *keys)
{
	page_key a = lanes_one(l, p), b = lanes_one(l, p + 64);
	page_key c = lanes_one(l, p + 128), d = lanes_one(l, p + 192);

	return (unsigned)(a != keys[0]) | (unsigned)(b != keys[1]) << 1 | (unsigned)(c != keys[2]) << 2 |
	       (unsigned)(d != keys[3]) << 3;
}
#endif

static page_key ops_key(const struct hash_key *k, const uint8_t *p, size_t page_bytes)
{
	return hash64(k, p, page_bytes);
}

static inline void keys64(const struct hash_key *k, const uint8_t *p, size_t n, page_key *out)
{
	struct lanes l;
	size_t i;

	lanes_init(&l, k);
	for (i = 0; i + PAGES_LANES <= n; i += PAGES_LANES)
		lanes_keys(&l, p + i * PAGE64, out + i);
	for (; i < n; i++)
		out[i] = hash64(k, p + i * PAGE64, PAGE64);
}

static void ops_keys(const struct hash_key *k, const uint8_t *p, size_t page_bytes, size_t n, page_key *out)
{
	size_t i;

	if (page_bytes == PAGE64) {
		keys64(k, p, n, out);
		return;
	}
	for (i = 0; i < n; i++)
		out[i] = hash64(k, p + i * page_bytes, page_bytes);
}

static size_t same64(const struct hash_key *k, const uint8_t *p, const page_key *keys, size_t n)
{
	struct lanes l;
	size_t i;

	lanes_init(&l, k);
	for (i = 0; i + PAGES_LANES <= n; i += PAGES_LANES) {
		unsigned other = lanes_other(&l, p + i * PAGE64, keys + i);

		if (other)
			return i + (size_t)__builtin_ctz(other);
	}
	while (i < n && hash64(k, p + i * PAGE64, PAGE64) == keys[i])
		i++;
	return i;
}

static size_t ops_same(const struct hash_key *k, const uint8_t *p, size_t page_bytes, const page_key *keys,
		       size_t n)
{
	size_t i = 0;

	if (page_bytes == PAGE64)
		return same64(k, p, keys, n);
	while (i < n && hash64(k, p + i * page_bytes, page_bytes) == keys[i])
		i++;
	return i;
}

static uint64_t ops_digest(const struct hash_key *k, const uint8_t *p, size_t n)
{
	return hash64(k, p, n);
}

static void ops_digests(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes, size_t n, uint64_t *out)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = ops_digest(k, p + i * chunk_bytes, chunk_bytes);
}

static size_t ops_same_digests(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes,
			       const uint64_t *digests, size_t n)
{
	size_t i = 0;

	while (i < n && ops_digest(k, p + i * chunk_bytes, chunk_bytes) == digests[i])
		i++;
	return i;
}

static void ops_chunks(const struct hash_key *k, const uint8_t *p, size_t page_bytes, size_t pages_per_chunk,
		       size_t n_chunks, page_key *keys, uint64_t *digests)
{
	size_t chunk_bytes = page_bytes * pages_per_chunk, i;

	for (i = 0; i < n_chunks; i++) {
		digests[i] = ops_digest(k, p + i * chunk_bytes, chunk_bytes);
		/* the chunk now is in L1, the nearest there is */
		ops_keys(k, p + i * chunk_bytes, page_bytes, pages_per_chunk, keys + i * pages_per_chunk);
	}
}

static size_t ops_same_keys(const page_key *a, const page_key *b, size_t n)
{
	size_t i, j;

	for (i = 0; i + 16 <= n; i += 16) {
		uint64_t other = 0;

		for (j = 0; j < 16; j++)	/* a fixed number without a way out: vectors */
			other |= a[i + j] ^ b[i + j];
		if (other)
			break;
	}
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

extern const struct pages_ops PAGES_OPS;
const struct pages_ops PAGES_OPS = {
	.isa = PAGES_ISA,
	.key = ops_key,
	.keys = ops_keys,
	.same = ops_same,
	.digest = ops_digest,
	.digests = ops_digests,
	.same_digests = ops_same_digests,
	.chunks = ops_chunks,
	.same_keys = ops_same_keys,
};
