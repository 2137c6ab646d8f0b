/* pages.c - the page keys of a node: compared with those of a prompt, and copied.
 *
 *   block:   |   0   |   1   |   2   |   3   |     Each DIGEST_PAGES pages from the start of the
 *   node:        [ . . . d(1) . d(2) . . ]         prompt are a block. A node has a digest of each
 *                                                  block that is whole on it.
 *
 * A match computes the same of the prompt, whose keys the scanner has just left in the nearest
 * caches, and compares the digests: 8 bytes in place of 512 that are in no cache. Keys are compared
 * before the first block, after the last one, and where the prompt leaves the node. A split or a
 * join moves no page to another block, so it computes one digest at most.
 *
 * Page keys are keyed hashes, and no client knows them, so the digest need not be keyed. Other keys
 * have the same digest with a chance of about 2^-64, as two pages have the same key. No snapshot
 * has digests, so they may depend on the CPU. */
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "agent/base/prefetch.h"
#include "agent/index/tree_in.h"

#ifdef __x86_64__
#define LANES	8u		/* keys of a lane: 2 of every 16 */

/* Each lane is mixed with its keys by rounds of AES, then lanes are mixed in pairs. Full hits of
 * the Mooncake trace took 1,063 ns with it and 1,298 with XXH3 (bench_index, two runs). */
__attribute__((target("aes")))
static uint64_t digest_aes(const page_key *p)
{
	const __m128i *k = (const __m128i *)(const void *)p;
	__m128i s[LANES];

#pragma GCC unroll 8
	for (unsigned i = 0; i < LANES; i++)
		s[i] = _mm_xor_si128(_mm_loadu_si128(k + i), _mm_set_epi64x(
		    (int64_t)(HASH_SEED_B * (i + 1)), (int64_t)(HASH_SEED_A * (i + 1))));
#pragma GCC unroll 3
	for (unsigned j = LANES; j < DIGEST_PAGES / 2; j += LANES) {
#pragma GCC unroll 8
		for (unsigned i = 0; i < LANES; i++)
			s[i] = _mm_aesenc_si128(s[i], _mm_loadu_si128(k + j + i));
	}
#pragma GCC unroll 3
	for (unsigned n = LANES / 2; n > 0; n /= 2) {
#pragma GCC unroll 4
		for (unsigned i = 0; i < n; i++)
			s[i] = _mm_aesenc_si128(s[i], s[i + n]);
	}
	s[0] = _mm_aesenc_si128(s[0], _mm_setzero_si128());
	s[0] = _mm_aesenc_si128(s[0], _mm_setzero_si128());
	return (uint64_t)_mm_cvtsi128_si64(s[0]);
}
#endif

/* With XXH3's own secret, which makes the place of each key count. */
static uint64_t digest_portable(const page_key *p)
{
	return XXH3_64bits(p, DIGEST_PAGES * sizeof(*p));
}

/* Return the digest of DIGEST_PAGES keys. */
static uint64_t digest(const page_key *p)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("aes"))
		return digest_aes(p);
#endif
	return digest_portable(p);
}

typedef uint64_t four_keys __attribute__((vector_size(32), aligned(8), may_alias));

/* Return whether 16 keys are the same: two or four vectors each. */
static inline __attribute__((always_inline)) bool same_16(const page_key *a, const page_key *b)
{
	const four_keys *x = (const four_keys *)(const void *)a, *y = (const four_keys *)(const void *)b;
	four_keys other = (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]);

	return (other[0] | other[1] | other[2] | other[3]) == 0;
}

/* Compare 16 keys at once; the last 16 overlap those before, so that equal runs need no loop over
 * single keys, which gcc 12 makes no vectors of at -O2. */
static inline __attribute__((always_inline)) uint32_t same_blocks(
    const page_key *a, const page_key *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i + 16 <= n; i += 16)
		if (!same_16(a + i, b + i))
			return i;
	return i < n && i > 0 && same_16(a + n - 16, b + n - 16) ? n : i;
}

#ifdef __x86_64__
__attribute__((target("avx2")))
static uint32_t same_avx2(const page_key *a, const page_key *b, uint32_t n)
{
	return same_blocks(a, b, n);
}
#endif

static uint32_t same_keys(const page_key *a, const page_key *b, uint32_t n)
{
	uint32_t i;

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		i = same_avx2(a, b, n);
	else
#endif
		i = same_blocks(a, b, n);
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

static const uint64_t *digest_at(const struct node *nd, uint32_t block)
{
	return node_digests(nd) + (block - first_block(nd->start));
}

/* Compare whole blocks from page <at> on, where one begins, up to page <end>. Returns the page from
 * which keys are to be compared. */
static uint32_t same_blocks_end(
    const struct node *nd, const struct page_run *run, uint32_t at, uint32_t end)
{
	while (at + DIGEST_PAGES <= end && digest(run->p + at) == *digest_at(nd, at / DIGEST_PAGES))
		at += DIGEST_PAGES;
	return at;
}

/* Return where the pages [<at>, <end>) differ. */
static uint32_t same_keys_end(
    const struct node *nd, const struct page_run *run, uint32_t at, uint32_t end)
{
	return at + same_keys(run->p + at, node_pages(nd) + (at - nd->start), end - at);
}

uint32_t node_same(const struct node *nd, const struct page_run *run, uint32_t from)
{
	uint32_t end = run->n < node_end(nd) ? run->n : node_end(nd), at = from, head;

	if (from >= end)
		return 0;
	head = first_block(from) * DIGEST_PAGES;
	if (nd->n_pages >= DIGEST_PAGES && head + DIGEST_PAGES <= end) {
		if ((at = same_keys_end(nd, run, from, head)) < head)
			return at - from;
		at = same_blocks_end(nd, run, at, end);
	}
	return same_keys_end(nd, run, at, end) - from;
}

/* The keys after the last block and the first digest, which follows them. */
void node_pages_ahead(const struct node *nd)
{
	uint32_t tail = node_end(nd) % DIGEST_PAGES, n = tail < nd->n_pages ? tail : nd->n_pages;
	const char *end = (const char *)(node_digests(nd) + 1);
	const char *p = (const char *)(node_digests(nd) - n);

	p -= (uintptr_t)p % MEM_LINE;
	prefetch_bytes(p, (size_t)(end - p));
}

static bool has_digest(const struct node *nd, uint32_t block)
{
	return block >= first_block(nd->start) && block < end_block(node_end(nd));
}

/* Return the digest of <block> of <to>, which <from> does not have. If it begins on <from>, <run>
 * need not have its first pages (index_commit_from()). Others are read in <run>, because the lines
 * of <to> are still on their way. */
static uint64_t new_digest(const struct node *to, const struct node *from,
    const struct page_run *run, uint32_t block)
{
	uint32_t at = block * DIGEST_PAGES;

	if (from != NULL && at < node_end(from))
		return digest(node_pages(to) + (at - to->start));
	return digest(run->p + at);
}

/* Take the digests that <from>, which may be NULL, has of <to>. Compute the others. */
static void fill_digests(struct node *to, const struct node *from, const struct page_run *run)
{
	uint32_t block = first_block(to->start), end = end_block(node_end(to));
	uint64_t *d = node_digests(to);

	for (; block < end; block++)
		*d++ = from != NULL && has_digest(from, block) ? *digest_at(from, block) :
								 new_digest(to, from, run, block);
}

void node_fill(struct node *to, const struct node *from, const struct page_run *run)
{
	uint32_t skip = to->start - from->start, have = from->n_pages - skip;

	have = have < to->n_pages ? have : to->n_pages;
	memcpy(node_pages(to), node_pages(from) + skip, have * sizeof(page_key));
	if (have < to->n_pages)
		memcpy(node_pages(to) + have, run->p + to->start + have,
		    (to->n_pages - have) * sizeof(page_key));
	fill_digests(to, from, run);
}

void node_fill_new(struct node *nd, const struct page_run *run)
{
	memcpy(node_pages(nd), run->p + nd->start, nd->n_pages * sizeof(page_key));
	fill_digests(nd, NULL, run);
}

/* Return the digest of the block that begins on <nd> and ends on <child>. */
static uint64_t digest_between(const struct node *nd, const struct node *child)
{
	uint32_t n = node_end(nd) % DIGEST_PAGES;
	page_key p[DIGEST_PAGES];

	memcpy(p, node_pages(nd) + nd->n_pages - n, n * sizeof(*p));
	memcpy(p + n, node_pages(child), (DIGEST_PAGES - n) * sizeof(*p));
	return digest(p);
}

void node_fill_joined(struct node *to, const struct node *nd, const struct node *child)
{
	uint32_t block = first_block(to->start), end = end_block(node_end(to));
	uint64_t *d = node_digests(to);

	memcpy(node_pages(to), node_pages(nd), nd->n_pages * sizeof(page_key));
	memcpy(node_pages(to) + nd->n_pages, node_pages(child), child->n_pages * sizeof(page_key));
	for (; block < end; block++)
		*d++ = has_digest(nd, block) ? *digest_at(nd, block) :
		    has_digest(child, block) ? *digest_at(child, block) : digest_between(nd, child);
}

bool node_digests_right(const struct node *nd)
{
	for (uint32_t b = first_block(nd->start); b < end_block(node_end(nd)); b++)
		if (*digest_at(nd, b) != digest(node_pages(nd) + (b * DIGEST_PAGES - nd->start)))
			return false;
	return true;
}
