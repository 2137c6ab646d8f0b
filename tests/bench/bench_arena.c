/* bench_arena.c - the cost of a block of the arena when all of it is in the cache, and when it is
 * not: one random block is freed and one of a random size is allocated, with the sizes of nodes and
 * records in the index. The fastest of 30 passes counts, because the machine may be shared. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/rng.h"
#include "tests/lib/bench.h"
#include "agent/index/arena_in.h"

#define PASSES	30
#define PAIRS	100000u

struct plan {
	uint32_t place, bytes;
};

/* Of eight: four nodes of 64 bytes, three records of 32, an edge of 2 to 128 pages. */
static uint32_t size_of(struct rng *rng)
{
	uint32_t kind = rng_below(rng, 8);

	return kind < 4 ? 64 : kind < 7 ? 32 : 8 * (2 + rng_below(rng, 127));
}

/* Keep <live> blocks in an arena that has a third more. */
static void run(const char *name, uint32_t live)
{
	struct plan *plan = must(calloc(PAIRS, sizeof(*plan)));
	arena_ref *ref = must(calloc(live, sizeof(*ref)));
	size_t bytes = 0, lost = 0;
	double best = 1e18, took;
	struct region r;
	struct arena a;
	struct rng rng;

	rng_init(&rng, live);
	for (uint32_t i = 0; i < live; i++)
		bytes += arena_cost(size_of(&rng));
	if (region_take(&r, bytes + bytes / 3, true) != 0)
		must(NULL);
	arena_init(&a, &r, 0, r.bytes);
	for (uint32_t i = 0; i < live; i++)
		ref[i] = arena_alloc(&a, size_of(&rng));
	for (unsigned pass = 0; pass < PASSES; pass++) {
		for (uint32_t i = 0; i < PAIRS; i++)
			plan[i] = (struct plan){ rng_below(&rng, live), size_of(&rng) };
		took = now_ns();
		for (uint32_t i = 0; i < PAIRS; i++) {
			arena_free(&a, ref[plan[i].place]);
			ref[plan[i].place] = arena_alloc(&a, plan[i].bytes);
			lost += ref[plan[i].place] == 0;
		}
		took = (now_ns() - took) / PAIRS;
		best = took < best ? took : best;
	}
	printf("bench arena blocks=%u of=%s bytes=%zu alloc_free_ns=%.1f used=%.3f no_room=%zu\n",
	    live, name, r.bytes, best, (double)arena_used(&a) / (double)arena_room(&a), lost);
	region_give(&r);
	free(plan);
	free(ref);
}

int main(void)
{
	run("cache", 4096);
	run("memory", 1u << 20);
	return 0;
}
