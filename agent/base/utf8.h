/* utf8.h - check and repair UTF-8, and fast steps over valid text.
 *
 * Text is checked or repaired once, when it enters the agent; later code relies on valid text.
 * Checking ASCII costs about as much as reading it. */
#ifndef KVROUTE_BASE_UTF8_H
#define KVROUTE_BASE_UTF8_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <endian.h>
#include <string.h>

#include "agent/base/err.h"
#include "agent/base/types.h"

/* Return the number of bytes from <p> that are valid UTF-8: <n> if all are. A truncated
 * character at the end does not count. */
size_t utf8_good(const uint8_t *p, size_t n);

/* Return the length of the maximal bad part at <p>, 1 to 3 bytes, which one U+FFFD replaces
 * (Unicode 15, 3.9). <p> is where utf8_good() stopped. */
size_t utf8_bad(const uint8_t *p, size_t n);

/* Copy <in> to <out> with U+FFFD for each maximal bad part. <out> has room for 3 * <n> bytes.
 * Returns the number of bytes written. */
size_t utf8_mend(const uint8_t *in, size_t n, uint8_t *out);

/* Return the length of a truncated character at the end of otherwise valid text: 0 to 3 bytes. */
size_t utf8_cut(const uint8_t *p, size_t n);

/* Check the text of the file <name> (may be NULL). Returns 0, or -1 and fills <e> (may be NULL)
 * with file, line, column in characters, and the remedy. */
int utf8_check(struct span text, const char *name, struct err *e);

/* Return the number of ASCII bytes before the first other byte, at most <n>. 16 bytes per step. */
static inline size_t utf8_ascii(const uint8_t *p, size_t n)
{
	size_t at = 0;

#ifdef __SSE2__
	for (; n - at >= 16; at += 16) {
		int high = _mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + at)));

		if (high != 0)
			return at + (size_t)__builtin_ctz((unsigned)high);
	}
#else
	for (; n - at >= 8; at += 8) {
		uint64_t word;

		memcpy(&word, p + at, sizeof(word));
		if ((word & 0x8080808080808080u) != 0)
			break;
	}
#endif
	while (at < n && p[at] < 0x80)
		at++;
	return at;
}

/* Return the three bytes at <p> as one number, first byte highest. For valid characters of three
 * bytes the number orders as the code point. Reads four bytes. */
static inline uint32_t utf8_three(const uint8_t *p)
{
	uint32_t word;

	memcpy(&word, p, sizeof(word));
	return be32toh(word) >> 8;
}

#endif
