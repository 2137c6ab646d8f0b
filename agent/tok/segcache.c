/* segcache.c - the cache of segments: per shard, a ring of entries and a hash table.
 *
 *   ring    |....free....[ entry ][ entry ][ entry ].......free......|   entries enter at <head>
 *                        tail                      head                   and leave at <tail>
 *           |[ entry ][ entry ]...free...[ entry ][ entry ]..........|   <wrapped>: the older part
 *                          head          tail              end            ends at <end>
 *   table   slot = low bits of the hash -> tag, place in the ring; open addressing, linear;
 *           removal moves later slots back
 *
 * A ring instead of an allocator and an LRU list: an entry is one run of bytes, nothing fragments,
 * the budget is exact, and the order of entries is their age. An entry that was found since it came
 * is moved from <tail> to <head> once instead of being evicted (CLOCK, second chance), a bounded
 * number per put. So frequently used entries stay.
 *
 * Ids are stored XORed with their pad (segcache_pad.h), four bytes each.
 *
 * Invariants, while no lock is held: the table has exactly the entries from <tail> to <head>; the
 * table is not full. Cost: a hit is a hash, a lock, two cache misses and the copy. A put adds what
 * it has to move away: at most SPARE_BYTES moved, and as many entries evicted as were put before,
 * so O(1) amortized. */
#include <assert.h>
#include <pthread.h>

#include "agent/base/hash_wide.h"
#include "agent/base/mem.h"
#include "agent/tok/segcache.h"

#define UNIT		8u		/* entries start at multiples of it */
/* of a shard's memory per table slot: caching short segments does not pay (cached.h) */
#define SLOT_BYTES	128u
#define SHARD_LEAST	262144u		/* with less memory, fewer shards */
#define SHARDS_MOST	64u
#define SPARE_BYTES	65536u		/* bytes moved per put, at most */
#define SPARE_ENTRIES	32u
#define PART_MOST	16u		/* the largest entry is this part of a shard */
#define PAGE_BYTES	4096u		/* the least of any system */
#define TOUCHED_MOST	(1u << 20)	/* of a shard's table */

struct entry {
	struct hash128 hash;
	uint32_t bytes;			/* of the text */
	uint32_t n : 31, used : 1;	/* ids; found since it came or was spared */
	token_id ids[];
};

struct slot {
	uint32_t tag;			/* of the hash; its low bits are the home slot */
	uint32_t at;			/* place in the ring, in units, plus one; 0: free */
};

struct shard {
	pthread_mutex_t lock;		/* guards all fields below */
	uint8_t *ring;
	struct slot *slots;
	uint32_t mask;			/* slots - 1 */
	uint32_t count, most;		/* entries */
	size_t size, head, tail, end;	/* of the ring; bytes */
	size_t top;			/* highest byte ever written; a wipe ends here */
	size_t used;			/* bytes of the entries */
	bool wrapped;
	uint64_t hits, misses, hit_ids, stored, evicted, spared, too_large;
} __attribute__((aligned(64)));

struct segcache {
	struct hash_key key;
	hash128_fn *hash;
	segcache_pad_fn *pad;
	size_t max_bytes;
	unsigned shards;		/* a power of two */
	struct shard *shard;
};

/* ---- made and freed -------------------------------------------------------------------------- */

static void pad_base(const struct pad_seed *s, uint32_t batch, uint32_t out[PAD_WORDS])
{
	pad_batch(s, batch, out);
}

static segcache_pad_fn *best_pad(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		return segcache_pad_avx2;
#endif
	return pad_base;
}

static size_t power_below(size_t n)
{
	return n ? (size_t)1 << (63 - __builtin_clzll(n)) : 1;
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Return the number of shards: four per thread, so that two rarely meet, unless shards would be
 * small. */
static unsigned shards_for(const struct segcache_opts *o)
{
	size_t want = power_below((size_t)(o->threads ? o->threads : 1) * 4 * 2 - 1),
	       fit = power_below(o->max_bytes / SHARD_LEAST);

	if (want > fit)
		want = fit;
	return (unsigned)(want < SHARDS_MOST ? want : SHARDS_MOST);
}

/* Make the pages of the table <p> present. Its slots are used in no order, so most of the first
 * thousands of segments would wait for the kernel twice: to look for one, and to store it. 64 MiB
 * have tables of 4 MiB, which takes 3 ms; of a very large cache only a part is done. */
static void touch_pages(uint8_t *p, size_t n)
{
	for (size_t at = 0; at < n && at < TOUCHED_MOST; at += PAGE_BYTES)
		*(volatile uint8_t *)(p + at) = 0;
}

static bool shard_init(struct shard *s, uint8_t *mem, size_t bytes)
{
	size_t slots = power_below(bytes / SLOT_BYTES);

	if (slots > UINT32_MAX / 2)
		slots = (size_t)1 << 31;
	s->slots = (struct slot *)(void *)mem;
	s->mask = (uint32_t)(slots - 1);
	s->most = (uint32_t)(slots - slots / 8);
	s->ring = mem + slots * sizeof(struct slot);
	s->size = (bytes - slots * sizeof(struct slot)) / UNIT * UNIT;
	if (s->size / UNIT >= UINT32_MAX)
		s->size = (size_t)(UINT32_MAX - 1) * UNIT;
	s->end = s->size;
	touch_pages(mem, slots * sizeof(struct slot));
	return pthread_mutex_init(&s->lock, NULL) == 0;
}

struct segcache *segcache_new(const struct segcache_opts *o, const struct hash_key *key)
{
	struct segcache *c;
	size_t front, each;
	unsigned n;

	if (o->max_bytes < SEGCACHE_LEAST)
		return NULL;
	if ((c = mem_alloc(o->max_bytes)) == NULL)
		return NULL;
	c->key = *key;
	c->hash = hash128_best();
	c->pad = best_pad();
	c->max_bytes = o->max_bytes;
	n = shards_for(o);
	front = round_up((uintptr_t)c + sizeof(*c), 64) - (uintptr_t)c;
	c->shard = (struct shard *)(void *)((uint8_t *)c + front);
	front += n * sizeof(struct shard);
	each = (o->max_bytes - front) / n / 64 * 64;
	for (; c->shards < n; c->shards++) {
		if (!shard_init(&c->shard[c->shards], (uint8_t *)c + front + c->shards * each, each)) {
			segcache_free(c);
			return NULL;
		}
	}
	return c;
}

/* The caller holds the lock, or no other thread uses the shard. */
static void shard_wipe(struct shard *s)
{
	mem_wipe(s->slots, ((size_t)s->mask + 1) * sizeof(struct slot));
	mem_wipe(s->ring, s->top);
	s->head = s->tail = s->top = s->used = 0;
	s->count = 0;
	s->end = s->size;
	s->wrapped = false;
}

void segcache_clear(struct segcache *c)
{
	for (unsigned i = 0; c != NULL && i < c->shards; i++) {
		struct shard *s = &c->shard[i];

		pthread_mutex_lock(&s->lock);
		s->evicted += s->count;
		shard_wipe(s);
		pthread_mutex_unlock(&s->lock);
	}
}

void segcache_free(struct segcache *c)
{
	if (c == NULL)
		return;
	for (unsigned i = 0; i < c->shards; i++) {
		pthread_mutex_destroy(&c->shard[i].lock);
		shard_wipe(&c->shard[i]);
	}
	mem_wipe(&c->key, sizeof(c->key));
	mem_free(c);
}

/* ---- the pad --------------------------------------------------------------------------------- */

/* The first words of the first batch are the hash. */
enum { PAD_HASH = 4 };

static void xor_words(uint32_t *p, const uint32_t *pad, size_t n)
{
	size_t i = 0;

	for (; n - i >= PAD_LANES; i += PAD_LANES) {
		pad_lanes a, b;

		memcpy(&a, p + i, sizeof(a));
		memcpy(&b, pad + i, sizeof(b));
		a ^= b;
		memcpy(p + i, &a, sizeof(a));
	}
	for (; i < n; i++)
		p[i] ^= pad[i];
}

/* XOR ids with their pad, in place. */
static void pad_ids(const struct segcache *c, const struct segcache_key *k, token_id *ids, size_t n)
{
	size_t m = n < PAD_WORDS - PAD_HASH ? n : PAD_WORDS - PAD_HASH;
	uint32_t pad[PAD_WORDS];

	xor_words(ids, k->pad + PAD_HASH, m);
	for (uint32_t batch = 1; m < n; batch++) {
		size_t some = n - m < PAD_WORDS ? n - m : PAD_WORDS;

		c->pad(&k->seed, batch, pad);
		xor_words(ids + m, pad, some);
		m += some;
	}
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct entry *entry_at(const struct shard *s, size_t at)
{
	return (struct entry *)(void *)(s->ring + at);
}

static size_t entry_size(size_t n)
{
	return round_up(sizeof(struct entry) + n * sizeof(token_id), UNIT);
}

static uint32_t tag_of(struct hash128 h)
{
	return (uint32_t)h.lo;
}

static struct entry *find(const struct shard *s, const struct segcache_key *k)
{
	uint32_t tag = tag_of(k->hash), i = tag & s->mask;
	struct entry *e;

	for (; s->slots[i].at != 0; i = (i + 1) & s->mask) {
		if (s->slots[i].tag != tag)
			continue;
		e = entry_at(s, (size_t)(s->slots[i].at - 1) * UNIT);
		if (e->hash.lo == k->hash.lo && e->hash.hi == k->hash.hi && e->bytes == k->bytes)
			return e;
	}
	return NULL;
}

static void slot_add(struct shard *s, uint32_t tag, size_t at)
{
	uint32_t i = tag & s->mask;

	while (s->slots[i].at != 0)
		i = (i + 1) & s->mask;
	s->slots[i] = (struct slot){ tag, (uint32_t)(at / UNIT) + 1 };
}

/* Return the slot of the entry at <at>, which exists. */
static uint32_t slot_find(const struct shard *s, size_t at)
{
	uint32_t i = tag_of(entry_at(s, at)->hash) & s->mask;

	while (s->slots[i].at != (uint32_t)(at / UNIT) + 1)
		i = (i + 1) & s->mask;
	return i;
}

/* Free a slot: move later slots back, unless they would be before their home. */
static void slot_remove(struct shard *s, uint32_t hole)
{
	uint32_t i = hole, home;

	for (;;) {
		i = (i + 1) & s->mask;
		if (s->slots[i].at == 0)
			break;
		home = s->slots[i].tag & s->mask;
		if (((i - home) & s->mask) >= ((i - hole) & s->mask)) {
			s->slots[hole] = s->slots[i];
			hole = i;
		}
	}
	s->slots[hole] = (struct slot){ 0, 0 };
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void head_to_start(struct shard *s)
{
	s->end = s->head;
	s->head = 0;
	s->wrapped = true;
}

/* Tell if <size> bytes are free at <head>. Moves <head> to the start of the ring if too few bytes
 * are left before its end. */
static bool has_room(struct shard *s, size_t size)
{
	if (s->count == 0) {
		s->head = s->tail = 0;
		s->end = s->size;
		s->wrapped = false;
	}
	if (!s->wrapped) {
		if (s->size - s->head >= size)
			return true;
		head_to_start(s);
	}
	return s->tail - s->head >= size;
}

static void tail_forward(struct shard *s, size_t size)
{
	s->tail += size;
	if (s->wrapped && s->tail == s->end) {
		s->tail = 0;
		s->end = s->size;
		s->wrapped = false;
	}
}

struct chances {
	size_t bytes;
	unsigned entries;
};

static void head_forward(struct shard *s, size_t size)
{
	s->head += size;
	if (s->top < s->head)
		s->top = s->head;
}

/* Wipe the parts of a moved entry's old <size> bytes that the new place does not overlap. */
static void wipe_left(uint8_t *from, uint8_t *to, size_t size)
{
	size_t apart = to > from ? (size_t)(to - from) : (size_t)(from - to),
	       n = apart < size ? apart : size;

	mem_wipe(to > from ? from : from + size - n, n);
}

/* Move the entry at <tail> to <head>.
 *
 *   |[ new ]..gap..[ tail ][ ]   ->   |[ new ][ tail ]..gap..[ ]     the gap moves
 *   |..[ tail ][ new ].......|   ->   |..........[ new ][ tail ].|   or no gap: the table was full
 */
static void spare(struct shard *s, struct entry *e, size_t size)
{
	uint32_t i = slot_find(s, s->tail);
	uint8_t *from;

	if (!s->wrapped && s->size - s->head < size)
		head_to_start(s);
	from = (uint8_t *)e;
	e->used = 0;
	memmove(s->ring + s->head, e, size);
	s->slots[i].at = (uint32_t)(s->head / UNIT) + 1;
	wipe_left(from, s->ring + s->head, size);
	head_forward(s, size);
	s->spared++;
	tail_forward(s, size);
}

/* Evict the oldest entry, or give it its second chance. */
static void evict(struct shard *s, struct chances *left)
{
	struct entry *e = entry_at(s, s->tail);
	size_t size = entry_size(e->n);

	if (e->used && left->entries > 0 && size <= left->bytes) {
		left->entries--;
		left->bytes -= size;
		spare(s, e, size);
		return;
	}
	slot_remove(s, slot_find(s, s->tail));
	mem_wipe(e, size);
	s->count--;
	s->used -= size;
	s->evicted++;
	tail_forward(s, size);
}

static struct entry *place(struct shard *s, size_t size)
{
	struct chances left = { SPARE_BYTES, SPARE_ENTRIES };
	struct entry *e;

	while (s->count >= s->most || !has_room(s, size))
		evict(s, &left);
	e = entry_at(s, s->head);
	head_forward(s, size);
	return e;
}

/* ---- what others call ------------------------------------------------------------------------ */

struct segcache_key segcache_key(const struct segcache *c, struct segcache_scope scope,
    struct span text, enum part part)
{
	struct hash128 h = c->hash(&c->key, text.n ? text.p : "", text.n);
	uint64_t all[5] = { h.lo, h.hi, scope.tokenizer, scope.tenant,
		(uint64_t)text.n << 2 | (uint64_t)part };
	struct segcache_key k;

	static_assert(sizeof(all) == sizeof(k.seed), "a key of 256 bits and a nonce of 64");
	memcpy(&k.seed, all, sizeof(all));
	c->pad(&k.seed, 0, k.pad);
	memcpy(&k.hash, k.pad, sizeof(k.hash));
	k.bytes = text.n;
	return k;
}

static struct shard *shard_of(struct segcache *c, const struct segcache_key *k)
{
	return &c->shard[k->hash.hi & (c->shards - 1)];
}

/* Copy the ids out under the lock. Never allocates there: *want says how much room is missing. */
static int copy_out(struct shard *s, const struct segcache_key *k, struct ids *out, size_t *want)
{
	struct entry *e = find(s, k);

	if (e == NULL) {
		s->misses++;
		return 0;
	}
	if (out->cap - out->n < e->n) {
		*want = e->n;
		return -1;
	}
	if (e->n > 0)
		memcpy(out->p + out->n, e->ids, e->n * sizeof(token_id));
	out->n += e->n;
	e->used = 1;
	s->hits++;
	s->hit_ids += e->n;
	return 1;
}

int segcache_get(struct segcache *c, const struct segcache_key *k, struct ids *out)
{
	struct shard *s = shard_of(c, k);
	size_t want;
	int got;

	for (;;) {
		size_t from = out->n;

		pthread_mutex_lock(&s->lock);
		got = copy_out(s, k, out, &want);
		pthread_mutex_unlock(&s->lock);
		if (got > 0 && out->n > from)
			pad_ids(c, k, out->p + from, out->n - from);
		if (got >= 0)
			return got;
		if (ids_reserve(out, want) < 0)
			return -1;
	}
}

static void put_in(const struct segcache *c, struct shard *s, const struct segcache_key *k,
    const token_id *ids, size_t n)
{
	struct entry *e = find(s, k);

	if (e != NULL) {		/* another thread stored it first */
		e->used = 1;
		return;
	}
	e = place(s, entry_size(n));
	e->hash = k->hash;
	e->bytes = (uint32_t)k->bytes;
	e->n = (uint32_t)n & 0x7fffffff;
	e->used = 0;
	if (n > 0)
		memcpy(e->ids, ids, n * sizeof(token_id));
	pad_ids(c, k, e->ids, n);
	slot_add(s, tag_of(k->hash), (size_t)((uint8_t *)e - s->ring));
	s->count++;
	s->used += entry_size(n);
	s->stored++;
}

void segcache_put(struct segcache *c, const struct segcache_key *k, const token_id *ids, size_t n)
{
	struct shard *s = shard_of(c, k);
	size_t most = s->size / PART_MOST;		/* constant, so no lock is needed */
	bool fits = k->bytes <= UINT32_MAX && n <= most / sizeof(token_id) && entry_size(n) <= most;

	pthread_mutex_lock(&s->lock);
	if (fits)
		put_in(c, s, k, ids, n);
	else
		s->too_large++;
	pthread_mutex_unlock(&s->lock);
}

void segcache_stats(struct segcache *c, struct segcache_stats *out)
{
	*out = (struct segcache_stats){ .max_bytes = c->max_bytes, .shards = c->shards };
	for (unsigned i = 0; i < c->shards; i++) {
		struct shard *s = &c->shard[i];

		pthread_mutex_lock(&s->lock);
		out->hits += s->hits;
		out->misses += s->misses;
		out->hit_ids += s->hit_ids;
		out->stored += s->stored;
		out->evicted += s->evicted;
		out->spared += s->spared;
		out->too_large += s->too_large;
		out->entries += s->count;
		out->used_bytes += s->used;
		pthread_mutex_unlock(&s->lock);
	}
}
