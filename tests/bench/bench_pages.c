/* bench_pages.c - what hashing and comparing pages costs per instruction set, windows warm in L1
 * (16 KiB) and L2 (256 KiB, a prompt of 64 K tokens). All instruction sets take turns and the
 * fastest pass of each counts.
 *
 * Lines: bench pages isa=I window=BYTES op=O gb_s=X read_gb_s=R xxh3_gb_s=H with R what reading the
 * same bytes gives, and H what one XXH3 over the whole window gives in <isa>. GB are of the bytes
 * hashed; for same_keys, of both arrays, which together fill the window. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/index/pages.h"

#define PASSES		300
#define PASS_BYTES	(1u << 20)
#define WINDOW_MAX	(256u << 10)
#define CHUNK		2048u

static const char *const isas[] = { "generic", "sse2", "avx2", "avx512" };
static const char *const ops[] = {
	"read",
	"xxh3",
	"keys64",
	"same64",
	"keys128",
	"digests2k",
	"same_digests2k",
	"chunks64",
	"same_keys",
};
#define N_ISAS	(sizeof(isas) / sizeof(*isas))
#define N_OPS	(sizeof(ops) / sizeof(*ops))

static struct hash_key key;
static _Alignas(64) uint8_t buf[WINDOW_MAX];
static _Alignas(64) page_key keys[WINDOW_MAX / 64], keys_out[WINDOW_MAX / 64];
static uint64_t digests[WINDOW_MAX / CHUNK], digests_out[WINDOW_MAX / CHUNK];
static volatile uint64_t sink;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef uint64_t wide __attribute__((vector_size(32), aligned(32)));

#define READ_ALL(p, n)									\
	wide a = { 0 }, b = a, c = a, d = a;						\
	const wide *w = (const wide *)(const void *)(p);				\
	for (size_t i = 0; i < (n) / sizeof(wide); i += 4) {				\
		a ^= w[i];								\
		b ^= w[i + 1];								\
		c ^= w[i + 2];								\
		d ^= w[i + 3];								\
	}										\
	a ^= b ^ c ^ d;									\
	return a[0] ^ a[1] ^ a[2] ^ a[3]

static uint64_t read_plain(const uint8_t *p, size_t n)
{
	READ_ALL(p, n);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *p, size_t n)
{
	READ_ALL(p, n);
}
#endif

static uint64_t read_all(const uint8_t *p, size_t n)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return read_avx2(p, n);
#endif
	return read_plain(p, n);
}

static uint64_t once(const struct pages_ops *o, size_t op, size_t window)
{
	size_t half = window / 2 / sizeof(page_key);

	switch (op) {
	case 0: return read_all(buf, window);
	case 1: return o->digest(&key, buf, window);
	case 2: o->keys(&key, buf, 64, window / 64, keys_out); return keys_out[0];
	case 3: return o->same(&key, buf, 64, keys, window / 64);
	case 4: o->keys(&key, buf, 128, window / 128, keys_out); return keys_out[0];
	case 5: o->digests(&key, buf, CHUNK, window / CHUNK, digests_out); return digests_out[0];
	case 6: return o->same_digests(&key, buf, CHUNK, digests, window / CHUNK);
	case 7:
		o->chunks(&key, buf, 64, CHUNK / 64, window / CHUNK, keys_out, digests_out);
		return keys_out[0];
	default:
		return o->same_keys((const page_key *)(void *)buf,
		    (const page_key *)(void *)(buf + window / 2), half);
	}
}

static void one_window(size_t window)
{
	double best[N_ISAS][N_OPS];
	const struct pages_ops *o[N_ISAS];

	for (size_t i = 0; i < window; i += 8) {	/* for same_keys: both halves alike */
		uint64_t x = 0x9e3779b97f4a7c15ull * (i % (window / 2) + 1);

		memcpy(buf + i, &x, 8);
	}
	pages_ops_best()->chunks(&key, buf, 64, CHUNK / 64, window / CHUNK, keys, digests);
	for (size_t i = 0; i < N_ISAS; i++) {
		o[i] = pages_ops_named(isas[i]);
		for (size_t op = 0; op < N_OPS; op++)
			best[i][op] = 1e18;
	}
	for (unsigned pass = 0; pass < PASSES; pass++)
		for (size_t op = 0; op < N_OPS; op++)
			for (size_t i = 0; i < N_ISAS; i++) {
				double start, took;
				size_t rounds = PASS_BYTES / window;

				if (o[i] == NULL)
					continue;
				sink = once(o[i], op, window);
				start = now_ns();
				for (size_t r = 0; r < rounds; r++)
					sink = once(o[i], op, window);
				took = (now_ns() - start) / (double)rounds;
				if (took < best[i][op])
					best[i][op] = took;
			}
	for (size_t i = 0; i < N_ISAS; i++)
		for (size_t op = 2; o[i] != NULL && op < N_OPS; op++)
			printf("bench pages isa=%s window=%zu op=%s gb_s=%.1f read_gb_s=%.1f xxh3_gb_s=%.1f\n", isas[i],
			       window, ops[op], (double)window / best[i][op], (double)window / best[i][0],
			       (double)window / best[i][1]);
}

int main(void)
{
	struct rng r;

	rng_init(&r, 1);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&r) >> 40);
	one_window(16u << 10);
	one_window(WINDOW_MAX);
	return 0;
}
