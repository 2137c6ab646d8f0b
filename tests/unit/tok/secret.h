/* secret.h - a constant key for hashes. For unit tests only. */
#ifndef TESTS_TOK_SECRET_H
#define TESTS_TOK_SECRET_H

#include "agent/base/hash.h"
#include "agent/base/rng.h"

static inline struct hash_key secret_key(void)
{
	struct hash_key k;
	struct rng r;

	rng_init(&r, 20261121);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)rng_below(&r, 256);
	return k;
}

#endif
