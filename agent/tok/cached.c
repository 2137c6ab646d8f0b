/* cached.c - tok_encode() with the cache of segments.
 *
 * What stands between added tokens is encoded on its own where the tokenizer says that this makes no difference
 * (tok_segments()); else there is no cache. A short segment, such as the name of a role, is encoded: a look into the cache is a
 * hash, a lock and two cache misses, 100 to 200 ns, in which ten tokens are found. A long one is cut into chunks, so that a
 * text without added tokens that grows from one request to the next pays for its end only.
 *
 * Whether the cache held a chunk can be told by the time it takes; only the tenant who sent it can, as the tenant is part of
 * the key. */
#include "agent/tok/cached.h"
#include "agent/tok/chunk.h"

int cached_find(const struct cached *c, struct span text, bool first, struct segcache_key *key, struct ids *out)
{
	struct segcache_scope scope = { tok_fingerprint(c->tok), c->tenant };

	key->bytes = 0;
	if (c->cache == NULL || text.n < CACHED_LEAST)
		return 0;
	*key = segcache_key(c->cache, scope, text, first && tok_segments(c->tok).first_differs);
	return segcache_get(c->cache, key, out);
}

void cached_keep(const struct cached *c, const struct segcache_key *key, const token_id *ids, size_t n)
{
	if (key->bytes > 0)
		segcache_put(c->cache, key, ids, n);
}

int cached_chunk(const struct cached *c, struct span text, bool first, struct ids *out)
{
	struct segcache_key key;
	size_t from = out->n;
	int got = cached_find(c, text, first, &key, out);

	if (got != 0)
		return got < 0 ? -1 : 0;
	if (tok_encode_segment(c->tok, c->scratch, text, first, out) < 0)
		return -1;
	cached_keep(c, &key, out->p + from, out->n - from);
	return 0;
}

/* What stands between two added tokens. */
static int segment(const struct cached *c, unsigned places, struct span text, bool first, struct ids *out)
{
	struct chunk_search s = { 0 };
	size_t n;

	while (text.n > 0) {
		n = chunk_next(places, &s, text, true);
		if (cached_chunk(c, span_of(text.p, n), first, out) < 0)
			return -1;
		text.p += n;
		text.n -= n;
		first = false;
	}
	return 0;
}

int cached_plain(const struct cached *c, struct span text, struct ids *out)
{
	struct tok_segments s = tok_segments(c->tok);
	size_t from = out->n;

	if (c->cache == NULL || !s.independent)
		return tok_encode_segment(c->tok, c->scratch, text, true, out);
	if (segment(c, s.places, text, true, out) == 0)
		return 0;
	out->n = from;
	return -1;
}

static int append(struct ids *out, const token_id *ids, size_t n)
{
	if (n == 0)
		return 0;
	if (ids_reserve(out, n) < 0)
		return -1;
	memcpy(out->p + out->n, ids, n * sizeof(*ids));
	out->n += n;
	return 0;
}

static int segments(const struct cached *c, unsigned places, struct span text, struct ids *out)
{
	size_t at = 0, end;
	struct tok_cut cut;
	bool more;

	do {
		more = tok_next_cut(c->tok, text, at, &cut);
		end = more ? cut.at : text.n;
		if (end > at && segment(c, places, span_of(text.p + at, end - at), at == 0, out) < 0)
			return -1;
		if (more && append(out, &cut.id, 1) < 0)
			return -1;
		at = more ? cut.at + cut.n : end;
	} while (more);
	return 0;
}

int tok_cached_encode(const struct cached *c, struct span text, unsigned flags, struct ids *out)
{
	struct tok_segments s = tok_segments(c->tok);
	struct ids prefix = tok_prefix(c->tok), suffix = tok_suffix(c->tok);
	size_t from = out->n;

	if (c->cache == NULL || !s.independent)
		return tok_encode(c->tok, c->scratch, text, flags, out);
	if ((flags & TOK_SPECIAL) != 0 && append(out, prefix.p, prefix.n) < 0)
		goto fail;
	if (segments(c, s.places, text, out) < 0)
		goto fail;
	if ((flags & TOK_SPECIAL) != 0 && append(out, suffix.p, suffix.n) < 0)
		goto fail;
	return 0;
fail:
	out->n = from;
	return -1;
}
