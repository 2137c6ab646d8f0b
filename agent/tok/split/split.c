/* split.c - choose how a chain of steps is run, and return batches of pieces.
 *
 * Four ways. A chain that is one of the families as a whole uses its scanner, which is called per
 * batch and keeps no state. An empty chain returns the whole text as one piece. A single regular
 * expression whose matches are pieces continues to match when pieces are requested, so a text whose
 * work runs out has the pieces up to there. All others run step by step (split_steps.c) over a
 * whole text, and the scratch returns the result in batches. */
#include "agent/tok/split/split.h"

#include "agent/base/mem.h"
#include "agent/tok/split/split_family_in.h"
#include "agent/tok/split/split_steps_in.h"

#define TEXT_MOST	((size_t)256 << 20)

struct split {
	split_scan_fn *scan;	/* for the whole chain; NULL: run the steps, or none: the whole text */
	unsigned price;
	struct split_traits traits;
	size_t n;
	struct step step[];
};

struct split_scratch {
	struct steps_scratch steps;
	/* the text whose pieces are being returned */
	const struct split *split;	/* NULL: none */
	const struct piece_list *list;
	size_t next;			/* next piece */
	const uint8_t *p;		/* the arguments of the next call */
	size_t n;
	/* of a regular expression that continues to match */
	const uint8_t *text;
	size_t bytes, prev;		/* <prev>: the end of the last piece */
	struct regex_at at;
};

/* ---- splitters ------------------------------------------------------------------------------- */

/* Rust's \w+|[^\w\s]+ in the syntax of Oniguruma, whose \w lacks the joiners. */
#define WHITESPACE	"[\\w\\u200c\\u200d]+|[^\\w\\u200c\\u200d\\s]+"

static const char *const names[] = {
	[STEP_REGEX] = "Split",
	[STEP_STRING] = "Split",
	[STEP_BYTE_LEVEL] = "ByteLevel",
	[STEP_DIGITS] = "Digits",
	[STEP_PUNCTUATION] = "Punctuation",
	[STEP_WHITESPACE] = "Whitespace",
	[STEP_WHITESPACE_SPLIT] = "WhitespaceSplit",
	[STEP_CHAR_DELIMITER] = "CharDelimiterSplit",
	[STEP_METASPACE] = "Metaspace",
	[STEP_MARK_END] = "end_of_word_suffix",
};
#define NAMES	(sizeof(names) / sizeof(names[0]))

static bool plain_byte_level(const struct split_step *t)
{
	return t->kind == STEP_BYTE_LEVEL && !t->use_regex && !t->add_prefix_space;
}

static bool is_isolated(const struct split_step *t)
{
	return t->kind == STEP_REGEX && t->behaviour == SPLIT_ISOLATED && !t->invert;
}

/* Return the family of the whole chain; scan == NULL: none. */
static struct family family_of_chain(const struct split_step *t, size_t n)
{
	struct span pattern[FAMILY_STEPS];
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (t[i].kind == STEP_BYTE_LEVEL && i + 1 < n)
			return (struct family){ NULL, NULL };	/* later steps see other characters */
		if (plain_byte_level(&t[i]))
			continue;
		if (t[i].kind == STEP_BYTE_LEVEL && !t[i].add_prefix_space)
			pattern[k] = split_known_pattern("gpt2");
		else if (is_isolated(&t[i]))
			pattern[k] = t[i].pattern;
		else if (t[i].kind == STEP_DIGITS && t[i].individual)
			pattern[k] = FAMILY_DIGITS;
		else
			return (struct family){ NULL, NULL };
		if (++k == FAMILY_STEPS)
			break;
	}
	return family_of_sequence(pattern, k);
}

/* Tell if it is Punctuation, ByteLevel with its pattern, Digits, three digits: split_falcon.c. */
static bool is_falcon(const struct split_step *t, size_t n)
{
	return n == 4 && t[0].kind == STEP_PUNCTUATION && t[0].behaviour == SPLIT_CONTIGUOUS &&
	    t[1].kind == STEP_BYTE_LEVEL && t[1].use_regex && !t[1].add_prefix_space &&
	    t[2].kind == STEP_DIGITS && !t[2].individual && is_isolated(&t[3]) &&
	    span_eq(t[3].pattern, SPAN("[0-9][0-9][0-9]"));
}

static int regex_step(struct step *s, struct span pattern, bool literal, struct err *e)
{
	s->run = RUN_REGEX;
	return (s->regex = regex_new(pattern, literal, e)) == NULL ? -1 : 0;
}

static int chars_step(struct step *s, enum step_chars chars, enum split_behaviour b)
{
	s->run = RUN_CHARS;
	s->chars = chars;
	s->behaviour = b;
	return 0;
}

static int one_char(struct step *s, struct span p, struct err *e)
{
	if (p.n == 0 || utf8_get((const uint8_t *)p.p, p.n, &s->one) != p.n)
		return err_set(e, "\"" SPAN_FMT "\" is not one character", SPAN_ARG(p));
	return 0;
}

static int split_step(const struct split_step *t, struct step *s, struct err *e)
{
	struct family f = is_isolated(t) ? family_of_pattern(t->pattern) : (struct family){ NULL, NULL };

	s->invert = t->invert;
	s->behaviour = t->behaviour;
	if (f.scan == NULL)
		return regex_step(s, t->pattern, t->kind == STEP_STRING, e);
	s->run = RUN_SCAN;
	s->scan = f.scan;
	return 0;
}

static bool has_byte_level(const struct split *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (m->step[i].run == RUN_TO_CHARS)
			return true;
	return false;
}

static int metaspace_step(const struct split *m, const struct split_step *t, struct step *s,
    struct err *e)
{
	if (has_byte_level(m))		/* its character stands for no byte */
		return err_set(e, "after ByteLevel");
	s->run = RUN_METASPACE;
	s->prepend = (int)t->prepend;
	s->split = t->split;
	return one_char(s, t->pattern, e);
}

/* Add the steps of ByteLevel, none to three. <more>: other steps follow. */
static int byte_level_step(struct split *m, const struct split_step *t, bool more, struct err *e)
{
	if (has_byte_level(m))
		return err_set(e, "a second one in a row of steps");
	if (t->add_prefix_space)
		m->step[m->n++] = (struct step){ .run = RUN_PREFIX_SPACE };
	if (t->use_regex)
		m->step[m->n++] = (struct step){
			.run = RUN_SCAN, .scan = family_gpt2.scan, .behaviour = SPLIT_ISOLATED
		};
	if (more)
		m->step[m->n++] = (struct step){ .run = RUN_TO_CHARS };
	return 0;
}

/* Convert one step of the file. */
static int make_step(struct split *m, const struct split_step *t, bool more, struct err *e)
{
	struct step *s = &m->step[m->n];

	if (t->kind == STEP_BYTE_LEVEL)
		return byte_level_step(m, t, more, e);
	m->n++;
	switch (t->kind) {
	case STEP_REGEX:
	case STEP_STRING:
		return split_step(t, s, e);
	case STEP_DIGITS:
		return chars_step(s, CHARS_DIGIT, t->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
	case STEP_PUNCTUATION:
		return chars_step(s, CHARS_PUNCT, t->behaviour);
	case STEP_WHITESPACE_SPLIT:
		return chars_step(s, CHARS_SPACE, SPLIT_REMOVED);
	case STEP_CHAR_DELIMITER:
		chars_step(s, CHARS_ONE, SPLIT_REMOVED);
		return one_char(s, t->pattern, e);
	case STEP_WHITESPACE:
		s->invert = true;
		s->behaviour = SPLIT_REMOVED;
		return regex_step(s, SPAN(WHITESPACE), false, e);
	case STEP_METASPACE:
		return metaspace_step(m, t, s, e);
	case STEP_MARK_END:			/* not the last one */
	case STEP_BYTE_LEVEL:
		break;
	}
	return err_set(e, "this kind of step is not known");
}

static int make_steps(struct split *s, const struct split_step *steps, size_t n, struct err *e)
{
	struct err why = { .text = "" };
	bool end = n > 0 && steps[n - 1].kind == STEP_MARK_END;
	size_t i;

	n -= end;
	for (i = 0; i < n; i++) {
		if ((unsigned)steps[i].behaviour > SPLIT_CONTIGUOUS)
			err_set(&why, "this behaviour is not known");
		else if (make_step(s, &steps[i], i + 1 < n, &why) == 0)
			continue;
		return err_set(e, "step %zu of the pre-tokenizer, %s: %s", i + 1,
			       (unsigned)steps[i].kind < NAMES ? names[steps[i].kind] : "?", why.text);
	}
	for (i = 0; i < s->n; i++)
		if (s->step[i].run == RUN_TO_CHARS) {
			s->step[s->n++] = (struct step){ .run = RUN_TO_BYTES };
			break;
		}
	if (end)
		s->step[s->n++] = (struct step){ .run = RUN_END };
	return 0;
}

static struct split_traits traits_of_steps(const struct split *s)
{
	struct split_traits t = { .name = s->n == 0            ? "whole"
		    : s->n == 1 && s->step[0].run == RUN_REGEX ? "pcre2"
							       : "chain" };
	size_t i;

	for (i = 0; i < s->n; i++) {
		t.rewrites |= step_rewrites(&s->step[i]);
		t.first_differs |= s->step[i].run == RUN_METASPACE && s->step[i].prepend == PREPEND_FIRST;
		t.begin_differs |= s->step[i].run == RUN_PREFIX_SPACE ||
				   (s->step[i].run == RUN_METASPACE && s->step[i].prepend == PREPEND_ALWAYS);
	}
	return t;
}

struct split *split_new(const struct split_step *steps, size_t n, struct err *e)
{
	struct split *s = n > 1000 ? NULL : mem_alloc(sizeof(*s) + (3 * n + 1) * sizeof(*s->step));
	struct family f;

	if (s == NULL) {
		err_set(e, n > 1000 ? "a pre-tokenizer of more than 1000 steps" : "no memory");
		return NULL;
	}
	f = family_of_chain(steps, n);
	if (f.scan != NULL) {
		s->scan = f.scan;
		s->price = f.price;
		s->traits = (struct split_traits){ .streams = true, .name = f.name };
		return s;
	}
	if (is_falcon(steps, n)) {
		s->step[s->n++] = (struct step){ .run = RUN_FALCON, .behaviour = SPLIT_ISOLATED };
		s->traits = (struct split_traits){ .name = "falcon" };
		return s;
	}
	if (make_steps(s, steps, n, e) < 0) {
		split_free(s);
		return NULL;
	}
	s->traits = traits_of_steps(s);
	return s;
}

void split_free(struct split *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < s->n; i++)
		regex_free(s->step[i].regex);
	mem_free(s);
}

struct split_traits split_traits(const struct split *s)
{
	return s->traits;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct split_scratch *split_scratch_new(void)
{
	struct split_scratch *c = mem_alloc(sizeof(*c));

	if (c != NULL)
		split_scratch_work(c, NULL);
	return c;
}

void split_scratch_work(struct split_scratch *c, struct work_left *w)
{
	work_unbound(&c->steps.no_limit);
	c->steps.work = w != NULL ? w : &c->steps.no_limit;
}

size_t split_scratch_bytes(const struct split_scratch *c)
{
	const struct steps_scratch *s = &c->steps;

	return sizeof(*c) + s->bytes[0].cap + s->bytes[1].cap +
	    (s->list[0].end.cap + s->list[1].end.cap) * sizeof(*s->list[0].end.p) +
	    s->cuts.cap * sizeof(*s->cuts.p);
}

void split_scratch_free(struct split_scratch *c)
{
	if (c == NULL)
		return;
	steps_scratch_fini(&c->steps);
	mem_free(c);
}

void split_scratch_wipe(struct split_scratch *c)
{
	struct work_left *w = c->steps.work == &c->steps.no_limit ? NULL : c->steps.work;

	steps_scratch_fini(&c->steps);
	*c = (struct split_scratch){ 0 };
	split_scratch_work(c, w);
}

void split_scratch_forget(struct split_scratch *c)
{
	c->split = NULL;
}

/* Return the next batch of the current text. */
static void deal(struct split_scratch *c, struct pieces *out)
{
	const struct piece_list *l = c->list;
	bool rewrites = c->split->traits.rewrites;
	size_t base = c->next ? l->end.p[c->next - 1] : 0, left = l->end.n - c->next, i;

	out->n = (uint32_t)(left < SPLIT_BATCH ? left : SPLIT_BATCH);
	out->text = l->text == NULL ? NULL : l->text + base;
	for (i = 0; i < out->n; i++)
		out->end[i] = (uint32_t)(l->end.p[c->next + i] - base);
	c->next += out->n;
	if (c->next == l->end.n) {
		out->used = c->n;
		c->split = NULL;
		return;
	}
	out->used = rewrites ? 0 : out->end[out->n - 1];
	c->p += out->used;
	c->n -= out->used;
}

static bool is_one_regex(const struct split *s)
{
	return s->n == 1 && s->step[0].run == RUN_REGEX && s->step[0].behaviour == SPLIT_ISOLATED &&
	    !s->step[0].invert;
}

/* Return the next matches and the text between them. Returns -1 if there is no memory, a limit was
 * met or the work is used up, and no piece comes before that. */
static int next_matches(const struct split *s, struct split_scratch *c, struct pieces *out)
{
	size_t start, end, base = c->prev;
	int rc = 1;

	if (c->steps.regex == NULL && (c->steps.regex = regex_scratch_new()) == NULL)
		return -1;
	while (rc > 0 && out->n + 2 < SPLIT_BATCH) {
		rc = regex_next(s->step[0].regex, c->steps.regex, c->steps.work, c->text, c->bytes,
		    &c->at, &start, &end);
		if (rc == 0)
			start = end = c->bytes;
		if (rc >= 0 && start > c->prev)
			out->end[out->n++] = (uint32_t)(start - base);
		if (rc >= 0 && end > start)
			out->end[out->n++] = (uint32_t)(end - base);
		c->prev = rc >= 0 ? end : c->prev;
	}
	if (out->n == 0 && rc < 0)
		return -1;
	out->text = c->text + base;
	out->used = c->prev - base;
	c->p += out->used;
	c->n -= out->used;
	if (c->n == 0)
		c->split = NULL;
	return 0;
}

static int next_of_regex(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n,
    struct pieces *out)
{
	if (c->split != s || c->p != p || c->n != n) {
		c->split = s;
		c->p = c->text = p;
		c->n = c->bytes = n;
		c->prev = 0;
		c->at = (struct regex_at){ 0 };
	}
	if (next_matches(s, c, out) == 0)
		return 0;
	c->split = NULL;
	return -1;
}

static int next_of_steps(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n,
    enum part part, struct pieces *out)
{
	if (c->split != s || c->p != p || c->n != n) {
		c->split = NULL;
		if ((c->list = steps_run(s->step, s->n, &c->steps, p, n, part)) == NULL)
			return -1;
		c->split = s;
		c->next = 0;
		c->p = p;
		c->n = n;
	}
	deal(c, out);
	return 0;
}

int split_next(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n,
    enum part part, bool last, struct pieces *out)
{
	out->text = p;
	out->n = 0;
	out->used = 0;
	if (n > TEXT_MOST && s->scan == NULL)
		return -1;
	if (n > TEXT_MOST) {
		n = TEXT_MOST;
		last = false;
	}
	if (s->scan != NULL) {
		s->scan(p, last ? n : n - utf8_cut(p, n), last, out);
		work_spend(c->steps.work, s->price * (uint64_t)out->n);
		return out->n == 0 && n == TEXT_MOST ? -1 : 0;	/* a piece is too long */
	}
	if (!last || n == 0)
		return 0;
	if (is_one_regex(s))
		return next_of_regex(s, c, p, n, out);
	if (s->n > 0)
		return next_of_steps(s, c, p, n, part, out);
	out->end[out->n++] = (uint32_t)n;
	out->used = n;
	return 0;
}
