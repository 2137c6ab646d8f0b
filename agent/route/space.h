/* space.h - what may share cache, as one key: pool, tenant, model, adapter, salt, and how the pages
 * were made. Prefixes never match across spaces. */
#ifndef KVROUTE_ROUTE_SPACE_H
#define KVROUTE_ROUTE_SPACE_H

#include "agent/base/hash.h"
#include "agent/index/index.h"
#include "agent/prompt/prompt.h"

struct space {
	struct span pool, tenant, model, lora, salt;
	bool headless;			/* the model is not known: <model> does not count */
	enum prompt_mode mode;
	uint32_t page;
};

void space_key_of(const struct space *s, const struct hash_key *key, struct space_key *out);

#endif
