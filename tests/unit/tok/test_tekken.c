/* tekken.json: the recorded ids of small.tekken.json, special tokens, which are never found in a
 * text, files of old versions, and errors in a file with their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/tok_image.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/fixture.h"

/* ---- generated files ------------------------------------------------------------------------- */

/* The parts of a file, a line each: its config, 256 byte entries of the vocabulary, <more> entries,
 * and the members after the vocabulary. */
struct made {
	const char *config, *more, *rest;
	int at;			/* replace the entry of this byte by <entry> */
	const char *entry;
};

static const char config[] = "\"pattern\": \".\", \"num_vocab_tokens\": 257, "
	"\"default_vocab_size\": 277, "
	"\"default_num_special_tokens\": 20, \"version\": \"v3\"";
static const char more[] = "{\"rank\": 256, \"token_bytes\": \"YWI=\", \"token_str\": \"ab\"}";

static void entry(char *out, size_t cap, unsigned b)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	snprintf(out, cap, "{\"rank\": %u, \"token_bytes\": \"%c%c==\", \"token_str\": null}", b,
	    digits[b >> 2], digits[(b & 3) << 4]);
}

static size_t make(const struct made *m, char *out, size_t cap)
{
	size_t n = (size_t)snprintf(out, cap, "{\"config\": {%s},\n\"vocab\": [\n",
	    m->config ? m->config : config);
	char one[100];

	for (unsigned b = 0; b < 256; b++) {
		entry(one, sizeof(one), b);
		n += (size_t)snprintf(out + n, cap - n, "%s,\n",
		    m->entry != NULL && m->at == (int)b ? m->entry : one);
	}
	n += (size_t)snprintf(out + n, cap - n, "%s],\n%s\"type\": \"Tekken\"}\n",
	    m->more ? m->more : more, m->rest ? m->rest : "");
	assert_true(n < cap);
	return n;
}

static struct tok *load(const struct made *m, struct err *e)
{
	static char text[65536];
	size_t n = make(m, text, sizeof(text));
	uint8_t *p = edge_copy(text, n);
	struct tok_source src = { .file = span_of(p, n), .name = "made/tekken.json" };
	struct tok *t = tok_load(&src, e);

	edge_free(p, n);
	return t;
}

static void ids_are(const struct tok *t, const char *text, unsigned flags, const token_id *want,
    size_t n)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { NULL, 0, 0 };

	assert_int_equal(tok_encode(t, c, span_str(text), flags, &ids), 0);
	assert_int_equal(ids.n, n);
	assert_memory_equal(ids.p, want, n * sizeof(*want));
	ids_free(&ids);
	tok_scratch_free(c);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void check_cases(const struct tok *t)
{
	struct span file = fixture_read("small.tekken.cases");
	char *cases = malloc(file.n + 1);
	struct fixture_case k;
	unsigned n = 0;

	assert_non_null(cases);
	memcpy(cases, file.p, file.n);
	cases[file.n] = 0;
	for (const char *p = cases; (p = fixture_next(p, &k)) != NULL; json_doc_free(k.doc), n++) {
		char text[200];

		assert_true(k.text.n < sizeof(text));
		memcpy(text, k.text.p, k.text.n);
		text[k.text.n] = 0;
		if (strlen(text) < k.text.n)
			continue;
		ids_are(t, text, 0, k.ids[0], k.n[0]);
		ids_are(t, text, TOK_SPECIAL, k.ids[1], k.n[1]);
	}
	assert_true(n > 25);
	free(cases);
	free((void *)file.p);
}

static void recorded(void **state)
{
	struct tok *t = fixture_load("small.tekken.json", NULL, NULL), *u;
	struct tok_image_key key = { { 1, 2 } };
	struct span image = tok_image(t, key);
	void *p = NULL;
	struct err e;

	check_cases(t);
	assert_int_equal(posix_memalign(&p, 64, image.n), 0);
	memcpy(p, image.p, image.n);
	assert_non_null(u = tok_of_image(span_of(p, image.n), key, NULL, NULL, &e));
	check_cases(u);
	assert_int_equal(tok_id(u, SPAN("[/THINK]")), 35);
	assert_int_equal(tok_id(u, SPAN("<SPECIAL_39>")), 39);
	tok_unref(u);
	tok_unref(t);
	free(p);
	free((void *)image.p);
}

/* tok_id() knows special tokens, but their text in a prompt is plain text, so there is no cut. */
static void special(void **state)
{
	struct err e;
	struct tok *t = load(&(struct made){ .at = 0 }, &e);
	struct tok_cut cut;

	assert_non_null(t);
	assert_int_equal(tok_id(t, SPAN("[INST]")), 3);
	assert_int_equal(tok_id(t, SPAN("[TOOL_CONTENT]")), 19);
	assert_int_equal(tok_id(t, SPAN("<SPECIAL_20>")), BPE_NO_ID);
	ids_are(t, "</s>", 0, (token_id[]){ 20 + '<', 20 + '/', 20 + 's', 20 + '>' }, 4);
	ids_are(t, "a", TOK_SPECIAL, (token_id[]){ 1, 20 + 'a' }, 2);
	assert_false(tok_next_cut(t, SPAN("x</s>[INST]"), 0, &cut));
	assert_int_equal(tok_cut_tail(t, SPAN("x</s")), 0);
	tok_unref(t);
}

/* The vocabulary has the size that the file states, even if its list is longer. */
static void size(void **state)
{
	static const char words[] = "\"pattern\": \"a+b*\", \"default_vocab_size\": %d, "
		"\"default_num_special_tokens\": 20, "
		"\"version\": \"v7\"";
	char said[200];
	struct err e;
	struct tok *t;

	snprintf(said, sizeof(said), words, 277);
	assert_non_null(t = load(&(struct made){ .config = said }, &e));
	ids_are(t, "ab", 0, (token_id[]){ 20 + 256 }, 1);
	tok_unref(t);
	snprintf(said, sizeof(said), words, 276);
	assert_non_null(t = load(&(struct made){ .config = said }, &e));
	ids_are(t, "ab", 0, (token_id[]){ 20 + 'a', 20 + 'b' }, 2);
	tok_unref(t);
}

/* ---- errors ---------------------------------------------------------------------------------- */

#define V(size, special, version)	"\"pattern\": \".\", \"default_vocab_size\": " size \
	", \"default_num_special_tokens\": " special \
					", \"version\": \"" version "\""
#define TOKENS(list)			"\"special_tokens\": [" list "],\n"

static const struct {
	struct made m;
	int line, column;
	const char *words;	/* words that the error must contain; _ is a space */
} bad[] = {
	{ { .config = V("277", "20", "v9") }, 1, 101, "config.version \"v9\" understood_are v15" },
	{ { .config = V("277", "20", "v13") }, 1, 1, "special_tokens is_missing v7" },
	{ { .config = V("275", "20", "v3") }, 1, 51, "config.default_vocab_size no_room 256 20" },
	{ { .config = V("10", "20", "v3") }, 1, 51, "config.default_vocab_size no_room" },
	{ { .config = V("16777216", "20", "v3") }, 1, 51, "more_than 16777215" },
	{ { .config = V("100000", "65537", "v3") }, 1, 89, "more_than 65536" },
	{ { .config = V("278", "20", "v3") }, 1, 51, "config.default_vocab_size 258 \"vocab\"_has_257" },
	{ { .config = V("276", "19", "v3") }, 1, 86, "rank_19 not_below" },
	{ { .config = V("277", "20", "v3") ", \"x\": 1" }, 1, 112, "config.x understood_are pattern" },
	{ { .config = "\"pattern\": \"(\", \"default_vocab_size\": 277, \"default_num_special_tokens\": "
	  "20, \"version\": \"v3\"" }, 0, 0,
	  "pattern" },
	{ { .config = "\"default_vocab_size\": 277, \"default_num_special_tokens\": 20, \"version\": "
	  "\"v3\"" }, 1, 12, "\"pattern\" missing" },
	{ { .at = 7, .entry = "7" }, 10, 1, "vocab object" },
	{ { .at = 7, .entry = "{\"rank\": 8, \"token_bytes\": \"Bw==\"}" }, 10, 10,
	  "vocab rank_7_is_expected" },
	{ { .at = 7, .entry = "{\"rank\": 7, \"token_bytes\": \"CA==\"}" }, 10, 28,
	  "vocab byte_7_is_expected" },
	{ { .at = 7, .entry = "{\"rank\": 7, \"token_bytes\": \"B-==\"}" }, 10, 28, "vocab base64" },
	{ { .at = 7, .entry = "{\"rank\": 7}" }, 10, 1, "token_bytes missing" },
	{ { .at = 7, .entry = "{\"token_bytes\": \"Bw==\"}" }, 10, 1, "rank missing" },
	{ { .at = 7, .entry = "{\"rank\": 7, \"score\": 1}" }, 10, 13,
	  "\"score\" understood_are token_str" },
	{ { .at = 7, .entry = "{\"rank\": 7, \"token_str\": 5}" }, 10, 26, "string" },
	{ { .more = "{\"rank\": 256, \"token_bytes\": \"YQ==\"}" }, 259, 30, "vocab twice" },
	{ { .rest = TOKENS("{\"rank\": 20, \"token_str\": \"x\"}") }, 260, 20,
	  "special_tokens[0] rank_20 not_below" },
	{ { .rest = TOKENS("{\"rank\": 0, \"token_str\": \"x\"}, {\"rank\": 0, \"token_str\": \"y\"}") },
	  260, 51, "special_tokens[1] another's" },
	{ { .rest = TOKENS("{\"rank\": 0, \"token_str\": \"x\"}, {\"rank\": 1, \"token_str\": \"x\"}") },
	  260, 51, "special_tokens[1] another's" },
	{ { .rest = TOKENS("{\"rank\": 0, \"token_str\": \"\"}") }, 260, 20, "empty" },
	{ { .rest = TOKENS("{\"rank\": 0, \"token_str\": \"x\"}") }, 1, 1, "\"<s>\"" },
	{ { .rest = TOKENS("{\"rank\": 0, \"token_str\": \"x\", \"lstrip\": true}") }, 260, 60,
	  "special_tokens[0].lstrip understood_are" },
	{ { .rest = TOKENS("5") }, 260, 20, "special_tokens[0] a_number object" },
	{ { .rest = "\"special_tokens\": {},\n" }, 260, 19, "special_tokens array" },
	{ { .rest = "\"model_settings_builder\": {},\n" }, 260, 27, "model_settings_builder v15" },
	{ { .rest = "\"normalizer\": {},\n" }, 260, 15, "normalizer understood_are special_tokens" },
};

static bool says(const char *text, const char *words)
{
	char one[64], *p;
	int used;

	for (; sscanf(words, " %63s%n", one, &used) == 1; words += used) {
		for (p = one; (p = strchr(p, '_')) != NULL && strstr(text, one) == NULL; )
			*p = ' ';
		if (strstr(text, one) == NULL)
			return false;
	}
	return true;
}

static void refused(void **state)
{
	unsigned failed = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e;
		struct tok *t = load(&bad[i].m, &e);

		if (t == NULL && e.line == bad[i].line && e.column == bad[i].column &&
		    says(e.text, bad[i].words) && strcmp(e.file, "made/tekken.json") == 0)
			continue;
		printf("case %zu: wanted %d:%d %s\n    %s:%d:%d: %s\n", i, bad[i].line,
		    bad[i].column, bad[i].words, e.file, e.line, e.column, t ? "it loads" : e.text);
		failed++;
		tok_unref(t);
	}
	assert_int_equal(failed, 0);
}

static void every_cut(void **state)
{
	static char text[65536];
	size_t n = make(&(struct made){ .rest = TOKENS("{\"rank\": 1, \"token_str\": \"<s>\"}") },
		       text, sizeof(text)) -
	    1;
	struct err e;

	for (size_t cut = 1; cut < n; cut += cut < 200 || cut + 200 > n ? 1 : 23) {
		uint8_t *p = edge_copy(text, cut);
		struct tok_source src = { .file = span_of(p, cut), .name = "cut" };

		assert_null(tok_load(&src, &e));
		assert_true(e.line > 0 && e.column > 0 && e.text[0] != 0);
		edge_free(p, cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded),
		cmocka_unit_test(special),
		cmocka_unit_test(size),
		cmocka_unit_test(refused),
		cmocka_unit_test(every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
