#include "agent/route/space.h"

static uint64_t fold(const struct space *s, const struct hash_key *key, uint64_t h)
{
	h = hash_mix_span(key, h, s->pool);
	h = hash_mix_span(key, h, s->tenant);
	h = hash_mix(key, h, s->headless);
	h = hash_mix_span(key, h, s->headless ? (struct span){ 0 } : s->model);
	h = hash_mix_span(key, h, s->lora);
	h = hash_mix_span(key, h, s->salt);
	return hash_mix(key, h, (uint64_t)s->mode << 32 | s->page);
}

void space_key_of(const struct space *s, const struct hash_key *key, struct space_key *out)
{
	out->h[0] = fold(s, key, 1);
	out->h[1] = fold(s, key, 2);
}
