/* cached.c - tok_encode() with the cache of segments.
 *
 * The text between added tokens is encoded on its own if tok_segments() allows it; otherwise there
 * is no cache. A short segment, such as the name of a role, is encoded at once, because a lookup
 * costs a hash, a lock and two cache misses, 100 to 200 ns, as much as ten tokens. A long one is
 * cut into chunks: if a text without added tokens grows between requests, only its end costs.
 *
 * The time of a request tells if the cache held a chunk. Only its own tenant can learn that,
 * because the tenant is part of the key. */
#include "agent/tok/cached.h"
#include "agent/tok/chunk.h"

/* Prices in steps of work.h: a lookup, and bytes of text per further step, to copy the ids. */
#define STEPS_FOUND	12
#define FOUND_BYTES	64
/* The same for an added token, and for the text before it, which is searched for the next one. */
#define STEPS_CUT	9
#define STEPS_LOOK	2
#define CUT_BYTES	128
#define SEARCH_BYTES	4		/* bytes of a chunk without a cut, which was searched for one */
#define BYTES_PER_ID	3		/* a guess */

/* Return PART_SEGMENT if the part makes no difference. */
static enum part part_that_counts(const struct tok *t, enum part part)
{
	struct tok_segments s = tok_segments(t);

	return (part == PART_FIRST && s.first_differs) || (part == PART_INSIDE && s.begin_differs)
	    ? part
	    : PART_SEGMENT;
}

int cached_find(const struct cached *c, struct span text, enum part part, struct segcache_key *key,
    struct ids *out)
{
	struct segcache_scope scope = { tok_fingerprint(c->tok), c->tenant };

	key->bytes = 0;
	if (c->cache == NULL || text.n < CACHED_LEAST)
		return 0;
	work_spend(tok_scratch_work(c->scratch), STEPS_FOUND + text.n / FOUND_BYTES);
	*key = segcache_key(c->cache, scope, text, part_that_counts(c->tok, part));
	return segcache_get(c->cache, key, out);
}

void cached_keep(const struct cached *c, const struct segcache_key *key, const token_id *ids,
    size_t n)
{
	if (key->bytes > 0)
		segcache_put(c->cache, key, ids, n);
}

int cached_chunk(const struct cached *c, struct span text, enum part part, struct ids *out)
{
	struct segcache_key key;
	size_t from = out->n;
	int got = cached_find(c, text, part, &key, out);

	if (got != 0)
		return got < 0 ? -1 : 0;
	if ((got = tok_encode_segment(c->tok, c->scratch, text, part, out)) != 0)
		return got;
	cached_keep(c, &key, out->p + from, out->n - from);
	return 0;
}

/* Encode the text between two added tokens. Adds the bytes of whole chunks to *used. */
static int segment(const struct cached *c, unsigned places, struct span text, enum part part,
    struct ids *out, size_t *used)
{
	struct chunk_search s = { 0 };
	size_t n;
	int rc;

	while (text.n > 0) {
		n = chunk_next(places, &s, text, true);
		work_spend(tok_scratch_work(c->scratch), n > CHUNK_MOST ? n / SEARCH_BYTES : 0);
		if ((rc = cached_chunk(c, span_of(text.p, n), part, out)) != 0)
			return rc;
		*used += n;
		text.p += n;
		text.n -= n;
		part = PART_INSIDE;
	}
	return 0;
}

int cached_plain(const struct cached *c, struct span text, struct ids *out)
{
	struct tok_segments s = tok_segments(c->tok);
	size_t from = out->n, used = 0;
	int rc;

	if (c->cache == NULL || !s.independent)
		return tok_encode_segment(c->tok, c->scratch, text, PART_FIRST, out);
	if ((rc = segment(c, s.places, text, PART_FIRST, out, &used)) < 0)
		out->n = from;
	return rc;
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

size_t tok_cached_settled(const struct cached *c, struct span text, const struct cached_place *p)
{
	return p->at > p->from ?
		       p->at - tok_cut_tail(c->tok, span_of(text.p + p->from, p->at - p->from)) : 0;
}

static int segments(const struct cached *c, unsigned places, struct span text,
    struct cached_place *place, struct ids *out, size_t *used)
{
	struct work_left *w = tok_scratch_work(c->scratch);
	size_t at = place->from, settled = tok_cached_settled(c, text, place), end;
	struct tok_cut cut;
	bool more;
	int rc;

	do {
		if (work_spent(w))
			return TOK_SPENT;
		more = tok_next_cut(c->tok, text, at, &cut);
		end = more ? cut.at : text.n;
		work_spend(w, STEPS_CUT + cut.looks * STEPS_LOOK + (end - at) / CUT_BYTES);
		*used = at;
		if (end > at &&
		    (rc = segment(c, places, span_of(text.p + at, end - at),
			 at == 0 ? PART_FIRST : PART_SEGMENT, out, used)) != 0)
			return rc;
		if (more && append(out, &cut.id, 1) < 0)
			return -1;
		at = more ? cut.at + cut.n : end;
		if (more && at <= settled) {
			place->cut = at;
			place->cut_n = cut.n;
			place->n_ids = out->n;
		}
	} while (more);
	*used = at;
	return 0;
}

/* Encode at once: without chunks, only the number of ids tells how far they go. */
static int whole(const struct cached *c, struct span text, unsigned flags, struct ids *out,
    size_t *used)
{
	size_t from = out->n, guess;
	int rc = tok_encode(c->tok, c->scratch, text, flags, out);

	guess = (out->n - from) * BYTES_PER_ID;
	*used = rc == 0 ? text.n : guess < text.n ? guess : text.n;
	return rc;
}

bool tok_cached_goes_on(const struct cached *c)
{
	return c->cache != NULL && tok_segments(c->tok).independent;
}

int tok_cached_some(const struct cached *c, struct span text, unsigned flags, struct ids *out,
    size_t *used)
{
	struct cached_place none = { .from = 0 };

	return tok_cached_on(c, text, flags, &none, out, used);
}

int tok_cached_on(const struct cached *c, struct span text, unsigned flags,
    struct cached_place *place, struct ids *out, size_t *used)
{
	struct tok_segments s = tok_segments(c->tok);
	struct ids prefix = tok_prefix(c->tok), suffix = tok_suffix(c->tok);
	size_t from = out->n;
	int rc = -1;

	*used = 0;
	if (c->cache == NULL || !s.independent)
		return whole(c, text, flags, out, used);
	place->cut = place->cut_n = place->n_ids = 0;
	if ((flags & TOK_SPECIAL) == 0 || place->from > 0 || append(out, prefix.p, prefix.n) == 0)
		rc = segments(c, s.places, text, place, out, used);
	if (rc == 0 && (flags & TOK_SPECIAL) != 0)
		rc = append(out, suffix.p, suffix.n);
	if (rc < 0)
		out->n = from;
	return rc;
}
