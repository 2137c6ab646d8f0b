/* bpe_cache.c - the memory of the piece caches, their owners, and long pieces. */
#include <sys/mman.h>

#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_cache_in.h"

#define HUGE_PAGE	(2u << 20)

/* In pages of 2 MB if the kernel has them: a text soon touches all small ones. */
struct piece_cache *piece_cache_new(void)
{
	void *block = mem_alloc(sizeof(struct piece_cache) + HUGE_PAGE);
	struct piece_cache *c;

	if (block == NULL)
		return NULL;
	c = (void *)(((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
	(void)madvise(c, sizeof(*c), MADV_HUGEPAGE);
	c->block = block;
	return c;
}

void piece_cache_wipe(struct piece_cache *c)
{
	void *block = c->block;

	mem_wipe(c, sizeof(*c));
	c->block = block;
}

void piece_cache_free(struct piece_cache *c)
{
	void *block;

	if (c == NULL)
		return;
	block = c->block;
	mem_wipe(c, sizeof(*c));
	mem_free(block);
}

void piece_cache_own(struct piece_cache *c, uint64_t print)
{
	uint32_t i;

	if (c->owner != 0 && c->print[c->owner] == print)
		return;
	for (i = 1; i < OWNERS; i++) {
		if (c->print[i] == print || c->print[i] == 0) {
			c->print[i] = print;
			c->owner = i;
			return;
		}
	}
	piece_cache_wipe(c);
	c->print[1] = print;
	c->owner = 1;
}

/* ---- long pieces ---- */

static uint64_t word(const uint8_t *p, uint32_t n)
{
	uint64_t w = 0;

	memcpy(&w, p, n);
	return w;
}

/* It need not be secret: pieces with equal hashes cost what pieces without a cache cost. */
static size_t long_place(const uint8_t *p, uint32_t n)
{
	uint64_t h = n;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		h = (h ^ word(p + i, 8)) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	h = (h ^ word(p + i, n - i)) * 0xc2b2ae3d27d4eb4fu;
	return (h >> 51) * LONG_WAYS;
}

_Static_assert(LONG_SETS == 1u << (64 - 51), "long_place()");

const struct cached_long *long_find(const struct piece_cache *c, const uint8_t *p, uint32_t n)
{
	const struct cached_long *e;
	uint32_t i;

	if (n > LONG_PIECE)
		return NULL;
	e = &c->many[long_place(p, n)];
	for (i = 0; i < LONG_WAYS; i++, e++)
		if (e->len == n && e->owner == c->owner && memcmp(e->bytes, p, n) == 0)
			return e;
	return NULL;
}

void long_put(
    struct piece_cache *c, const uint8_t *p, uint32_t n, const token_id *id, size_t n_ids)
{
	struct cached_long *e;

	if (n > LONG_PIECE || n_ids > LONG_IDS)
		return;
	e = &c->many[long_place(p, n)];
	e[1] = e[0];
	memset(e->bytes, 0, sizeof(e->bytes));
	memcpy(e->bytes, p, n);
	e->len = (uint8_t)n;
	e->n = (uint8_t)n_ids;
	e->owner = (uint8_t)c->owner;
	memcpy(e->id, id, n_ids * sizeof(*id));
}
