/* bench_sources.c - time of a decision on a prompt of token ids, by what is known of the servers.
 *
 *   tree     requests taught it; no server publishes events
 *   events   every server publishes; each holds half of the prompts, in blocks of 16
 *
 * The same bodies and facts go through route_decide() and route_learn() in both, in turns, so that
 * noise hits both alike: the least of all rounds, and the median. The limit for both is the time to
 * read the ids of the body, most of either figure. Besides, the time to decode and store the events
 * of one prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/rng.h"
#include "tests/lib/bench.h"
#include "agent/route/sources.h"

#define SERVERS	16
#define TALKS	16
#define ROUNDS	60
#define BLOCK	16u

enum { TREE, EVENTS, KINDS };

struct side {
	struct route *route;
	struct route_scratch *scratch;
	double *us;
	unsigned n;
};

static struct hash_key key;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ---- prompts and their events ---- */

static uint32_t token(unsigned talk, unsigned i)
{
	uint64_t h = (i < 512 ? 0 : talk + 1) * 1000003ull + i;		/* an opening that all share */

	return (uint32_t)((h * 0x9e3779b97f4a7c15u) >> 48) + 1000;
}

static size_t make_body(char *out, unsigned talk, unsigned n)
{
	size_t at = (size_t)sprintf(out, "{\"model\":\"m\",\"prompt\":[");

	for (unsigned i = 0; i < n; i++)
		at += (size_t)sprintf(out + at, "%s%u", i ? "," : "", token(talk, i));
	return at + (size_t)sprintf(out + at, "]}");
}

static void put(struct buf *b, unsigned v, unsigned bytes)
{
	uint8_t p[4] = { 0 };

	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
	buf_add(b, p, bytes);
}

static void put_text(struct buf *b, const char *s)
{
	put(b, 0xa0 + (unsigned)strlen(s), 1);
	buf_add(b, s, strlen(s));
}

static void put_list(struct buf *b, unsigned n)
{
	put(b, 0xdd, 1);
	put(b, n, 4);
}

/* One batch that stores the whole prompt, as vLLM writes it. */
static void make_payload(struct buf *b, unsigned talk, unsigned n)
{
	unsigned blocks = n / BLOCK;

	b->n = 0;
	put(b, 0x93, 1);
	put(b, 0, 1);
	put_list(b, 1);
	put(b, 0x84, 1);
	put_text(b, "type");
	put_text(b, "BlockStored");
	put_text(b, "block_hashes");
	put_list(b, blocks);
	for (unsigned i = 0; i < blocks; i++) {
		put(b, 0xce, 1);
		put(b, (i < 512 / BLOCK ? 0 : talk << 16) + i + 1, 4);
	}
	put_text(b, "token_ids");
	put_list(b, blocks * BLOCK);
	for (unsigned i = 0; i < blocks * BLOCK; i++) {
		put(b, 0xce, 1);
		put(b, token(talk, i), 4);
	}
	put_text(b, "block_size");
	put(b, BLOCK, 1);
	put(b, 0xc0, 1);
}

/* ---- the two sides ---- */

static void start(struct side *s, unsigned n_tokens, bool with_events)
{
	struct route_opts o;
	struct source_batch out;
	struct buf payload = { 0 };
	char name[16];

	route_defaults(&o);
	o.events_max_bytes = (size_t)256 << 20;
	s->route = must(route_new(&o, &key, 1));
	s->scratch = must(route_scratch_new(s->route));
	s->us = must(calloc(ROUNDS * TALKS, sizeof(*s->us)));
	s->n = 0;
	for (unsigned i = 0; i < SERVERS && with_events; i++) {
		source_id id;

		snprintf(name, sizeof(name), "s%u", i);
		id = route_source_open(s->route, SPAN("pool"), span_str(name), 1, 1);
		route_source_state(s->route, id, 0, KVCURSOR_SYNCED, true, 1);
		for (unsigned k = i % 2; k < TALKS; k += 2) {
			make_payload(&payload, k, n_tokens);
			route_source_batch(s->route, id, 0, span_of(payload.p, payload.n), 1, &out);
		}
	}
	buf_free(&payload);
}

static double decide(struct side *s, const char *uid, struct span body, msec now)
{
	static char load[SERVERS * 16 + 16];
	struct route_request q = {
		.uid = span_str(uid), .pool = SPAN("pool"), .path = SPAN("/v1/completions"), .body = body,
		.seq = -1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL,
	};
	struct route_answer a;
	struct fact f;
	size_t at = (size_t)sprintf(load, "lb/1");
	double t;

	for (unsigned i = 0; i < SERVERS; i++)
		at += (size_t)sprintf(load + at, ";s%u=1,0,0,1", i);
	q.load = span_of(load, at);
	t = now_us();
	route_decide(s->route, s->scratch, &q, now, &a);
	t = now_us() - t;
	fact_init(&f, FACT_DONE);
	f.uid = q.uid;
	f.server = a.server;
	f.status = 200;
	f.response_ms = 1;
	route_learn(s->route, &f, now);
	return t;
}

static void stop(struct side *s)
{
	route_scratch_free(s->scratch);
	route_free(s->route);
	free(s->us);
}

/* Apply one prompt's events again and again. Returns the least nanoseconds a block. */
static double apply_ns(unsigned n_tokens)
{
	struct buf payload = { 0 };
	struct source_batch out;
	double best = 1e18, t;
	struct side s;
	source_id id;

	start(&s, n_tokens, false);
	id = route_source_open(s.route, SPAN("pool"), SPAN("s0"), 1, 1);
	for (unsigned i = 0; i < 200; i++) {
		make_payload(&payload, i + 1, n_tokens);
		t = now_us();
		route_source_batch(s.route, id, 0, span_of(payload.p, payload.n), 1, &out);
		t = now_us() - t;
		best = t < best ? t : best;
	}
	buf_free(&payload);
	stop(&s);
	return best * 1000 / (n_tokens / BLOCK);
}

static void run(unsigned n_tokens)
{
	static const char *const names[KINDS] = { "tree", "events" };
	char *bodies[TALKS], uid[32];
	size_t n[TALKS];
	struct side side[KINDS];
	msec now = 1000000;

	for (unsigned k = 0; k < KINDS; k++)
		start(&side[k], n_tokens, k == EVENTS);
	for (unsigned t = 0; t < TALKS; t++) {
		bodies[t] = must(malloc(n_tokens * 12 + 64));
		n[t] = make_body(bodies[t], t, n_tokens);
	}
	for (unsigned r = 0; r < ROUNDS; r++) {
		for (unsigned i = 0; i < TALKS * KINDS; i++) {
			struct side *s = &side[i % KINDS];

			snprintf(uid, sizeof(uid), "%u-%u", r, i);
			now += 200;
			s->us[s->n++] = decide(s, uid, span_of(bodies[i / KINDS], n[i / KINDS]), now);
		}
	}
	for (unsigned k = 0; k < KINDS; k++) {
		qsort(side[k].us, side[k].n, sizeof(double), by_value);
		printf("bench sources tokens=%u knowledge=%s decide_us_min=%.1f decide_us_p50=%.1f\n", n_tokens,
		    names[k], side[k].us[0], side[k].us[side[k].n / 2]);
		stop(&side[k]);
	}
	printf("bench sources tokens=%u applied_ns_per_block=%.0f\n", n_tokens, apply_ns(n_tokens));
	for (unsigned t = 0; t < TALKS; t++)
		free(bodies[t]);
}

int main(void)
{
	struct rng rng;

	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	printf("bench_sources: %u servers, %u prompts that share 512 tokens, blocks of %u tokens\n",
	    SERVERS, TALKS, BLOCK);
	run(1024);
	run(8192);
	run(65536);
	return 0;
}
