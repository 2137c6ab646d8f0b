/* split_o200k.c - the pattern of o200k and its variants: gpt-oss, GPT-4o, Llama 4; Tekken of
 * Mistral; Kimi K2.
 *
 * With U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L for [\p{Ll}\p{Lm}\p{Lo}\p{M}] and S for
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)?:
 *
 * 	[^\r\n\p{L}\p{N}]?U*L+S|[^\r\n\p{L}\p{N}]?U+L*S|\p{N}{1,3}|
 * 	 ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Tekken has no S and single digits. Kimi has no '/'; runs of Han characters, [\p{Han}]+, come
 * first and are not in U or L.
 *
 * Backtracking: U* takes all it can and then needs one of L. A following small letter is that.
 * Otherwise the last character of the run that is in both classes (Lm, Lo, M) serves, and the match
 * ends after it. Otherwise the second alternative takes the run, which is capitals only. The first
 * character may be a mark, which is in both classes: if nothing matches after it, it is a word by
 * itself. Each character is read at most twice. */
#include "agent/tok/split/split_scan.h"

struct split_params {
	size_t digits;
	bool suffix, slash, han;
};

#define BOTH	(UC_LETTER_OTHER | UC_MARK)

/* Return the class of a character within words. */
SCAN_INLINE unsigned word_class(const uint8_t *p, const uint8_t *end, size_t *len, bool han)
{
	unsigned k = scan_class(p, end, len);

	return han && k & UC_HAN ? 0 : k & (UC_LETTER | UC_MARK);
}

/* Match U*L+ at <p>. Returns NULL if it does not match, or *more. *upper: the end of U*. */
SCAN_INLINE const uint8_t *word(const uint8_t *p, struct scan s, bool han, const uint8_t **upper,
    bool *more)
{
	const uint8_t *both = NULL;
	unsigned k = 0;
	size_t len;

	for (; p < s.end && (k = word_class(p, s.end, &len, han)) & (UC_LETTER_UPPER | BOTH); k = 0) {
		p += len;
		if (k & BOTH)
			both = p;
	}
	*upper = p;
	if (k & UC_LETTER_LOWER) {
		while (p < s.end && word_class(p, s.end, &len, han) & (UC_LETTER_LOWER | BOTH))
			p += len;
		both = p;
	}
	*more = p == s.end && !s.last;
	return *more ? NULL : both;
}

/* Match one of the first two alternatives at <p>, without S. Returns NULL if none matches, or
 * *more. */
SCAN_INLINE const uint8_t *words(const uint8_t *p, struct scan s, bool han, unsigned k, size_t len,
    bool *more)
{
	const uint8_t *upper, *e, *after = p + len;

	*more = false;
	if ((k & (UC_LETTER | UC_NUMBER)) == 0 && !scan_newline(*p)) {
		if ((e = word(after, s, han, &upper, more)) != NULL || *more)
			return e;
		if (upper > after && (k & UC_MARK) == 0)
			return upper;
	}
	if ((k & (UC_LETTER | UC_MARK)) == 0 || (han && k & UC_HAN))
		return NULL;
	e = word(p, s, han, &upper, more);
	return e != NULL || *more ? e : upper;
}

SCAN_INLINE const uint8_t *suffix(const uint8_t *p, struct scan s)
{
	int n = p < s.end && *p == '\'' ? scan_contraction(p, s) : 0;

	return n < 0 ? NULL : p + n;
}

SCAN_INLINE const uint8_t *han_run(const uint8_t *p, struct scan s)
{
	size_t len;

	while (p < s.end && scan_class(p, s.end, &len) & UC_HAN)
		p += len;
	return p == s.end && !s.last ? NULL : p;
}

SCAN_INLINE const uint8_t *piece(const uint8_t *p, struct scan s, struct split_params f)
{
	size_t len;
	unsigned k = scan_class(p, s.end, &len);
	const uint8_t *q;
	bool more;

	if (f.han && k & UC_HAN)
		return han_run(p, s);
	if (k & UC_NUMBER)
		return scan_digits(p, s, f.digits);
	if ((q = words(p, s, f.han, k, len, &more)) != NULL)
		return f.suffix ? suffix(q, s) : q;
	if (more)
		return NULL;
	q = scan_others(*p == ' ' ? p + 1 : p, s.end, UC_SPACE | UC_NUMBER | UC_LETTER);
	if (q > p + (*p == ' ')) {
		q = scan_newlines(q, s.end, f.slash);
		return q == s.end && !s.last ? NULL : q;
	}
	return scan_space(p, s, true);
}

/* Return the number of capitals, then small letters at <q>, 0 .. 16. At least 17 bytes are
 * readable. */
SCAN_INLINE unsigned word16(const uint8_t *q)
{
#if SIMD16
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)q);
	unsigned upper = (unsigned)__builtin_ctz(~scan_mask(v, 0, 'A', 26));
	unsigned lower = scan_mask(v, 0, 'a', 26) >> upper;

	return upper + (unsigned)__builtin_ctz(~lower);
#else
	unsigned i = 0;

	while (i < 16 && (uint8_t)(q[i] - 'A') < 26)
		i++;
	while (i < 16 && (uint8_t)(q[i] - 'a') < 26)
		i++;
	return i;
#endif
}

/* As scan_word(): a byte that joins, capitals, small letters; no suffix after them if <suffix>. */
SCAN_INLINE const uint8_t *cased_word(const uint8_t *p, struct scan s, bool suffix)
{
	const uint8_t *q = p + scan_joins[*p];
	unsigned run;

	if (s.end - p <= 20)
		return NULL;
	run = word16(q);
	return run - 1 < 15 && q[run] < 0x80 && !(suffix && q[run] == '\'') ? q + run : NULL;
}

SCAN_INLINE void scan(const uint8_t *p, size_t n, bool last, struct pieces *out,
    struct split_params f, split_block_fn *blocks)
{
	struct scan s = { p + n, last };

	SCAN_LOOP_BLOCKS(blocks, cased_word(p, s, f.suffix) ?: piece(p, s, f));
}

void split_scan_o200k(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, (struct split_params){ .digits = 3, .suffix = true, .slash = true },
	    BLOCK_BEST(o200k));
}

void split_scan_tekken(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, (struct split_params){ .digits = 1, .slash = true }, BLOCK_BEST(tekken));
}

void split_scan_kimi(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, (struct split_params){ .digits = 3, .suffix = true, .han = true },
	    BLOCK_BEST(kimi));
}
