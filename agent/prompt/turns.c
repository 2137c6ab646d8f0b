/* turns.c - items by keys of 128 bits: a table with chains, a list by age, tenants with a floor.
 *
 * Walks of a long body look up some 75 items. A list by use would write to the neighbours of each,
 * which are in no cache; so a use only sets a bit in the item, and the eviction reads it (CLOCK).
 *
 * The items of one body are needed from its beginning on. If some were evicted, the others serve
 * nobody, are not used any more, and are evicted in their turn. */
#include <pthread.h>

#include "agent/base/count.h"
#include "agent/base/list.h"
#include "agent/base/mem.h"
#include "agent/base/prefetch.h"
#include "agent/prompt/turns_in.h"

#define BUCKET_BYTES	512u	/* budget per bucket: so fewer than one item is in it */
#define ITEM_BYTES	1024u	/* prefetched of an item: one of a chunk of prose has as much */
#define TENANT_BUCKETS	256u
#define PASSED_MOST	16u	/* items passed over for one that is evicted */
#define QUICK		32u	/* bytes of a tail's quick hash */
#define PART_MOST	16u	/* the largest item is this part of the budget */

struct turns_tenant {
	struct turns_tenant *next;
	uint64_t key;
	struct list items;		/* oldest first */
	size_t bytes;
};

struct turns_item {
	struct turns_item *next;
	struct hash128 key;
	struct list all, mine;		/* in turns.items, in tenant.items */
	struct turns_tenant *tenant;
	uint32_t n;
	bool used;			/* since it came or was passed over */
	struct turns_tail tails[TURNS_TAILS];
	uint8_t data[];
};

struct turns {
	struct turns_opts opts;
	const struct hash_key *key;
	hash128_fn *hash;
	pthread_mutex_t lock;		/* guards what follows, but for the counters */
	struct turns_item **bucket;
	size_t n_buckets;		/* a power of two */
	struct turns_tenant *tenants[TENANT_BUCKETS];
	struct list items;		/* oldest first */
	struct turns_stats st;
	/* as in <st>; away from what each request reads without the lock */
	_Atomic uint64_t found, missed, saved_bytes;
};

void turns_defaults(struct turns_opts *o)
{
	*o = (struct turns_opts){ .max_bytes = 32u << 20, .floor_bytes = 1u << 20,
		.least_bytes = 4096, .chunk_bytes = 8192 };
}

hash128_fn *turns_hash(const struct turns *t)
{
	return t->hash;
}

const struct turns_opts *turns_options(const struct turns *t)
{
	return &t->opts;
}

const struct hash_key *turns_key(const struct turns *t)
{
	return t->key;
}

/* ---- items and tenants ------------------------------------------------------------------ */

/* Return the heap bytes of a block of <n> bytes: a multiple of 16 that includes 8 of the
 * allocator. */
static size_t cost_of(size_t n)
{
	return (n + 8 + 15) & ~(size_t)15;
}

static struct turns_item **item_at(const struct turns *t, struct hash128 key)
{
	struct turns_item **at = &t->bucket[key.lo & (t->n_buckets - 1)];

	while (*at != NULL && ((*at)->key.lo != key.lo || (*at)->key.hi != key.hi))
		at = &(*at)->next;
	return at;
}

static struct turns_tenant **tenant_at(struct turns *t, uint64_t key)
{
	struct turns_tenant **at = &t->tenants[key % TENANT_BUCKETS];

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void charge(struct turns *t, struct turns_tenant *of, size_t n)
{
	of->bytes += cost_of(n);
	t->st.bytes += cost_of(n);
}

static void refund(struct turns *t, struct turns_tenant *of, size_t n)
{
	of->bytes -= cost_of(n);
	t->st.bytes -= cost_of(n);
}

static struct turns_tenant *tenant_get(struct turns *t, uint64_t key)
{
	struct turns_tenant **at = tenant_at(t, key), *of = *at;

	if (of != NULL || (of = mem_alloc(sizeof(*of))) == NULL)
		return of;
	of->key = key;
	list_init(&of->items);
	*at = of;
	charge(t, of, sizeof(*of));
	return of;
}

static void tenant_put(struct turns *t, struct turns_tenant *of)
{
	if (!list_empty(&of->items))
		return;
	*tenant_at(t, of->key) = of->next;
	refund(t, of, sizeof(*of));
	mem_free(of);
}

/* Remove <it>, and put it in front of <out>, items that are to be freed. */
static void evict(struct turns *t, struct turns_item *it, const struct turns_tenant *adds,
    struct turns_item **out)
{
	struct turns_tenant *of = it->tenant;

	*item_at(t, it->key) = it->next;
	list_remove(&it->all);
	list_remove(&it->mine);
	refund(t, it->tenant, sizeof(*it) + it->n);
	it->next = *out;
	*out = it;
	t->st.points--;
	t->st.evicted++;
	if (of != adds)
		tenant_put(t, of);
}

/* Pass over the oldest item: it becomes the newest. */
static void pass_over(struct turns *t, struct turns_item *it)
{
	it->used = false;
	list_remove(&it->all);
	list_remove(&it->mine);
	list_append(&t->items, &it->all);
	list_append(&it->tenant->items, &it->mine);
}

/* Prefetch what the next evictions read: items that were not used for long are in no cache. The
 * oldest is there since the last call, which prefetched it as the second oldest. */
static void prefetch_oldest(const struct turns *t)
{
	const struct turns_item *it = list_entry(t->items.next, struct turns_item, all);

	prefetch(&t->bucket[it->key.lo & (t->n_buckets - 1)]);
	prefetch_bytes(it->all.next, 2 * MEM_LINE);
}

/* Evict to <out> until <more> bytes fit, which <adds> will add; it has at least one item if all are
 * passed over. */
static void make_room(
    struct turns *t, struct turns_tenant *adds, size_t more, struct turns_item **out)
{
	unsigned passed = 0;

	while (t->st.bytes + more > t->opts.max_bytes && !list_empty(&t->items)) {
		struct turns_item *it = list_entry(t->items.next, struct turns_item, all);
		bool low = it->tenant != adds && it->tenant->bytes <= t->opts.floor_bytes;

		if ((it->used || low) && passed++ < PASSED_MOST) {
			pass_over(t, it);
			continue;
		}
		if (low && !list_empty(&adds->items))
			it = list_entry(adds->items.next, struct turns_item, mine);
		evict(t, it, adds, out);
		passed = 0;
	}
}

/* ---- keys and copies -------------------------------------------------------------------- */

struct hash128 turns_next_key(const struct turns *t, struct hash128 from, const char *p, size_t n)
{
	struct hash128 h = t->hash(t->key, p, n);
	uint64_t word[5] = { from.lo, from.hi, h.lo, h.hi, n };

	return hash128(t->key, word, sizeof(word));
}

struct turns_tail turns_tail_of(const struct turns *t, const char *p, size_t n)
{
	size_t last = n < QUICK ? n : QUICK;

	return (struct turns_tail){ (uint32_t)n, (uint32_t)hash64(t->key, p + n - last, last) };
}

void turns_copy_put(struct turns_copy *c, const void *p, size_t n)
{
	if (n > 0)
		memcpy(c->data.p + c->data.n, p, n);
	c->data.n += n;
}

/* ---- what others call -------------------------------------------------------------- */

void turns_prefetch(const struct turns *t, struct hash128 key)
{
	prefetch(&t->bucket[key.lo & (t->n_buckets - 1)]);
}

/* Prefetch the first item in the bucket of <key>, which mostly is its own. */
static void prefetch_item(const struct turns *t, struct hash128 key)
{
	const char *p = (const char *)t->bucket[key.lo & (t->n_buckets - 1)];

	if (p != NULL)
		prefetch_bytes(p, ITEM_BYTES);
}

bool turns_get_and_prefetch(
    struct turns *t, struct hash128 key, const struct hash128 *next, struct turns_copy *out)
{
	struct turns_item *it;
	bool found = false;

	out->data.n = 0;
	pthread_mutex_lock(&t->lock);
	if (next != NULL)
		prefetch_item(t, *next);
	it = *item_at(t, key);
	if (it != NULL && vec_reserve(&out->data, it->n) == 0) {
		it->used = true;
		memcpy(out->tails, it->tails, sizeof(out->tails));
		if (it->n > 0)
			memcpy(out->data.p, it->data, it->n);
		out->data.n = it->n;
		found = true;
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

bool turns_get(struct turns *t, struct hash128 key, struct turns_copy *out)
{
	return turns_get_and_prefetch(t, key, NULL, out);
}

bool turns_get_ends(struct turns *t, struct hash128 key, void *first, size_t n_first, void *last,
    size_t n_last)
{
	struct turns_item *it;
	bool found;

	pthread_mutex_lock(&t->lock);
	it = *item_at(t, key);
	found = it != NULL && it->n >= n_first && it->n >= n_last;
	if (found) {
		it->used = true;
		memcpy(first, it->data, n_first);
		if (n_last > 0)
			memcpy(last, it->data + (it->n - n_last), n_last);
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

static void add_tail(struct turns_item *it, struct turns_tail tail)
{
	unsigned i = 0;

	while (i < TURNS_TAILS - 1 && (it->tails[i].n != tail.n || it->tails[i].quick != tail.quick))
		i++;
	memmove(it->tails + 1, it->tails, i * sizeof(it->tails[0]));
	it->tails[0] = tail;
}

/* Put the new <it> under its key. Returns false if there is no memory. */
static bool add_item(
    struct turns *t, uint64_t tenant, struct turns_item *it, struct turns_item **out)
{
	size_t n = sizeof(*it) + it->n;
	struct turns_tenant *of = tenant_get(t, tenant);

	if (of == NULL)
		return false;
	make_room(t, of, cost_of(n), out);
	it->tenant = of;
	*item_at(t, it->key) = it;
	list_append(&t->items, &it->all);
	list_append(&of->items, &it->mine);
	charge(t, of, n);
	t->st.points++;
	if (t->st.evicted > 0)
		prefetch_oldest(t);
	return true;
}

/* Put <it> under its key, or in front of <out> if there is an item, or no memory. */
static void put_locked(
    struct turns *t, uint64_t tenant, struct turns_item *it, struct turns_item **out)
{
	struct turns_item *old = *item_at(t, it->key);

	if (old != NULL)		/* another thread stored it first */
		old->used = true;
	else if (add_item(t, tenant, it, out))
		return;
	it->next = *out;
	*out = it;
}

/* Memory is allocated and freed outside of the lock. Returns NULL if there is none, or if the item
 * would be too large. */
static struct turns_item *item_new(
    const struct turns *t, struct hash128 key, const void *data, size_t n)
{
	struct turns_item *it;

	if (n > t->opts.max_bytes / PART_MOST || (it = mem_alloc(sizeof(*it) + n)) == NULL)
		return NULL;
	it->key = key;
	it->n = (uint32_t)n;
	if (n > 0)
		memcpy(it->data, data, n);
	return it;
}

static void free_items(struct turns_item *it)
{
	while (it != NULL) {
		struct turns_item *next = it->next;

		mem_free_wiped(it, sizeof(*it) + it->n);
		it = next;
	}
}

void turns_put(struct turns *t, uint64_t tenant, struct hash128 key, const void *data, size_t n)
{
	struct turns_item *it = item_new(t, key, data, n), *out = NULL;

	if (it == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	put_locked(t, tenant, it, &out);
	pthread_mutex_unlock(&t->lock);
	free_items(out);
}

void turns_put_tip(struct turns *t, uint64_t tenant, struct hash128 point, struct turns_tail tail,
    struct hash128 key, const void *data, size_t n)
{
	struct turns_item *it = item_new(t, key, data, n), *out = NULL;

	pthread_mutex_lock(&t->lock);
	if (it != NULL)
		put_locked(t, tenant, it, &out);
	if ((it = *item_at(t, point)) != NULL)
		add_tail(it, tail);
	pthread_mutex_unlock(&t->lock);
	free_items(out);
}

size_t turns_find_tip(struct turns *t, struct hash128 from, const struct turns_tail *of,
    struct span rest, struct turns_copy *out, struct hash128 *key)
{
	struct turns_tail tails[TURNS_TAILS];

	memcpy(tails, of, sizeof(tails));
	for (;;) {
		struct turns_tail *best = NULL;

		for (unsigned i = 0; i < TURNS_TAILS; i++)
			if (tails[i].n > 0 && tails[i].n <= rest.n && (best == NULL || tails[i].n > best->n))
				best = &tails[i];
		if (best == NULL)
			return 0;
		if (turns_tail_of(t, rest.p, best->n).quick == best->quick) {
			*key = turns_next_key(t, from, rest.p, best->n);
			if (turns_get(t, *key, out))
				return best->n;
		}
		best->n = 0;
	}
}

void turns_count(struct turns *t, size_t saved_bytes)
{
	count_add_any(saved_bytes > 0 ? &t->found : &t->missed, 1);
	count_add_any(&t->saved_bytes, saved_bytes);
}

/* ---- life --------------------------------------------------------------------------------- */

static size_t power_below(size_t n)
{
	return n > 0 ? (size_t)1 << (63 - __builtin_clzll(n)) : 1;
}

struct turns *turns_new(const struct turns_opts *o, const struct hash_key *key)
{
	struct turns *t = mem_alloc(sizeof(*t));

	if (t == NULL)
		return NULL;
	t->opts = *o;
	t->key = key;
	t->hash = hash128_best();
	t->n_buckets = power_below(o->max_bytes / BUCKET_BYTES);
	list_init(&t->items);
	t->bucket = mem_calloc(t->n_buckets, sizeof(*t->bucket));
	t->st.bytes = cost_of(sizeof(*t)) + cost_of(t->n_buckets * sizeof(*t->bucket));
	if (t->bucket != NULL && pthread_mutex_init(&t->lock, NULL) == 0)
		return t;
	mem_free(t->bucket);
	mem_free(t);
	return NULL;
}

void turns_clear(struct turns *t)
{
	struct turns_item *out = NULL;

	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	while (!list_empty(&t->items))
		evict(t, list_entry(t->items.next, struct turns_item, all), NULL, &out);
	pthread_mutex_unlock(&t->lock);
	free_items(out);
}

void turns_free(struct turns *t)
{
	if (t == NULL)
		return;
	turns_clear(t);
	pthread_mutex_destroy(&t->lock);
	mem_free(t->bucket);
	mem_free(t);
}

void turns_stats(struct turns *t, struct turns_stats *s)
{
	pthread_mutex_lock(&t->lock);
	*s = t->st;
	pthread_mutex_unlock(&t->lock);
	s->found = t->found;
	s->missed = t->missed;
	s->saved_bytes = t->saved_bytes;
}
