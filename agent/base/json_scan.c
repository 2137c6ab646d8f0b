/* The inner loops for three kinds of machine; all three stop at the same byte.
 *
 * Text is mostly ASCII with a few other characters, or mostly other characters (Chinese,
 * Japanese). ASCII is skipped in blocks of 8, 16 or 32 bytes. Bytes above 0x7f are validated as
 * UTF-8: by the plain form one character at a time, by SSE2 and AVX2 in blocks that compare each
 * byte with the three before it. A block with an error before its first quote or backslash is
 * walked again by character to find the place, so an error is slow and needs no bookkeeping.
 * Valid is what Unicode 15, table 3-7, allows: no overlong forms, no surrogates, nothing above
 * U+10FFFF.
 *
 * AVX2 finds errors by table (J. Keiser and D. Lemire, "Validating UTF-8 in less than one
 * instruction per byte", 2021). Three 16-entry tables, indexed by the nibbles of a byte and of
 * the one before it, give the errors that each nibble allows; an error that all three allow is
 * one. SSE2 has no byte shuffle and compares instead.
 *
 * Copying stores a whole block before testing it; later output overwrites the bytes after the
 * first hit. An escape therefore costs little more than a mispredicted branch. */
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/json_scan.h"
#include "agent/base/utf8.h"

static inline uint8_t at(const char *p)
{
	return (uint8_t)*p;
}

/* Return the byte after the character of two or more bytes at <p>, or <p> if it is bad or
 * truncated. */
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

/* Skip literal characters one by one until one starts at or after <upto>, or a quote, a
 * backslash or a bad character stops it. */
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

/* ---- escapes --------------------------------------------------------------------------------- */

static const char simple[256] = {
	['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n',
	['r'] = '\r', ['t'] = '\t',
};

/* Hexadecimal digits: value + 1, or 0 for any other byte. */
static const uint8_t hex[256] = {
	['0'] = 1, ['1'] = 2, ['2'] = 3, ['3'] = 4, ['4'] = 5, ['5'] = 6, ['6'] = 7, ['7'] = 8,
	['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
	['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

static inline int32_t hex4(const char *p)
{
	int a = hex[at(p)] - 1, b = hex[at(p + 1)] - 1, c = hex[at(p + 2)] - 1, d = hex[at(p + 3)] - 1;

	return (a | b | c | d) < 0 ? -1 : a << 12 | b << 8 | c << 4 | d;
}

/* Decode the escape at <p>, a backslash; write at most 5 bytes. Returns the byte after it, or
 * NULL if the slow way must decode it. */
static inline const char *escape(const char *p, const char *end, char **out, bool keep)
{
	int32_t v, low;
	char c;

	if (end - p < 12)
		return NULL;
	c = simple[at(p + 1)];
	if (c != 0) {
		if (keep && (c == '"' || c == '\\'))
			*(*out)++ = '\\';
		*(*out)++ = c;
		return p + 2;
	}
	if (p[1] != 'u' || (v = hex4(p + 2)) < 0)
		return NULL;
	if (v >= 0xd800 && v < 0xe000) {
		if (v >= 0xdc00 || p[6] != '\\' || p[7] != 'u')
			return NULL;
		low = hex4(p + 8);
		if (low < 0xdc00 || low >= 0xe000)
			return NULL;
		*out += utf8_put(*out, 0x10000u + ((uint32_t)(v - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
		return p + 12;
	}
	if (keep && (v == '"' || v == '\\'))
		*(*out)++ = '\\';
	*out += utf8_put(*out, (uint32_t)v);
	return p + 6;
}

/* Decode consecutive escapes, as in text that is all \uXXXX. Returns false to stop at <*p>. */
static __attribute__((noinline)) bool escapes(const char **p, const char *end, char **out,
					      const char *out_end, bool keep)
{
	const char *next;

	do {
		if (out_end - *out < JSON_COPY_ROOM)
			return false;
		next = escape(*p, end, out, keep);
		if (next == NULL)
			return false;
		*p = next;
	} while (end - *p >= 12 && **p == '\\');
	return true;
}

/* Return the character of a simple escape, such as a line break or a quote, without a call; 0 if
 * escapes() must decode it. */
static inline char escape_quick(const char *p, const char *end, bool keep)
{
	char c;

	if (end - p < 12 || *p != '\\')
		return 0;
	c = simple[at(p + 1)];
	return keep && (c == '"' || c == '\\') ? 0 : c;
}

/* ---- 8 bytes --------------------------------------------------------------------------------- */

static inline uint64_t zero_bytes(uint64_t w)	/* not 0 if any byte of ASCII <w> is 0 */
{
	return (w - 0x0101010101010101ull) & ~w & 0x8080808080808080ull;
}

static inline bool has_hit(uint64_t w)
{
	return ((w & 0x8080808080808080ull) | zero_bytes(w ^ 0x2222222222222222ull) |
		zero_bytes(w ^ 0x5c5c5c5c5c5c5c5cull)) != 0;
}

static const char *plain_plain(const char *p, const char *end)
{
	const char *from;
	uint64_t w;

	while (end - p >= 8) {
		memcpy(&w, p, 8);
		from = p;
		p = has_hit(w) ? walk(p, p + 8, end) : p + 8;
		if (p < from + 8)
			return p;
	}
	return walk(p, end, end);
}

static const char *copy_plain(const char *p, const char *end, char **out, char *out_end, bool keep)
{
	const char *next;
	char *o = *out;
	uint64_t w;

	while (end - p >= 8 && out_end - o >= JSON_COPY_ROOM) {
		memcpy(&w, p, 8);
		memcpy(o, p, 8);
		next = has_hit(w) ? walk(p, p + 8, end) : p + 8;
		if (next > p + 8)	/* a character crosses the end of the block */
			memcpy(o + 8, p + 8, (size_t)(next - p - 8));
		o += next - p;
		if (next >= p + 8) {
			p = next;
			continue;
		}
		p = next;
		if (*p != '\\' || !escapes(&p, end, &o, out_end, keep))
			break;
	}
	*out = o;
	return p;
}

const struct json_scan json_scan_plain = { "plain", plain_plain, copy_plain };

#if SIMD16
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Return the start of the character that <p> is inside of, or <p>. All text before <p> is valid. */
static inline const char *char_start(const char *p, const char *begin)
{
	int k;

	for (k = 1; k <= 3 && p - begin >= k; k++) {
		uint8_t c = at(p - k);

		if ((c & 0xc0) == 0x80)
			continue;
		return c >= 0xc0 && (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > k ? p - k : p;
	}
	return p;
}

/* ---- by the block ---------------------------------------------------------------------------- */

enum stop {
	AT_LIMIT,	/* no whole block is left, or no room */
	AT_HIT,		/* <*p> is at a quote or a backslash; all text before is valid */
	AT_ERROR,	/* a bad or truncated character in the block at <*p> or just before it */
	AT_ASCII	/* <*p> is at a block of plain ASCII; the character before it is complete */
};

/* Scan blocks from <*p> to <limit>, the last place where one may start; copy them to <*o> unless
 * NULL. */
typedef enum stop blocks_fn(const char **p, const char *limit, char **o);

#define INLINE	static inline __attribute__((always_inline))

INLINE const char *plain_by(blocks_fn *blocks, ptrdiff_t size, const char *p, const char *end)
{
	const char *begin = p;

	if (end - p >= size && blocks(&p, end - size, NULL) == AT_HIT)
		return p;
	return walk(char_start(p, begin), end, end);
}

/* The limit is computed once, because no escape is shorter than the text it decodes to. */
INLINE const char *copy_by(blocks_fn *blocks, ptrdiff_t size, const char *p, const char *end,
			   char **out, char *out_end, bool keep)
{
	ptrdiff_t left = end - p - size, room = out_end - *out - JSON_COPY_ROOM;
	const char *begin = p, *limit;
	char *o = *out, c;

	if (left < 0 || room < 0)
		return p;
	limit = p + (left < room ? left : room);
	while (p <= limit && blocks(&p, limit, &o) == AT_HIT) {
		c = escape_quick(p, end, keep);
		if (c != 0) {
			*o++ = c;
			p += 2;
		} else if (*p != '\\' || !escapes(&p, end, &o, out_end, keep)) {
			*out = o;
			return p;
		}
		begin = p;
	}
	limit = char_start(p, begin);
	*out = o - (p - limit);
	return limit;
}

/* ---- 16 bytes -------------------------------------------------------------------------------- */

#define ALL128(c)	_mm_set1_epi8((char)(c))
#define EQ128(a, c)	_mm_cmpeq_epi8(a, ALL128(c))

/* Return not 0 in each byte of <v> that is invalid after the bytes before it. <prev>: previous
 * block. */
static inline __m128i errors128(__m128i v, __m128i prev)
{
	__m128i p1 = _mm_or_si128(_mm_slli_si128(v, 1), _mm_srli_si128(prev, 15));
	__m128i p2 = _mm_or_si128(_mm_slli_si128(v, 2), _mm_srli_si128(prev, 14));
	__m128i p3 = _mm_or_si128(_mm_slli_si128(v, 3), _mm_srli_si128(prev, 13));
	__m128i tail = _mm_cmplt_epi8(v, ALL128(0xc0));		/* signed: 80 .. bf */
	__m128i no_tail, bad;

	/* a continuation byte must follow a lead byte at a distance of one, two or three */
	no_tail = _mm_or_si128(_mm_subs_epu8(p1, ALL128(0xbf)),
			       _mm_or_si128(_mm_subs_epu8(p2, ALL128(0xdf)),
					    _mm_subs_epu8(p3, ALL128(0xef))));
	no_tail = _mm_cmpeq_epi8(no_tail, _mm_setzero_si128());
	bad = _mm_cmpeq_epi8(no_tail, tail);
	/* invalid lead bytes, and second bytes that make it overlong, a surrogate or too large */
	bad = _mm_or_si128(bad, _mm_subs_epu8(v, ALL128(0xf4)));
	bad = _mm_or_si128(bad, EQ128(_mm_and_si128(v, ALL128(0xfe)), 0xc0));
	bad = _mm_or_si128(bad, _mm_and_si128(EQ128(p1, 0xe0), _mm_cmplt_epi8(v, ALL128(0xa0))));
	bad = _mm_or_si128(bad, _mm_and_si128(EQ128(p1, 0xed), _mm_cmpgt_epi8(v, ALL128(0x9f))));
	bad = _mm_or_si128(bad, _mm_and_si128(EQ128(p1, 0xf0), _mm_cmplt_epi8(v, ALL128(0x90))));
	return _mm_or_si128(bad, _mm_and_si128(EQ128(p1, 0xf4), _mm_cmpgt_epi8(v, ALL128(0x8f))));
}

static inline uint32_t hits128(__m128i v)
{
	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(EQ128(v, '"'), EQ128(v, '\\')));
}

/* Return not 0 if any byte is not literal ASCII. */
static inline uint32_t looks128(__m128i v)
{
	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(v, _mm_or_si128(EQ128(v, '"'), EQ128(v, '\\'))));
}

static inline bool high128(__m128i v)
{
	return _mm_movemask_epi8(v) != 0;
}

/* Return the errors up to and including the first hit. */
static inline uint32_t bad128(__m128i v, __m128i prev, uint32_t hits)
{
	uint32_t good = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(errors128(v, prev),
								   _mm_setzero_si128()));

	return ~good & 0xffff & (hits ^ (hits - 1));
}

/* Scan blocks while they are not all ASCII; <*at_p> is at the start of a character. Not inlined,
 * because its constants would take the registers that the loop over ASCII needs. */
static __attribute__((noinline)) enum stop wide128(const char **at_p, const char *limit,
						   char **at_o)
{
	const char *p = *at_p;
	char nowhere, *o = at_o != NULL ? *at_o : &nowhere;	/* NULL + 0 is undefined */
	const ptrdiff_t copy = at_o != NULL ? 16 : 0;
	__m128i v, prev = _mm_setzero_si128();
	enum stop stop = AT_LIMIT;
	uint32_t hits;

	for (; p <= limit; p += 16, o += copy) {
		v = _mm_loadu_si128((const __m128i *)p);
		if (at_o != NULL)
			_mm_storeu_si128((__m128i *)o, v);
		hits = hits128(v);
		if (bad128(v, prev, hits) != 0) {
			stop = AT_ERROR;
			break;
		}
		if (hits != 0) {
			p += __builtin_ctz(hits);
			o += copy != 0 ? __builtin_ctz(hits) : 0;
			stop = AT_HIT;
			break;
		}
		if (!high128(v)) {
			stop = AT_ASCII;
			break;
		}
		prev = v;
	}
	*at_p = p;
	if (at_o != NULL)
		*at_o = o;
	return stop;
}

INLINE enum stop blocks128(const char **at_p, const char *limit, char **at_o)
{
	enum stop stop = AT_ASCII;
	uint32_t hits;
	__m128i v;

	while (stop == AT_ASCII) {
		const char *p = *at_p;
		char *o = at_o != NULL ? *at_o : NULL;

		stop = AT_LIMIT;
		for (hits = 0; p <= limit; p += 16) {
			v = _mm_loadu_si128((const __m128i *)p);
			if (at_o != NULL) {
				_mm_storeu_si128((__m128i *)o, v);
				o += 16;
			}
			hits = looks128(v);
			if (hits != 0)
				break;
		}
		*at_p = p;
		if (at_o != NULL)
			*at_o = hits != 0 ? o - 16 : o;
		if (hits != 0 && high128(v)) {
			stop = wide128(at_p, limit, at_o);
		} else if (hits != 0) {
			*at_p += __builtin_ctz(hits);
			if (at_o != NULL)
				*at_o += __builtin_ctz(hits);
			stop = AT_HIT;
		}
	}
	return stop;
}

static const char *plain_16(const char *p, const char *end)
{
	return plain_by(blocks128, 16, p, end);
}

static const char *copy_16(const char *p, const char *end, char **out, char *out_end, bool keep)
{
	return copy_by(blocks128, 16, p, end, out, out_end, keep);
}

#ifdef __x86_64__
const struct json_scan json_scan_sse2 = { "sse2", plain_16, copy_16 };
#else
const struct json_scan json_scan_neon = { "neon", plain_16, copy_16 };
#endif
#endif

#ifdef __x86_64__

/* ---- 32 bytes -------------------------------------------------------------------------------- */

/* The kinds of error of two consecutive bytes. CONT2, two continuation bytes, is no error if a lead
 * byte of three or four bytes is two or three bytes before. */
enum {
	SHORT = 1, LONG = 2, OVER3 = 4, LARGE = 8, SURR = 16, OVER2 = 32, LARGE2 = 64, OVER4 = 64,
	CONT2 = 128, ANY = SHORT | LONG | CONT2
};

#define TWICE(...)	_mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
#define B(x)		((char)(x))
#define AVX2		__attribute__((target("avx2")))

AVX2 static inline __m256i errors256(__m256i v, __m256i prev)
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
	/* bit 7 where a third or fourth byte is required */
	third = _mm256_or_si256(_mm256_subs_epu8(p2, _mm256_set1_epi8(0xe0 - 0x80)),
				_mm256_subs_epu8(p3, _mm256_set1_epi8(0xf0 - 0x80)));
	third = _mm256_and_si256(third, _mm256_set1_epi8(B(0x80)));
	return _mm256_xor_si256(third, kind);
}

AVX2 static inline uint32_t hits256(__m256i v)
{
	return (uint32_t)_mm256_movemask_epi8(
		_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
				_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'))));
}

AVX2 static inline uint32_t looks256(__m256i v)
{
	return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(v,
		_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
				_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')))));
}

AVX2 static inline bool high256(__m256i v)
{
	return _mm256_movemask_epi8(v) != 0;
}

AVX2 static inline uint32_t bad256(__m256i v, __m256i prev, uint32_t hits)
{
	uint32_t good = (uint32_t)_mm256_movemask_epi8(
		_mm256_cmpeq_epi8(errors256(v, prev), _mm256_setzero_si256()));

	return ~good & (hits ^ (hits - 1));
}

/* As wide128(). */
AVX2 static __attribute__((noinline)) enum stop wide256(const char **at_p, const char *limit,
							char **at_o)
{
	const char *p = *at_p;
	char nowhere, *o = at_o != NULL ? *at_o : &nowhere;	/* NULL + 0 is undefined */
	const ptrdiff_t copy = at_o != NULL ? 32 : 0;
	__m256i v, prev = _mm256_setzero_si256();
	enum stop stop = AT_LIMIT;
	uint32_t hits;

	for (; p <= limit; p += 32, o += copy) {
		v = _mm256_loadu_si256((const __m256i *)p);
		if (at_o != NULL)
			_mm256_storeu_si256((__m256i *)o, v);
		hits = hits256(v);
		if (bad256(v, prev, hits) != 0) {
			stop = AT_ERROR;
			break;
		}
		if (hits != 0) {
			p += __builtin_ctz(hits);
			o += copy != 0 ? __builtin_ctz(hits) : 0;
			stop = AT_HIT;
			break;
		}
		if (!high256(v)) {
			stop = AT_ASCII;
			break;
		}
		prev = v;
	}
	*at_p = p;
	if (at_o != NULL)
		*at_o = o;
	return stop;
}

AVX2 INLINE enum stop blocks256(const char **at_p, const char *limit, char **at_o)
{
	enum stop stop = AT_ASCII;
	uint32_t hits;
	__m256i v;

	while (stop == AT_ASCII) {
		const char *p = *at_p;
		char *o = at_o != NULL ? *at_o : NULL;

		stop = AT_LIMIT;
		for (hits = 0; p <= limit; p += 32) {
			v = _mm256_loadu_si256((const __m256i *)p);
			if (at_o != NULL) {
				_mm256_storeu_si256((__m256i *)o, v);
				o += 32;
			}
			hits = looks256(v);
			if (hits != 0)
				break;
		}
		*at_p = p;
		if (at_o != NULL)
			*at_o = hits != 0 ? o - 32 : o;
		if (hits != 0 && high256(v)) {
			stop = wide256(at_p, limit, at_o);
		} else if (hits != 0) {
			*at_p += __builtin_ctz(hits);
			if (at_o != NULL)
				*at_o += __builtin_ctz(hits);
			stop = AT_HIT;
		}
	}
	return stop;
}

AVX2 static const char *plain_avx2(const char *p, const char *end)
{
	return plain_by(blocks256, 32, p, end);
}

AVX2 static const char *copy_avx2(const char *p, const char *end, char **out, char *out_end,
				  bool keep)
{
	return copy_by(blocks256, 32, p, end, out, out_end, keep);
}

const struct json_scan json_scan_avx2 = { "avx2", plain_avx2, copy_avx2 };

const struct json_scan *json_scan_best(void)
{
	return __builtin_cpu_supports("avx2") ? &json_scan_avx2 : &json_scan_sse2;
}

#else

const struct json_scan *json_scan_best(void)
{
#if SIMD16
	return &json_scan_neon;
#else
	return &json_scan_plain;
#endif
}

#endif
