/* split_gpt2.c - the pattern of GPT-2, also of ByteLevel with use_regex.
 *
 * 	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Only small letters follow the apostrophe; only a space joins what follows; line ends are white
 * space. */
#include "agent/tok/split/split_scan.h"

/* Return the length of 's, ...; 0 if there is none, -1: more. */
SCAN_INLINE int contraction(const uint8_t *p, struct scan s)
{
	int n = scan_contraction(p, s);

	if (n <= 0)
		return n;
	return p[1] >= 'a' && p[1] <= 'z' && (n == 2 || (p[2] >= 'a' && p[2] <= 'z')) ? n : 0;
}

SCAN_INLINE const uint8_t *piece(const uint8_t *p, struct scan s)
{
	const uint8_t *q = p;
	size_t len;
	unsigned k;
	int n;

	if (*p == '\'' && (n = contraction(p, s)) != 0)
		return n > 0 ? p + n : NULL;
	if (*p == ' ' && ++q == s.end)
		return s.last ? q : NULL;
	k = scan_class(q, s.end, &len);
	if (k & UC_SPACE)
		return scan_space(p, s, false);
	if (k & UC_LETTER)
		q = scan_letters(q, s.end, UC_LETTER);
	else if (k & UC_NUMBER)
		return scan_digits(q, s, SIZE_MAX);
	else
		q = scan_others(q, s.end, UC_LETTER | UC_NUMBER | UC_SPACE);
	return q == s.end && !s.last ? NULL : q;
}

void split_scan_gpt2(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	struct scan s = { p + n, last };

	SCAN_LOOP_BLOCKS(BLOCK_BEST(gpt2), scan_word(p, s, *p == ' ') ?: piece(p, s));
}
