/* snapshot_check.c - whether a snapshot is whole and makes sense, section by section.
 *
 *   checksums   of the header, of each section, over all of them: finds changed and missing bytes
 *   entries     finds valid checksums over nonsense; notes where each space and node begins */
#include "agent/index/snapshot_load_in.h"

#define DEPTH_MAX	(1u << 22)	/* pages; longer than any prompt */
#define SUMS_A_STEP	4u		/* sections of at most 64 KiB, as they are written */

/* ---- checksums ---- */

int snapshot_begins(const uint8_t *p, struct err *e)
{
	if (memcmp(p, SNAPSHOT_MAGIC, 8) != 0)
		return err_set(e, "it is no snapshot, or its beginning is missing");
	if (get32(p + 8) != SNAPSHOT_VERSION && get32(p + 8) != SNAPSHOT_VERSION_OLD)
		return err_set(e, "its format is %u, this version reads %u and %u", get32(p + 8),
		    SNAPSHOT_VERSION, SNAPSHOT_VERSION_OLD);
	if (get64(p + HEADER_BYTES - 8) != checksum(p, HEADER_BYTES - 8))
		return err_set(e, "the checksum of its header is wrong");
	return 0;
}

size_t snapshot_length(const uint8_t *bytes, size_t n)
{
	size_t pos = HEADER_BYTES, next;
	uint32_t kind;

	do {
		if (n < pos || n - pos < SECTION_HEAD_BYTES)
			return 0;
		kind = get32(bytes + pos);
		next = get32(bytes + pos + 4);
		if (next > n - pos - SECTION_HEAD_BYTES)
			return 0;
		pos += SECTION_HEAD_BYTES + next;
	} while (kind != SECTION_END);
	return pos;
}

static int check_header(const struct snapshot_loader *l, struct err *e)
{
	const uint8_t *p = l->p;

	if (l->n < HEADER_BYTES)
		return err_set(e, "it is no snapshot, or its beginning is missing");
	if (snapshot_begins(p, e) != 0)
		return -1;
	if (get32(p + 12) != l->of.text_page || get32(p + 16) != l->of.token_page)
		return err_set(e,
		    "its pages are %u bytes and %u tokens, the configured ones %u and %u",
		    get32(p + 12), get32(p + 16), l->of.text_page, l->of.token_page);
	if (get64(p + 24) != l->of.key_id)
		return err_set(e, "it was written under another key");
	return 0;
}

static int check_end(struct snapshot_loader *l, const uint8_t *head, uint64_t total, struct err *e)
{
	const uint8_t *p = head + SECTION_HEAD_BYTES;

	if (get32(head + 4) != END_BYTES || get64(p + 32) != total)
		return err_set(e, "the checksum over all sections is wrong");
	if (p + END_BYTES != l->p + l->n)
		return err_set(e, "there are bytes after its end");
	l->end = p;
	return 0;
}

/* Check the next section. Returns 1 after the last one. */
static int check_section(struct snapshot_loader *l, struct err *e)
{
	const uint8_t *head = l->p + l->at;
	size_t n;

	if (l->n - l->at < SECTION_HEAD_BYTES)
		return err_set(e, "it is cut short, after %zu bytes", l->n);
	n = get32(head + 4);
	if (n > l->n - l->at - SECTION_HEAD_BYTES)
		return err_set(e, "it is cut short, after %zu bytes", l->n);
	if (get64(head + 8) != checksum(head + SECTION_HEAD_BYTES, n))
		return err_set(e, "a checksum is wrong, after byte %zu", l->at);
	if (get32(head) == SECTION_END)
		return check_end(l, head, l->total, e) == 0 ? 1 : -1;
	l->total = section_total(l->total, head);
	l->at += SECTION_HEAD_BYTES + n;
	return 0;
}

/* ---- entries ---- */

static int no_sense(struct err *e, const char *what)
{
	return err_set(e, "its checksums are right, but %s", what);
}

static int look_at_names(struct snapshot_loader *l, const uint8_t *p, size_t n, struct err *e)
{
	uint16_t id, bytes;

	for (; n > 0; p += 4 + bytes, n -= 4u + bytes) {
		if (n < 4 || (bytes = get16(p + 2)) > n - 4 || bytes == 0 || bytes > SNAPSHOT_NAME_MAX)
			return no_sense(e, "a name is incomplete");
		if ((id = get16(p)) >= SERVERS_MAX || l->names[id].n > 0)
			return no_sense(e, "a server's number is out of range or used twice");
		l->names[id] = span_of(p + 4, bytes);
		l->st.servers++;
	}
	return 0;
}

static int look_at_space(const struct part *t, size_t n, struct err *e)
{
	if (n < SPACE_BYTES || t->p[1] != 0 || get32(t->p + 4) != 0)
		return no_sense(e, "a space is incomplete");
	if (get16(t->p + 2) >= TENANTS_MAX)
		return no_sense(e, "the tenant of a space is out of range");
	return 0;
}

static int look_at_owners(struct snapshot_loader *l, const struct part *t, struct err *e)
{
	uint32_t i, n = part_owners(t), pages = get16(t->p + 2);
	const uint8_t *o;
	int before = -1;

	for (i = 0; i < n; i++) {
		o = owner_at(t, i);
		if (get16(o) >= SERVERS_MAX || (int)get16(o) <= before || l->names[get16(o)].n == 0)
			return no_sense(e, "an owner is not among its servers");
		if (get16(o + 2) == 0 || get16(o + 2) > pages || get16(o + 10) != 0)
			return no_sense(e, "an owner holds more pages than its node has");
		before = get16(o);
	}
	return 0;
}

/* Check a node of which <n> bytes are left. */
static int look_at_node(struct snapshot_loader *l, struct part *t, size_t n, struct err *e)
{
	const struct part *up;
	uint32_t pages;
	size_t bytes;

	if (n < NODE_BYTES || t->p[1] != 0 || get16(t->p + 8) != 0)
		return no_sense(e, "a node is incomplete");
	if (node_room(l, t) == 0 || node_room(l, t) > ROOM_MAX)
		return no_sense(e, "the room of a node's pages is out of range");
	t->parent = get32(t->p + 4);
	if (t->parent == 0 || t->parent > l->n_parts)
		return no_sense(e, "a node has no parent");
	up = &l->parts[t->parent];
	pages = get16(t->p + 2);
	if (pages == 0 || pages > EDGE_MAX || up->end > DEPTH_MAX - pages)
		return no_sense(e, "a node has no page or too many");
	t->end = up->end + pages;
	bytes = NODE_BYTES + (size_t)pages * 8 + (size_t)part_owners(t) * OWNER_BYTES;
	if (part_owners(t) > SERVERS_MAX || bytes > n)
		return no_sense(e, "a node is incomplete");
	return look_at_owners(l, t, e);
}

static size_t part_bytes(const struct part *t)
{
	if (t->p[0] == ENTRY_SPACE)
		return SPACE_BYTES;
	return (size_t)(owner_at(t, part_owners(t)) - t->p);
}

static int look_at_tree(struct snapshot_loader *l, const uint8_t *p, size_t n, struct err *e)
{
	struct part *t;
	size_t bytes;

	for (; n > 0; p += bytes, n -= bytes) {
		if (l->n_parts == l->cap_parts)
			return no_sense(e, "it has more nodes than its end counts");
		t = &l->parts[l->n_parts + 1];
		*t = (struct part){ .p = p, .first_owner = l->n_owners };
		if (p[0] != ENTRY_SPACE && p[0] != ENTRY_NODE)
			return no_sense(e, "an entry is neither a space nor a node");
		if ((p[0] == ENTRY_SPACE ? look_at_space(t, n, e) : look_at_node(l, t, n, e)) != 0)
			return -1;
		l->n_parts++;
		l->n_owners += part_owners(t);
		l->depth = t->end > l->depth ? t->end : l->depth;
		if (p[0] == ENTRY_SPACE) {
			l->st.spaces++;
		} else {
			l->st.nodes++;
			l->st.pages += get16(p + 2);
		}
		bytes = part_bytes(t);
	}
	return 0;
}

static int look_at_section(struct snapshot_loader *l, struct err *e)
{
	const uint8_t *p = l->p + l->at, *payload = p + SECTION_HEAD_BYTES;
	size_t n = get32(p + 4);

	l->at += SECTION_HEAD_BYTES + n;
	switch (get32(p)) {
	case SECTION_NAMES:
		return look_at_names(l, payload, n, e);
	case SECTION_TREE:
		return look_at_tree(l, payload, n, e);
	default:
		return no_sense(e, "a section is of an unknown kind");
	}
}

static int look_at_counts(struct snapshot_loader *l, struct err *e)
{
	l->st.records = l->n_owners;
	if (l->st.spaces != get64(l->end) || l->st.nodes != get64(l->end + 8) ||
	    l->st.records != get64(l->end + 16) || l->st.pages != get64(l->end + 24))
		return no_sense(e, "its end counts other numbers of nodes or pages");
	return 0;
}

/* Allocate an array as large as the end says, if the bytes can hold so many entries. */
static int take_parts(struct snapshot_loader *l, struct err *e)
{
	uint64_t spaces = get64(l->end), nodes = get64(l->end + 8), records = get64(l->end + 16);

	if (spaces > l->n / SPACE_BYTES || nodes > l->n / (NODE_BYTES + 8) ||
	    records > l->n / OWNER_BYTES || spaces + nodes >= UINT32_MAX || records >= UINT32_MAX)
		return no_sense(e, "its end counts more nodes than its bytes can hold");
	l->cap_parts = (uint32_t)(spaces + nodes);
	l->parts = mem_calloc((size_t)l->cap_parts + 1, sizeof(*l->parts));
	return l->parts != NULL ? 0 : err_set(e, "not enough memory to load it");
}

/* ---- both ---- */

static int sum_some(struct snapshot_loader *l, struct err *e)
{
	int rc = 0;

	if (l->at == 0) {
		if (check_header(l, e) != 0)
			return -1;
		l->total = get64(l->p + HEADER_BYTES - 8);
		l->at = HEADER_BYTES;
	}
	for (unsigned i = 0; rc == 0 && i < SUMS_A_STEP; i++)
		rc = check_section(l, e);
	if (rc <= 0)
		return rc;
	l->phase = LOAD_ENTRIES;
	l->at = HEADER_BYTES;
	return take_parts(l, e);
}

int snapshot_check(struct snapshot_loader *l, struct err *e)
{
	if (l->phase == LOAD_SUMS)
		return sum_some(l, e);
	if (l->p + l->at + SECTION_HEAD_BYTES < l->end)
		return look_at_section(l, e);
	return look_at_counts(l, e) == 0 ? 1 : -1;
}
