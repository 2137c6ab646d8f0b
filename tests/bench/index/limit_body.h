/* limit_body.h - what the hash and what reading cost at best: compiled once for each instruction
 * set, by the files that name it. The caller defines LIMIT (the table) and LIMIT_ISA (its name). */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/bench/index/limits.h"

typedef uint64_t lanes __attribute__((vector_size(LIMIT_BYTES)));

/* All of it in runs of <piece> bytes, as an index must if it is to compare pieces. */
static uint64_t hash(const void *p, size_t n, size_t piece, const void *secret)
{
	const char *c = p;
	uint64_t sum = 0;
	size_t at;

	for (at = 0; at + piece <= n; at += piece)
		sum ^= XXH3_64bits_withSecret(c + at, piece, secret, LIMIT_SECRET);
	if (at < n)
		sum ^= XXH3_64bits_withSecret(c + at, n - at, secret, LIMIT_SECRET);
	return sum;
}

static inline lanes load(const char *p)
{
	lanes v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Four sums, so that no load waits for the one before. */
static uint64_t read_all(const void *p, size_t n)
{
	lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
	const char *c = p, *end = c + n;
	uint64_t sum = 0, w;
	size_t i;

	for (; c + 4 * sizeof(lanes) <= end; c += 4 * sizeof(lanes)) {
		s0 ^= load(c);
		s1 ^= load(c + sizeof(lanes));
		s2 ^= load(c + 2 * sizeof(lanes));
		s3 ^= load(c + 3 * sizeof(lanes));
	}
	for (; c + 8 <= end; c += 8) {
		memcpy(&w, c, 8);
		sum ^= w;
	}
	s0 ^= s1 ^ s2 ^ s3;
	for (i = 0; i < sizeof(lanes) / 8; i++)
		sum ^= s0[i];
	return sum;
}

const struct limit LIMIT = { LIMIT_ISA, hash, read_all };
