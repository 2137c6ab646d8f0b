/* split_deepseek1.c - the chains of the first DeepSeek models as one scanner: coder (four Splits
 * and Digits) and LLM (five).
 *
 * 	      coder					LLM
 * 	1     [\r\n]					the same
 * 	2     \s?\p{L}+				\s?[letters of alphabets]+		<alphabets>
 * 	3     \s?\p{P}+				\s?[!-/:-~, wide forms, quotes, U+3000-U+3002]+
 * 	4						\s+$
 * 	5     [U+4E00-9FA5 U+0800-4E00 U+AC00-D7FF]+	the same
 * 	6     Digits, each alone				the same
 *
 * Each step reads the pieces of the one before it. Together they divide a text into units and the
 * rest between them:
 *
 * 	LETTER		letters, with one white space directly before them (OPEN)		step 2
 * 	PUNCT		punctuation, likewise (OPEN_PUNCT)				step 3
 * 	LINE, NUMBER	one character							steps 1, 6
 * 	SPACE, OTHER	the rest, up to the next of these
 *
 * Units and rests are cut further where the range of step 5 starts and ends. In the LLM chain the
 * class of step 3 also cuts letters ("caf" and "\xc3\xa9"), and white space at the end of a piece
 * is a piece (step 4). U+3000 is white space and punctuation there (WIDE).
 *
 * Nothing depends on text before a piece, so the scanner has no state but its place. It looks ahead
 * two characters, and, once per run, over a run of white space. O(n). */
#include "agent/tok/split/split_family_in.h"

enum kind { END, LINE, NUMBER, LETTER, PUNCT, WIDE, SPACE, OTHER, OPEN, OPEN_PUNCT };

struct range {
	uint32_t first, last;
};

/* Characters beyond ASCII in the second Split of the LLM chain. */
static const struct range alphabets[] = {
	{ 0xb5, 0xb5 }, { 0xc0, 0xd6 }, { 0xd8, 0xf6 }, { 0xf8, 0x1ba }, { 0x1bc, 0x1bf },
	{ 0x1c4, 0x293 }, { 0x295, 0x2af }, { 0x370, 0x373 }, { 0x376, 0x377 }, { 0x37b, 0x37d },
	{ 0x37f, 0x37f }, { 0x386, 0x386 }, { 0x388, 0x38a }, { 0x38c, 0x38c }, { 0x38e, 0x3a1 },
	{ 0x3a3, 0x3f5 }, { 0x3f7, 0x481 }, { 0x48a, 0x52f }, { 0x531, 0x556 }, { 0x10a0, 0x10c5 },
	{ 0x13a0, 0x13f5 }, { 0x13f8, 0x13fd }, { 0x1c90, 0x1cba }, { 0x1cbd, 0x1cbf },
	{ 0x1d00, 0x1d2b }, { 0x1d6b, 0x1d77 }, { 0x1d79, 0x1d9a }, { 0x1e00, 0x1f15 },
	{ 0x1f18, 0x1f1d }, { 0x1f20, 0x1f45 }, { 0x1f48, 0x1f4d }, { 0x1f50, 0x1f57 },
	{ 0x1f59, 0x1f59 }, { 0x1f5b, 0x1f5b }, { 0x1f5d, 0x1f5d }, { 0x1f5f, 0x1f7d },
	{ 0x1f80, 0x1fb4 }, { 0x1fb6, 0x1fbc }, { 0x1fbe, 0x1fbe }, { 0x1fc2, 0x1fc4 },
	{ 0x1fc6, 0x1fcc }, { 0x1fd0, 0x1fd3 }, { 0x1fd6, 0x1fdb }, { 0x1fe0, 0x1fec },
	{ 0x1ff2, 0x1ff4 }, { 0x1ff6, 0x1ffc }, { 0x2102, 0x2102 }, { 0x2107, 0x2107 },
	{ 0x210a, 0x2113 }, { 0x2115, 0x2115 }, { 0x2119, 0x211d }, { 0x2124, 0x2124 },
	{ 0x2126, 0x2126 }, { 0x2128, 0x2128 }, { 0x212a, 0x212d }, { 0x212f, 0x2134 },
	{ 0x2139, 0x2139 }, { 0x213c, 0x213f }, { 0x2145, 0x2149 }, { 0x214e, 0x214e },
	{ 0x2183, 0x2184 }, { 0x2c00, 0x2c7b }, { 0x2c7e, 0x2ce4 }, { 0x2ceb, 0x2cee },
	{ 0x2cf2, 0x2cf3 }, { 0xa640, 0xa66d }, { 0xa680, 0xa69b }, { 0xa722, 0xa76f },
	{ 0xa771, 0xa787 }, { 0xa78b, 0xa78e }, { 0xab70, 0xabbf }, { 0xfb00, 0xfb06 },
	{ 0xfb13, 0xfb17 }, { 0xff21, 0xff3a }, { 0xff41, 0xff5a }, { 0x10400, 0x1044f },
	{ 0x104b0, 0x104d3 }, { 0x104d8, 0x104fb }, { 0x10c80, 0x10cb2 }, { 0x10cc0, 0x10cf2 },
	{ 0x118a0, 0x118df }, { 0x1e900, 0x1e943 },
};

/* Characters beyond ASCII that are \p{P} in Unicode 16 but not UC_PUNCT, which is older. */
static const struct range not_as_punct[] = {
	{ 0x61d, 0x61d }, { 0x9fd, 0x9fd }, { 0xa76, 0xa76 }, { 0xc77, 0xc77 }, { 0xc84, 0xc84 },
	{ 0x166d, 0x166d }, { 0x1b4e, 0x1b4f }, { 0x1b7d, 0x1b7f }, { 0x2e43, 0x2e4f },
	{ 0x2e52, 0x2e5d }, { 0x10d6e, 0x10d6e }, { 0x10ead, 0x10ead }, { 0x10f55, 0x10f59 },
	{ 0x10f86, 0x10f89 }, { 0x111c9, 0x111c9 }, { 0x113d4, 0x113d5 }, { 0x113d7, 0x113d8 },
	{ 0x1144b, 0x1144f }, { 0x1145a, 0x1145b }, { 0x1145d, 0x1145d }, { 0x11660, 0x1166c },
	{ 0x116b9, 0x116b9 }, { 0x1183b, 0x1183b }, { 0x11944, 0x11946 }, { 0x119e2, 0x119e2 },
	{ 0x11a3f, 0x11a46 }, { 0x11a9a, 0x11a9c }, { 0x11a9e, 0x11aa2 }, { 0x11b00, 0x11b09 },
	{ 0x11be1, 0x11be1 }, { 0x11c41, 0x11c45 }, { 0x11c70, 0x11c71 }, { 0x11ef7, 0x11ef8 },
	{ 0x11f43, 0x11f4f }, { 0x11fff, 0x11fff }, { 0x12ff1, 0x12ff2 }, { 0x16d6d, 0x16d6f },
	{ 0x16e97, 0x16e9a }, { 0x16fe2, 0x16fe2 }, { 0x1e5ff, 0x1e5ff }, { 0x1e95e, 0x1e95f },
};

static bool in_ranges(const struct range *r, size_t n, uint32_t cp)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (r[mid].last < cp)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && r[low].first <= cp;
}
#define IN(table, cp)	in_ranges(table, sizeof(table) / sizeof((table)[0]), cp)

/* Step 5. */
SCAN_INLINE bool in_east(uint32_t cp)
{
	return cp - 0x800 <= 0x9fa5 - 0x800 || cp - 0xac00 <= 0xd7ff - 0xac00;
}

/* Step 3 of the LLM chain. */
SCAN_INLINE bool in_marks(uint32_t cp)
{
	return cp - '!' <= '/' - '!' || cp - ':' <= '~' - ':' || cp - 0xff01 <= 0xff0f - 0xff01 ||
	       cp - 0xff1a <= 0xff5e - 0xff1a || cp - 0x2018 <= 0x201f - 0x2018 ||
	       cp - 0x3000 <= 0x3002 - 0x3000;
}

/* ---- one character --------------------------------------------------------------------------- */

struct look {
	const uint8_t *end;
	bool ended;			/* the end of the bytes was met */
	bool llm;
};

struct one {
	enum kind kind;
	uint32_t cp;
	size_t len;
};

SCAN_INLINE enum kind kind_of_ascii(uint8_t b, bool llm)
{
	unsigned k = uc_class_leaf[0][b];

	if (k & UC_LETTER)
		return LETTER;
	if (k & UC_SPACE)
		return scan_newline(b) ? LINE : SPACE;
	if (k & UC_NUMBER)
		return NUMBER;
	if (!(k & UC_PUNCT_SYMBOL))
		return OTHER;
	return llm || strchr("$+<=>^`|~", b) == NULL ? PUNCT : OTHER;
}

static enum kind kind_of(uint32_t cp, bool llm)
{
	unsigned k = uc_class(cp), bits = uc_is_plain(cp) ? 0 : uc_kind(cp).bits;

	if (bits & UC_DIGIT)
		return NUMBER;
	if (llm ? IN(alphabets, cp) : (k & UC_LETTER) != 0)
		return LETTER;
	if (llm ? in_marks(cp) : ((bits & UC_PUNCT) != 0) != IN(not_as_punct, cp))
		return k & UC_SPACE ? WIDE : PUNCT;
	return k & UC_SPACE ? SPACE : OTHER;
}

/* Classify the character at <p> by itself. */
SCAN_INLINE struct one alone(struct look *l, const uint8_t *p)
{
	struct one c = { .kind = END };

	if (p == l->end) {
		l->ended = true;
		return c;
	}
	if (*p < 0x80)
		return (struct one){ kind_of_ascii(*p, l->llm), *p, 1 };
	c.len = utf8_get(p, (size_t)(l->end - p), &c.cp);
	c.kind = kind_of(c.cp, l->llm);
	return c;
}

/* The same, with white space that joins the next character. */
static struct one one_at(struct look *l, const uint8_t *p)
{
	struct one c = alone(l, p), next;

	if (c.kind != SPACE && c.kind != WIDE)
		return c;
	next = alone(l, p + c.len);
	if (next.kind == LETTER)
		c.kind = OPEN;
	else if (c.kind == SPACE &&
		 (next.kind == PUNCT ||
		  (next.kind == WIDE && alone(l, p + c.len + next.len).kind != LETTER)))
		c.kind = OPEN_PUNCT;
	return c;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Return the end of the letters from <p> on, the first of which is <first>. */
static const uint8_t *letters(struct look *l, const uint8_t *p, struct one first)
{
	struct one prev = first, c;

	for (p += first.len; (c = alone(l, p)).kind == LETTER && in_east(c.cp) == in_east(prev.cp);
	     p += c.len) {
		if (l->llm && in_marks(c.cp) != in_marks(prev.cp) &&
		    (prev.kind == LETTER || in_marks(prev.cp)))
			break;
		prev = c;
	}
	return p;
}

/* Tell if a run of <kind> at <p>, white space, is the last of its piece: the next character is
 * outside. *end: the end of the run. */
static bool is_trailing(struct look *l, const uint8_t *p, enum kind kind, const uint8_t **end)
{
	struct one c;

	while ((c = one_at(l, p)).kind == kind)
		p += c.len;
	*end = p;
	return kind == WIDE ? c.kind != PUNCT : c.kind != OTHER && c.kind != NUMBER;
}

static const uint8_t *marks(struct look *l, const uint8_t *p, struct one first)
{
	const uint8_t *sure = p;
	bool solid = first.kind == PUNCT;
	uint32_t prev = first.cp;
	struct one c;

	for (p += first.len;; p += c.len) {
		c = one_at(l, p);
		if ((c.kind != PUNCT && c.kind != WIDE) || in_east(c.cp) != in_east(prev))
			return p;
		if (c.kind == WIDE && solid && p >= sure && is_trailing(l, p, WIDE, &sure))
			return p;
		solid |= c.kind == PUNCT;
		prev = c.cp;
	}
}

/* Return the end of characters that are in no unit. */
static const uint8_t *rest(struct look *l, const uint8_t *p, struct one first)
{
	const uint8_t *sure = p;
	bool solid = first.kind == OTHER;
	uint32_t prev = first.cp;
	struct one c;

	for (p += first.len;; p += c.len) {
		c = one_at(l, p);
		if ((c.kind != SPACE && c.kind != OTHER) || in_east(c.cp) != in_east(prev))
			return p;
		if (c.kind == SPACE && solid && l->llm && p >= sure &&
		    is_trailing(l, p, SPACE, &sure))
			return p;
		solid |= c.kind == OTHER;
		prev = c.cp;
	}
}

static const uint8_t *piece(const uint8_t *p, struct scan s, bool llm)
{
	struct look l = { .end = s.end, .llm = llm };
	struct one first = one_at(&l, p);
	const uint8_t *q = p + first.len;

	if (first.kind == LETTER || first.kind == OPEN)
		q = letters(&l, p, first);
	else if (first.kind == PUNCT || first.kind == WIDE || first.kind == OPEN_PUNCT)
		q = marks(&l, p, first);
	else if (first.kind == SPACE || first.kind == OTHER)
		q = rest(&l, p, first);
	return l.ended && !s.last ? NULL : q;
}

SCAN_INLINE void run(const uint8_t *p, size_t n, bool last, bool llm, struct pieces *out)
{
	struct scan s = { p + n, last };

	SCAN_LOOP(scan_word(p, s, *p == ' ') ?: piece(p, s, llm));
}

void split_scan_deepseek_coder(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	run(p, n, last, false, out);
}

void split_scan_deepseek_llm(const uint8_t *p, size_t n, bool last, struct pieces *out)
{
	run(p, n, last, true, out);
}

/* ---- which pattern it is --------------------------------------------------------------------- */

/* The characters of the pattern's class must be those of ASCII and of <alphabets>, in their order.
 */
bool split_is_alphabets(struct span pattern)
{
	static const char front[] = "\\s?[A-Za-z", back[] = "]+";
	const uint8_t *p = (const uint8_t *)pattern.p, *end = p + pattern.n;
	size_t i = 0;

	if (pattern.n < sizeof(front) + sizeof(back) || memcmp(p, front, sizeof(front) - 1) != 0 ||
	    memcmp(end - 2, back, 2) != 0)
		return false;
	for (p += sizeof(front) - 1, end -= 2; p < end; i++) {
		uint32_t first, last, next = 0;

		p += utf8_get(p, (size_t)(end - p), &first);
		for (last = first; p < end; last = next) {	/* "a-z", or "ab" */
			const uint8_t *q = p + (*p == '-');
			size_t len = q < end ? utf8_get(q, (size_t)(end - q), &next) : 0;

			if (len == 0 || (q == p && next != last + 1))
				break;
			p = q + len;
		}
		if (i == sizeof(alphabets) / sizeof(alphabets[0]) || alphabets[i].first != first ||
		    alphabets[i].last != last)
			return false;
	}
	return i == sizeof(alphabets) / sizeof(alphabets[0]);
}
