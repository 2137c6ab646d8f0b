/* cached.h - encode a text, except the parts that were encoded before.
 *
 *   text -> added tokens cut out -> chunks (chunk.h) -> in the cache: its ids
 *                                                       else: tok_encode_segment(), and store them
 *
 * The ids always equal those of tok_encode(). */
#ifndef KVROUTE_TOK_CACHED_H
#define KVROUTE_TOK_CACHED_H

#include "agent/tok/segcache.h"
#include "agent/tok/tok.h"

/* The encoder and its owner. Borrowed. */
struct cached {
	const struct tok *tok;
	struct tok_scratch *scratch;	/* of this thread */
	struct segcache *cache;		/* NULL: none */
	uint64_t tenant;		/* see struct segcache_scope */
};

/* Shorter segments are encoded at once, because that takes no longer than a lookup. */
#define CACHED_LEAST	16u

/* Append the ids of tok_encode() to <out> and count the bytes of <text> that they cover. Returns 0;
 * or -1 with <out> unchanged; or TOK_SPENT if the work of the scratch is used up. Then the ids
 * cover *used bytes, and <out> may have ids of a few bytes more. */
int tok_cached_some(const struct cached *c, struct span text, unsigned flags, struct ids *out,
    size_t *used);

/* A place in a text where it may go on in another way: the text after the last added token before
 * it is encoded on its own. */
struct cached_place {
	size_t from;		/* bytes of the text that only show what precedes; 0: it is the start */
	size_t at;		/* the place; 0: none is asked for */
	/* set: the end of that added token, its bytes, and the ids in <out> up to it; 0: none */
	size_t cut, cut_n, n_ids;
};

/* As tok_cached_some(). If place->from > 0, the text goes on after an added token that ends there.
 * The place is found only with a cache, and if segments are independent. */
int tok_cached_on(const struct cached *c, struct span text, unsigned flags,
    struct cached_place *place, struct ids *out, size_t *used);
bool tok_cached_goes_on(const struct cached *c);
/* Return the bytes before place->at that nothing after it can make part of an added token. */
size_t tok_cached_settled(
    const struct cached *c, struct span text, const struct cached_place *place);

/* Look up one chunk or a short segment, or encode and store it. <part>: what it begins. Returns 0,
 * -1, or TOK_SPENT with ids of its start in <out>. */
int cached_chunk(const struct cached *c, struct span text, enum part part, struct ids *out);

/* Encode text without added tokens, whatever it contains, in chunks. Returns 0, TOK_SPENT, or -1
 * with <out> unchanged. */
int cached_plain(const struct cached *c, struct span text, struct ids *out);

/* The same in two halves, for callers that encode in another way. cached_find() returns 1 if it was
 * found and appended, 0 if the caller must encode it and call cached_keep(), -1 on failure. */
int cached_find(const struct cached *c, struct span text, enum part part, struct segcache_key *key,
    struct ids *out);
void cached_keep(const struct cached *c, const struct segcache_key *key, const token_id *ids,
    size_t n);

#endif
