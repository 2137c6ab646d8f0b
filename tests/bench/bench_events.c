/* bench_events.c - the index of events under the events of a fleet with full caches.
 *
 *   bench_events          64 servers x 20,000 blocks, 20 generations; two threads; decoded
 *   bench_events large    1000 servers x 20,000 blocks, too
 *
 * A generation stores as many blocks as the fleet holds (events/fleet.h). Several indexes take the
 * same operations one after the other; of each operation the fastest counts, because the machine
 * may be shared. Prints the limits of the machine beside: a cache line read at random with
 * prefetch, in memory as large as the index, and a key compared with the next one in a row. Peers
 * are not run here. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/events/events.h"
#include "agent/feed/kvevent.h"
#include "tests/lib/bench.h"
#include "tests/bench/events/fleet.h"

#define REPLAYS		3u
#define GENERATIONS	20u
#define TOKENS		16u		/* of a block */

static const uint64_t space[2] = { 1, 2 };
static struct hash_key key;

static void die(const char *why)
{
	fprintf(stderr, "bench_events: %s\n", why);
	exit(1);
}

static struct events *make_index(size_t max_bytes)
{
	struct events_opts o;
	struct events *ev;

	events_defaults(&o);
	o.max_bytes = max_bytes;
	o.key = &key;
	o.prefault = true;
	if ((ev = events_new(&o)) == NULL)
		die("no memory");
	return ev;
}

static void apply(struct events *ev, const struct fleet_op *op, const uint64_t *words)
{
	struct events_run run = { .server = op->server, .n = op->n, .block_pages = 1,
				  .handles = words + op->handles, .keys = words + op->keys, .space = space,
				  .has_parent = op->has_parent, .parent = op->parent };

	if (op->kind == FLEET_STORED && events_stored(ev, &run) != op->n)
		die("a block was not stored");
	if (op->kind == FLEET_REMOVED &&
	    events_removed(ev, op->server, 0, words + op->keys, op->n, EVENTS_DEVICE) != op->n)
		die("a block was not known");
}

/* ---- limits ---- */

static volatile uint64_t sink;

static double line_limit(size_t bytes)
{
	size_t lines = bytes / 64, n = 1 << 20;
	uint8_t *p = aligned_alloc(64, lines * 64);
	struct rng ahead, now;
	double best = 1e18, took;
	uint64_t sum = 0;
	unsigned i, k;

	if (p == NULL)
		die("no memory");
	memset(p, 1, lines * 64);
	for (k = 0; k < REPLAYS; k++) {
		rng_init(&ahead, 1);
		rng_init(&now, 1);
		took = cpu_ns();
		for (i = 0; i < 32; i++)
			rng_next(&ahead);
		for (i = 0; i < n; i++) {
			__builtin_prefetch(p + rng_below(&ahead, (uint32_t)lines) * (size_t)64);
			sum += p[rng_below(&now, (uint32_t)lines) * (size_t)64];
		}
		took = (cpu_ns() - took) / (double)n;
		best = took < best ? took : best;
	}
	sink = sum;
	free(p);
	return best;
}

static double compare_limit(void)
{
	enum { N = 512, ROUNDS = 4096 };
	uint64_t *a = calloc(N, 8), *b = calloc(N, 8), i, k, same = 0;
	double took = cpu_ns();

	if (a == NULL || b == NULL)
		die("no memory");
	for (k = 0; k < ROUNDS; k++)
		for (i = 0; i < N && a[i] == *(volatile uint64_t *)&b[i]; i++)
			same++;
	took = (cpu_ns() - took) / (double)same;
	free(a);
	free(b);
	return took;
}

/* ---- churn ---- */

struct churn {
	struct events *ev[REPLAYS];
	struct events_match m;
	unsigned replays;
	double ns[FLEET_KINDS], clock_ns;
	uint64_t blocks[FLEET_KINDS];
};

static double time_op(
    struct churn *c, struct events *ev, const struct fleet_op *op, const uint64_t *words)
{
	double from = now_ns();

	if (op->kind == FLEET_QUERY)
		events_match(ev, space, words + op->keys, op->n, &c->m);
	else
		apply(ev, op, words);
	return now_ns() - from - c->clock_ns;
}

/* Replay one generation on each index; keep the least time of each operation. */
static void replay(struct churn *c, const struct fleet_ops *o)
{
	float *best = malloc(o->n_ops * sizeof(*best)), took;
	unsigned r;
	size_t i;

	if (best == NULL)
		die("no memory");
	memset(c->ns, 0, sizeof(c->ns));
	for (r = 0; r < c->replays; r++) {
		for (i = 0; i < o->n_ops; i++) {
			took = (float)time_op(c, c->ev[r], &o->ops[i], o->words);
			if (r == 0 || took < best[i])
				best[i] = took;
		}
	}
	for (i = 0; i < o->n_ops; i++)
		c->ns[o->ops[i].kind] += (double)best[i];
	memcpy(c->blocks, o->blocks, sizeof(c->blocks));
	free(best);
}

static void print_churn(const struct churn *c, uint32_t servers, const char *generations)
{
	double all = 0, blocks = 0;
	struct events_stats st;
	unsigned k;

	events_stats(c->ev[0], &st);
	for (k = 0; k < FLEET_KINDS; k++) {
		all += c->ns[k];
		blocks += (double)c->blocks[k];
	}
	printf("bench events churn=lru servers=%u capacity=20000 generations=%s replays=%u "
	       "match_ns_per_queried_block=%.2f stored_ns=%.1f removed_ns=%.1f "
	       "block_ops_per_s=%.1fM records=%lu bytes_per_record=%.2f blocks_per_run=%.1f sets=%lu\n",
	    servers, generations, c->replays, c->ns[0] / (double)c->blocks[0],
	    c->ns[1] / (double)c->blocks[1], c->blocks[2] ? c->ns[2] / (double)c->blocks[2] : 0.0,
	    blocks / all * 1e3, (unsigned long)st.records, (double)st.bytes / (double)st.records,
	    (double)st.blocks / (double)st.runs, (unsigned long)st.sets);
	fflush(stdout);
}

static double clock_cost(void)
{
	double best = 1e18, from, took;
	unsigned i;

	for (i = 0; i < 1000; i++) {
		from = now_ns();
		took = now_ns() - from;
		best = took < best ? took : best;
	}
	return best;
}

static void begin_churn(struct churn *c, unsigned replays, size_t max_bytes)
{
	unsigned i;

	*c = (struct churn){ .replays = replays, .clock_ns = clock_cost() };
	for (i = 0; i < replays; i++)
		c->ev[i] = make_index(max_bytes);
	if (events_match_init(&c->m) < 0)
		die("no memory");
}

static void end_churn(struct churn *c)
{
	unsigned i;

	for (i = 0; i < c->replays; i++) {
		if (events_check(c->ev[i]) != NULL)
			die(events_check(c->ev[i]));
		events_free(c->ev[i]);
	}
	events_match_fini(&c->m);
}

static void run_churn(uint32_t servers, unsigned replays, unsigned generations, size_t max_bytes)
{
	struct fleet *f = fleet_new(servers, 20000, 1);
	uint64_t held = (uint64_t)servers * 20000, blocks[FLEET_KINDS] = { 0 };
	struct fleet_ops o = { 0 };
	double ns[FLEET_KINDS] = { 0 };
	struct events_stats st;
	struct churn c;
	unsigned g, k;
	char name[32];

	begin_churn(&c, replays, max_bytes);
	for (g = 0; g <= generations; g++) {	/* the first one fills the caches */
		fleet_run(f, held, &o);
		replay(&c, &o);
		for (k = 0; k < FLEET_KINDS && g > 0; k++) {
			ns[k] += c.ns[k];
			blocks[k] += c.blocks[k];
		}
		snprintf(name, sizeof(name), "%u", g);
		if (g <= 1 || g == generations)
			print_churn(&c, servers, g == 0 ? "fill" : name);
	}
	events_stats(c.ev[0], &st);
	if (st.records != fleet_held(f) || st.evicted + st.refused + st.odd + st.unknown != 0)
		die("the index does not hold what the fleet holds");
	memcpy(c.ns, ns, sizeof(ns));
	memcpy(c.blocks, blocks, sizeof(blocks));
	snprintf(name, sizeof(name), "1-%u", generations);
	print_churn(&c, servers, name);
	printf("bench events limit bytes=%lu prefetched_random_line_ns=%.1f compare_ns_per_key=%.2f\n",
	    (unsigned long)st.bytes, line_limit(st.bytes), compare_limit());
	end_churn(&c);
	fleet_ops_free(&o);
	fleet_free(f);
}

/* ---- two threads ---- */

struct reader {
	const struct events *ev;
	const struct fleet_ops *o;
	atomic_bool stop;
	double ns_per_block;
};

/* Match the queries over and over, at least once. CPU time. */
static void *read_all(void *arg)
{
	struct reader *r = arg;
	struct events_match m;
	uint64_t blocks = 0;
	double took;
	size_t i;

	if (events_match_init(&m) < 0)
		die("no memory");
	took = cpu_ns();
	do {
		for (i = 0; i < r->o->n_ops; i++) {
			const struct fleet_op *op = &r->o->ops[i];

			if (op->kind != FLEET_QUERY)
				continue;
			events_match(r->ev, space, r->o->words + op->keys, op->n, &m);
			blocks += op->n;
		}
	} while (!atomic_load(&r->stop));
	r->ns_per_block = (cpu_ns() - took) / (double)blocks;
	events_match_fini(&m);
	return NULL;
}

static double write_all(struct events *ev, const struct fleet_ops *o)
{
	double took = cpu_ns();
	size_t i;

	for (i = 0; i < o->n_ops; i++)
		if (o->ops[i].kind != FLEET_QUERY)
			apply(ev, &o->ops[i], o->words);
	return (cpu_ns() - took) /
	       (double)(o->blocks[FLEET_STORED] + o->blocks[FLEET_REMOVED]);
}

static void run_two_threads(void)
{
	struct fleet *f = fleet_new(64, 20000, 2);
	struct fleet_ops old = { 0 }, o = { 0 };
	struct events *ev = make_index((size_t)64 << 20);
	double writer[2] = { 1e18, 1e18 }, reader[2] = { 1e18, 1e18 }, took;
	struct reader r = { .ev = ev, .o = &old };
	pthread_t t;
	unsigned i;

	for (i = 0; i < 2; i++) {
		fleet_run(f, 64 * 20000, &old);
		write_all(ev, &old);
	}
	for (i = 0; i < 2 * REPLAYS; i++) {
		fleet_run(f, 64 * 20000 / 2, &o);
		atomic_store(&r.stop, i % 2 == 0);
		if (i % 2 == 0)
			read_all(&r);
		else if (pthread_create(&t, NULL, read_all, &r) != 0)
			die("no thread");
		took = write_all(ev, &o);
		atomic_store(&r.stop, true);
		if (i % 2 != 0)
			pthread_join(t, NULL);
		writer[i % 2] = took < writer[i % 2] ? took : writer[i % 2];
		reader[i % 2] = r.ns_per_block < reader[i % 2] ? r.ns_per_block : reader[i % 2];
	}
	printf("bench events threads=1+1 servers=64 time=cpu writer_alone_ns=%.1f writer_ns=%.1f "
	       "reader_alone_ns=%.2f reader_ns=%.2f reader_loses_percent=%.0f\n",
	    writer[0], writer[1], reader[0], reader[1], (reader[1] / reader[0] - 1) * 100);
	events_free(ev);
	fleet_ops_free(&o);
	fleet_ops_free(&old);
	fleet_free(f);
}

/* ---- decoded ---- */

static uint8_t *put_be(uint8_t *p, uint8_t tag, uint64_t v, unsigned bytes)
{
	*p++ = tag;
	while (bytes-- > 0)
		*p++ = (uint8_t)(v >> 8 * bytes);
	return p;
}

static uint8_t *put_text(uint8_t *p, const char *s)
{
	size_t n = strlen(s);

	*p++ = (uint8_t)(0xa0 | n);
	memcpy(p, s, n);
	return p + n;
}

/* Write a batch of one event as vLLM 0.32 does: a tagged map in an array (time, events, rank). The
 * tokens of a block are made from its key. */
static size_t encode(uint8_t *to, const struct fleet_op *op, const uint64_t *words)
{
	bool stored = op->kind == FLEET_STORED;
	uint8_t *p = to;
	uint32_t i, k;

	*p++ = 0x93;
	p = put_be(p, 0xcb, 0x41da000000000000ull, 8);
	p = put_be(p, 0xdd, stored ? 1 : op->n, 4);
	for (k = 0; k < (stored ? 1 : op->n); k++) {	/* BlockRemoved: one event a hash */
		*p++ = stored ? 0x86 : 0x83;
		p = put_text(put_text(p, "type"), stored ? "BlockStored" : "BlockRemoved");
		p = put_be(put_text(p, "block_hashes"), 0xdd, stored ? op->n : 1, 4);
		for (i = 0; i < (stored ? op->n : 1); i++)
			p = put_be(p, 0xcf, words[stored ? op->handles + i : op->keys + k], 8);
		p = put_text(put_text(p, "medium"), "GPU");
	}
	if (stored) {
		p = put_text(p, "parent_block_hash");
		if (op->has_parent)
			p = put_be(p, 0xcf, op->parent, 8);
		else
			*p++ = 0xc0;
		p = put_be(put_text(p, "token_ids"), 0xdd, op->n * TOKENS, 4);
		for (i = 0; i < op->n; i++)
			for (k = 0; k < TOKENS; k++)
				p = put_be(p, 0xce, (words[op->keys + i] >> k) & 0x1ffff, 4);
		p = put_text(p, "block_size");
		*p++ = TOKENS;
	}
	*p++ = 0xc0;
	return (size_t)(p - to);
}

struct decoded {
	struct events *ev;
	uint64_t handles[4096];
	page_key keys[4096];
	uint32_t n_gone;
	uint64_t gone[4096];
};

static void take_event(struct decoded *d, const struct fleet_op *op, struct kvevent *e)
{
	uint32_t tokens[TOKENS], n;
	struct events_run run;

	if (e->kind == KVEVENT_REMOVED) {
		while (d->n_gone < 4096 && kvevent_hash(&e->hashes, &d->gone[d->n_gone]))
			d->n_gone++;
		return;
	}
	if (e->kind != KVEVENT_STORED || !kvevent_dense(e))
		die("an event is not what was written");
	for (n = 0; n < 4096 && kvevent_hash(&e->hashes, &d->handles[n]); n++) {
		if (!kvevent_tokens(&e->tokens, tokens, TOKENS))
			die("tokens are missing");
		d->keys[n] = hash64(&key, tokens, sizeof(tokens));
	}
	run = (struct events_run){ .server = op->server, .n = n, .block_pages = 1, .handles = d->handles,
				   .keys = d->keys, .space = space, .has_parent = e->has_parent,
				   .parent = e->parent };
	if (events_stored(d->ev, &run) != n)
		die("a decoded block was not stored");
}

static void take_payload(struct decoded *d, const struct fleet_op *op, struct span payload)
{
	struct kvevent_batch b;
	struct kvevent e;

	if (kvevent_open(&b, payload) != 0)
		die("a payload was not decoded");
	d->n_gone = 0;
	while (kvevent_next(&b, &e))
		take_event(d, op, &e);
	if (d->n_gone > 0 &&
	    events_removed(d->ev, op->server, 0, d->gone, d->n_gone, EVENTS_DEVICE) != d->n_gone)
		die("a decoded block was not known");
}

/* A generation of events from their bytes: decoded, token pages hashed, applied. */
static void run_decoded(void)
{
	struct fleet *f = fleet_new(64, 20000, 3);
	struct decoded *d = calloc(1, sizeof(*d));
	struct fleet_ops o = { 0 };
	uint8_t *bytes = malloc(1 << 20);
	double took, sum = 0, best = 1e18;
	unsigned g;
	size_t i, n;

	if (d == NULL || bytes == NULL)
		die("no memory");
	d->ev = make_index((size_t)64 << 20);
	for (g = 0; g < 2 + REPLAYS; g++, sum = 0) {
		fleet_run(f, 64 * 20000, &o);
		for (i = 0; i < o.n_ops; i++) {
			if (o.ops[i].kind == FLEET_QUERY)
				continue;
			n = encode(bytes, &o.ops[i], o.words);
			took = cpu_ns();
			take_payload(d, &o.ops[i], span_of(bytes, n));
			sum += cpu_ns() - took;
		}
		if (g >= 2 && sum < best)
			best = sum;
	}
	printf("bench events decoded=vllm_maps servers=64 time=cpu stored_and_removed_per_s=%.2fM "
	       "ns_per_pair=%.0f\n", (double)o.blocks[FLEET_STORED] / best * 1e3,
	    best / (double)o.blocks[FLEET_STORED]);
	events_free(d->ev);
	free(d);
	free(bytes);
	fleet_ops_free(&o);
	fleet_free(f);
}

int main(int argc, char **argv)
{
	struct rng rng;
	unsigned i;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	run_churn(64, REPLAYS, GENERATIONS, (size_t)64 << 20);
	run_two_threads();
	run_decoded();
	if (argc > 1 && strcmp(argv[1], "large") == 0)
		run_churn(1000, 1, 2, (size_t)1 << 30);
	return 0;
}
