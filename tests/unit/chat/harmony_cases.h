/* harmony_cases.h - gathers the text that harmony renders. For its unit tests. */
#ifndef TESTS_HARMONY_CASES_H
#define TESTS_HARMONY_CASES_H

#include <stdlib.h>

#include "agent/chat/harmony.h"

/* Rendered pieces, joined. With <marks>, a piece of user text is put in brackets. */
struct gathered {
	char *p;
	size_t n, cap;
	bool marks;
	unsigned pieces, end_at;	/* stop at this piece; 0: never */
};

static inline void gather(struct gathered *g, const char *p, size_t n)
{
	if (g->n + n + 1 > g->cap) {
		g->cap = 2 * (g->n + n + 1);
		g->p = realloc(g->p, g->cap);
		assert_non_null(g->p);
	}
	memcpy(g->p + g->n, p, n);
	g->n += n;
	g->p[g->n] = '\0';
}

static inline int gather_piece(void *arg, enum harmony_piece what, struct span text)
{
	struct gathered *g = arg;

	if (++g->pieces == g->end_at)
		return -1;
	if (g->marks && what == PIECE_TEXT)
		gather(g, "[", 1);
	gather(g, text.p, text.n);
	if (g->marks && what == PIECE_TEXT)
		gather(g, "]", 1);
	return 0;
}

static const struct hash_key case_key = { { 1, 2, 3 } };

static inline struct jval parsed(struct jinja_mem *mem, const char *json)
{
	struct jval v;
	size_t at;

	assert_int_equal(jval_from_json(mem, span_str(json), 0, &v, &at), 0);
	return v;
}

#define TEXT(s)	.text = &SPAN(s), .n_text = 1

#endif
