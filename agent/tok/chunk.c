/* chunk.c - where a long text may be cut.
 *
 * A cut at k is valid if the pieces of text[0 .. k) and of text[k ..), each split as a whole text,
 * are those of the text together. For a regular expression without look-after, matched repeatedly
 * from the end of the last match, this holds if
 *   (1) no match contains both the character before k and the one at k. Then a match ends at k,
 *       whatever is further left, and the next one never sees the left side.
 *   (2) nothing on the left looks across k. Only \s+(?!\S) looks ahead, from the end of a run of
 *       white space. So it suffices that the left side does not end in white space, or that
 *       \s+ matches the same there at the end of a text.
 *
 * The families (full patterns: the scanners of split/). White space in a match is its first
 * character, before letters or punctuation ("[^\r\n\p{L}\p{N}]?", " ?"), or all of it
 * ("\s*[\r\n]+", "\s+(?!\S)", "\s+"), or line ends at its end ("[\r\n]*"). So this holds for cl100k
 * (Llama 3, GLM, Qwen 2, 3 and 3.5), o200k (gpt-oss, Llama 4), Tekken, Kimi, DeepSeek 3 and GPT-2:
 *   CHUNK_SPACE   x| with x no white space: (1) in a match, a space never follows other
 *                 characters; (2) the left ends in x.
 *   CHUNK_LINE    x\n|y with x no white space, y neither white space nor '/': (1) after a line
 *                 end, a match continues with line ends, white space or (o200k) '/' only;
 *                 (2) the white space on the left is one line end. It belongs to the match of
 *                 x (punctuation), or is a match of its own: of \s*[\r\n]+, or, if the
 *                 pattern lacks that (GPT-2), of \s+(?!\S) at the end of a text and of \s+
 *                 before y, which is the same character.
 *   CHUNK_DIGIT   a|1 with an ASCII letter and digit: (1) no match mixes digits with letters,
 *                 \p{N} is alone (after " " in GPT-2); (2) the left ends in a letter. Groups
 *                 of three digits start at k in both cases.
 *   CHUNK_CJK     one of U+4E00 .. U+9F7F, hiragana or katakana that are Lo in every version of
 *                 Unicode, then one of U+3001 U+3002 U+FF01 U+FF0C U+FF1F: (1) after letters a
 *                 match continues with letters, marks or 's and the like; in DeepSeek's
 *                 chain and in Kimi's the run of an ideograph ends there too; (2) the left
 *                 ends in a letter.
 * Each step of a chain obeys this, so the pieces of the chain do. Falcon's chain is punctuation,
 * which ends a match of GPT-2's pattern; then that pattern; then numbers, whose runs touch no space
 * and no letter.
 *
 * The first DeepSeek chains (split_deepseek1.c) keep symbols and the text between them together, so
 * a space after a symbol is no place. After an ASCII letter it is (CHUNK_WORD): a run of letters
 * ends there, and the white space joins what follows. A line end and a number are pieces of their
 * own, so CHUNK_LINE and CHUNK_DIGIT hold. The marks of CHUNK_CJK are punctuation in both chains;
 * an ideograph is a letter in one and no mark in the other.
 *
 * NFC changes nothing: the character at k (ASCII, an ideograph, the five marks) neither combines
 * with the one before nor moves, and the one before (ASCII, Lo, no white space) keeps its
 * properties. NFD makes two characters of U+304C, one a mark; NFKC makes a comma of U+FF0C. Only
 * CHUNK_SPACE and CHUNK_DIGIT after ASCII would be left there, which is not worth a rule.
 *
 * Bad UTF-8 becomes U+FFFD, one for each maximal bad part. No bad part spans a cut, because the
 * byte at k starts a character.
 *
 * Choice among valid places: the first within CHUNK_LEAST .. CHUNK_MOST bytes at which the hash of
 * the eight bytes before has a certain value, one in 64. If there is none, the one with the least
 * hash; if there is no valid place, the first one after. All this depends on nearby bytes only, so
 * two texts with a common part have the same chunks from the first common cut on. Words are
 * searched sixteen bytes at a time. */
#include "agent/base/simd16.h"
#include "agent/tok/chunk.h"

#define ONE_IN	64u

static bool known(const char *name)
{
	static const char *const names[] = { "cl100k", "cl100k-digits", "qwen2", "qwen3.5", "o200k",
		"tekken", "kimi", "deepseek", "gpt2", "falcon" };

	for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* The first DeepSeek chains allow cuts after a letter only. */
static unsigned places_of(const char *name)
{
	if (name != NULL && (strcmp(name, "deepseek-coder") == 0 || strcmp(name, "deepseek-llm") == 0))
		return CHUNK_WORD | CHUNK_LINE | CHUNK_DIGIT | CHUNK_CJK;
	return known(name) ? CHUNK_ALL : 0;
}

unsigned chunk_places(struct split_traits split, const struct normal_step *normal, size_t n)
{
	unsigned places = split.rewrites || split.first_differs ? 0 : places_of(split.name);

	for (size_t i = 0; i < n; i++)
		if (normal[i].kind != NORMAL_NFC && normal[i].kind != NORMAL_BYTE_LEVEL)
			return 0;
	return places;
}

/* ---- one place ------------------------------------------------------------------------------- */

/* Tell if the character that ends before <p> may be white space. Errs towards true, because it does
 * not decode the character. */
static bool space_before(const uint8_t *p)
{
	if (p[-1] < 0x80)
		return p[-1] <= ' ' || p[-1] == 0x7f;
	/* U+0085, U+00A0; U+1680, U+2000 .. U+205F; U+3000 */
	return p[-2] == 0xc2 || p[-3] == 0xe1 || p[-3] == 0xe2 || (p[-3] == 0xe3 && p[-2] == 0x80);
}

static bool letter_of_ascii(uint8_t b)
{
	return (uint8_t)((b | 0x20) - 'a') < 26;
}

static bool digit(uint8_t b)
{
	return (uint8_t)(b - '0') < 10;
}

/* Tell if <b> starts a character that is neither white space nor '/': ASCII from '0' to '~', or
 * U+4000 .. U+9FFF. */
static bool line_begins(uint8_t b)
{
	return (b >= '0' && b <= '~') || (b >= 0xe4 && b <= 0xe9);
}

static bool follows(uint8_t b)
{
	return (b & 0xc0) == 0x80;
}

/* Tell if the three bytes before <p> are an ideograph or kana that is a letter in every version of
 * Unicode. */
static bool cjk_before(const uint8_t *p)
{
	uint8_t a = p[-3], b = p[-2], c = p[-1];

	if (!follows(b) || !follows(c))
		return false;
	if (a == 0xe4)
		return b >= 0xb8;				/* U+4E00 .. */
	if (a >= 0xe5 && a <= 0xe8)
		return true;
	if (a == 0xe9)
		return b < 0xbe;				/* .. U+9F7F */
	if (a != 0xe3)
		return false;
	return (b == 0x81 && c >= 0x81) ||			/* U+3041 .. U+307F */
	       (b == 0x82 && (c <= 0x96 || c >= 0xa1)) ||	/* U+3080 .. U+3096, U+30A1 .. U+30BF */
	       (b == 0x83 && c <= 0xba);			/* U+30C0 .. U+30FA */
}

static bool cjk_mark(const uint8_t *p)
{
	if (p[0] == 0xe3)
		return p[1] == 0x80 && (p[2] == 0x81 || p[2] == 0x82);
	return p[0] == 0xef && p[1] == 0xbc && (p[2] == 0x81 || p[2] == 0x8c || p[2] == 0x9f);
}

static inline unsigned place_at(unsigned places, const uint8_t *p)
{
	if (p[0] == ' ')
		return !space_before(p) ? places & (CHUNK_SPACE | (letter_of_ascii(p[-1]) ? CHUNK_WORD : 0)) : 0;
	if (p[-1] == '\n')
		return line_begins(p[0]) && !space_before(p - 1) ? places & CHUNK_LINE : 0;
	if (digit(p[0]))
		return letter_of_ascii(p[-1]) ? places & CHUNK_DIGIT : 0;
	return p[0] >= 0xe3 && cjk_mark(p) && cjk_before(p) ? places & CHUNK_CJK : 0;
}

bool chunk_place(unsigned places, const uint8_t *p)
{
	return place_at(places, p) != 0;
}

/* ---- one after the other --------------------------------------------------------------------- */

/* Sixteen places at a time, one bit each. */
struct sixteen {
	unsigned sure;			/* a space after an ASCII character */
	unsigned maybe;			/* place_at() must decide */
};

#if SIMD16
#define SIXTEEN	1

static inline __m128i load16(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i is16(__m128i v, uint8_t b)
{
	return _mm_cmpeq_epi8(v, _mm_set1_epi8((char)b));
}

/* Classify the places before the 16 bytes from <p> on. */
static inline struct sixteen look16(const uint8_t *p)
{
	const __m128i now = load16(p), before = load16(p - 1), nine = _mm_set1_epi8(9);
	__m128i space = is16(now, ' '), graph, digits, maybe;

	/* as signed bytes, all but ASCII is below ' ' */
	graph = _mm_andnot_si128(is16(before, 0x7f), _mm_cmpgt_epi8(before, _mm_set1_epi8(' ')));
	graph = _mm_and_si128(graph, space);
	digits = _mm_sub_epi8(now, _mm_set1_epi8('0'));
	digits = _mm_cmpeq_epi8(_mm_min_epu8(digits, nine), digits);
	maybe = _mm_or_si128(space, _mm_and_si128(digits, _mm_cmpgt_epi8(before, _mm_set1_epi8('@'))));
	maybe = _mm_or_si128(maybe, is16(before, '\n'));
	maybe = _mm_or_si128(maybe, is16(now, 0xef));
	maybe = _mm_or_si128(maybe, _mm_and_si128(is16(now, 0xe3), is16(load16(p + 1), 0x80)));
	return (struct sixteen){ (unsigned)_mm_movemask_epi8(graph),
		(unsigned)_mm_movemask_epi8(_mm_andnot_si128(graph, maybe)) };
}
#else
#define SIXTEEN	0

static inline struct sixteen look16(const uint8_t *p)
{
	return (struct sixteen){ 0, 0xffff };
}
#endif

/* Hash the eight bytes before a place. Not keyed, because a client that knows it can only make the
 * chunks of its own text worse. */
static inline uint32_t hash_before(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p - 8, sizeof(w));
	w *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(w >> 32);
}

/* The best place so far. */
struct best {
	uint32_t least;
	size_t at;			/* 0: none */
};

/* Tell if <k> is the place to cut. <b> NULL: any valid place is. */
static inline bool take(struct best *b, const uint8_t *p, size_t k)
{
	uint32_t h;

	if (b == NULL)
		return true;
	h = hash_before(p + k);
	if (h < b->least) {
		b->least = h;
		b->at = k;
	}
	return h < UINT32_MAX / ONE_IN;
}

/* Return the first place to cut in [from, to) of <p>, or <to>. [to, to + CHUNK_AHEAD) is readable.
 */
static size_t scan(unsigned places, const uint8_t *p, size_t from, size_t to, struct best *b)
{
	unsigned m, sure = (places & CHUNK_SPACE) != 0 ? 0xffff : 0,
		    spaces = (places & (CHUNK_SPACE | CHUNK_WORD)) != 0 ? 0xffff : 0;
	size_t i = from, k;

	while (SIXTEEN && i + 17 <= to + CHUNK_AHEAD) {
		struct sixteen s = look16(p + i);

		for (m = (s.sure & spaces) | s.maybe; m != 0; m &= m - 1) {
			k = i + (unsigned)__builtin_ctz(m);
			if (k < to &&
			    (((s.sure & sure) >> (k - i) & 1) != 0 ||
				place_at(places, p + k) != 0) &&
			    take(b, p, k))
				return k;
		}
		i += 16;
	}
	for (; i < to; i++)
		if (place_at(places, p + i) != 0 && take(b, p, i))
			return i;
	return to;
}

/* Return the place in the window, or 0. */
static size_t best_place(unsigned places, const uint8_t *p)
{
	struct best b = { UINT32_MAX, 0 };
	size_t at = scan(places, p, CHUNK_LEAST, CHUNK_MOST + 1, &b);

	return at <= CHUNK_MOST ? at : b.at;
}

size_t chunk_next(unsigned places, struct chunk_search *s, struct span text, bool ended)
{
	const uint8_t *p = (const uint8_t *)text.p;
	size_t at, to;

	if (text.n <= CHUNK_MOST + CHUNK_AHEAD && !ended)
		return 0;
	if (text.n <= CHUNK_MOST + CHUNK_AHEAD || places == 0)
		return ended ? text.n : 0;
	if (s->seen == 0) {
		if ((at = best_place(places, p)) != 0)
			return at;
		s->seen = CHUNK_MOST + 1;
	}
	to = text.n - CHUNK_AHEAD;
	at = s->seen < to ? scan(places, p, s->seen, to, NULL) : to;
	if (at < to) {
		s->seen = 0;
		return at;
	}
	s->seen = to > s->seen ? to : s->seen;
	if (!ended)
		return 0;
	s->seen = 0;
	return text.n;
}

size_t chunk_last(unsigned places, struct span text)
{
	const uint8_t *p = (const uint8_t *)text.p;
	size_t k;

	if (places == 0 || text.n > CHUNK_MOST + CHUNK_AHEAD || text.n < CHUNK_AHEAD)
		return 0;
	for (k = text.n - CHUNK_AHEAD; k >= 4; k--)
		if (place_at(places, p + k) != 0)
			return k;
	return 0;
}
