/* worker_count.c - counters of all SPOP threads, added up. */
#include "agent/base/count.h"
#include "agent/loop/worker_in.h"

/* Add two structs that hold only uint64_t, as arrays. */
static void add_up(void *sum, const void *part, size_t size)
{
	const uint64_t *from = part;
	uint64_t *to = sum;
	size_t i;

	for (i = 0; i < size / sizeof(*to); i++)
		to[i] += count_read(&from[i]);
}

_Static_assert(sizeof(struct serve_counters) % sizeof(uint64_t) == 0, "added up as an array");
_Static_assert(sizeof(struct sock_counters) % sizeof(uint64_t) == 0, "added up as an array");

void workers_count(
    const struct agent *a, struct serve_counters *serve, struct sock_counters *socks)
{
	memset(serve, 0, sizeof(*serve));
	memset(socks, 0, sizeof(*socks));
	for (unsigned i = 0; i < a->n_workers; i++) {
		add_up(serve, &a->worker[i]->count, sizeof(*serve));
		add_up(socks, &a->worker[i]->socks_count, sizeof(*socks));
	}
}
