/* block_match.c - the keys of a prompt's blocks, and how many of them each owner has.
 *
 * Keys are looked up in batches, so that the cache misses of a batch overlap. */
#include "agent/policy/block_tables_in.h"
#include "agent/policy/rules_in.h"

/* ---- keys ---- */

#define BY_PLACE	0x706c616365ull		/* so that a key by place never equals a key by chain */

struct block_walk walk_chain(const struct policy_prompt *p, uint32_t pages, uint32_t per)
{
	return (struct block_walk){
		.pages = p->pages, .end = pages < p->n_pages ? pages : p->n_pages,
		.per = per > 0 ? per : 1, .h = p->space,
	};
}

struct block_walk walk_places(const struct policy_prompt *p)
{
	return (struct block_walk){ .pages = p->pages, .end = p->n_pages, .h = chain(p->space, BY_PLACE) };
}

uint64_t place_key(const struct policy_prompt *p, uint32_t page)
{
	return chain(chain(p->space, BY_PLACE) + page, p->pages[page]);
}

size_t walk_next(struct block_walk *w, uint64_t *keys, size_t max)
{
	size_t n = 0;

	while (n < max && w->at < w->end) {
		if (w->per == 0) {
			keys[n++] = chain(w->h + w->at, w->pages[w->at]);
			w->at++;
			continue;
		}
		for (uint32_t i = 0; i < w->per && w->at < w->end; i++)
			w->h = chain(w->h, w->pages[w->at++]);
		keys[n++] = w->h;
	}
	return n;
}

/* ---- looking ---- */

bool blocks_held(const struct blocks *b, uint64_t key, uint16_t owner)
{
	uint32_t i = block_find(&b->t, key);

	return i != 0 && bit(block_at(&b->t, i)->owners, owner);
}

uint32_t blocks_search(const struct blocks *b, const struct policy_prompt *p, uint16_t owner)
{
	uint32_t low = 0, high = p->n_pages;

	while (low < high) {
		uint32_t mid = low + (high - low + 1) / 2;

		if (blocks_held(b, place_key(p, mid - 1), owner))
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

/* A match in progress. Neighboring blocks mostly have the same owners, so only changes are counted:
 * an owner that appears at block <at> is counted from there when it disappears. */
struct tally {
	uint64_t now[OWNERS_MAX / 64];
	uint32_t since[OWNERS_MAX];
	uint32_t *n;
};

static void tally_change(struct tally *m, unsigned w, uint64_t to, uint32_t at)
{
	uint64_t change = m->now[w] ^ to;

	for (; change != 0; change &= change - 1) {
		unsigned i = w * 64 + (unsigned)__builtin_ctzll(change);

		if (bit(m->now, i))
			m->n[i] += at - m->since[i];
		else
			m->since[i] = at;
	}
	m->now[w] = to;
}

/* Count one block for the owners in <among>. Returns false if none of them has it. */
static bool tally_block(
    const struct blocks *b, struct tally *m, uint32_t block, const uint64_t *among, uint32_t at)
{
	uint64_t any = 0;

	for (unsigned w = 0; block != 0 && w < b->t.words; w++)
		any |= block_at(&b->t, block)->owners[w] & among[w];
	for (unsigned w = 0; w < b->t.words; w++)
		tally_change(m, w, any != 0 ? block_at(&b->t, block)->owners[w] & among[w] : 0, at);
	return any != 0;
}

void blocks_match(
    const struct blocks *b, unsigned scope, struct block_walk w, bool whole, uint32_t n[OWNERS_MAX])
{
	struct tally m = { .n = n };
	uint64_t keys[BATCH];
	uint32_t found[BATCH], at = 0;
	size_t k;

	memset(n, 0, OWNERS_MAX * sizeof(*n));
	while ((k = walk_next(&w, keys, BATCH)) > 0) {
		blocks_find(&b->t, keys, k, found);
		for (size_t i = 0; i < k; i++, at++) {
			if (!tally_block(b, &m, found[i], whole && at > 0 ? m.now : b->in_scope[scope], at))
				return;
		}
	}
	for (unsigned i = 0; i < b->t.words; i++)
		tally_change(&m, i, 0, at);
}

void blocks_match_tokens(const struct blocks *b, const struct policy_prompt *p, uint32_t pages,
    uint32_t per, bool whole, uint32_t *tokens)
{
	struct block_walk w = walk_chain(p, pages, per);
	uint32_t n[OWNERS_MAX];

	blocks_match(b, 0, w, whole, n);
	for (unsigned i = 0; i < b->t.words * 64; i++) {
		uint64_t held = (uint64_t)n[i] * w.per;

		if (held > 0)
			tokens[b->owner[i].server] = (uint32_t)(held < w.end ? held : w.end) * p->page_tokens;
	}
}
