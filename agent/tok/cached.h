/* cached.h - a text into ids, of which what was seen before is not encoded again.
 *
 *   text -> added tokens cut out -> chunks (chunk.h) -> in the cache? its ids : tok_encode_segment(), and into the cache
 *
 * The ids are those of tok_encode(), always. */
#ifndef KVROUTE_TOK_CACHED_H
#define KVROUTE_TOK_CACHED_H

#include "agent/tok/segcache.h"
#include "agent/tok/tok.h"

/* Who encodes, and for whom. Borrowed. */
struct cached {
	const struct tok *tok;
	struct tok_scratch *scratch;	/* of this thread */
	struct segcache *cache;		/* NULL: none */
	uint64_t tenant;		/* struct segcache_scope */
};

/* Shorter segments are encoded at once: that takes no longer than to look for them. */
#define CACHED_LEAST	16u

/* As tok_encode(): 0, or -1 and <out> as it was, or TOK_SPENT. */
int tok_cached_encode(const struct cached *c, struct span text, unsigned flags, struct ids *out);

/* The same, with how many bytes of <text> the ids are of: when the work of the scratch is used up, *used of them, and perhaps some more. */
int tok_cached_some(const struct cached *c, struct span text, unsigned flags, struct ids *out, size_t *used);

/* One chunk, or a segment that is none longer: looked for, else encoded and kept. <part>: what it begins. 0, -1, or TOK_SPENT
 * and perhaps ids of its beginning. */
int cached_chunk(const struct cached *c, struct span text, enum part part, struct ids *out);

/* Text that holds no added token, whatever it looks like, in chunks: 0, TOK_SPENT, or -1 and <out> as it was. */
int cached_plain(const struct cached *c, struct span text, struct ids *out);

/* The same in two halves, for those that encode it otherwise: 1 found and appended, 0 encode it and call cached_keep(), -1. */
int cached_find(const struct cached *c, struct span text, enum part part, struct segcache_key *key, struct ids *out);
void cached_keep(const struct cached *c, const struct segcache_key *key, const token_id *ids, size_t n);

#endif
