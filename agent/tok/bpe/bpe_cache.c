/* bpe_cache.c - the memory of the piece caches, their owners, and long pieces. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_cache_in.h"
#include "agent/tok/bpe/bpe_find_in.h"

struct piece_cache *piece_cache_new(void)
{
	struct piece_cache *c = mem_alloc_huge(sizeof(*c));

	if (c != NULL)
		piece_cache_wipe(c);	/* gets the pages, for which the first text would wait */
	return c;
}

void piece_cache_wipe(struct piece_cache *c)
{
	mem_wipe(c, sizeof(*c));
}

void piece_cache_free(struct piece_cache *c)
{
	if (c != NULL)
		piece_cache_wipe(c);
	mem_free_line(c);
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

static inline uint64_t word(const uint8_t *p, size_t n)
{
	uint64_t w = 0;

	memcpy(&w, p, n);
	return w;
}

/* It need not be secret: pieces with equal hashes cost what pieces without a cache cost. Words
 * overlap at the end; products are summed, so that none waits for another. */
static inline uint64_t long_hash(const uint8_t *p, uint32_t n)
{
	uint64_t h = n, by = 0x9e3779b97f4a7c15u;
	uint32_t i;

	if (n < 8)
		return (h ^ word(p, n) << 8) * by;
	for (i = 0; i + 8 < n; i += 8, by += 0xc2b2ae3d27d4eb4eu)
		h += word(p + i, 8) * by;
	h += word(p + n - 8, 8) * by;
	return (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
}

static inline uint32_t long_set(uint64_t h)
{
	return (uint32_t)(h >> 53);
}

_Static_assert(LONG_SETS == 1u << (64 - 53), "long_set()");

static inline bool long_same(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint64_t other;
	uint32_t i;

	if (n < 8)
		return memcmp(a, b, n) == 0;
	other = word(a + n - 8, 8) ^ word(b + n - 8, 8);
	for (i = 0; i + 8 < n; i += 8)
		other |= word(a + i, 8) ^ word(b + i, 8);
	return other == 0;
}

const struct cached_long *long_find(const struct piece_cache *c, const uint8_t *p, uint32_t n)
{
	uint64_t h, like;
	uint32_t set;

	if (n > LONG_ROOM)
		return NULL;
	h = long_hash(p, n);
	set = long_set(h);
	for (like = tags_like(c->tags[set], key_tag(h >> 32)); like; like &= like - 1) {
		const struct cached_long *e =
		    &c->many[set * LONG_WAYS + ((uint32_t)__builtin_ctzll(like) >> 3)];

		if (e->len == n && e->owner == c->owner && long_same(e->data, p, n))
			return e;
	}
	return NULL;
}

void long_put(
    struct piece_cache *c, const uint8_t *p, uint32_t n, const token_id *id, size_t n_ids)
{
	struct cached_long *e;
	uint32_t set, at;
	uint64_t h;

	if (n > LONG_ROOM || n_ids > LONG_IDS || n + n_ids * sizeof(*id) > LONG_ROOM)
		return;
	h = long_hash(p, n);
	set = long_set(h);
	at = c->turn[set]++ % LONG_WAYS;
	c->tags[set] &= ~(0xffull << 8 * at);
	c->tags[set] |= key_tag(h >> 32) << 8 * at;
	e = &c->many[set * LONG_WAYS + at];
	memcpy(e->data, p, n);
	memcpy(e->data + LONG_ROOM - n_ids * sizeof(*id), id, n_ids * sizeof(*id));
	e->len = (uint8_t)n;
	e->n = (uint8_t)n_ids;
	e->owner = (uint8_t)c->owner;
}
