/* Recorded ids of Hugging Face's tokenizers, tiktoken and SentencePiece, for each vocabulary that
 * the checkout has. The test prints each set as passed, failed or skipped.
 * ../shared/data/tokenizers/ORIGIN.md names the sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/base/json_doc.h"
#include "agent/tok/tok.h"
#include "tests/unit/tok/data.h"

static struct tok *tok;
static struct tok_scratch *scratch;
static struct ids ids;
static unsigned failed, passed, sets;

/* ---- one case -------------------------------------------------------------------------------- */

static void show(const char *what, const token_id *p, size_t n)
{
	printf("      %s", what);
	for (size_t i = 0; i < n && i < 60; i++)
		printf(" %u", p[i]);
	printf("%s\n", n > 60 ? " ..." : "");
}

static bool check(struct span text, const token_id *want, size_t n, unsigned flags)
{
	ids.n = 0;
	if (tok_encode(tok, scratch, text, flags, &ids) < 0) {
		printf("      cannot be encoded: " SPAN_FMT "\n", SPAN_ARG(text));
		return false;
	}
	if (ids.n == n && (n == 0 || memcmp(ids.p, want, n * sizeof(*want)) == 0))
		return true;
	printf("      " SPAN_FMT "\n", SPAN_ARG(text));
	show("wanted", want, n);
	show("   got", ids.p, ids.n);
	return false;
}

static void set_done(const char *kind, const char *name, const char *vocab, size_t good, size_t n)
{
	printf("%s %s %s by %s: %zu of %zu\n", good == n && n > 0 ? "ok  " : "FAIL", kind, name,
	    vocab, good, n);
	sets++;
	if (good == n && n > 0)
		passed++;
	else
		failed++;
}

/* ---- numbers in text ------------------------------------------------------------------------- */

#define WANT_MAX 65536
static token_id want[WANT_MAX];

static size_t numbers(const char *p, const char *end)
{
	size_t n = 0;

	while (p < end) {
		char *after;

		if (*p < '0' || *p > '9') {
			p++;
			continue;
		}
		assert_true(n < WANT_MAX);
		want[n++] = (token_id)strtoul(p, &after, 10);
		p = after;
	}
	return n;
}

/* Return the next line without its newline; NULL if none is left. */
static const char *line(const char **p, const char *end, size_t *n)
{
	const char *from = *p, *eol;

	if (from >= end)
		return NULL;
	eol = memchr(from, '\n', (size_t)(end - from));
	*n = (size_t)((eol ? eol : end) - from);
	*p = eol ? eol + 1 : end;
	return from;
}

/* ---- the kinds of files ---------------------------------------------------------------------- */

static void ggml(const char *name, const char *vocab)
{
	static const char cut[] = "\n__ggml_vocab_test__\n";
	char path[200];
	struct span in, out;
	const char *p, *q, *r, *l;
	size_t good = 0, cases = 0;

	snprintf(path, sizeof(path), "vectors/ggml/ggml-vocab-%s.gguf.inp", name);
	in = data_read(path);
	snprintf(path, sizeof(path), "vectors/ggml/ggml-vocab-%s.gguf.out", name);
	out = data_read(path);
	assert_non_null(in.p);
	assert_non_null(out.p);
	for (p = in.p, r = out.p; p != NULL; p = q ? q + sizeof(cut) - 1 : NULL, cases++) {
		size_t n = 0, m;

		if ((l = line(&r, out.p + out.n, &n)) == NULL)	/* the last text is empty */
			l = "";
		m = numbers(l, l + n);
		q = memmem(p, (size_t)(in.p + in.n - p), cut, sizeof(cut) - 1);
		good += check(span_of(p, (size_t)((q ? q : in.p + in.n) - p)), want, m, 0);
	}
	set_done("ggml", name, vocab, good, cases);
	free((void *)in.p);
	free((void *)out.p);
}

/* \n, \s and \x (nothing) */
static size_t unescape(const char *p, size_t n, char *out)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\\' || i + 1 == n || strchr("nsx", p[i + 1]) == NULL) {
			out[m++] = p[i];
			continue;
		}
		if (p[++i] != 'x')
			out[m++] = p[i] == 'n' ? '\n' : ' ';
	}
	return m;
}

static void kitoken(const char *name, const char *vocab)
{
	char path[200], text[8192];
	struct span in = data_read("vectors/kitoken/small_input.txt"), out;
	const char *p, *r, *l, *o;
	size_t n = 0, m = 0, good = 0, cases = 0;

	snprintf(path, sizeof(path), "vectors/kitoken/%s.txt", name);
	out = data_read(path);
	assert_non_null(in.p);
	assert_non_null(out.p);
	for (p = in.p, r = out.p; (l = line(&p, in.p + in.n, &n)) != NULL; ) {
		if (n == 0)
			continue;
		assert_true(n < sizeof(text));
		o = line(&r, out.p + out.n, &m);
		assert_non_null(o);
		n = unescape(l, n, text);
		good += check(span_of(text, n), want, numbers(o, o + m), 0);
		cases++;
	}
	set_done("kitoken", name, vocab, good, cases);
	free((void *)in.p);
	free((void *)out.p);
}

static size_t array(const struct json_node *v)
{
	size_t n = 0;

	assert_non_null(v);
	for (v = v->child; v != NULL; v = v->next)
		assert_int_equal(json_u32(NULL, v, &want[n++], NULL), 0);
	return n;
}

/* One text of 598 bytes; ids with special tokens. */
static void swift_text(const char *name, const char *vocab)
{
	char path[200];
	struct span file;
	struct json_doc *d;
	const struct json_node *root;
	struct err e;

	snprintf(path, sizeof(path), "vectors/swift-%s.json", name);
	file = data_read(path);
	assert_non_null(file.p);
	assert_non_null(d = json_doc_new(file, path, NULL, &e));
	root = json_doc_root(d);
	set_done("swift", name, vocab,
	    check(json_get(root, "text")->s, want, array(json_get(root, "token_ids")), TOK_SPECIAL),
	    1);
	json_doc_free(d);
	free((void *)file.p);
}

static void swift_cases(const char *name, const char *vocab)
{
	struct span file = data_read("vectors/swift-tokenizer_tests.json");
	const struct json_node *v;
	size_t good = 0, cases = 0;
	struct json_doc *d;
	struct err e;

	assert_non_null(file.p);
	assert_non_null(d = json_doc_new(file, "swift", NULL, &e));
	assert_non_null(v = json_get(json_doc_root(d), name));
	for (v = v->child; v != NULL; v = v->next, cases++)
		good += check(json_get(v, "input")->s, want,
		    array(json_get(json_get(v, "encoded"), "input_ids")), TOK_SPECIAL);
	set_done("swift", name, vocab, good, cases);
	json_doc_free(d);
	free((void *)file.p);
}

/* ---- the vectors of each vocabulary ---------------------------------------------------------- */

/* Special tokens that are in no file of the data folder. Kimi's [UNK] and [PAD] are left out,
 * because the encoder that recorded the vectors did not know them. */
static const char kimi_config[] = "{\"added_tokens_decoder\": {"
	"\"163584\": {\"content\": \"[BOS]\", \"special\": true}, \"163585\": {\"content\": \"[EOS]\", "
	"\"special\": true}}}";
static const char o200k_config[] = "{\"added_tokens_decoder\": {"
	"\"199999\": {\"content\": \"<|endoftext|>\", \"special\": true},"
	"\"200018\": {\"content\": \"<|endofprompt|>\", \"special\": true}}}";

static const struct vocab_file {
	const char *file, *pattern, *config;
	struct { void (*run)(const char *name, const char *vocab); const char *name; } set[6];
} files[] = {
	{ "tokenizer_json/llama-3.3.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "llama-bpe" }, { kitoken, "tokenizers/small_tokens_llama33" } } },
	{ "tokenizer_json/llama-3.2.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "llama-bpe" }, { kitoken, "tokenizers/small_tokens_llama32" },
	    { swift_text, "llama_3.2_encoded" },
	    { swift_cases, "pcuenq/Llama-3.2-1B-Instruct-tokenizer" } } },
	{ "tokenizer_json/gpt-oss.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "gpt-4o" }, { kitoken, "tokenizers/small_tokens_gpt_oss" } } },
	{ "tiktoken/o200k_base.tiktoken.gz", "o200k", o200k_config,
	  { { ggml, "gpt-4o" }, { kitoken, "tiktoken/small_tokens_o200k_base" } } },
	{ "tokenizer_json/qwen3.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "qwen2" }, { ggml, "deepseek-r1-qwen" } } },
	{ "tiktoken/kimi_k2.tiktoken.gz", "kimi", kimi_config,
	  { { kitoken, "tiktoken/small_tokens_kimi_k2" } } },
	{ "tokenizer_json/gguf-gpt-2.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "gpt-2" }, { swift_text, "gpt2_encoded_tokens" }, { swift_cases, "distilgpt2" } } },
	{ "tokenizer_json/gguf-falcon.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "falcon" }, { swift_text, "falcon_encoded" }, { swift_cases, "tiiuae/falcon-7b" } } },
	{ "tokenizer_json/gguf-mpt.tokenizer.json.gz", NULL, NULL, { { ggml, "mpt" } } },
	{ "tokenizer_json/gguf-llama-spm.tokenizer.json.gz", NULL, NULL, { { ggml, "llama-spm" } } },
	{ "tokenizer_json/gguf-phi-3.tokenizer.json.gz", NULL, NULL, { { ggml, "phi-3" } } },
	{ "tokenizer_json/gguf-deepseek-coder.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "deepseek-coder" } } },
	{ "tokenizer_json/gguf-deepseek-llm.tokenizer.json.gz", NULL, NULL, { { ggml, "deepseek-llm" } } },
	{ "tokenizer_json/kitoken-gpt2.tokenizer.json.gz", NULL, NULL,
	  { { ggml, "gpt-2" }, { kitoken, "tokenizers/small_tokens_gpt2" } } },
	{ "tokenizer_json/kitoken-llama2.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_llama2" }, { swift_text, "llama_encoded" },
	    { swift_cases, "coreml-projects/Llama-2-7b-chat-coreml" } } },
	{ "tokenizer_json/kitoken-mistral03.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_mistral03" } } },
	{ "tokenizer_json/kitoken-modernbert.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_modernbert" } } },
	{ "tokenizer_json/deepseek-r1.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_r1" } } },
	{ "tokenizer_json/glm-4.6.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_glm46" } } },
	{ "tokenizer_json/qwen3.5.tokenizer.json.gz", NULL, NULL,
	  { { kitoken, "tokenizers/small_tokens_qwen35" } } },
};

static const char *const without_vocab[] = {
	"ggml bert-bge", "ggml chameleon", "ggml command-r", "ggml gemma-4", "ggml pixtral", "ggml qwen35",
	"ggml refact",
	"ggml roberta-bpe", "kitoken cl100k_base", "kitoken gemma3", "kitoken gemma4",
	"kitoken gpt_neox",
	"kitoken llama4", "kitoken mistral01", "kitoken mistral2410", "kitoken mpt",
	"swift gemma",
	"swift whisper", "swift bert", "swift t5"
};

static void run_file(const struct vocab_file *f)
{
	struct tok_source src = { .file = data_read(f->file),
		.config = span_str(f->config),
		.name = f->file,
		.pattern = f->pattern };
	struct err e;

	if (src.file.p == NULL) {
		printf("skipped: %s: no vocabulary\n", f->file);
		return;
	}
	tok = tok_load(&src, &e);
	free((void *)src.file.p);
	if (tok == NULL && strstr(e.text, "is none of those that are known") != NULL) {
		printf("skipped: %s: its pattern is not understood\n", f->file);
		return;
	}
	if (tok == NULL) {
		printf("FAIL %s:%d:%d: %s\n", e.file, e.line, e.column, e.text);
		failed++;
		return;
	}
	for (size_t i = 0; i < sizeof(f->set) / sizeof(f->set[0]) && f->set[i].run != NULL; i++)
		f->set[i].run(f->set[i].name, f->file);
	tok_unref(tok);
}

static void all_vectors(void **state)
{
	if (!data_there("ORIGIN.md")) {
		printf("skipped: tokenizer vectors: no data\n");
		return;
	}
	assert_non_null(scratch = tok_scratch_new());
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		run_file(&files[i]);
	for (size_t i = 0; i < sizeof(without_vocab) / sizeof(without_vocab[0]); i++)
		printf("skipped: %s: no vocabulary\n", without_vocab[i]);
	printf("%u sets: %u passed, %u not\n", sets, passed, failed);
	ids_free(&ids);
	tok_scratch_free(scratch);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_vectors) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
