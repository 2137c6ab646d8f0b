/* traffic.c - two halves of bytes, each a row of items: a head that says what follows, and that.
 * Items are copied in and out, so alignment does not matter. */
#include <pthread.h>

#include "agent/base/mem.h"
#include "agent/route/traffic.h"

enum item { ITEM_ASKED, ITEM_ENDED };

struct traffic {
	uint8_t *half[2];
	size_t cap;			/* of each half; constant, like the next two */
	uint32_t block_tokens;
	struct hash_key key;
	uint64_t blocks[TRAFFIC_BLOCKS_MAX];	/* of the item being taken; only for the writer */
	pthread_mutex_t lock;		/* guards the next two */
	unsigned filling;
	size_t n;			/* bytes in that half */
	/* atomics: */
	bool closed;
	uint64_t dropped;
};

static void make_key(struct hash_key *to, const struct hash_key *from, uint64_t seed)
{
	uint64_t h = hash_mix(from, 16, seed);

	for (size_t i = 0; i < sizeof(to->secret); i += sizeof(h)) {
		h = hash_mix(from, h, i);
		memcpy(to->secret + i, &h, sizeof(h));
	}
}

struct traffic *traffic_new(
    size_t half_bytes, uint32_t block_tokens, const struct hash_key *key, uint64_t seed)
{
	struct traffic *r = mem_alloc(sizeof(*r));

	if (r == NULL)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->cap = half_bytes;
	r->block_tokens = block_tokens;
	make_key(&r->key, key, seed);
	for (unsigned i = 0; i < 2; i++) {
		if ((r->half[i] = mem_alloc(half_bytes)) == NULL) {
			traffic_free(r);
			return NULL;
		}
	}
	return r;
}

void traffic_free(struct traffic *r)
{
	if (r == NULL)
		return;
	pthread_mutex_destroy(&r->lock);
	mem_free(r->half[0]);
	mem_free(r->half[1]);
	mem_wipe(&r->key, sizeof(r->key));
	mem_free(r);
}

bool traffic_wants(const struct traffic *r)
{
	return r != NULL && !__atomic_load_n(&r->closed, __ATOMIC_RELAXED);
}

void traffic_close(struct traffic *r)
{
	if (r != NULL)
		__atomic_store_n(&r->closed, true, __ATOMIC_RELAXED);
}

uint64_t traffic_dropped(const struct traffic *r)
{
	return r != NULL ? __atomic_load_n(&r->dropped, __ATOMIC_RELAXED) : 0;
}

uint32_t traffic_blocks(const struct traffic *r, uint64_t space, const page_key *pages, uint32_t n,
    uint32_t page_tokens, uint64_t *out, uint32_t *block_tokens)
{
	uint32_t of = page_tokens > 0 && page_tokens < r->block_tokens
	    ? r->block_tokens / page_tokens
	    : 1,
		 k = 0;
	uint64_t h = space;

	*block_tokens = of * page_tokens;
	for (uint32_t i = 0; i + of <= n && k < TRAFFIC_BLOCKS_MAX; i += of) {
		h = hash_mix(&r->key, h, hash64(&r->key, pages + i, of * sizeof(*pages)));
		out[k++] = h;
	}
	return k;
}

/* ---- in ------------------------------------------------------------------------------------ */

static void put_item(struct traffic *r, enum item what, const void *head, size_t n_head,
    const void *rest, size_t n_rest)
{
	size_t n = sizeof(what) + n_head + n_rest;
	uint8_t *to;

	pthread_mutex_lock(&r->lock);
	if (n > r->cap - r->n) {
		__atomic_fetch_add(&r->dropped, 1, __ATOMIC_RELAXED);
	} else {
		to = r->half[r->filling] + r->n;
		memcpy(to, &what, sizeof(what));
		memcpy(to + sizeof(what), head, n_head);
		if (n_rest > 0)
			memcpy(to + sizeof(what) + n_head, rest, n_rest);
		r->n += n;
	}
	pthread_mutex_unlock(&r->lock);
}

void traffic_ask(struct traffic *r, const struct traffic_asked *a, const uint64_t *blocks)
{
	if (traffic_wants(r))
		put_item(r, ITEM_ASKED, a, sizeof(*a), blocks, a->n_blocks * sizeof(*blocks));
}

void traffic_end(struct traffic *r, const struct traffic_ended *e)
{
	if (traffic_wants(r))
		put_item(r, ITEM_ENDED, e, sizeof(*e), NULL, 0);
}

/* ---- out ----------------------------------------------------------------------------------- */

static const uint8_t *pass_asked(struct traffic *r, const uint8_t *p, const struct traffic_sink *s)
{
	struct traffic_asked a;

	memcpy(&a, p, sizeof(a));
	memcpy(r->blocks, p + sizeof(a), a.n_blocks * sizeof(*r->blocks));
	s->asked(s->arg, &a, r->blocks);
	return p + sizeof(a) + a.n_blocks * sizeof(*r->blocks);
}

static const uint8_t *pass_ended(const uint8_t *p, const struct traffic_sink *s)
{
	struct traffic_ended e;

	memcpy(&e, p, sizeof(e));
	s->ended(s->arg, &e);
	return p + sizeof(e);
}

void traffic_take(struct traffic *r, const struct traffic_sink *s)
{
	const uint8_t *p, *end;
	enum item what;

	pthread_mutex_lock(&r->lock);
	p = r->half[r->filling];
	end = p + r->n;
	r->filling = 1 - r->filling;
	r->n = 0;
	pthread_mutex_unlock(&r->lock);
	while (p < end) {
		memcpy(&what, p, sizeof(what));
		p += sizeof(what);
		p = what == ITEM_ASKED ? pass_asked(r, p, s) : pass_ended(p, s);
	}
}
