/* kept_marks.c - a direct-mapped table; each place has a lock that is only tried. */
#include <stdatomic.h>

#include "agent/base/lines.h"
#include "agent/route/kept_marks_in.h"

struct kept {
	_Alignas(64) _Atomic uint32_t locked;	/* guards the rest */
	uint32_t n;
	uint64_t hash;			/* 0: free */
	uint64_t key[MARKS_MAX];
};

struct kept_marks {
	struct lines places;		/* struct kept */
};

struct kept_marks *kept_marks_new(size_t bytes)
{
	struct kept_marks *k = mem_alloc(sizeof(*k));

	if (k == NULL || lines_alloc(&k->places, bytes, sizeof(struct kept)))
		return k;
	mem_free(k);
	return NULL;
}

void kept_marks_free(struct kept_marks *k)
{
	if (k == NULL)
		return;
	lines_free(&k->places);
	mem_free(k);
}

static struct kept *place_of(const struct kept_marks *k, uint64_t hash)
{
	return &((struct kept *)k->places.at)[(hash ^ hash >> 32) & k->places.mask];
}

void kept_marks_prefetch(const struct kept_marks *k, uint64_t hash)
{
	const char *x = (const char *)place_of(k, hash);

	for (unsigned i = 0; i < 3; i++)
		__builtin_prefetch(x + i * 64, 1);
}

static struct kept *try_lock(struct kept_marks *k, uint64_t hash)
{
	struct kept *x = place_of(k, hash);

	return atomic_exchange_explicit(&x->locked, 1, memory_order_acquire) == 0 ? x : NULL;
}

static void unlock(struct kept *x)
{
	atomic_store_explicit(&x->locked, 0, memory_order_release);
}

void kept_marks_put(
    struct kept_marks *k, uint64_t hash, uint32_t depth, const struct marks *m)
{
	struct kept *x = try_lock(k, hash);
	uint32_t n = m->n;

	if (x == NULL)
		return;
	while (n > 0 && m->depth[n - 1] > depth)
		n--;
	x->hash = hash;
	x->n = n;
	memcpy(x->key, m->key, n * sizeof(x->key[0]));
	unlock(x);
}

bool kept_marks_get(struct kept_marks *k, uint64_t hash, struct marks *m)
{
	struct kept *x = try_lock(k, hash);
	bool found;

	if (x == NULL)
		return false;
	found = hash != 0 && x->hash == hash;
	if (found) {
		m->n = x->n;
		memcpy(m->key, x->key, x->n * sizeof(x->key[0]));
	}
	unlock(x);
	return found;
}
