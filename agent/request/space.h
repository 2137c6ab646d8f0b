/* space.h - the key of what may share cache: pool, tenant, model, adapter, salt, and how pages were
 * made. Prefixes never match across spaces. */
#ifndef KVROUTE_REQUEST_SPACE_H
#define KVROUTE_REQUEST_SPACE_H

#include "agent/base/hash.h"
#include "agent/index/index.h"
#include "agent/prompt/prompt.h"

#define TENANT_NAME_MAX	127

struct tenant_opts {
	char name[TENANT_NAME_MAX + 1];		/* exact; "*": all tenants not named, together */
	uint64_t index_floor;			/* bytes of nodes that no other tenant can evict; default 0 */
};

/* The index counts room in parts of a token, because a page of text has no whole number of them. */
#define ROOM_OF_TOKEN	16u

/* Bytes of canonical text for one token, roughly, in English and code. Pages of 64 bytes are then
 * as long as the engines' blocks of 16 tokens. */
#define TEXT_BYTES_PER_TOKEN	4

/* Numbers of the tenants that the options name, from 1. All other tenants have 0. A tenant keeps
 * its number as long as the options name it. Agents with the same key that start with the same
 * tenants give the same numbers, in whatever order they are named; after reloads they may differ.
 * Numbers may be read while they change. */
struct tenant_numbers {
	_Atomic uint64_t name[TENANTS_MAX];	/* keyed hash; 0: free */
	_Atomic uint32_t n;			/* the highest number ever given */
};

/* Give numbers to the <n> tenants that are named now; <n> is at most TENANTS_MAX - 1. */
void tenant_numbers_set(
    struct tenant_numbers *t, const struct hash_key *key, const struct tenant_opts *o, size_t n);
uint32_t tenant_number(
    const struct tenant_numbers *t, const struct hash_key *key, struct span name);

/* The hash is the same for all agents of a fleet; 0: a tenant without a number. */
uint64_t tenant_hash(const struct tenant_numbers *t, uint32_t number);
uint32_t tenant_of_hash(const struct tenant_numbers *t, uint64_t hash);

struct space {
	struct span pool, tenant, model, lora, salt;
	uint32_t tenant_number;
	bool headless;			/* the model is unknown, so <model> does not count */
	enum prompt_mode mode;
	uint32_t page;
	uint64_t tokenizer;		/* fingerprint; 0: pages were made without one */
};

/* Set the hashes and the tenant of <out>; not its rooms. */
void space_key_of(const struct space *s, const struct hash_key *key, struct space_key *out);

/* Hash what separates equal tokens in an engine's own cache: adapter and salt. The engine knows
 * neither pool nor tenant. */
uint64_t space_cache_of(const struct hash_key *key, struct span lora, struct span salt);

#endif
