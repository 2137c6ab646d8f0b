/* snapshot_pairs.c - the pairs of a server and a prefix in a snapshot, to compare indexes whose
 * nodes are split at other places and whose servers have other numbers. A prefix is the chain of
 * hashes over its space and its pages. */
#include "agent/index/snapshot_in.h"

struct pairs {
	const uint8_t *p, *end;		/* what is left of a payload */
	struct span names[SERVERS_MAX];
	uint64_t *ends;			/* [1 ..]: the prefix at the end of each space and node */
	size_t n, cap;
	snapshot_pair *pair;
	void *arg;
};

static uint64_t chain(uint64_t h, uint64_t page)
{
	uint64_t both[2] = { h, page };

	return checksum(both, sizeof(both));
}

static const uint8_t *pairs_take(struct pairs *s, size_t n)
{
	const uint8_t *p = s->p;

	if (n > (size_t)(s->end - s->p))
		return NULL;
	s->p += n;
	return p;
}

static int pairs_names(struct pairs *s)
{
	const uint8_t *head, *name;

	while (s->p < s->end) {
		if ((head = pairs_take(s, 4)) == NULL || get16(head) >= SERVERS_MAX ||
		    (name = pairs_take(s, get16(head + 2))) == NULL)
			return -1;
		s->names[get16(head)] = span_of(name, get16(head + 2));
	}
	return 0;
}

static int pairs_end(struct pairs *s, uint64_t prefix)
{
	size_t cap = s->cap > 0 ? 2 * s->cap : 1024;
	uint64_t *more;

	if (s->n + 1 >= s->cap) {
		if ((more = mem_resize(s->ends, cap, sizeof(*more))) == NULL)
			return -1;
		s->ends = more;
		s->cap = cap;
	}
	s->ends[++s->n] = prefix;
	return 0;
}

static int pairs_node(struct pairs *s, const uint8_t *head)
{
	uint32_t pages = get16(head + 2), owners = get16(head + 10), up = get32(head + 4);
	const uint8_t *keys = pairs_take(s, (size_t)pages * 8), *o = pairs_take(s, owners * OWNER_BYTES);
	uint64_t prefix;

	if (keys == NULL || o == NULL || up == 0 || up > s->n)
		return -1;
	prefix = s->ends[up];
	for (uint32_t d = 0; d < pages; d++) {
		prefix = chain(prefix, get64(keys + d * 8));
		for (uint32_t i = 0; i < owners; i++) {
			const uint8_t *owner = o + i * OWNER_BYTES;

			if (get16(owner) < SERVERS_MAX && d < get16(owner + 2))
				s->pair(s->arg, s->names[get16(owner)], prefix);
		}
	}
	return pairs_end(s, prefix);
}

static int pairs_tree(struct pairs *s)
{
	const uint8_t *head;

	while (s->p < s->end) {
		bool space = s->p[0] == ENTRY_SPACE;

		if ((head = pairs_take(s, space ? SPACE_BYTES : NODE_BYTES)) == NULL)
			return -1;
		if ((space ? pairs_end(s, chain(get64(head + 8), get64(head + 16))) :
			     pairs_node(s, head)) < 0)
			return -1;
	}
	return 0;
}

static int pairs_sections(struct pairs *s, const uint8_t *bytes, size_t n)
{
	size_t pos = HEADER_BYTES, size;
	int bad = 0;

	for (; bad == 0 && n >= pos && n - pos >= SECTION_HEAD_BYTES; pos += SECTION_HEAD_BYTES + size) {
		size = get32(bytes + pos + 4);
		if (size > n - pos - SECTION_HEAD_BYTES)
			return -1;
		s->p = bytes + pos + SECTION_HEAD_BYTES;
		s->end = s->p + size;
		if (get32(bytes + pos) == SECTION_END)
			return 0;
		bad = get32(bytes + pos) == SECTION_NAMES ? pairs_names(s) : pairs_tree(s);
	}
	return -1;
}

int snapshot_pairs(const uint8_t *bytes, size_t n, snapshot_pair *pair, void *arg)
{
	struct pairs *s = mem_alloc(sizeof(*s));
	int bad;

	if (s == NULL)
		return -1;
	s->pair = pair;
	s->arg = arg;
	bad = pairs_sections(s, bytes, n);
	mem_free(s->ends);
	mem_free(s);
	return bad;
}
