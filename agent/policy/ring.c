/* ring.c - the places of each server, sorted, one row a server.
 *
 * The published rings sort the places of all servers into one array. That is fast to search but
 * slow to change, under a lock, whenever a server comes or goes; and all servers must be known
 * beforehand. Here each server is searched by itself. Its places are evenly spread, so the place
 * after a key is found at once near key / 2^32 of the row. That costs a few microseconds for 256
 * servers instead of 0.1, and nothing is ever rebuilt. A row is filled at the first use of its
 * server, in 2 us. Places are 32 bits wide, so that more of them fit a cache line; of two servers
 * at one place the lower name is first. */
#include "agent/base/mem.h"
#include "agent/policy/rules_in.h"
#include "agent/policy/ring_in.h"

#define REPLICAS_MAX	256

struct ring {
	size_t n;		/* rows; servers with a higher id have none */
	uint64_t *names;	/* of each row; 0: free */
	uint32_t *places;	/* of each row, in order */
};

static size_t row_bytes(uint32_t replicas)
{
	return sizeof(uint64_t) + replicas * sizeof(uint32_t);
}

struct ring *ring_new(uint32_t replicas, size_t max_bytes)
{
	struct ring *r = mem_alloc(sizeof(*r));

	if (r == NULL)
		return NULL;
	r->n = (max_bytes - sizeof(*r)) / row_bytes(replicas);
	if (r->n > SERVERS_MAX)
		r->n = SERVERS_MAX;
	r->names = mem_calloc(r->n, sizeof(*r->names));
	r->places = mem_calloc(r->n, replicas * sizeof(*r->places));
	if (r->names == NULL || r->places == NULL) {
		ring_free(r);
		return NULL;
	}
	return r;
}

void ring_free(struct ring *r)
{
	if (r == NULL)
		return;
	mem_free(r->names);
	mem_free(r->places);
	mem_free(r);
}

void ring_gone(struct ring *r, server_id id)
{
	if (id < r->n)
		r->names[id] = 0;
}

/* Return the highest bits of the r-th number of a splitmix64 generator seeded by the name. */
static uint32_t place(uint64_t name, uint32_t replica)
{
	return (uint32_t)(scatter(name + (replica + 1) * 0x9e3779b97f4a7c15ull) >> 32);
}

/* Sort the places: into 256 buckets by the highest byte, then by insertion. */
static void fill(uint32_t *places, uint64_t name, uint32_t replicas)
{
	uint32_t raw[REPLICAS_MAX], i, k;
	uint16_t start[257] = { 0 };

	for (i = 0; i < replicas; i++) {
		raw[i] = place(name, i);
		start[(raw[i] >> 24) + 1]++;
	}
	for (i = 0; i < 256; i++)
		start[i + 1] = (uint16_t)(start[i + 1] + start[i]);
	for (i = 0; i < replicas; i++)
		places[start[raw[i] >> 24]++] = raw[i];
	for (i = 1; i < replicas; i++) {
		uint32_t x = places[i];

		for (k = i; k > 0 && places[k - 1] > x; k--)
			places[k] = places[k - 1];
		places[k] = x;
	}
}

/* Return the distance round the ring, modulo 2^32. */
static uint32_t ahead_in(const uint32_t *places, uint32_t n, uint32_t key)
{
	uint32_t i = (uint32_t)(((uint64_t)key * n) >> 32);

	while (i > 0 && places[i - 1] >= key)
		i--;
	while (i < n && places[i] < key)
		i++;
	return (i < n ? places[i] : places[0]) - key;
}

static uint32_t ahead_of(uint64_t name, uint32_t replicas, uint32_t key)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < replicas; i++) {
		uint32_t d = place(name, i) - key;

		if (d < least)
			least = d;
	}
	return least;
}

uint64_t ring_ahead(struct ring *r, uint32_t replicas, const struct candidate *c, uint64_t key)
{
	uint32_t at = (uint32_t)(key >> 32), far, *places;

	if (r == NULL || c->id >= r->n || c->name == 0) {
		far = ahead_of(c->name, replicas, at);
	} else {
		places = r->places + (size_t)c->id * replicas;
		if (r->names[c->id] != c->name) {
			fill(places, c->name, replicas);
			r->names[c->id] = c->name;
		}
		far = ahead_in(places, replicas, at);
	}
	return (uint64_t)far << 32 | (uint32_t)c->name;
}
