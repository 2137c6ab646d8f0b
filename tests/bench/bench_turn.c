/* bench_turn.c - time of a warm turn of a conversation, from the bytes of a NOTIFY in memory: text
 * mode and token mode, bodies of 64 KB and 600 KB, 2 KB of them new. All that the agent does, also
 * after the ACK.
 *
 *   first   the first look at a conversation
 *   turn    it has grown by 2 KB: a message of the assistant, one of the user; <bounded> counts
 *           requests of these and the next whose work had no room for all
 *   ack     the part of a turn until the bytes of its ACK
 *   again   the same body again
 *   xxh3    to hash the bytes of the body at once, the limit of what remembers them
 *   wipe    to wipe the frame after the answer, as a connection does; part of all but <xxh3>
 *
 * Sessions take turns, so that the bodies of the others have passed between two of one. Messages
 * are lines of the tree's own texts in random order, an escape at the end of each. The tokenizer is
 * Llama 3's if it exists (../shared/data), otherwise the small one of the tests; likewise the
 * template. Arguments: "text" or "tokens" for one mode; bytes of the bodies. SLICE: bytes of a body
 * in a message, which then comes in slices. CLAUDE=first, CLAUDE=last: bodies as Claude Code sends
 * them, with system prompt and tools before the messages or after: its first block differs in each
 * body, and the marker at the end of the last message moves. MODEL=first: bodies begin with the
 * model, so that each slice has its ids. API=responses: bodies of that API. CHAT=harmony: gpt-oss,
 * with its tokenizer if it exists. TOOLS: bytes of tools after the messages, the same in all
 * bodies. PAUSE_US: the thread sleeps so long before each body, as one that waits for a socket;
 * then neither code nor data are in the caches next to it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/base/hash_wide.h"
#include "agent/base/mem.h"
#include "agent/serve/serve.h"
#include "spoe/wire.h"
#include "tests/lib/bench_model.h"
#include "tests/lib/frames.h"

#define MESSAGE	1024		/* bytes; two of them are a turn */
#define TALKS	16
#define TURNS	8
#define SAMPLES	(TALKS * TURNS)

static struct hash_key key;
static struct tok *tok;
static struct chat *chat;
static struct bench_lines lines;

/* A second passes between two requests, so that no tenant's share of the thread is used up. */
static usec apart;

static usec clock_us(void *arg)
{
	return (usec)now_us() + apart;
}

/* ---- bodies ---- */

static struct chat *bench_harmony(void)
{
	return must(chat_load(&(struct chat_source){ .format = CHAT_HARMONY }, &key, NULL));
}

static bool model_first, items;
static enum { CLAUDE_NO, CLAUDE_FIRST, CLAUDE_LAST } claude;

/* A conversation that grows. */
struct talk {
	char *p;
	size_t n;
	struct rng rng;
	unsigned sent;
	size_t billing;		/* where the text is that differs in each body; 0: after the messages */
};

#define BILLING		"x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=cli; cch="
#define SYSTEM		8000	/* bytes of Claude Code's system prompt */
#define BLOCK_END	"}]}"
#define MARKED_END	",\"cache_control\":{\"type\":\"ephemeral\"}" BLOCK_END

/* Write Claude Code's system prompt of this body to <p>. Returns its bytes. */
static size_t put_system(struct talk *t, char *p)
{
	size_t n = (size_t)sprintf(p, "\"system\":[{\"type\":\"text\",\"text\":\"" BILLING "%05x;\"},"
		"{\"type\":\"text\",\"text\":\"", ++t->sent * 7919u % 1048576);
	struct rng same;

	rng_init(&same, 7);
	bench_put_lines(&lines, &same, p, n, n + SYSTEM);
	return n + SYSTEM + (size_t)sprintf(p + n + SYSTEM, "\"}]");
}

/* Another body of the same conversation. */
static void change_billing(struct talk *t)
{
	char hex[8];

	snprintf(hex, sizeof(hex), "%05x", ++t->sent * 7919u % 1048576);
	memcpy(t->p + t->billing, hex, 5);
}

static void mark_last(char *p, size_t *n)
{
	*n -= strlen(BLOCK_END);
	memcpy(p + *n, MARKED_END, strlen(MARKED_END));
	*n += strlen(MARKED_END);
}

static void talk_add(struct talk *t, const char *role)
{
	size_t end;

	t->n += (size_t)sprintf(t->p + t->n, "%s{\"role\":\"%s\",\"content\":%s\"",
	    t->p[t->n - 1] == '[' ? "" : ",", role, claude ? "[{\"type\":\"text\",\"text\":" : "");
	end = t->n + MESSAGE - 40;
	bench_put_lines(&lines, &t->rng, t->p, t->n, end);
	t->n = end;
	t->n += (size_t)sprintf(t->p + t->n, claude ? "\"" BLOCK_END : "\"}");
}

static void talk_turn(struct talk *t)
{
	talk_add(t, "assistant");
	talk_add(t, "user");
}

#define TOOL	"\"name\":\"tool_%zu\",\"description\":" \
	"\"Reads a file of the local file system, and returns its lines with their numbers, at " \
	"most as many as are asked for.\",\"%s\":{\"type\":\"object\",\"properties\":" \
	"{\"path\":{\"type\":\"string\",\"description\":\"The absolute path of the file\"}," \
	"\"offset\":{\"type\":\"integer\",\"description\":\"The line to start at\"}}," \
	"\"required\":[\"path\"]}"
#define TOOL_ROOM	512

static size_t tools_bytes;

/* Write ,"tools":[...] of about <tools_bytes> to <p>. Returns their bytes. */
static size_t put_tools(char *p)
{
	size_t n = 0;

	for (size_t i = 0; n < tools_bytes; i++)
		n += (size_t)sprintf(p + n, "%s%s" TOOL "%s", i == 0 ? ",\"tools\":[" : ",",
		    claude ? "{" : "{\"type\":\"function\",\"function\":{", i,
		    claude ? "input_schema" : "parameters", claude ? "}" : "}}");
	return n > 0 ? n + (size_t)sprintf(p + n, "]") : 0;
}

static void talk_start(struct talk *t, size_t n, uint64_t seed, const char *model)
{
	t->p = must(malloc(n + (TURNS + 4) * 2 * MESSAGE + tools_bytes + TOOL_ROOM + 2 * SYSTEM));
	rng_init(&t->rng, seed);
	t->n = (size_t)sprintf(t->p, "{");
	if (model_first)
		t->n += (size_t)sprintf(t->p + t->n, "\"model\":\"%s\",", model);
	if (claude == CLAUDE_FIRST) {
		t->n += put_system(t, t->p + t->n);
		t->billing = (size_t)(strstr(t->p, BILLING) + strlen(BILLING) - t->p);
		t->n += put_tools(t->p + t->n);
		t->n += (size_t)sprintf(t->p + t->n, ",");
	}
	t->n += (size_t)sprintf(t->p + t->n, "\"%s\":[", items ? "input" : "messages");
	if (!claude)
		talk_add(t, "system");
	talk_add(t, "user");
	while (t->n < n)
		talk_turn(t);
}

/* ---- a run ---- */

struct bench {
	struct serve serve;
	struct serve_env env;
	struct serve_counters count;
	struct spop_wr in, out;
	struct talk talk[TALKS];
	const char *model;
	uint64_t sent;
};

static void start(struct bench *b, size_t n, bool tokens)
{
	static struct model_opts model;
	size_t room = n + (TURNS + 8) * 2 * MESSAGE + tools_bytes + TOOL_ROOM + 2 * SYSTEM;
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
	ro.n_models = tokens;
	b->model = tokens ? "tokens" : "text";
	b->env = (struct serve_env){
		.route = must(route_new(&ro, &key, 1)), .count = &b->count, .clock = clock_us
	};
	b->env.scratch = must(route_scratch_new(b->env.route));
	so.max_frame_size = (uint32_t)room;
	serve_init(&b->serve, &b->env, &so);
	b->in = (struct spop_wr){ .p = must(malloc(room)), .cap = room };
	b->out = (struct spop_wr){ .p = must(malloc(SERVE_OUT_MIN)), .cap = SERVE_OUT_MIN };
	for (unsigned i = 0; i < TALKS; i++)
		talk_start(&b->talk[i], n - TURNS * MESSAGE, 1000 + i, b->model);
	put_hello(&b->in, (uint32_t)room - 4);
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
}

static void stop(struct bench *b)
{
	serve_fini(&b->serve);
	route_scratch_free(b->env.scratch);
	route_free(b->env.route);
	for (unsigned i = 0; i < TALKS; i++)
		free(b->talk[i].p);
	free(b->in.p);
	free(b->out.p);
}

static const char *path = "/v1/chat/completions";
static double ack_us;		/* of the last request: from the bytes of its NOTIFY to its ACK */
static size_t slice;		/* bytes of a body in a message; 0: all */
static useconds_t pause_us;

/* Send slice <seq>, from byte <at>. Returns its time. */
static double one_slice(
    struct bench *b, const char *uid, unsigned seq, const char *p, size_t at, size_t all)
{
	size_t n = all - at < slice ? all - at : slice;
	double t;

	b->in.n = b->out.n = 0;
	put_slice(&b->in, uid, path, seq, p + at, n, all);
	t = now_us();
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
	mem_wipe(b->in.p, b->in.n);
	return now_us() - t;
}

/* Return the time of one request. Sets <*n> to the bytes of its body. */
static double one(struct bench *b, struct talk *talk, size_t *n)
{
	char uid[32];
	double t = 0;

	*n = talk->n;
	if (claude)
		mark_last(talk->p, n);
	*n += (size_t)sprintf(talk->p + *n, "],%s%s%s\"stream\":true,\"max_tokens\":64",
	    model_first ? "" : "\"model\":\"", model_first ? "" : b->model, model_first ? "" : "\",");
	if (claude == CLAUDE_FIRST)
		change_billing(talk);
	else
		*n += put_tools(talk->p + *n);
	if (claude == CLAUDE_LAST) {
		talk->p[(*n)++] = ',';
		*n += put_system(talk, talk->p + *n);
	}
	*n += (size_t)sprintf(talk->p + *n, "}");
	snprintf(uid, sizeof(uid), "u-%llu", (unsigned long long)b->sent++);
	b->in.n = b->out.n = 0;
	apart += 1000000;
	if (pause_us > 0)
		usleep(pause_us);
	for (size_t at = 0; slice > 0 && at < *n; at += slice)
		t += one_slice(b, uid, (unsigned)(at / slice), talk->p, at, *n);
	if (slice == 0) {
		put_route(&b->in, uid, path, talk->p, *n);
		t = now_us();
		serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
		ack_us = now_us() - t;
		serve_finish(&b->env);
		mem_wipe(b->in.p, b->in.n);
		t = now_us() - t;
	}
	if (b->count.acks != b->count.notifies || b->out.n == 0) {
		fprintf(stderr, "bench_turn: no ACK\n");
		exit(1);
	}
	if (claude)
		memcpy(talk->p + talk->n - strlen(BLOCK_END), BLOCK_END, strlen(BLOCK_END));
	b->in.n = b->out.n = 0;
	put_done(&b->in, uid);
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
	return t;
}

/* Has a name of its own for callgrind --toggle-collect. */
static double __attribute__((noinline)) one_turn(struct bench *b, struct talk *talk, size_t *n)
{
	return one(b, talk, n);
}

/* Likewise; set <us> to the time of the first look at conversation <i>. */
static void __attribute__((noinline)) one_first(struct bench *b, unsigned i, double *us, size_t *n)
{
	*us = one(b, &b->talk[i], n);
}

/* Repeat a body that is too long to be encoded at once until nothing of it is new. */
static void learn(struct bench *b, struct talk *talk)
{
	struct route_stats s;
	uint64_t before;
	size_t n;

	do {
		route_stats(b->env.route, &s);
		before = s.tokenize_bounded;
		one(b, talk, &n);
		route_stats(b->env.route, &s);
	} while (s.tokenize_bounded > before && b->sent < 4000);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double at(double *us, size_t n, unsigned percent)
{
	qsort(us, n, sizeof(*us), by_value);
	return us[n * percent / 100];
}

static void limits(const struct bench *b, double *xxh3, double *wipe)
{
	static double h[SAMPLES], w[SAMPLES];
	hash128_fn *hash = hash128_best();
	volatile uint64_t sink = 0;	/* or the loops would be left out */

	for (unsigned i = 0; i < SAMPLES; i++) {
		const struct talk *talk = &b->talk[i % TALKS];
		double t;

		memcpy(b->in.p, talk->p, talk->n);
		t = now_us();
		sink = sink + hash(&key, b->in.p, talk->n).lo;
		h[i] = now_us() - t;
		t = now_us();
		mem_wipe(b->in.p, talk->n);
		w[i] = now_us() - t;
	}
	*xxh3 = at(h, SAMPLES, 50);
	*wipe = at(w, SAMPLES, 50);
}

static void run(size_t n, bool tokens)
{
	static double first[TALKS], turn[SAMPLES], again[SAMPLES], ack[SAMPLES];
	static struct bench b;
	struct route_stats s;
	size_t bytes = 0, k = 0;
	uint64_t bounded;
	double hash, wipe, least, p50, ack50;

	start(&b, n, tokens);
	for (unsigned i = 0; i < TALKS; i++) {
		one_first(&b, i, &first[i], &bytes);
		learn(&b, &b.talk[i]);
	}
	route_stats(b.env.route, &s);
	bounded = s.tokenize_bounded;
	for (unsigned r = 0; r < TURNS; r++) {
		for (unsigned i = 0; i < TALKS; i++) {
			talk_turn(&b.talk[i]);
			turn[k] = one_turn(&b, &b.talk[i], &bytes);
			ack[k] = ack_us;
			again[k++] = one(&b, &b.talk[i], &bytes);
		}
	}
	route_stats(b.env.route, &s);
	limits(&b, &hash, &wipe);
	p50 = at(turn, k, 50);
	least = turn[0];
	ack50 = at(ack, k, 50);
	printf("bench turn mode=%s slice_bytes=%zu body_bytes=%zu first_us=%.1f turn_us=%.1f "
	       "turn_min_us=%.1f ack_us=%.1f ack_min_us=%.1f again_us=%.1f xxh3_us=%.1f "
	       "wipe_us=%.1f bounded=%llu n=%zu\n",
	    tokens ? "tokens" : "text", slice, bytes, at(first, TALKS, 50), p50, least, ack50, ack[0],
	    at(again, k, 50), hash, wipe, (unsigned long long)(s.tokenize_bounded - bounded), k);
	fflush(stdout);
	stop(&b);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 64000, 600000 };
	const char *only = "", *env = getenv("SLICE"), *where = getenv("MODEL");
	const char *pause = getenv("PAUSE_US"), *api = getenv("API"), *format = getenv("CHAT");
	const char *tools = getenv("TOOLS");
	const char *as = getenv("CLAUDE");
	bool harmony = format != NULL && strcmp(format, "harmony") == 0;
	const char *own = harmony ? BENCH_GPT_OSS : BENCH_LLAMA;

	slice = env != NULL ? strtoul(env, NULL, 10) : 0;
	tools_bytes = tools != NULL ? strtoul(tools, NULL, 10) : 0;
	pause_us = pause != NULL ? (useconds_t)strtoul(pause, NULL, 10) : 0;
	model_first = where != NULL && strcmp(where, "first") == 0;
	items = api != NULL && strcmp(api, "responses") == 0;
	claude = as == NULL ? CLAUDE_NO : strcmp(as, "first") == 0 ? CLAUDE_FIRST : CLAUDE_LAST;
	path = items ? "/v1/responses" : claude ? "/v1/messages" : path;
	bench_key(&key);
	bench_tree_lines(&lines);
	printf("# one thread, 4 servers, %d sessions that take turns, %d bytes new; gcc %s\n", TALKS,
	    2 * MESSAGE, __VERSION__);
	if (argc > 1 && argv[1][0] == 't')
		only = *++argv, argc--;
	if (strcmp(only, "text") != 0) {
		tok = bench_tok(bench_file(own, BENCH_SMALL));
		chat = harmony ? bench_harmony() : bench_template(
		    bench_file(BENCH_TEMPLATE, BENCH_SMALL_TEMPLATE), &key);
	}
	for (size_t i = 0; i < (argc > 1 ? (size_t)argc - 1 : 2); i++) {
		size_t n = argc > 1 ? strtoul(argv[i + 1], NULL, 10) : sizes[i];

		if (strcmp(only, "tokens") != 0)
			run(n, false);
		if (strcmp(only, "text") != 0)
			run(n, true);
	}
	if (tok != NULL) {
		chat_unref(chat);
		tok_unref(tok);
	}
	return 0;
}
