/* space.h - what may share cache, as one key: pool, tenant, model, adapter, salt, and how the pages
 * were made. Prefixes never match across spaces. */
#ifndef KVROUTE_ROUTE_SPACE_H
#define KVROUTE_ROUTE_SPACE_H

#include "agent/base/hash.h"
#include "agent/index/index.h"
#include "agent/prompt/prompt.h"
#include "agent/route/route.h"

/* Tenants that the options name have a number of their own, from 1, in the index; all others have 0. A
 * tenant keeps its number as long as it is named. */
struct tenant_numbers {
	uint64_t name[TENANTS_MAX];	/* keyed hash; 0: nobody */
	uint32_t n;			/* the highest that was ever given */
};

/* Takes the <n> that are named now, TENANTS_MAX - 1 at most. */
void tenant_numbers_set(struct tenant_numbers *t, const struct hash_key *key, const struct tenant_opts *o,
			size_t n);
uint32_t tenant_number(const struct tenant_numbers *t, const struct hash_key *key, struct span name);

struct space {
	struct span pool, tenant, model, lora, salt;
	uint32_t tenant_number;
	bool headless;			/* the model is not known: <model> does not count */
	enum prompt_mode mode;
	uint32_t page;
	uint64_t tokenizer;		/* its fingerprint; 0: none made the pages */
};

void space_key_of(const struct space *s, const struct hash_key *key, struct space_key *out);

#endif
