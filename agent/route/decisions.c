/* decisions.c - a ring of records, and a ring of numbers for what differs in length.
 *
 * The deciding thread makes a record without a lock; here it is copied into its place, about 100 ns
 * under the lock. The place of a uid is found through chains of places, so nothing is allocated
 * after the start. Only the last record of a uid is chained, because a client or a configuration
 * that sends one uid with all requests must not make chains long. */
#include <pthread.h>

#include "agent/base/mem.h"
#include "agent/base/prefetch.h"
#include "agent/route/decisions.h"

#define NOWHERE		UINT32_MAX
#define UNCHAINED	(UINT32_MAX - 1)	/* in link.next: a later record has that uid */
#define BLOCKS_EACH	32u	/* room for a mean prompt of 16,000 tokens */
#define BUCKETS_EACH	4u	/* so that three of four are empty: a new uid then reads no chain */
#define NAME_CHARS	128

enum { BLOCK = 0x424c4f43 };

struct name {
	uint64_t hash;
	const char *pool;
	char name[NAME_CHARS];
};

/* One for each place. A walk along a chain reads these only, because records are far apart. */
struct place_link {
	uint32_t next;		/* in the chain; NOWHERE: the last */
	uint32_t tag;		/* of the uid there: the low bits of its hash */
};

struct decisions {
	pthread_mutex_t lock;		/* guards all below that changes */
	struct decision *ring;
	struct place_link *link;		/* of each place */
	uint32_t *bucket;		/* the first place of a chain; NOWHERE: none */
	uint32_t keep, n_buckets;	/* constant; <n_buckets> is a power of two */
	uint64_t made;
	uint32_t *blocks;
	uint64_t n_blocks, blocks_made;	/* size of the ring, a power of two; ever written */
	struct name names[SERVERS_MAX];
	struct hash_key key;		/* of blocks; constant */
};

static uint64_t power_above(uint64_t n)
{
	uint64_t p = DECISION_BLOCKS_MAX;

	while (p < n)
		p *= 2;
	return p;
}

uint64_t decisions_bytes(uint32_t keep)
{
	if (keep == 0)
		return 0;
	return sizeof(struct decisions) +
	       (uint64_t)keep * (sizeof(struct decision) + sizeof(struct place_link)) +
	       (power_above(keep) * BUCKETS_EACH + power_above((uint64_t)keep * BLOCKS_EACH)) *
		   sizeof(uint32_t);
}

static void make_key(struct hash_key *to, const struct hash_key *from, uint64_t seed)
{
	uint64_t h = hash_mix(from, 15, seed);

	for (size_t i = 0; i < sizeof(to->secret); i += sizeof(h)) {
		h = hash_mix(from, h, i);
		memcpy(to->secret + i, &h, sizeof(h));
	}
}

struct decisions *decisions_new(uint32_t keep, const struct hash_key *key, uint64_t seed)
{
	struct decisions *d = mem_alloc(sizeof(*d));

	if (d == NULL)
		return NULL;
	pthread_mutex_init(&d->lock, NULL);
	d->keep = keep;
	d->n_buckets = (uint32_t)power_above(keep) * BUCKETS_EACH;
	d->n_blocks = power_above((uint64_t)keep * BLOCKS_EACH);
	d->ring = mem_alloc_huge(keep * sizeof(*d->ring));
	d->link = mem_calloc(keep, sizeof(*d->link));
	d->bucket = mem_calloc(d->n_buckets, sizeof(*d->bucket));
	d->blocks = mem_calloc(d->n_blocks, sizeof(*d->blocks));
	if (d->ring == NULL || d->link == NULL || d->bucket == NULL || d->blocks == NULL) {
		decisions_free(d);
		return NULL;
	}
	memset(d->bucket, 0xff, d->n_buckets * sizeof(*d->bucket));
	make_key(&d->key, key, seed);
	return d;
}

void decisions_free(struct decisions *d)
{
	if (d == NULL)
		return;
	pthread_mutex_destroy(&d->lock);
	mem_wipe(&d->key, sizeof(d->key));
	mem_free_line(d->ring);
	mem_free(d->link);
	mem_free(d->bucket);
	mem_free(d->blocks);
	mem_free(d);
}

/* ---- names of servers ---------------------------------------------------------------------- */

void decisions_name(
    struct decisions *d, server_id id, uint64_t hash, const char *pool, const char *name)
{
	struct name *to;

	if (d == NULL)
		return;
	to = &d->names[id];
	pthread_mutex_lock(&d->lock);
	to->hash = hash;
	to->pool = pool;
	memset(to->name, 0, sizeof(to->name));
	memcpy(to->name, name, strnlen(name, sizeof(to->name) - 1));
	pthread_mutex_unlock(&d->lock);
}

void decisions_name_of(struct decisions *d, struct decision_server s, char *out, size_t cap)
{
	size_t n = 0;

	if (d != NULL && s.id < SERVERS_MAX) {
		const struct name *from = &d->names[s.id];

		pthread_mutex_lock(&d->lock);
		if ((uint32_t)from->hash == s.tag) {
			n = strnlen(from->name, cap - 1);
			memcpy(out, from->name, n);
		}
		pthread_mutex_unlock(&d->lock);
	}
	out[n] = '\0';
}

static bool is_named(const struct decisions *d, server_id id, const char *pool, struct span name)
{
	return d->names[id].pool == pool && span_eq(name, span_str(d->names[id].name));
}

/* Find a server by name: first among the record's candidates, then among all. */
static struct decision_server server_named(
    const struct decisions *d, const struct decision *x, struct span name)
{
	for (uint32_t i = 0; i < x->n_kept; i++) {
		struct decision_server s = x->candidate[i].server;

		if (is_named(d, s.id, x->pool, name) && (uint32_t)d->names[s.id].hash == s.tag)
			return s;
	}
	for (unsigned id = 0; id < SERVERS_MAX; id++) {
		if (is_named(d, (server_id)id, x->pool, name))
			return (struct decision_server){ (server_id)id, (uint32_t)d->names[id].hash };
	}
	return (struct decision_server){ .id = SERVER_NONE };
}

/* ---- places -------------------------------------------------------------------------------- */

static uint32_t *bucket_of(struct decisions *d, uint64_t uid_hash)
{
	return &d->bucket[uid_hash & (d->n_buckets - 1)];
}

static uint32_t place_find(struct decisions *d, uint64_t uid_hash)
{
	uint32_t at = *bucket_of(d, uid_hash);

	while (at != NOWHERE &&
	       (d->link[at].tag != (uint32_t)uid_hash || d->ring[at].uid_hash != uid_hash))
		at = d->link[at].next;
	return at;
}

static void unchain(struct decisions *d, uint32_t at)
{
	uint32_t *from = bucket_of(d, d->link[at].tag);

	if (d->link[at].next == UNCHAINED)
		return;
	while (*from != at)
		from = &d->link[*from].next;
	*from = d->link[at].next;
	d->link[at].next = UNCHAINED;
}

static uint32_t place_next(struct decisions *d, uint64_t uid_hash)
{
	uint32_t at = (uint32_t)(d->made % d->keep), *b = bucket_of(d, uid_hash);

	if (d->made >= d->keep)
		unchain(d, at);
	__atomic_store_n(&d->made, d->made + 1, __ATOMIC_RELAXED);	/* decisions_prefetch_put() */
	d->link[at].next = *b;
	__atomic_store_n(&d->link[at].tag, (uint32_t)uid_hash, __ATOMIC_RELAXED);
	*b = at;
	return at;
}

static uint64_t put_blocks(struct decisions *d, const uint32_t *blocks, uint32_t n)
{
	uint64_t at = d->blocks_made;

	for (uint32_t i = 0; i < n; i++)
		d->blocks[(at + i) & (d->n_blocks - 1)] = blocks[i];
	d->blocks_made += n;
	return at;
}

void decisions_prefetch(struct decisions *d, uint64_t uid_hash)
{
	if (d != NULL)
		__builtin_prefetch(bucket_of(d, uid_hash), 1);
}

/* Another thread may take that place first; the prefetch is then useless. */
void decisions_prefetch_put(struct decisions *d, uint64_t uid_hash)
{
	uint64_t at;

	if (d == NULL)
		return;
	decisions_prefetch(d, uid_hash);
	at = __atomic_load_n(&d->made, __ATOMIC_RELAXED) % d->keep;
	/* the chain that the place will leave */
	__builtin_prefetch(bucket_of(d, __atomic_load_n(&d->link[at].tag, __ATOMIC_RELAXED)), 1);
	prefetch_bytes_to_write(&d->ring[at], sizeof(d->ring[at]));
}

uint64_t decisions_put(struct decisions *d, const struct decision *x, const uint32_t *blocks)
{
	uint64_t number;
	uint32_t at;

	if (d == NULL)
		return 0;
	pthread_mutex_lock(&d->lock);
	at = place_find(d, x->uid_hash);
	if (at != NOWHERE && d->ring[at].after == AFTER_OPEN) {
		number = d->ring[at].number;
	} else {
		if (at != NOWHERE)
			unchain(d, at);
		at = place_next(d, x->uid_hash);
		number = d->made;
	}
	d->ring[at] = *x;
	d->ring[at].number = number;
	d->ring[at].blocks = put_blocks(d, blocks, x->n_blocks);
	pthread_mutex_unlock(&d->lock);
	return number;
}

void decisions_took(struct decisions *d, uint64_t number, uint32_t us)
{
	struct decision *x;

	if (d == NULL || number == 0)
		return;
	x = &d->ring[(number - 1) % d->keep];
	pthread_mutex_lock(&d->lock);
	if (x->number == number)
		x->us = us;
	pthread_mutex_unlock(&d->lock);
}

bool decisions_has(struct decisions *d, uint64_t number)
{
	bool has;

	if (d == NULL || number == 0)
		return false;
	pthread_mutex_lock(&d->lock);
	has = d->ring[(number - 1) % d->keep].number == number;
	pthread_mutex_unlock(&d->lock);
	return has;
}

/* ---- facts --------------------------------------------------------------------------------- */

static void learn_first(struct decision *x, const struct fact *f, msec now)
{
	if (x->after != AFTER_OPEN)
		return;
	x->after = AFTER_FIRST;
	x->first_ms = now - x->at;
	x->status = f->status;
}

static void learn_done(struct decision *x, const struct fact *f, uint64_t output_tokens, msec now)
{
	if (x->after == AFTER_DONE)
		return;
	x->after = AFTER_DONE;
	x->done_ms = now - x->at;
	x->status = f->status;
	x->cause = (uint8_t)fact_cause(f);
	memcpy(x->ts, f->ts, sizeof(x->ts));
	x->retries = f->retries;
	x->output_tokens = output_tokens;
	x->engine_tokens = f->prompt_tokens;
	x->cached_tokens = f->cached_tokens;
}

void decisions_learn(
    struct decisions *d, uint64_t uid_hash, const struct fact *f, uint64_t output_tokens, msec now)
{
	struct decision *x;
	uint32_t at;

	if (d == NULL)
		return;
	pthread_mutex_lock(&d->lock);
	at = place_find(d, uid_hash);
	if (at != NOWHERE) {
		x = &d->ring[at];
		if (f->server.n > 0 && x->after != AFTER_DONE && x->pool != NULL)
			x->went = server_named(d, x, f->server);
		if (f->kind == FACT_FIRST)
			learn_first(x, f, now);
		else
			learn_done(x, f, output_tokens, now);
	}
	pthread_mutex_unlock(&d->lock);
}

/* ---- blocks of prompts --------------------------------------------------------------------- */

uint32_t decisions_blocks(
    const struct decisions *d, const struct decision_pages *p, uint32_t of, uint32_t *out)
{
	uint32_t n = 0, i = 0;

	while (d != NULL && p->groups != NULL && i < p->n && n < DECISION_BLOCKS_MAX) {
		i = p->n - i < of ? p->n : i + of;
		out[n++] = (uint32_t)(hash_mix(
		    &d->key, BLOCK, chain_upto(p->start, p->groups, p->pages, i)) >> 16);
	}
	return n;
}

uint32_t decisions_blocks_of(struct decisions *d, const struct decision *x,
			     uint32_t out[DECISION_BLOCKS_MAX])
{
	uint32_t n = 0;

	if (d == NULL)
		return 0;
	pthread_mutex_lock(&d->lock);
	if (d->blocks_made - x->blocks <= d->n_blocks)
		for (; n < x->n_blocks; n++)
			out[n] = d->blocks[(x->blocks + n) & (d->n_blocks - 1)];
	pthread_mutex_unlock(&d->lock);
	return n;
}

/* ---- reading ------------------------------------------------------------------------------- */

size_t decisions_read(struct decisions *d, uint64_t before, struct decision *out, size_t n)
{
	uint64_t number, oldest;
	size_t got = 0;

	if (d == NULL)
		return 0;
	pthread_mutex_lock(&d->lock);
	number = before > d->made ? d->made : before > 0 ? before - 1 : 0;
	oldest = d->made > d->keep ? d->made - d->keep : 0;
	for (; number > oldest && got < n; number--)
		out[got++] = d->ring[(number - 1) % d->keep];
	pthread_mutex_unlock(&d->lock);
	return got;
}

bool decisions_find(struct decisions *d, uint64_t uid_hash, struct decision *out)
{
	uint32_t at;

	if (d == NULL)
		return false;
	pthread_mutex_lock(&d->lock);
	at = place_find(d, uid_hash);
	if (at != NOWHERE)
		*out = d->ring[at];
	pthread_mutex_unlock(&d->lock);
	return at != NOWHERE;
}

uint64_t decisions_number(struct decisions *d, uint64_t uid_hash)
{
	uint64_t number = 0;
	uint32_t at;

	if (d == NULL)
		return 0;
	pthread_mutex_lock(&d->lock);
	at = place_find(d, uid_hash);
	if (at != NOWHERE)
		number = d->ring[at].number;
	pthread_mutex_unlock(&d->lock);
	return number;
}
