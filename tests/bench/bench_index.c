/* bench_index.c - what a match and a commit cost on a warm index, and what a page takes.
 *
 * 8 servers, 16 system prompts of a quarter of the length, 64 conversations of four turns, each on a
 * server of its own choice; page keys are ready, as hashing is measured with the scanner. An operation
 * is timed over a pass through all conversations, and the fastest of 30 passes counts: the
 * machine may be shared. Lines: bench NAME pages=N ns=T ... */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"

#define SERVERS		8
#define SYSTEMS		16
#define TALKS		64
#define TURNS		4
#define PASSES		30

static const struct space_key sp = { { 3, 4 } };

struct talk {
	page_key *pages;
	server_id server;
};

struct bench {
	struct index *ix;
	struct index_match m;
	struct talk talks[TALKS];
	uint32_t n;		/* pages of a whole conversation */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *must(void *p)
{
	if (p != NULL)
		return p;
	fprintf(stderr, "bench_index: no memory\n");
	exit(1);
}

static void make_talks(struct bench *b)
{
	uint32_t i, k, system = b->n / 4;
	struct rng rng;

	for (i = 0; i < TALKS; i++) {
		b->talks[i].pages = must(calloc(b->n, sizeof(page_key)));
		b->talks[i].server = (server_id)(i * 5 % SERVERS);
		rng_init(&rng, i % SYSTEMS);
		for (k = 0; k < b->n; k++) {
			if (k == system)
				rng_init(&rng, 1000 + i);
			b->talks[i].pages[k] = rng_next(&rng);
		}
	}
}

/* Turn by turn, as conversations come. */
static void fill(struct bench *b)
{
	uint32_t i, turn;
	index_claim c;

	for (turn = 1; turn <= TURNS; turn++)
		for (i = 0; i < TALKS; i++) {
			c = index_commit(b->ix, &sp, b->talks[i].pages, b->n * turn / TURNS, NULL,
					 b->talks[i].server, turn);
			index_confirm(b->ix, c, turn);
		}
}

/* ---- operations on one conversation ---------------------------------------------------------- */

typedef void operation(struct bench *b, const struct talk *t, page_key *fresh);

static void op_match(struct bench *b, const struct talk *t, page_key *fresh)
{
	index_match(b->ix, &sp, t->pages, b->n, &b->m);
}

static void op_miss(struct bench *b, const struct talk *t, page_key *fresh)
{
	index_match(b->ix, &sp, fresh, b->n, &b->m);
}

/* What a request does when all its pages are known. */
static void op_known(struct bench *b, const struct talk *t, page_key *fresh)
{
	index_claim c;

	index_match(b->ix, &sp, t->pages, b->n, &b->m);
	c = index_commit(b->ix, &sp, t->pages, b->n, &b->m, t->server, 0);
	index_confirm(b->ix, c, 0);
}

/* A new prompt under no known page, and out again: all its pages are copied, and freed. */
static void op_new(struct bench *b, const struct talk *t, page_key *fresh)
{
	index_claim c;

	fresh[0]++;
	index_match(b->ix, &sp, fresh, b->n, &b->m);
	c = index_commit(b->ix, &sp, fresh, b->n, &b->m, t->server, 0);
	index_cancel(b->ix, c);
}

/* A prompt that parts in the middle of an edge: a split, a leaf, and back again. */
static void op_part(struct bench *b, const struct talk *t, page_key *fresh)
{
	page_key kept = t->pages[b->n / 8 * 7];
	index_claim c;

	t->pages[b->n / 8 * 7] = 1;
	index_match(b->ix, &sp, t->pages, b->n, &b->m);
	c = index_commit(b->ix, &sp, t->pages, b->n, &b->m, t->server, 0);
	index_cancel(b->ix, c);
	t->pages[b->n / 8 * 7] = kept;
}

static double fastest(struct bench *b, operation *op, page_key *fresh)
{
	double start, took, best = 1e18;
	uint32_t i, pass;

	for (pass = 0; pass < PASSES; pass++) {
		start = now_ns();
		for (i = 0; i < TALKS; i++)
			op(b, &b->talks[i], fresh);
		took = (now_ns() - start) / TALKS;
		best = took < best ? took : best;
	}
	return best;
}

static void run(uint32_t n)
{
	struct index_opts o;
	struct bench b = { .n = n };
	page_key *fresh = must(calloc(n, sizeof(*fresh)));
	struct index_stats empty, st;
	size_t heap, i;

	index_defaults(&o);
	b.ix = must(index_new(&o));
	if (index_match_init(&b.m) < 0)
		must(NULL);
	fresh[0] = 2;
	make_talks(&b);
	index_stats(b.ix, &empty);
	heap = mallinfo2().uordblks;
	fill(&b);
	index_stats(b.ix, &st);
	heap = mallinfo2().uordblks - heap;

	printf("bench index_match pages=%u hit_ns=%.0f miss_ns=%.0f\n", n, fastest(&b, op_match, fresh),
	       fastest(&b, op_miss, fresh));
	printf("bench index_commit pages=%u known_ns=%.0f new_ns=%.0f part_ns=%.0f\n", n,
	       fastest(&b, op_known, fresh), fastest(&b, op_new, fresh), fastest(&b, op_part, fresh));
	printf("bench index_bytes pages=%u unique_pages=%llu per_page=%.2f per_page_heap=%.2f nodes=%llu "
	       "records=%llu fixed=%llu\n", n, (unsigned long long)st.pages,
	       (double)(st.bytes - empty.bytes) / (double)st.pages, (double)heap / (double)st.pages,
	       (unsigned long long)st.nodes, (unsigned long long)st.records,
	       (unsigned long long)empty.bytes);
	for (i = 0; i < TALKS; i++)
		free(b.talks[i].pages);
	free(fresh);
	index_match_fini(&b.m);
	index_free(b.ix);
}

/* One record a commit has to go: what eviction adds when the budget is full. */
static void run_evict(void)
{
	struct index_opts o = { .max_bytes = 64u << 20, .max_pages = 65536 };
	struct index *ix = must(index_new(&o));
	struct index_stats before, after;
	page_key p[256] = { 0 };
	double start, took = 1e18, t;
	uint64_t i, pass;

	for (i = 0; i < 40000; i++) {
		p[0] = i;
		index_confirm(ix, index_commit(ix, &sp, p, 256, NULL, (server_id)(i % SERVERS), 0), 0);
	}
	index_stats(ix, &before);
	for (pass = 0; pass < PASSES; pass++) {
		start = now_ns();
		for (i = 0; i < 1000; i++) {
			p[0] = 1u << 20 | pass << 10 | i;
			index_confirm(ix, index_commit(ix, &sp, p, 256, NULL, 1, 0), 0);
		}
		t = (now_ns() - start) / 1000;
		took = t < took ? t : took;
	}
	index_stats(ix, &after);
	printf("bench index_evict pages=256 commit_evict_confirm_ns=%.0f evicted=%llu\n", took,
	       (unsigned long long)(after.evicted_records - before.evicted_records));
	index_free(ix);
}

int main(void)
{
	run(256);		/* 16 KB of text in pages of 64 bytes */
	run(2048);		/* 128 KB */
	run_evict();
	return 0;
}
