/* How far does plain text go? Three times the same answer, for three kinds of machine.
 *
 * Text is ASCII with islands of something else, or nearly all something else (Chinese, Japanese).
 * ASCII is stepped over in blocks; a byte above 0x7f starts a look at UTF-8. The plain and SSE2
 * forms take that one character at a time, with one 4-byte load for the two and three byte forms.
 * SSE2 has no byte shuffle, so this is as good as it gets there, about 3 GB/s of Chinese.
 *
 * AVX2 checks whole blocks by table (J. Keiser and D. Lemire, "Validating UTF-8 in less than one
 * instruction per byte", 2021): three 16-entry tables, looked up by the nibbles of a byte and of the
 * one before it, give the errors that each could be part of; what is in all three is one. A block
 * with an error before its first quote or backslash is walked again by the character, which finds
 * the exact place; so errors may be slow and need no bookkeeping.
 *
 * Unicode 15, table 3-7, is what "good" means: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/json_scan.h"

static inline uint8_t at(const char *p)
{
	return (uint8_t)*p;
}

static inline bool is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/* Behind the good character of two or more bytes at <p>; <p> itself when it is bad or cut. */
static inline const char *skip_char(const char *p, const char *end)
{
	uint32_t w;
	uint8_t c = at(p);

	if (end - p >= 4) {
		memcpy(&w, p, 4);
		w = le32toh(w);
	} else {
		w = c;
		if (end - p >= 2)
			w |= (uint32_t)at(p + 1) << 8;
		if (end - p >= 3)
			w |= (uint32_t)at(p + 2) << 16;
	}
	if ((w & 0xc0c0f0) == 0x8080e0)		/* 1110xxxx 10xxxxxx 10xxxxxx */
		return (w & 0x200f) != 0 && (w & 0x200f) != 0x200d ? p + 3 : p;
	if ((w & 0xc0e0) == 0x80c0)		/* 110xxxxx 10xxxxxx */
		return (w & 0x1e) != 0 ? p + 2 : p;
	if ((w & 0xc0c0c0f8) == 0x808080f0)	/* 11110xxx and three more */
		return (w & 0x3007) != 0 && (c < 0xf4 || (c == 0xf4 && at(p + 1) < 0x90)) ? p + 4 : p;
	return p;
}

/* By the character, until something stops it or <upto> is passed. */
static inline const char *walk(const char *p, const char *upto, const char *end)
{
	const char *next;

	while (p < upto) {
		if (at(p) >= 0x80) {
			next = skip_char(p, end);
			if (next == p)
				return p;
			p = next;
		} else if (*p == '"' || *p == '\\') {
			return p;
		} else {
			p++;
		}
	}
	return p;
}

static inline uint64_t zero_bytes(uint64_t w)	/* not 0 if a byte of ASCII <w> is 0 */
{
	return (w - 0x0101010101010101ull) & ~w & 0x8080808080808080ull;
}

const char *json_scan_plain(const char *p, const char *end)
{
	uint64_t w;

	while (end - p >= 8) {
		const char *from = p;

		memcpy(&w, p, 8);
		if (((w & 0x8080808080808080ull) | zero_bytes(w ^ 0x2222222222222222ull) |
		     zero_bytes(w ^ 0x5c5c5c5c5c5c5c5cull)) == 0) {
			p += 8;
			continue;
		}
		p = walk(p, p + 8, end);
		if (p < from + 8)
			return p;
	}
	return walk(p, end, end);
}

#ifdef __x86_64__
#include <immintrin.h>

/* Like walk(), but only while it is not ASCII. */
static inline const char *walk_wide(const char *p, const char *end)
{
	const char *next;

	while (p < end && at(p) >= 0x80) {
		next = skip_char(p, end);
		if (next == p)
			return p;
		p = next;
	}
	return p;
}

const char *json_scan_sse2(const char *p, const char *end)
{
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
	const char *next;

	while (end - p >= 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)p);
		__m128i hit = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
		unsigned int m = (unsigned int)_mm_movemask_epi8(_mm_or_si128(hit, v));

		if (m == 0) {
			p += 16;
			continue;
		}
		p += __builtin_ctz(m);
		if (at(p) < 0x80)
			return p;
		next = walk_wide(p, end);
		if (next == p || (next < end && at(next) >= 0x80))
			return next;
		p = next;
	}
	return walk(p, end, end);
}

/* The kinds of error of two bytes in a row; CONT2 stands for two continuation bytes, which is no
 * error when a lead byte of three or four is two or three in front. */
enum {
	SHORT = 1, LONG = 2, OVER3 = 4, LARGE = 8, SURR = 16, OVER2 = 32, LARGE2 = 64, OVER4 = 64,
	CONT2 = 128, ANY = SHORT | LONG | CONT2
};

#define TWICE(...)	_mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
#define B(x)		((char)(x))

__attribute__((target("avx2")))
static inline __m256i utf8_errors(__m256i v, __m256i prev)
{
	const __m256i lead_hi = TWICE(B(LONG), B(LONG), B(LONG), B(LONG), B(LONG), B(LONG), B(LONG),
		B(LONG), B(CONT2), B(CONT2), B(CONT2), B(CONT2), B(SHORT | OVER2), B(SHORT),
		B(SHORT | OVER3 | SURR), B(SHORT | LARGE | LARGE2 | OVER4));
	const __m256i lead_lo = TWICE(B(ANY | OVER3 | OVER2 | OVER4), B(ANY | OVER2), B(ANY), B(ANY),
		B(ANY | LARGE), B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2),
		B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2),
		B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2),
		B(ANY | LARGE | LARGE2 | SURR), B(ANY | LARGE | LARGE2), B(ANY | LARGE | LARGE2));
	const __m256i next_hi = TWICE(B(SHORT), B(SHORT), B(SHORT), B(SHORT), B(SHORT), B(SHORT),
		B(SHORT), B(SHORT), B(LONG | OVER2 | CONT2 | OVER3 | LARGE2 | OVER4),
		B(LONG | OVER2 | CONT2 | OVER3 | LARGE), B(LONG | OVER2 | CONT2 | SURR | LARGE),
		B(LONG | OVER2 | CONT2 | SURR | LARGE), B(SHORT), B(SHORT), B(SHORT), B(SHORT));
	const __m256i nibble = _mm256_set1_epi8(15);
	__m256i join = _mm256_permute2x128_si256(prev, v, 0x21);
	__m256i p1 = _mm256_alignr_epi8(v, join, 15);
	__m256i p2 = _mm256_alignr_epi8(v, join, 14);
	__m256i p3 = _mm256_alignr_epi8(v, join, 13);
	__m256i kind, third;

	kind = _mm256_shuffle_epi8(lead_hi, _mm256_and_si256(_mm256_srli_epi16(p1, 4), nibble));
	kind = _mm256_and_si256(kind, _mm256_shuffle_epi8(lead_lo, _mm256_and_si256(p1, nibble)));
	kind = _mm256_and_si256(kind, _mm256_shuffle_epi8(next_hi,
				_mm256_and_si256(_mm256_srli_epi16(v, 4), nibble)));
	/* bit 7 where a third or fourth byte has to be */
	third = _mm256_or_si256(_mm256_subs_epu8(p2, _mm256_set1_epi8(0xe0 - 0x80)),
				_mm256_subs_epu8(p3, _mm256_set1_epi8(0xf0 - 0x80)));
	third = _mm256_and_si256(third, _mm256_set1_epi8(B(0x80)));
	return _mm256_xor_si256(third, kind);
}

/* The start of the character that <p> is in the middle of, or <p>; all before is good. */
static const char *char_start(const char *p, const char *begin)
{
	int k;

	for (k = 1; k <= 3 && p - begin >= k; k++) {
		uint8_t c = at(p - k);

		if (is_tail(c))
			continue;
		return c >= 0xc0 && (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > k ? p - k : p;
	}
	return p;
}

__attribute__((target("avx2")))
const char *json_scan_avx2(const char *p, const char *end)
{
	const __m256i quote = _mm256_set1_epi8('"'), slash = _mm256_set1_epi8('\\');
	const char *begin = p, *stop;
	__m256i prev = _mm256_setzero_si256();
	bool wide = false;	/* the block before was not all ASCII */

	for (; end - p >= 32; p += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)p);
		__m256i hit = _mm256_or_si256(_mm256_cmpeq_epi8(v, quote),
					      _mm256_cmpeq_epi8(v, slash));
		uint32_t m = (uint32_t)_mm256_movemask_epi8(hit);
		uint32_t high = (uint32_t)_mm256_movemask_epi8(v), bad;

		if (high == 0 && !wide) {
			if (m != 0)
				return p + __builtin_ctz(m);
			continue;
		}
		bad = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(utf8_errors(v, prev),
								   _mm256_setzero_si256()));
		if (m != 0)
			bad &= m ^ (m - 1);	/* up to and with the first hit */
		if (bad != 0) {
			stop = char_start(p, begin);
			return walk(stop, end, end);
		}
		if (m != 0)
			return p + __builtin_ctz(m);
		wide = high != 0;
		prev = v;
	}
	return walk(char_start(p, begin), end, end);
}

json_scan_fn *json_scan_best(void)
{
	return __builtin_cpu_supports("avx2") ? json_scan_avx2 : json_scan_sse2;
}

#else

json_scan_fn *json_scan_best(void)
{
	return json_scan_plain;
}

#endif
