/* blocks.c - two hash tables over arrays, linked by index; index 0 is none.
 *
 *    by_key[h(key)]            -> block -> next ...     The owners of a block are a set of bits, so
 *    by_owner[h(block, owner)] -> held  -> next ...     a match reads one block a key, not a record
 *    owner: oldest <-> held <-> held <-> newest         a server.
 *
 * The blocks of one prompt are added one after another, so they lie side by side. A lookup mostly
 * waits for the first line of by_key; keys are taken in batches so that these waits overlap.
 *
 * There are as many blocks as held records, so blocks never run out first. An owner that is gone
 * loses its bit in <live> at once and its records in steps; its number is free when they are
 * gone. */
#include "agent/base/mem.h"
#include "agent/policy/block_tables_in.h"
#include "agent/policy/rules_in.h"

#define LEAVE_STEPS	64u		/* records of gone owners that one call drops; plus one a block added */
#define LEAST		16u		/* records that are worth a table */

/* ---- memory ---- */

static void tables_free(struct tables *t)
{
	mem_free(t->by_key);
	mem_free(t->by_owner);
	mem_free(t->block);
	mem_free(t->held);
}

/* Take between half as many and as many buckets as records, so a chain has one or two entries. */
static bool tables_plan(struct tables *t, unsigned words, size_t bytes)
{
	size_t n;

	*t = (struct tables){
		.words = words, .block_bytes = sizeof(struct block) + words * sizeof(uint64_t)
	};
	n = bytes / (t->block_bytes + sizeof(struct held) + 2 * sizeof(uint32_t));
	if (n <= LEAST)
		return false;
	t->cap = n - 1 < UINT32_MAX / 2 ? (uint32_t)n - 1 : UINT32_MAX / 2;
	t->buckets = 1u << (31 - __builtin_clz(t->cap));
	return true;
}

static bool tables_new(struct tables *t, unsigned words, size_t bytes)
{
	if (!tables_plan(t, words, bytes))
		return false;
	t->by_key = mem_calloc(t->buckets, sizeof(*t->by_key));
	t->by_owner = mem_calloc(t->buckets, sizeof(*t->by_owner));
	t->block = mem_calloc((size_t)t->cap + 1, t->block_bytes);
	t->held = mem_calloc((size_t)t->cap + 1, sizeof(*t->held));
	if (t->by_key != NULL && t->by_owner != NULL && t->block != NULL && t->held != NULL)
		return true;
	tables_free(t);
	return false;
}

struct blocks *blocks_new(size_t max_bytes)
{
	struct blocks *b;

	if (max_bytes <= sizeof(*b) || (b = mem_alloc(sizeof(*b))) == NULL)
		return NULL;
	b->max_bytes = max_bytes;
	if (!tables_new(&b->t, 1, max_bytes - sizeof(*b))) {
		mem_free(b);
		return NULL;
	}
	memset(b->of, 0xff, sizeof(b->of));
	for (unsigned i = 0; i < OWNERS_MAX; i++)
		b->owner[i].server = SERVER_NONE;
	return b;
}

void blocks_free(struct blocks *b)
{
	if (b == NULL)
		return;
	tables_free(&b->t);
	mem_free(b);
}

/* ---- the list of an owner ---- */

static void unlink_held(struct tables *t, struct owner *o, uint32_t i)
{
	struct held *h = &t->held[i];

	*(h->older ? &t->held[h->older].newer : &o->oldest) = h->newer;
	*(h->newer ? &t->held[h->newer].older : &o->newest) = h->older;
}

/* Link it as the next older one of <newer>; 0: as the newest. */
static void link_held(struct tables *t, struct owner *o, uint32_t i, uint32_t newer)
{
	struct held *h = &t->held[i];

	h->newer = newer;
	h->older = newer ? t->held[newer].older : o->newest;
	*(h->older ? &t->held[h->older].newer : &o->oldest) = i;
	*(newer ? &t->held[newer].older : &o->newest) = i;
}

/* ---- taking and dropping ---- */

static uint32_t block_add(struct blocks *b, uint64_t key)
{
	uint32_t i = b->free_block, *bucket = bucket_of_key(&b->t, key);
	struct block *k;

	if (i != 0)
		b->free_block = block_at(&b->t, i)->next;
	else
		i = ++b->used_blocks;
	k = block_at(&b->t, i);
	memset(k, 0, b->t.block_bytes);
	k->key = key;
	k->next = *bucket;
	*bucket = i;
	b->n_blocks++;
	return i;
}

static void block_drop(struct blocks *b, uint32_t i)
{
	struct block *k = block_at(&b->t, i);
	uint32_t *at = bucket_of_key(&b->t, k->key);

	while (*at != i)
		at = &block_at(&b->t, *at)->next;
	*at = k->next;
	k->next = b->free_block;
	b->free_block = i;
	b->n_blocks--;
}

static uint32_t held_add(struct blocks *b, uint32_t block, uint16_t owner)
{
	uint32_t i = b->free_held, *bucket = bucket_of_held(&b->t, block, owner);
	struct held *h;

	if (i != 0)
		b->free_held = b->t.held[i].next;
	else
		i = ++b->used_held;
	h = &b->t.held[i];
	*h = (struct held){ .block = block, .owner = owner, .next = *bucket };
	*bucket = i;
	bit_set(block_at(&b->t, block)->owners, owner, true);
	block_at(&b->t, block)->n_owners++;
	b->owner[owner].n++;
	b->n_held++;
	return i;
}

static void held_drop(struct blocks *b, uint32_t i)
{
	struct held *h = &b->t.held[i];
	struct block *k = block_at(&b->t, h->block);
	uint32_t *at = bucket_of_held(&b->t, h->block, h->owner);

	unlink_held(&b->t, &b->owner[h->owner], i);
	while (*at != i)
		at = &b->t.held[*at].next;
	*at = h->next;
	h->next = b->free_held;
	b->free_held = i;
	b->owner[h->owner].n--;
	b->n_held--;
	bit_set(k->owners, h->owner, false);
	if (--k->n_owners == 0)
		block_drop(b, h->block);
}

/* ---- what goes ---- */

static uint32_t oldest_stamp(const struct blocks *b, unsigned owner)
{
	return b->t.held[b->owner[owner].oldest].stamp;
}

/* Return the owner whose oldest block is older than those of all others. <*next>: stamp of the
 * runner-up. */
static int oldest_owner(const struct blocks *b, uint32_t *next)
{
	int first = -1;

	*next = UINT32_MAX;
	for (unsigned i = 0; i < b->t.words * 64; i++) {
		if (b->owner[i].n == 0)
			continue;
		if (first < 0 || oldest_stamp(b, i) < oldest_stamp(b, (unsigned)first)) {
			if (first >= 0)
				*next = oldest_stamp(b, (unsigned)first);
			first = (int)i;
		} else if (oldest_stamp(b, i) < *next) {
			*next = oldest_stamp(b, i);
		}
	}
	return first;
}

/* Drop the <n> oldest records of an owner. They are known beforehand, so their cache misses
 * overlap. */
static void drop_some(struct blocks *b, uint16_t owner, uint32_t n)
{
	const struct tables *t = &b->t;

	while (n > 0 && b->owner[owner].n > 0) {
		uint32_t batch = n < BATCH ? n : BATCH, i = b->owner[owner].oldest;

		for (uint32_t k = 0; k < batch && i != 0; k++, i = t->held[i].newer) {
			__builtin_prefetch(bucket_of_held(t, t->held[i].block, owner), 1);
			__builtin_prefetch(block_at(t, t->held[i].block), 1);
			__builtin_prefetch(&t->held[t->held[i].newer]);
		}
		i = b->owner[owner].oldest;
		for (uint32_t k = 0; k < batch && i != 0; k++, i = t->held[i].newer)
			__builtin_prefetch(bucket_of_key(t, block_at(t, t->held[i].block)->key), 1);
		for (uint32_t k = 0; k < batch && b->owner[owner].n > 0; k++)
			held_drop(b, b->owner[owner].oldest);
		n -= batch;
	}
}

/* Count the oldest records of <owner> that are older than <before> and no newer than <than>; at
 * most <max>. */
static uint32_t count_oldest(
    const struct blocks *b, unsigned owner, uint32_t before, uint32_t than, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = b->owner[owner].oldest; n < max && i != 0; i = b->t.held[i].newer, n++) {
		if (b->t.held[i].stamp >= before || b->t.held[i].stamp > than)
			break;
	}
	return n;
}

/* Drop from one owner what is older than <before> and no newer than the oldest of all others. At
 * most <steps>. */
static uint32_t drop_oldest(struct blocks *b, uint32_t before, uint32_t steps)
{
	uint32_t next, n;
	int who = oldest_owner(b, &next);

	if (who < 0)
		return 0;
	n = count_oldest(b, (unsigned)who, before, next, steps);
	drop_some(b, (uint16_t)who, n);
	return n;
}

void blocks_trim(struct blocks *b, uint16_t owner, uint32_t max, uint32_t steps)
{
	uint32_t over = b->owner[owner].n > max ? b->owner[owner].n - max : 0;

	drop_some(b, owner, over < steps ? over : steps);
}

void blocks_trim_all(struct blocks *b, uint32_t max, uint32_t steps)
{
	while (steps > 0 && b->n_blocks > max) {
		uint32_t over = b->n_blocks - max;

		steps -= drop_oldest(b, UINT32_MAX, over < steps ? over : steps);
	}
}

void blocks_expire(struct blocks *b, uint32_t stamp, uint32_t steps)
{
	uint32_t n;

	for (; steps > 0 && (n = drop_oldest(b, stamp, steps)) > 0; steps -= n)
		;
}

/* Drop records of gone owners. */
static void drop_of_gone(struct blocks *b, uint32_t steps)
{
	for (unsigned i = 0; i < b->t.words * 64 && steps > 0; i++) {
		uint32_t n = bit(b->live, i) ? 0 : b->owner[i].n < steps ? b->owner[i].n : steps;

		drop_some(b, (uint16_t)i, n);
		steps -= n;
	}
}

static void make_room(struct blocks *b, uint32_t n)
{
	drop_of_gone(b, n + LEAVE_STEPS);
	while (b->t.cap - b->n_held < n)
		drop_oldest(b, UINT32_MAX, n - (b->t.cap - b->n_held));
}

/* ---- owners ---- */

uint16_t blocks_owner(const struct blocks *b, unsigned scope, server_id server)
{
	return server < SERVERS_MAX ? b->of[scope][server] : OWNER_NONE;
}

server_id blocks_server(const struct blocks *b, uint16_t owner)
{
	return b->owner[owner].server;
}

uint32_t blocks_owned(const struct blocks *b, uint16_t owner)
{
	return b->owner[owner].n;
}

uint32_t blocks_newest(const struct blocks *b, uint16_t owner)
{
	return b->t.held[b->owner[owner].newest].stamp;
}

/* Make room for twice as many owners; the table is empty afterwards. */
static bool double_owners(struct blocks *b)
{
	struct tables t;

	if (b->t.words * 2 * 64 > OWNERS_MAX || !tables_new(&t, b->t.words * 2, b->max_bytes - sizeof(*b)))
		return false;
	tables_free(&b->t);
	b->t = t;
	b->used_blocks = b->used_held = b->free_block = b->free_held = b->n_blocks = b->n_held = 0;
	for (unsigned i = 0; i < OWNERS_MAX; i++)
		b->owner[i].oldest = b->owner[i].newest = b->owner[i].n = 0;
	return true;
}

static int free_number(const struct blocks *b)
{
	for (unsigned i = 0; i < b->t.words * 64; i++) {
		if (b->owner[i].n == 0 && !bit(b->live, i))
			return (int)i;
	}
	return -1;
}

uint16_t blocks_join(struct blocks *b, unsigned scope, server_id server)
{
	int i;

	if (server >= SERVERS_MAX || b->of[scope][server] != OWNER_NONE)
		return blocks_owner(b, scope, server);
	if ((i = free_number(b)) < 0 && (!double_owners(b) || (i = free_number(b)) < 0))
		return OWNER_NONE;
	b->owner[i].server = server;
	b->owner[i].scope = (uint16_t)scope;
	bit_set(b->live, (unsigned)i, true);
	bit_set(b->in_scope[scope], (unsigned)i, true);
	return b->of[scope][server] = (uint16_t)i;
}

static void owner_leave(struct blocks *b, unsigned scope, server_id server)
{
	uint16_t i = b->of[scope][server];

	if (i == OWNER_NONE)
		return;
	b->of[scope][server] = OWNER_NONE;
	b->owner[i].server = SERVER_NONE;
	bit_set(b->live, i, false);
	bit_set(b->in_scope[scope], i, false);
}

void blocks_gone(struct blocks *b, server_id server)
{
	for (unsigned scope = 0; scope < SCOPES_MAX && server < SERVERS_MAX; scope++)
		owner_leave(b, scope, server);
}

void blocks_scope_gone(struct blocks *b, unsigned scope)
{
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		owner_leave(b, scope, (server_id)i);
}

/* ---- adding ---- */

static uint32_t stamp_of(struct blocks *b, uint32_t stamp)
{
	if (stamp > b->stamp)
		b->stamp = stamp;
	return b->stamp;
}

static uint32_t touch_or_add(
    struct blocks *b, uint32_t block, uint16_t owner, uint32_t stamp, uint32_t newer)
{
	uint32_t i = 0;

	if (bit(block_at(&b->t, block)->owners, owner))
		i = held_find(&b->t, block, owner);
	if (i != 0)
		unlink_held(&b->t, &b->owner[owner], i);
	else
		i = held_add(b, block, owner);
	b->t.held[i].stamp = stamp;
	link_held(&b->t, &b->owner[owner], i, newer);
	return i;
}

void blocks_add(
    struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp, bool last_oldest)
{
	uint64_t keys[BATCH];
	uint32_t found[BATCH], left = walk_length(&w), newer = 0;
	size_t k;

	if (left > b->t.cap / 2)
		left = b->t.cap / 2;
	stamp = stamp_of(b, stamp);
	make_room(b, left);
	while ((k = walk_next(&w, keys, left < BATCH ? left : BATCH)) > 0) {
		left -= (uint32_t)k;
		blocks_find(&b->t, keys, k, found);
		for (size_t i = 0; i < k; i++) {
			uint32_t block = found[i] ? found[i] : block_find(&b->t, keys[i]);

			if (block == 0)
				block = block_add(b, keys[i]);
			newer = touch_or_add(b, block, owner, stamp, last_oldest ? newer : 0);
		}
	}
}

void blocks_touch(struct blocks *b, struct block_walk w, uint16_t owner, uint32_t stamp)
{
	uint64_t keys[BATCH];
	uint32_t found[BATCH], newer = 0;
	size_t k;

	stamp = stamp_of(b, stamp);
	while ((k = walk_next(&w, keys, BATCH)) > 0) {
		blocks_find(&b->t, keys, k, found);
		for (size_t i = 0; i < k; i++) {
			if (found[i] != 0 && bit(block_at(&b->t, found[i])->owners, owner))
				newer = touch_or_add(b, found[i], owner, stamp, newer);
		}
	}
}
