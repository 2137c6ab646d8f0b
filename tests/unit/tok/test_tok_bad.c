/* An error in a file is reported with its line, column and expected words: the cases are in
 * tests/data/tok/bad.txt. A good file cut short anywhere is refused with a line and a column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/edge.h"
#include "tests/unit/tok/fixture.h"

static const char good[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
	"\"ab\": 2}, \"merges\": [\"a b\"]}}";

struct bad_case {
	const char *title, *kind, *want;	/* each extends to the end of its line */
	char text[8192];
	size_t n;
};

static bool starts(const char *p, const char *with)
{
	return strncmp(p, with, strlen(with)) == 0;
}

static const char *next_line(const char *p)
{
	const char *eol = strchr(p, '\n');

	return eol ? eol + 1 : p + strlen(p);
}

static void take(struct bad_case *c, const char *from, const char *to)
{
	unsigned int hex;

	for (c->n = 0; from < to; ) {
		assert_true(c->n < sizeof(c->text));
		if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &hex) == 1) {
			c->text[c->n++] = (char)hex;
			from += 4;
		} else {
			c->text[c->n++] = *from++;
		}
	}
}

static const char *next_case(const char *p, struct bad_case *c)
{
	const char *from;

	while (*p != 0 && !starts(p, "=== "))
		p = next_line(p);
	if (*p == 0)
		return NULL;
	c->title = p + 4;
	p = next_line(p);
	c->kind = starts(p, "--- ") ? p + 4 : "";
	from = *c->kind ? next_line(p) : p;
	for (p = from; !starts(p, "=> "); p = next_line(p))
		assert_true(*p != 0);
	take(c, from, p);
	c->want = p + 3;
	return next_line(p);
}

/* Return whether <text> contains <word>. A '_' in <word> also matches a space. */
static bool says(const char *text, const char *word)
{
	for (; *text != 0; text++) {
		size_t i = 0;

		while (word[i] != 0 && (text[i] == word[i] || (word[i] == '_' && text[i] == ' ')))
			i++;
		if (word[i] == 0)
			return true;
	}
	return false;
}

static bool fits(const char *want, const struct err *e)
{
	char copy[400], *save = NULL;
	int line, column, used = 0;

	if (sscanf(want, "%d:%d%n", &line, &column, &used) != 2 || line != e->line || column != e->column)
		return false;
	snprintf(copy, sizeof(copy), "%.*s", (int)(strcspn(want, "\n") - (size_t)used), want + used);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if (!says(e->text, w))
			return false;
	}
	return true;
}

static struct tok *load_case(const struct bad_case *c, const uint8_t *text, struct err *e)
{
	struct tok_source src = { .name = "bad.json", .config_name = "bad_config.json" };
	char pattern[64] = "";

	if (starts(c->kind, "config")) {
		src.file = span_str(good);
		src.config = span_of(text, c->n);
	} else {
		src.file = span_of(text, c->n);
		if (starts(c->kind, "ranks ") && sscanf(c->kind, "ranks %63s", pattern) == 1)
			src.pattern = pattern;
	}
	return tok_load(&src, e);
}

static void bad_table(void **state)
{
	static struct bad_case c;
	struct span file = fixture_read("bad.txt");
	char *all = malloc(file.n + 1);
	unsigned failed = 0, n = 0;
	struct err e;

	assert_non_null(all);
	memcpy(all, file.p, file.n);
	all[file.n] = 0;
	for (const char *p = all; (p = next_case(p, &c)) != NULL; n++) {
		uint8_t *text = edge_copy(c.text, c.n);
		struct tok *t = load_case(&c, text, &e);

		if (t != NULL || !fits(c.want, &e) || (e.file[0] == 0 && e.line > 0)) {
			printf("%.*s: wanted %.*s\n   %s:%d:%d: %s\n", (int)strcspn(c.title, "\n"), c.title,
			       (int)strcspn(c.want, "\n"), c.want, e.file, e.line, e.column, t ? "it loads" : e.text);
			failed++;
		}
		tok_unref(t);
		edge_free(text, c.n);
	}
	assert_true(n > 70);
	free(all);
	free((void *)file.p);
	assert_int_equal(failed, 0);
}

static void every_cut(const char *name, const char *pattern, size_t step)
{
	struct tok_source src = { .name = name, .pattern = pattern };
	struct span file = fixture_read(name);
	struct err e;

	while (file.n > 0 && file.p[file.n - 1] == '\n')
		file.n--;
	for (size_t n = 0; n < file.n; n += step) {
		uint8_t *p = edge_copy(file.p, n);

		src.file = span_of(p, n);
		assert_null(tok_load(&src, &e));
		assert_true(e.text[0] != 0);
		if (n > 0)
			assert_true(e.line > 0 && e.column > 0);
		edge_free(p, n);
	}
	free((void *)file.p);
}

static void cuts(void **state)
{
	struct tok_source src = { .file = span_of(good, sizeof(good) - 1), .name = "good" };
	struct tok *t;
	struct err e;

	assert_non_null(t = tok_load(&src, &e));
	tok_unref(t);
	every_cut("small.tokenizer.json", NULL, 61);
	every_cut("fallback.tokenizer.json", NULL, 67);
	src.file = SPAN("");
	assert_null(tok_load(&src, &e));
	assert_null(tok_load(&src, NULL));
}

/* ---- long pieces of SentencePiece ------------------------------------------------------------ */

static char *add(char *p, const char *head, size_t n, const void *text, size_t bytes)
{
	memcpy(p, head, n);
	memcpy(p + n, text, bytes);
	return p + n + bytes;
}

/* Write a model with <pieces> pieces of 512 bytes that divide nowhere; returns its bytes. */
static size_t long_pieces(char *out, uint32_t pieces)
{
	static const char unk[] = "\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x03\x0a\x01" "a\x0a\x03\x0a\x01" "b";
	char text[512], *p = add(out, unk, sizeof(unk) - 1, "", 0);

	for (uint32_t i = 0; i < pieces; i++) {
		memset(text, 'a', sizeof(text));
		for (uint32_t bit = 0; bit < 12; bit++)
			text[500 + bit] = i >> bit & 1 ? 'b' : 'a';
		p = add(p, "\x0a\x83\x04\x0a\x80\x04", 6, text, sizeof(text));
	}
	return (size_t)(add(p, "\x12\x02\x18\x02", 4, "", 0) - out);
}

/* Every part of a piece is hashed: so many bytes that loading would take seconds are refused. */
static void pieces_are_too_long(void **state)
{
	static char model[4000 * 520];
	struct tok_source src = { .name = "long.model" };
	struct tok *t;
	struct err e;

	src.file = span_of(model, long_pieces(model, 500));
	assert_non_null(t = tok_load(&src, &e));
	tok_unref(t);
	src.file = span_of(model, long_pieces(model, 4000));
	assert_null(tok_load(&src, &e));
	assert_true(says(e.text, "too_long_to_divide"));
}

/* Write a model of <kind> with two pieces of the user that differ in their last byte. */
static size_t twins(char *out, char kind)
{
	static const char unk[] = "\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x03\x0a\x01" "a";
	char text[514], *p = add(out, unk, sizeof(unk) - 1, "", 0), type[] = "\x12\x02\x18 ";

	type[3] = kind;
	memset(text, 'a', sizeof(text));
	memcpy(text + 512, "\x18\x04", 2);
	for (char last = 'b'; last <= 'c'; last++) {
		text[511] = last;
		p = add(p, "\x0a\x85\x04\x0a\x80\x04", 6, text, sizeof(text));
	}
	return (size_t)(add(p, type, 4, "", 0) - out);
}

/* Text that begins long pieces of the user at every byte and never ends one: the walks of the
 * normalizer, and those of the search (BPE) or the lattice (Unigram), are charged. */
static void walks_are_charged(void **state)
{
	static char model[2000], text[8000];
	const uint64_t walks = sizeof(text) * 512 / 2, all = 100 * walks;
	struct tok_source src = { .name = "twins.model" };

	memset(text, 'a', sizeof(text));
	for (char kind = 1; kind <= 2; kind++) {
		struct tok_scratch *c = tok_scratch_new();
		struct work_left *w = tok_scratch_work(c);
		struct ids ids = { NULL, 0, 0 };
		struct err e;
		struct tok *t;

		src.file = span_of(model, twins(model, kind));
		assert_non_null(t = tok_load(&src, &e));
		w->left = all;
		assert_int_equal(tok_encode(t, c, span_of(text, sizeof(text)), 0, &ids), 0);
		assert_true(all - w->left > (kind == 1 ? 5 * walks / 2 : 7 * walks / 4));
		for (unsigned i = 1; i < 4; i++) {
			w->left = i * walks / 2;
			assert_int_equal(tok_encode(t, c, span_of(text, sizeof(text)), 0, &ids), TOK_SPENT);
		}
		ids_free(&ids);
		tok_scratch_free(c);
		tok_unref(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bad_table), cmocka_unit_test(cuts),
		cmocka_unit_test(pieces_are_too_long), cmocka_unit_test(walks_are_charged) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
