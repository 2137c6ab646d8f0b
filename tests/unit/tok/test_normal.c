/* test_normal.c - normalizers against tokenizers 0.22.2: every character, sequences of combining
 * characters, chains of steps. Unchanged text must not be copied. */
#include "agent/base/rng.h"
#include "agent/tok/normal.h"
#include "agent/tok/unicode/unicode.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/cases.h"

#define FILE_NAME	"tests/data/tok/normal.txt"
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const struct form {
	const char *name;
	struct normal_step step[2];
	size_t n;
} forms[] = {
	{ "NFC", { { .kind = NORMAL_NFC } }, 1 }, { "NFD", { { .kind = NORMAL_NFD } }, 1 },
	{ "NFKC", { { .kind = NORMAL_NFKC } }, 1 },
	{ "NFKD", { { .kind = NORMAL_NFKD } }, 1 }, { "NFD-NFC",
	  { { .kind = NORMAL_NFD }, { .kind = NORMAL_NFC } }, 2 },
	{ "Lowercase", { { .kind = NORMAL_LOWERCASE } }, 1 },
	{ "StripAccents", { { .kind = NORMAL_STRIP_ACCENTS } }, 1 },
};
#define FORMS	COUNT(forms)

static struct normal *normal_of(const struct normal_step *step, size_t n)
{
	struct err e;
	struct normal *m = normal_new(step, n, &e);

	if (m == NULL)
		fail_msg("%s", e.text);
	return m;
}

/* Return whether <out> is <p> itself, or equal to it if <f> is a chain of several steps. */
static bool unchanged(const struct form *f, struct span out, const void *p, size_t n)
{
	return f->n == 1 ? out.p == (const char *)p && out.n == n : span_eq(out, span_of(p, n));
}

static struct span run(const struct normal *m, struct normal_buf *b, const void *p, size_t n)
{
	struct span out;

	normal_run(m, b, span_of(p, n), &out);
	assert_non_null(out.p);
	return out;
}

/* ---- the file -------------------------------------------------------------------------------- */

static uint64_t fnv(struct span s)
{
	uint64_t h = 0xcbf29ce484222325;
	size_t i;

	for (i = 0; i < s.n; i++)
		h = (h ^ (uint8_t)s.p[i]) * 0x100000001b3;
	return h;
}

/* Write the characters of a block of 4,096 to <out>, a newline after each. Returns the bytes. */
static size_t block_text(uint32_t block, uint8_t *out)
{
	uint32_t cp;
	size_t n = 0;

	for (cp = block << 12; cp < (block + 1) << 12; cp++) {
		if (cp - 0xd800 < 0x800)
			continue;
		n += utf8_put(out + n, cp);
		out[n++] = '\n';
	}
	return n;
}

static void check_block(const struct normal *m, struct normal_buf *b, const struct form *form,
    uint32_t block, uint64_t want)
{
	static uint8_t text[4096 * 5];
	size_t n = block_text(block, text);
	struct span out;

	if (n == 0)
		return;
	out = run(m, b, text, n);
	if (want == 0 ? !unchanged(form, out, text, n) : fnv(out) != want)
		fail_msg("%s of block %x differs from tokenizers", form->name, (unsigned)block);
}

static void every_character(void **state)
{
	static uint64_t want[FORMS][0x110];
	char line[CASE_MOST], name[32];
	struct normal_buf b = { .work = NULL };
	unsigned block;
	unsigned long long hash;
	size_t i, n = 0;
	FILE *f = case_open(FILE_NAME);

	while (case_line(f, line, sizeof(line)) != NULL &&
	    sscanf(line, "all %31s %x %llx", name, &block, &hash) == 3)
		for (i = 0; i < FORMS; i++)
			if (strcmp(name, forms[i].name) == 0) {
				want[i][block] = hash;
				n++;
			}
	fclose(f);
	assert_true(n > 40);
	for (i = 0; i < FORMS; i++) {
		struct normal *m = normal_of(forms[i].step, forms[i].n);

		for (block = 0; block < 0x110; block++)
			check_block(m, &b, &forms[i], block, want[i][block]);
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* Normalize <cp> after U+304B in a run of three-byte characters. The expected text is the
 * normalized <cp>, its first character composed with U+304B if <joins>. */
static void check_in_run(const struct normal *m, struct normal_buf *b, bool joins, uint32_t cp)
{
	uint8_t text[20] = "\xe4\xb8\x80\xe4\xb8\x80\xe3\x81\x8b", want[80] = "\xe4\xb8\x80\xe4\xb8\x80";
	size_t n = 9 + utf8_put(text + 9, cp), k = 6, len;
	uint32_t first, both;
	struct span alone = run(m, b, text + 9, n - 9), out;

	len = utf8_get((const uint8_t *)alone.p, alone.n, &first);
	both = joins ? uc_compose(0x304b, first) : 0;
	k += utf8_put(want + k, both ? both : 0x304b);
	len = both ? len : 0;
	memcpy(want + k, alone.p + len, alone.n - len);
	k += alone.n - len;
	memcpy(want + k, "\xe4\xb8\x80", 3);
	memcpy(text + n, "\xe4\xb8\x80", 3);
	out = run(m, b, text, n + 3);
	if (!span_eq(out, span_of(want, k + 3)))
		fail_msg("U+%04X in a run: wrong normal form", (unsigned)cp);
}

static void runs_of_three_bytes(void **state)
{
	struct normal_buf b = { .work = NULL };
	uint32_t cp;
	size_t i;

	for (i = 0; i < 4; i++) {
		struct normal *m = normal_of(forms[i].step, 1);
		enum normal_kind kind = forms[i].step[0].kind;

		for (cp = 0x800; cp < 0x10000; cp++)
			if (cp - 0xd800 >= 0x800)
				check_in_run(m, &b, kind == NORMAL_NFC || kind == NORMAL_NFKC, cp);
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* Marks of three bytes are reordered: U+302A .. U+302F go before U+0360. */
static void marks_of_three_bytes(void **state)
{
	struct normal_buf b = { .work = NULL };
	uint8_t text[] = "\xe4\xb8\x80\xcd\xa0\xe3\x80\xaa\xe4\xb8\x80";
	uint8_t want[] = "\xe4\xb8\x80\xe3\x80\xaa\xcd\xa0\xe4\xb8\x80";
	size_t i;
	uint8_t last;

	for (i = 0; i < 4; i++) {
		struct normal *m = normal_of(forms[i].step, 1);

		for (last = 0xaa; last <= 0xaf; last++) {
			text[7] = want[5] = last;
			assert_true(span_eq(run(m, &b, text, sizeof(text) - 1), span_of(want, sizeof(want) - 1)));
		}
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* Compare the normalized <in> with <line>: "" means unchanged, "|" means an empty text. */
static void check_text(const struct normal *m, struct normal_buf *b, const struct form *form,
    const struct case_text *in, const char *line)
{
	static struct case_text want;
	uint8_t *p = edge_copy(in->p, in->n);
	struct span out = run(m, b, p, in->n);

	case_undo(line[0] == '|' ? "" : line, &want);
	if (line[0] == '\0' ? !unchanged(form, out, p, in->n) : !span_eq(out, span_of(want.p, want.n))) {
		print_error("got %.*s\n", SPAN_ARG(out));
		fail_msg("%s of \"%.*s\": want %s", form->name, (int)in->n, (const char *)in->p, line);
	}
	edge_free(p, in->n);
}

static void texts_match_tokenizers(void **state)
{
	static char line[CASE_MOST];
	static struct case_text in;
	struct normal *m[FORMS];
	struct normal_buf b = { .work = NULL };
	const char *rest;
	size_t i, k = FORMS, n = 0;
	FILE *f = case_open(FILE_NAME);

	for (i = 0; i < FORMS; i++)
		m[i] = normal_of(forms[i].step, forms[i].n);
	while (case_line(f, line, sizeof(line)) != NULL) {
		if (case_is(line, "all", &rest) || case_is(line, "forms", &rest))
			continue;
		if (case_is(line, "text", &rest)) {
			case_undo(rest, &in);
			assert_int_equal(k, FORMS);
			k = 0;
			n++;
			continue;
		}
		assert_true(line[0] == '=' && k < FORMS);
		check_text(m[k], &b, &forms[k], &in, line + 1);
		k++;
	}
	assert_true(n > 80);
	for (i = 0; i < FORMS; i++)
		normal_free(m[i]);
	normal_buf_fini(&b);
	fclose(f);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static void chains(void **state)
{
	static const struct {
		struct normal_step step[3];
		size_t n;
		const char *in, *want;
	} cases[] = {
		{ { { .kind = NORMAL_PREPEND, .content = SPAN("\xe2\x96\x81") },
		    { .kind = NORMAL_REPLACE, .pattern = SPAN(" "), .content = SPAN("\xe2\x96\x81") } }, 2, "a b",
		  "\xe2\x96\x81" "a\xe2\x96\x81" "b" },
		{ { { .kind = NORMAL_PREPEND, .content = SPAN("x") } }, 1, "", "" },
		{ { { .kind = NORMAL_STRIP, .strip_left = true, .strip_right = true } }, 1,
		  " \xe3\x80\x80 a b\n\t ", "a b" },
		{ { { .kind = NORMAL_STRIP, .strip_right = true } }, 1, "  a  ", "  a" },
		{ { { .kind = NORMAL_STRIP, .strip_left = true } }, 1, "   ", "" },
		{ { { .kind = NORMAL_REPLACE, .pattern = SPAN("\\s+|a?"), .content = SPAN("<>"),
		  .regex = true } }, 1, "ba  c",
		  "<>b<><>c<>" },
		{ { { .kind = NORMAL_REPLACE, .pattern = SPAN(""), .content = SPAN("-") } }, 1, "ab", "-a-b-" },
		{ { { .kind = NORMAL_REPLACE, .pattern = SPAN("ab"), .content = SPAN("") } }, 1, "xababy", "xy" },
		{ { { .kind = NORMAL_NFKC }, { .kind = NORMAL_LOWERCASE },
		  { .kind = NORMAL_REPLACE, .pattern = SPAN("  "), .content = SPAN(" ") } },
		  3, "\xef\xbc\xa1  \xef\xac\x81   Z", "a fi  z" },
		{ { { .kind = NORMAL_LOWERCASE } }, 1, "\xc4\xb0\xce\xa3", "i\xcc\x87\xcf\x83" },
		{ { { .kind = NORMAL_BYTE_LEVEL } }, 1, "a b", "a b" },
	};
	struct normal_buf b = { .work = NULL };
	size_t i;

	for (i = 0; i < COUNT(cases); i++) {
		struct normal *m = normal_of(cases[i].step, cases[i].n);
		struct span out = run(m, &b, cases[i].in, strlen(cases[i].in));

		if (!span_eq(out, span_str(cases[i].want)))
			fail_msg("case %zu: got \"%.*s\"", i, SPAN_ARG(out));
		normal_free(m);
	}
	normal_buf_fini(&b);
}

static void invalid_steps_are_refused(void **state)
{
	struct normal_step s = { .kind = NORMAL_REPLACE, .pattern = SPAN("(a"), .regex = true };
	struct err e;

	assert_null(normal_new(&s, 1, &e));
	assert_string_equal(e.text, "step 1 of the normalizer, Replace: the pattern is not understood "
		"at byte 1: a group without an end");
	s.kind = (enum normal_kind)99;
	assert_null(normal_new(&s, 1, &e));
	assert_null(normal_new(&s, 5000, &e));
}

/* A run of half a million marks in the worst order, alternating between two classes, takes O(n). */
static void long_runs_of_marks(void **state)
{
	struct normal_step s = { .kind = NORMAL_NFC };
	struct normal *m = normal_of(&s, 1);
	struct normal_buf b = { .work = NULL };
	size_t n = 1 << 20, i;
	uint8_t *p = malloc(n + 1);
	struct span out;

	p[0] = 'a';
	for (i = 0; i < n; i += 4)
		memcpy(p + 1 + i, "\xcc\x80\xcc\xa3", 4);	/* above, below */
	out = run(m, &b, p, n + 1);
	/* the letter takes the first mark below it; the other marks below go before all marks above */
	assert_int_equal(out.n, n + 1 - 2 - 1 + 3);
	assert_memory_equal(out.p, "\xe1\xba\xa1\xcc\xa3\xcc\xa3", 7);
	assert_memory_equal(out.p + out.n - 4, "\xcc\x80\xcc\x80", 4);
	free(p);
	normal_free(m);
	normal_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_character),
		cmocka_unit_test(runs_of_three_bytes),
		cmocka_unit_test(marks_of_three_bytes),
		cmocka_unit_test(texts_match_tokenizers),
		cmocka_unit_test(chains),
		cmocka_unit_test(invalid_steps_are_refused),
		cmocka_unit_test(long_runs_of_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
