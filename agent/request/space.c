/* space.c - two keyed hashes over all parts of a space, and numbers of tenants. */
#include <stdlib.h>

#include "agent/request/space.h"

static uint64_t space_fold(const struct space *s, const struct hash_key *key, uint64_t h)
{
	h = hash_mix_span(key, h, s->pool);
	h = hash_mix_span(key, h, s->tenant);
	h = hash_mix(key, h, s->headless);
	h = hash_mix_span(key, h, s->headless ? (struct span){ 0 } : s->model);
	h = hash_mix_span(key, h, s->lora);
	h = hash_mix_span(key, h, s->salt);
	h = hash_mix(key, h, (uint64_t)s->mode << 32 | s->page);
	return s->tokenizer != 0 ? hash_mix(key, h, s->tokenizer) : h;
}

void space_key_of(const struct space *s, const struct hash_key *key, struct space_key *out)
{
	out->h[0] = space_fold(s, key, 1);
	out->h[1] = space_fold(s, key, 2);
	out->tenant = s->tenant_number;
}

uint64_t space_cache_of(const struct hash_key *key, struct span lora, struct span salt)
{
	return hash_mix_span(key, hash_mix_span(key, 31, lora), salt);
}

/* ---- numbers of tenants -------------------------------------------------------------------- */

static uint64_t tenant_key(const struct hash_key *key, struct span name)
{
	uint64_t h = hash_mix_span(key, 7, name);

	return h != 0 ? h : 1;
}

static uint32_t number_find(const struct tenant_numbers *t, uint64_t name)
{
	for (uint32_t i = 1; i <= t->n; i++)
		if (t->name[i] == name)
			return i;
	return 0;
}

uint32_t tenant_number(const struct tenant_numbers *t, const struct hash_key *key, struct span name)
{
	return t->n == 0 || name.n == 0 ? 0 : number_find(t, tenant_key(key, name));
}

uint64_t tenant_hash(const struct tenant_numbers *t, uint32_t number)
{
	return number > 0 && number < TENANTS_MAX ? t->name[number] : 0;
}

uint32_t tenant_of_hash(const struct tenant_numbers *t, uint64_t hash)
{
	return hash != 0 ? number_find(t, hash) : 0;
}

static int hash_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Return a number that was never given; else the first free one; 0 if there is none. */
static uint32_t number_free(struct tenant_numbers *t)
{
	uint32_t i;

	if (t->n + 1 < TENANTS_MAX)
		return ++t->n;
	for (i = 1; i < TENANTS_MAX && t->name[i] != 0; i++)
		;
	return i < TENANTS_MAX ? i : 0;
}

void tenant_numbers_set(
    struct tenant_numbers *t, const struct hash_key *key, const struct tenant_opts *o, size_t n)
{
	bool wanted[TENANTS_MAX] = { false };
	uint64_t fresh[TENANTS_MAX];
	size_t n_fresh = 0;
	uint32_t at;

	for (size_t i = 0; i < n && i < TENANTS_MAX; i++) {
		uint64_t name = tenant_key(key, span_str(o[i].name));

		if ((at = number_find(t, name)) == 0)
			fresh[n_fresh++] = name;
		wanted[at] = true;
	}
	for (uint32_t i = 1; i <= t->n; i++)
		if (!wanted[i])
			t->name[i] = 0;
	qsort(fresh, n_fresh, sizeof(fresh[0]), hash_order);
	for (size_t i = 0; i < n_fresh; i++)
		if (number_find(t, fresh[i]) == 0 && (at = number_free(t)) != 0)
			t->name[at] = fresh[i];
}
