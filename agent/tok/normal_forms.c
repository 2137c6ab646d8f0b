/* normal_forms.c - the normal forms of Unicode (UAX #15), applied only where a text is not normal.
 *
 * A starter (combining class 0) that cannot change, alone or after another character (no bit of the
 * form in its kind), is a border: the text before and after it is normalized separately. The quick
 * check reads the text and remembers the last border. At a character that may change, or a mark of
 * a lower class than the one before, the stretch from that border to the next one is decomposed,
 * sorted and composed. If the result is the same, as it mostly is, nothing is written. So normal
 * text is read once and not copied: ASCII 16 bytes at a time, Han and (for NFC) kana with one load
 * and a compare, the rest with two loads a character.
 *
 * A stretch of n marks is sorted by counting, in O(n), because a client may send a million in a
 * row. */
#include "agent/tok/normal_forms_in.h"

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/unicode/unicode.h"

/* ---- writing --------------------------------------------------------------------------------- */

void rewrite_put(struct rewrite *w, size_t from, size_t to, const void *p, size_t n)
{
	w->changed = true;
	buf_add(w->out, w->in + w->taken, from - w->taken);
	buf_add(w->out, p, n);
	w->taken = to;
}

void rewrite_end(struct rewrite *w, struct span *out)
{
	if (!w->changed) {
		*out = span_of(w->in, w->n);
		return;
	}
	buf_add(w->out, w->in + w->taken, w->n - w->taken);
	w->bad |= w->out->failed;
	*out = w->bad ? (struct span){ NULL, 0 } : span_of(w->out->n ? w->out->p : "", w->out->n);
}

/* ---- one stretch ----------------------------------------------------------------------------- */

/* Decompose all characters of p[0 .. n). */
static bool take_apart(struct normal_buf *b, const uint8_t *p, size_t n, bool compat)
{
	uint32_t cp, hangul[3];
	const uint32_t *parts;
	size_t at, k, m;

	b->chars.n = b->spare.n = 0;
	for (at = 0; at < n; ) {
		at += utf8_get(p + at, n - at, &cp);
		parts = uc_decompose(cp, compat, hangul, &m);
		if (m == 0 && vec_push(&b->chars, cp) < 0)
			return false;
		for (k = 0; k < m; k++)
			if (vec_push(&b->chars, parts[k]) < 0)
				return false;
	}
	return vec_reserve(&b->spare, b->chars.n) == 0;
}

#define STEPS_BYTE	3u	/* of a stretch, in steps of work.h */

/* Sort the marks cp[0 .. n) by class; those of one class keep their order. */
static void sort_marks(uint32_t *cp, uint32_t *spare, size_t n)
{
	size_t first[257] = { 0 }, i;

	for (i = 0; i < n; i++)
		first[uc_kind(cp[i]).ccc + 1]++;
	for (i = 1; i < 257; i++)
		first[i] += first[i - 1];
	for (i = 0; i < n; i++)
		spare[first[uc_kind(cp[i]).ccc]++] = cp[i];
	memcpy(cp, spare, n * sizeof(*cp));
}

static void put_in_order(struct normal_buf *b)
{
	uint32_t *cp = b->chars.p;
	size_t n = b->chars.n, i, from;
	uint8_t ccc, last;
	bool sorted;

	for (i = 0; i < n; i++) {
		if (uc_kind(cp[i]).ccc == 0)
			continue;
		for (from = i, last = 0, sorted = true; i < n && (ccc = uc_kind(cp[i]).ccc) != 0; i++) {
			sorted &= ccc >= last;
			last = ccc;
		}
		if (!sorted)
			sort_marks(cp + from, b->spare.p, i - from);
		i--;
	}
}

/* Compose: a mark joins its starter if the two make one character and no mark of its class or a
 * higher one is between them. */
static size_t put_together(uint32_t *cp, size_t n)
{
	size_t i, out = 0, starter = SIZE_MAX;
	uint8_t last = 0, ccc;
	uint32_t both;

	for (i = 0; i < n; i++) {
		ccc = uc_kind(cp[i]).ccc;
		if (starter != SIZE_MAX && (starter + 1 == out || (last != 0 && last < ccc)) &&
		    (both = uc_compose(cp[starter], cp[i])) != 0) {
			cp[starter] = both;
			continue;
		}
		if (ccc == 0)
			starter = out;
		last = ccc;
		cp[out++] = cp[i];
	}
	return out;
}

static bool same_text(const uint8_t *p, size_t n, const uint32_t *cp, size_t n_cps)
{
	size_t at = 0, i;
	uint32_t c;

	for (i = 0; i < n_cps && at < n; i++) {
		at += utf8_get(p + at, n - at, &c);
		if (c != cp[i])
			return false;
	}
	return i == n_cps && at == n;
}

static void stretch(unsigned form, struct normal_buf *b, struct rewrite *w, size_t from, size_t to)
{
	size_t i;
	uint8_t u[4];

	if (b->work != NULL)
		work_spend(b->work, (to - from) * STEPS_BYTE);
	if ((b->work != NULL && work_spent(b->work)) ||
	    !take_apart(b, w->in + from, to - from, form & (UC_NFKC | UC_NFKD))) {
		w->bad = w->changed = true;
		return;
	}
	put_in_order(b);
	if (form & (UC_NFC | UC_NFKC))
		b->chars.n = put_together(b->chars.p, b->chars.n);
	if (same_text(w->in + from, to - from, b->chars.p, b->chars.n))
		return;
	rewrite_put(w, from, to, NULL, 0);
	for (i = 0; i < b->chars.n; i++)
		buf_add(w->out, u, utf8_put(u, b->chars.p[i]));
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Tell by the number alone if it is a border. In NFC: U+3000 .. U+A66E, except the marks U+302A ..
 * U+302F, U+3099 and U+309A. The other forms decompose some characters up to U+33FF. */
static inline bool is_border(unsigned form, uint32_t three)
{
	if (form != UC_NFC)
		return three >= 0xe39080 && three < 0xea99af;
	return three >= 0xe38080 && three < 0xea99af && three - 0xe380aa > 5 && three - 0xe38299 > 1;
}

/* Return the offset after the borders at <at>. */
static size_t skip_borders(unsigned form, const uint8_t *p, size_t n, size_t at)
{
	while (n - at >= 4 && is_border(form, utf8_three(p + at)))
		at += 3;
	return at;
}

/* Return the next border at or after <at>. */
static size_t next_border(unsigned form, const uint8_t *p, size_t n, size_t at)
{
	struct uc_kind k;
	uint32_t cp;
	size_t len;

	for (; at < n; at += len) {
		len = utf8_get(p + at, n - at, &cp);
		k = uc_kind(cp);
		if (k.ccc == 0 && !(k.bits & form))
			break;
	}
	return at;
}

void form_run(unsigned form, struct normal_buf *b, struct rewrite *w)
{
	size_t at = 0, border = 0, len, next;
	uint8_t last = 0;
	struct uc_kind k;
	uint32_t cp;

	while (at < w->n) {
		if (w->in[at] < 0x80) {
			at += utf8_ascii(w->in + at, w->n - at);
			border = at - 1;
			last = 0;
			continue;
		}
		if ((next = skip_borders(form, w->in, w->n, at)) != at) {
			border = next - 3;
			last = 0;
			at = next;
			continue;
		}
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (uc_is_plain(cp)) {
			border = at;
			last = 0;
			at += len;
			continue;
		}
		k = uc_kind(cp);
		if (k.bits & form || (k.ccc != 0 && k.ccc < last)) {
			at = next_border(form, w->in, w->n, at + len);
			stretch(form, b, w, border, at);
			border = at;
			last = 0;
			continue;
		}
		if (k.ccc == 0)
			border = at;
		last = k.ccc;
		at += len;
	}
}
