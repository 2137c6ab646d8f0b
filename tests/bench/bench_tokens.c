/* bench_tokens.c - time of the agent in token mode: from the bytes of a NOTIFY with a completions
 * body or a conversation to the bytes of its ACK, in memory.
 *
 *   cold    the text of the prompt is new: all of it is encoded
 *   again   the same prompt again: all of it is found in the segment cache
 *   turn    a conversation has grown by 600 bytes
 *   text    the same bodies for a model in text mode, for comparison
 *
 * The tokenizer is Llama 3's if it exists (../shared/data), or the named file; otherwise the small
 * one of the tests, whose speed says nothing. The chat template is Llama 3.3's, or a small one.
 * Prompts are lines of the tree's own texts (CHANGES.md, README.md, doc/) in random order. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/serve/serve.h"
#include "spoe/wire.h"
#include "tests/lib/bench_model.h"
#include "tests/lib/frames.h"

#define TURN	1200		/* bytes of a message */
#define ROUNDS	60
#define WORST	11

static struct hash_key key;
static struct tok *tok;
static struct chat *chat;
static bool talk;		/* bodies are conversations */
static struct bench_lines lines;

static usec clock_us(void *arg)
{
	return (usec)now_us();
}

/* ---- bodies ---- */

/* {"prompt":"...","model":...}: the first <n> bytes of the text of <seed>. */
static size_t make_body(char *out, size_t n, uint64_t seed, const char *model)
{
	size_t at = (size_t)sprintf(out, "{\"prompt\":\""), end = at + n;
	struct rng rng;

	rng_init(&rng, seed);
	bench_put_lines(&lines, &rng, out, at, end);
	return end + (size_t)sprintf(out + end, "\",\"model\":\"%s\",\"max_tokens\":64}", model);
}

/* {"messages":[...],"model":...} of about <n> bytes: turns of TURN bytes; a longer conversation
 * begins with the same ones. */
static size_t make_talk(char *out, size_t n, uint64_t seed, const char *model)
{
	size_t at = (size_t)sprintf(out, "{\"messages\":[");
	struct rng rng;

	rng_init(&rng, seed);
	for (unsigned i = 0; at < n || i % 2 == 0; i++) {
		at += (size_t)sprintf(out + at, "%s{\"role\":\"%s\",\"content\":\"",
		    i > 0 ? "," : "", i % 2 == 0 ? "user" : "assistant");
		bench_put_lines(&lines, &rng, out, at, at + TURN);
		at += TURN;
		at += (size_t)sprintf(out + at, "\"}");
	}
	return at + (size_t)sprintf(out + at, "],\"model\":\"%s\",\"max_tokens\":64}", model);
}

static size_t make(char *out, size_t n, uint64_t seed, const char *model)
{
	return talk ? make_talk(out, n, seed, model) : make_body(out, n, seed, model);
}

/* ---- a run ---- */

struct bench {
	struct serve serve;
	struct serve_env env;
	struct serve_counters count;
	struct spop_wr in, out;
	char *body;
	uint64_t sent;
};

static void start(struct bench *b, size_t n)
{
	static struct model_opts model;
	struct spop_conn_opts so;
	struct route_opts ro;

	memset(b, 0, sizeof(*b));
	route_defaults(&ro);
	spop_conn_defaults(&so);
	model = ro.model_default;
	strcpy(model.name, "tokens");
	model.mode = MODEL_TOKENS;
	model.tok = tok;
	model.chat = chat;
	ro.models = &model;
	ro.n_models = 1;
	b->env = (struct serve_env){
		.route = must(route_new(&ro, &key, 1)), .count = &b->count, .clock = clock_us
	};
	b->env.scratch = must(route_scratch_new(b->env.route));
	so.max_frame_size = (uint32_t)(n + 131072);
	serve_init(&b->serve, &b->env, &so);
	b->in = (struct spop_wr){ .p = must(malloc(n + 131072)), .cap = n + 131072 };
	b->out = (struct spop_wr){ .p = must(malloc(SERVE_OUT_MIN)), .cap = SERVE_OUT_MIN };
	b->body = must(malloc(n + 16384));
	put_hello(&b->in, (uint32_t)(n + 131072 - 4));
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
}

static void stop(struct bench *b)
{
	serve_fini(&b->serve);
	route_scratch_free(b->env.scratch);
	route_free(b->env.route);
	free(b->body);
	free(b->in.p);
	free(b->out.p);
}

static double one(struct bench *b, size_t n)
{
	char uid[32];
	double t;

	snprintf(uid, sizeof(uid), "u-%llu", (unsigned long long)b->sent++);
	b->in.n = b->out.n = 0;
	put_route(&b->in, uid, talk ? "/v1/chat/completions" : "/v1/completions", b->body, n);
	t = now_us();
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
	mem_wipe(b->in.p, b->in.n);
	t = now_us() - t;
	if (b->count.acks != b->count.notifies || b->out.n == 0) {
		fprintf(stderr, "bench_tokens: no ACK\n");
		exit(1);
	}
	b->in.n = b->out.n = 0;
	put_done(&b->in, uid);
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
	return t;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *us)
{
	qsort(us, ROUNDS, sizeof(*us), by_value);
	return us[ROUNDS / 2];
}

static void run(const char *name, size_t n)
{
	static double cold[ROUNDS], again[ROUNDS], turn[ROUNDS], text[ROUNDS];
	struct route_stats s;
	struct bench b;
	size_t bytes = 0;

	start(&b, n + 4096);
	for (int r = -4; r < ROUNDS; r++) {
		int i = r < 0 ? 0 : r;

		bytes = make(b.body, n - (talk ? 2 * TURN : 600), 1000 + (uint64_t)r, "tokens");
		cold[i] = one(&b, bytes);
		again[i] = one(&b, bytes);
		bytes = make(b.body, n, 1000 + (uint64_t)r, "tokens");
		turn[i] = one(&b, bytes);
		bytes = make(b.body, n, 1000 + (uint64_t)r, "text");
		one(&b, bytes);
		text[i] = one(&b, bytes);
	}
	route_stats(b.env.route, &s);
	if (s.tokenized != 3 * (ROUNDS + 4) || s.tokenize_failed + s.tokenize_bounded > 0) {
		fprintf(stderr, "bench_tokens: not all of it was encoded\n");
		exit(1);
	}
	printf(
	    "bench %s body_bytes=%zu cold_us=%.1f again_us=%.1f turn_us=%.1f text_us=%.1f cold_mb_s=%.0f "
	    "tokens=%llu bytes_per_token=%.2f\n",
	    name, bytes, median(cold), median(again), median(turn), median(text),
	    (double)bytes / median(cold), (unsigned long long)(s.tokens / s.tokenized),
	    (double)bytes / ((double)s.tokens / (double)s.tokenized));
	stop(&b);
}

/* Time the worst delay of a loop: a body that is too large for one message, with other words each
 * time. The least and the median are the cost; a single value includes other load. */
static void worst(const char *name, char letter)
{
	size_t n = (size_t)1 << 20, bytes = 0;
	struct route_stats s;
	double us[WORST];
	struct bench b;

	start(&b, n + 4096);
	for (int i = 0; i < WORST; i++) {
		bytes = make_body(b.body, n, 5 + (uint64_t)i, "tokens");
		if (letter != 0)
			memset(b.body + 11, letter + i % 20, bytes - 64);
		us[i] = one(&b, bytes);
	}
	route_stats(b.env.route, &s);
	qsort(us, WORST, sizeof(*us), by_value);
	printf("bench %s body_bytes=%zu p50_us=%.0f min_us=%.0f bounded=%llu tokens=%llu\n", name,
	    bytes, us[WORST / 2], us[0], (unsigned long long)s.tokenize_bounded,
	    (unsigned long long)(s.tokens / WORST));
	stop(&b);
}

int main(int argc, char **argv)
{
	bench_key(&key);
	bench_tree_lines(&lines);
	tok = bench_tok(argc > 1 ? argv[1] : bench_file(BENCH_LLAMA, BENCH_SMALL));
	run("tokens_16k", 16 << 10);
	run("tokens_64k", 64 << 10);
	run("tokens_128k", 128 << 10);
	talk = true;
	chat = bench_template(bench_file(BENCH_TEMPLATE, BENCH_SMALL_TEMPLATE), &key);
	run("chat_16k", 16 << 10);
	run("chat_64k", 64 << 10);
	run("chat_128k", 128 << 10);
	talk = false;
	worst("tokens_1m_english", 0);
	worst("tokens_1m_one_letter", 'a');
	chat_unref(chat);
	tok_unref(tok);
	return 0;
}
