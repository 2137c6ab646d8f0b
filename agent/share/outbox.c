/* outbox.c - batches that wait for the store.
 *
 *   part.taken     1 - 2            under way, oldest first
 *   part.waiting   3 - 4 - 5        may be dropped; the last one is open if part.open points to it
 *   by_age         all waiting batches of all parts, oldest first
 *
 * A batch gets its number when it is opened. Header and checksum are written when it is taken for
 * the first time; from then on its bytes stay as they are, so that the store may get them twice.
 * Blocks grow by doubling from FIRST_ROOM; <bytes> counts their whole length. If the store does not
 * answer, batches fill to SHARE_DELAY_BYTES, so most of the budget holds entries; a batch that is
 * closed for its age gives back the rest of its block. With little load each batch has one or two
 * entries, so the memory of one batch is kept for the next. */
#include <pthread.h>

#include "agent/base/list.h"
#include "agent/base/mem.h"
#include "agent/share/outbox.h"

#define FIRST_ROOM	2048u

struct out_batch {
	struct list of_part;	/* in <taken> or <waiting> of its part */
	struct list by_age;	/* in by_age, if it waits */
	uint32_t part;
	uint64_t number;	/* from 1 on */
	msec since;		/* its first entry */
	uint64_t entries;
	bool ended;		/* header and checksum are written */
	size_t n, room;		/* <n>: as share_writer.n, or of the whole batch once ended */
	uint8_t *p;
};

struct out_part {
	struct list taken, waiting;
	struct out_batch *open;		/* NULL: the next entry opens one */
	struct share_writer writer;	/* of <open> */
	msec taken_at;			/* last */
	uint64_t number;		/* of the batch opened last, or left out last */
	bool left_out;			/* <number> was left out for entries without room */
};

struct share_outbox {
	pthread_mutex_t lock;		/* guards all below */
	const struct hash_key *key;
	share_agent self;
	uint32_t n_parts;
	size_t bytes, max_bytes;
	struct list by_age;
	struct out_batch *spare;	/* with a block of FIRST_ROOM; NULL: none */
	struct share_outbox_stats st;
	struct out_part parts[];
};

static struct out_batch *first_of(const struct list *of_part)
{
	return list_empty(of_part) ? NULL : list_entry(of_part->next, struct out_batch, of_part);
}

/* Put <l> before all others of <head>. */
static void list_prepend(struct list *head, struct list *l)
{
	list_append(head->next, l);
}

struct share_outbox *share_outbox_new(const struct hash_key *key, share_agent self, uint32_t parts,
    size_t max_bytes)
{
	struct share_outbox *o = mem_alloc(sizeof(*o) + parts * sizeof(o->parts[0]));

	if (o == NULL)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	o->key = key;
	o->self = self;
	o->n_parts = parts;
	o->max_bytes = max_bytes > SHARE_OUTBOX_MIN ? max_bytes : SHARE_OUTBOX_MIN;
	list_init(&o->by_age);
	for (uint32_t i = 0; i < parts; i++) {
		o->parts[i].taken_at = -SHARE_DELAY_MS;
		list_init(&o->parts[i].taken);
		list_init(&o->parts[i].waiting);
	}
	return o;
}

/* ---- batches ------------------------------------------------------------------------------- */

static void memory_free(struct out_batch *b)
{
	if (b == NULL)
		return;
	mem_free(b->p);
	mem_free(b);
}

/* Returns NULL if there is no memory. The block has <room> bytes, of any content. */
static struct out_batch *memory_new(struct share_outbox *o, size_t room)
{
	struct out_batch *b = o->spare;

	if (b != NULL && room == b->room) {
		o->spare = NULL;
		*b = (struct out_batch){ .p = b->p };
		return b;
	}
	if ((b = mem_alloc(sizeof(*b))) != NULL && (b->p = mem_alloc(room)) == NULL) {
		mem_free(b);
		b = NULL;
	}
	return b;
}

/* Remove a batch from its lists and free it. */
static void batch_free(struct share_outbox *o, struct out_batch *b)
{
	if (o->parts[b->part].open == b)
		o->parts[b->part].open = NULL;
	list_remove(&b->of_part);
	list_remove(&b->by_age);
	o->bytes -= sizeof(*b) + b->room;
	o->st.waiting_batches--;
	if (o->spare == NULL && b->room == FIRST_ROOM)
		o->spare = b;
	else
		memory_free(b);
}

void share_outbox_free(struct share_outbox *o)
{
	struct out_batch *b;

	if (o == NULL)
		return;
	for (uint32_t i = 0; i < o->n_parts; i++) {
		while ((b = first_of(&o->parts[i].taken)) != NULL)
			batch_free(o, b);
		while ((b = first_of(&o->parts[i].waiting)) != NULL)
			batch_free(o, b);
	}
	memory_free(o->spare);
	pthread_mutex_destroy(&o->lock);
	mem_free(o);
}

/* Drop the oldest batches until <more> bytes are free. Returns false if too many are taken. */
static bool make_room(struct share_outbox *o, size_t more)
{
	struct out_batch *b;

	while (more > o->max_bytes - o->bytes) {
		if (list_empty(&o->by_age))
			return false;
		b = list_entry(o->by_age.next, struct out_batch, by_age);
		o->st.dropped_batches++;
		o->st.dropped_entries += b->entries;
		batch_free(o, b);
	}
	return true;
}

/* Open a batch with room for <most> bytes of entries. Returns NULL if there is no room. */
static struct out_batch *batch_open(struct share_outbox *o, uint32_t part, size_t most, msec now)
{
	struct out_part *p = &o->parts[part];
	size_t room = SHARE_EMPTY_BYTES + most;
	struct out_batch *b;

	room = room > FIRST_ROOM ? room : FIRST_ROOM;
	if (!make_room(o, sizeof(*b) + room) || (b = memory_new(o, room)) == NULL)
		return NULL;
	b->part = part;
	b->number = ++p->number;
	b->since = now;
	b->room = room;
	list_append(&p->waiting, &b->of_part);
	list_append(&o->by_age, &b->by_age);
	o->bytes += sizeof(*b) + room;
	o->st.waiting_batches++;
	p->open = b;
	p->left_out = false;
	share_write_start(&p->writer, o->key, b->p, room);
	b->n = p->writer.n;
	return b;
}

/* Make the open batch of <p> larger, for <most> more bytes. If it is itself dropped for that, it is
 * no longer open. Returns false if there is no room. */
static bool batch_grow(struct share_outbox *o, struct out_part *p, size_t most)
{
	struct out_batch *b = p->open;
	size_t room = b->n + most + 8;
	uint8_t *block;

	room = room > 2 * b->room ? room : 2 * b->room;
	if (!make_room(o, room - b->room) || p->open == NULL)
		return p->open == NULL;
	if ((block = mem_resize(b->p, room, 1)) == NULL)
		return false;
	o->bytes += room - b->room;
	b->p = block;
	b->room = room;
	share_write_moved(&p->writer, block, room);
	return true;
}

/* Close the open batch of <p> if its entries would look older than they are: the age of a batch is
 * that of its first entry. */
static void close_if_old(struct share_outbox *o, struct out_part *p, msec now)
{
	struct out_batch *b = p->open;
	size_t room;
	uint8_t *block;

	if (b == NULL || now - b->since < SHARE_OPEN_MS)
		return;
	p->open = NULL;
	room = b->n + 8;
	if (room >= b->room || (block = mem_resize(b->p, room, 1)) == NULL)
		return;
	o->bytes -= b->room - room;
	b->p = block;
	b->room = room;
}

/* ---- putting ------------------------------------------------------------------------------- */

/* Count an entry that found no room. Its number is left out, so that siblings see a hole. */
static void leave_out(struct share_outbox *o, struct out_part *p)
{
	o->st.dropped_entries++;
	if (!p->left_out)
		p->number++;
	p->left_out = true;
}

static void count_put(struct share_outbox *o, struct out_part *p, const struct share_entry *e)
{
	struct out_batch *b = p->open;

	b->n = p->writer.n;
	b->entries++;
	o->st.entries[e->kind]++;
	if (b->n >= SHARE_DELAY_BYTES)
		p->open = NULL;
}

static void put_locked(struct share_outbox *o, uint32_t part, const struct share_entry *e, msec now)
{
	struct out_part *p = &o->parts[part];
	size_t most = share_write_most(e);
	int rc;

	close_if_old(o, p, now);
	for (;;) {
		if (p->open == NULL && batch_open(o, part, most, now) == NULL) {
			leave_out(o, p);
			return;
		}
		rc = share_write(&p->writer, e);
		if (rc == 0) {
			count_put(o, p, e);
			return;
		}
		if (rc == -SHARE_E_ENTRY) {
			o->st.refused++;
			return;
		}
		if (rc == -SHARE_E_FULL) {
			p->open = NULL;
		} else if (!batch_grow(o, p, most)) {
			leave_out(o, p);
			return;
		}
	}
}

bool share_outbox_put(struct share_outbox *o, uint32_t part, const struct share_entry *e, msec now)
{
	struct out_part *p = &o->parts[part];
	const struct out_batch *open;
	bool was_empty, look;

	pthread_mutex_lock(&o->lock);
	was_empty = list_empty(&p->waiting);
	open = p->open;
	put_locked(o, part, e, now);
	look = was_empty ? !list_empty(&p->waiting) : open != NULL && p->open != open;
	pthread_mutex_unlock(&o->lock);
	return look;
}

/* ---- taking -------------------------------------------------------------------------------- */

bool share_outbox_due(struct share_outbox *o, uint32_t part, msec now, msec *due_at)
{
	const struct out_part *p = &o->parts[part];
	const struct out_batch *b;
	msec at = INT64_MAX;

	pthread_mutex_lock(&o->lock);
	if ((b = first_of(&p->waiting)) != NULL)
		at = b == p->open ? p->taken_at + SHARE_DELAY_MS : now;
	pthread_mutex_unlock(&o->lock);
	*due_at = at > now ? at : now;
	return at <= now;
}

static void batch_end(struct share_outbox *o, struct out_batch *b, msec now, int64_t wall_ms)
{
	int64_t made = wall_ms - (now - b->since);

	b->n = share_write_end(o->key, b->p, b->n, &(struct share_batch){
		.agent = o->self, .part = b->part, .number = b->number, .made_ms = made > 0 ? made : 0 });
	b->ended = true;
}

struct span share_outbox_take(struct share_outbox *o, uint32_t part, msec now, int64_t wall_ms)
{
	struct out_part *p = &o->parts[part];
	struct span bytes = { 0 };
	struct out_batch *b;

	pthread_mutex_lock(&o->lock);
	if ((b = first_of(&p->waiting)) != NULL) {
		if (p->open == b)
			p->open = NULL;
		if (!b->ended)
			batch_end(o, b, now, wall_ms);
		list_remove(&b->by_age);
		list_remove(&b->of_part);
		list_append(&p->taken, &b->of_part);
		p->taken_at = now;
		bytes = span_of(b->p, b->n);
	}
	pthread_mutex_unlock(&o->lock);
	return bytes;
}

void share_outbox_sent(struct share_outbox *o, uint32_t part)
{
	struct out_batch *b;

	pthread_mutex_lock(&o->lock);
	if ((b = first_of(&o->parts[part].taken)) != NULL) {
		o->st.batches++;
		o->st.bytes += b->n;
		batch_free(o, b);
	}
	pthread_mutex_unlock(&o->lock);
}

void share_outbox_take_again(struct share_outbox *o, uint32_t part)
{
	struct out_part *p = &o->parts[part];
	struct out_batch *b;

	pthread_mutex_lock(&o->lock);
	while (!list_empty(&p->taken)) {
		b = list_entry(p->taken.prev, struct out_batch, of_part);
		list_remove(&b->of_part);
		list_prepend(&p->waiting, &b->of_part);
		list_prepend(&o->by_age, &b->by_age);
	}
	pthread_mutex_unlock(&o->lock);
}

void share_outbox_stats(struct share_outbox *o, struct share_outbox_stats *s)
{
	pthread_mutex_lock(&o->lock);
	*s = o->st;
	s->waiting_bytes = o->bytes;
	pthread_mutex_unlock(&o->lock);
}
