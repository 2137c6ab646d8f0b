/* model.c - one entry for each distinct prefix of whole pages: its parent entry, the place of its
 * last page, a bit for each server. Hashes only choose where to search; equality is by tokens, so
 * the model cannot share an error with the index. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/index/measure.h"
#include "tests/bench/index/model.h"

struct entry {
	const uint32_t *tokens;
	uint32_t parent;		/* an entry; 0 is the empty prefix */
};

struct model {
	uint32_t page, n_servers, words;
	uint32_t n, mask;
	uint64_t owned;
	struct entry *entries;
	uint64_t *servers;		/* <words> for each entry */
	uint32_t *slots;
};

struct model *model_new(uint32_t page, uint32_t n_servers, uint64_t max_pages)
{
	struct model *m = measure_must(calloc(1, sizeof(*m)));
	uint64_t slots = 1024;

	while (slots < max_pages * 2)
		slots *= 2;
	m->page = page;
	m->n_servers = n_servers;
	m->words = (n_servers + 63) / 64;
	m->mask = (uint32_t)(slots - 1);
	m->n = 1;
	m->entries = measure_must(calloc(max_pages + 1, sizeof(*m->entries)));
	m->servers = measure_must(calloc(max_pages + 1, m->words * sizeof(*m->servers)));
	m->slots = measure_must(calloc(slots, sizeof(*m->slots)));
	return m;
}

void model_free(struct model *m)
{
	free(m->entries);
	free(m->servers);
	free(m->slots);
	free(m);
}

/* Return the slot of <parent>'s child by this page, or the free one for it. */
static uint32_t *find(const struct model *m, uint32_t parent, const uint32_t *tokens)
{
	uint64_t h = parent * 0x9e3779b97f4a7c15ull;
	const struct entry *e;
	uint32_t i;

	for (i = 0; i < m->page; i++)
		h = (h ^ tokens[i]) * 0x100000001b3ull;
	for (i = (uint32_t)(h ^ h >> 29) & m->mask; m->slots[i] != 0; i = (i + 1) & m->mask) {
		e = &m->entries[m->slots[i]];
		if (e->parent == parent && memcmp(e->tokens, tokens, m->page * sizeof(*tokens)) == 0)
			break;
	}
	return &m->slots[i];
}

/* Set the depth of the servers of <have> that are not in <next> (NULL: none is). */
static void settle(const struct model *m, const uint64_t *have, const uint64_t *next, uint32_t at,
		   uint32_t *depth)
{
	uint64_t gone;
	uint32_t w;

	for (w = 0; w < m->words; w++)
		for (gone = have[w] & ~(next ? next[w] : 0); gone != 0; gone &= gone - 1)
			depth[w * 64 + (uint32_t)__builtin_ctzll(gone)] = at;
}

uint32_t model_match(struct model *m, const uint32_t *tokens, size_t n_tokens, uint32_t *depth)
{
	const uint64_t *have = NULL, *next;
	uint32_t cur = 0, d = 0, child;
	size_t n = n_tokens / m->page;

	memset(depth, 0, m->words * 64 * sizeof(*depth));
	for (; d < n && (child = *find(m, cur, tokens + d * m->page)) != 0; d++, cur = child) {
		next = m->servers + (size_t)child * m->words;
		if (have != NULL)
			settle(m, have, next, d, depth);
		have = next;
	}
	if (have != NULL)
		settle(m, have, NULL, d, depth);
	return d;
}

void model_add(struct model *m, const uint32_t *tokens, size_t n_tokens, uint32_t server)
{
	size_t n = n_tokens / m->page, d;
	uint64_t *set, bit = 1ull << server % 64;
	uint32_t cur = 0, *slot;

	for (d = 0; d < n; d++, cur = *slot) {
		slot = find(m, cur, tokens + d * m->page);
		if (*slot == 0) {
			*slot = m->n++;
			m->entries[*slot] = (struct entry){ tokens + d * m->page, cur };
		}
		set = m->servers + (size_t)*slot * m->words + server / 64;
		m->owned += !(*set & bit);
		*set |= bit;
	}
}

uint64_t model_owned_pages(const struct model *m)
{
	return m->owned;
}

uint64_t model_unique_pages(const struct model *m)
{
	return m->n - 1;
}
