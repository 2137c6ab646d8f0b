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
#include "agent/index/pages_vec.h"

#define ALWAYS		__attribute__((always_inline))
#define AVALANCHE	0x165667919E3779F9ull	/* the library has it as a number only */
#define AGAIN_FROM	5u	/* as many pages one by one cost more than eight lanes; four lanes never leave them */
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
	h *= AVALANCHE;
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

/* ---- digests ------------------------------------------------------------------------------------ */

#ifdef VEC_N
#define BLOCK_BYTES	1024u	/* what one secret of 192 bytes lasts for: 16 times 64 bytes, each 8 further on */
#define EACH_VEC(i)	_Pragma("GCC unroll 4") for (i = 0; i < VEC_N; i++)

/* The places of the secret, beside 0 to 15 for the steps of a block. */
#define AT_SCRAMBLE	16
#define AT_LAST		17

/* The key made ready. Where a vector is a whole line, the places do not lie on lines, and two of three loads
 * were for the secret; but there all of them fit into registers. */
struct blocks_key {
	const uint8_t *secret;
#if VEC_N == 1
	vec at[18];
#endif
};

/* What hash64() does with whole blocks, and faster: the library adds each word to the neighbour's sum, here
 * each goes to its own, and sums change places once a block. A block's sums start from nothing: they need not
 * wait for the block before. */
struct blocks {
	vec sum[VEC_N], products[VEC_N], words[VEC_N];
};

ALWAYS static inline vec blocks_secret(const struct blocks_key *bk, int at, int i)
{
#if VEC_N == 1
	return bk->at[at];
#else
	return vec_load(bk->secret + (at == AT_LAST ? 121 : 8 * at) + i * (int)sizeof(vec));
#endif
}

ALWAYS static inline void blocks_key_init(struct blocks_key *bk, const struct hash_key *k)
{
	bk->secret = k->secret;
#if VEC_N == 1
	_Pragma("GCC unroll 18") for (int i = 0; i < 18; i++)
		bk->at[i] = vec_load(k->secret + (i == AT_LAST ? 121 : 8 * i));
#endif
}

ALWAYS static inline void blocks_step(const struct blocks_key *bk, struct blocks *b, const uint8_t *p, int at)
{
	int i;

	EACH_VEC(i) {
		vec w = vec_load(p + i * sizeof(vec)), x = vec_xor(w, blocks_secret(bk, at, i));

		b->products[i] = vec_add(b->products[i], vec_mul(x, vec_right(x, 32)));
		b->words[i] = vec_add(b->words[i], w);
		vec_keep(&b->products[i]);
		vec_keep(&b->words[i]);
	}
}

/* One block; what <at> is for its last 64 bytes depends on whether it is the last. */
ALWAYS static inline void blocks_one(const struct blocks_key *bk, struct blocks *b, const uint8_t *p, int at)
{
	int i;

	EACH_VEC(i)
		b->products[i] = b->words[i] = vec_all(0);
	blocks_step(bk, b, p, 0);
	blocks_step(bk, b, p + 64, 1);
	blocks_step(bk, b, p + 128, 2);
	blocks_step(bk, b, p + 192, 3);
	blocks_step(bk, b, p + 256, 4);
	blocks_step(bk, b, p + 320, 5);
	blocks_step(bk, b, p + 384, 6);
	blocks_step(bk, b, p + 448, 7);
	blocks_step(bk, b, p + 512, 8);
	blocks_step(bk, b, p + 576, 9);
	blocks_step(bk, b, p + 640, 10);
	blocks_step(bk, b, p + 704, 11);
	blocks_step(bk, b, p + 768, 12);
	blocks_step(bk, b, p + 832, 13);
	blocks_step(bk, b, p + 896, 14);
	blocks_step(bk, b, p + 960, at);
	EACH_VEC(i)
		b->sum[i] = vec_add(b->sum[i], vec_add(b->products[i], vec_swap(b->words[i])));
}

ALWAYS static inline void blocks_scramble(const struct blocks_key *bk, struct blocks *b)
{
	vec prime = vec_all(XXH_PRIME32_1);
	int i;

	EACH_VEC(i) {
		vec x = vec_xor(b->sum[i], vec_right(b->sum[i], 47));

		x = vec_xor(x, blocks_secret(bk, AT_SCRAMBLE, i));
		b->sum[i] = vec_add(vec_mul(x, prime), vec_left(vec_mul(vec_right(x, 32), prime), 32));
	}
}

ALWAYS static inline uint64_t blocks_two(const uint64_t *s, const uint8_t *secret)
{
	return XXH3_mul128_fold64(s[0] ^ XXH_readLE64(secret), s[1] ^ XXH_readLE64(secret + 8));
}

/* hash64() of <n> bytes, one block or more of them. */
ALWAYS static inline uint64_t blocks_digest(const struct blocks_key *bk, const uint8_t *p, size_t n)
{
	static const uint64_t start[8] = {
		XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
		XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1,
	};
	uint64_t s[8], h = n * XXH_PRIME64_1;
	const uint8_t *secret = bk->secret;
	struct blocks b;
	int i;

	EACH_VEC(i)
		b.sum[i] = vec_load((const uint8_t *)start + i * sizeof(vec));
	for (; n > BLOCK_BYTES; n -= BLOCK_BYTES, p += BLOCK_BYTES) {
		blocks_one(bk, &b, p, 15);
		blocks_scramble(bk, &b);
	}
	blocks_one(bk, &b, p, AT_LAST);
	EACH_VEC(i)
		vec_store((uint8_t *)s + i * sizeof(vec), b.sum[i]);
	h += blocks_two(s, secret + 11) + blocks_two(s + 2, secret + 27);
	h += blocks_two(s + 4, secret + 43) + blocks_two(s + 6, secret + 59);
	h ^= h >> 37;
	h *= AVALANCHE;
	return h ^ h >> 32;
}

static bool in_blocks(size_t n)
{
	return n && n % BLOCK_BYTES == 0;
}
#else
struct blocks_key {
	const struct hash_key *k;
};

static void blocks_key_init(struct blocks_key *bk, const struct hash_key *k)
{
	bk->k = k;
}

static uint64_t blocks_digest(const struct blocks_key *bk, const uint8_t *p, size_t n)
{
	return hash64(bk->k, p, n);
}

static bool in_blocks(size_t n)
{
	return false;
}
#endif

static uint64_t ops_digest(const struct hash_key *k, const uint8_t *p, size_t n)
{
	struct blocks_key bk;

	if (!in_blocks(n))
		return hash64(k, p, n);
	blocks_key_init(&bk, k);
	return blocks_digest(&bk, p, n);
}

static void ops_digests(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes, size_t n, uint64_t *out)
{
	struct blocks_key bk;
	size_t i;

	if (!in_blocks(chunk_bytes)) {
		for (i = 0; i < n; i++)
			out[i] = hash64(k, p + i * chunk_bytes, chunk_bytes);
		return;
	}
	blocks_key_init(&bk, k);
	for (i = 0; i < n; i++)
		out[i] = blocks_digest(&bk, p + i * chunk_bytes, chunk_bytes);
}

static size_t ops_same_digests(const struct hash_key *k, const uint8_t *p, size_t chunk_bytes,
			       const uint64_t *digests, size_t n)
{
	struct blocks_key bk;
	size_t i = 0;

	if (!in_blocks(chunk_bytes)) {
		while (i < n && hash64(k, p + i * chunk_bytes, chunk_bytes) == digests[i])
			i++;
		return i;
	}
	blocks_key_init(&bk, k);
	while (i < n && blocks_digest(&bk, p + i * chunk_bytes, chunk_bytes) == digests[i])
		i++;
	return i;
}

/* ---- keys: of pages that are not of 64 bytes, the same as digests -------------------------------------- */

static inline void keys64(const struct hash_key *k, const uint8_t *p, size_t n, page_key *out)
{
	struct lanes l;
	size_t i;

	lanes_init(&l, k);
	for (i = 0; i + PAGES_LANES <= n; i += PAGES_LANES)
		lanes_keys(&l, p + i * PAGE64, out + i);
	if (n - i >= AGAIN_FROM && i) {		/* the lanes once more, some of it again */
		lanes_keys(&l, p + (n - PAGES_LANES) * PAGE64, out + n - PAGES_LANES);
		return;
	}
	for (; i < n; i++)
		out[i] = hash64(k, p + i * PAGE64, PAGE64);
}

static void ops_keys(const struct hash_key *k, const uint8_t *p, size_t page_bytes, size_t n, page_key *out)
{
	if (page_bytes == PAGE64)
		keys64(k, p, n, out);
	else
		ops_digests(k, p, page_bytes, n, out);
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
	if (n - i >= AGAIN_FROM && i) {		/* the lanes once more, some of it again */
		unsigned other = lanes_other(&l, p + (n - PAGES_LANES) * PAGE64, keys + n - PAGES_LANES);

		return other ? n - PAGES_LANES + (size_t)__builtin_ctz(other) : n;
	}
	while (i < n && hash64(k, p + i * PAGE64, PAGE64) == keys[i])
		i++;
	return i;
}

static size_t ops_same(const struct hash_key *k, const uint8_t *p, size_t page_bytes, const page_key *keys,
		       size_t n)
{
	return page_bytes == PAGE64 ? same64(k, p, keys, n) : ops_same_digests(k, p, page_bytes, keys, n);
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
	.key = ops_digest,
	.keys = ops_keys,
	.same = ops_same,
	.digest = ops_digest,
	.digests = ops_digests,
	.same_digests = ops_same_digests,
	.chunks = ops_chunks,
	.same_keys = ops_same_keys,
};
