/* write.c - entries into a batch: names of servers, heads of entries, header and checksum.
 *
 * An entry is written only if share_write_most() bytes are left, so no step of it can fail and
 * nothing has to be undone. Names are found by a table of their hashes with linear probing; at most
 * half of it is used. */
#include <assert.h>

#include "agent/base/num.h"
#include "agent/share/fields_in.h"

#define SLOTS	(2 * SHARE_SERVERS_MAX)

_Static_assert(SHARE_NAME_MAX <= UINT8_MAX, "lengths of names are bytes in struct share_named");

void share_write_start(struct share_writer *w, const struct hash_key *key, uint8_t *p, size_t room)
{
	w->key = key;
	w->n = SHARE_HEADER_BYTES;
	w->n_names = 0;
	memset(w->slots, 0, sizeof(w->slots));
	share_write_moved(w, p, room);
}

void share_write_moved(struct share_writer *w, uint8_t *p, size_t room)
{
	assert(room >= w->n + 8);
	w->p = p;
	w->room = room;
}

/* Return the server of <e>, or an empty one with <pool>.p NULL if its kind has none. */
static struct share_server server_of(const struct share_entry *e)
{
	switch (e->kind) {
	case SHARE_PLACED:
		return e->u.placed.at;
	case SHARE_FACT:
		return (struct share_server){ e->u.fact.fact.pool, e->u.fact.fact.server };
	case SHARE_HELD:
		return e->u.held.at;
	case SHARE_CLEARED:
		return e->u.cleared.at;
	case SHARE_SERVER:
		return e->u.server.at;
	case SHARE_DIGEST:
		return e->u.digest.at;
	case SHARE_ENDS:
		return e->u.ends.at;
	case SHARE_WANT:
		return e->u.want.at;
	default:
		return (struct share_server){ 0 };
	}
}

static bool has_server(enum share_kind kind)
{
	return kind != SHARE_TAKEN_BACK && kind != SHARE_HEAD && kind != SHARE_ALIVE;
}

static size_t list_most(const struct share_entry *e)
{
	switch (e->kind) {
	case SHARE_PLACED:
		return 8 * at_most(e->u.placed.n, SHARE_PAGES_MAX);
	case SHARE_HELD:
		return 8 * at_most(e->u.held.n, SHARE_PAGES_MAX);
	case SHARE_HEAD:
		return at_most(e->u.head.bytes.n, SHARE_HEAD_MAX);
	case SHARE_DIGEST:
		return 8 * at_most(e->u.digest.n, SHARE_SUMS_MAX);
	case SHARE_ENDS:	/* 8 bytes, and 4 of SHARE_DEPTH_MAX as LEB128 */
		return 12 * at_most(e->u.ends.n, SHARE_ENDS_MAX);
	case SHARE_WANT:
		return 12 * at_most(e->u.want.n, SHARE_ENDS_MAX);
	default:
		return 0;
	}
}

size_t share_write_most(const struct share_entry *e)
{
	struct share_server at = server_of(e);

	return 2 * WIRE_HEAD + WIRE_FIXED_MAX + list_most(e) + at_most(at.pool.n, SHARE_NAME_MAX) +
	    at_most(at.server.n, SHARE_NAME_MAX);
}

static bool writable(const struct share_entry *e, const struct share_server *at)
{
	return e->kind >= SHARE_PLACED && e->kind < SHARE_KINDS && at->pool.n <= SHARE_NAME_MAX &&
	    at->server.n <= SHARE_NAME_MAX &&
	    (e->kind != SHARE_HEAD || e->u.head.bytes.n <= SHARE_HEAD_MAX);
}

/* Write head and payload of an entry: of a name if <e> is NULL. */
static void write_entry(struct share_writer *w, uint32_t number, struct share_entry *e,
    struct share_server *name)
{
	uint8_t *head = w->p + w->n;
	struct share_fields f = {
		.out = head + WIRE_HEAD, .left = w->room - w->n - WIRE_HEAD - 8, .server = number,
	};
	uint64_t bytes;

	if (e != NULL)
		share_fields(&f, e);
	else
		share_fields_name(&f, name);
	assert(!f.failed);
	bytes = (uint64_t)(f.out - head) - WIRE_HEAD;
	wire_put(head, (e != NULL ? e->kind : WIRE_NAME) | bytes << 8, WIRE_HEAD);
	w->n = (size_t)(f.out - w->p);
}

/* ---- names of servers ------------------------------------------------------------------------ */

static bool is_named(const struct share_writer *w, uint32_t i, const struct share_server *at)
{
	const struct share_named *name = &w->names[i];
	const uint8_t *p = w->p + name->at;

	return span_eq(span_of(p, name->pool), at->pool) &&
	    span_eq(span_of(p + name->pool + 1, name->server), at->server);
}

/* Return the slot that has the server, or the free one where it belongs. */
static uint16_t *slot_of(struct share_writer *w, const struct share_server *at)
{
	uint64_t h = hash_mix_span(w->key, hash_mix_span(w->key, 0, at->pool), at->server);

	while (w->slots[h % SLOTS] != 0 && !is_named(w, w->slots[h % SLOTS] - 1u, at))
		h++;
	return &w->slots[h % SLOTS];
}

/* Set the number of a server, which is named now if it was not. Returns 0 or -SHARE_E_FULL. */
static int number_of(struct share_writer *w, struct share_server *at, uint32_t *number)
{
	uint16_t *slot = slot_of(w, at);

	if (*slot == 0) {
		if (w->n_names == SHARE_SERVERS_MAX)
			return -SHARE_E_FULL;
		/* the length of a name takes one byte */
		w->names[w->n_names] = (struct share_named){
			(uint32_t)(w->n + WIRE_HEAD + 1), (uint8_t)at->pool.n, (uint8_t)at->server.n,
		};
		write_entry(w, 0, NULL, at);
		*slot = (uint16_t)++w->n_names;
	}
	*number = *slot - 1u;
	return 0;
}

/* ---- batches ------------------------------------------------------------------------------- */

int share_write(struct share_writer *w, const struct share_entry *e)
{
	struct share_server at = server_of(e);
	struct share_entry copy = *e;	/* its fields are cut to their limits */
	uint32_t number = 0;

	if (!writable(e, &at))
		return -SHARE_E_ENTRY;
	if (share_write_most(e) > w->room - w->n - 8)
		return -SHARE_E_ROOM;
	if (has_server(e->kind) && number_of(w, &at, &number) != 0)
		return -SHARE_E_FULL;
	write_entry(w, number, &copy, NULL);
	return 0;
}

size_t share_write_end(
    const struct hash_key *key, uint8_t *p, size_t n, const struct share_batch *b)
{
	memcpy(p, WIRE_MAGIC, 3);
	p[3] = SHARE_VERSION;
	wire_put(p + 4, b->part, 4);
	wire_put(p + 8, hash_key_id(key), 8);
	wire_put(p + 16, b->agent, 8);
	wire_put(p + 24, b->number, 8);
	wire_put(p + 32, (uint64_t)b->made_ms, 8);
	wire_put(p + n, hash64(key, p, n), 8);
	return n + 8;
}
