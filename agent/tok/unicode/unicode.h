/* unicode.h - properties of characters that tokenizers need, from two-stage tables.
 *
 * Categories are of Unicode 16, as in the regular expressions of tokenizers 0.22 (Oniguruma
 * 6.9.10). PCRE2 of Debian 12 has 14; split_onig.c compensates. gen_unicode.py writes the tables,
 * unicode_data_in.h. Two loads a character; 40 KB. */
#ifndef KVROUTE_TOK_UNICODE_UNICODE_H
#define KVROUTE_TOK_UNICODE_UNICODE_H

#include "agent/base/utf8.h"

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

/* Return the class bits of <cp>, or 0 above U+10FFFF. */
static inline uint8_t uc_class(uint32_t cp);

/* ---- normal forms and case: normal.c --------------------------------------------------------- */

/* These follow the versions of Unicode that tokenizers 0.22 uses for each purpose: gen_unicode.py
 * lists them. */
enum {	/* forms in which a character may change, alone or after another */
	UC_NFC = 1 << 0, UC_NFD = 1 << 1, UC_NFKC = 1 << 2, UC_NFKD = 1 << 3,
	UC_ACCENT = 1 << 4,	/* removed by StripAccents */
	UC_PUNCT = 1 << 5,	/* of the step Punctuation: ASCII's P and S, and P */
	UC_DIGIT = 1 << 6,	/* of the step Digits */
	UC_NEW = 1 << 7		/* PCRE2 with tables of Unicode 14 classifies it differently */
};
struct uc_kind {
	uint8_t ccc;		/* Canonical_Combining_Class */
	uint8_t bits;		/* UC_NFC, ... */
};
struct uc_kind uc_kind(uint32_t cp);
static inline bool uc_is_plain(uint32_t cp);	/* all bits are 0, as for nearly all characters */

/* Decompose <cp> completely, without (NFD) or with <compat> (NFKD); *n == 0: it does not decompose.
 * Parts of Hangul syllables are written to <hangul>. */
const uint32_t *uc_decompose(uint32_t cp, bool compat, uint32_t hangul[3], size_t *n);
/* Return the character that <a> and a following <b> compose, or 0. */
uint32_t uc_compose(uint32_t a, uint32_t b);
/* Return the small letter of <cp>, or <cp>. The caller handles U+0130, which becomes "i" and
 * U+0307. */
uint32_t uc_lower(uint32_t cp);

/* ---- the table ------------------------------------------------------------------------------- */

extern const uint8_t uc_class_block[], uc_class_leaf[][128], uc_kind_block[], uc_kind_leaf[][128];

static inline uint8_t uc_class(uint32_t cp)
{
	return cp < 0x110000 ? uc_class_leaf[uc_class_block[cp >> 7]][cp & 127] : 0;
}

static inline bool uc_is_plain(uint32_t cp)
{
	return cp < 0x110000 && uc_kind_leaf[uc_kind_block[cp >> 7]][cp & 127] == 0;
}

#endif
