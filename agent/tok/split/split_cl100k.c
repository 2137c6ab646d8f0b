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

SCAN_INLINE void scan(const uint8_t *p, size_t n, bool last, struct pieces *out, size_t digits,
    unsigned letters, split_block_fn *blocks)
{
	struct scan s = { p + n, last };

	SCAN_LOOP_BLOCKS(blocks, (*p != '\'' ? scan_word(p, s, scan_joins[*p]) : NULL)
	    ?: piece(p, s, digits, letters));
}

void split_scan_l3(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 3, UC_LETTER, BLOCK_BEST(l3));
}

void split_scan_q2(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 1, UC_LETTER, BLOCK_BEST(q2));
}

void split_scan_q35(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, 1, UC_LETTER | UC_MARK, BLOCK_BEST(q35));
}

void split_scan_digit_runs(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	scan(p, n, last, out, SIZE_MAX, UC_LETTER, BLOCK_BEST(digit_runs));
}
