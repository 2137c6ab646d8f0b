/* bench_bpe.c - speed of text to ids, cold and warm, and the share of splitting.
 *
 * 	bench_bpe tokenizer.json english=FILE code=FILE chinese=FILE japanese=FILE
 *
 * Cold: with an empty cache, whose memory was used before; the tables of the vocabulary were used
 * by other texts, as in service. New: with a new cache. Warm: the same text again. "split" is the
 * splitter alone, without the normalizer. The best of some rounds in CPU time of this thread
 * counts, because other load only makes it longer; new_mb_s, and the fields with "median", are
 * medians. <ids> is a checksum of the result. For comparison: reading the bytes (XXH3) and copying
 * them. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/hash.h"
#include "agent/tok/parts.h"
#include "agent/tok/tok.h"
#include "tests/lib/bench.h"

#define ROUNDS	15

static double now(void)
{
	return cpu_ns() / 1e9;
}

static void best(double *so_far, double began)
{
	double took = now() - began;

	if (*so_far == 0 || took < *so_far)
		*so_far = took;
}

/* Times of one kind; the median is less exact than the best, and fair where peers have outliers. */
struct times {
	double at[2 * ROUNDS];
	unsigned n;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct times *t)
{
	qsort(t->at, t->n, sizeof(t->at[0]), by_value);
	return t->at[t->n / 2];
}

static struct span slurp(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *p = NULL;
	size_t n = 0, cap = 0, k;

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	do {
		cap = 2 * cap + (1 << 20);
		if ((p = realloc(p, cap)) == NULL)
			exit(1);
		n += k = fread(p + n, 1, cap - n, f);
	} while (k > 0);
	fclose(f);
	return span_of(p, n);
}

static struct tok *load(const char *path, double *took)
{
	struct tok_source src = { .file = slurp(path), .name = path };
	struct tok *t;
	struct err e;
	double began = now();

	if ((t = tok_load(&src, &e)) == NULL) {
		fprintf(stderr, "%s:%d:%d: %s\n", e.file, e.line, e.column, e.text);
		exit(1);
	}
	best(took, began);
	free((char *)(uintptr_t)src.file.p);
	return t;
}

/* ---- texts ---- */

struct figures {
	double cold, warm, split, copy, hash;
	struct times new, cold_all, warm_all;
	size_t pieces;
};

static void measure_encode(
    const struct tok *t, struct span text, struct ids *out, struct figures *f)
{
	struct times *times[] = { &f->new, &f->cold_all, &f->warm_all, &f->warm_all };
	struct tok_scratch *c = tok_scratch_new();

	for (int round = 0; round < 4; round++) {
		double began = now();

		out->n = 0;
		if (c == NULL || tok_encode(t, c, text, 0, out) < 0)
			exit(1);
		times[round]->at[times[round]->n++] = now() - began;
		if (round == 0)
			tok_scratch_wipe(c);
		else
			best(round == 1 ? &f->cold : &f->warm, began);
	}
	tok_scratch_free(c);
}

static void measure_split(const struct tok *t, struct span text, struct figures *f)
{
	const struct split *s = tok_parts(t).split;
	struct split_scratch *c = split_scratch_new();
	static struct pieces p;
	double began = now();
	size_t at = 0;

	f->pieces = 0;
	do {
		if (s == NULL || c == NULL ||
		    split_next(s, c, (const uint8_t *)text.p + at, text.n - at, at == 0, true, &p) < 0)
			break;
		at += p.used;
		f->pieces += p.n;
	} while (at < text.n);
	best(&f->split, began);
	split_scratch_free(c);
}

static void measure_limits(struct span text, char *copy, struct figures *f)
{
	double began = now();
	uint64_t h;

	memcpy(copy, text.p, text.n);
	__asm__ volatile("" : : "r"(copy) : "memory");
	best(&f->copy, began);
	began = now();
	h = XXH3_64bits(text.p, text.n);
	__asm__ volatile("" : : "r"(h));
	best(&f->hash, began);
}

/* FNV-1a of 64 bits, an id a step; tokenizer_peers.py does the same with those of others. */
static uint64_t hash_of(const struct ids *a)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < a->n; i++)
		h = (h ^ a->p[i]) * 0x100000001b3u;
	return h;
}

static void bench_text(const struct tok *t, const char *name, const char *path)
{
	struct span text = slurp(path);
	struct figures f = { 0 };
	struct ids out = { 0 };
	char *copy = malloc(text.n + 1);
	double mb = (double)text.n / 1e6;
	int round;

	if (copy == NULL || ids_reserve(&out, text.n + 1024) < 0)
		exit(1);
	for (round = 0; round < ROUNDS; round++) {
		measure_encode(t, text, &out, &f);
		measure_split(t, text, &f);
		measure_limits(text, copy, &f);
	}
	printf(
	    "bench tok text=%s bytes=%zu pieces=%zu tokens=%zu ids=%016llx cold_mb_s=%.1f warm_mb_s=%.1f "
	    "split_mb_s=%.1f memcpy_mb_s=%.0f xxh3_mb_s=%.0f new_mb_s=%.1f cold_median_mb_s=%.1f "
	    "warm_median_mb_s=%.1f\n",
	    name, text.n, f.pieces, out.n,
	    (unsigned long long)hash_of(&out), mb / f.cold, mb / f.warm, mb / f.split, mb / f.copy,
	    mb / f.hash, mb / median(&f.new), mb / median(&f.cold_all), mb / median(&f.warm_all));
	ids_free(&out);
	free(copy);
	free((char *)(uintptr_t)text.p);
}

int main(int argc, char **argv)
{
	struct tok *t = NULL;
	double took = 0;
	int i;

	if (argc < 3) {
		printf(
		    "bench tok skipped: no tokenizer and no texts (bench_bpe tokenizer.json english=FILE ...)\n");
		return 0;
	}
	for (i = 0; i < 3; i++) {
		tok_unref(t);
		t = load(argv[1], &took);
	}
	printf("bench tok tokenizer=%s load_ms=%.1f bytes=%zu split=%s\n", argv[1], took * 1e3,
	    tok_bytes(t), tok_parts(t).split ? split_traits(tok_parts(t).split).name : "whole");
	for (i = 2; i < argc; i++) {
		char *eq = strchr(argv[i], '=');

		if (eq == NULL) {
			fprintf(stderr, "%s: should be NAME=FILE\n", argv[i]);
			return 2;
		}
		*eq = '\0';
		bench_text(t, argv[i], eq + 1);
	}
	tok_unref(t);
	return 0;
}
