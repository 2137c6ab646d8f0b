/* UTF-8 validation by table 3-7 of Unicode 15: the first byte bounds the second, all later bytes
 * are 80..BF. An error is therefore found at its earliest byte, and the bytes before it are the
 * maximal bad part. ASCII takes one step per 16 bytes. In other text, blocks of 32 bytes are only
 * told to be good; the bytes of a bad one, and the first and last ones, are read one character
 * after the other. */
#include <stdio.h>

#include "agent/base/utf8.h"

struct lead {
	uint8_t n, low, high;	/* length; bounds of the second byte. n == 0: not a lead byte */
};

static struct lead lead(uint8_t c)
{
	if (c < 0xc2 || c > 0xf4)
		return (struct lead){ 0, 0, 0 };
	if (c < 0xe0)
		return (struct lead){ 2, 0x80, 0xbf };
	if (c < 0xf0)
		return (struct lead){ 3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf };
	return (struct lead){ 4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf };
}

/* Return the number of valid bytes of the character at <p>, which is not ASCII. Sets <whole> if the
 * character is complete. */
static size_t good_part(const uint8_t *p, size_t n, bool *whole)
{
	struct lead l = lead(p[0]);
	size_t i = 1;

	*whole = false;
	if (l.n == 0)
		return 0;
	if (i < n && p[1] >= l.low && p[1] <= l.high) {
		for (i = 2; i < l.n && i < n && (p[i] & 0xc0) == 0x80; )
			i++;
	}
	*whole = i == l.n;
	return i;
}

/* Tell if <three> is a valid character of three bytes: not overlong, not a surrogate. */
static inline bool is_three(uint32_t three)
{
	return (three & 0xf0c0c0) == 0xe08080 && three >= 0xe0a080 &&
	    (three < 0xeda080 || three >= 0xee8080);
}

/* ---- blocks ---- */

#define BLOCK	32u
#define NEAR	16u	/* fewer bytes of ASCII since the last other character: there are more of these */
#define THREES	8u	/* characters of three bytes that are read before a block is tried again */

typedef uint8_t bytes32 __attribute__((vector_size(BLOCK), aligned(1), may_alias));
typedef uint64_t words32 __attribute__((vector_size(BLOCK)));

/* Return whether the block at <p> is good after the three bytes before it; *ascii: has no others. A
 * byte has to continue a character if and only if it has that form; and table 3-7 bounds the second
 * byte after four of the first ones, which themselves are bounded. */
static inline __attribute__((always_inline)) bool good_block(const uint8_t *p, bool *ascii)
{
	bytes32 c = *(const bytes32 *)(const void *)p, b = *(const bytes32 *)(const void *)(p - 1);
	bytes32 b2 = *(const bytes32 *)(const void *)(p - 2);
	bytes32 b3 = *(const bytes32 *)(const void *)(p - 3);
	bytes32 must = (bytes32)(b >= 0xc0) | (bytes32)(b2 >= 0xe0) | (bytes32)(b3 >= 0xf0);
	bytes32 is = (bytes32)((c & 0xc0) == 0x80);
	words32 wrong = (words32)((must ^ is) | (bytes32)((c & 0xfe) == 0xc0) | (bytes32)(c >= 0xf5) |
	    ((bytes32)(b == 0xe0) & (bytes32)(c < 0xa0)) |
	    ((bytes32)(b == 0xed) & (bytes32)(c > 0x9f)) |
	    ((bytes32)(b == 0xf0) & (bytes32)(c < 0x90)) |
	    ((bytes32)(b == 0xf4) & (bytes32)(c > 0x8f)));
	words32 high = (words32)(c & 0x80);

	*ascii = (high[0] | high[1] | high[2] | high[3]) == 0;
	return (wrong[0] | wrong[1] | wrong[2] | wrong[3]) == 0;
}

/* Return where the last character begins that ends after <i>; <i> if one ends there. At least three
 * bytes before <i> are good. */
static size_t begin_of(const uint8_t *p, size_t i)
{
	return p[i - 1] >= 0xc0 ? i - 1 : p[i - 2] >= 0xe0 ? i - 2 : p[i - 3] >= 0xf0 ? i - 3 : i;
}

/* Go from character to character: return a place after <i> >= 3 up to which all is good, after some
 * blocks, up to one of ASCII. Returns <i> if the first is not good. */
static inline __attribute__((always_inline)) size_t pass_blocks(
    const uint8_t *p, size_t i, size_t n)
{
	bool ascii = false;

	for (; !ascii && n - i >= BLOCK; i += BLOCK)
		if (!good_block(p + i, &ascii))
			break;
	return begin_of(p, i);
}

#ifdef __x86_64__
__attribute__((target("avx2")))
static size_t blocks_avx2(const uint8_t *p, size_t i, size_t n)
{
	return pass_blocks(p, i, n);
}
#endif

static size_t good_blocks(const uint8_t *p, size_t i, size_t n)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return blocks_avx2(p, i, n);
#endif
	return pass_blocks(p, i, n);
}

size_t utf8_good(const uint8_t *p, size_t n)
{
	size_t i = 0, m, k;
	bool whole;

	for (;;) {
		i += m = utf8_ascii(p + i, n - i);
		if (m < NEAR && i >= 3 && n - i >= BLOCK)
			i = good_blocks(p, i, n);
		for (k = 0; k < THREES && n - i >= 4 && is_three(utf8_three(p + i)); k++)
			i += 3;
		if (i == n)
			return n;
		if (p[i] < 0x80)
			continue;
		m = good_part(p + i, n - i, &whole);
		if (!whole)
			return i;
		i += m;
	}
}

size_t utf8_bad(const uint8_t *p, size_t n)
{
	bool whole;
	size_t m = good_part(p, n, &whole);

	return m > 0 ? m : 1;
}

size_t utf8_mend(const uint8_t *in, size_t n, uint8_t *out)
{
	size_t i = 0, o = 0, m;

	while (i < n) {
		m = utf8_good(in + i, n - i);
		memcpy(out + o, in + i, m);
		i += m;
		o += m;
		if (i == n)
			break;
		i += utf8_bad(in + i, n - i);
		memcpy(out + o, "\xef\xbf\xbd", 3);
		o += 3;
	}
	return o;
}

size_t utf8_cut(const uint8_t *p, size_t n)
{
	bool whole;
	size_t back;

	for (back = 1; back <= 3 && back <= n; back++) {
		if ((p[n - back] & 0xc0) != 0x80) {
			if (p[n - back] < 0xc2)
				return 0;
			return good_part(p + n - back, back, &whole) == back && !whole ? back : 0;
		}
	}
	return 0;
}

void utf8_place(struct span text, size_t at, const char *name, struct err *e)
{
	if (e == NULL)
		return;
	snprintf(e->file, sizeof(e->file), "%s", name != NULL ? name : "");
	e->line = e->column = 1;
	for (size_t i = 0; i < at; i++) {
		if (text.p[i] == '\n') {
			e->line++;
			e->column = 1;
		} else if (!utf8_inside((uint8_t)text.p[i])) {
			e->column++;
		}
	}
}

int utf8_check(struct span text, const char *name, struct err *e)
{
	const uint8_t *p = (const uint8_t *)text.p;
	size_t good = text.n > 0 ? utf8_good(p, text.n) : 0;

	if (good == text.n)
		return 0;
	utf8_place(text, good, name, e);
	return err_set(e, "the byte 0x%02x is not UTF-8 here; save the file as UTF-8, or "
		       "fetch it again if it is damaged", p[good]);
}
