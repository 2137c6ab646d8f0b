/* bench_share_route.c - what sharing adds to a decision, and what applying one of a sibling costs.
 *
 * Conversations go on turn by turn: bodies of chat completions in text mode, which is the cheapest
 * way to decide. The same requests go to a router alone, to one that shares (its entries go through
 * an outbox), and as batches through an inbox to a sibling. The three alternate, and of each
 * request the fastest of PASSES passes counts, because the machine may be shared. Under callgrind
 * with PASSES=1, apply_placed and share_placed can be compared with route_decide by instructions.
 * WORKLOAD=0 runs only the first workload. BATCH=10: each batch has all entries of ten requests, as
 * with much load; then apply_ns is of decisions and facts.
 *
 * Lines: bench share_route turns=BYTES alone_ns= with_ns= send_percent= apply_ns= apply_percent=
 * learn_ns= and so on, a request; bytes= of its batches. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/rng.h"
#include "agent/route/route.h"
#include "agent/route/share.h"
#include "agent/share/inbox.h"
#include "tests/lib/bench.h"
#include "agent/share/outbox.h"

#define PASSES		(getenv("PASSES") != NULL ? (unsigned)atoi(getenv("PASSES")) : 7)
#define BATCH		(getenv("BATCH") != NULL ? (unsigned)atoi(getenv("BATCH")) : 1)
#define TALKS		12	/* conversations at a time */
#define LOAD		"lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1;s5=1,0,0,1;s6=1,0,0,1"

static const struct workload { size_t first, turn; unsigned turns; } workloads[] = {
	{ 1000, 1000, 10 },		/* a chat: 1 to 10 KB */
	{ 30000, 3000, 20 },		/* with documents: 30 to 90 KB */
	{ 60000, 12000, 40 },		/* an agent: 60 to 540 KB */
};

enum op { DECIDE, LEARN, APPLY, APPLY_FACT, OPS };

struct times {
	double alone[OPS], with[OPS];
};

static struct hash_key key;
static char body[1 << 20];
static struct share_outbox *outbox;
static struct share_inbox *inbox;
static struct route *sibling;
static msec now;

static void put(void *arg, uint32_t part, const struct share_entry *e)
{
	share_outbox_put(outbox, part, e, now);
}

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	route_share_apply(sibling, from, e, now);
}

/* Make turn <turn> of conversation <talk>: all its text up to there. */
static size_t make_body(const struct workload *wl, unsigned talk, unsigned turn)
{
	size_t n = (size_t)sprintf(body, "{\"model\":\"m\",\"messages\":[");
	struct rng rng;

	rng_init(&rng, talk + 1);
	for (unsigned t = 0; t <= turn; t++) {
		n += (size_t)sprintf(body + n, "%s{\"role\":\"%s\",\"content\":\"", t > 0 ? "," : "",
		    t % 2 ? "assistant" : "user");
		for (size_t i = 0; i < (t == 0 ? wl->first : wl->turn); i += 8) {
			uint64_t v = rng_next(&rng);

			for (unsigned k = 0; k < 8; k++)
				body[n++] = (char)('a' + (v >> 8 * k) % 26);
		}
		n += (size_t)sprintf(body + n, "\"}");
	}
	return n + (size_t)sprintf(body + n, "],\"stream\":true}");
}

static struct route *make_route(bool share, share_agent self)
{
	const struct route_share to = { .put = put, .parts = 1, .self = self };
	struct route_opts o;
	struct route *r;

	route_defaults(&o);
	o.share = share;
	o.index.prefault = true;
	r = must(route_new(&o, &key, 0));
	if (share && route_share(r, &to) < 0)
		must(NULL);
	return r;
}

static struct fact end_of(struct span uid, struct span server)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = uid;
	f.server = server;
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 20;
	f.line = true;
	return f;
}

static void keep_least(double *least, double took)
{
	if (*least == 0 || took < *least)
		*least = took;
}

static void decide(struct route *r, struct route_scratch *s, struct span uid, size_t n,
    struct route_answer *a, double *took)
{
	struct route_request q = {
		.uid = uid, .pool = SPAN("llm"), .load = SPAN(LOAD), .path = SPAN("/v1/chat/completions"),
		.body = span_of(body, n), .seq = -1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL,
	};
	double start = now_ns();

	route_decide(r, s, &q, now, a);
	keep_least(took, now_ns() - start);
}

static void learn(struct route *r, struct span uid, struct span server, double *took)
{
	struct fact f = end_of(uid, server);
	double start = now_ns();

	route_learn(r, &f, now);
	keep_least(took, now_ns() - start);
}

/* Bring what was put to the sibling. */
static uint64_t pass_on(double *took)
{
	struct span batch = share_outbox_take(outbox, 0, now, 1000000 + now);
	double start = now_ns();

	share_inbox_read(inbox, 0, batch, now, 1000000 + now, apply, NULL);
	keep_least(took, now_ns() - start);
	share_outbox_sent(outbox, 0);
	return batch.n;
}

/* <t>: of each request; <turn>: bytes of its PLACED. Returns the bytes of all batches. */
static uint64_t pass(const struct workload *wl, struct times *t)
{
	struct route *alone = make_route(false, 0), *with = make_route(true, 1);
	struct route_scratch *s = must(route_scratch_new(alone)), *s2 = must(route_scratch_new(with));
	unsigned batch = BATCH;
	uint64_t bytes = 0;
	char uid[32];

	sibling = make_route(true, 2);
	outbox = must(share_outbox_new(&key, 1, 1, 4 << 20));
	inbox = must(share_inbox_new(&key, 2, 1));
	now = 1000000;
	for (unsigned i = 0; i < TALKS * wl->turns; i++, now += 20) {
		struct span id = span_of(uid, (size_t)sprintf(uid, "request-%u", i));
		size_t n = make_body(wl, i % TALKS, i / TALKS);
		struct route_answer a;

		decide(alone, s, id, n, &a, &t[i].alone[DECIDE]);
		learn(alone, id, a.server, &t[i].alone[LEARN]);
		decide(with, s2, id, n, &a, &t[i].with[DECIDE]);
		if (batch == 1)
			bytes += pass_on(&t[i].with[APPLY]);
		learn(with, id, a.server, &t[i].with[LEARN]);
		if (batch == 1)
			bytes += pass_on(&t[i].with[APPLY_FACT]);
		else if (i % batch == batch - 1)
			bytes += pass_on(&t[i].with[APPLY]);
	}
	route_scratch_free(s);
	route_scratch_free(s2);
	route_free(alone);
	route_free(with);
	route_free(sibling);
	share_outbox_free(outbox);
	share_inbox_free(inbox);
	return bytes;
}

static void bench(const struct workload *wl)
{
	unsigned n = TALKS * wl->turns;
	struct times *t = must(calloc(n, sizeof(*t))), sum = { 0 };
	uint64_t bytes = 0;

	for (unsigned i = 0; i < PASSES; i++)
		bytes = pass(wl, t);
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < OPS; k++) {
			sum.alone[k] += t[i].alone[k] / n;
			sum.with[k] += t[i].with[k] / n;
		}
	}
	printf("bench share_route first=%zu turn=%zu turns=%u alone_ns=%.0f with_ns=%.0f "
		"send_percent=%.1f apply_ns=%.0f apply_percent=%.1f learn_ns=%.0f learn_with_ns=%.0f "
		"apply_fact_ns=%.0f bytes=%.0f\n", wl->first, wl->turn, wl->turns, sum.alone[DECIDE],
		sum.with[DECIDE], 100 * (sum.with[DECIDE] / sum.alone[DECIDE] - 1), sum.with[APPLY],
		100 * sum.with[APPLY] / sum.alone[DECIDE], sum.alone[LEARN], sum.with[LEARN],
		sum.with[APPLY_FACT], (double)bytes / n);
	free(t);
}

int main(void)
{
	struct rng rng;

	/* from the second pass on no page of memory is touched first */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	rng_init(&rng, 42);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
		if (getenv("WORKLOAD") == NULL || (size_t)atoi(getenv("WORKLOAD")) == i)
			bench(&workloads[i]);
	return 0;
}
