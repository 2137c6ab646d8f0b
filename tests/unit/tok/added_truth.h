/* added_truth.h - a reference search for added tokens: it tries every token at every position. For
 * unit tests only. */
#ifndef TESTS_TOK_ADDED_TRUTH_H
#define TESTS_TOK_ADDED_TRUTH_H

#include "agent/tok/added.h"
#include "agent/tok/normal.h"
#include "agent/tok/unicode/unicode.h"
#include "agent/tok/word.h"

#define TRUTH_TEXT_MAX	200	/* bytes of a text, and so the most hits */

struct truth_hit {
	size_t at, end;
	token_id id;
};

static inline size_t truth_before(const char *p, size_t i, uint32_t *cp)
{
	size_t from = i - 1;

	while (from > 0 && (p[from] & 0xc0) == 0x80)
		from--;
	utf8_get((const uint8_t *)p + from, i - from, cp);
	return from;
}

static inline bool truth_word_before(const char *p, size_t i)
{
	uint32_t cp;

	return i > 0 && (truth_before(p, i, &cp), word_char(cp));
}

static inline bool truth_word_behind(const char *p, size_t i, size_t n)
{
	uint32_t cp;

	return i < n && (utf8_get((const uint8_t *)p + i, n - i, &cp), word_char(cp));
}

static inline size_t truth_left(const char *p, size_t i)
{
	uint32_t cp;
	size_t from;

	while (i > 0 && (from = truth_before(p, i, &cp), uc_class(cp) & UC_SPACE))
		i = from;
	return i;
}

static inline size_t truth_right(const char *p, size_t i, size_t n)
{
	uint32_t cp;
	size_t m;

	while (i < n && (m = utf8_get((const uint8_t *)p + i, n - i, &cp), uc_class(cp) & UC_SPACE))
		i += m;
	return i;
}

/* Return whether NFC joins the character before p[end] with the marks after it. */
static inline bool truth_joined(const char *p, size_t end, size_t n)
{
	const struct normal_step nfc = { .kind = NORMAL_NFC };
	struct normal *m = normal_new(&nfc, 1, NULL);
	struct normal_buf b = { .work = NULL };
	struct span out;
	uint32_t cp;
	size_t from = truth_before(p, end, &cp);
	bool same;

	normal_run(m, &b, span_of(p + from, n - from), &out);
	same = out.p != NULL && out.n >= end - from && memcmp(out.p, p + from, end - from) == 0;
	normal_buf_fini(&b);
	normal_free(m);
	return !same;
}

static inline size_t truth(const struct added_token *t, size_t n_tokens, const char *p, size_t n,
    struct truth_hit *hit)
{
	size_t hits = 0, end = 0, i = 0;

	while (i < n) {
		const struct added_token *best = NULL;

		for (size_t k = 0; k < n_tokens; k++) {
			if (t[k].content.n == 0 || t[k].content.n > n - i ||
			    memcmp(p + i, t[k].content.p, t[k].content.n) != 0)
				continue;
			if (best == NULL || t[k].content.n > best->content.n)
				best = &t[k];
		}
		if (best == NULL) {
			i++;
			continue;
		}
		struct truth_hit h = { i, i + best->content.n, best->id };

		if (best->composes && truth_joined(p, h.end, n)) {
			i++;
			continue;
		}
		i = h.end;
		if (best->single_word && (truth_word_before(p, h.at) || truth_word_behind(p, h.end, n)))
			continue;
		if (best->lstrip && (h.at = truth_left(p, h.at)) < end)
			h.at = end;
		if (best->rstrip)
			h.end = truth_right(p, h.end, n);
		end = h.end;
		hit[hits++] = h;
	}
	return hits;
}

#endif
