/* grown.c - one table; a key has two places, and a server one of them. */
#include "agent/base/mem.h"
#include "agent/route/grown_in.h"

struct grown_table {
	struct grown_place place[GROWN_PLACES];
};

struct grown_table *grown_table_new(void)
{
	return mem_alloc(sizeof(struct grown_table));
}

void grown_table_free(struct grown_table *t)
{
	mem_free(t);
}

size_t grown_table_bytes(void)
{
	return sizeof(struct grown_table);
}

/* Mix key and server; both are keyed hashes already. */
static uint64_t key_at(uint64_t key, uint64_t server)
{
	return (key ^ server * 0x9e3779b97f4a7c15u) | 1;
}

/* The two places of a key are neighbors, so that one look has them for all servers. */
static struct grown_place *place_of(struct grown_table *t, uint64_t key, uint64_t server)
{
	return &t->place[key / 2 % (GROWN_PLACES / 2) * 2 + (server >> 63)];
}

void grown_prefetch(const struct grown_table *t, uint64_t key)
{
	const struct grown_place *two;

	if (t == NULL)
		return;
	two = &t->place[key / 2 % (GROWN_PLACES / 2) * 2];
	__builtin_prefetch(two);
	__builtin_prefetch((const char *)(two + 2) - 1);
}

void grown_put(struct grown_table *t, const struct grown_end *e, uint64_t server,
    const struct grown_answer *a)
{
	uint64_t key = key_at(e->key, server);

	if (t == NULL || e->key == 0 || a->tokens == 0)
		return;
	*place_of(t, e->key, server) = (struct grown_place){
		.key = key, .tokens = e->tokens + a->tokens - 1, .tail = e->tail, .n_tail = e->n_tail,
		.told = a->told, .bytes = a->bytes, .at = a->at,
	};
}

struct grown_place *grown_find(struct grown_table *t, uint64_t key, uint64_t server)
{
	uint64_t at = key_at(key, server);
	struct grown_place *p = t != NULL && key != 0 ? place_of(t, key, server) : NULL;

	return p != NULL && p->key == at ? p : NULL;
}
