/* utf8.h - check, repair, decode and encode UTF-8, and fast steps over valid text.
 *
 * Text is checked or repaired once, when it enters the agent; later code relies on valid text.
 * Checking ASCII costs about as much as reading it. */
#ifndef KVROUTE_BASE_UTF8_H
#define KVROUTE_BASE_UTF8_H

#include <endian.h>
#include <string.h>

#include "agent/base/err.h"
#include "agent/base/simd16.h"
#include "agent/base/types.h"

#define UTF8_MAX		4	/* bytes of the longest character */
#define UTF8_REPLACEMENT	0xfffdu

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

/* Set line and column, in characters, of <e> to those of the byte at <at>. <e> may be NULL. */
void utf8_place(struct span text, size_t at, const char *name, struct err *e);

/* Decode the character at <p>; <n>, at least 1, bytes are left. Returns its length, 1 to 4. Text
 * that is not valid gives some number, but is not read beyond <n>. */
static inline size_t utf8_get(const void *text, size_t n, uint32_t *cp)
{
	const uint8_t *p = text;

	if (p[0] < 0x80 || n < 2)
		return *cp = p[0], 1;
	if (p[0] < 0xe0 || n < 3)
		return *cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu), 2;
	if (p[0] < 0xf0 || n < 4)
		return *cp = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 3;
	return *cp = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu), 4;
}

/* The same for any bytes: returns 0 if no valid character is at <p>. */
static inline size_t utf8_get_strict(const void *text, size_t n, uint32_t *cp)
{
	size_t len = utf8_get(text, n, cp);

	return utf8_good(text, len) == len ? len : 0;
}

/* The same for any bytes: a byte that starts no valid character is U+FFFD. */
static inline size_t utf8_get_lossy(const void *text, size_t n, uint32_t *cp)
{
	size_t len = utf8_get_strict(text, n, cp);

	if (len > 0)
		return len;
	*cp = UTF8_REPLACEMENT;
	return 1;
}

/* Encode <cp> to <to>, which has room for UTF8_MAX bytes. Returns the number of bytes. */
static inline size_t utf8_put(void *to, uint32_t cp)
{
	uint8_t *p = to;

	if (cp < 0x80)
		return p[0] = (uint8_t)cp, 1;
	if (cp < 0x800) {
		p[0] = (uint8_t)(0xc0 | cp >> 6);
		p[1] = (uint8_t)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		p[0] = (uint8_t)(0xe0 | cp >> 12);
		p[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
		p[2] = (uint8_t)(0x80 | (cp & 0x3f));
		return 3;
	}
	p[0] = (uint8_t)(0xf0 | cp >> 18);
	p[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
	p[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
	p[3] = (uint8_t)(0x80 | (cp & 0x3f));
	return 4;
}

/* Return the length of the character of valid text that starts with <first>. */
static inline size_t utf8_length(uint8_t first)
{
	return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Tell if <b> continues a character. */
static inline bool utf8_inside(uint8_t b)
{
	return (b & 0xc0) == 0x80;
}

/* Return the offset of the character that ends before p[at]; <at> is at least 1. Goes back at most
 * UTF8_MAX bytes, whatever they are. */
static inline size_t utf8_before(const void *text, size_t at)
{
	const uint8_t *p = text;
	size_t i = at - 1;

	while (i > 0 && at - i < UTF8_MAX && utf8_inside(p[i]))
		i--;
	return i;
}

/* Return the number of characters of valid text. */
static inline size_t utf8_count(const void *text, size_t n)
{
	const uint8_t *p = text;
	size_t chars = 0, i;

	for (i = 0; i < n; i++)
		chars += !utf8_inside(p[i]);
	return chars;
}

/* Return the number of ASCII bytes before the first other byte, at most <n>. 16 bytes per step. */
static inline size_t utf8_ascii(const uint8_t *p, size_t n)
{
	size_t at = 0;

#if SIMD16
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
