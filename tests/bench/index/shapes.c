/* shapes.c - single operations on trees made for them, without a workload: the cost of a hit, a
 * miss, a split; a prefix that every server holds; a server with 1.5 M tokens that leaves. Prompts
 * differ in the first token of a page, which is as good as in all. The least of PASSES passes
 * counts, over all prompts. */
#include "agent/base/rng.h"
#include "tests/bench/index/bench.h"

#define PASSES		20
#define PAGE		16u
#define TALKS		64u
#define SYSTEMS		16u
#define SERVERS		8u
#define HOT_SERVERS	1024u
#define HOT_TALKS	4u		/* of each server, below the hot prefix */
#define LEAVE_TOKENS	1500000u

static void make_tokens(uint32_t *p, uint32_t from, uint32_t to, uint64_t seed)
{
	struct rng rng;
	uint32_t i;

	rng_init(&rng, seed);
	for (i = from; i < to; i++)
		p[i] = rng_below(&rng, 128000);
}

static void hold(struct bench *b, struct door *d, const uint32_t *p, uint32_t n, server_id server)
{
	door_keys(&b->at, &b->key, p, n, PAGE);
	door_match(d, &b->at);
	door_commit(d, &b->at, server, 0);
	door_confirm(d, &b->at, 0);
}

/* ---- one operation at a time ---- */

enum act { HIT, MISS, KNOWN, NEW, PART, ACTS };

struct talks {
	uint32_t *p[TALKS];
	uint32_t n;			/* tokens */
	uint32_t fresh;			/* a token with which no prompt begins yet */
};

static server_id talk_server(uint32_t i)
{
	return (server_id)(i * 5 % SERVERS);
}

static void make_talks(struct bench *b, struct door *d, struct talks *t, uint32_t n)
{
	uint32_t i, turn;

	t->n = n;
	t->fresh = 1u << 30;
	for (i = 0; i < TALKS; i++) {
		t->p[i] = measure_must(malloc(n * sizeof(uint32_t)));
		make_tokens(t->p[i], 0, n / 4, i % SYSTEMS);
		make_tokens(t->p[i], n / 4, n, 1000 + i);
	}
	for (turn = 1; turn <= 4; turn++)
		for (i = 0; i < TALKS; i++)
			hold(b, d, t->p[i], n * turn / 4, talk_server(i));
}

static void act(struct bench *b, struct door *d, enum act what, server_id server)
{
	door_match(d, &b->at);
	if (what >= KNOWN)
		door_commit(d, &b->at, server, 0);
	if (what == KNOWN)
		door_confirm(d, &b->at, 0);
	if (what > KNOWN)
		door_cancel(d, &b->at);
}

/* Make the prompt of talk <i> for <what>: whole, new from its first page, or branching inside an
 * edge. */
static uint64_t act_on(struct bench *b, struct door *d, struct talks *t, enum act what, uint32_t i)
{
	uint32_t at = what == PART ? t->n / 8 * 7 : 0;
	uint64_t start;

	memcpy(b->prompt, t->p[i], t->n * sizeof(uint32_t));
	if (what == MISS || what == NEW || what == PART)
		b->prompt[at] = t->fresh++;
	door_keys(&b->at, &b->key, b->prompt, t->n, PAGE);
	start = ticks();
	act(b, d, what, talk_server(i));
	return ticks() - start;
}

static void acts(struct bench *b, uint32_t n)
{
	static const char *const names[ACTS] = { "hit", "miss", "known", "new", "part" };
	struct talks t;
	struct door d;
	uint32_t what, pass, i;
	uint64_t sum, best;

	bench_open(b, &d, b->budget);
	make_talks(b, &d, &t, n);
	printf("bench index_shape pages=%u", n / PAGE);
	for (what = 0; what < ACTS; what++) {
		for (best = UINT64_MAX, pass = 0; pass < PASSES; pass++) {
			for (sum = 0, i = 0; i < TALKS; i++)
				sum += act_on(b, &d, &t, what, i);
			best = sum < best ? sum : best;
		}
		printf(" %s_ns=%.0f", names[what], bench_ns(b, best) / TALKS);
	}
	for (best = UINT64_MAX, pass = 0; pass < PASSES * 10; pass++) {
		sum = ticks();
		door_keys(&b->at, &b->key, t.p[0], n, PAGE);
		sum = ticks() - sum;
		best = sum < best ? sum : best;
	}
	printf(" hash_pages_ns=%.0f\n", bench_ns(b, best));
	for (i = 0; i < TALKS; i++)
		free(t.p[i]);
	door_close(&d);
}

/* ---- a prefix that every server holds ---- */

static void hot_prompt(uint32_t *p, uint32_t n, uint32_t talk)
{
	make_tokens(p, 0, n / 4, 1);
	make_tokens(p, n / 4, n, 1000 + talk);
}

static void hot_root(struct bench *b, uint32_t n)
{
	uint32_t n_talks = HOT_SERVERS * HOT_TALKS, i, pass;
	uint32_t *p = measure_must(malloc(n * sizeof(*p)));
	struct summary r;
	struct series s;
	struct door d;
	uint64_t t;

	bench_open(b, &d, b->budget);
	series_init(&s, n_talks);
	for (i = 0; i < n_talks; i++) {
		hot_prompt(p, n, i);
		hold(b, &d, p, n, (server_id)(i % HOT_SERVERS));
	}
	for (pass = 0; pass < PASSES; pass++)
		for (i = 0; i < n_talks; i++) {
			hot_prompt(b->prompt, n, i);
			door_keys(&b->at, &b->key, b->prompt, n, PAGE);
			t = ticks();
			door_match(&d, &b->at);
			series_put(&s, i, ticks() - t);
		}
	r = series_sum(&s, b->clock.ns);
	printf(
	    "bench index_hot_root servers=%u pages=%u "
	    "match_mean_ns=%.0f p50_ns=%.0f p99_ns=%.0f bands=%u\n",
	    HOT_SERVERS, n / PAGE, r.mean, r.p50, r.p99, door_bands(&b->at));
	series_fini(&s);
	free(p);
	door_close(&d);
}

/* ---- a server that leaves ---- */

/* Add talks of four turns and 1K tokens, a quarter of it shared, until every server has
 * LEAVE_TOKENS. */
static void fill_leave(struct bench *b, struct door *d)
{
	uint32_t n = 1024, talks = LEAVE_TOKENS / (n / 4 * 3) * SERVERS, i, turn;

	for (turn = 1; turn <= 4; turn++)
		for (i = 0; i < talks; i++) {
			make_tokens(b->prompt, 0, n / 4, i / SERVERS % 32);
			make_tokens(b->prompt, n / 4, n, 1000 + i);
			hold(b, d, b->prompt, n / 4 + n * 3 / 16 * turn, (server_id)(i % SERVERS));
		}
}

void shapes_run(struct bench *b)
{
	b->w.page = PAGE;
	b->n_servers = SERVERS;
	b->budget = (size_t)256 << 20;
	acts(b, 4096);
	acts(b, 32768);
	acts(b, 65536);
	hot_root(b, 1024);
	forget_drop(b, "leave", fill_leave);
}
