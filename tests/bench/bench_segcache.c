/* bench_segcache.c - gain of the segment cache: turn 10 of a conversation, encoded completely and
 * with the cache.
 *
 *   cold    tok_encode() of everything (with a warm cache of pieces, as in service)
 *   warm    tok_cached_some(), everything known: the same request again
 *   turn    the same with a new last message, as in a conversation
 *   limits  XXH3-128 over the text (SSE2), memcpy of its ids, the search for added tokens
 *
 * CONVERSATIONS alternate, so that nothing stays in the CPU's nearest caches. The fastest of PASSES
 * counts for each (the machine may be shared); the figure is their mean. Vocabularies come from
 * ../shared if they exist; otherwise a small one, whose ratio says little. Words are those of this
 * tree's own documentation. stream: one piece of 1 MB in steps of STREAM_BUDGET; CPU time of the
 * longest step. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tok/cached.h"
#include "agent/tok/chunk.h"
#include "agent/tok/stream.h"
#include "tests/lib/bench.h"
#include "tests/unit/tok/secret.h"
#include "tests/unit/tok/small.h"

#define PASSES		40
#define CONVERSATIONS	24
#define TURNS		10
#define DATA	"../shared/data/tokenizers/tokenizer_json/"

/* ---- text and tokenizers ---- */

static bool read_all(FILE *f, struct small_text *t)
{
	static char part[65536];
	size_t n;

	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		small_add(t, part, n);
	return t->n > 0;
}

static struct tok *load(const char *name)
{
	struct small_text file = { 0 };
	struct err e = { 0 };
	struct tok *t = NULL;
	char command[300];
	FILE *f;

	snprintf(command, sizeof(command), "zcat " DATA "%s.tokenizer.json.gz 2>/dev/null", name);
	if ((f = popen(command, "r")) != NULL && read_all(f, &file)) {
		struct tok_source src = { .file = span_of(file.p, file.n), .name = name };

		if ((t = tok_load(&src, &e)) == NULL)
			printf("bench segcache %s: %s\n", name, e.text);
	}
	if (f != NULL)
		pclose(f);
	free(file.p);
	return t;
}

static struct small_text words;

static void read_words(void)
{
	FILE *f = popen("cat README.md CHANGES.md doc/*.* 2>/dev/null", "r");

	if (f == NULL || !read_all(f, &words) || words.n < 100000) {
		printf("bench segcache: no words; run it at the top of the tree\n");
		exit(1);
	}
	pclose(f);
}

static struct span some_words(struct rng *r, size_t n)
{
	return span_of(words.p + rng_below(r, (uint32_t)(words.n - n)), n);
}

/* As templates write it, with the tokenizer's own marks: before and after the role, and after the
 * text. */
struct marks {
	const char *name, *open, *head, *close;
};

static const struct marks vocabularies[] = {
	{ "llama-3.3", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>" },
	{ "qwen3", "<|im_start|>", "\n", "<|im_end|>\n" },
	{ "gpt-oss", "<|start|>", "<|message|>", "<|end|>" },
	{ "small", "<|im_start|>", "\n", "<|im_end|>\n" },
};

static void message(struct small_text *t, const struct marks *m, const char *role, struct span text)
{
	small_say(t, m->open);
	small_say(t, role);
	small_say(t, m->head);
	small_add(t, text.p, text.n);
	small_say(t, m->close);
}

static size_t conversation(struct small_text *t, const struct marks *m, struct rng *r)
{
	size_t last = 0;

	t->n = 0;
	message(t, m, "system", some_words(r, 2048));
	for (unsigned i = 1; i <= TURNS; i++) {
		last = t->n;
		message(t, m, "user", some_words(r, 1024 + rng_below(r, 3072)));
		if (i < TURNS)
			message(t, m, "assistant", some_words(r, 1024 + rng_below(r, 3072)));
	}
	return last;
}

/* ---- one conversation ---- */

static struct segcache *make_cache(void)
{
	struct segcache_opts o = { .max_bytes = 64 << 20, .threads = 2 };
	struct hash_key key = secret_key();

	return segcache_new(&o, &key);
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double time_of(const struct cached *c, struct span text, struct ids *out, bool cached)
{
	double a = now_us();
	size_t used;

	out->n = 0;
	if ((cached ? tok_cached_some(c, text, 0, out, &used)
		    : tok_encode(c->tok, c->scratch, text, 0, out)) < 0)
		exit(1);
	return now_us() - a;
}

struct took {
	double cold, warm, turn, hash, copy, search;
	size_t bytes, new_bytes, ids;
	uint64_t sink;		/* so that the compiler keeps the timed work */
};

static void limits(const struct cached *c, struct span text, const struct ids *ids, struct took *t)
{
	static token_id to[1 << 20];
	struct hash_key key = secret_key();
	struct tok_cut cut;
	double a = now_us(), b, d, e;

	t->sink += hash128(&key, text.p, text.n).lo;
	b = now_us();
	memcpy(to, ids->p, ids->n * sizeof(*to));
	t->sink += to[ids->n / 2];
	d = now_us();
	for (size_t at = 0; tok_next_cut(c->tok, text, at, &cut); at = cut.at + cut.n)
		;
	e = now_us();
	t->hash = least(t->hash, b - a);
	t->copy = least(t->copy, d - b);
	t->search = least(t->search, e - d);
}

static void one_pass(const struct cached *c, const struct marks *m, unsigned which,
    struct rng *fresh, struct took *t)
{
	static struct small_text text;
	static struct ids out;
	struct rng r;
	size_t last;

	rng_init(&r, which + 100);
	last = conversation(&text, m, &r);
	t->cold = least(t->cold, time_of(c, span_of(text.p, text.n), &out, false));
	t->warm = least(t->warm, time_of(c, span_of(text.p, text.n), &out, true));
	limits(c, span_of(text.p, text.n), &out, t);
	t->bytes = text.n;
	t->ids = out.n;
	t->new_bytes = text.n - last;
	text.n = last;
	message(&text, m, "user", some_words(fresh, t->new_bytes - 40));
	t->turn = least(t->turn, time_of(c, span_of(text.p, text.n), &out, true));
}

static void conversations(const struct cached *c, const struct marks *m)
{
	struct took t[CONVERSATIONS], sum = { 0 };
	struct rng fresh;

	rng_init(&fresh, 41);
	for (unsigned i = 0; i < CONVERSATIONS; i++)
		t[i] = (struct took){ 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 0, 0, 0, 0 };
	for (unsigned pass = 0; pass < PASSES; pass++)
		for (unsigned i = 0; i < CONVERSATIONS; i++)
			one_pass(c, m, i, &fresh, &t[i]);
	for (unsigned i = 0; i < CONVERSATIONS; i++) {
		sum.cold += t[i].cold / CONVERSATIONS;
		sum.warm += t[i].warm / CONVERSATIONS;
		sum.turn += t[i].turn / CONVERSATIONS;
		sum.hash += t[i].hash / CONVERSATIONS;
		sum.copy += t[i].copy / CONVERSATIONS;
		sum.search += t[i].search / CONVERSATIONS;
		sum.bytes += t[i].bytes / CONVERSATIONS;
		sum.ids += t[i].ids / CONVERSATIONS;
		sum.new_bytes += t[i].new_bytes / CONVERSATIONS;
	}
	printf(
	    "bench segcache turn=%d vocabulary=%s bytes=%zu ids=%zu cold_us=%.1f warm_us=%.2f ratio=%.1f "
	    "turn_us=%.1f turn_ratio=%.1f new_bytes=%zu\n",
	    TURNS, m->name, sum.bytes, sum.ids, sum.cold, sum.warm, sum.cold / sum.warm, sum.turn,
	    sum.cold / sum.turn, sum.new_bytes);
	printf(
	    "bench segcache limits vocabulary=%s xxh3_us=%.2f memcpy_us=%.2f added_tokens_us=%.2f\n",
	    m->name, sum.hash, sum.copy, sum.search);
}

/* Time the longest step for 1 MB of one kind of letters that comes at once. */
static void long_piece(const char *name, const struct cached *c, const char *letters)
{
	struct stream_opts o = { .max_bytes = 2 << 20 };
	struct stream *s = stream_new(&o);
	size_t n = 1 << 20, kinds = strlen(letters), steps = 0;
	double all, longest = 0, a;
	struct ids out = { 0 };
	char *text = malloc(n);
	struct rng r;
	int more;

	if (text == NULL || s == NULL)
		exit(1);
	rng_init(&r, 44);
	for (size_t i = 0; i < n; i++)
		text[i] = letters[rng_below(&r, (uint32_t)kinds)];
	all = cpu_us();
	stream_begin(s, c, &out);
	stream_feed(s, span_of(text, n));
	stream_end(s);
	do {
		a = cpu_us();
		more = stream_step(s, STREAM_BUDGET);
		a = cpu_us() - a;
		longest = a > longest ? a : longest;
		steps++;
	} while (more == STREAM_MORE);
	printf(
	    "bench segcache stream vocabulary=%s piece=1048576 letters=%s steps=%zu all_ms=%.1f "
	    "longest_step_ms=%.2f\n",
	    name, letters[0] == ' ' ? "space" : letters, steps, (cpu_us() - all) / 1e3,
	    longest / 1e3);
	stream_free(s);
	ids_free(&out);
	free(text);
}

/* A prompt without added tokens, 64 KB, and the same with another KB behind it or before it. */
static void one_growing(const char *name, const struct cached *c)
{
	double cold = 1e9, warm = 1e9, behind = 1e9, before = 1e9;
	struct ids out = { 0 };
	struct rng r;

	rng_init(&r, 42);
	for (unsigned i = 0; i < PASSES; i++) {
		struct span all = some_words(&r, 70000), text = span_of(all.p + 2000, 65536);

		time_of(c, text, &out, true);
		cold = least(cold, time_of(c, text, &out, false));
		warm = least(warm, time_of(c, text, &out, true));
		behind = least(behind, time_of(c, span_of(text.p, text.n + 1024), &out, true));
		before = least(before, time_of(c, span_of(text.p - 1024, text.n + 1024), &out, true));
	}
	printf(
	    "bench segcache growing vocabulary=%s bytes=65536 cold_us=%.1f warm_us=%.2f 1k_behind_us=%.1f "
	    "1k_before_us=%.1f\n",
	    name, cold, warm, behind, before);
	ids_free(&out);
}

/* Find the length from which a lookup pays. */
static void short_ones(const char *name, const struct cached *c)
{
	static const size_t bytes[] = { 8, 16, 32, 48, 64, 96, 128 };
	struct segcache_scope scope = { 1, 1 };
	struct ids out = { 0 };
	struct rng r;

	rng_init(&r, 43);
	for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++) {
		enum { N = 2000 };
		struct span text[N];
		double encode = 1e9, look = 1e9, a;

		for (unsigned i = 0; i < N; i++) {
			struct segcache_key k;

			text[i] = some_words(&r, bytes[b]);
			k = segcache_key(c->cache, scope, text[i], false);
			out.n = 0;
			tok_encode_segment(c->tok, c->scratch, text[i], false, &out);
			segcache_put(c->cache, &k, out.p, out.n);
		}
		for (unsigned pass = 0; pass < 10; pass++) {
			a = now_us();
			for (unsigned i = 0; i < N; i++) {
				out.n = 0;
				tok_encode_segment(c->tok, c->scratch, text[i], false, &out);
			}
			encode = least(encode, now_us() - a);
			a = now_us();
			for (unsigned i = 0; i < N; i++) {
				struct segcache_key k = segcache_key(c->cache, scope, text[i], false);

				out.n = 0;
				segcache_get(c->cache, &k, &out);
			}
			look = least(look, now_us() - a);
		}
		printf("bench segcache short vocabulary=%s bytes=%zu encode_ns=%.0f hit_ns=%.0f\n",
		    name, bytes[b], encode * 1e3 / N, look * 1e3 / N);
	}
	ids_free(&out);
}

/* ---- the cache alone ---- */

#define ENTRIES	4000u
#define IDS	512u		/* of 2 KB of text */

struct worker {
	struct segcache *c;
	uint64_t from;
	double ns;
};

static struct segcache_key key_of(const struct segcache *c, uint64_t number)
{
	return segcache_key(c, (struct segcache_scope){ 0 }, span_of(&number, sizeof(number)), false);
}

static void *hit(void *arg)
{
	struct worker *w = arg;
	struct ids out = { 0 };
	struct rng r;
	double a;

	rng_init(&r, w->from);
	a = now_us();
	for (unsigned i = 0; i < 1000000; i++) {
		struct segcache_key k = key_of(w->c, rng_below(&r, ENTRIES));

		out.n = 0;
		segcache_get(w->c, &k, &out);
	}
	w->ns = (now_us() - a) / 1000;
	ids_free(&out);
	return NULL;
}

static void alone(void)
{
	struct segcache *c = make_cache();
	struct worker w[2] = { { c, 1, 0 }, { c, 2, 0 } };
	token_id ids[IDS] = { 0 };
	pthread_t t[2];
	double a, put, miss, one;

	a = now_us();
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct segcache_key k = key_of(c, i);

		segcache_put(c, &k, ids, IDS);
	}
	put = (now_us() - a) * 1e3 / ENTRIES;
	for (uint64_t i = 0; i < 100000; i++) {		/* full, so that others are evicted */
		struct segcache_key k = key_of(c, 1000000 + i);

		segcache_put(c, &k, ids, IDS);
	}
	a = now_us();
	for (uint64_t i = 0; i < 100000; i++) {
		struct segcache_key k = key_of(c, 2000000 + i);

		segcache_put(c, &k, ids, IDS);
	}
	printf("bench segcache put ids=%u first_ns=%.0f full_ns=%.0f\n", IDS, put,
	    (now_us() - a) * 1e3 / 100000);
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct segcache_key k = key_of(c, i);

		segcache_put(c, &k, ids, IDS);
	}
	a = now_us();
	for (uint64_t i = 0; i < 1000000; i++) {
		struct segcache_key k = key_of(c, 5000000 + i);
		struct ids none = { 0 };

		segcache_get(c, &k, &none);
	}
	miss = (now_us() - a) / 1000;
	hit(&w[0]);
	one = w[0].ns;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, hit, &w[i]);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf(
	    "bench segcache lookup ids=%u miss_ns=%.0f hit_ns=%.0f threads=2 hit_ns=%.0f scaling=%.2f\n",
	    IDS, miss, one, (w[0].ns + w[1].ns) / 2, 2 * one / ((w[0].ns + w[1].ns) / 2));
	segcache_free(c);
}

int main(void)
{
	bool any = false;

	read_words();
	for (size_t i = 0; i < sizeof(vocabularies) / sizeof(vocabularies[0]); i++) {
		struct cached c = { .cache = make_cache(), .scratch = tok_scratch_new() };
		const char *name = vocabularies[i].name;
		struct tok *t = i < 3 ? load(name) : any ? NULL : small_tok(SMALL_L3);

		if (t != NULL && c.scratch != NULL && c.cache != NULL) {
			any = true;
			c.tok = t;
			conversations(&c, &vocabularies[i]);
			one_growing(name, &c);
			short_ones(name, &c);
			long_piece(name, &c, "a");
			long_piece(name, &c, "etaoinshrdlu");
			long_piece(name, &c, " ");
			long_piece(name, &c, "7");
		}
		tok_unref(t);
		tok_scratch_free(c.scratch);
		segcache_free(c.cache);
	}
	alone();
	return 0;
}
