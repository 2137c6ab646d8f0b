/* snapshot_load.c - build an index from a snapshot.
 *
 *   1  check the header, all checksums, the end and every entry (snapshot_check.c)
 *   2  find the ends: (node, server) below which the server holds nothing
 *   3  sort them, by a heap, because that can be done in steps and needs no memory
 *   4  commit the path to each end as held, the most recently used first
 *
 * Nothing changes before step 4, and step 4 cannot fail: an end without room is left out. Commits
 * build the tree, so its invariants hold whatever the snapshot says. The path to an end gives the
 * server all pages above it. The newest end comes first, so each end goes to the head of its lists,
 * and the ends that do not fit are those that would be evicted first.
 *
 * Memory: 24 bytes a node and 12 an owner. Together with the bytes of the snapshot that is less
 * than both take in an index, see snapshot_load_bytes(). */
#include "agent/index/place.h"
#include "agent/index/snapshot_load_in.h"

#define REFUSED_MAX	4096u		/* in a row, before the rest is not tried */
/* A step takes some tens of microseconds, or a tenth of a millisecond. */
#define NAMES_A_STEP	32u	/* a part of SERVERS_MAX */
#define OWNERS_A_STEP	1024u
#define HEAPED_A_STEP	1024u
#define PAGES_A_STEP	2048u	/* of the paths to ends; a longer one is a step of its own */
#define END_AS_PAGES	256u	/* what each end costs besides */

_Static_assert(NODE_BYTES + sizeof(struct part) <= sizeof(struct node) &&
    OWNER_BYTES + sizeof(struct end) < RECORD_BYTES, "snapshot_load_bytes() counts too little");

uint64_t snapshot_load_bytes(size_t max_bytes)
{
	return max_bytes + SERVERS_MAX * (4ull + SNAPSHOT_NAME_MAX) + (64u << 10) +
	    sizeof(struct snapshot_loader);
}

/* ---- ends ---- */

static bool is_inner(const struct snapshot_loader *l, uint32_t owner)
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

/* Mark the owners above those of node <k>. */
static void mark_above(struct snapshot_loader *l, uint32_t k)
{
	const struct part *t = &l->parts[k], *up = &l->parts[t->parent];
	uint32_t n = part_owners(t), j;

	for (uint32_t i = 0; i < n; i++)
		if (up->p[0] == ENTRY_NODE && find_owner(up, get16(owner_at(t, i)), &j))
			l->inner[(up->first_owner + j) / 8] |= (uint8_t)(1u << (up->first_owner + j) % 8);
}

/* Return the ticks between writing and loading; 0: a clock is unknown, or was set back. */
static uint32_t ticks_passed(const struct snapshot_loader *l)
{
	uint32_t saved = get32(l->p + 20), now = wall_tick(l->of.wall_ms), passed = now - saved;

	return saved == 0 || now == 0 || passed > TICK_AGE_MAX ? 0 : passed;
}

static void list_ends(struct snapshot_loader *l, uint32_t k)
{
	const struct part *t = &l->parts[k];
	uint32_t n = part_owners(t), age;
	const uint8_t *o;

	for (uint32_t i = 0; i < n; i++) {
		o = owner_at(t, i);
		if (is_inner(l, t->first_owner + i) || l->ids[get16(o)] < 0)
			continue;
		age = get32(o + 4);
		age = age < TICK_AGE_MAX - l->passed ? age + l->passed : TICK_AGE_MAX;
		l->ends[l->n_ends++] = (struct end){ age, k, (uint16_t)i };
	}
}

/* Call <fn> for the next nodes. Returns true after the last one. */
static bool each_node(
    struct snapshot_loader *l, void (*fn)(struct snapshot_loader *l, uint32_t k))
{
	uint32_t work = 0;

	for (; work < OWNERS_A_STEP && l->at <= l->n_parts; l->at++) {
		fn(l, (uint32_t)l->at);
		work += 1 + part_owners(&l->parts[l->at]);
	}
	return l->at > l->n_parts;
}

static bool is_newer(const struct end *x, const struct end *y)
{
	if (x->age != y->age)
		return x->age < y->age;
	return x->part != y->part ? x->part < y->part : x->owner < y->owner;
}

/* Let the end <i> sink to its place in the heap. */
static void sink_end(struct snapshot_loader *l, size_t i)
{
	struct end one = l->ends[i];
	size_t below;

	for (; (below = 2 * i + 1) < l->n_ends; i = below) {
		below += below + 1 < l->n_ends && is_newer(&l->ends[below + 1], &l->ends[below]);
		if (!is_newer(&l->ends[below], &one))
			break;
		l->ends[i] = l->ends[below];
	}
	l->ends[i] = one;
}

/* Returns true if the heap is complete. */
static bool make_heap(struct snapshot_loader *l)
{
	for (unsigned i = 0; i < HEAPED_A_STEP && l->at > 0; i++)
		sink_end(l, --l->at);
	return l->at == 0;
}

static struct end newest_end(struct snapshot_loader *l)
{
	struct end one = l->ends[0];

	l->ends[0] = l->ends[--l->n_ends];
	if (l->n_ends > 0)
		sink_end(l, 0);
	return one;
}

static void find_server(struct snapshot_loader *l, size_t i)
{
	l->ids[i] = -1;
	if (l->names[i].n == 0)
		return;
	l->ids[i] = l->server(l->arg, l->names[i]);
	if (l->ids[i] >= SERVERS_MAX)
		l->ids[i] = -1;
	if (l->ids[i] >= 0) {
		/* a drop under way has counted itself already: what is told is from before it */
		l->drops[i] = atomic_load(&l->ix->servers[l->ids[i]].drops) -
			      !server_ready(l->ix, (server_id)l->ids[i]);
		return;
	}
	l->st.servers_skipped++;
	l->st.servers--;
}

/* Returns true after the last one. */
static bool find_servers(struct snapshot_loader *l)
{
	for (unsigned i = 0; i < NAMES_A_STEP; i++)
		find_server(l, l->at++);
	return l->at == SERVERS_MAX;
}

/* ---- commits ---- */

static void get_words(uint64_t *to, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = get64(p + i * 8);
}

/* Collect the page keys from the start to the end of part <k>. Returns its space. */
static const struct part *gather_keys(struct snapshot_loader *l, uint32_t k)
{
	const struct part *t = &l->parts[k];

	for (; t->p[0] == ENTRY_NODE; t = &l->parts[t->parent])
		get_words(l->keys + part_start(t), node_keys(t), get16(t->p + 2));
	return t;
}

/* Return whether the server of <end> was dropped since its name was looked up: others use the index
 * between two steps. */
static bool is_dropped(const struct snapshot_loader *l, const struct end *end)
{
	uint16_t s = get16(owner_at(&l->parts[end->part], end->owner));

	return atomic_load(&l->ix->servers[l->ids[s]].drops) != l->drops[s];
}

static bool load_end(struct snapshot_loader *l, const struct end *end)
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
				      .tenant = get64(l->p + 32) == l->of.tenants ? get16(space->p + 2) : 0u,
				      .page_room = node_room(l, t) };
	return commit_held(l->ix, l->keys, part_start(t) + get16(o + 2), &h, &at);
}

/* Returns true after the last one. */
static bool load_ends(struct snapshot_loader *l)
{
	size_t pages = 0;

	while (pages < PAGES_A_STEP && l->n_ends > 0 && l->refused < REFUSED_MAX) {
		struct end end = newest_end(l);

		pages += END_AS_PAGES + l->parts[end.part].end;
		if (is_dropped(l, &end))
			continue;
		if (load_end(l, &end)) {
			l->st.held++;
			l->refused = 0;
		} else {
			l->refused++;
		}
	}
	return l->n_ends == 0 || l->refused == REFUSED_MAX;
}

/* ---- all of it ---- */

struct snapshot_loader *snapshot_loader_new(struct index *ix, const struct snapshot_of *of,
    const uint8_t *bytes, size_t n, snapshot_server *server, void *arg, msec now)
{
	struct snapshot_loader *l = mem_alloc(sizeof(*l));

	if (l == NULL)
		return NULL;
	*l = (struct snapshot_loader){ .ix = ix, .of = *of, .p = bytes, .n = n, .server = server,
		.arg = arg, .tick = tick_of(now) };
	l->st.bytes = n;
	return l;
}

void snapshot_loader_free(struct snapshot_loader *l)
{
	if (l == NULL)
		return;
	mem_free(l->parts);
	mem_free(l->inner);
	mem_free(l->ends);
	mem_free(l->keys);
	mem_free(l);
}

/* Nothing can fail after this. */
static int take_memory(struct snapshot_loader *l, struct err *e)
{
	l->inner = mem_calloc(l->n_owners / 8 + 1, 1);
	l->ends = mem_calloc((size_t)l->n_owners + 1, sizeof(*l->ends));
	l->keys = mem_calloc((size_t)l->depth + 1, sizeof(*l->keys));
	if (l->inner == NULL || l->ends == NULL || l->keys == NULL)
		return err_set(e, "not enough memory to load it");
	return 0;
}

static void next_phase(struct snapshot_loader *l, size_t at)
{
	l->phase++;
	l->at = at;
}

static int check_some(struct snapshot_loader *l, struct err *e)
{
	int rc = snapshot_check(l, e);

	if (rc <= 0)
		return rc;
	if (take_memory(l, e) != 0)
		return -1;
	l->passed = ticks_passed(l);
	next_phase(l, 0);
	return 0;
}

int snapshot_load_step(struct snapshot_loader *l, struct snapshot_stats *s, struct err *e)
{
	switch (l->phase) {
	case LOAD_SUMS:
	case LOAD_ENTRIES:
		return check_some(l, e);
	case LOAD_NAMES:
		if (find_servers(l))
			next_phase(l, 1);
		return 0;
	case LOAD_INNER:
		if (each_node(l, mark_above))
			next_phase(l, 1);
		return 0;
	case LOAD_LIST:
		if (each_node(l, list_ends)) {
			l->n_listed = l->n_ends;
			next_phase(l, l->n_ends / 2);
		}
		return 0;
	case LOAD_HEAP:
		if (make_heap(l))
			next_phase(l, 0);
		return 0;
	case LOAD_COMMIT:
		if (!load_ends(l))
			return 0;
		l->st.left_out = l->n_listed - l->st.held;
		next_phase(l, 0);
		break;
	case LOAD_DONE:
		break;
	}
	*s = l->st;
	return 1;
}

int snapshot_load(struct index *ix, const struct snapshot_of *of, const uint8_t *bytes, size_t n,
		  snapshot_server *server, void *arg, msec now, struct snapshot_stats *s, struct err *e)
{
	struct snapshot_loader *l = snapshot_loader_new(ix, of, bytes, n, server, arg, now);
	int rc = 0;

	if (l == NULL)
		return err_set(e, "not enough memory to load it");
	while (rc == 0)
		rc = snapshot_load_step(l, s, e);
	snapshot_loader_free(l);
	return rc > 0 ? 0 : -1;
}
