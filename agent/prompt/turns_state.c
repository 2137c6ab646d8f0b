/* turns_state.c - a head for each chunk and kind has the tips after it; the key of a tip has the
 * data. */
#include "agent/prompt/body_turns_in.h"
#include "agent/prompt/turns_state.h"

#define CHUNKS_BACK	32u	/* where a state is looked for */

enum { STATE = 0x53544154 };

static struct hash128 head_key(const struct turns *t, struct hash128 chunk, uint64_t what)
{
	uint64_t word[4] = { STATE, what, chunk.lo, chunk.hi };

	return hash128(turns_key(t), word, sizeof(word));
}

/* Return the number of keys of chunks that need not be computed: of a body in slices, all. */
static size_t known_keys(const struct trail *tr, const struct hash128 **keys)
{
	*keys = tr->walk.keys.n > 0 ? tr->walk.keys.p : tr->keys.p;
	return tr->walk.keys.n > 0 ? tr->walk.keys.n : tr->keys.n;
}

bool turns_state_find(const struct body *b, struct turns *t, uint64_t what, struct span raw,
    struct turns_state *out)
{
	const struct trail *tr = &b->trail;
	const struct hash128 *keys;
	size_t len, n = known_keys(tr, &keys);

	if (t == NULL)
		return false;
	for (size_t i = 0; i < n && (i <= CHUNKS_BACK || n - 1 - i >= out->near); i++) {
		size_t k = n - 1 - i, from = grid_at(tr->chunk, k);
		struct hash128 head = head_key(t, keys[k], what);

		if (from <= raw.n && turns_get(t, head, &out->copy) &&
		    (len = turns_find_tip(t, head, out->copy.tails, span_of(raw.p + from, raw.n - from),
			 &out->copy, &out->key)) > 0) {
			out->at = from + len;
			return true;
		}
	}
	return false;
}

uint64_t turns_state_border(const struct body *b)
{
	const struct trail *tr = &b->trail;

	return tr->marks.n > 0 ? tr->marks.p[tr->marks.n - 1].at : 0;
}

/* Return the key of the chunk before byte <at>, which is known or follows those that are. */
static struct hash128 chunk_key(
    const struct trail *tr, const struct turns *t, struct span raw, size_t chunk)
{
	const struct hash128 *keys;
	size_t k = known_keys(tr, &keys) - 1;
	struct hash128 key;

	if (chunk <= k)
		return keys[chunk];
	key = keys[k];
	for (; k < chunk; k++)
		key = trail_chunk_key(tr, t, key, raw.p + grid_at(tr->chunk, k), k);
	return key;
}

uint64_t turns_state_hole(const struct body *b, const struct turns *t, struct span raw)
{
	const struct hole *x = &b->trail.hole;

	return t != NULL && x->n > 0 && x->from + x->n <= raw.n
	    ? hash64(turns_key(t), raw.p + x->from, x->n) : 0;
}

bool turns_state_put(const struct body *b, struct turns *t, uint64_t what, struct span raw,
    size_t at, const void *data, size_t n, struct hash128 *key)
{
	const struct trail *tr = &b->trail;
	struct hash128 head;
	size_t k, from, len;

	if (t == NULL || tr->keys.n == 0 || at == 0 || at > raw.n)
		return false;
	k = grid_before(tr->chunk, at);
	from = grid_at(tr->chunk, k);
	len = at - from;
	head = head_key(t, chunk_key(tr, t, raw, k), what);
	*key = turns_next_key(t, head, raw.p + from, len);
	turns_put(t, tr->tenant, head, NULL, 0);
	turns_put_tip(t, tr->tenant, head, turns_tail_of(t, raw.p + from, len), *key, data, n);
	return true;
}

void turns_state_again(struct body *b, const struct turns *t, struct span raw)
{
	struct trail *tr = &b->trail;

	for (size_t k = 1; t != NULL && k < tr->keys.n; k++) {
		if (grid_at(tr->chunk, k) > raw.n) {
			tr->keys.n = (uint32_t)k;
			return;
		}
		tr->keys.p[k] =
		    trail_chunk_key(tr, t, tr->keys.p[k - 1], raw.p + grid_at(tr->chunk, k - 1), k - 1);
	}
}
