/* normal.c - run the chain of a normalizer: each step reads the output of the one before.
 *
 * Steps that change single characters or strings write from the first change on, so a text that no
 * step changes is returned as it is. Two buffers alternate, because a step cannot write to its
 * input.
 *
 * The steps are those of tokenizers 0.22.2: lower case looks at one character at a time; accents
 * are the marks of Unicode 9; Strip removes White_Space; Prepend leaves an empty text unchanged. */
#include "agent/tok/normal.h"

#include "agent/base/mem.h"
#include "agent/tok/added.h"
#include "agent/tok/charsmap.h"
#include "agent/tok/normal_forms_in.h"
#include "agent/tok/split/split_regex.h"
#include "agent/tok/unicode/unicode.h"

struct normal {
	const struct added *kept;	/* borrowed; NULL: none */
	size_t n;
	struct step {
		enum normal_kind kind;
		unsigned form;
		struct span pattern, content;	/* owned */
		struct regex *regex;
		struct charsmap *map;
		unsigned flags;
		bool left, right;
	} step[];
};

static const char *const names[] = {
	[NORMAL_NFC] = "NFC",
	[NORMAL_NFD] = "NFD",
	[NORMAL_NFKC] = "NFKC",
	[NORMAL_NFKD] = "NFKD",
	[NORMAL_LOWERCASE] = "Lowercase",
	[NORMAL_STRIP_ACCENTS] = "StripAccents",
	[NORMAL_STRIP] = "Strip",
	[NORMAL_PREPEND] = "Prepend",
	[NORMAL_REPLACE] = "Replace",
	[NORMAL_BYTE_LEVEL] = "ByteLevel",
	[NORMAL_BERT_CLEAN] = "BertNormalizer",
	[NORMAL_BERT_IDEOGRAPHS] = "BertNormalizer",
	[NORMAL_BERT_MARKS] = "BertNormalizer",
	[NORMAL_NMT] = "Nmt",
	[NORMAL_PRECOMPILED] = "Precompiled",
	[NORMAL_SENTENCE] = "SentencePiece",
};
#define NAMES	(sizeof(names) / sizeof(names[0]))

/* ---- a chain --------------------------------------------------------------------------------- */

static int copy(struct span *out, struct span in, struct err *e)
{
	char *p = mem_strndup(in.p, in.n);

	if (p == NULL)
		return err_set(e, "no memory");
	*out = span_of(p, in.n);
	return 0;
}

static int make_step(struct step *s, const struct normal_step *t, struct err *e)
{
	static const unsigned form[] = { [NORMAL_NFC] = UC_NFC,
		[NORMAL_NFD] = UC_NFD,
		[NORMAL_NFKC] = UC_NFKC,
		[NORMAL_NFKD] = UC_NFKD };

	s->kind = t->kind;
	s->left = t->strip_left;
	s->right = t->strip_right;
	s->flags = t->flags;
	switch (t->kind) {
	case NORMAL_NFC: case NORMAL_NFD: case NORMAL_NFKC: case NORMAL_NFKD:
		s->form = form[t->kind];
		return 0;
	case NORMAL_LOWERCASE: case NORMAL_STRIP_ACCENTS: case NORMAL_STRIP: case NORMAL_BYTE_LEVEL:
	case NORMAL_BERT_CLEAN: case NORMAL_BERT_IDEOGRAPHS: case NORMAL_BERT_MARKS: case NORMAL_NMT:
		return 0;
	case NORMAL_SENTENCE:
		if (t->pattern.n == 0)
			return 0;
		/* fall through */
	case NORMAL_PRECOMPILED:
		return (s->map = charsmap_new(t->pattern, e)) == NULL ? -1 : 0;
	case NORMAL_PREPEND:
		return copy(&s->content, t->content, e);
	case NORMAL_REPLACE:
		if (copy(&s->content, t->content, e) < 0 || copy(&s->pattern, t->pattern, e) < 0)
			return -1;
		if (!t->regex && t->pattern.n > 0)
			return 0;
		return (s->regex = regex_new(t->pattern, !t->regex, e)) == NULL ? -1 : 0;
	}
	return err_set(e, "this kind of step is not known");
}

struct normal *normal_new(const struct normal_step *steps, size_t n, struct err *e)
{
	struct normal *m = n > 1000 ? NULL : mem_alloc(sizeof(*m) + n * sizeof(*m->step));
	struct err why;
	size_t i;

	if (m == NULL) {
		err_set(e, n > 1000 ? "a normalizer of more than 1000 steps" : "no memory");
		return NULL;
	}
	for (i = 0; i < n; i++) {
		m->n = i + 1;
		if (make_step(&m->step[i], &steps[i], &why) < 0) {
			err_set(e, "step %zu of the normalizer, %s: %s", i + 1,
				(unsigned)steps[i].kind < NAMES ? names[steps[i].kind] : "?", why.text);
			normal_free(m);
			return NULL;
		}
	}
	return m;
}

void normal_free(struct normal *m)
{
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; i < m->n; i++) {
		mem_free((char *)(uintptr_t)m->step[i].pattern.p);
		mem_free((char *)(uintptr_t)m->step[i].content.p);
		regex_free(m->step[i].regex);
		charsmap_free(m->step[i].map);
	}
	mem_free(m);
}

void normal_keep(struct normal *m, const struct added *kept)
{
	m->kept = added_none(kept) ? NULL : kept;
}

void normal_buf_fini(struct normal_buf *b)
{
	buf_free(&b->text[0]);
	buf_free(&b->text[1]);
	vec_free(&b->chars);
	vec_free(&b->spare);
}

size_t normal_buf_bytes(const struct normal_buf *b)
{
	return b->text[0].cap + b->text[1].cap + (b->chars.cap + b->spare.cap) * sizeof(*b->chars.p);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void lowercase(struct rewrite *w)
{
	size_t at, len;
	uint32_t cp, lower;
	uint8_t u[4];

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp == 0x130)
			rewrite_put(w, at, at + len, "i\xcc\x87", 3);
		else if ((lower = uc_lower(cp)) != cp)
			rewrite_put(w, at, at + len, u, utf8_put(u, lower));
	}
}

static void strip_accents(struct rewrite *w)
{
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp >= 0x80 && uc_kind(cp).bits & UC_ACCENT)
			rewrite_put(w, at, at + len, NULL, 0);
	}
}

static struct span strip(const struct step *s, struct span in)
{
	const uint8_t *p = (const uint8_t *)in.p;
	size_t from = 0, to = in.n, at, len;
	uint32_t cp;

	while (s->left && from < to) {
		len = utf8_get(p + from, to - from, &cp);
		if (!(uc_class(cp) & UC_SPACE))
			break;
		from += len;
	}
	while (s->right && to > from) {
		at = from + utf8_before(p + from, to - from);
		utf8_get(p + at, to - at, &cp);
		if (!(uc_class(cp) & UC_SPACE))
			break;
		to = at;
	}
	return span_of(in.p + from, to - from);
}

static void replace_string(const struct step *s, struct work_left *work, struct rewrite *w)
{
	const uint8_t *p = w->in, *end = w->in + w->n, *q;

	while (p < end && (q = memmem(p, (size_t)(end - p), s->pattern.p, s->pattern.n)) != NULL) {
		if (work != NULL)
			work_spend(work, 1);
		if (work != NULL && work_spent(work)) {
			w->bad = w->changed = true;
			return;
		}
		p = q + s->pattern.n;
		rewrite_put(w, (size_t)(q - w->in), (size_t)(p - w->in), s->content.p, s->content.n);
	}
}

static void replace_regex(const struct step *s, struct work_left *work, struct rewrite *w)
{
	struct regex_scratch *c = regex_scratch_new();
	struct work_left any = { .left = WORK_ANY };
	struct regex_at at = { 0 };
	size_t start, end;
	int rc = -1;

	while (c != NULL &&
	    (rc = regex_next(s->regex, c, work != NULL ? work : &any, w->in, w->n, &at, &start,
		 &end)) > 0)
		rewrite_put(w, start, end, s->content.p, s->content.n);
	if (rc < 0)
		w->bad = w->changed = true;
	regex_scratch_free(c);
}

static void run_step(const struct normal *m, const struct step *s, struct normal_buf *b,
    enum part part, struct rewrite *w)
{
	switch (s->kind) {
	case NORMAL_LOWERCASE:
		lowercase(w);
		break;
	case NORMAL_STRIP_ACCENTS:
		strip_accents(w);
		break;
	case NORMAL_PREPEND:
		if (w->n > 0)
			rewrite_put(w, 0, 0, s->content.p, s->content.n);
		break;
	case NORMAL_REPLACE:
		if (s->regex == NULL)
			replace_string(s, b->work, w);
		else if (w->n > 0)
			replace_regex(s, b->work, w);
		break;
	case NORMAL_BERT_CLEAN:
		bert_clean(w);
		break;
	case NORMAL_BERT_IDEOGRAPHS:
		bert_ideographs(w);
		break;
	case NORMAL_BERT_MARKS:
		bert_marks_out(w);
		break;
	case NORMAL_NMT:
		map_nmt(w);
		break;
	case NORMAL_PRECOMPILED:
		map_clusters(s->map, b->work, w);
		break;
	case NORMAL_SENTENCE:
		map_sentence(s->map, m->kept, s->flags, part != PART_INSIDE, b->work, w);
		break;
	default:
		form_run(s->form, b, w);
		break;
	}
}

bool normal_only_marks(const struct normal_step *steps, size_t n, struct span *mark)
{
	uint32_t cp;

	for (size_t i = 0; i < n; i++) {
		const struct normal_step *s = &steps[i];

		if (s->kind == NORMAL_PREPEND)
			continue;
		if (s->kind != NORMAL_REPLACE || s->regex || mark->n > 0 ||
		    !span_eq(s->pattern, SPAN(" ")) || s->content.n == 0 ||
		    utf8_get((const uint8_t *)s->content.p, s->content.n, &cp) != s->content.n)
			return false;
		*mark = s->content;
	}
	return true;
}

void normal_run(const struct normal *m, struct normal_buf *b, struct span in, struct span *out)
{
	normal_run_part(m, b, in, PART_SEGMENT, out);
}

void normal_run_part(const struct normal *m, struct normal_buf *b, struct span in, enum part part,
    struct span *out)
{
	struct rewrite w;
	size_t i;
	int k = 0;

	*out = in.p != NULL ? in : SPAN("");
	for (i = 0; i < m->n && out->p != NULL; i++) {
		if (m->step[i].kind == NORMAL_BYTE_LEVEL ||
		    (m->step[i].kind == NORMAL_PREPEND && part == PART_INSIDE))
			continue;
		if (m->step[i].kind == NORMAL_STRIP) {
			*out = strip(&m->step[i], *out);
			continue;
		}
		buf_start(&b->text[k], 0);
		w = (struct rewrite){ .in = (const uint8_t *)out->p, .n = out->n, .out = &b->text[k] };
		run_step(m, &m->step[i], b, part, &w);
		rewrite_end(&w, out);
		k ^= w.changed;
	}
}
