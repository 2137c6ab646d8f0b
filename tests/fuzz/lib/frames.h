/* frames.h - changing a run of SPOP frames so that it stays one: a mutator.
 *
 * A frame is its length word and that many bytes; what is left at the end is one more. One frame is
 * changed by libFuzzer, copied, taken out, swapped, cut into fragments, or a known one is put in;
 * and its length is put right. One time in eight all bytes are changed blindly. */
#ifndef TESTS_FUZZ_FRAMES_H
#define TESTS_FUZZ_FRAMES_H

#include "tests/fuzz/lib/fuzz.h"

#define FRAMES_MOST	64

struct frames {
	uint8_t *p;
	size_t n, cap;
	struct { size_t at, n; } f[FRAMES_MOST];
	size_t n_frames;
};

static inline void frames_find(struct frames *x)
{
	size_t at = 0, n;

	for (x->n_frames = 0; at < x->n && x->n_frames < FRAMES_MOST; at += n) {
		n = x->n - at;
		if (n >= 4) {
			size_t len = (size_t)x->p[at] << 24 | (size_t)x->p[at + 1] << 16 |
				     (size_t)x->p[at + 2] << 8 | x->p[at + 3];

			if (len <= n - 4 && x->n_frames + 1 < FRAMES_MOST)
				n = len + 4;
		}
		x->f[x->n_frames].at = at;
		x->f[x->n_frames++].n = n;
	}
}

static inline void frames_length(uint8_t *p, size_t n)
{
	n -= 4;
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(n >> (24 - 8 * i));
}

/* Put <n> bytes in the place of the <old> bytes at <at>; false: no room. */
static inline bool frames_splice(
    struct frames *x, size_t at, size_t old, const uint8_t *p, size_t n)
{
	if (x->n - old + n > x->cap)
		return false;
	memmove(x->p + at + n, x->p + at + old, x->n - at - old);
	if (n)
		memcpy(x->p + at, p, n);
	x->n = x->n - old + n;
	return true;
}

static inline void frames_insert(struct frames *x, size_t at, struct rng *rng)
{
	static const struct { const char *p; size_t n; } known[] = {
#define K(s)	{ s, sizeof(s) - 1 }
		K("\0\0\0\x47\1\0\0\0\1\0\0\x12supported-versions\x08\x03" "2.0\x0emax-frame-size\3\xfc\xf0\6"
		  "\x0c" "capabilities\x08\x0apipelining"),
		K("\0\0\0\x12\3\0\0\0\1\1\1\5route\1\3uid\x08"), K("\0\0\0\x0e\3\0\0\0\0\2\1\5route\0"),
		K("\0\0\0\x0e\0\0\0\0\0\2\1\5route\0"), K("\0\0\0\x0e\0\0\0\0\1\2\1\5first\0"),
		K("\0\0\0\7\0\0\0\0\3\2\1"), K("\0\0\0\7\3\0\0\0\2\2\1"), K("\0\0\0\7\x65\0\0\0\1\0\0"),
		K("\0\0\0\x1e\2\0\0\0\1\0\0\x0bstatus-code\3\0\7message\x08\0"),
#undef K
	};
	size_t k = rng_below(rng, sizeof(known) / sizeof(known[0]));

	if (frames_splice(x, at, 0, (const uint8_t *)known[k].p, known[k].n))
		frames_length(x->p + at, known[k].n);
}

/* Split a NOTIFY in two: the first without FIN, then an UNSET of the same ids. Ids of one byte. */
static inline void frames_split(struct frames *x, size_t i, struct rng *rng)
{
	size_t at = x->f[i].at, n = x->f[i].n, cut;
	uint8_t head[11];

	if (n < 12 || x->p[at + 9] >= 240 || x->p[at + 10] >= 240)
		return;
	cut = 11 + rng_below(rng, (uint32_t)(n - 10));
	memcpy(head, x->p + at, 11);
	head[4] = 0;
	if (!frames_splice(x, at + cut, 0, head, 11))
		return;
	x->p[at + 8] &= 0xfe;
	frames_length(x->p + at, cut);
	frames_length(x->p + at + cut, n - cut + 11);
}

/* Apply libFuzzer's own changes within one frame, after its length word. */
static inline void frames_change(struct frames *x, size_t i)
{
	size_t at = x->f[i].at, n = x->f[i].n, room = x->cap - x->n + n, got;
	uint8_t *copy;

	if (n < 5)
		return;
	if (room > 2 * n + 64)
		room = 2 * n + 64;
	copy = (uint8_t *)must_alloc(malloc(room));
	memcpy(copy, x->p + at, n);
	got = LLVMFuzzerMutate(copy + 4, n - 4, room - 4) + 4;
	frames_length(copy, got);
	frames_splice(x, at, n, copy, got);
	free(copy);
}

static inline void frames_copy(struct frames *x, size_t i, size_t to)
{
	uint8_t *copy = (uint8_t *)exact(x->p + x->f[i].at, x->f[i].n);

	frames_splice(x, x->f[to].at, 0, copy, x->f[i].n);
	free(copy);
}

/* <data> begins with <head> bytes that are no frames. */
static inline size_t frames_mutate(
    uint8_t *data, size_t size, size_t max_size, unsigned seed, size_t head)
{
	struct frames x = { .p = data + head };
	struct rng rng;
	size_t i;

	rng_init(&rng, seed);
	if (size <= head || max_size <= head || rng_below(&rng, 8) == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	x.n = size - head;
	x.cap = max_size - head;
	frames_find(&x);
	i = rng_below(&rng, (uint32_t)x.n_frames);
	switch (rng_below(&rng, 10)) {
	case 0:
		data[rng_below(&rng, (uint32_t)head)] = (uint8_t)rng_next(&rng);
		break;
	case 1:
		frames_insert(&x, x.f[i].at, &rng);
		break;
	case 2:
		frames_copy(&x, i, rng_below(&rng, (uint32_t)x.n_frames));
		break;
	case 3:
		frames_splice(&x, x.f[i].at, x.f[i].n, NULL, 0);
		break;
	case 4:
		frames_split(&x, i, &rng);
		break;
	case 5:		/* ids and flags: small numbers, so that they meet */
		if (x.f[i].n > 10)
			x.p[x.f[i].at + 8 + rng_below(&rng, 3)] = (uint8_t)rng_below(&rng, 4);
		break;
	default:
		frames_change(&x, i);
	}
	return head + x.n;
}

#endif
