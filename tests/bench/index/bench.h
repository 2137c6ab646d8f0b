/* bench.h - shared by the parts of bench_index: a workload, and the keys of the current prompt. */
#ifndef TESTS_BENCH_INDEX_BENCH_H
#define TESTS_BENCH_INDEX_BENCH_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/index/measure.h"
#include "tests/bench/index/pbw1.h"
#include "tests/bench/index_door.h"

struct totals {
	uint64_t matched, owned, unique;	/* pages */
	uint64_t nodes, records, bytes, empty_bytes;
};

struct bench {
	const char *name;		/* of the workload */
	struct pbw1 w;
	uint32_t n_servers, reps;
	size_t budget;			/* bytes of the index: replay_size() finds them */
	struct hash_key key;
	struct clock_facts clock;
	uint32_t *prompt;		/* room for the longest */
	struct door_at at;
	uint32_t *matched;		/* pages, by operation */
	struct totals first;		/* of the first replay: all others must be equal */
};

static inline server_id bench_server(const struct bench *b, const struct pbw1_op *op)
{
	return (server_id)(op->key % b->n_servers);
}

static inline void bench_keys(const struct bench *b, struct door_at *at, const struct pbw1_op *op)
{
	door_keys(at, &b->key, op->tokens, op->n, b->w.page);
}

static inline double bench_ns(const struct bench *b, uint64_t t)
{
	return (double)t * b->clock.ns;
}

static inline void bench_open(struct bench *b, struct door *d, size_t budget)
{
	if (door_open(d, budget) < 0)
		measure_must(NULL);
}

/* replay.c */
void replay_fill(struct bench *b, struct door *d);	/* all operations, untimed; refills b->matched */
void replay_totals(struct bench *b, struct door *d, struct totals *t);
void replay_size(struct bench *b);
int replay_run(struct bench *b);			/* -1: replays were not equal */
int replay_check(struct bench *b);			/* against the model; -1: differs */
void replay_few(struct bench *b);			/* in named functions, for an instruction counter */

/* threads.c */
int threads_run(struct bench *b);

/* forget.c: evicting half, dropping a server */
void forget_run(struct bench *b);
void forget_drop(struct bench *b, const char *name, void (*fill)(struct bench *b, struct door *d));

/* shapes.c: needs no workload */
void shapes_run(struct bench *b);

#endif
