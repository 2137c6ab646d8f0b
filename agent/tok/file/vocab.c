/* vocab.c - a hash table with open addressing: 8-byte slots, load one half, doubled when full. A
 * tag avoids most reads of other entries. The hash is not keyed, because the author of the file
 * owns the model. A lookup in 200,000 entries costs 60 to 200 ns of cache misses: the slot, the
 * entry, and the content only beyond 8 bytes. */
#include "agent/tok/file/vocab.h"

#include "agent/base/hash.h"
#include "agent/base/mem.h"

#define FIRST_SLOTS	512u

static uint64_t hash_of(struct span s)
{
	return XXH3_64bits(s.p, s.n);
}

void vocab_fini(struct vocab *v)
{
	vec_free(&v->entries);
	mem_free(v->slot);
	mem_free(v->seen);
	*v = (struct vocab){ .slot = NULL };
}

static uint64_t head_of(struct span s)
{
	uint64_t h = 0;

	memcpy(&h, s.p, s.n < 8 ? s.n : 8);
	return h;
}

static bool is(const struct vocab_entry *e, struct span s, uint64_t head)
{
	return e->n == s.n && e->head == head && (s.n <= 8 || memcmp(e->p + 8, s.p + 8, s.n - 8) == 0);
}

bool vocab_is(const struct vocab *v, uint32_t index, struct span content)
{
	return index < v->entries.n && is(&v->entries.p[index], content, head_of(content));
}

static uint32_t *probe(const struct vocab *v, struct span s, uint64_t h,
    struct vocab_slot **free_slot)
{
	uint32_t tag = (uint32_t)(h >> 32) | 1;
	uint64_t head = head_of(s);

	for (uint32_t i = (uint32_t)h & v->mask; ; i = (i + 1) & v->mask) {
		struct vocab_slot *slot = &v->slot[i];
		const struct vocab_entry *e = &v->entries.p[slot->index];

		if (slot->tag == 0) {
			*free_slot = slot;
			return NULL;
		}
		if (slot->tag == tag && is(e, s, head))
			return &slot->index;
	}
}

uint32_t vocab_find(const struct vocab *v, struct span content)
{
	struct vocab_slot *none;
	uint32_t *at;

	if (v->entries.n == 0)
		return VOCAB_NONE;
	at = probe(v, content, hash_of(content), &none);
	return at != NULL ? *at : VOCAB_NONE;
}

/* Double the slots. */
static int grow(struct vocab *v)
{
	uint32_t n = v->slot != NULL ? (v->mask + 1) * 2 : FIRST_SLOTS;
	struct vocab_slot *slot = mem_calloc(n, sizeof(*slot));

	if (slot == NULL)
		return -1;
	mem_free(v->slot);
	v->slot = slot;
	v->mask = n - 1;
	for (uint32_t i = 0; i < v->entries.n; i++) {
		const struct vocab_entry *e = &v->entries.p[i];
		uint64_t h = hash_of(span_of(e->p, e->n));
		uint32_t at = (uint32_t)h & v->mask;

		while (slot[at].tag != 0)
			at = (at + 1) & v->mask;
		slot[at] = (struct vocab_slot){ (uint32_t)(h >> 32) | 1, i };
	}
	return 0;
}

int vocab_add(struct vocab *v, struct span content, token_id id)
{
	uint64_t h = hash_of(content);
	struct vocab_slot *slot;

	if (v->seen == NULL && (v->seen = mem_alloc((VOCAB_ID_MAX + 1) / 8)) == NULL)
		return -1;
	if ((v->slot == NULL || v->entries.n * 2 > v->mask) && grow(v) < 0)
		return -1;
	if (vec_reserve(&v->entries, 1) < 0)
		return -1;
	if (probe(v, content, h, &slot) != NULL)
		return 1;
	*slot = (struct vocab_slot){ (uint32_t)(h >> 32) | 1, (uint32_t)v->entries.n };
	v->entries.p[v->entries.n++] =
	    (struct vocab_entry){ head_of(content), content.p, (uint32_t)content.n, id };
	v->seen[id / 64] |= (uint64_t)1 << (id % 64);
	v->max_id = id > v->max_id ? id : v->max_id;
	return 0;
}

bool vocab_has_id(const struct vocab *v, token_id id)
{
	return v->seen != NULL && (v->seen[id / 64] >> (id % 64) & 1) != 0;
}
