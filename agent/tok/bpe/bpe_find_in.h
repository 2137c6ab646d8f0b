/* bpe_find_in.h - find tokens by bytes: the one that a piece is, and the longest that a text starts
 * with. A header, because all of it is the callers' inner loop.
 *
 * A trie answers the second with one load per byte, each waiting for the one before. Here tables by
 * the first three and six bytes tell which lengths exist, and each length is one lookup in a hash
 * table, independent of the others. Most are answered by the tags alone, about an eighth of a
 * megabyte that stays in a near cache. Tokens above 12 bytes, one in ten, are found in the list of
 * those that share the first 12 (bpe_find.c). The result has the length, so that the caller need
 * not wait for the token's struct sym. */
#ifndef KVROUTE_TOK_BPE_BPE_FIND_IN_H
#define KVROUTE_TOK_BPE_BPE_FIND_IN_H

#include "agent/tok/bpe/bpe_wide_in.h"

#define LOW_BITS	0x0101010101010101u

/* A slot's value: value | length << 24 | SLOT_ALONE; 0: empty. */
#define SLOT_ALONE	(1u << 28)

/* Load up to 12 bytes at <p> as a key. <room>: readable bytes. */
static inline struct slot key_load(const uint8_t *p, size_t room)
{
	uint8_t copy[16] = { 0 };
	struct slot k;

	if (__builtin_expect(room >= sizeof(k), 1)) {
		memcpy(&k, p, sizeof(k));
		return k;
	}
	memcpy(copy, p, room);
	memcpy(&k, copy, sizeof(k));
	return k;
}

/* Keep the first <len> bytes, 1 .. 13 (of which 12 count), and the length. */
static inline struct slot key_cut(struct slot k, uint32_t len)
{
	k.lo &= byte_masks[len];
	k.hi = (k.hi & byte_masks[16 + len] & 0xffffffffu) | (uint64_t)len << 56;
	return k;
}

static inline uint64_t key_hash(struct slot k)
{
	uint64_t h = (k.lo ^ k.hi * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;

	return h ^ h >> 32;
}

static inline uint32_t key_bucket(const struct bpe *b, uint64_t h)
{
	return (uint32_t)((h >> 32) * b->head->n_buckets >> 32);
}

static inline uint64_t key_tag(uint64_t h)
{
	return (h & 0x7f) | 0x80;
}

/* Return the high bits of the bytes of <tags> that equal <tag>; perhaps extra ones after a match.
 */
static inline uint64_t tags_like(uint64_t tags, uint64_t tag)
{
	uint64_t x = tags ^ tag * LOW_BITS;

	return (x - LOW_BITS) & ~x & TAGS_FULL;
}

/* Return the slot of a key from key_cut(), or NULL. */
static inline const struct slot *slot_at(const struct bpe *b, struct slot k)
{
	uint64_t h = key_hash(k), like;
	uint32_t at = key_bucket(b, h);

	for (;;) {
		uint64_t tags = b->tags[at];

		for (like = tags_like(tags, key_tag(h)); like; like &= like - 1) {
			const struct slot *s = &b->slots[(size_t)at * BUCKET + ((uint32_t)__builtin_ctzll(like) >> 3)];

			if (s->lo == k.lo && ((s->hi ^ k.hi) & 0x0f000000ffffffffu) == 0)
				return s;
		}
		if ((tags & TAGS_FULL) != TAGS_FULL)
			return NULL;
		at = at + 1 < b->head->n_buckets ? at + 1 : 0;
	}
}

static inline uint32_t slot_find(const struct bpe *b, struct slot key, uint32_t len)
{
	const struct slot *s = slot_at(b, key_cut(key, len));

	return s ? (uint32_t)(s->hi >> 32) : 0;
}

/* ---- the longest ----------------------------------------------------------------------------- */

/* bpe_find.c: the longest of the list at <group>. */
struct found longest_of_group(const struct bpe *b, uint32_t group, const uint8_t *p, size_t n);

static inline uint32_t lens_place(uint64_t lo)
{
	return (uint32_t)((lo & 0xffffff) * 0x9e3779b1u) >> 16;
}

static inline uint32_t lens6_place(uint64_t lo)
{
	return (uint32_t)(((lo & 0xffffffffffff) * 0x9e3779b97f4a7c15u) >> (64 - LENS6_BITS));
}

/* Return the lengths up to <n> that a token with these first bytes may have, 2 or more, as bits. No
 * jump depends on <n>, which varies: bytes after <n> only change bits that it excludes. */
static inline uint32_t lens_of(const struct bpe *b, uint64_t lo, size_t n)
{
	uint32_t lens = 1u << 2 | b->lens[lens_place(lo)];

	lens &= 0x3fu | (uint32_t)b->lens6[lens6_place(lo)] << 6;
	return lens & ((2u << (n <= LEN_GROUP ? n : LEN_GROUP)) - 1);
}

/* The longest of at most 12 bytes. */
static inline struct found longest_short(const struct bpe *b, struct slot k, uint32_t lens)
{
	uint32_t value, len;

	for (lens &= (1u << LEN_GROUP) - 1; lens; lens &= ~(1u << len)) {
		len = 31 - (uint32_t)__builtin_clz(lens);
		value = slot_find(b, k, len);
		if (value & SLOT_ALONE)
			return (struct found){ value & SYM_NONE, len };
	}
	return (struct found){ b->head->one[k.lo & 0xff], 1 };
}

/* Find as longest_find(), without the tables of characters of three bytes. Not inline, because
 * nine in ten tokens of Chinese would save its registers for nothing. */
static __attribute__((noinline)) struct found longest_other(
    const struct bpe *b, const uint8_t *p, size_t n, size_t room)
{
	struct slot k = key_load(p, room);
	uint32_t lens, group;
	struct found f;

	lens = lens_of(b, k.lo, n);
	if (__builtin_expect(lens >> LEN_GROUP != 0, 0) && (group = slot_find(b, k, LEN_GROUP)) != 0) {
		f = longest_of_group(b, group & SYM_NONE, p, n);
		if (f.sym != SYM_NONE)
			return f;
	}
	return longest_short(b, k, lens);
}

/* Find the longest SYM_ALONE token, of at most <n> >= 1 bytes, that <p> starts with; sym is
 * SYM_NONE if there is none. */
static inline struct found longest_find(const struct bpe *b, const uint8_t *p, size_t n,
    size_t room)
{
	struct found f;

	return wide_find(b, p, n, room, &f) ? f : longest_other(b, p, n, room);
}

/* bpe_find.c: find the token with exactly these bytes. Returns value and flags as in a slot,
 * without the length, or 0. */
uint32_t whole_long(const struct bpe *b, struct slot key, const uint8_t *p, size_t n);

static inline uint32_t whole_find(const struct bpe *b, const uint8_t *p, size_t n, size_t room)
{
	struct slot k = key_load(p, room);

	return n <= SHORT_MOST ? slot_find(b, k, (uint32_t)n) : whole_long(b, k, p, n);
}

/* Return false if the piece is no token except perhaps a SYM_ALONE one. */
static inline bool whole_others(const struct bpe *b, const uint8_t *p, size_t n, size_t room)
{
	return n < 3 || b->lens[lens_place(key_load(p, room).lo)] & LENS_OTHERS;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Fill the tables, which must be zero. Call find_lens() when it is known which tokens are
 * SYM_ALONE, then find_prefixes(). */
uint32_t find_buckets(uint32_t n_keys);
void find_put(struct bpe *b, struct slot key, uint32_t len, uint32_t value);
void find_lens(const struct bpe *b, uint16_t *lens, uint8_t *lens6, uint32_t one[256]);
void find_prefixes(const struct bpe *b, struct sym *sym);

#endif
