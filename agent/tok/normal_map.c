/* normal_map.c - the steps that replace characters by a table: Precompiled as tokenizers 0.22 runs
 * it, the same table as SentencePiece itself runs it, and Nmt.
 *
 * tokenizers looks up grapheme clusters of less than six bytes, and takes the replacement of the
 * shortest key that begins the cluster for all of it; other clusters, and those without a key,
 * character by character. SentencePiece takes the longest key from each place on, unless a piece
 * defined by the user begins there, which stays as it is except for its spaces. A hostile table
 * may have keys as long as the text, and long replacements; so the bytes looked at are charged, and
 * replacements before they are written. */
#include "agent/base/utf8.h"
#include "agent/tok/added.h"
#include "agent/tok/charsmap.h"
#include "agent/tok/normal_forms_in.h"
#include "agent/tok/unicode/grapheme.h"

#define CLUSTER_MAX	5u		/* bytes of a cluster that is looked up as a whole */

#define MARK		"\xe2\x96\x81"	/* U+2581 for a space */
#define REPLACEMENT	"\xef\xbf\xbd"	/* U+FFFD for a byte that begins no character */

/* Bytes per step of work.h: to look up; looked at after the end of the key, 2.6 ns each on a busy
 * machine; of a replacement. */
#define STEP_BYTES	1u
#define STEP_SEEN	2u
#define STEP_WRITTEN	16u
/* Steps per byte that SentencePiece's replacement is longer than its key: each may be a space, and
 * these are written one by one. */
#define ADDED_STEPS	1u

static bool spent(struct work_left *work, uint64_t steps, struct rewrite *w)
{
	if (work == NULL)
		return false;
	work_spend(work, steps);
	if (!work_spent(work))
		return false;
	w->bad = w->changed = true;
	return true;
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* Replace in[from .. to) unless the work is used up. */
static bool replace(
    struct rewrite *w, struct work_left *work, size_t from, size_t to, struct span by)
{
	if (spent(work, by.n / STEP_WRITTEN, w))
		return false;
	rewrite_put(w, from, to, by.p, by.n);
	return !w->bad;
}

/* Replace the characters of in[at .. end) one by one. */
static bool each(const struct charsmap *m, size_t at, size_t end, struct work_left *work,
    struct rewrite *w)
{
	struct span to;
	uint32_t cp;
	size_t len;

	for (; at < end; at += len) {
		len = utf8_get(w->in + at, end - at, &cp);
		if (charsmap_shortest(m, w->in + at, len, &to) > 0 && !replace(w, work, at, at + len, to))
			return false;
	}
	return true;
}

void map_clusters(const struct charsmap *m, struct work_left *work, struct rewrite *w)
{
	struct span to = { NULL, 0 };
	size_t at, len;

	for (at = 0; at < w->n; at += len) {
		len = grapheme_length(w->in + at, w->n - at);
		if (spent(work, len / STEP_BYTES, w))
			return;
		if (len > CLUSTER_MAX || charsmap_shortest(m, w->in + at, len, &to) == 0
			? !each(m, at, at + len, work, w)
			: !replace(w, work, at, at + len, to))
			return;
	}
}

/* Nmt: dropped, or a space. */
void map_nmt(struct rewrite *w)
{
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp >= ' ' && cp < 0x7f)
			continue;
		if (cp == '\t' || cp == '\n' || cp == '\f' || cp == '\r' || cp == 0x1680 ||
		    (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
		    cp == 0xfeff || cp == 0xfffd)
			rewrite_put(w, at, at + len, " ", 1);
		else if ((cp > 0 && cp < ' ') || cp == 0x7f || cp == 0x8f || cp == 0x9f)
			rewrite_put(w, at, at + len, NULL, 0);
	}
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

struct pieced {
	const struct charsmap *m;	/* NULL: nothing is replaced */
	const struct added *kept;	/* NULL: none */
	unsigned flags;
	struct span space;
	struct buf *out;
	bool after_space;
};

/* Return the bytes at <at> that are replaced by *to; *steps: the price to look them up. */
static size_t next(
    const struct pieced *s, const struct rewrite *w, size_t at, struct span *to, uint64_t *steps)
{
	size_t seen = 0, len = 0;
	uint64_t walk = 0;
	uint32_t cp;

	if (s->kept != NULL)
		len = added_longest(s->kept, span_of(w->in, w->n), at, &walk);
	if (len > 0) {
		*to = span_of(w->in + at, len);
		*steps = walk + len / STEP_BYTES;
		return len;
	}
	if (s->m != NULL)
		len = charsmap_longest(s->m, w->in + at, w->n - at, to, &seen);
	if (len == 0 && utf8_inside(w->in[at])) {	/* the key before ended inside a character */
		len = 1;
		*to = SPAN(REPLACEMENT);
	} else if (len == 0) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		*to = span_of(w->in + at, len);
	}
	*steps = walk + len / STEP_BYTES + (seen > len ? (seen - len) / STEP_SEEN : 0) +
		 (to->n > len ? (to->n - len) * ADDED_STEPS : 0);
	return len;
}

static void put(struct pieced *s, struct span to)
{
	while (s->after_space && to.n > 0 && to.p[0] == ' ')
		to = span_of(to.p + 1, to.n - 1);
	if (to.n > 0)
		s->after_space = to.p[to.n - 1] == ' ';
	for (const char *blank; to.n > 0 && (blank = memchr(to.p, ' ', to.n)) != NULL; ) {
		buf_add(s->out, to.p, (size_t)(blank - to.p));
		buf_span(s->out, s->space);
		to = span_of(blank + 1, to.n - (size_t)(blank + 1 - to.p));
	}
	buf_span(s->out, to);
	if ((s->flags & NORMAL_ONE_SPACE) == 0)
		s->after_space = false;
}

/* Drop spaces, or their marks, at the end. */
static void trim(struct pieced *s)
{
	struct buf *b = s->out;

	while (b->n >= s->space.n && memcmp(b->p + b->n - s->space.n, s->space.p, s->space.n) == 0)
		b->n -= s->space.n;
}

void map_sentence(const struct charsmap *m, const struct added *kept, unsigned flags, bool prefix,
    struct work_left *work, struct rewrite *w)
{
	struct pieced s = { .m = m, .kept = kept, .flags = flags, .out = w->out,
		.space = (flags & NORMAL_MARKS) ? SPAN(MARK) : SPAN(" ") };
	struct span to = { NULL, 0 };
	bool one = flags & NORMAL_ONE_SPACE;
	size_t at = 0, len;
	uint64_t steps;

	for (; one && at < w->n; at += len) {		/* spaces at the beginning */
		len = next(&s, w, at, &to, &steps);
		if (spent(work, steps, w))
			return;
		if (!span_eq(to, SPAN(" ")))
			break;
	}
	w->changed = true;
	w->taken = w->n;
	if (at == w->n)
		return;
	if (prefix && (flags & NORMAL_PREFIX))
		buf_span(w->out, s.space);
	for (s.after_space = one; at < w->n; at += len) {
		len = next(&s, w, at, &to, &steps);
		if (spent(work, steps, w))
			return;
		put(&s, to);
	}
	if (one)
		trim(&s);
}
