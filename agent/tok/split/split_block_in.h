/* split_block_in.h - the ends of pieces, 64 bytes at a time, by arithmetic on masks.
 *
 * A window of 64 bytes starts where a piece starts. Vector comparisons give a mask for each class
 * of characters, with a bit for each byte; the ends of all pieces follow from the masks:
 *
 *	It's  (v2)\n    x = 12345;		L letters, D digits, S white space, O others
 *	LLOLSSOLDOSSSSSLSOSDDDDDO
 *	|  | ||||  |  |  | ||  |		a piece starts: contraction, joined byte, line end, ...
 *
 * A piece is a run of one class, joined with a character before it, cut by the number of digits, by
 * contractions or by case. Which joins and cuts a family has: struct block_rules. A character above
 * ASCII has its class in the bits of all its bytes. Frequent letters (Chinese, Hangul, Cyrillic,
 * Latin, Devanagari, Thai) are found by their first bytes, others are looked up.
 *
 * What needs more than classes ends the window ("odd"): numbers and white space above ASCII, a
 * capital after a letter without case, a mark after a sign, many characters to look up. So do the
 * last bytes, as far as later ones could change their pieces. The rest starts the next window, or
 * is left to the scanner of the family.
 *
 * Included once per instruction set: split_block.c, split_block_avx2.c. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_BLOCK_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_BLOCK_IN_H

#include "agent/tok/split/split_block.h"
#include "agent/tok/split/split_scan.h"

#if SIMD16

#include "agent/tok/split/split_block_vec_in.h"

/* Differences between families. */
struct block_rules {
	unsigned letters;	/* classes of unicode.h in a run of letters */
	unsigned digits;	/* most in a piece, 1 or 3; 0: any number */
	/* is a piece, or a part of the word before it */
	enum { CONTRACTION_NONE, CONTRACTION_FIRST, CONTRACTION_AFTER } contraction;
	bool cased;		/* a capital after a small letter starts a piece */
	bool slash;		/* '/' may follow line ends after other signs */
	bool han;		/* runs of Han characters are pieces */
	bool gpt2;		/* only a space joins; line ends are white space */
	bool deepseek;		/* texts end at numbers and CJK; only ASCII joins ASCII letters */
};

/* ---- classes --------------------------------------------------------------------------------- */

/* Every byte before the first of <odd> is in exactly one of letter, digit, space, white, line,
 * other, cjk. */
struct classes {
	uint64_t letter, digit, other;
	uint64_t space, white, line;	/* ' '; other white space; CR and LF */
	uint64_t cjk;			/* letters of DeepSeek's ranges; Kimi's Han letters */
	uint64_t upper, lower, both;	/* of <letter>, if cased */
	uint64_t mark;			/* of <letter>, where they may be signs too: of those looked up */
	uint64_t high, inside;		/* bytes above ASCII; of these, all but the first of a character */
	uint64_t apostrophe, slash;	/* of <other>, if they matter */
	uint64_t odd;			/* ends the window */
};

/* More characters of three bytes are not looked up, where the scanner is as fast. */
#define LOOKED_MOST	8

/* Put a character above ASCII, of <k> and the bytes <bits>, into its class. */
SCAN_INLINE void class_put(struct classes *c, unsigned k, uint64_t bits, bool in_cjk,
    struct block_rules r)
{
	if ((r.deepseek && in_cjk) || (r.han && k & UC_HAN)) {
		*(k & UC_LETTER ? &c->cjk : &c->odd) |= bits;
	} else if (k & (UC_NUMBER | UC_SPACE) ||
		   (r.deepseek && (k & (UC_LETTER | UC_MARK | UC_PUNCT_SYMBOL)) == 0)) {
		c->odd |= bits;
	} else if (k & r.letters) {
		c->letter |= bits;
		c->upper |= r.cased && k & UC_LETTER_UPPER ? bits : 0;
		c->lower |= r.cased && k & UC_LETTER_LOWER ? bits : 0;
		c->both |= r.cased && k & (UC_LETTER_OTHER | UC_MARK) ? bits : 0;
		c->mark |= r.cased && k & UC_MARK ? bits : 0;
	} else {
		c->other |= bits;
	}
}

/* Look up the characters whose first bytes are <leads>. */
SCAN_INLINE void class_look(struct classes *c, const uint8_t *p, uint64_t leads,
    struct block_rules r)
{
	uint32_t cp;

	/* up to the first that ends the window */
	for (; leads != 0 && (c->odd & ((leads & -leads) - 1)) == 0; leads &= leads - 1) {
		unsigned at = (unsigned)__builtin_ctzll(leads);
		size_t len = utf8_get(p + at, UTF8_MAX, &cp);

		class_put(c, uc_class(cp), ((1ull << len) - 1) << at, scan_cjk(cp), r);
	}
}

/* Return the first bytes of hiragana and katakana, U+3041 .. U+30FF, that are letters. */
SCAN_INLINE uint64_t leads_of_kana(const struct block *b, uint64_t first)
{
	uint64_t second = block_is(b, 0x81) & ~(block_is(b, 0x80) >> 1);

	second |= block_is(b, 0x82) & ~((block_in(b, 0, 0x97, 6) | block_is(b, 0xa0)) >> 1);
	second |= block_is(b, 0x83) & ~(block_is(b, 0xbb) >> 1);
	return first & second >> 1 & ~(3ull << 62);
}

/* The same of U+4000 .. U+9FFF without the hexagrams E4 B7: Han letters. DeepSeek: U+4E00 ..
 * U+8FFF. */
SCAN_INLINE uint64_t leads_of_han(const struct block *b, struct block_rules r)
{
	uint64_t first = block_is(b, 0xe4) & ~(1ull << 63);

	if (r.deepseek)
		return block_in(b, 0, 0xe5, 4) | (first & block_in(b, 0, 0xb8, 8) >> 1);
	return block_in(b, 0, 0xe5, 5) | (first & ~(block_is(b, 0xb7) >> 1));
}

/* The same for letters of two bytes: U+0100 .. U+02BF, U+0400 .. U+047F. */
SCAN_INLINE uint64_t leads_of_two(const struct block *b, struct block_rules r)
{
	return r.cased ? 0 : block_in(b, 0, 0xc4, 7) | block_in(b, 0, 0xd0, 2);
}

/* Add letters of two bytes with case: U+0400 .. U+045F, and most of U+0391 .. U+03CE. */
SCAN_INLINE void class_cased(struct classes *c, const struct block *b)
{
	uint64_t ce = block_is(b, 0xce), d0 = block_is(b, 0xd0), upper, lower;

	upper = ce & (block_in(b, 0, 0x91, 17) | block_in(b, 0, 0xa3, 7)) >> 1;
	upper |= d0 & block_in(b, 0, 0x80, 48) >> 1;
	lower = ce & block_in(b, 0, 0xac, 20) >> 1;
	lower |= block_is(b, 0xcf) & block_in(b, 0, 0x80, 15) >> 1;
	lower |= d0 & block_in(b, 0, 0xb0, 16) >> 1;
	lower |= block_is(b, 0xd1) & block_in(b, 0, 0x80, 32) >> 1;
	c->upper |= upper | upper << 1;
	c->lower |= lower | lower << 1;
	c->letter |= c->upper | c->lower;
}

SCAN_INLINE uint64_t bits_of_three(uint64_t leads)
{
	return leads | leads << 1 | leads << 2;
}

/* Return the first bytes <e0> of letters and marks in U+0900 .. U+0963, U+0E01 .. U+0E3A, U+0E40 ..
 * U+0E4E: Devanagari and Thai. Without those that may be marks after a sign. */
SCAN_INLINE uint64_t leads_of_marked(const struct classes *c, const struct block *b, uint64_t e0)
{
	uint64_t leads = block_is(b, 0xa4), bits;

	leads |= block_is(b, 0xa5) & block_in(b, 0, 0x80, 36) >> 1;
	leads |= block_is(b, 0xb8) & block_in(b, 0, 0x81, 58) >> 1;
	leads |= block_is(b, 0xb9) & block_in(b, 0, 0x80, 15) >> 1;
	leads = e0 & leads >> 1 & ~(3ull << 62);
	bits = bits_of_three(leads);
	return leads & ~(c->other << 1) & (~(c->high << 1) | bits << 1);
}

SCAN_INLINE void class_high(struct classes *c, const struct block *b, const uint8_t *p,
    struct block_rules r)
{
	uint64_t han = leads_of_han(b, r), e3 = block_is(b, 0xe3), e0, cjk = 0, letter, bits, looked;

	letter = block_in(b, 0, 0xeb, 2);			/* U+B000 .. U+CFFF */
	*(r.deepseek || r.han ? &cjk : &letter) |= han;
	if (e3 != 0)
		*(r.deepseek ? &cjk : &letter) |= leads_of_kana(b, e3);
	if (r.letters & UC_MARK && (e0 = block_is(b, 0xe0)) != 0)
		letter |= leads_of_marked(c, b, e0);
	bits = leads_of_two(b, r);
	bits |= bits << 1 | bits_of_three(letter);
	c->inside = block_in(b, 0, 0x80, 64);
	c->letter |= bits;
	c->both |= r.cased ? bits : 0;
	c->cjk |= bits_of_three(cjk);
	if (r.cased && block_in(b, 0, 0xce, 4) != 0)
		class_cased(c, b);
	looked = c->high & ~c->inside & ~(c->letter | c->cjk);
	if (r.letters & UC_MARK && !r.han &&
	    __builtin_popcountll(looked & block_in(b, 0, 0xe0, 32)) > LOOKED_MOST)
		c->odd |= looked & block_in(b, 0, 0xe0, 32);
	class_look(c, p, looked & ~c->odd, r);
	c->odd |= c->mark & c->other << 1;
}

SCAN_INLINE struct classes classes_of(const uint8_t *p, struct block_rules r)
{
	struct block b = block_load(p);
	struct classes c = {
		.high = block_high(&b),
		.letter = block_in(&b, 0x20, 'a', 26),
		.digit = block_in(&b, 0, '0', 10),
		.space = block_is(&b, ' '),
		.white = block_in(&b, 0, '\t', 5),
	};

	if (!r.gpt2)
		c.line = block_is(&b, '\n') | block_is(&b, '\r');
	c.white &= ~c.line;
	c.other = ~(c.letter | c.digit | c.space | c.white | c.line | c.high);
	if (r.contraction != CONTRACTION_NONE)
		c.apostrophe = block_is(&b, '\'');
	if (r.slash)
		c.slash = block_is(&b, '/');
	if (r.cased) {
		c.upper = block_in(&b, 0, 'A', 26);
		c.lower = c.letter & ~c.upper;
	}
	if (r.deepseek)		/* controls have no class */
		c.odd = c.other & (block_in(&b, 0, 0, ' ') | block_is(&b, 127));
	if (__builtin_expect(c.high != 0, 0))
		class_high(&c, &b, p, r);
	c.odd |= c.upper & c.both << 1;
	return c;
}

/* ---- where pieces start ---------------------------------------------------------------------- */

/* The bits from each of <seeds> to the end of the run of <runs> that it starts. */
SCAN_INLINE uint64_t run_from(uint64_t runs, uint64_t seeds)
{
	return runs & ~(runs + seeds);
}

/* The bits after these runs. */
SCAN_INLINE uint64_t run_after(uint64_t runs, uint64_t seeds)
{
	return (runs + seeds) & ~runs;
}

SCAN_INLINE uint64_t first_of(uint64_t runs)
{
	return runs & ~(runs << 1);
}

/* Of the runs that start at <first>, drop those that end before one of <stops>. */
SCAN_INLINE uint64_t not_before(uint64_t first, uint64_t runs, uint64_t stops)
{
	uint64_t bad = run_after(runs, first) & stops, below;

	for (; bad != 0; bad &= bad - 1) {
		below = first & ((bad & -bad) - 1);
		first &= ~(1ull << (63 - (unsigned)__builtin_clzll(below)));
	}
	return first;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ of the white space that no sign took. The last character of a run may
 * join what follows. */
SCAN_INLINE uint64_t starts_of_space(const struct classes *c, uint64_t lines, struct block_rules r)
{
	uint64_t white = c->space | c->white, last = white & ~((white | c->line) >> 1);

	if (r.deepseek)		/* texts end at numbers and CJK: nothing follows */
		last &= ~((c->digit | c->cjk) >> 1);
	return first_of(white | lines) | not_before(white & lines << 1, white, lines) | last;
}

SCAN_INLINE uint64_t starts_of_digits(const struct classes *c, struct block_rules r)
{
	uint64_t digit = c->digit, starts = first_of(digit), whole, x;

	if (r.gpt2)
		return starts & ~(c->space << 1);
	if (r.digits == 1)
		return digit;
	if (r.digits == 0)
		return starts;
	whole = digit & digit << 1;
	whole &= whole << 2;
	for (x = starts; (x = x << 3 & whole) != 0;)
		starts |= x;
	return starts;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d) at the apostrophes <at>. A second one in a row after a word is left
 * to the scanner. */
SCAN_INLINE uint64_t contract(struct classes *c, const uint8_t *p, uint64_t starts, uint64_t at,
    struct block_rules r)
{
	unsigned end = 0, q;
	int n;

	for (; __builtin_expect(at != 0, 0); at &= at - 1) {
		q = (unsigned)__builtin_ctzll(at);
		n = scan_contraction(p + q, (struct scan){ p + q + 4, true });
		if (n == 0 || (r.gpt2 && (p[q + 1] < 'a' || p[q + 1] > 'z' || (n > 2 && p[q + 2] < 'a'))))
			continue;
		if (r.contraction == CONTRACTION_AFTER) {
			c->odd |= end == q ? 1ull << q : 0;
			starts &= ~(1ull << q);
		}
		end = q + (unsigned)n;
		starts &= ~(((1ull << n) - 2) << q);
		starts |= (1ull << (n - 1)) << q << 1;
	}
	return starts;
}

/* Return the bits before the first of <odd> without those at the end that later bytes decide: white
 * space after the start of its run. */
SCAN_INLINE uint64_t certain(uint64_t odd, uint64_t space)
{
	unsigned n = odd == 0 ? 64 : (unsigned)__builtin_ctzll(odd), run;
	uint64_t rest;

	if (n == 0 || (rest = ~space << (64 - n)) == 0)
		return 0;
	run = (unsigned)__builtin_clzll(rest);
	n -= run == 0 ? 0 : run - 1;
	return n == 64 ? UINT64_MAX : (1ull << n) - 1;
}

/* Return where pieces start in the 64 bytes at the piece <p>, except the first, as far as it is
 * certain. */
SCAN_INLINE uint64_t starts64(const uint8_t *p, struct block_rules r)
{
	struct classes c = classes_of(p, r);
	uint64_t spaces = c.space | c.white | c.line, sign, letter, alone, joined, taken, starts;

	/* line ends after other signs belong to them */
	taken = run_from(c.line, c.line & c.other << 1);
	c.odd |= c.slash & taken << 1;
	starts = starts_of_space(&c, c.line & ~taken, r) | starts_of_digits(&c, r) | first_of(c.cjk);
	starts |= sign = first_of(c.other) & ~(c.space << 1);
	letter = first_of(c.letter) & ~(c.space << 1);
	if (!r.gpt2) {		/* one character before letters joins them */
		alone = (sign << 1 & ~c.inside) | run_after(c.other & c.inside, sign << 1 & c.inside);
		joined = r.deepseek ? letter & alone & ~(c.high << 1 | c.high) : alone;
		if (r.deepseek)
			c.odd |= run_from(c.letter, joined) & c.high;
		letter &= ~(c.white << 1 | joined);
	}
	starts |= letter | (c.upper & c.lower << 1);
	if (r.contraction == CONTRACTION_FIRST)
		starts = contract(&c, p, starts, sign & c.apostrophe & c.letter >> 1, r);
	if (r.contraction == CONTRACTION_AFTER) {
		starts = contract(&c, p, starts, c.apostrophe & c.letter << 1 & c.letter >> 1, r);
		c.odd |= c.apostrophe & 1ull << 63;
	}
	return starts & certain(c.odd, spaces) & ~1ull;
}

/* ---- all of a text --------------------------------------------------------------------------- */

SCAN_INLINE uint32_t block_run(const uint8_t *p, size_t n, uint32_t at, uint32_t *to, uint32_t most,
    struct block_rules r)
{
	uint32_t k = 0, step;
	uint64_t starts;

	while (n >= BLOCK_BYTES && most - k >= BLOCK_PIECES && (starts = starts64(p, r)) != 0) {
		k += block_places(starts, at, to + k);
		step = 63 - (uint32_t)__builtin_clzll(starts);
		p += step;
		at += step;
		n -= step;
	}
	return k;
}

#define BLOCK_RULES(family, ...) \
	uint32_t BLOCK_NAME(family)(const uint8_t *p, size_t n, uint32_t at, uint32_t *to, uint32_t most) \
	{ \
		return block_run(p, n, at, to, most, (struct block_rules){ __VA_ARGS__ }); \
	}

#define L	.letters = UC_LETTER
#define LM	.letters = UC_LETTER | UC_MARK
BLOCK_RULES(l3, L, .digits = 3, .contraction = CONTRACTION_FIRST)
BLOCK_RULES(q2, L, .digits = 1, .contraction = CONTRACTION_FIRST)
BLOCK_RULES(q35, LM, .digits = 1, .contraction = CONTRACTION_FIRST)
BLOCK_RULES(digit_runs, L, .contraction = CONTRACTION_FIRST)
BLOCK_RULES(o200k, LM, .digits = 3, .contraction = CONTRACTION_AFTER, .cased = true, .slash = true)
BLOCK_RULES(tekken, LM, .digits = 1, .cased = true, .slash = true)
BLOCK_RULES(kimi, LM, .digits = 3, .contraction = CONTRACTION_AFTER, .cased = true, .han = true)
BLOCK_RULES(gpt2, L, .contraction = CONTRACTION_FIRST, .gpt2 = true)
BLOCK_RULES(deepseek, LM, .digits = 3, .deepseek = true)
#undef LM
#undef L

#endif
#endif
