/* bench_model.h - for benches that time the agent with a model: its tokenizer and chat template,
 * and prompts of the tree's own texts. */
#ifndef KVROUTE_TESTS_LIB_BENCH_MODEL_H
#define KVROUTE_TESTS_LIB_BENCH_MODEL_H

#include <string.h>
#include <unistd.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/chat/chat.h"
#include "agent/tok/tok.h"
#include "tests/lib/bench.h"

#define BENCH_SHARED	"../shared/data/tokenizers/"
#define BENCH_LLAMA	BENCH_SHARED "tokenizer_json/llama-3.2.tokenizer.json.gz"
#define BENCH_GPT_OSS	BENCH_SHARED "tokenizer_json/gpt-oss.tokenizer.json.gz"
#define BENCH_TEMPLATE	BENCH_SHARED "chat/templates/meta-llama-Llama-3.3-70B-Instruct.jinja"
#define BENCH_SMALL	"tests/data/tok/llama.tokenizer.json"
#define BENCH_SMALL_TEMPLATE	"tests/data/tok/llama.chat_template.jinja"
#define BENCH_FILE_MAX	(64u << 20)

/* Return <path> if it can be read, otherwise <other>. */
static inline const char *bench_file(const char *path, const char *other)
{
	return access(path, R_OK) == 0 ? path : other;
}

static inline void bench_key(struct hash_key *key)
{
	struct rng rng;

	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(key->secret); i++)
		key->secret[i] = (uint8_t)(rng_next(&rng) >> 32);
}

/* Return the bytes of a file, also of one in gzip's format; to be freed. */
static inline char *bench_read(const char *path, size_t *n)
{
	char *text = must(malloc(BENCH_FILE_MAX)), command[600];
	size_t len = strlen(path);
	FILE *f;

	snprintf(command, sizeof(command), "%s '%s'",
	    len > 3 && strcmp(path + len - 3, ".gz") == 0 ? "gzip -dc" : "cat", path);
	f = must(popen(command, "r"));
	*n = fread(text, 1, BENCH_FILE_MAX, f);
	pclose(f);
	return text;
}

/* End the program with <e> if <p> is NULL. */
static inline void *bench_loaded(void *p, const struct err *e)
{
	if (p == NULL) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, e->text);
		exit(1);
	}
	return p;
}

static inline struct tok *bench_tok(const char *path)
{
	struct tok_source src = { .name = path };
	double t = now_us();
	struct tok *tok;
	struct err e;
	size_t n;
	char *text = bench_read(path, &n);

	src.file = span_of(text, n);
	tok = bench_loaded(tok_load(&src, &e), &e);
	printf("# tokenizer %s, %zu bytes in memory, loaded in %.0f ms; gcc %s\n", path,
	    tok_bytes(tok), (now_us() - t) / 1e3, __VERSION__);
	free(text);
	return tok;
}

static inline struct chat *bench_template(const char *path, const struct hash_key *key)
{
	struct chat_source src = { .template_name = path,
		.config = SPAN("{\"bos_token\":\"<|begin_of_text|>\"}"),
		.config_name = "" };
	struct chat *chat;
	struct err e;
	size_t n;
	char *text = bench_read(path, &n);

	src.template = span_of(text, n);
	chat = bench_loaded(chat_load(&src, key, &e), &e);
	printf("# template %s\n", path);
	free(text);
	return chat;
}

#define BENCH_LINES	20000u

struct bench_lines {
	char *at[BENCH_LINES];
	unsigned n;
};

/* Add the lines of 20 bytes and more, without those that JSON escapes. */
static inline void bench_read_lines(struct bench_lines *l, const char *path)
{
	FILE *f = must(fopen(path, "r"));
	char line[1024];

	while (l->n < BENCH_LINES && fgets(line, sizeof(line), f) != NULL) {
		size_t n = strcspn(line, "\n");

		line[n] = '\0';
		if (n >= 20 && strpbrk(line, "\\\"\t") == NULL)
			l->at[l->n++] = must(strdup(line));
	}
	fclose(f);
}

/* Read the tree's own texts; the program runs at the top of the tree. */
static inline void bench_tree_lines(struct bench_lines *l)
{
	static const char *const files[] = {
		"CHANGES.md", "README.md", "doc/promises.md", "doc/threats.md", "doc/kvroute.8",
		"doc/kvroute.yaml.5", "doc/kvroutectl.8",
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		bench_read_lines(l, files[i]);
}

/* Write lines in random order to out[from..to-1], each with an escaped newline at its end. The byte
 * after them is written, too. */
static inline void bench_put_lines(
    const struct bench_lines *l, struct rng *rng, char *out, size_t from, size_t to)
{
	for (size_t at = from; at < to; )
		at += (size_t)snprintf(out + at, to - at + 1, "%s\\n", l->at[rng_below(rng, l->n)]);
	if (out[to - 1] == '\\')
		out[to - 1] = '.';
}

#endif
