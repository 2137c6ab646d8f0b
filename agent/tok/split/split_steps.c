/* split_steps.c - run chains of steps as Hugging Face's tokenizers does.
 *
 * Each step works on each piece of the step before as if it were a separate text: anchors and
 * look-after do not see neighbours. A step finds its matches and the text between them; the
 * behaviour joins or drops these; empty ones are dropped at the end (NormalizedString::split and
 * PreTokenizedString::split there).
 *
 * Two lists of ends, this step's and the last one's, refer to one text; only a step that drops or
 * changes bytes copies the text. A text is finished before its first piece is returned, because
 * joining with the next piece, and look-ahead of Oniguruma's expressions, are unbounded. Costs 4
 * bytes a piece, and 12 per match of one piece at a time. */
#include "agent/tok/split/split_steps_in.h"

#include "agent/tok/split/split_falcon_in.h"

/* Prices in steps of work.h: a piece of the step before; each match in it and the text between;
 * bytes per step. */
#define STEPS_PIECE_BEFORE	2
#define STEPS_CUT		1
#define STEP_BYTES_LOOKED	8

bool step_rewrites(const struct step *s)
{
	return s->run >= RUN_PREFIX_SPACE || s->behaviour == SPLIT_REMOVED;
}

void steps_scratch_fini(struct steps_scratch *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		buf_free(&c->bytes[i]);
		vec_free(&c->list[i].end);
	}
	vec_free(&c->cuts);
	regex_scratch_free(c->regex);
	*c = (struct steps_scratch){ 0 };
}

/* ---- what grows ------------------------------------------------------------------------------ */

static int put_end(struct piece_list *l, size_t end)
{
	if (l->end.n == UINT32_MAX)	/* ends have 32 bits */
		return -1;
	return vec_push(&l->end, (uint32_t)end);
}

static int put_bytes(struct buf *b, const void *p, size_t n)
{
	if (n > UINT32_MAX - b->n)
		return -1;
	buf_add(b, p, n);
	return b->failed ? -1 : 0;
}

static int put_cut(struct steps_scratch *c, size_t start, size_t end, bool match)
{
	return vec_push(&c->cuts, (struct step_cut){ (uint32_t)start, (uint32_t)end, match });
}

/* Add a match after the end of the last one, *prev, and the text between. */
static int put_match(struct steps_scratch *c, size_t *prev, size_t start, size_t end)
{
	if (*prev != start && put_cut(c, *prev, start, false) < 0)
		return -1;
	*prev = end;
	return put_cut(c, start, end, true);
}

/* ---- matches of one piece -------------------------------------------------------------------- */

static int cuts_scan(const struct step *s, struct steps_scratch *c, const uint8_t *p, size_t n)
{
	size_t at = 0, prev = 0;
	uint32_t i;

	while (at < n) {
		s->scan(p + at, n - at, true, &c->batch);
		for (i = 0; i < c->batch.n; i++)
			if (put_match(c, &prev, prev, at + c->batch.end[i]) < 0)
				return -1;
		at += c->batch.used;
	}
	return 0;
}

static int cuts_regex(const struct step *s, struct steps_scratch *c, const uint8_t *p, size_t n)
{
	struct regex_at at = { 0 };
	size_t prev = 0, start, end;
	int rc;

	while ((rc = regex_next(s->regex, c->regex, c->work, p, n, &at, &start, &end)) > 0)
		if (put_match(c, &prev, start, end) < 0)
			return -1;
	if (rc < 0)
		return -1;
	return prev == n ? 0 : put_cut(c, prev, n, false);
}

static bool is_one_of(const struct step *s, uint32_t cp)
{
	switch (s->chars) {
	case CHARS_DIGIT:
		return uc_kind(cp).bits & UC_DIGIT;
	case CHARS_PUNCT:
		return uc_kind(cp).bits & UC_PUNCT;
	case CHARS_SPACE:
		return uc_class(cp) & UC_SPACE;
	default:
		return cp == s->one;
	}
}

static int cuts_chars(const struct step *s, struct steps_scratch *c, const uint8_t *p, size_t n)
{
	size_t at, len, prev = 0;
	uint32_t cp;

	for (at = 0; at < n; at += len) {
		len = utf8_get(p + at, n - at, &cp);
		if (is_one_of(s, cp) && put_match(c, &prev, at, at + len) < 0)
			return -1;
	}
	return prev == n ? 0 : put_cut(c, prev, n, false);
}

/* Write ends, not cuts, because there is no behaviour. A byte has at most one end. */
static int run_falcon(struct steps_scratch *c, const uint8_t *p, size_t n, size_t base,
    struct piece_list *out)
{
	size_t at, from, i;

	for (at = 0; at < n; at += c->batch.used) {
		split_scan_falcon_words(p + at, n - at, true, &c->batch);
		work_spend(c->work, c->batch.n * STEPS_CUT + c->batch.used / STEP_BYTES_LOOKED);
		if (work_spent(c->work) || vec_reserve(&out->end, c->batch.used) < 0)
			return -1;
		for (i = 0, from = 0; i < c->batch.n; i++)
			while (from < c->batch.end[i]) {
				from += split_falcon_part(p + at + from, c->batch.end[i] - from);
				out->end.p[out->end.n++] = (uint32_t)(base + at + from);
			}
	}
	return 0;
}

/* ---- behaviours ------------------------------------------------------------------------------ */

static void merge_same(struct steps_scratch *c)
{
	size_t i, n = 0;
	bool prev = false;

	for (i = 0; i < c->cuts.n; i++) {
		if (n > 0 && c->cuts.p[i].match == prev)
			c->cuts.p[n - 1].end = c->cuts.p[i].end;
		else
			c->cuts.p[n++] = c->cuts.p[i];
		prev = c->cuts.p[n - 1].match = c->cuts.p[i].match;
	}
	c->cuts.n = n;
}

/* A match joins the text before it; of adjacent matches, only the first. */
static void merge_previous(struct steps_scratch *c)
{
	size_t i, n = 0;
	bool prev = false, match;

	for (i = 0; i < c->cuts.n; i++) {
		match = c->cuts.p[i].match;
		if (match && !prev && n > 0)
			c->cuts.p[n - 1].end = c->cuts.p[i].end;
		else
			c->cuts.p[n++] = c->cuts.p[i];
		prev = match;
	}
	c->cuts.n = n;
}

/* A match joins the text after it; of adjacent matches, only the last. Works from the end of the
 * array. */
static void merge_next(struct steps_scratch *c)
{
	size_t i, n = c->cuts.n;
	bool prev = false, match;

	for (i = c->cuts.n; i-- > 0; prev = match) {
		match = c->cuts.p[i].match;
		if (match && !prev && n < c->cuts.n)
			c->cuts.p[n].start = c->cuts.p[i].start;
		else
			c->cuts.p[--n] = c->cuts.p[i];
	}
	if (n > 0)
		memmove(c->cuts.p, c->cuts.p + n, (c->cuts.n - n) * sizeof(*c->cuts.p));
	c->cuts.n -= n;
}

/* Tell if the first piece loses its first byte in step <s>. */
static bool loses_front(const struct step *s, const struct steps_scratch *c)
{
	size_t i;

	for (i = 0; i < c->cuts.n; i++)
		if (c->cuts.p[i].start != c->cuts.p[i].end)
			return s->behaviour == SPLIT_REMOVED && c->cuts.p[i].match;
	return false;
}

static int put_cuts(const struct step *s, struct steps_scratch *c, const uint8_t *p, size_t base,
    struct piece_list *out, struct buf *b)
{
	bool drop = s->behaviour == SPLIT_REMOVED;
	size_t i;

	for (i = 0; i < c->cuts.n; i++) {
		const struct step_cut *k = &c->cuts.p[i];

		if (k->start == k->end || (drop && k->match))
			continue;
		if (drop && put_bytes(b, p + k->start, k->end - k->start) < 0)
			return -1;
		if (put_end(out, drop ? b->n : base + k->end) < 0)
			return -1;
	}
	return 0;
}

static int split_piece(const struct step *s, struct steps_scratch *c, const uint8_t *p, size_t n,
    size_t base, struct piece_list *out, struct buf *b)
{
	int rc;
	size_t i;

	c->cuts.n = 0;
	rc = s->run == RUN_SCAN   ? cuts_scan(s, c, p, n)
	    : s->run == RUN_REGEX ? cuts_regex(s, c, p, n)
				  : cuts_chars(s, c, p, n);
	if (rc < 0)
		return -1;
	work_spend(c->work, STEPS_CUT * c->cuts.n);
	for (i = 0; s->invert && i < c->cuts.n; i++)
		c->cuts.p[i].match = !c->cuts.p[i].match;
	if (s->behaviour == SPLIT_CONTIGUOUS)
		merge_same(c);
	else if (s->behaviour == SPLIT_MERGED_WITH_PREVIOUS)
		merge_previous(c);
	else if (s->behaviour == SPLIT_MERGED_WITH_NEXT)
		merge_next(c);
	return put_cuts(s, c, p, base, out, b);
}

/* ---- steps that change bytes ----------------------------------------------------------------- */

static int prefix_space(const uint8_t *p, size_t n, struct piece_list *out, struct buf *b)
{
	if (p[0] != ' ' && put_bytes(b, " ", 1) < 0)
		return -1;
	return put_bytes(b, p, n) < 0 ? -1 : put_end(out, b->n);
}

static size_t up_to_space(const uint8_t *p, size_t n)
{
	const uint8_t *q = memchr(p, ' ', n);

	return q != NULL ? (size_t)(q - p) : n;
}

/* Replace spaces, prepend a replacement if there is none, and, if <split>, end a piece before each.
 */
static int metaspace(const struct step *s, struct work_left *w, const uint8_t *p, size_t n,
    enum part part, struct piece_list *out, struct buf *b)
{
	uint8_t mark[4];
	size_t at, len, start = b->n, m = utf8_put(mark, s->one);
	uint32_t cp;
	bool has = p[0] == ' ' || (n >= m && memcmp(p, mark, m) == 0);

	if (!has && part != PART_INSIDE &&
	    (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && part == PART_FIRST)) &&
	    put_bytes(b, mark, m) < 0)
		return -1;
	for (at = 0; at < n; at += len) {
		work_spend(w, p[at] == ' ');
		if (work_spent(w))
			return -1;
		len = p[at] == ' ' ? 1 : s->split ? utf8_get(p + at, n - at, &cp) : up_to_space(p + at, n - at);
		if (s->split && b->n > start && (p[at] == ' ' || (len == m && memcmp(p + at, mark, m) == 0)) &&
		    put_end(out, b->n) < 0)
			return -1;
		if (p[at] == ' ' ? put_bytes(b, mark, m) < 0 : put_bytes(b, p + at, len) < 0)
			return -1;
	}
	return put_end(out, b->n);
}

/* GPT-2's table: printable characters of Latin-1 stand for themselves, the rest, 00 .. 20, 7f .. a0
 * and ad, for U+0100 and following, in order. */
static uint32_t char_of(uint8_t b)
{
	if (b <= 0x20)
		return 0x100u + b;
	if (b >= 0x7f && b <= 0xa0)
		return 0x121u + (b - 0x7fu);
	return b == 0xad ? 0x143u : b;
}

static uint8_t byte_of(uint32_t cp)
{
	if (cp < 0x100)
		return (uint8_t)cp;
	return (uint8_t)(cp <= 0x120 ? cp - 0x100 : cp <= 0x142 ? cp - 0x121 + 0x7f : 0xad);
}

static int to_chars(const uint8_t *p, size_t n, struct piece_list *out, struct buf *b)
{
	uint8_t u[4];
	size_t i;

	for (i = 0; i < n; i++)
		if (put_bytes(b, u, utf8_put(u, char_of(p[i]))) < 0)
			return -1;
	return put_end(out, b->n);
}

static int to_bytes(const uint8_t *p, size_t n, struct piece_list *out, struct buf *b)
{
	uint8_t byte;
	size_t at;
	uint32_t cp;

	for (at = 0; at < n; ) {
		at += utf8_get(p + at, n - at, &cp);
		byte = byte_of(cp);
		if (put_bytes(b, &byte, 1) < 0)
			return -1;
	}
	return put_end(out, b->n);
}

static int put_mark(const uint8_t *p, size_t n, struct piece_list *out, struct buf *b)
{
	static const uint8_t mark = SPLIT_END;

	return put_bytes(b, p, n) < 0 || put_bytes(b, &mark, 1) < 0 ? -1 : put_end(out, b->n);
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* *part: what the first piece begins; a step may remove its first byte. */
static int run_step(const struct step *s, struct steps_scratch *c, const struct piece_list *in,
    struct piece_list *out, struct buf *b, enum part *part)
{
	size_t i, at = 0, n;
	int rc;

	out->end.n = 0;
	buf_start(b, 0);
	for (i = 0; i < in->end.n; at += n, i++) {
		const uint8_t *p = in->text + at;

		n = in->end.p[i] - at;
		work_spend(c->work, STEPS_PIECE_BEFORE + n / STEP_BYTES_LOOKED);
		if (work_spent(c->work))
			return -1;
		if (s->run == RUN_PREFIX_SPACE)
			rc = prefix_space(p, n, out, b);
		else if (s->run == RUN_METASPACE)
			rc = metaspace(s, c->work, p, n, i == 0 ? *part : PART_SEGMENT, out, b);
		else if (s->run == RUN_TO_CHARS)
			rc = to_chars(p, n, out, b);
		else if (s->run == RUN_FALCON)
			rc = run_falcon(c, p, n, at, out);
		else if (s->run == RUN_TO_BYTES)
			rc = to_bytes(p, n, out, b);
		else if (s->run == RUN_END)
			rc = put_mark(p, n, out, b);
		else
			rc = split_piece(s, c, p, n, at, out, b);
		if (rc < 0)
			return -1;
		if (i == 0 && s->run <= RUN_CHARS && loses_front(s, c))
			*part = PART_SEGMENT;
	}
	out->text = step_rewrites(s) ? (const uint8_t *)b->p : in->text;
	out->bytes = step_rewrites(s) ? b->n : in->bytes;
	return 0;
}

const struct piece_list *steps_run(const struct step *s, size_t n, struct steps_scratch *c,
    const uint8_t *p, size_t size, enum part part)
{
	struct piece_list *in = &c->list[0], *out = &c->list[1], *swap;
	struct buf *spare;
	size_t i;

	in->end.n = 0;
	in->text = p;
	in->bytes = size;
	if (size > 0 && put_end(in, size) < 0)
		return NULL;
	for (i = 0; i < n; i++) {
		if (s[i].run == RUN_REGEX && c->regex == NULL && (c->regex = regex_scratch_new()) == NULL)
			return NULL;
		spare = in->text == (const uint8_t *)c->bytes[0].p ? &c->bytes[1] : &c->bytes[0];
		if (run_step(&s[i], c, in, out, spare, &part) < 0)
			return NULL;
		swap = in;
		in = out;
		out = swap;
	}
	return in;
}
