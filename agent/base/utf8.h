/* utf8.h - checks that text is valid UTF-8, repairs text, and helps loops over valid text to be quick.
 *
 * Text is checked or repaired once, where it enters; the code after that relies on valid text. ASCII costs what reading it costs. */
#ifndef KVROUTE_BASE_UTF8_H
#define KVROUTE_BASE_UTF8_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <endian.h>
#include <string.h>

#include "agent/base/err.h"
#include "agent/base/types.h"

/* How many bytes from <p> on are valid UTF-8; <n>: all. A character that is cut at the end is not. */
size_t utf8_good(const uint8_t *p, size_t n);

/* The bytes at <p>, where utf8_good() stopped, that become one U+FFFD: the maximal bad part (Unicode 15, 3.9), 1..3. */
size_t utf8_bad(const uint8_t *p, size_t n);

/* <in> with U+FFFD for each maximal bad part, into <out>, which has room for 3 * n bytes. Returns its bytes. */
size_t utf8_mend(const uint8_t *in, size_t n, uint8_t *out);

/* Up to three bytes at the end of valid text that are the beginning of a character not all there: how many. */
size_t utf8_cut(const uint8_t *p, size_t n);

/* Check the text of a file called <name> (may be NULL). Returns 0, or -1 and <e> (may be NULL): file, line, column in characters,
 * and the remedy. */
int utf8_check(struct span text, const char *name, struct err *e);

/* Of the <n> bytes at <p>: how many are ASCII before the first that is not. 16 at a step. */
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

/* The three bytes at <p> as one number, the first one highest: of characters of three bytes in valid text, the number grows with
 * the character. Reads four bytes. */
static inline uint32_t utf8_three(const uint8_t *p)
{
	uint32_t word;

	memcpy(&word, p, sizeof(word));
	return be32toh(word) >> 8;
}

#endif
