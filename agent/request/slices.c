/* slices.c - a hash table with chains by uid, and a list by age through all requests. */
#include "agent/base/mem.h"
#include "agent/request/slices.h"
#include "agent/request/text_ids_in.h"

#define RAW_FIRST	16384u		/* bytes: about one frame of HAProxy */

void slices_init(struct slices *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	list_init(&t->by_age);
}

void sliced_free(struct sliced *s)
{
	if (s == NULL)
		return;
	body_free(s->body);
	text_ids_free(s->text);
	buf_free(&s->raw);
	mem_wipe(s->names, sizeof(s->names));
	mem_free(s);
}

static struct sliced **chain_of(struct slices *t, uint64_t uid)
{
	struct sliced **at = &t->table[uid % SLICE_BUCKETS];

	while (*at != NULL && (*at)->uid != uid)
		at = &(*at)->chain;
	return at;
}

static struct sliced *remove_from(struct slices *t, struct sliced **at)
{
	struct sliced *s = *at;

	if (s == NULL)
		return NULL;
	*at = s->chain;
	list_remove(&s->by_age);
	__atomic_store_n(&t->n, t->n - 1, __ATOMIC_RELAXED);
	t->bytes -= s->bytes;
	return s;
}

static struct sliced *remove_oldest(struct slices *t)
{
	struct sliced *s = list_entry(t->by_age.next, struct sliced, by_age);

	return remove_from(t, chain_of(t, s->uid));
}

void slices_fini(struct slices *t)
{
	while (!list_empty(&t->by_age))
		sliced_free(remove_oldest(t));
	pthread_mutex_destroy(&t->lock);
}

static bool keep_name(struct sliced *s, size_t *at, struct span from, struct span *to)
{
	if (from.n > sizeof(s->names) - *at)
		return false;
	if (from.n > 0)
		memcpy(s->names + *at, from.p, from.n);
	*to = span_of(s->names + *at, from.n);
	*at += from.n;
	return true;
}

struct sliced *sliced_new(const struct prompt_opts *o, const struct hash_key *key, struct span pool,
			  struct span tenant, struct span model)
{
	struct sliced *s = mem_alloc(sizeof(*s));
	size_t at = 0;

	if (s == NULL)
		return NULL;
	list_init(&s->by_age);
	s->state_chunk = SIZE_MAX;
	if (keep_name(s, &at, pool, &s->pool) && keep_name(s, &at, tenant, &s->tenant) &&
	    keep_name(s, &at, model, &s->model) && (s->body = body_new(o, key)) != NULL)
		return s;
	sliced_free(s);
	return NULL;
}

bool sliced_add_raw(struct sliced *s, struct span slice)
{
	if (s->raw.cap == 0)
		buf_room(&s->raw, s->raw_wanted && slice.n < RAW_FIRST ? RAW_FIRST : slice.n);
	buf_span(&s->raw, slice);
	return !s->raw.failed;
}

/* A request that waits has no room to spare: thousands may. Without memory all stays. */
void sliced_drop_raw(struct sliced *s, uint64_t needs)
{
	size_t gone = (size_t)(needs - s->raw_from);
	struct buf rest = { .n = 0 };

	if (s->raw_wanted || gone == 0)
		return;
	if (gone < s->raw.n) {
		if (!buf_room(&rest, s->raw.n - gone))
			return;
		buf_add(&rest, s->raw.p + gone, s->raw.n - gone);
	}
	buf_free(&s->raw);
	s->raw = rest;
	s->raw_from = needs;
}

struct span sliced_raw(const struct sliced *s)
{
	return span_of(s->raw.p, s->raw.n);
}

/* HAProxy sends each slice twice if its filter is declared twice. The second must not drop the
 * request. */
struct sliced *slices_take(struct slices *t, uint64_t uid, int64_t seq, bool *waits)
{
	struct sliced **at, *s = NULL;
	bool next = false;

	pthread_mutex_lock(&t->lock);
	at = chain_of(t, uid);
	*waits = *at != NULL && seq < (*at)->next_seq;
	if (*waits) {
		t->repeated++;
	} else if (*at != NULL) {
		next = seq == (*at)->next_seq;
		s = remove_from(t, at);
	}
	pthread_mutex_unlock(&t->lock);
	if (next)
		return s;
	sliced_free(s);
	return NULL;
}

void slices_forget(struct slices *t, uint64_t uid)
{
	struct sliced *s;

	if (__atomic_load_n(&t->n, __ATOMIC_RELAXED) == 0)
		return;
	pthread_mutex_lock(&t->lock);
	s = remove_from(t, chain_of(t, uid));
	pthread_mutex_unlock(&t->lock);
	sliced_free(s);
}

void slices_restart(struct slices *t, uint64_t uid)
{
	struct sliced *s;

	pthread_mutex_lock(&t->lock);
	s = remove_from(t, chain_of(t, uid));
	if (s != NULL)
		t->again++;
	pthread_mutex_unlock(&t->lock);
	sliced_free(s);
}

static void insert_youngest(struct slices *t, struct sliced *s)
{
	struct sliced **at = chain_of(t, s->uid);

	s->chain = *at;
	*at = s;
	list_append(&t->by_age, &s->by_age);
	__atomic_store_n(&t->n, t->n + 1, __ATOMIC_RELAXED);
	t->bytes += s->bytes;
}

void slices_put(struct slices *t, struct sliced *s, size_t max_bytes, msec now)
{
	s->since = now;
	s->bytes = sizeof(*s) + body_bytes(s->body) + text_ids_bytes(s->text) + s->raw.cap;
	pthread_mutex_lock(&t->lock);
	sliced_free(remove_from(t, chain_of(t, s->uid)));
	while (t->n > 0 && t->bytes + s->bytes > max_bytes) {
		sliced_free(remove_oldest(t));
		t->dropped++;
	}
	if (s->bytes <= max_bytes) {
		insert_youngest(t, s);
		s = NULL;
	} else {
		t->dropped++;
	}
	pthread_mutex_unlock(&t->lock);
	sliced_free(s);
}

void slices_age(struct slices *t, msec then, unsigned most)
{
	pthread_mutex_lock(&t->lock);
	while (most-- > 0 && !list_empty(&t->by_age) &&
	       list_entry(t->by_age.next, struct sliced, by_age)->since < then) {
		sliced_free(remove_oldest(t));
		t->aged++;
	}
	pthread_mutex_unlock(&t->lock);
}
