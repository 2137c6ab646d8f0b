/* Each allocation of loading, of an image and of encoding fails once, in turn: the call returns an
 * error or NULL, and nothing half-built leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/tok_image.h"
#include "tests/unit/fault.h"
#include "tests/unit/tok/fixture.h"

static const char config[] = "{\"tokenizer_class\": \"LlamaTokenizerFast\", \"pad_token\": "
	"\"[PAD\\u005d\", "
	"\"added_tokens_decoder\": {\"3\": {\"content\": \"<|x|>\"}, "
	"\"4\": {\"content\": \"<|y|>\", \"normalized\": true}}}";

static void load_all(const char *name, const char *with, const char *pattern)
{
	struct tok_source src = { .file = fixture_read(name),
		.config = span_str(with),
		.name = name,
		.pattern = pattern };
	unsigned long k;
	struct err e;

	for (k = 1; ; k++) {
		struct tok *t;
		bool met;

		fault_begin(k);
		t = tok_load(&src, &e);
		met = fault_end();
		if (t == NULL) {
			assert_true(met);
			assert_true(e.text[0] != 0);
		}
		tok_unref(t);
		if (!met)
			break;
	}
	assert_true(k > 10);
	free((void *)src.file.p);
}

static void loading(void **state)
{
	load_all("small.tokenizer.json", NULL, NULL);
	load_all("fallback.tokenizer.json", config, NULL);
	load_all("small.tiktoken",
	    "{\"added_tokens_decoder\": {\"500\": {\"content\": \"<|end|>\"}}}", "gpt2");
	load_all("small.tiktoken", NULL, "qwen");
	load_all("small.tekken.json", NULL, NULL);
	load_all("wordpiece.tokenizer.json", NULL, NULL);
	load_all("unigram.tokenizer.json", NULL, NULL);
	load_all("precompiled.tokenizer.json", NULL, NULL);
	load_all("suffix.tokenizer.json", NULL, NULL);
	load_all("small.model", NULL, NULL);
	load_all("users.model", NULL, NULL);
	load_all("unigram.model", NULL, NULL);
	load_all("lattice.model", NULL, NULL);
}

static void encode_once(const struct tok *t, const struct ids *want)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { NULL, 0, 0 };

	if (c != NULL &&
	    tok_encode(t, c, SPAN("the <|end|> e\xcc\x81 word\xff caf\xc3\xa9    x"), TOK_SPECIAL,
		&ids) == 0) {
		assert_int_equal(ids.n, want->n);
		assert_memory_equal(ids.p, want->p, want->n * sizeof(*want->p));
	} else {
		assert_int_equal(ids.n, 0);
	}
	ids_free(&ids);
	tok_scratch_free(c);
}

static void encode_all(const char *name)
{
	struct tok *t = fixture_load(name, NULL, NULL);
	struct tok_scratch *c = tok_scratch_new();
	struct ids want = { NULL, 0, 0 };
	unsigned long k;

	assert_int_equal(tok_encode(t, c, SPAN("the <|end|> e\xcc\x81 word\xff caf\xc3\xa9    x"),
			     TOK_SPECIAL, &want),
	    0);
	for (k = 1; ; k++) {
		fault_begin(k);
		encode_once(t, &want);
		if (!fault_end())
			break;
	}
	assert_true(k > 3);
	ids_free(&want);
	tok_scratch_free(c);
	tok_unref(t);
}

static void encoding(void **state)
{
	encode_all("small.tokenizer.json");
	encode_all("wordpiece.tokenizer.json");
	encode_all("unigram.tokenizer.json");
	encode_all("precompiled.tokenizer.json");
	encode_all("small.model");
	encode_all("users.model");
	encode_all("bytes.model");
	encode_all("lattice.model");
	encode_all("kept.model");
}

static void images(void **state)
{
	struct tok *t = fixture_load("small.tokenizer.json", NULL, NULL), *u;
	struct tok_image_key key = { { 1, 2 } };
	struct span image = tok_image(t, key);
	char *aligned = NULL;
	unsigned long k;
	struct err e;
	bool met;

	assert_int_equal(posix_memalign((void **)&aligned, 64, image.n), 0);
	memcpy(aligned, image.p, image.n);
	mem_free((void *)image.p);
	for (k = 1, met = true; met; k++) {
		fault_begin(k);
		u = tok_of_image(span_of(aligned, image.n), key, NULL, NULL, &e);
		met = fault_end();
		assert_true(u != NULL || met);
		tok_unref(u);
	}
	assert_true(k > 5);
	fault_begin(1);
	assert_null(tok_image(t, key).p);
	assert_true(fault_end());
	free(aligned);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(loading), cmocka_unit_test(encoding),
		cmocka_unit_test(images) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
