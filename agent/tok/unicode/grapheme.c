/* grapheme.c - find the end of a grapheme cluster. Every rule that looks back further than one
 * character looks back within the cluster only, so a cluster is found without what is before it.
 *
 * A character below U+0300 is nearly always a cluster of its own, and needs no search in the table
 * of ranges; neither do ideographs and Hangul syllables. */
#include "agent/tok/unicode/grapheme.h"

#include "agent/base/utf8.h"

enum grapheme_kind {
	GC_ANY,
	GC_CONTROL,
	GC_CR,
	GC_LF,
	GC_EXTEND,
	GC_JOINS,		/* Extend that does not end a conjunct */
	GC_LINKER,		/* Extend that makes one */
	GC_PICTURE,
	GC_CONSONANT,		/* of a conjunct */
	GC_L, GC_V, GC_T, GC_LV, GC_LVT,
	GC_PREPEND,
	GC_REGION,		/* half of a flag */
	GC_SPACING,
	GC_ZWJ
};

#include "agent/tok/unicode/grapheme_in.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static enum grapheme_kind kind_of(uint32_t cp)
{
	const struct uc_range *r;

	if (cp >= ' ' && cp < 0x7f)
		return GC_ANY;
	if (cp >= 0xae && cp < 0x300)
		return cp == 0xae ? GC_PICTURE : GC_ANY;
	if (cp >= 0x3400 && cp < 0xa000)
		return GC_ANY;
	if (cp >= 0xac00 && cp <= 0xd7a3)
		return (cp - 0xac00) % 28 == 0 ? GC_LV : GC_LVT;
	r = uc_range_of(kinds, COUNT(kinds), cp);
	return r != NULL ? (enum grapheme_kind)r->kind : GC_ANY;
}

/* What the cluster so far allows at its end. */
struct cluster {
	enum grapheme_kind last;
	bool picture;		/* a picture, Extend, and then nothing or ZWJ */
	bool consonant, linked;	/* a consonant and marks, with a linker among them */
	bool odd;		/* an odd number of halves of flags */
};

static bool is_extend(enum grapheme_kind k)
{
	return k == GC_EXTEND || k == GC_JOINS || k == GC_LINKER;
}

static bool ends_line(enum grapheme_kind k)
{
	return k == GC_CONTROL || k == GC_CR || k == GC_LF;
}

static bool hangul(enum grapheme_kind a, enum grapheme_kind b)
{
	if (a == GC_L)
		return b == GC_L || b == GC_V || b == GC_LV || b == GC_LVT;
	if (a == GC_LV || a == GC_V)
		return b == GC_V || b == GC_T;
	return (a == GC_LVT || a == GC_T) && b == GC_T;
}

/* Tell if a character of kind <k> belongs to the cluster. */
static bool joins(const struct cluster *c, enum grapheme_kind k)
{
	if (ends_line(c->last) || ends_line(k))
		return c->last == GC_CR && k == GC_LF;
	if (hangul(c->last, k) || is_extend(k) || k == GC_ZWJ || k == GC_SPACING || c->last == GC_PREPEND)
		return true;
	if (k == GC_CONSONANT)
		return c->linked;
	if (k == GC_PICTURE)
		return c->last == GC_ZWJ && c->picture;
	return k == GC_REGION && c->last == GC_REGION && c->odd;
}

static void take(struct cluster *c, enum grapheme_kind k)
{
	bool marks = k == GC_JOINS || k == GC_LINKER || k == GC_ZWJ;

	c->picture = k == GC_PICTURE || (c->picture && c->last != GC_ZWJ && (is_extend(k) || k == GC_ZWJ));
	c->linked = c->consonant && marks && (c->linked || k == GC_LINKER);
	c->consonant = k == GC_CONSONANT || (c->consonant && marks);
	c->odd = k == GC_REGION && !(c->odd && c->last == GC_REGION);
	c->last = k;
}

size_t grapheme_length(const uint8_t *p, size_t n)
{
	struct cluster c = { .last = GC_ANY };
	enum grapheme_kind k;
	size_t at, len;
	uint32_t cp;

	if (n == 0)
		return 0;
	at = utf8_get(p, n, &cp);
	take(&c, kind_of(cp));
	for (; at < n; at += len) {
		len = utf8_get(p + at, n - at, &cp);
		k = kind_of(cp);
		if (!joins(&c, k))
			break;
		take(&c, k);
	}
	return at;
}
