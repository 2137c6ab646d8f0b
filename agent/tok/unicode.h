/* unicode.h - what tokenizers ask of a character, from one two-stage table.
 *
 * Categories of Unicode 14 (what PCRE2 of Debian 12 and Python 3.11 have, so that either can check it). The table,
 * unicode_data.h, is written by unicode_data.py and committed with it. Costs two loads a character. */
#ifndef KVROUTE_TOK_UNICODE_H
#define KVROUTE_TOK_UNICODE_H

#include "agent/base/types.h"

enum {
	UC_LETTER_LOWER = 1 << 0,	/* Ll */
	UC_LETTER_UPPER = 1 << 1,	/* Lu Lt */
	UC_LETTER_OTHER = 1 << 2,	/* Lm Lo: counts as lower and as upper */
	UC_MARK = 1 << 3,		/* Mn Mc Me */
	UC_NUMBER = 1 << 4,		/* Nd Nl No */
	UC_PUNCT_SYMBOL = 1 << 5,	/* P*, S* */
	UC_SPACE = 1 << 6,		/* White_Space: not U+180E */
	UC_HAN = 1 << 7			/* Script=Han */
};
#define UC_LETTER (UC_LETTER_LOWER | UC_LETTER_UPPER | UC_LETTER_OTHER)

/* The bits of <cp>; 0 above U+10FFFF. */
uint8_t uc_class(uint32_t cp);

/* The character at <p>, <n> >= 1 bytes left. Returns its bytes, 1..4. Bad UTF-8 does not come here: text is
 * made valid before (U+FFFD for each maximal bad part, as the engines' JSON readers do). */
static inline size_t utf8_get(const uint8_t *p, size_t n, uint32_t *cp);

static inline size_t utf8_get(const uint8_t *p, size_t n, uint32_t *cp)
{
	if (p[0] < 0x80 || n < 2)
		return *cp = p[0], 1;
	if (p[0] < 0xe0 || n < 3)
		return *cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu), 2;
	if (p[0] < 0xf0 || n < 4)
		return *cp = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 3;
	return *cp = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu), 4;
}

#endif
