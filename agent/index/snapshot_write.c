/* snapshot_write.c - write the tree as bytes while other threads change it.
 *
 * The writer walks the shards node by node. Before a node it writes the nodes above it that are not
 * written yet. It holds one lock at a time, which is enough because
 *   - while a node has its id, the pages above it are the same, however nodes split and join: its
 *     owners hold them
 *   - an object never changes its pages, place and parent, and its serial is unique in its shard:
 *     as long as the serial is the same, so is the path above
 * So the path is noted upwards with the serials and written downwards. A node counts only if its
 * serial is the same when it is written; otherwise the walk starts again. Written objects are
 * remembered by id and serial. An object that was replaced is written again if it is on the path of
 * another node; writing a prefix twice is harmless because the loader goes by pages.
 *
 * A server's id may be given to another server meanwhile. That needs a drop, and drops are
 * counted. */
#include <stdlib.h>

#include "agent/index/nodes_in.h"
#include "agent/index/snapshot_in.h"

#define SECTION_BYTES	65536u
#define WAY_MAX		64u	/* nodes noted at once; the lower part of a longer path is walked again */
#define TRIES		16u	/* of a node that keeps changing; then it is left out */

struct memo {
	uint32_t serial, number;	/* of the written object; 0: none */
};

struct step {
	node_id id, parent;
	uint32_t serial;
};

struct snapshot_writer {
	struct index *ix;
	snapshot_put *put;
	void *arg;
	uint32_t tick, numbers;
	struct nodes at;
	bool failed, done;
	struct server_set servers;	/* with a name */
	uint32_t dropped[SERVERS_MAX];
	struct memo *memo[SHARDS_MAX];
	uint32_t n_memo[SHARDS_MAX];
	struct snapshot_stats st;
	uint64_t total;
	enum section_kind kind;
	size_t n;			/* bytes of the section's payload */
	uint8_t section[SECTION_HEAD_BYTES + SECTION_BYTES];
};

_Static_assert(ENTRY_MAX <= SECTION_BYTES, "the largest node fits into a section");

/* ---- bytes ---- */

static void put_bytes(struct snapshot_writer *w, const void *p, size_t n)
{
	if (!w->failed && w->put(w->arg, p, n) != 0)
		w->failed = true;
	w->st.bytes += n;
}

uint64_t snapshot_bytes_most(size_t max_bytes)
{
	return 2 * (uint64_t)max_bytes + SERVERS_MAX * (4ull + SNAPSHOT_NAME_MAX) + SECTION_BYTES;
}

static void close_section(struct snapshot_writer *w)
{
	if (w->n == 0)
		return;
	section_put_head(w->section, w->kind, w->section + SECTION_HEAD_BYTES, w->n);
	w->total = section_total(w->total, w->section);
	put_bytes(w, w->section, SECTION_HEAD_BYTES + w->n);
	w->n = 0;
}

/* Return room for at most <n> bytes; the caller adds to <w->n> what it used. */
static uint8_t *section_room(struct snapshot_writer *w, enum section_kind kind, size_t n)
{
	if (kind != w->kind || w->n + n > SECTION_BYTES)
		close_section(w);
	w->kind = kind;
	return w->section + SECTION_HEAD_BYTES + w->n;
}

static void write_header(struct snapshot_writer *w, const struct snapshot_of *of)
{
	uint8_t h[HEADER_BYTES] = { 0 };

	memcpy(h, SNAPSHOT_MAGIC, 8);
	put32(h + 8, SNAPSHOT_VERSION);
	put32(h + 12, of->text_page);
	put32(h + 16, of->token_page);
	put32(h + 20, wall_tick(of->wall_ms));
	put64(h + 24, of->key_id);
	put64(h + 32, of->tenants);
	w->total = checksum(h, HEADER_BYTES - 8);
	put64(h + HEADER_BYTES - 8, w->total);
	put_bytes(w, h, sizeof(h));
}

static void write_end(struct snapshot_writer *w)
{
	uint8_t *p;

	close_section(w);
	p = section_room(w, SECTION_END, END_BYTES);
	put64(p, w->st.spaces);
	put64(p + 8, w->st.nodes);
	put64(p + 16, w->st.records);
	put64(p + 24, w->st.pages);
	put64(p + 32, w->total);
	w->n = END_BYTES;
	close_section(w);
}

/* ---- what was written ---- */

/* Return the memo of <id>; its shard need not be locked. NULL: no memory. */
static struct memo *memo_of(struct snapshot_writer *w, node_id id)
{
	uint32_t s = shard_of(w->ix, id), i = id >> SHARD_BITS, to;
	struct memo *m;

	if (i >= w->n_memo[s]) {
		to = i + i / 4 + 64;
		if ((m = mem_resize(w->memo[s], to, sizeof(*m))) == NULL) {
			w->failed = true;
			return NULL;
		}
		memset(m + w->n_memo[s], 0, (to - w->n_memo[s]) * sizeof(*m));
		w->memo[s] = m;
		w->n_memo[s] = to;
	}
	return &w->memo[s][i];
}

/* Return the number under which this object was written, or 0. */
static uint32_t number_of(const struct snapshot_writer *w, node_id id, uint32_t serial)
{
	uint32_t s = shard_of(w->ix, id), i = id >> SHARD_BITS;

	return i < w->n_memo[s] && w->memo[s][i].serial == serial ? w->memo[s][i].number : 0;
}

/* ---- a node ---- */

/* Return the record of the <i>-th owner if it has pages to write, or NULL. */
static const struct record *holder(
    const struct snapshot_writer *w, const struct node *nd, uint32_t i)
{
	const struct record *r;

	if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
		return NULL;
	r = at(w->ix, node_records(nd)[i]);
	return r->held > 0 && server_set_has(&w->servers, r->server) &&
	       atomic_load(&w->ix->servers[r->server].drops) == w->dropped[r->server] ? r : NULL;
}

static uint32_t held_most(const struct snapshot_writer *w, const struct node *nd)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed), most = 0;
	const struct record *r;

	for (i = 0; i < n; i++)
		if ((r = holder(w, nd, i)) != NULL && r->held > most)
			most = r->held;
	return most;
}

static size_t put_words(uint8_t *p, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put64(p + i * 8, v[i]);
	return n * 8;
}

static uint32_t put_owners(const struct snapshot_writer *w, const struct node *nd, uint8_t *p)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed), owners = 0, age;
	const struct record *r;

	for (i = 0; i < n; i++) {
		if ((r = holder(w, nd, i)) == NULL)
			continue;
		age = tick_before(r->used, w->tick) ? w->tick - r->used : 0;
		put16(p, r->server);
		put16(p + 2, r->held);
		put32(p + 4, age);
		p[8] = r->hits;
		p[9] = r->priority;
		put16(p + 10, 0);
		p += OWNER_BYTES;
		owners++;
	}
	return owners;
}

static int by_server(const void *a, const void *b)
{
	return (int)get16(a) - (int)get16(b);
}

static size_t put_space(struct snapshot_writer *w, const struct node *root, uint8_t *p)
{
	memset(p, 0, 8);
	p[0] = ENTRY_SPACE;
	put16(p + 2, root->tenant);
	w->st.spaces++;
	return 8 + put_words(p + 8, node_pages(root), 2);
}

/* Write the first <n_pages> of <nd>. <*owners>: the start of its owners. */
static size_t put_node(struct snapshot_writer *w, const struct node *nd, uint32_t n_pages,
    uint32_t parent, uint8_t *p, uint8_t **owners)
{
	size_t n = NODE_BYTES;
	uint32_t k;

	memset(p, 0, NODE_BYTES);
	p[0] = ENTRY_NODE;
	put16(p + 2, (uint16_t)n_pages);
	put32(p + 4, parent);
	put32(p + 12, nd->page_room);
	n += put_words(p + n, node_pages(nd), n_pages);
	*owners = p + n;
	k = put_owners(w, nd, *owners);
	put16(p + 10, (uint16_t)k);
	w->st.nodes++;
	w->st.pages += n_pages;
	w->st.records += k;
	return n + k * OWNER_BYTES;
}

enum wrote { WROTE_IT, WROTE_NOTHING, WROTE_CHANGED };

/* Write the object that <st> names. With <above> it is on the path of another node, so a server
 * holds all of it. Otherwise write only the held pages; children that come later find it not
 * written then. */
static enum wrote write_object(
    struct snapshot_writer *w, const struct step *st, bool above, uint32_t *number)
{
	uint8_t *p = section_room(w, SECTION_TREE, ENTRY_MAX), *owners = NULL;
	struct memo *memo = memo_of(w, st->id);
	const struct node *nd;
	uint32_t pages = 0;
	size_t n = 0;

	if (memo == NULL || w->failed)
		return WROTE_NOTHING;
	shards_lock(w->ix, shard_bit(w->ix, st->id));
	nd = node_at(w->ix, st->id);
	if (nd == NULL || nd->serial != st->serial) {
		shards_unlock(w->ix, shard_bit(w->ix, st->id));
		return WROTE_CHANGED;
	}
	if (nd->kind == NODE_ROOT)
		n = put_space(w, nd, p);
	else if ((pages = above ? nd->n_pages : held_most(w, nd)) > 0)
		n = put_node(w, nd, pages, *number, p, &owners);
	above = nd->kind == NODE_ROOT || pages == nd->n_pages;
	shards_unlock(w->ix, shard_bit(w->ix, st->id));
	if (n == 0)
		return WROTE_NOTHING;
	if (owners != NULL)
		qsort(owners, get16(p + 10), OWNER_BYTES, by_server);
	w->n += n;
	*number = ++w->numbers;
	if (above)
		*memo = (struct memo){ st->serial, *number };
	return WROTE_IT;
}

/* ---- the way ---- */

/* Returns false if the node is gone. */
static bool see_node(struct snapshot_writer *w, node_id id, struct step *st, bool *root)
{
	const struct node *nd;

	shards_lock(w->ix, shard_bit(w->ix, id));
	if ((nd = node_at(w->ix, id)) != NULL) {
		*st = (struct step){ id, nd->parent, nd->serial };
		*root = nd->kind == NODE_ROOT;
	}
	shards_unlock(w->ix, shard_bit(w->ix, id));
	return nd != NULL;
}

/* Note the path from <id> up to a written node, whose number goes to <*number>, or up to the space.
 * Returns the number of nodes, of which the highest WAY_MAX are in <way>; -1 if the path has
 * changed. */
static int note_way(struct snapshot_writer *w, node_id id, struct step *way, uint32_t *number)
{
	struct step st;
	bool root = false;
	int n;

	*number = 0;
	for (n = 0; !root; n++) {
		if (!see_node(w, id, &st, &root))
			return -1;
		if ((*number = number_of(w, id, st.serial)) != 0)
			break;
		way[(unsigned)n % WAY_MAX] = st;
		id = st.parent;
	}
	return n;
}

/* Returns true if nothing is left to do for <id>. */
static bool write_way(struct snapshot_writer *w, node_id id)
{
	struct step way[WAY_MAX];
	uint32_t number, k;
	int n = note_way(w, id, way, &number), i;
	enum wrote is;

	for (i = n - 1, k = 0; i >= 0 && k < WAY_MAX; i--, k++) {
		is = write_object(w, &way[(unsigned)i % WAY_MAX], i > 0, &number);
		if (is != WROTE_IT)
			return is == WROTE_NOTHING;
	}
	return i < 0 && n >= 0;
}

/* A path that is too long for <way> gets shorter with each try. */
static void write_from(struct snapshot_writer *w, node_id id)
{
	uint32_t tries, before;

	for (tries = 0; tries < TRIES && !w->failed; tries++) {
		before = w->numbers;
		if (write_way(w, id))
			return;
		if (w->numbers - before == WAY_MAX)
			tries = 0;
	}
}

static bool is_to_be_written(void *arg, const struct node *nd)
{
	struct snapshot_writer *w = arg;

	return number_of(w, nd->id, nd->serial) == 0 && held_most(w, nd) > 0;
}

/* ---- all of it ---- */

struct snapshot_writer *snapshot_writer_new(
    struct index *ix, const struct snapshot_of *of, msec now, snapshot_put *put, void *arg)
{
	struct snapshot_writer *w = mem_alloc(sizeof(*w));
	uint32_t i;

	if (w == NULL)
		return NULL;
	w->ix = ix;
	w->put = put;
	w->arg = arg;
	w->tick = tick_of(now);
	for (i = 0; i < SERVERS_MAX; i++)
		w->dropped[i] = atomic_load(&ix->servers[i].drops);
	write_header(w, of);
	return w;
}

void snapshot_writer_name(struct snapshot_writer *w, server_id id, struct span name)
{
	uint8_t *p;

	if (id >= SERVERS_MAX || name.n == 0 || name.n > SNAPSHOT_NAME_MAX ||
	    server_set_has(&w->servers, id))
		return;
	p = section_room(w, SECTION_NAMES, 4 + name.n);
	put16(p, id);
	put16(p + 2, (uint16_t)name.n);
	memcpy(p + 4, name.p, name.n);
	w->n += 4 + name.n;
	w->st.servers++;
	server_set_add(&w->servers, id);
}

int snapshot_write(struct snapshot_writer *w, uint32_t nodes)
{
	node_id id;

	for (; nodes > 0 && !w->failed && !nodes_end(w->ix, &w->at); nodes--)
		if ((id = nodes_next(w->ix, &w->at, is_to_be_written, w)) != 0)
			write_from(w, id);
	if (!w->failed && !w->done && nodes_end(w->ix, &w->at)) {
		write_end(w);
		w->done = true;
	}
	return w->failed ? -1 : w->done;
}

void snapshot_writer_stats(const struct snapshot_writer *w, struct snapshot_stats *s)
{
	*s = w->st;
}

void snapshot_writer_free(struct snapshot_writer *w)
{
	uint32_t i;

	if (w == NULL)
		return;
	for (i = 0; i < SHARDS_MAX; i++)
		mem_free(w->memo[i]);
	mem_free(w);
}
