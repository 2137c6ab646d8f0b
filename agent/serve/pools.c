/* pools.c - histograms by pool, in memory of one thread. */
#include "agent/base/mem.h"
#include "agent/serve/message_in.h"

const uint32_t serve_token_bounds[HISTOGRAM_BUCKETS - 1] = {
	32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288,
};

_Static_assert(SERVE_SECONDS_BUCKETS == HISTOGRAM_BUCKETS, "serve_us_bounds are used for both");

/* Find or add the histograms of pool <number>. Returns NULL if there is no memory. */
static struct serve_pool *pool_of(struct serve_pools *p, uint32_t number)
{
	struct serve_pool *one = p->of[number];

	if (one == NULL && (one = mem_alloc(sizeof(*one))) != NULL)
		__atomic_store_n(&p->of[number], one, __ATOMIC_RELEASE);
	return one;
}

void serve_pool_count(
    struct serve_pools *p, const struct route_answer *a, bool later, usec us)
{
	struct serve_pool *one;

	if (p == NULL || a->pool >= SERVE_POOLS_MAX || (one = pool_of(p, a->pool)) == NULL)
		return;
	histogram_add(&one->us, serve_us_bounds, us > 0 ? (uint64_t)us : 0, a->decision);
	if (!later && a->tokens > 0)
		histogram_add(&one->tokens, serve_token_bounds, a->tokens, a->decision);
}

void serve_pools_free(struct serve_pools *p)
{
	for (unsigned i = 0; i < SERVE_POOLS_MAX; i++)
		mem_free(p->of[i]);
}
