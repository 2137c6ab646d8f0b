/* fleet.c - engines as LRU caches, and the conversations that they serve. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rng.h"
#include "tests/bench/events/fleet.h"

#define SYSTEMS		32u
#define SYSTEM_BLOCKS	128u	/* 2048 tokens of 16 */
#define TURNS		4u
#define TURN_BLOCKS	96u	/* at least half of it, at most one and a half */
#define BLOCKS_MAX	(SYSTEM_BLOCKS + TURNS * TURN_BLOCKS * 3 / 2)
#define PER_TALK	400u	/* one conversation is open for so many blocks of room */

struct node {
	uint64_t handle;
	uint32_t older, newer, next;
};

struct cache {
	struct node *nodes;	/* 1 .. capacity */
	uint32_t *heads;
	uint32_t n, cut, free, oldest, newest;
};

struct talk {
	uint64_t id;
	uint32_t turn, blocks;
};

struct fleet {
	struct cache *caches;
	struct talk *talks;
	uint32_t servers, capacity, mask, n_talks;
	uint64_t next_talk;
	struct rng rng;
};

static void *must(void *p)
{
	if (p == NULL) {
		fprintf(stderr, "bench_events: no memory\n");
		exit(1);
	}
	return p;
}

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* ---- a cache ---- */

static uint32_t cache_find(const struct fleet *f, const struct cache *c, uint64_t handle)
{
	uint32_t i = c->heads[handle & f->mask];

	while (i != 0 && c->nodes[i].handle != handle)
		i = c->nodes[i].next;
	return i;
}

static void list_drop(struct cache *c, uint32_t i)
{
	struct node *n = &c->nodes[i];

	*(n->older != 0 ? &c->nodes[n->older].newer : &c->oldest) = n->newer;
	*(n->newer != 0 ? &c->nodes[n->newer].older : &c->newest) = n->older;
}

static void list_add(struct cache *c, uint32_t i)
{
	c->nodes[i].older = c->newest;
	c->nodes[i].newer = 0;
	*(c->newest != 0 ? &c->nodes[c->newest].newer : &c->oldest) = i;
	c->newest = i;
}

static uint64_t cache_evict(const struct fleet *f, struct cache *c)
{
	uint32_t i = c->oldest, *at;
	uint64_t handle = c->nodes[i].handle;

	list_drop(c, i);
	for (at = &c->heads[handle & f->mask]; *at != i; at = &c->nodes[*at].next)
		;
	*at = c->nodes[i].next;
	c->nodes[i].next = c->free;
	c->free = i;
	c->n--;
	return handle;
}

static void cache_add(const struct fleet *f, struct cache *c, uint64_t handle)
{
	uint32_t i = c->free, *head = &c->heads[handle & f->mask];

	if (i != 0)
		c->free = c->nodes[i].next;
	else
		i = ++c->cut;
	c->nodes[i].handle = handle;
	c->nodes[i].next = *head;
	*head = i;
	list_add(c, i);
	c->n++;
}

/* ---- operations ---- */

static uint64_t *put_op(struct fleet_ops *o, struct fleet_op op, uint32_t arrays)
{
	size_t more = (size_t)op.n * arrays;

	if (o->n_ops == o->room_ops) {
		o->room_ops = o->room_ops * 2 + 1024;
		o->ops = must(realloc(o->ops, o->room_ops * sizeof(*o->ops)));
	}
	if (o->n_words + more > o->room_words) {
		o->room_words = (o->n_words + more) * 2;
		o->words = must(realloc(o->words, o->room_words * sizeof(*o->words)));
	}
	op.keys = o->n_words;
	op.handles = o->n_words + (arrays > 1 ? op.n : 0);
	o->ops[o->n_ops++] = op;
	o->blocks[op.kind] += op.n;
	o->n_words += more;
	return o->words + op.keys;
}

static void put_stored(struct fleet *f, uint16_t server, const uint64_t *keys,
    const uint64_t *handles, uint32_t from, uint32_t to, struct fleet_ops *o)
{
	uint64_t *w = put_op(o, (struct fleet_op){ .kind = FLEET_STORED, .server = server, .n = to - from,
				    .has_parent = from > 0, .parent = from > 0 ? handles[from - 1] : 0 }, 2);
	uint32_t i;

	memcpy(w, keys + from, (to - from) * sizeof(*w));
	memcpy(w + (to - from), handles + from, (to - from) * sizeof(*w));
	for (i = to; i-- > from;)
		cache_add(f, &f->caches[server], handles[i]);
}

static void request(struct fleet *f, uint16_t server, const uint64_t *keys, const uint64_t *handles,
    uint32_t n, struct fleet_ops *o)
{
	struct cache *c = &f->caches[server];
	uint64_t gone[BLOCKS_MAX], *w;
	uint32_t i, j, have = 0, missing = 0, n_gone = 0;

	w = put_op(o, (struct fleet_op){ .kind = FLEET_QUERY, .server = server, .n = n }, 1);
	memcpy(w, keys, n * sizeof(*keys));
	while (have < n && cache_find(f, c, handles[have]) != 0)
		have++;
	for (i = n; i-- > 0;) {
		j = cache_find(f, c, handles[i]);
		missing += j == 0;
		if (j != 0) {
			list_drop(c, j);
			list_add(c, j);
		}
	}
	while (c->n + missing > f->capacity)
		gone[n_gone++] = cache_evict(f, c);
	if (n_gone > 0) {
		w = put_op(o, (struct fleet_op){ .kind = FLEET_REMOVED, .server = server, .n = n_gone }, 1);
		memcpy(w, gone, n_gone * sizeof(*w));
	}
	for (i = have; i < n; i = j) {
		for (j = i; j < n && cache_find(f, c, handles[j]) == 0; j++)
			;
		if (j > i)
			put_stored(f, server, keys, handles, i, j, o);
		else
			j++;
	}
}

static void next_turn(struct fleet *f, struct fleet_ops *o)
{
	struct talk *t = &f->talks[rng_below(&f->rng, f->n_talks)];
	uint64_t keys[BLOCKS_MAX], handles[BLOCKS_MAX], system, before = 0;
	uint32_t i, server;

	if (t->turn == TURNS)
		*t = (struct talk){ .id = ++f->next_talk, .blocks = SYSTEM_BLOCKS };
	t->turn++;
	t->blocks += TURN_BLOCKS / 2 + rng_below(&f->rng, TURN_BLOCKS);
	system = mix(t->id) % SYSTEMS;
	server = rng_below(&f->rng, 10) == 0 ? rng_below(&f->rng, f->servers) :
					       (uint32_t)(mix(~t->id) % f->servers);
	for (i = 0; i < t->blocks; i++) {
		keys[i] = i < SYSTEM_BLOCKS ? mix(mix(system) + i) : mix(mix(t->id + 1000) + i);
		before = handles[i] = mix(before ^ keys[i]);
	}
	request(f, (uint16_t)server, keys, handles, t->blocks, o);
}

void fleet_run(struct fleet *f, uint64_t blocks, struct fleet_ops *o)
{
	o->n_ops = o->n_words = 0;
	memset(o->blocks, 0, sizeof(o->blocks));
	while (o->blocks[FLEET_STORED] < blocks)
		next_turn(f, o);
}

void fleet_ops_free(struct fleet_ops *o)
{
	free(o->ops);
	free(o->words);
	memset(o, 0, sizeof(*o));
}

/* ---- all of it ---- */

struct fleet *fleet_new(uint32_t servers, uint32_t capacity, uint64_t seed)
{
	struct fleet *f = must(calloc(1, sizeof(*f)));
	uint32_t i;

	rng_init(&f->rng, seed);
	f->servers = servers;
	f->capacity = capacity;
	for (f->mask = 1; f->mask < capacity; f->mask *= 2)
		;
	f->caches = must(calloc(servers, sizeof(*f->caches)));
	for (i = 0; i < servers; i++) {
		f->caches[i].nodes = must(calloc(capacity + 1, sizeof(struct node)));
		f->caches[i].heads = must(calloc(f->mask, sizeof(uint32_t)));
	}
	f->mask--;
	f->n_talks = (uint32_t)((uint64_t)servers * capacity / PER_TALK);
	f->talks = must(calloc(f->n_talks, sizeof(*f->talks)));
	for (i = 0; i < f->n_talks; i++)
		f->talks[i].turn = TURNS;
	return f;
}

void fleet_free(struct fleet *f)
{
	for (uint32_t i = 0; i < f->servers; i++) {
		free(f->caches[i].nodes);
		free(f->caches[i].heads);
	}
	free(f->caches);
	free(f->talks);
	free(f);
}

uint64_t fleet_held(const struct fleet *f)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < f->servers; i++)
		n += f->caches[i].n;
	return n;
}
