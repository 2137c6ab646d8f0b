/* A whole tokenizer: the small ones of tests/data/tok against ids recorded from tokenizers 0.22,
 * images, text that is not UTF-8, text in segments, and the settings of a tokenizer_config.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/tok_image.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/fixture.h"

static const char *const fixtures[] = { "small", "fallback", "metaspace", "wordpiece",
	"wordpiece_cased", "unigram", "precompiled", "suffix", "small.model", "users.model",
	"unigram.model", "bytes.model", "lattice.model", "kept.model", "spaces.model" };

static char *cases_of(const char *name)
{
	char path[100], *text;
	struct span s;

	snprintf(path, sizeof(path), "%s.cases", name);
	s = fixture_read(path);
	assert_non_null(text = malloc(s.n + 1));
	memcpy(text, s.p, s.n);
	text[s.n] = 0;
	free((void *)s.p);
	return text;
}

static void file_of(const char *name, char path[100])
{
	snprintf(path, 100, strstr(name, ".model") != NULL ? "%s" : "%s.tokenizer.json", name);
}

static struct tok *load(const char *name)
{
	char path[100];

	file_of(name, path);
	return fixture_load(path, NULL, NULL);
}

static bool same(const char *what, struct span text, const struct ids *got, const token_id *want,
    size_t n)
{
	if (got->n == n && (n == 0 || memcmp(got->p, want, n * sizeof(*want)) == 0))
		return true;
	printf("%s: \"" SPAN_FMT "\"\n   wanted", what, SPAN_ARG(text));
	for (size_t i = 0; i < n; i++)
		printf(" %u", want[i]);
	printf("\n      got");
	for (size_t i = 0; i < got->n; i++)
		printf(" %u", got->p[i]);
	printf("\n");
	return false;
}

/* Encode a copy of <text> that ends at an unreadable page. */
static void encode(const struct tok *t, struct tok_scratch *c, struct span text, unsigned flags,
    struct ids *out)
{
	uint8_t *p = edge_copy(text.p, text.n);

	out->n = 0;
	assert_int_equal(tok_encode(t, c, span_of(p, text.n), flags, out), 0);
	edge_free(p, text.n);
}

static unsigned check_cases(const struct tok *t, const char *name)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { NULL, 0, 0 };
	struct fixture_case k;
	char *cases = cases_of(name);
	unsigned bad = 0, n = 0;

	for (const char *p = cases; (p = fixture_next(p, &k)) != NULL; json_doc_free(k.doc), n++) {
		for (unsigned special = 0; special < 2; special++) {
			encode(t, c, k.text, special ? TOK_SPECIAL : 0, &ids);
			bad += !same(name, k.text, &ids, k.ids[special], k.n[special]);
		}
	}
	assert_true(n > 20);
	free(cases);
	ids_free(&ids);
	tok_scratch_free(c);
	return bad;
}

static void recorded(void **state)
{
	unsigned bad = 0;

	for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++) {
		struct tok *t = load(fixtures[i]);

		bad += check_cases(t, fixtures[i]);
		tok_unref(t);
	}
	assert_int_equal(bad, 0);
}

static unsigned gone;

static void on_gone(void *arg)
{
	gone++;
	assert_ptr_equal(arg, &gone);
}

/* The image of a tokenizer gives the same ids, and is refused if it is cut, changed or has the key
 * of other files. */
static void image_of(const char *name)
{
	char path[100];
	struct tok_source src = { .name = name };
	struct tok_image_key key, other;
	struct span image;
	char *aligned = NULL;
	struct tok *t = load(name), *u;
	struct err e;

	file_of(name, path);
	src.file = fixture_read(path);
	key = tok_image_key(&src);
	image = tok_image(t, key);
	assert_non_null(image.p);
	assert_int_equal(posix_memalign((void **)&aligned, 64, image.n), 0);
	memcpy(aligned, image.p, image.n);
	u = tok_of_image(span_of(aligned, image.n), key, on_gone, &gone, &e);
	assert_non_null(u);
	assert_int_equal(check_cases(u, name), 0);
	assert_true(tok_fingerprint(u) == tok_fingerprint(t));
	gone = 0;
	assert_ptr_equal(tok_ref(u), u);
	tok_unref(u);
	assert_int_equal(gone, 0);
	tok_unref(u);
	assert_int_equal(gone, 1);

	other = key;
	other.h[1]++;
	assert_null(tok_of_image(span_of(aligned, image.n), other, on_gone, &gone, &e));
	assert_non_null(strstr(e.text, "another tokenizer"));
	for (size_t n = 0; n < image.n; n += n < 200 ? 1 : 997)
		assert_null(tok_of_image(span_of(aligned, n), key, on_gone, &gone, &e));
	for (size_t i = 0; i < image.n; i += i < 400 ? 1 : 509) {
		aligned[i] ^= 1;
		assert_null(tok_of_image(span_of(aligned, image.n), key, on_gone, &gone, &e));
		aligned[i] ^= 1;
	}
	assert_int_equal(gone, 1);
	free(aligned);
	mem_free((void *)image.p);
	free((void *)src.file.p);
	tok_unref(t);
}

static void images(void **state)
{
	for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++)
		image_of(fixtures[i]);
}

static bool key_eq(const struct tok_source *a, const struct tok_source *b)
{
	struct tok_image_key x = tok_image_key(a), y = tok_image_key(b);

	return memcmp(&x, &y, sizeof(x)) == 0;
}

/* Another file, configuration or pattern gives another image key; another configuration gives
 * another fingerprint. */
static void keys(void **state)
{
	struct tok_source a = { .file = SPAN("{}"), .config = SPAN("x") }, b = { .file = SPAN("{}x") };
	struct tok_source c = { .file = SPAN("{}") };
	struct tok *t = load("small"), *u = fixture_load("small.tokenizer.json", "{}", NULL),
		   *v = load("small");

	assert_false(key_eq(&a, &b));
	assert_false(key_eq(&a, &c));
	a.config.n = 0;
	assert_true(key_eq(&a, &c));
	c.pattern = "o200k";
	assert_false(key_eq(&a, &c));
	assert_true(tok_fingerprint(t) != tok_fingerprint(u));
	assert_true(tok_fingerprint(t) == tok_fingerprint(v));
	assert_true(tok_bytes(t) > 1000);
	tok_unref(t);
	tok_unref(u);
	tok_unref(v);
}

static void bad_utf8(void **state)
{
	static const struct { struct span in, same_as; } cases[] = {
		{ SPAN("a\xff" "b"), SPAN("a\xef\xbf\xbd" "b") },
		{ SPAN("\xe6\x97"), SPAN("\xef\xbf\xbd") },
		{ SPAN("\xe6\x97<|end|>"), SPAN("\xef\xbf\xbd<|end|>") },
		{ SPAN("\xf0\x9f\x98x\xc0\x80"), SPAN("\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd") },
		{ SPAN("\xed\xa0\x80"), SPAN("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") },
	};
	struct tok *t = load("small");
	struct tok_scratch *c = tok_scratch_new();
	struct ids a = { NULL, 0, 0 }, b = { NULL, 0, 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		encode(t, c, cases[i].in, 0, &a);
		encode(t, c, cases[i].same_as, 0, &b);
		assert_true(same("bad", cases[i].in, &a, b.p, b.n));
	}
	ids_free(&a);
	ids_free(&b);
	tok_scratch_free(c);
	tok_unref(t);
}

/* The ids of all segments and cuts in order are the ids of the whole text. */
static void in_segments(const struct tok *t, const char *name)
{
	struct tok_scratch *c = tok_scratch_new();
	struct fixture_case k;
	struct ids ids = { NULL, 0, 0 };
	char *cases = cases_of(name);

	for (const char *p = cases; (p = fixture_next(p, &k)) != NULL; json_doc_free(k.doc)) {
		struct tok_cut cut;
		size_t from = 0;

		ids.n = 0;
		while (tok_next_cut(t, k.text, from, &cut)) {
			assert_true(cut.at >= from && cut.n > 0);
			assert_int_equal(tok_encode_segment(t, c,
					     span_of(k.text.p + from, cut.at - from), from == 0,
					     &ids),
			    0);
			assert_int_equal(ids_reserve(&ids, 1), 0);
			ids.p[ids.n++] = cut.id;
			from = cut.at + cut.n;
		}
		assert_int_equal(tok_encode_segment(t, c, span_of(k.text.p + from, k.text.n - from),
				     from == 0, &ids),
		    0);
		assert_true(same("segments", k.text, &ids, k.ids[0], k.n[0]));
	}
	free(cases);
	ids_free(&ids);
	tok_scratch_free(c);
}

static void segments(void **state)
{
	struct tok *t = load("fallback"), *m = load("metaspace"), *s = load("small");

	assert_true(tok_segments(t).independent && !tok_segments(t).first_differs);
	assert_true(tok_segments(m).independent && tok_segments(m).first_differs);
	/* one token strips white space, another one is white space */
	assert_false(tok_segments(s).independent);
	in_segments(t, "fallback");
	in_segments(m, "metaspace");
	tok_unref(t);
	t = load("wordpiece_cased");
	assert_true(tok_segments(t).independent);
	in_segments(t, "wordpiece_cased");
	tok_unref(t);
	tok_unref(m);
	tok_unref(s);
}

static void tails(void **state)
{
	static const struct { const char *text; size_t tail; } cases[] = {
		{ "", 0 }, { "abc", 0 }, { "abc<", 1 }, { "abc<|", 2 }, { "x<|end", 5 }, { "x<|end|>", 0 },
		{ "x<|endless|>", 0 },
		{ "x ", 1 }, { "x \xe3\x80\x80", 4 }, { "<|strip|> ", 10 }, { "<|strip|>", 9 },
		{ "<|begin|><", 1 }, { "a<b", 0 },
	};
	struct tok *t = load("small");

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t got = tok_cut_tail(t, span_str(cases[i].text));

		if (got != cases[i].tail)
			printf("\"%s\": %zu, wanted %zu\n", cases[i].text, got, cases[i].tail);
		assert_int_equal(got, cases[i].tail);
	}
	tok_unref(t);
}

static void ids_of_tokens(void **state)
{
	struct tok *t = load("small");

	assert_int_equal(tok_id(t, SPAN("<|end|>")), 401);
	assert_int_equal(tok_id(t, SPAN("word")), 405);
	assert_int_equal(tok_id(t, SPAN("<|end")), BPE_NO_ID);
	assert_true(tok_is_added(t, 400) && tok_is_added(t, 401) && tok_is_added(t, 405));
	assert_false(tok_is_added(t, 0) || tok_is_added(t, 399) || tok_is_added(t, 100000));
	assert_int_equal(tok_prefix(t).n, 1);
	assert_int_equal(tok_prefix(t).p[0], 400);
	assert_int_equal(tok_suffix(t).p[0], 401);
	tok_unref(t);
	tok_unref(NULL);
	tok_scratch_free(NULL);
}

static void with_config(const char *config, struct span text, const token_id *want, size_t n)
{
	struct tok *t = fixture_load("fallback.tokenizer.json", config, NULL);
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { NULL, 0, 0 };

	encode(t, c, text, TOK_SPECIAL, &ids);
	assert_true(same(config, text, &ids, want, n));
	ids_free(&ids);
	tok_scratch_free(c);
	tok_unref(t);
}

/* The settings of a tokenizer_config.json have the same effect as in transformers. */
static void configs(void **state)
{
	struct tok *t = load("fallback");
	struct tok_scratch *c = tok_scratch_new();
	struct ids x = { NULL, 0, 0 };
	token_id w[4], next;

	encode(t, c, SPAN("x"), 0, &x);
	assert_int_equal(x.n, 2);
	memcpy(w + 1, x.p, 2 * sizeof(w[0]));
	w[0] = 1;
	w[3] = 2;
	with_config("{}", SPAN("x"), w, 3);
	with_config("{\"tokenizer_class\": \"LlamaTokenizerFast\"}", SPAN("x"), w, 3);
	with_config("{\"tokenizer_class\": \"LlamaTokenizer\", \"add_eos_token\": true, "
		    "\"eos_token\": {\"content\": \"</s>\"}}", SPAN("x"), w, 4);
	with_config("{\"tokenizer_class\": \"LlamaTokenizerFast\", \"add_bos_token\": false}",
	    SPAN("x"), w + 1, 2);
	with_config("{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"add_bos_token\": false}",
	    SPAN("x"), w, 3);
	with_config("{\"tokenizer_class\": \"GPTNeoXTokenizerFast\", \"bos_token\": \"</s>\", "
		"\"add_bos_token\": true, "
		    "\"unk_token\": null, \"eos_token\": null}", SPAN("x"), (token_id[]){ 2, w[1], w[2] }, 3);
	with_config("{\"add_bos_token\": true, \"bos_token\": \"<s>\"}", SPAN("x"), w, 3);

	/* a token of the configuration gets the next id */
	tok_unref(t);
	t = fixture_load("fallback.tokenizer.json", "{\"pad_token\": \"[PAD]\"}", NULL);
	next = tok_id(t, SPAN("[PAD]"));
	assert_int_not_equal(next, BPE_NO_ID);
	with_config("{\"pad_token\": \"[PAD]\"}", SPAN("x[PAD]"), (token_id[]){ 1, w[1], w[2], next }, 4);
	with_config("{\"added_tokens_decoder\": {\"9\": {\"content\": \"[A]\"}, "
		    "\"7\": {\"content\": \"[B]\", \"special\": true}}}",
		    SPAN("[A][B]x"), (token_id[]){ 1, next + 1, next, w[1], w[2] }, 5);
	ids_free(&x);
	tok_scratch_free(c);
	tok_unref(t);
}

/* The rank file with the vocabulary of small.tokenizer.json gives the same ids, because in that
 * vocabulary only one sequence of merges makes each token. */
/* Classes of BERT make another normalizer if the configuration differs from the file's. */
static void configs_of_bert(void **state)
{
	static const struct { const char *file, *config, *why; } cases[] = {
		{ "wordpiece", "{\"tokenizer_class\": \"BertTokenizer\"}", NULL },
		{ "wordpiece", "{\"do_lower_case\": true, \"strip_accents\": null}", NULL },
		{ "wordpiece", "{\"do_lower_case\": false}", "do_lower_case is false" },
		{ "wordpiece", "{\"strip_accents\": false}", "strip_accents" },
		{ "wordpiece", "{\"tokenize_chinese_chars\": false}", "tokenize_chinese_chars is false" },
		{ "wordpiece", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"do_lower_case\": false}",
		    NULL },
		{ "wordpiece_cased", "{\"tokenizer_class\": \"BertTokenizer\"}", "do_lower_case is true" },
		{ "wordpiece_cased", "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": false}",
		    NULL },
		{ "wordpiece_cased", "{}", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64];
		struct tok_source src = { .config = span_str(cases[i].config), .name = name };
		struct tok *t;
		struct err e;

		snprintf(name, sizeof(name), "%s.tokenizer.json", cases[i].file);
		src.file = fixture_read(name);
		t = tok_load(&src, &e);
		if ((t == NULL) != (cases[i].why != NULL))
			fail_msg("%s: %s", cases[i].config, t == NULL ? e.text : "it loads");
		if (cases[i].why != NULL)
			assert_non_null(strstr(e.text, cases[i].why));
		tok_unref(t);
		free((void *)src.file.p);
	}
}

static void ranks(void **state)
{
	static const char config[] = "{\"added_tokens_decoder\": {\"500\": {\"content\": \"<|end|>\", "
		"\"special\": true}}}";
	struct tok *t = fixture_load("small.tiktoken", config, "gpt2");
	struct tok *u = load("small");
	struct tok_scratch *c = tok_scratch_new();
	struct ids a = { NULL, 0, 0 }, b = { NULL, 0, 0 };

	encode(t, c, SPAN("the routers and 12 words, it's"), TOK_SPECIAL, &a);
	encode(u, c, SPAN("the routers and 12 words, it's"), 0, &b);
	assert_true(same("ranks", SPAN("the routers"), &a, b.p, b.n));
	encode(t, c, SPAN("<|end|>"), 0, &a);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.p[0], 500);
	tok_unref(t);
	t = fixture_load("small.tiktoken", NULL, "kimi");
	encode(t, c, SPAN("<|reserved_token_400|>x<|reserved_token_655|><|reserved_token_656|>"), 0, &a);
	assert_true(a.n > 4 && a.p[0] == 400 && a.p[2] == 655);
	assert_int_not_equal(a.p[3], 656);
	tok_unref(t);
	tok_unref(u);
	ids_free(&a);
	ids_free(&b);
	tok_scratch_free(c);
}

/* The pattern qwen works in the order of Qwen's own code: NFC of the whole text, then special
 * tokens, then ranks. */
static void normalized_ranks(void **state)
{
	struct tok_source src = { .file = fixture_read("small.tiktoken"), .name = "r", .pattern = "qwen" };
	struct tok_image_key key[3];
	struct tok *t[3];
	struct tok_scratch *c = tok_scratch_new();
	struct ids a = { NULL, 0, 0 }, b = { NULL, 0, 0 };
	struct err e;

	for (int i = 0; i < 3; i++) {
		src.normalizer = i == 0 ? TOK_NORMALIZER_AUTO : i == 1 ? TOK_NORMALIZER_NONE : TOK_NORMALIZER_NFC;
		src.pattern = i == 2 ? "\\S+|\\s+" : "qwen";
		assert_non_null(t[i] = tok_load(&src, &e));
		key[i] = tok_image_key(&src);
	}
	assert_true(tok_fingerprint(t[0]) != tok_fingerprint(t[1]));
	assert_memory_not_equal(&key[0], &key[1], sizeof(key[0]));
	for (int i = 0; i < 3; i++) {
		encode(t[i], c, SPAN("e\xcc\x81"), 0, &a);
		encode(t[i], c, SPAN("\xc3\xa9"), 0, &b);
		assert_int_equal(a.n == b.n && memcmp(a.p, b.p, a.n * sizeof(*a.p)) == 0, i != 1);
	}
	encode(t[0], c, SPAN("<|im_end|><|extra_204|>"), 0, &a);
	assert_true(same("qwen", SPAN("its own tokens"), &a, (token_id[]){ 402, 607 }, 2));
	encode(t[0], c, SPAN("<|im_end|>\xcc\xb8"), 0, &a);
	encode(t[0], c, SPAN("<|im_end|\xe2\x89\xaf"), 0, &b);
	assert_true(same("qwen", SPAN("a token that NFC takes"), &a, b.p, b.n));
	encode(t[1], c, SPAN("<|im_end|>\xcc\xb8"), 0, &a);
	assert_true(a.n > 1 && a.p[0] == 402);
	src.config = SPAN("{\"added_tokens_decoder\": {\"500\": {\"content\": \"caf\xc3\xa9\xcc\xa3\"}}}");
	assert_null(tok_load(&src, &e));
	assert_non_null(strstr(e.text, "NFC may change"));
	for (int i = 0; i < 3; i++)
		tok_unref(t[i]);
	free((void *)src.file.p);
	ids_free(&a);
	ids_free(&b);
	tok_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded),
		cmocka_unit_test(images),
		cmocka_unit_test(keys),
		cmocka_unit_test(bad_utf8),
		cmocka_unit_test(segments),
		cmocka_unit_test(tails),
		cmocka_unit_test(ids_of_tokens),
		cmocka_unit_test(configs),
		cmocka_unit_test(configs_of_bert),
		cmocka_unit_test(ranks),
		cmocka_unit_test(normalized_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
