/* traffic_text.c - two generations of block numbers, and waiting requests in a list by age and a
 * hash table by uid. An exact order of use of blocks would need two links for every block of every
 * prompt. */
#include <inttypes.h>
#include <stdio.h>

#include "agent/base/list.h"
#include "agent/base/mem.h"
#include "agent/route/traffic_text.h"

/* ---- numbers of blocks --------------------------------------------------------------------- */

struct generation {
	uint64_t *key;
	uint32_t *number;	/* 0: free */
	uint32_t n;
};

struct waiting {
	struct list by_age, chain;
	struct traffic_asked a;
	int64_t first_ms, done_ms;	/* -1: not told */
	int32_t status;
	uint32_t output_tokens;
	uint32_t *ids;
};

struct traffic_text {
	struct traffic_text_opts o;
	struct generation now, before;
	uint32_t n_slots, last_number;	/* slots of a generation, a power of two; last number given */
	struct waiting *pool;		/* o.waiting of them */
	struct list by_age, unused;
	struct list *bucket;		/* n_buckets; by uid */
	uint32_t n_buckets;
	size_t ids_bytes;
	bool begun;
	msec start, newest;		/* time of the first request; of the latest */
	struct hash_key secret;
	void (*put)(void *arg, const char *line, size_t n);
	void *arg;
	char line[TRAFFIC_LINE_MAX];
};

void traffic_text_defaults(struct traffic_text_opts *o)
{
	*o = (struct traffic_text_opts){
		.blocks = 1u << 19, .waiting = 1u << 14, .waiting_bytes = 8u << 20,
	};
}

static uint32_t power_above(uint32_t n)
{
	uint32_t p = 16;

	while (p < n)
		p *= 2;
	return p;
}

/* At most three in four slots of a generation are used. */
static uint32_t slots_of(const struct traffic_text_opts *o)
{
	return power_above(o->blocks / 2 + o->blocks / 6);
}

uint64_t traffic_text_bytes(const struct traffic_text_opts *o)
{
	return sizeof(struct traffic_text) +
	    2 * (uint64_t)slots_of(o) * (sizeof(uint64_t) + sizeof(uint32_t)) +
	    (uint64_t)o->waiting * sizeof(struct waiting) +
	    power_above(o->waiting) * sizeof(struct list) + o->waiting_bytes;
}

static int generation_new(struct generation *g, uint32_t n_slots)
{
	g->key = mem_calloc(n_slots, sizeof(*g->key));
	g->number = mem_calloc(n_slots, sizeof(*g->number));
	return g->key != NULL && g->number != NULL ? 0 : -1;
}

/* Return the slot of <key>, or the free one where it would go. */
static uint32_t *slot_of(const struct traffic_text *t, const struct generation *g, uint64_t key)
{
	uint32_t i = (uint32_t)(key >> 32) & (t->n_slots - 1);

	while (g->number[i] != 0 && g->key[i] != key)
		i = (i + 1) & (t->n_slots - 1);
	return &g->number[i];
}

static void next_generation(struct traffic_text *t)
{
	struct generation old = t->before;

	t->before = t->now;
	t->now = old;
	t->now.n = 0;
	memset(t->now.number, 0, t->n_slots * sizeof(*t->now.number));
}

static uint32_t number_of(struct traffic_text *t, uint64_t key)
{
	uint32_t *to = slot_of(t, &t->now, key), number;

	if (*to != 0)
		return *to;
	number = *slot_of(t, &t->before, key);
	if (number == 0)
		number = ++t->last_number;
	if (t->now.n >= t->o.blocks / 2) {
		next_generation(t);
		to = slot_of(t, &t->now, key);
	}
	*to = number;
	t->now.key[to - t->now.number] = key;
	t->now.n++;
	return number;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct traffic_text *traffic_text_new(const struct traffic_text_opts *o,
				    void (*put)(void *arg, const char *line, size_t n), void *arg)
{
	struct traffic_text *t = mem_alloc(sizeof(*t));

	if (t == NULL)
		return NULL;
	t->o = *o;
	t->put = put;
	t->arg = arg;
	t->n_slots = slots_of(o);
	t->n_buckets = power_above(o->waiting);
	list_init(&t->by_age);
	list_init(&t->unused);
	t->pool = mem_calloc(o->waiting, sizeof(*t->pool));
	t->bucket = mem_calloc(t->n_buckets, sizeof(*t->bucket));
	if (generation_new(&t->now, t->n_slots) < 0 || generation_new(&t->before, t->n_slots) < 0 ||
	    t->pool == NULL || t->bucket == NULL) {
		traffic_text_free(t);
		return NULL;
	}
	for (uint32_t i = 0; i < o->waiting; i++)
		list_append(&t->unused, &t->pool[i].by_age);
	for (uint32_t i = 0; i < t->n_buckets; i++)
		list_init(&t->bucket[i]);
	return t;
}

void traffic_text_free(struct traffic_text *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; t->pool != NULL && i < t->o.waiting; i++)
		mem_free(t->pool[i].ids);
	mem_free(t->now.key);
	mem_free(t->now.number);
	mem_free(t->before.key);
	mem_free(t->before.number);
	mem_free(t->pool);
	mem_free(t->bucket);
	mem_wipe(&t->secret, sizeof(t->secret));
	mem_free(t);
}

void traffic_text_secret(struct traffic_text *t, const struct hash_key *secret)
{
	t->secret = *secret;
}

/* ---- a line -------------------------------------------------------------------------------- */

static char *put_number(char *p, const char *field, int64_t v)
{
	return v < 0 ? p : p + sprintf(p, ",\"%s\":%" PRId64, field, v);
}

static char *put_name(const struct traffic_text *t, char *p, const char *field, uint64_t hash)
{
	return hash == 0
	    ? p
	    : p + sprintf(p, ",\"%s\":\"%08x\"", field, (uint32_t)hash_mix(&t->secret, 1, hash));
}

static char *put_ids(char *p, const struct waiting *w)
{
	p += sprintf(p, ",\"hash_ids\":[");
	for (uint32_t i = 0; i < w->a.n_blocks; i++)
		p += sprintf(p, i > 0 ? ",%u" : "%u", w->ids[i]);
	*p++ = ']';
	return p;
}

static void make_line(struct traffic_text *t, const struct waiting *w)
{
	const struct traffic_asked *a = &w->a;
	/* threads read their clocks before they queue */
	int64_t since = a->at > t->start ? a->at - t->start : 0;
	char *p = t->line;

	p += sprintf(p, "{\"timestamp\":%" PRId64 ",\"input_length\":%" PRIu64 ",\"output_length\":%u",
		     since, a->tokens, w->output_tokens);
	p = put_ids(p, w);
	p = put_number(p, "block_size", a->block_tokens);
	p = put_number(p, "cached", a->cached);
	p = put_number(p, "first_ms", w->first_ms);
	p = put_number(p, "total_ms", w->done_ms);
	p = put_number(p, "status", w->status);
	p = put_name(t, p, "server", a->server);
	p = put_name(t, p, "pool", a->pool);
	p = put_name(t, p, "model", a->model);
	p = put_name(t, p, "tenant", a->tenant);
	p = put_name(t, p, "session", a->session);
	p += sprintf(p, "}\n");
	t->put(t->arg, t->line, (size_t)(p - t->line));
}

/* ---- waiting requests ---------------------------------------------------------------------- */

static struct list *bucket_of(struct traffic_text *t, uint64_t uid)
{
	return &t->bucket[uid & (t->n_buckets - 1)];
}

static struct waiting *waiting_find(struct traffic_text *t, uint64_t uid)
{
	struct list *head = bucket_of(t, uid);

	for (struct list *l = head->next; l != head; l = l->next) {
		struct waiting *w = list_entry(l, struct waiting, chain);

		if (w->a.uid == uid)
			return w;
	}
	return NULL;
}

static void waiting_free(struct traffic_text *t, struct waiting *w)
{
	t->ids_bytes -= w->a.n_blocks * sizeof(*w->ids);
	mem_free(w->ids);
	w->ids = NULL;
	list_remove(&w->chain);
	list_remove(&w->by_age);
	list_append(&t->unused, &w->by_age);
}

static void waiting_finish(struct traffic_text *t, struct waiting *w)
{
	make_line(t, w);
	waiting_free(t, w);
}

static struct waiting *waiting_oldest(struct traffic_text *t)
{
	return list_empty(&t->by_age) ? NULL : list_entry(t->by_age.next, struct waiting, by_age);
}

/* Add a waiting request; the oldest ones make room. Returns NULL if there is no memory for it. */
static struct waiting *waiting_begin(struct traffic_text *t, uint32_t n_blocks)
{
	size_t bytes = n_blocks * sizeof(uint32_t);
	struct waiting *w;

	while ((list_empty(&t->unused) || t->ids_bytes + bytes > t->o.waiting_bytes) &&
	    waiting_oldest(t) != NULL)
		waiting_finish(t, waiting_oldest(t));
	if (list_empty(&t->unused) || t->ids_bytes + bytes > t->o.waiting_bytes)
		return NULL;
	w = list_entry(t->unused.next, struct waiting, by_age);
	if ((w->ids = mem_alloc(bytes > 0 ? bytes : 1)) == NULL)
		return NULL;
	t->ids_bytes += bytes;
	list_remove(&w->by_age);
	list_append(&t->by_age, &w->by_age);
	return w;
}

/* A later slice, or the same uid again while it is open, replaces the request: the last one has
 * seen most of the prompt. */
void traffic_text_asked(void *text, const struct traffic_asked *a, const uint64_t *blocks)
{
	struct traffic_text *t = text;
	struct waiting *w = waiting_find(t, a->uid);
	msec at = a->at;

	if (w != NULL) {
		at = w->a.at;
		waiting_free(t, w);
	}
	if ((w = waiting_begin(t, a->n_blocks)) == NULL)
		return;
	if (!t->begun)
		t->start = at;
	t->newest = a->at;
	t->begun = true;
	w->a = *a;
	w->a.at = at;
	w->first_ms = w->done_ms = w->status = -1;
	w->output_tokens = 0;
	for (uint32_t i = 0; i < a->n_blocks; i++)
		w->ids[i] = number_of(t, blocks[i]);
	list_append(bucket_of(t, a->uid), &w->chain);
}

void traffic_text_ended(void *text, const struct traffic_ended *e)
{
	struct traffic_text *t = text;
	struct waiting *w = waiting_find(t, e->uid);

	if (w == NULL)
		return;
	w->status = e->status;
	if (e->kind == TRAFFIC_FIRST) {
		if (e->stream && w->first_ms < 0)
			w->first_ms = e->at - w->a.at;
		return;
	}
	w->done_ms = e->at - w->a.at;
	w->output_tokens = e->output_tokens;
	waiting_finish(t, w);
}

void traffic_text_flush(struct traffic_text *t, bool all)
{
	struct waiting *w;

	while ((w = waiting_oldest(t)) != NULL && (all || t->newest - w->a.at >= TRAFFIC_AGE_MS))
		waiting_finish(t, w);
}
