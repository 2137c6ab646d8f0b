/* snapshot_load.c - build an index from a snapshot.
 *
 *   1  check the header, all checksums and the end    finds changed and missing bytes
 *   2  check every entry                              finds valid checksums over nonsense
 *   3  find the ends: (node, server) below which the server holds nothing
 *   4  commit the path to each end as held, the most recently used first
 *
 * Nothing changes before step 4, and step 4 cannot fail: an end without room is left out. Commits
 * build the tree, so its invariants hold whatever the snapshot says. The path to an end gives the
 * server all pages above it. The newest end comes first, so each end goes to the head of its lists,
 * and the ends that do not fit are those that would be evicted first. */
#include <stdlib.h>

#include "agent/index/place.h"
#include "agent/index/snapshot_in.h"

#define DEPTH_MAX	(1u << 22)	/* pages; longer than any prompt */
#define AGE_MAX		(1u << 30)	/* ticks: half a year; older counts as that */
#define REFUSED_MAX	4096u		/* in a row, before the rest is not tried */

struct part {			/* a space or a node */
	const uint8_t *p;
	uint32_t parent, end;	/* pages from the start to its end */
	uint32_t first_owner;	/* number of its first owner, over all nodes */
};

struct end {
	uint32_t age, part;
	uint16_t owner;
};

struct loader {
	struct index *ix;
	const struct snapshot_of *of;
	const uint8_t *p, *sections, *end;	/* all bytes; the first section; payload of the last */
	size_t n;
	struct part *parts;		/* [1 .. n_parts] */
	uint32_t n_parts, cap_parts, n_owners, depth;
	struct span names[SERVERS_MAX];
	int ids[SERVERS_MAX];		/* current numbers of the servers of the snapshot */
	uint8_t *inner;			/* a bit an owner: it is no end */
	struct end *ends;
	size_t n_ends;
	page_key *keys;			/* of the path to one end */
	uint32_t tick;
	struct snapshot_stats st;
};

/* ---- 1: checksums ---- */

int snapshot_begins(const uint8_t *p, struct err *e)
{
	if (memcmp(p, SNAPSHOT_MAGIC, 8) != 0)
		return err_set(e, "it is no snapshot, or its beginning is missing");
	if (get32(p + 8) != SNAPSHOT_VERSION)
		return err_set(e, "its format is %u, this version reads format %u", get32(p + 8),
		    SNAPSHOT_VERSION);
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

static int check_header(const struct loader *l, struct err *e)
{
	const uint8_t *p = l->p;

	if (l->n < HEADER_BYTES)
		return err_set(e, "it is no snapshot, or its beginning is missing");
	if (snapshot_begins(p, e) != 0)
		return -1;
	if (get32(p + 12) != l->of->text_page || get32(p + 16) != l->of->token_page)
		return err_set(e,
		    "its pages are %u bytes and %u tokens, the configured ones %u and %u",
		    get32(p + 12), get32(p + 16), l->of->text_page, l->of->token_page);
	if (get64(p + 24) != l->of->key_id)
		return err_set(e, "it was written under another key");
	return 0;
}

static int check_end(struct loader *l, const uint8_t *head, uint64_t total, struct err *e)
{
	const uint8_t *p = head + SECTION_HEAD_BYTES;

	if (get32(head + 4) != END_BYTES || get64(p + 32) != total)
		return err_set(e, "the checksum over all sections is wrong");
	if (p + END_BYTES != l->p + l->n)
		return err_set(e, "there are bytes after its end");
	l->end = p;
	return 0;
}

static int check_sections(struct loader *l, struct err *e)
{
	uint64_t total = get64(l->p + HEADER_BYTES - 8);
	size_t pos = HEADER_BYTES, n;
	const uint8_t *head;

	for (;; pos += SECTION_HEAD_BYTES + n) {
		if (l->n - pos < SECTION_HEAD_BYTES)
			return err_set(e, "it is cut short, after %zu bytes", l->n);
		head = l->p + pos;
		n = get32(head + 4);
		if (n > l->n - pos - SECTION_HEAD_BYTES)
			return err_set(e, "it is cut short, after %zu bytes", l->n);
		if (get64(head + 8) != checksum(head + SECTION_HEAD_BYTES, n))
			return err_set(e, "a checksum is wrong, after byte %zu", pos);
		if (get32(head) == SECTION_END)
			return check_end(l, head, total, e);
		total = section_total(total, head);
	}
}

/* ---- 2: entries ---- */

static int no_sense(struct err *e, const char *what)
{
	return err_set(e, "its checksums are right, but %s", what);
}

static const uint8_t *node_keys(const struct part *t)
{
	return t->p + NODE_BYTES;
}

static uint32_t part_start(const struct part *t)
{
	return t->p[0] == ENTRY_SPACE ? 0 : t->end - get16(t->p + 2);
}

static uint32_t part_owners(const struct part *t)
{
	return t->p[0] == ENTRY_SPACE ? 0 : get16(t->p + 10);
}

static const uint8_t *owner_at(const struct part *t, uint32_t i)
{
	return node_keys(t) + get16(t->p + 2) * 8u + i * OWNER_BYTES;
}

static int look_at_names(struct loader *l, const uint8_t *p, size_t n, struct err *e)
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

static int look_at_owners(struct loader *l, const struct part *t, struct err *e)
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
static int look_at_node(struct loader *l, struct part *t, size_t n, struct err *e)
{
	const struct part *up;
	uint32_t pages;
	size_t bytes;

	if (n < NODE_BYTES || t->p[1] != 0 || get16(t->p + 8) != 0)
		return no_sense(e, "a node is incomplete");
	if (get32(t->p + 12) == 0 || get32(t->p + 12) > ROOM_MAX)
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

static int look_at_tree(struct loader *l, const uint8_t *p, size_t n, struct err *e)
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

static int look_at_sections(struct loader *l, struct err *e)
{
	const uint8_t *p = l->p + HEADER_BYTES, *payload;
	size_t n;
	int rc = 0;

	for (; rc == 0 && p + SECTION_HEAD_BYTES < l->end; p = payload + n) {
		payload = p + SECTION_HEAD_BYTES;
		n = get32(p + 4);
		switch (get32(p)) {
		case SECTION_NAMES:
			rc = look_at_names(l, payload, n, e);
			break;
		case SECTION_TREE:
			rc = look_at_tree(l, payload, n, e);
			break;
		default:
			rc = no_sense(e, "a section is of an unknown kind");
		}
	}
	l->st.records = l->n_owners;
	if (rc == 0 && (l->st.spaces != get64(l->end) || l->st.nodes != get64(l->end + 8) ||
			l->st.records != get64(l->end + 16) || l->st.pages != get64(l->end + 24)))
		rc = no_sense(e, "its end counts other numbers of nodes or pages");
	return rc;
}

/* Allocate an array as large as the end says, if the bytes can hold so many entries. */
static int take_parts(struct loader *l, struct err *e)
{
	uint64_t spaces = get64(l->end), nodes = get64(l->end + 8), records = get64(l->end + 16);

	if (spaces > l->n / SPACE_BYTES || nodes > l->n / (NODE_BYTES + 8) ||
	    records > l->n / OWNER_BYTES || spaces + nodes >= UINT32_MAX || records >= UINT32_MAX)
		return no_sense(e, "its end counts more nodes than its bytes can hold");
	l->cap_parts = (uint32_t)(spaces + nodes);
	l->parts = mem_calloc((size_t)l->cap_parts + 1, sizeof(*l->parts));
	return l->parts != NULL ? 0 : err_set(e, "not enough memory to load it");
}

/* ---- 3: ends ---- */

static bool is_inner(const struct loader *l, uint32_t owner)
{
	return l->inner[owner / 8] >> (owner % 8) & 1;
}

/* Find the owner <server> of <t>. Returns false if there is none; <*at> is its place then. */
static bool find_owner(const struct part *t, uint16_t server, uint32_t *at)
{
	uint32_t low = 0, high = part_owners(t), mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (get16(owner_at(t, mid)) < server)
			low = mid + 1;
		else
			high = mid;
	}
	*at = low;
	return low < part_owners(t) && get16(owner_at(t, low)) == server;
}

static void mark_inner(struct loader *l)
{
	uint32_t k, i, j, n;
	const struct part *t, *up;

	for (k = 1; k <= l->n_parts; k++) {
		t = &l->parts[k];
		n = part_owners(t);
		up = &l->parts[t->parent];
		for (i = 0; i < n; i++)
			if (up->p[0] == ENTRY_NODE && find_owner(up, get16(owner_at(t, i)), &j))
				l->inner[(up->first_owner + j) / 8] |= (uint8_t)(1u << (up->first_owner + j) % 8);
	}
}

static void list_ends(struct loader *l)
{
	const struct part *t;
	const uint8_t *o;
	uint32_t k, i, n, age;

	for (k = 1; k <= l->n_parts; k++) {
		t = &l->parts[k];
		n = part_owners(t);
		for (i = 0; i < n; i++) {
			o = owner_at(t, i);
			if (is_inner(l, t->first_owner + i) || l->ids[get16(o)] < 0)
				continue;
			age = get32(o + 4);
			l->ends[l->n_ends++] = (struct end){ age < AGE_MAX ? age : AGE_MAX, k, (uint16_t)i };
		}
	}
}

static int newest_first(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->age != y->age)
		return (x->age > y->age) - (x->age < y->age);
	if (x->part != y->part)
		return (x->part > y->part) - (x->part < y->part);
	return (int)x->owner - (int)y->owner;
}

static void find_servers(struct loader *l, snapshot_server *server, void *arg)
{
	uint32_t i;

	for (i = 0; i < SERVERS_MAX; i++) {
		l->ids[i] = -1;
		if (l->names[i].n == 0)
			continue;
		l->ids[i] = server(arg, l->names[i]);
		if (l->ids[i] >= SERVERS_MAX)
			l->ids[i] = -1;
		l->st.servers_skipped += l->ids[i] < 0;
	}
	l->st.servers -= l->st.servers_skipped;
}

/* ---- 4: commits ---- */

static void get_words(uint64_t *to, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = get64(p + i * 8);
}

/* Collect the page keys from the start to the end of part <k>. Returns its space. */
static const struct part *gather_keys(struct loader *l, uint32_t k)
{
	const struct part *t = &l->parts[k];

	for (; t->p[0] == ENTRY_NODE; t = &l->parts[t->parent])
		get_words(l->keys + part_start(t), node_keys(t), get16(t->p + 2));
	return t;
}

static bool load_end(struct loader *l, const struct end *end)
{
	const struct part *t = &l->parts[end->part], *space;
	const uint8_t *o = owner_at(t, end->owner);
	struct index_place at;
	struct held_end h = {
		.server = (server_id)l->ids[get16(o)],
		.hits = o[8],
		.priority = o[9] < INDEX_PRIORITIES ? o[9] : INDEX_PRIORITIES - 1,
		.tick = l->tick - end->age,
	};

	space = gather_keys(l, end->part);
	h.space = (struct space_key){ .h = { get64(space->p + 8), get64(space->p + 16) },
				      .tenant = get64(l->p + 32) == l->of->tenants ? get16(space->p + 2) : 0u,
				      .page_room = get32(t->p + 12) };
	return commit_held(l->ix, l->keys, part_start(t) + get16(o + 2), &h, &at);
}

static void load_ends(struct loader *l)
{
	uint32_t refused = 0;
	size_t i;

	for (i = 0; i < l->n_ends && refused < REFUSED_MAX; i++) {
		if (load_end(l, &l->ends[i])) {
			l->st.held++;
			refused = 0;
		} else {
			refused++;
		}
	}
	l->st.left_out = l->n_ends - l->st.held;
}

/* ---- all of it ---- */

static int check_all(struct loader *l, struct err *e)
{
	if (check_header(l, e) != 0 || check_sections(l, e) != 0 || take_parts(l, e) != 0 ||
	    look_at_sections(l, e) != 0)
		return -1;
	l->inner = mem_calloc(l->n_owners / 8 + 1, 1);
	l->ends = mem_calloc((size_t)l->n_owners + 1, sizeof(*l->ends));
	l->keys = mem_calloc((size_t)l->depth + 1, sizeof(*l->keys));
	if (l->inner == NULL || l->ends == NULL || l->keys == NULL)
		return err_set(e, "not enough memory to load it");
	return 0;
}

static void loader_free(struct loader *l)
{
	mem_free(l->parts);
	mem_free(l->inner);
	mem_free(l->ends);
	mem_free(l->keys);
	mem_free(l);
}

int snapshot_load(struct index *ix, const struct snapshot_of *of, const uint8_t *bytes, size_t n,
		  snapshot_server *server, void *arg, msec now, struct snapshot_stats *s, struct err *e)
{
	struct loader *l = mem_alloc(sizeof(*l));
	int rc;

	if (l == NULL)
		return err_set(e, "not enough memory to load it");
	*l = (struct loader){ .ix = ix, .of = of, .p = bytes, .n = n, .tick = tick_of(now) };
	l->st.bytes = n;
	rc = check_all(l, e);
	if (rc == 0) {
		find_servers(l, server, arg);
		mark_inner(l);
		list_ends(l);
		qsort(l->ends, l->n_ends, sizeof(*l->ends), newest_first);
		load_ends(l);
		*s = l->st;
	}
	loader_free(l);
	return rc;
}
