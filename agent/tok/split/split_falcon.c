/* split_falcon.c - Falcon's chain: Punctuation (contiguous), ByteLevel with GPT-2's pattern,
 * Digits, [0-9][0-9][0-9].
 *
 * A run of punctuation is a piece. GPT-2's pattern sees the end of the text on both sides of it
 * (STOP), so contractions never match. Digits comes after ByteLevel and sees the characters that
 * stand for bytes: those of B2 B3 B9 BC BD BE are numbers (U+00B2 and so on), anywhere, so a piece
 * may end inside a character. So a scanner finds words, and each is then cut at its numbers. */
#include "agent/tok/split/split_falcon_in.h"

#define STOP	(1u << 8)	/* no class of unicode.h */

/* Return the class of the character at <p>. STOP: it is punctuation, or the end. */
SCAN_INLINE unsigned class_at(const uint8_t *p, const uint8_t *end, size_t *len)
{
	uint32_t cp;

	if (p == end)
		return STOP;
	if (*p < 0x80) {
		*len = 1;
		return uc_class_leaf[0][*p] & UC_PUNCT_SYMBOL ? STOP : uc_class_leaf[0][*p];
	}
	*len = utf8_get(p, (size_t)(end - p), &cp);
	return !uc_is_plain(cp) && uc_kind(cp).bits & UC_PUNCT ? STOP : uc_class(cp);
}

SCAN_INLINE const uint8_t *marks(const uint8_t *p, const uint8_t *end)
{
	size_t len = 0;

	while (p < end && class_at(p, end, &len) & STOP)
		p += len;
	return p;
}

/* Match \s+(?!\S)|\s+. */
SCAN_INLINE const uint8_t *space(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p, *prev = p;
	size_t len = 0;
	unsigned k;

	for (; (k = class_at(q, end, &len)) & UC_SPACE; q += len)
		prev = q;
	return k & STOP || prev == p ? q : prev;
}

SCAN_INLINE const uint8_t *piece(const uint8_t *p, struct scan s)
{
	const uint8_t *q = p;
	size_t len = 0;
	unsigned k = class_at(p, s.end, &len), next;

	if (k & STOP) {
		q = marks(p, s.end);
	} else {
		if (*p == ' ')
			k = class_at(++q, s.end, &len);
		if (k & (UC_SPACE | STOP)) {
			q = space(p, s.end);
		} else {
			k &= UC_LETTER | UC_NUMBER;
			k = k & UC_LETTER ? UC_LETTER : k;
			for (q += len; !((next = class_at(q, s.end, &len)) & (STOP | UC_SPACE));
			     q += len)
				if (k != 0 ? !(next & k) : next & (UC_LETTER | UC_NUMBER))
					break;
		}
	}
	return q == s.end && !s.last ? NULL : q;
}

void split_scan_falcon_words(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	struct scan s = { p + n, last };

	SCAN_LOOP(scan_word(p, s, *p == ' ') ?: piece(p, s));
}

/* ---- numbers --------------------------------------------------------------------------------- */

SCAN_INLINE bool digit(uint8_t b)
{
	return (uint8_t)(b - '0') < 10;
}

SCAN_INLINE bool number(uint8_t b)
{
	static const uint64_t set[4] = { 0x03ff000000000000u, 0, 0x720c000000000000u, 0 };

	return set[b / 64] >> b % 64 & 1;
}

size_t split_falcon_part(const uint8_t *p, size_t n)
{
	size_t k = 0;

	if (!number(p[0])) {
		while (++k < n && !number(p[k]))
			;
		return k;
	}
	if (n >= 3 && digit(p[0]) && digit(p[1]) && digit(p[2]))
		return 3;
	while (++k < n && number(p[k]))
		if (n - k >= 3 && digit(p[k]) && digit(p[k + 1]) && digit(p[k + 2]))
			break;
	return k;
}
