/* bench_events.c - the event door under the events of a fleet: the cost of a block when it is
 * stored, removed and matched, and its bytes.
 *
 * 64 servers, blocks of one page. unique: every server has its own conversations, so no chain is
 * shared; shared: a quarter of each conversation is one of 32 system prompts that every server
 * holds. The table is filled to the last record. Then each server removes its oldest run before it
 * stores another, as engines with a full cache do. CPU time, and the fastest of several passes,
 * because the machine may be shared. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/events/events.h"

#define SERVERS		64u
#define RUN		64u		/* blocks of a conversation */
#define SYSTEMS		32u
#define PASSES		7u
#define RUNS		8192u		/* of a pass */

static const uint64_t space[2] = { 1, 2 };

struct fleet {
	struct events *ev;
	struct events_match m;
	uint32_t n_runs;		/* held: the last so many of each server */
	uint32_t shared;		/* blocks of a run that many servers have */
	uint64_t next;			/* number of the next run */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *why)
{
	fprintf(stderr, "bench_events: %s\n", why);
	exit(1);
}

/* Run <i> is of server i % SERVERS. */
static void pages_of(const struct fleet *f, uint64_t i, page_key *keys)
{
	struct rng own, common;
	uint32_t j;

	rng_init(&own, i + 1000);
	rng_init(&common, i / SERVERS % SYSTEMS);
	for (j = 0; j < RUN; j++)
		keys[j] = rng_next(j < f->shared ? &common : &own);
}

/* Make handles as an engine does: equal for equal blocks. */
static void handles_of(const struct fleet *f, uint64_t i, uint64_t *handles)
{
	uint64_t of = i;
	uint32_t j;

	for (j = 0; j < RUN; j++) {
		of = j < f->shared ? i / SERVERS % SYSTEMS : i + SYSTEMS;
		handles[j] = (of * RUN + j) * 0x9e3779b97f4a7c15ull;
	}
}

static void store(struct fleet *f, uint64_t i, const uint64_t *handles, const page_key *keys)
{
	struct events_run run = { .server = (server_id)(i % SERVERS), .n = RUN, .block_pages = 1,
				  .handles = handles, .keys = keys, .space = space };

	if (events_stored(f->ev, &run) != RUN)
		die("a run was not stored");
}

static void fill(struct fleet *f)
{
	uint64_t handles[RUN];
	page_key keys[RUN];
	struct events_stats st;

	for (;;) {
		events_stats(f->ev, &st);
		if (st.records + RUN > st.max_records)
			break;
		pages_of(f, f->next, keys);
		handles_of(f, f->next, handles);
		store(f, f->next++, handles, keys);
	}
	if (st.evicted != 0 || st.refused != 0)
		die("what was stored did not stay");
	f->n_runs = (uint32_t)f->next;
}

static double churn_removed(struct fleet *f, uint64_t (*handles)[RUN])
{
	double took;
	uint32_t i;

	for (i = 0; i < RUNS; i++)
		handles_of(f, f->next - f->n_runs + i, handles[i]);
	took = now_ns();
	for (i = 0; i < RUNS; i++)
		if (events_removed(f->ev, (server_id)((f->next - f->n_runs + i) % SERVERS), 0, handles[i], RUN,
				   EVENTS_DEVICE) != RUN)
			die("a block was not known");
	return (now_ns() - took) / RUNS / RUN;
}

static double churn_stored(struct fleet *f, uint64_t (*handles)[RUN], page_key (*keys)[RUN])
{
	double took;
	uint32_t i;

	for (i = 0; i < RUNS; i++) {
		handles_of(f, f->next + i, handles[i]);
		pages_of(f, f->next + i, keys[i]);
	}
	took = now_ns();
	for (i = 0; i < RUNS; i++)
		store(f, f->next + i, handles[i], keys[i]);
	took = (now_ns() - took) / RUNS / RUN;
	f->next += RUNS;
	return took;
}

/* Match random conversations that are held whole. */
static double match(struct fleet *f, page_key (*keys)[RUN], uint64_t seed)
{
	uint64_t hits = 0;
	struct rng rng;
	double took;
	uint32_t i;

	rng_init(&rng, seed);
	for (i = 0; i < RUNS; i++)
		pages_of(f, f->next - 1 - rng_below(&rng, f->n_runs - RUNS), keys[i]);
	took = now_ns();
	for (i = 0; i < RUNS; i++) {
		events_match(f->ev, space, keys[i], RUN, &f->m);
		hits += f->m.n_hits;
	}
	took = (now_ns() - took) / RUNS;
	if (hits < RUNS)
		die("a conversation was not found");
	return took;
}

static double miss(struct fleet *f, page_key (*keys)[RUN], uint64_t seed)
{
	double took;
	uint32_t i;

	for (i = 0; i < RUNS; i++)
		pages_of(&(struct fleet){ 0 }, ((uint64_t)1 << 40) + seed * RUNS + i, keys[i]);
	took = now_ns();
	for (i = 0; i < RUNS; i++)
		events_match(f->ev, space, keys[i], RUN, &f->m);
	return (now_ns() - took) / RUNS;
}

static double best_of(double best, double took)
{
	return took < best ? took : best;
}

static void run(const char *name, size_t max_bytes, uint32_t shared)
{
	double stored = 1e18, removed = 1e18, matched = 1e18, missed = 1e18, dropped;
	struct fleet f = { .shared = shared };
	uint64_t (*handles)[RUN] = calloc(RUNS, sizeof(*handles));
	page_key (*keys)[RUN] = calloc(RUNS, sizeof(*keys));
	struct events_opts o;
	struct events_stats st;
	struct hash_key key;
	uint32_t i, n;
	struct rng rng;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	events_defaults(&o);
	o.max_bytes = max_bytes;
	o.prefault = true;
	o.key = &key;
	f.ev = events_new(&o);
	if (f.ev == NULL || handles == NULL || keys == NULL || events_match_init(&f.m) < 0)
		die("no memory");
	fill(&f);
	events_stats(f.ev, &st);
	for (i = 0; i < PASSES; i++) {
		if (shared == 0) {
			removed = best_of(removed, churn_removed(&f, handles));
			stored = best_of(stored, churn_stored(&f, handles, keys));
		}
		matched = best_of(matched, match(&f, keys, i + 1));
		missed = best_of(missed, miss(&f, keys, i + 1));
	}
	n = events_server_records(f.ev, 5);
	dropped = now_ns();
	events_drop_server(f.ev, 5);
	while (events_tick(f.ev, 64))
		;
	dropped = (now_ns() - dropped) / n;
	printf("bench events workload=%s records=%lu bytes=%lu bytes_per_record=%.2f sets=%lu",
	    name, (unsigned long)st.records, (unsigned long)st.max_bytes,
	    (double)st.max_bytes / (double)st.records, (unsigned long)st.sets);
	if (shared == 0)
		printf(" stored_ns=%.0f removed_ns=%.0f", stored, removed);
	printf(" match_ns=%.0f match_ns_per_block=%.1f miss_ns=%.0f dropped_ns_per_record=%.0f\n",
	    matched, matched / RUN, missed, dropped);
	events_match_fini(&f.m);
	events_free(f.ev);
	free(handles);
	free(keys);
}

int main(void)
{
	run("unique", (size_t)64 << 20, 0);
	run("shared", (size_t)64 << 20, RUN / 4);
	return 0;
}
