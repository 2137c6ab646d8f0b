/* split_cl100k.c - the pattern of cl100k and its variants: Llama 3, GLM-4 (L3), Qwen (Q2, Q35).
 *
 * 	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 * 	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Parameters: the digits per piece, and whether marks count as letters. No alternative backtracks
 * except at the end of white space. The class before \p{L}+ contains no letter; if marks count as
 * letters, a mark there gives the same end either way. And the character after a run is never in
 * its class. So each character is read once, and the last of a piece once more. */
#include "agent/tok/split/split_scan.h"

SCAN_INLINE const uint8_t *piece(const uint8_t *p, struct scan s, size_t digits, unsigned letters)
{
	size_t len, len1;
	unsigned k = scan_class(p, s.end, &len);
	const uint8_t *q;
	int n;

	if (*p == '\'' && (n = scan_contraction(p, s)) != 0)
		return n > 0 ? p + n : NULL;
	if (k & UC_NUMBER)
		return scan_digits(p, s, digits);
	q = p + len;
	if ((k & letters) == 0 && !scan_newline(*p)) {		/* it may precede letters */
		if (q == s.end && !s.last)
			return NULL;
		if (q < s.end && scan_class(q, s.end, &len1) & letters)
			k = letters;
	}
	if (k & letters) {
		q = scan_letters(q, s.end, letters);
		return q == s.end && !s.last ? NULL : q;
	}
	q = scan_others(*p == ' ' ? p + 1 : p, s.end, UC_SPACE | UC_NUMBER | letters);
	if (q > p + (*p == ' ')) {
		q = scan_newlines(q, s.end, false);
		return q == s.end && !s.last ? NULL : q;
	}
	return scan_space(p, s, true);
}

/* ---- 64 bytes at a time ----------------------------------------------------------------------
 *
 * Where a text is ASCII letters with one or two other signs between them, the ends of pieces follow
 * from two masks. Of each run of signs that are no letters:
 *
 *	a line feed		is a piece: one ends before it and one after it
 *	one other sign		joins the letters after it: a piece ends before it
 *	two, the second a space		the first is a piece: a piece ends before each
 *	two, the second no space	both are a piece: one ends before them and one after them
 *
 * That is what the alternatives of the pattern give, because none looks back. A run is left to
 * piece() if it has three signs, a digit, an apostrophe, other control characters, bytes above
 * ASCII, or a line feed before another sign than these. */

#if SIMD16
struct masks {
	uint64_t letters, spaces, lines, odd;	/* <odd>: signs that piece() has to read */
};

SCAN_INLINE void mask16(const uint8_t *p, unsigned at, struct masks *m)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i line = _mm_cmpeq_epi8(v, _mm_set1_epi8('\n'));
	__m128i odd = _mm_or_si128(_mm_andnot_si128(line, _mm_cmplt_epi8(v, _mm_set1_epi8(' '))),
	    _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\'')), _mm_cmpeq_epi8(v, _mm_set1_epi8(127))));
	unsigned digits = scan_mask(v, 0, '0', 10);

	m->letters |= (uint64_t)scan_mask(v, 0x20, 'a', 26) << at;
	m->spaces |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(' '))) << at;
	m->lines |= (uint64_t)(unsigned)_mm_movemask_epi8(line) << at;
	m->odd |= (uint64_t)((unsigned)_mm_movemask_epi8(odd) | digits) << at;
}

/* Return the places, of the 64 bytes at the piece <p>, where pieces end for certain. */
SCAN_INLINE uint64_t ends64(const uint8_t *p)
{
	struct masks m = { 0, 0, 0, 0 };
	uint64_t others, second, ends, bad, before;
	unsigned stop, run;

	mask16(p, 0, &m);
	mask16(p + 16, 16, &m);
	mask16(p + 32, 32, &m);
	mask16(p + 48, 48, &m);
	others = ~m.letters;
	second = others & others << 1;
	ends = (others & m.letters << 1) | (second & m.spaces) | (second & ~m.spaces) << 1;
	ends |= (m.lines & ~(others << 1) & ~(others >> 1)) << 1;
	bad = m.odd | (second & others << 2) | (second & ~m.spaces & ~m.lines & m.lines << 1) |
	    ((second | m.lines) & 1ull << 63);
	if (bad == 0)
		return ends;
	stop = (unsigned)__builtin_ctzll(bad);
	before = m.letters & ((1ull << stop) - 1);
	run = before == 0 ? 0 : 64 - (unsigned)__builtin_clzll(before);
	/* up to where the run of signs begins; letters may go on above ASCII */
	return ends & ((1ull << run << (run < stop || p[stop] < 0x80)) - 1);
}

/* Write the ends of pieces from <p> on, at most <most>, at <at> from the text's beginning. Returns
 * their number. */
SCAN_INLINE uint32_t block(
    const uint8_t *p, struct scan s, uint32_t at, uint32_t *end, uint32_t most)
{
	uint64_t ends;
	uint32_t k;

	if (s.end - p <= 64 || (*p | p[1]) >= 0x80)
		return 0;
	ends = ends64(p) & ~1ull;
	for (k = 0; ends != 0 && k < most; ends &= ends - 1)
		end[k++] = at + (uint32_t)__builtin_ctzll(ends);
	return k;
}
#else
SCAN_INLINE uint32_t block(
    const uint8_t *p, struct scan s, uint32_t at, uint32_t *end, uint32_t most)
{
	return 0;
}
#endif

SCAN_INLINE void scan(const uint8_t *p, size_t n, bool last, struct pieces *out, size_t digits,
    unsigned letters)
{
	struct scan s = { p + n, last };
	const uint8_t *begin = p, *next;
	uint32_t k = 0, found;

	while (p < s.end && k < SPLIT_BATCH) {
		found = block(p, s, (uint32_t)(p - begin), out->end + k, SPLIT_BATCH - k);
		if (found > 0) {
			k += found;
			p = begin + out->end[k - 1];
			if (k == SPLIT_BATCH)
				break;
		}
		next = (*p != '\'' ? scan_word(p, s, scan_joins[*p]) : NULL) ?: piece(p, s, digits, letters);
		if (next == NULL)
			break;
		p = next;
		out->end[k++] = (uint32_t)(p - begin);
	}
	out->n = k;
	out->used = (size_t)(p - begin);
}

void split_scan_l3(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 3, UC_LETTER);
}

void split_scan_q2(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 1, UC_LETTER);
}

void split_scan_q35(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 1, UC_LETTER | UC_MARK);
}

void split_scan_digit_runs(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, SIZE_MAX, UC_LETTER);
}
