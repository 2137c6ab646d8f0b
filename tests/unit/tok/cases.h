/* cases.h - texts and pieces from the files of tests/data/tok, one line at a time. For unit tests
 * only.
 *
 * A line is "word rest", or one sign and the rest. In a text, \xNN is a byte and | ends a piece. */
#ifndef TESTS_TOK_CASES_H
#define TESTS_TOK_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/tok/split/split.h"

#define CASE_MOST	8192

/* A text and the ends of its pieces. */
struct case_text {
	uint8_t p[CASE_MOST];
	size_t n, n_pieces;
	uint32_t end[CASE_MOST];
};

static inline unsigned case_hex(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Decode the escapes and piece ends of <line>. An empty line has no pieces. */
static inline void case_undo(const char *line, struct case_text *t)
{
	t->n = t->n_pieces = 0;
	if (*line == '\0')
		return;
	for (; *line; line++) {
		assert_true(t->n < CASE_MOST);
		if (*line == '|') {
			t->end[t->n_pieces++] = (uint32_t)t->n;
		} else if (line[0] == '\\' && line[1] == 'x') {
			t->p[t->n++] = (uint8_t)(case_hex(line[2]) << 4 | case_hex(line[3]));
			line += 3;
		} else {
			t->p[t->n++] = (uint8_t)*line;
		}
	}
	t->end[t->n_pieces++] = (uint32_t)t->n;
}

static inline FILE *case_open(const char *path)
{
	FILE *f = fopen(path, "r");

	if (f == NULL)
		fail_msg("cannot open %s", path);
	return f;
}

/* Return the next line that is not a comment, without its newline; NULL at the end of the file. */
static inline char *case_line(FILE *f, char *buf, size_t n)
{
	while (fgets(buf, (int)n, f) != NULL) {
		buf[strcspn(buf, "\n")] = '\0';
		if (buf[0] != '#')
			return buf;
	}
	return NULL;
}

/* Return whether <line> begins with <word> and a space, and set *rest to the text after them. */
static inline bool case_is(const char *line, const char *word, const char **rest)
{
	size_t n = strlen(word);

	if (strncmp(line, word, n) != 0 || line[n] != ' ')
		return false;
	*rest = line + n + 1;
	return true;
}

/* Print the pieces of a text, each in brackets. */
static inline void case_split(const struct split *s, struct split_scratch *c, const uint8_t *p,
    size_t n, struct case_text *out)
{
	static struct pieces b;
	uint32_t i;
	bool first = true;

	out->n = out->n_pieces = 0;
	while (n > 0) {
		assert_int_equal(split_next(s, c, p, n, first, true, &b), 0);
		if (b.n > 0)
			memcpy(out->p + out->n, b.text, b.end[b.n - 1]);
		for (i = 0; i < b.n; i++)
			out->end[out->n_pieces++] = (uint32_t)out->n + b.end[i];
		out->n = out->n_pieces ? out->end[out->n_pieces - 1] : 0;
		assert_true(b.n > 0 || b.used == n);
		p += b.used;
		n -= b.used;
		first = false;
	}
}

static inline bool case_same(const struct case_text *a, const struct case_text *b)
{
	return a->n == b->n && a->n_pieces == b->n_pieces && memcmp(a->p, b->p, a->n) == 0 &&
	       memcmp(a->end, b->end, a->n_pieces * sizeof(a->end[0])) == 0;
}

static inline void case_print(const char *head, const struct case_text *t)
{
	size_t i, at = 0;

	print_error("%s", head);
	for (i = 0; i < t->n_pieces; at = t->end[i++])
		print_error("[%.*s]", (int)(t->end[i] - at), (const char *)t->p + at);
	print_error("\n");
}

#endif
