/* split_scan.h - shared by the hand-written scanners (split_cl100k.c, split_o200k.c, ...).
 *
 * A scanner is a regular expression taken apart by hand: an alternation that is tried at the end of
 * the last piece and matches something everywhere, so pieces are adjacent. Its only state is its
 * place. Each step looks up the class of the next character. Runs of ASCII letters, most of all
 * text, are found 16 bytes at a time.
 *
 * "More": the end of the bytes was met, a later byte could still change the piece, and more bytes
 * may follow. A function then returns NULL, and the scan stops before this piece. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_SCAN_H
#define KVROUTE_TOK_SPLIT_SPLIT_SCAN_H

#include "agent/base/simd16.h"
#include "agent/tok/split/split.h"
#include "agent/tok/split/split_block.h"
#include "agent/tok/unicode/unicode.h"

/* Return the pieces of <n> bytes of whole characters at <p>: fills out->end, ->n and ->used. */
typedef void split_scan_fn(const uint8_t *p, size_t n, bool last, struct pieces *out);

/* split_cl100k.c */
split_scan_fn split_scan_l3, split_scan_q2, split_scan_q35, split_scan_digit_runs;
split_scan_fn split_scan_o200k, split_scan_tekken, split_scan_kimi;			/* split_o200k.c */
split_scan_fn split_scan_deepseek;							/* split_deepseek.c */
split_scan_fn split_scan_deepseek_coder, split_scan_deepseek_llm;			/* split_deepseek1.c */
split_scan_fn split_scan_gpt2;								/* split_gpt2.c */

#define SCAN_INLINE	static inline __attribute__((always_inline))

/* The remaining bytes. */
struct scan {
	const uint8_t *end;
	bool last;		/* nothing follows <end> */
};

/* Return the class of the character at <p>, which is before <end>. *len: its length. */
SCAN_INLINE unsigned scan_class(const uint8_t *p, const uint8_t *end, size_t *len)
{
	uint32_t cp;

	if (*p < 0x80)
		return *len = 1, uc_class_leaf[0][*p];
	*len = utf8_get(p, (size_t)(end - p), &cp);
	return uc_class(cp);
}

SCAN_INLINE bool scan_newline(uint8_t b)
{
	return b == '\n' || b == '\r';
}

SCAN_INLINE bool scan_ascii_letter(uint8_t b)
{
	return (uint8_t)((b | 0x20) - 'a') < 26;
}

/* 1 for ASCII bytes that are neither letter, digit, CR nor LF: with letters after them they make
 * one piece in all families except GPT-2's. */
extern const uint8_t scan_joins[256];

/* Tell if a character is in one of DeepSeek's ranges. */
SCAN_INLINE bool scan_cjk(uint32_t cp)
{
	return cp - 0x4e00 <= 0x9fa5 - 0x4e00 || cp - 0x3040 <= 0x30ff - 0x3040;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Return a mask of those of 16 bytes that are in <first> .. <first> + <n> - 1 after <with> is set
 * in them. */
#if SIMD16
SCAN_INLINE unsigned scan_mask(__m128i v, uint8_t with, uint8_t first, uint8_t n)
{
	__m128i x = _mm_or_si128(v, _mm_set1_epi8((char)with));

	x = _mm_add_epi8(x, _mm_set1_epi8((char)(128 - first)));
	return (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(x, _mm_set1_epi8((char)(n - 128))));
}
#endif

/* Return the number of ASCII letters at <q>, 0 .. 16. At least 17 bytes are readable. */
SCAN_INLINE unsigned scan_letters16(const uint8_t *q)
{
#if SIMD16
	return (unsigned)__builtin_ctz(~scan_mask(_mm_loadu_si128((const __m128i *)(const void *)q),
	    0x20, 'a', 26));
#else
	unsigned i;

	for (i = 0; i < 16 && scan_ascii_letter(q[i]); i++)
		;
	return i;
#endif
}

/* Return the end of a run of <classes>, which contain UC_LETTER and no other class of ASCII. */
SCAN_INLINE const uint8_t *scan_letters(const uint8_t *p, const uint8_t *end, unsigned classes)
{
	size_t len;

	for (;;) {
		if (end - p > 16) {
			unsigned n = scan_letters16(p);

			p += n;
			if (n == 16)
				continue;
		}
		while (p < end && scan_ascii_letter(*p))
			p++;
		if (p == end || *p < 0x80)
			return p;
		do {
			if ((scan_class(p, end, &len) & classes) == 0)
				return p;
			p += len;
		} while (p < end && *p >= 0x80);
	}
}

/* Return the end of a run of characters of none of <classes>. */
SCAN_INLINE const uint8_t *scan_others(const uint8_t *p, const uint8_t *end, unsigned classes)
{
	size_t len;

	while (p < end && (scan_class(p, end, &len) & classes) == 0)
		p += len;
	return p;
}

SCAN_INLINE const uint8_t *scan_newlines(const uint8_t *p, const uint8_t *end, bool slash)
{
	while (p < end && (scan_newline(*p) || (slash && *p == '/')))
		p++;
	return p;
}

/* ---- parts that several families have -------------------------------------------------------- */

/* Match (?i:'s|'t|'re|'ve|'m|'ll|'d) at the apostrophe <p>. Returns its length (U+017F is an s
 * too), 0 if there is none, -1: more. */
SCAN_INLINE int scan_contraction(const uint8_t *p, struct scan s)
{
	size_t n = (size_t)(s.end - p);

	if (n < 2)
		return s.last ? 0 : -1;
	switch (p[1]) {
	case 's': case 'S': case 't': case 'T': case 'm': case 'M': case 'd': case 'D':
		return 2;
	case 'r': case 'R': case 'v': case 'V':
		if (n < 3)
			return s.last ? 0 : -1;
		return (p[2] | 0x20) == 'e' ? 3 : 0;
	case 'l': case 'L':
		if (n < 3)
			return s.last ? 0 : -1;
		return (p[2] | 0x20) == 'l' ? 3 : 0;
	case 0xc5:
		return n > 2 && p[2] == 0xbf ? 3 : 0;
	default:
		return 0;
	}
}

/* Match \p{N}{1,<most>} at <p>, which is a number. */
SCAN_INLINE const uint8_t *scan_digits(const uint8_t *p, struct scan s, size_t most)
{
	size_t i, len;

	for (i = 0; i < most && p < s.end && scan_class(p, s.end, &len) & UC_NUMBER; i++)
		p += len;
	return p == s.end && i < most && !s.last ? NULL : p;
}

/* Match \s*[\r\n]+|\s+(?!\S)|\s+ at <p>, which is white space: up to the last line end of the run;
 * without one, all but the last character, which joins what follows, unless it is alone. <lines>
 * false: without the first alternative. */
SCAN_INLINE const uint8_t *scan_space(const uint8_t *p, struct scan s, bool lines)
{
	const uint8_t *q = p, *prev = p, *line = NULL;
	size_t len;

	while (q < s.end && scan_class(q, s.end, &len) & UC_SPACE) {
		prev = q;
		q += len;
		if (lines && scan_newline(*prev))
			line = q;
	}
	if (q == s.end && !s.last)
		return NULL;
	if (line != NULL)
		return line;
	return q == s.end || prev == p ? q : prev;
}

/* Return the end of the word at <p>: one byte if <joins>, then 1 to 15 ASCII letters, then an ASCII
 * byte that is no letter. Returns NULL if there is none or fewer than 21 bytes remain. It finds
 * most pieces of most texts with one load, before a scanner looks up classes. */
SCAN_INLINE const uint8_t *scan_word(const uint8_t *p, struct scan s, size_t joins)
{
	const uint8_t *q = p + joins;
	unsigned run;

	if (s.end - p <= 20)
		return NULL;
	run = scan_letters16(q);
	return run - 1 < 15 && q[run] < 0x80 ? q + run : NULL;
}

/* The body of a scanner: a split_scan_fn with its parameters and a struct scan <s>. STEP is an
 * expression for the end of the piece at <p>, or NULL for "more". */
#define SCAN_LOOP(STEP)	SCAN_LOOP_BLOCKS((split_block_fn *)NULL, STEP)

/* The same for a family with BLOCKS, which find most pieces. Where they found few (SCAN_FEW), the
 * next SCAN_LEFT pieces are found by STEP, and twice as many each time that repeats, up to
 * SCAN_AGAIN, because texts that blocks do not know, such as Tamil for o200k, rarely change. A
 * batch may end early, so that STEP need not fill it. */
#define SCAN_FEW	4u
#define SCAN_LEFT	16u
#define SCAN_AGAIN	128u
#define SCAN_LOOP_BLOCKS(BLOCKS, STEP) \
	do { \
		const uint8_t *begin = p, *next; \
		split_block_fn *run64 = (BLOCKS); \
		uint32_t k = 0, found, left = 0, next_left = SCAN_LEFT; \
\
		while (p < s.end && k < SPLIT_BATCH) { \
			if (run64 != NULL && left == 0 && (size_t)(s.end - p) >= BLOCK_BYTES) { \
				if (k + BLOCK_PIECES > SPLIT_BATCH) \
					break; \
				found = run64(p, (size_t)(s.end - p), (uint32_t)(p - begin), out->end + k, \
				    SPLIT_BATCH - k); \
				if (found > 0) { \
					k += found; \
					p = begin + out->end[k - 1]; \
				} \
				left = found < SCAN_FEW ? next_left : 0; \
				next_left = found >= SCAN_FEW ? SCAN_LEFT : \
				    next_left < SCAN_AGAIN ? 2 * next_left : SCAN_AGAIN; \
				if (found > 0) \
					continue; \
			} \
			if ((next = (STEP)) == NULL) \
				break; \
			p = next; \
			out->end[k++] = (uint32_t)(p - begin); \
			left -= left > 0; \
		} \
		out->n = k; \
		out->used = (size_t)(p - begin); \
	} while (0)

#endif
