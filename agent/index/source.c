/* source.c - the pages of a prompt: keys that are there, or bytes that are hashed only as far as it takes.
 *
 * Bytes are compared by one digest for each 2 KB where a node has it, and page by page at its ends and
 * where a digest differs: XXH3 is twice as fast on 2 KB as on 64 bytes. A digest of 0 is not known (two
 * nodes were joined within its chunk), so its pages are looked at. */
#include "agent/index/internal.h"

static uint32_t chunk_of(uint32_t page_bytes)
{
	return page_bytes < CHUNK_BYTES ? CHUNK_BYTES / page_bytes : 1;
}

void source_of_keys(struct source *s, const struct index *ix, const page_key *keys, size_t n)
{
	*s = (struct source){
		.ops = ix->ops, .keys = keys,
		.n = n < ix->opts.max_pages ? (uint32_t)n : ix->opts.max_pages,
	};
}

void source_of_kept(struct source *s, const struct index *ix, const page_key *keys, const uint64_t *digests,
		    uint32_t chunk, size_t n)
{
	source_of_keys(s, ix, keys, n);
	s->chunk = chunk;
	s->digests = digests;
}

void source_of_bytes(struct source *s, const struct index *ix, const uint8_t *bytes,
		     uint32_t page_bytes, size_t n)
{
	*s = (struct source){
		.ops = ix->ops, .key = &ix->key, .bytes = bytes, .page_bytes = page_bytes,
		.chunk = chunk_of(page_bytes),
		.n = n < ix->opts.max_pages ? (uint32_t)n : ix->opts.max_pages,
	};
}

static const uint8_t *page(const struct source *s, uint32_t i)
{
	return s->bytes + (size_t)i * s->page_bytes;
}

page_key source_key(const struct source *s, uint32_t i)
{
	return s->keys ? s->keys[i] : s->ops->key(s->key, page(s, i), s->page_bytes);
}

static uint32_t same_pages(const struct source *s, const struct node *nd, uint32_t from, uint32_t to)
{
	return (uint32_t)s->ops->same(s->key, page(s, from), s->page_bytes,
				      node_pages(nd) + (from - nd->start), to - from);
}

/* Whole chunks that are the same, of those on <nd> from page <at> (the first of one) to <end>. */
static uint32_t same_chunks(const struct source *s, const struct node *nd, uint32_t at, uint32_t end)
{
	uint32_t first = at / s->chunk, n = end / s->chunk;

	if (n <= first)
		return 0;
	return (uint32_t)s->ops->same_digests(s->key, page(s, at), (size_t)s->chunk * s->page_bytes,
					      node_digests(nd) + (first - chunk_first(nd->start, s->chunk)),
					      n - first);
}

uint32_t source_same(const struct source *s, const struct node *nd, uint32_t from, uint32_t known)
{
	uint32_t end = s->n < node_end(nd) ? s->n : node_end(nd), pos = from, to, same;

	if (from >= end)
		return 0;
	if (s->keys != NULL)
		return (uint32_t)s->ops->same_keys(s->keys + from, node_pages(nd) + (from - nd->start),
						   end - from);
	if (pos % s->chunk != 0 || end - pos < s->chunk)
		pos += known;
	while (pos < end) {
		if (pos % s->chunk == 0 && end - pos >= s->chunk)
			pos += same_chunks(s, nd, pos, end) * s->chunk;
		to = pos - pos % s->chunk + s->chunk;
		to = to < end ? to : end;
		same = pos < to ? same_pages(s, nd, pos, to) : 0;
		pos += same;
		if (pos < to)
			break;
	}
	return pos - from;
}

void source_keys(const struct source *s, uint32_t from, uint32_t to, page_key *out)
{
	if (s->keys != NULL)
		memcpy(out, s->keys + from, (to - from) * sizeof(*out));
	else
		s->ops->keys(s->key, page(s, from), s->page_bytes, to - from, out);
}

void source_digests(const struct source *s, uint32_t first, uint32_t end, uint64_t *out)
{
	if (end <= first)
		return;
	if (s->digests != NULL)
		memcpy(out, s->digests + first, (end - first) * sizeof(*out));
	else if (s->chunk != 0)
		s->ops->digests(s->key, page(s, first * s->chunk), (size_t)s->chunk * s->page_bytes,
				end - first, out);
}
