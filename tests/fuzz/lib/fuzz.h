/* fuzz.h - shared by the fuzz targets: a check, an input that is read from the front, pieces.
 *
 * A target is one .c with LLVMFuzzerTestOneInput(). With clang it becomes a libFuzzer program; with
 * any compiler and lib/replay.c a program that runs over the files it is given. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/base/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);	/* libFuzzer's own */

/* Check an invariant; if it fails, the input is a find. */
#define must(cond)	((cond) ? (void)0 : must_not(__FILE__, __LINE__, #cond))

static inline void must_not(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

static inline void *must_alloc(void *p)
{
	must(p != NULL);
	return p;
}

/* ---- the input --------------------------------------------------------------------------- */

struct input {
	const uint8_t *p;
	size_t left;
};

/* 0 when there is no more. */
static inline uint8_t in_u8(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static inline uint32_t in_u16(struct input *in)
{
	uint32_t high = in_u8(in);

	return high << 8 | in_u8(in);
}

/* Up to <n> bytes, fewer at the end. */
static inline struct span in_bytes(struct input *in, size_t n)
{
	struct span s;

	if (n > in->left)
		n = in->left;
	s = span_of(in->p, n);
	in->p += n;
	in->left -= n;
	return s;
}

/* ---- copies and pieces -------------------------------------------------------------------- */

/* Return a copy without bytes after it, so that a sanitizer detects an overrun; free() it. */
static inline char *exact(const void *p, size_t n)
{
	char *copy = must_alloc(malloc(n ? n : 1));

	if (n)
		memcpy(copy, p, n);
	return copy;
}

/* How a run of bytes is cut: by a number from the input. */
struct cutter {
	struct rng rng;
	uint32_t most;
};

static inline void cutter_init(struct cutter *c, uint32_t seed)
{
	static const uint32_t most[] = { 1, 2, 5, 17, 64, 200, 1000, 5000 };

	rng_init(&c->rng, seed);
	c->most = most[seed % 8];
}

/* The length of the next piece of the <n> > 0 bytes that are left. */
static inline size_t cutter_next(struct cutter *c, size_t n)
{
	size_t k = 1 + rng_below(&c->rng, c->most);

	return k < n ? k : n;
}

/* ---- text --------------------------------------------------------------------------------- */

/* Growing bytes, to compare the output of two runs; free(p). */
struct trace {
	char *p;
	size_t n, cap;
};

static inline void trace_bytes(struct trace *t, const void *p, size_t n)
{
	if (t->n + n + 1 > t->cap) {
		t->cap = 2 * (t->n + n + 1);
		t->p = must_alloc(realloc(t->p, t->cap));
	}
	if (n)
		memcpy(t->p + t->n, p, n);
	t->n += n;
	t->p[t->n] = '\0';
}

__attribute__((format(printf, 2, 3)))
static inline void trace_say(struct trace *t, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	must(n >= 0);
	trace_bytes(t, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static inline bool trace_eq(const struct trace *a, const struct trace *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
}

/* Within <all>, or empty. */
static inline bool span_within(struct span s, const void *all, size_t n)
{
	const char *p = all;

	return s.n == 0 || (s.p >= p && s.n <= n && (size_t)(s.p - p) <= n - s.n);
}

static inline const struct hash_key *fuzz_key(void)
{
	static struct hash_key key;
	static bool made;
	struct rng rng;

	rng_init(&rng, 7);
	for (size_t i = 0; !made && i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	made = true;
	return &key;
}

#endif
