/* bench_agent.c - time of the agent for a NOTIFY, in memory: until the bytes of its ACK (ack_us),
 * and with what it does after the ACK was sent (p50_us, p99_us, min_us).
 *
 * Warm: 16 conversations over 4 servers repeat, each NOTIFY with a new uid and followed by a
 * "done", so that index and ledger are as in service. Next to each figure: the time to copy
 * (memcpy) and to hash (XXH3, 64 bytes at a time) the same bytes in the same run. The time includes
 * wiping the input buffer, as a connection does after the answer; alone: wipe_us. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/rng.h"
#include "tests/lib/bench.h"
#include "agent/serve/serve.h"

#define TALKS	16
#define ROUNDS	400

static struct hash_key key;

static usec clock_us(void *arg)
{
	return (usec)now_us();
}

/* A chat body of about <n> bytes: a system prompt, turns of prose with some escapes in it. */
static size_t make_body(char *out, size_t n, int talk)
{
	static const char *const words[] = { "answer", "the", "question", "with", "care", "and",
		"a", "list" };
	size_t at = (size_t)sprintf(
	    out, "{\"messages\":[{\"role\":\"system\",\"content\":\"talk %d ", talk);
	unsigned k = (unsigned)talk;

	for (unsigned i = 0; at + 200 < n; i++) {
		k = k * 1103515245u + 12345u;
		at += (size_t)sprintf(out + at, "%s%s", words[(k >> 16) % 8], i % 16 == 15 ? ".\\n" : " ");
		if (i % 300 == 299)
			at += (size_t)sprintf(out + at, "\"},{\"role\":\"%s\",\"content\":\"",
					      i % 600 == 299 ? "user" : "assistant");
	}
	return at +
	    (size_t)sprintf(
		out + at, "\"}],\"model\":\"llama\",\"stream\":true,\"max_tokens\":64}");
}

static void put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static void put_arg(
    struct spop_wr *w, const char *name, enum spop_type type, const char *p, size_t n)
{
	struct spop_data d = { .type = type, .s = { p, n } };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static void put_int(struct spop_wr *w, const char *name, int64_t v)
{
	struct spop_data d = { .type = SPOP_T_INT64, .i = v };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static void frame_start(struct spop_wr *w, uint8_t type, uint64_t stream)
{
	uint8_t head[9] = { 0, 0, 0, 0, type, 0, 0, 0, 1 };

	memcpy(w->p + w->n, head, sizeof(head));
	w->n += sizeof(head);
	spop_put_varint(w, stream);
	spop_put_varint(w, stream ? 1 : 0);
}

static void frame_end(struct spop_wr *w, size_t start)
{
	put_u32(w->p + start, (uint32_t)(w->n - start - 4));
}

static void put_message(struct spop_wr *w, const char *name, uint8_t n_args)
{
	spop_put_str(w, name, strlen(name));
	w->p[w->n++] = n_args;
}

static void put_hello(struct spop_wr *w, uint32_t frame_size)
{
	size_t start = w->n;
	struct spop_data size = { .type = SPOP_T_UINT32, .i = frame_size };

	frame_start(w, 1, 0);
	put_arg(w, "supported-versions", SPOP_T_STR, "2.0", 3);
	spop_put_str(w, "max-frame-size", 14);
	spop_put_data(w, &size);
	put_arg(w, "capabilities", SPOP_T_STR, "pipelining", 10);
	frame_end(w, start);
}

static void put_route(struct spop_wr *w, const char *uid, const char *body, size_t n)
{
	static const char load[] = "lb/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1";
	size_t start = w->n;

	frame_start(w, 3, 1);
	put_message(w, "route", 7);
	put_arg(w, "uid", SPOP_T_STR, uid, strlen(uid));
	put_arg(w, "pool", SPOP_T_STR, "pool", 4);
	put_arg(w, "load", SPOP_T_STR, load, sizeof(load) - 1);
	put_arg(w, "path", SPOP_T_STR, "/v1/chat/completions", 20);
	put_int(w, "blen", (int64_t)n);
	put_int(w, "bsize", (int64_t)n);
	put_arg(w, "body", SPOP_T_BIN, body, n);
	frame_end(w, start);
}

static void put_done(struct spop_wr *w, const char *uid)
{
	size_t start = w->n;

	frame_start(w, 3, 2);
	put_message(w, "done", 4);
	put_arg(w, "uid", SPOP_T_STR, uid, strlen(uid));
	put_arg(w, "ts", SPOP_T_STR, "--", 2);
	put_int(w, "st", 200);
	put_int(w, "tr", 5);
	frame_end(w, start);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct bench {
	struct serve serve;
	struct serve_env env;
	struct serve_counters count;
	char *bodies[TALKS];
	size_t body_n[TALKS];
	struct spop_wr in, out;
};

static void start(struct bench *b, size_t n)
{
	struct route_opts ro;
	struct spop_conn_opts so;

	memset(b, 0, sizeof(*b));
	route_defaults(&ro);
	spop_conn_defaults(&so);
	b->env = (struct serve_env){ .route = must(route_new(&ro, &key, 1)), .count = &b->count,
				     .clock = clock_us };
	b->env.scratch = must(route_scratch_new(b->env.route));
	serve_init(&b->serve, &b->env, &so);
	b->in = (struct spop_wr){ .p = must(malloc(n + 4096)), .cap = n + 4096 };
	b->out = (struct spop_wr){ .p = must(malloc(65536)), .cap = 65536 };
	for (int i = 0; i < TALKS; i++) {
		b->bodies[i] = must(malloc(n + 1024));
		b->body_n[i] = make_body(b->bodies[i], n, i);
	}
	put_hello(&b->in, (uint32_t)(n + 4092));
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
}

static void stop(struct bench *b)
{
	serve_fini(&b->serve);
	route_scratch_free(b->env.scratch);
	route_free(b->env.route);
	for (int i = 0; i < TALKS; i++)
		free(b->bodies[i]);
	free(b->in.p);
	free(b->out.p);
}

/* Return the whole time; set <*ack> to the time until the ACK. */
static double one(struct bench *b, int round, int talk, double *ack)
{
	char uid[32];
	double t;

	snprintf(uid, sizeof(uid), "u-%d-%d", round, talk);
	b->in.n = b->out.n = 0;
	put_route(&b->in, uid, b->bodies[talk], b->body_n[talk]);
	t = now_us();
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	*ack = now_us() - t;
	serve_finish(&b->env);
	mem_wipe(b->in.p, b->in.n);
	t = now_us() - t;
	b->in.n = b->out.n = 0;
	put_done(&b->in, uid);
	serve_feed(&b->serve, b->in.p, b->in.n, &b->out);
	serve_finish(&b->env);
	return t;
}

/* Medians over the same bodies: of copying, of hashing page by page, of wiping. */
static void limits(struct bench *b, size_t n, double *copy, double *hash, double *wipe)
{
	static double c[ROUNDS], h[ROUNDS], w[ROUNDS];
	char *to = must(malloc(n + 1024));
	volatile uint64_t sink = 0;	/* or the loops would be left out */

	for (int r = 0; r < ROUNDS; r++) {
		const char *from = b->bodies[r % TALKS];
		double t = now_us();

		memcpy(to, from, n);
		sink = sink + (uint8_t)to[r];
		c[r] = now_us() - t;
		t = now_us();
		for (size_t i = 0; i + 64 <= n; i += 64)
			sink = sink + hash64(&key, from + i, 64);
		h[r] = now_us() - t;
		t = now_us();
		mem_wipe(to, n);
		w[r] = now_us() - t;
	}
	qsort(c, ROUNDS, sizeof(*c), by_value);
	qsort(h, ROUNDS, sizeof(*h), by_value);
	*copy = c[ROUNDS / 2];
	qsort(w, ROUNDS, sizeof(*w), by_value);
	*hash = h[ROUNDS / 2];
	*wipe = w[ROUNDS / 2];
	free(to);
}

static void run(const char *name, size_t n)
{
	static double us[ROUNDS * TALKS], ack[ROUNDS * TALKS];
	static struct bench b;
	double copy, hash, wipe;
	size_t k = 0;

	start(&b, n);
	for (int r = 0; r < 20; r++)
		for (int i = 0; i < TALKS; i++)
			one(&b, -1 - r, i, &ack[0]);
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < TALKS; i++, k++)
			us[k] = one(&b, r, i, &ack[k]);
	limits(&b, n, &copy, &hash, &wipe);
	qsort(us, k, sizeof(*us), by_value);
	qsort(ack, k, sizeof(*ack), by_value);
	printf(
	    "bench %s body_bytes=%zu ack_us=%.1f ack_min_us=%.1f p50_us=%.1f p99_us=%.1f min_us=%.1f "
	    "copy_us=%.1f xxh3_pages_us=%.1f wipe_us=%.1f share_of_xxh3=%.2f acks=%llu n=%zu\n",
	    name, b.body_n[0], ack[k / 2], ack[0], us[k / 2], us[k * 99 / 100], us[0], copy, hash, wipe,
	    hash / us[k / 2], (unsigned long long)b.count.acks, k);
	stop(&b);
}

int main(void)
{
	struct rng rng;

	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	printf("# text mode, warm, one thread, 4 servers, %d conversations; gcc %s\n", TALKS, __VERSION__);
	run("agent_chat_2k", 2 << 10);
	run("agent_chat_16k", 16 << 10);
	run("agent_chat_128k", 128 << 10);
	return 0;
}
