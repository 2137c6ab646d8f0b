/* tokenize.c - kvroutectl tokenize: the token ids of a text, as an engine with this tokenizer
 * computes them.
 *
 * Reads the text from standard input and encodes it with the agent's code. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/ctl/ctl.h"
#include "agent/ctl/read.h"
#include "agent/tok/tok.h"

#define TEXT_MAX	((size_t)1 << 28)	/* 256 MiB, the limit of split.h */
#define FILE_MAX	((size_t)1 << 30)
#define BENCH_SECONDS	1.0

struct args {
	const char *tokenizer, *config, *pattern;
	enum tok_normalizer normalizer;
	bool special, count, bench, null;
};

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: kvroutectl tokenize --tokenizer FILE [--config FILE] [--pattern NAME]\n"
		"                           [--normalizer NAME] [--special] [--count] [--null] [--bench] < text\n"
		"\n"
		"  --tokenizer FILE  tokenizer.json, tekken.json, a SentencePiece model or a rank file\n"
		"  --config FILE     tokenizer_config.json\n"
		"  --pattern NAME    of a rank file: cl100k, o200k, kimi, qwen, gpt2 or a regular expression\n"
		"  --normalizer NAME of a rank file: none or nfc; not given, as the pattern's name says\n"
		"  --special         also the tokens that the tokenizer adds around a text (BOS, EOS)\n"
		"  --count           print only the number of ids\n"
		"  --null            input is texts that each end with a null byte; print a line for each\n"
		"  --bench           also measure speed, on standard error: loading, the first run, then for\n"
		"                    a second\n");
	return status;
}

static bool take_normalizer(const char *name, enum tok_normalizer *out)
{
	*out = strcmp(name, "nfc") == 0 ? TOK_NORMALIZER_NFC : TOK_NORMALIZER_NONE;
	return *out == TOK_NORMALIZER_NFC || strcmp(name, "none") == 0;
}

/* Returns 0 to continue; else the exit status, negative for success. */
static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option longs[] = {
		{ "tokenizer", required_argument, NULL, 't' },
		{ "config", required_argument, NULL, 'c' },
		{ "pattern", required_argument, NULL, 'p' },
		{ "normalizer", required_argument, NULL, 'm' },
		{ "special", no_argument, NULL, 's' },
		{ "count", no_argument, NULL, 'n' },
		{ "null", no_argument, NULL, '0' },
		{ "bench", no_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	*a = (struct args){ .tokenizer = NULL };
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 't': a->tokenizer = optarg; break;
		case 'c': a->config = optarg; break;
		case 'p': a->pattern = optarg; break;
		case 'm':
			if (!take_normalizer(optarg, &a->normalizer))
				return usage(stderr, CTL_USAGE);
			break;
		case 's': a->special = true; break;
		case 'n': a->count = true; break;
		case '0': a->null = true; break;
		case 'b': a->bench = true; break;
		case 'h': usage(stdout, 0); return -1;
		default: return usage(stderr, CTL_USAGE);
		}
	}
	return optind < argc || a->tokenizer == NULL ? usage(stderr, CTL_USAGE) : 0;
}

/* Read a file of the tokenizer; NULL: leave <to> empty. Returns -1 after printing an error. */
static int read_file(const char *path, struct buf *to)
{
	if (path == NULL || ctl_read_file(path, FILE_MAX, to) == 0)
		return 0;
	fprintf(stderr, "kvroutectl: %s: %s\n", path, strerror(errno));
	return -1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct tok *load_tokenizer(const struct args *a)
{
	struct tok_source src = { .name = a->tokenizer, .config_name = a->config, .pattern = a->pattern,
				  .normalizer = a->normalizer };
	struct buf file = { 0 }, config = { 0 };
	struct tok *t = NULL;
	double from = now();
	struct err e;

	if (read_file(a->tokenizer, &file) == 0 && read_file(a->config, &config) == 0) {
		src.file = span_of(file.p, file.n);
		src.config = config.p != NULL ? span_of(config.p, config.n) : SPAN("");
		t = tok_load(&src, &e);
		if (t == NULL && e.line > 0)
			fprintf(stderr, "kvroutectl: %s:%d:%d: %s\n", e.file, e.line, e.column, e.text);
		else if (t == NULL)
			fprintf(stderr, "kvroutectl: %s: %s\n", e.file, e.text);
	}
	buf_free(&config);
	buf_free(&file);
	if (a->bench && t != NULL)
		fprintf(stderr, "load_ms=%.1f bytes=%zu\n", (now() - from) * 1e3, tok_bytes(t));
	return t;
}

static int time_encoding(
    const struct tok *t, struct tok_scratch *c, struct span text, unsigned flags, struct ids *ids)
{
	double from = now(), first, end;
	unsigned long rounds = 0;

	if (tok_encode(t, c, text, flags, ids) < 0)
		return -1;
	first = now() - from;
	from = now();
	do {
		ids->n = 0;
		if (tok_encode(t, c, text, flags, ids) < 0)
			return -1;
		rounds++;
		end = now();
	} while (end - from < BENCH_SECONDS);
	fprintf(stderr, "text_bytes=%zu ids=%zu first_mb_s=%.1f mb_s=%.1f\n", text.n, ids->n,
	    (double)text.n / first / 1e6, (double)text.n * (double)rounds / (end - from) / 1e6);
	return 0;
}

static int print_ids(const struct ids *ids, bool count)
{
	if (count) {
		printf("%zu\n", ids->n);
	} else {
		for (size_t i = 0; i < ids->n; i++)
			printf("%s%u", i ? " " : "", ids->p[i]);
		putchar('\n');
	}
	return ferror(stdout) ? -1 : 0;
}

static int encode_one(const struct tok *t, struct tok_scratch *c, struct span text,
    const struct args *a, struct ids *ids)
{
	unsigned flags = a->special ? TOK_SPECIAL : 0;

	ids->n = 0;
	if ((a->bench ? time_encoding(t, c, text, flags, ids) : tok_encode(t, c, text, flags, ids)) == 0)
		return print_ids(ids, a->count);
	fprintf(stderr, "kvroutectl: not enough memory, or the pattern's match limit was met\n");
	return -1;
}

static int encode_each(const struct tok *t, struct tok_scratch *c, struct span all,
    const struct args *a, struct ids *ids)
{
	const char *end;

	while (all.n > 0) {
		end = memchr(all.p, 0, all.n);
		if (encode_one(t, c, span_of(all.p, end ? (size_t)(end - all.p) : all.n), a, ids) < 0)
			return -1;
		all = end ? span_of(end + 1, all.n - (size_t)(end + 1 - all.p)) : span_of(NULL, 0);
	}
	return 0;
}

static int encode_text(const struct tok *t, const struct args *a)
{
	struct buf text = { 0 };
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { NULL, 0, 0 };
	int r = -1;

	if (ctl_read(STDIN_FILENO, TEXT_MAX, &text) < 0)
		fprintf(stderr,
		    "kvroutectl: standard input cannot be read, or is larger than %zu MiB\n",
		    TEXT_MAX >> 20);
	else if (c == NULL)
		fprintf(stderr, "kvroutectl: not enough memory\n");
	else
		r = a->null ? encode_each(t, c, span_of(text.p, text.n), a, &ids) :
			      encode_one(t, c, span_of(text.p, text.n), a, &ids);
	ids_free(&ids);
	tok_scratch_free(c);
	buf_free(&text);
	return r;
}

int ctl_tokenize(int argc, char **argv)
{
	struct args a;
	struct tok *t;
	int status = parse_args(argc, argv, &a);

	if (status != 0)
		return status < 0 ? 0 : status;
	if ((t = load_tokenizer(&a)) == NULL)
		return CTL_FAILED;
	status = encode_text(t, &a) < 0 ? CTL_FAILED : 0;
	tok_unref(t);
	return status;
}
