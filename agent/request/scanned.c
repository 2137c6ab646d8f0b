/* scanned.c - sets of places by uid. A body is hashed without the lock, and only if its uid is
 * found. */
#include "agent/request/scanned.h"

#include <string.h>

#include "agent/base/hash.h"

#define SAMPLED_FROM	1024u	/* bytes; SAMPLES pieces of SAMPLE fit in */
#define SAMPLE_FIRST	512u
#define SAMPLE_LAST	256u
#define SAMPLES		16u
#define SAMPLE		32u

void scanned_init(struct scanned *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
}

void scanned_fini(struct scanned *t)
{
	for (size_t i = 0; i < SCANNED_PLACES; i++)
		body_free(t->place[i].body);
	pthread_mutex_destroy(&t->lock);
}

static struct scanned_place *set_of(struct scanned *t, uint64_t uid)
{
	return &t->place[uid % (SCANNED_PLACES / SCANNED_WAYS) * SCANNED_WAYS];
}

/* Set whether <p> waits. */
static void set_waits(struct scanned *t, struct scanned_place *p, bool waits)
{
	__atomic_store_n(&t->n, t->n + waits - p->waits, __ATOMIC_RELAXED);
	p->waits = waits;
}

static void place_drop(struct scanned *t, struct scanned_place *p)
{
	set_waits(t, p, false);
	body_reset(p->body, API_NONE);
	t->lost++;
}

/* Return the place for <uid>: its own, else one that does not wait, else the oldest. */
static struct scanned_place *place_for(struct scanned *t, uint64_t uid)
{
	struct scanned_place *set = set_of(t, uid), *best = set;

	for (unsigned i = 0; i < SCANNED_WAYS; i++) {
		if (set[i].waits && set[i].uid == uid)
			return &set[i];
		if (best->waits && (!set[i].waits || set[i].since < best->since))
			best = &set[i];
	}
	return best;
}

/* Hash samples, because hashing a whole body costs more than half as much as reading it. */
static uint64_t hash_of(const struct hash_key *key, struct span bytes)
{
	size_t n = bytes.n, step = n / SAMPLES;
	uint64_t h[2 + SAMPLES];

	if (n <= SAMPLED_FROM)
		return hash64(key, bytes.p, n);
	h[0] = hash64(key, bytes.p, SAMPLE_FIRST);
	h[1] = hash64(key, bytes.p + n - SAMPLE_LAST, SAMPLE_LAST);
	for (size_t i = 0; i < SAMPLES; i++)
		h[2 + i] = hash64(key, bytes.p + i * step, SAMPLE);
	return hash64(key, h, sizeof(h));
}

void scanned_put(struct scanned *t, const struct hash_key *key, const struct scanned_key *k,
    const struct scanned_note *note, const struct prompt_opts *o, struct body **body, msec now)
{
	uint64_t hash = hash_of(key, k->bytes);
	struct scanned_place *p;
	struct body *left = *body;

	if (body_bytes(left) > SCANNED_BYTES)
		return;
	pthread_mutex_lock(&t->lock);
	p = place_for(t, k->uid);
	if (p->waits)
		place_drop(t, p);
	if (p->body != NULL || (p->body = body_new(o, key)) != NULL) {
		*body = p->body;
		*p = (struct scanned_place){
			.uid = k->uid, .tenant = k->tenant, .hash = hash,
			.n_bytes = k->bytes.n, .api = k->api, .since = now,
			.body = left, .note = *note,
		};
		set_waits(t, p, true);
	}
	pthread_mutex_unlock(&t->lock);
}

static struct scanned_place *place_find(struct scanned *t, const struct scanned_key *k)
{
	struct scanned_place *set = set_of(t, k->uid);

	for (unsigned i = 0; i < SCANNED_WAYS; i++)
		if (set[i].waits && set[i].uid == k->uid)
			return &set[i];
	return NULL;
}

static bool is_same_body(const struct scanned_place *p, const struct scanned_key *k, uint64_t hash)
{
	return p->tenant == k->tenant && p->api == k->api && p->n_bytes == k->bytes.n && p->hash == hash;
}

/* Exchange <*body> for the scanner in <p>. The one that is left there is freed if it is large. */
static void place_exchange(struct scanned *t, struct scanned_place *p, struct body **body)
{
	struct body *taken = p->body;

	set_waits(t, p, false);
	p->body = *body;
	*body = taken;
	body_reset(p->body, API_NONE);
	if (body_bytes(p->body) > SCANNED_BYTES) {
		body_free(p->body);
		p->body = NULL;
	}
}

bool scanned_take(struct scanned *t, const struct hash_key *key, const struct scanned_key *k,
    struct scanned_note *note, struct body **body)
{
	struct scanned_place *p;
	uint64_t hash;
	bool found = false;

	pthread_mutex_lock(&t->lock);
	found = place_find(t, k) != NULL;
	pthread_mutex_unlock(&t->lock);
	if (!found)
		return false;
	hash = hash_of(key, k->bytes);
	pthread_mutex_lock(&t->lock);
	p = place_find(t, k);
	found = p != NULL && is_same_body(p, k, hash);
	if (found) {
		*note = p->note;
		place_exchange(t, p, body);
		t->taken++;
	} else if (p != NULL) {
		place_drop(t, p);
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

void scanned_age(struct scanned *t, msec then)
{
	if (!scanned_any(t))
		return;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < SCANNED_PLACES; i++)
		if (t->place[i].waits && t->place[i].since < then)
			place_drop(t, &t->place[i]);
	pthread_mutex_unlock(&t->lock);
}
