/* split_deepseek.c - the three consecutive Splits of DeepSeek V3, R1 and V4 as one scanner.
 *
 * 	\p{N}{1,3}					then, in the rest,
 * 	[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+	then, in all these pieces,
 * 	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 * 	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * The first two only decide where texts end for the third: at a number, and at a change between the
 * CJK ranges and the rest. So the third treats such a character as the end (STOP), and no second
 * pass is needed. Unlike in other families, the third does not match everywhere: controls, format
 * and unassigned characters remain and run together up to the next match. */
#include "agent/tok/split/split_scan.h"

#define STOP	(1u << 8)	/* no class of unicode.h */
#define WORD	(UC_LETTER | UC_MARK)

/* Return the class of the character at <p> for a text that is <cjk> or not. STOP: outside of it, or
 * the end. */
SCAN_INLINE unsigned class_at(const uint8_t *p, const uint8_t *end, bool cjk, size_t *len)
{
	unsigned k;
	uint32_t cp;

	if (p == end)
		return STOP;
	if (*p < 0x80) {
		*len = 1;
		k = uc_class_leaf[0][*p];
		return k & UC_NUMBER || cjk ? STOP : k;
	}
	*len = utf8_get(p, (size_t)(end - p), &cp);
	k = uc_class(cp);
	return k & UC_NUMBER || scan_cjk(cp) != cjk ? STOP : k;
}

/* Return the end of a run of <classes>. */
SCAN_INLINE const uint8_t *run_of(const uint8_t *p, const uint8_t *end, bool cjk, unsigned classes)
{
	size_t len;

	while (class_at(p, end, cjk, &len) & classes)
		p += len;
	return p;
}

SCAN_INLINE const uint8_t *ascii_run(const uint8_t *p, const uint8_t *end)
{
	while (p < end && scan_ascii_letter(*p))
		p++;
	return p;
}

/* Match [\p{P}\p{S}]*[\r\n]*. A line end is outside of a CJK text. */
SCAN_INLINE const uint8_t *symbols(const uint8_t *p, const uint8_t *end, bool cjk)
{
	p = run_of(p, end, cjk, UC_PUNCT_SYMBOL);
	return cjk ? p : scan_newlines(p, end, false);
}

SCAN_INLINE const uint8_t *space(const uint8_t *p, struct scan s)
{
	const uint8_t *q = p, *prev = p, *line = NULL;
	size_t len;
	unsigned k;

	for (; (k = class_at(q, s.end, false, &len)) & UC_SPACE; q += len) {
		prev = q;
		if (scan_newline(*q))
			line = q + 1;
	}
	if (q == s.end && !s.last)
		return NULL;
	if (line != NULL)
		return line;
	return k & STOP || prev == p ? q : prev;
}

/* Return the place where an alternative matches again. The character at <p> has no class. */
SCAN_INLINE const uint8_t *unmatched(const uint8_t *p, struct scan s, bool cjk)
{
	size_t len, next;
	unsigned k = 0;

	while (p < s.end && (k = class_at(p, s.end, cjk, &len)) == 0) {
		if (class_at(p + len, s.end, cjk, &next) & WORD)
			break;
		p += len;
	}
	return p == s.end && !s.last ? NULL : p;
}

SCAN_INLINE const uint8_t *piece(const uint8_t *p, struct scan s)
{
	const uint8_t *q;
	unsigned k, next;
	size_t len = 0, len1;
	uint32_t cp;
	bool cjk;

	utf8_get(p, (size_t)(s.end - p), &cp);
	if (uc_class(cp) & UC_NUMBER)
		return scan_digits(p, s, 3);
	cjk = scan_cjk(cp);
	k = class_at(p, s.end, cjk, &len);
	q = p + len;
	if (q == s.end && !s.last)
		return NULL;
	next = class_at(q, s.end, cjk, &len1);
	if (k & UC_PUNCT_SYMBOL && *p < 0x80 && q < s.end && scan_ascii_letter(*q))
		q = ascii_run(q, s.end);
	else if (k & WORD || (next & WORD && !(k & UC_PUNCT_SYMBOL) && !scan_newline(*p)))
		q = run_of(q, s.end, cjk, WORD);
	else if (k & UC_PUNCT_SYMBOL || (*p == ' ' && next & UC_PUNCT_SYMBOL))
		q = symbols(q, s.end, cjk);
	else
		return k & UC_SPACE ? space(p, s) : unmatched(p, s, cjk);
	return q == s.end && !s.last ? NULL : q;
}

void split_scan_deepseek(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	struct scan s = { p + n, last };

	SCAN_LOOP_BLOCKS(BLOCK_BEST(deepseek), scan_word(p, s, scan_joins[*p]) ?: piece(p, s));
}
