/* route_new.c - from options to a router and back; the working memory of its threads. */
#include <assert.h>

#include "agent/base/mem.h"
#include "agent/route/job_in.h"

/* Set numbers and floors of the tenants that the options name. */
static void set_tenants(struct route *r)
{
	const struct route_opts *o = &r->opts;
	struct tenant_numbers *t = &r->requests.tenants;
	uint64_t floor[TENANTS_MAX] = { o->tenant_default.index_floor };

	tenant_numbers_set(t, &r->key, o->tenants, o->n_tenants);
	for (size_t i = 0; i < o->n_tenants; i++) {
		uint32_t n = tenant_number(t, &r->key, span_str(o->tenants[i].name));

		if (n != 0)
			floor[n] = o->tenants[i].index_floor;
	}
	for (uint32_t i = 0; i < TENANTS_MAX; i++)
		index_set_floor(r->index, i, floor[i]);
}

/* Pools may have orders of eviction of their own, now or after a reload. */
static struct index *new_index(const struct route_opts *o)
{
	struct index_opts io = o->index;

	io.order = o->pool_default.eviction;
	io.mixed = true;
	return index_new(&io);
}

/* Prefer writers: by default readers go first, and threads that are always busy deciding would
 * hold up a reload forever. No thread reads twice at once, as this kind of lock requires. */
static void opts_lock_init(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t a;

	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &a);
	pthread_rwlockattr_destroy(&a);
}

static int keep_decisions(struct route *r, const struct route_opts *o, uint64_t seed)
{
	if (o->decisions_keep == 0)
		return 0;
	r->decisions = decisions_new(o->decisions_keep, &r->key, seed);
	return r->decisions != NULL ? 0 : -1;
}

/* Make all that may fail. What was not made is left zeroed, as the free functions take it. */
static int make_parts(struct route *r, const struct route_opts *o, uint64_t seed)
{
	struct request_opts ro;

	if (ledger_init(&r->ledger, sizeof(struct open_request)) < 0 || problems_init(&r->problems) < 0)
		return -1;
	if (route_opts_copy(&r->opts, o) < 0)
		return -1;
	ro = route_request_opts(&r->opts);
	if (request_env_init(&r->requests, &ro, &r->key) < 0 || (r->index = new_index(o)) == NULL)
		return -1;
	return keep_decisions(r, o, seed);
}

#define RESPONSES_PART	8u	/* of the memory of sessions */

/* Return the memory for stored responses: part of that of sessions, if enough is left for them. */
static size_t responses_bytes(const struct route_opts *o)
{
	size_t part = o->sessions_max_bytes / RESPONSES_PART;

	return o->sessions_max_bytes - part >= SESSIONS_LEAST ? part : 0;
}

struct route *route_new(const struct route_opts *o, const struct hash_key *key, uint64_t seed)
{
	struct route *r = mem_alloc(sizeof(*r));

	if (r == NULL)
		return NULL;
	r->key = *key;
	opts_lock_init(&r->opts_lock);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->finished, NULL);
	fleet_init(&r->fleet);
	sources_init(&r->sources, o->prompt.token_page, o->events_max_bytes);
	rng_init(&r->rng, seed);
	r->by_chance = seed != 0;
	r->marks = marks_table_new();
	r->shared = shared_table_new();
	r->grown = grown_table_new();
	r->sessions = sessions_new(o->sessions_max_bytes - responses_bytes(o));
	r->responses = responses_new(responses_bytes(o));
	if (make_parts(r, o, seed) < 0) {
		route_free(r);
		return NULL;
	}
	r->requests.adapter_base = adapter_base;
	r->requests.adapter_arg = r;
	set_tenants(r);
	return r;
}

void route_free(struct route *r)
{
	if (r == NULL)
		return;
	marks_table_free(r->marks);
	shared_table_free(r->shared);
	grown_table_free(r->grown);
	sessions_free(r->sessions);
	responses_free(r->responses);
	ledger_fini(&r->ledger);
	problems_fini(&r->problems);
	pools_free(r);
	fleet_fini(&r->fleet);
	request_env_fini(&r->requests);
	sharing_free(r->sharing);	/* it has a match of the index */
	index_free(r->index);
	sources_fini(&r->sources);
	decisions_free(r->decisions);
	route_opts_free(&r->opts);
	pthread_cond_destroy(&r->finished);
	pthread_mutex_destroy(&r->lock);
	pthread_rwlock_destroy(&r->opts_lock);
	mem_wipe(&r->key, sizeof(r->key));
	mem_free(r);
}

/* Put <next> in place of r->opts and move the old options to <next>. On failure nothing changes. */
static int swap_options(struct route *r, struct route_opts *next)
{
	struct route_opts old = r->opts;
	struct request_opts ro;

	next->prompt = old.prompt;
	next->index = old.index;
	next->heads = old.heads;
	next->turns = old.turns;
	next->sessions_max_bytes = old.sessions_max_bytes;
	next->segcache_max_bytes = old.segcache_max_bytes;
	next->decisions_keep = old.decisions_keep;
	next->share = old.share;
	r->opts = *next;
	ro = route_request_opts(&r->opts);
	if (request_env_take(&r->requests, &ro) < 0) {
		r->opts = old;
		return -1;
	}
	*next = old;
	return 0;
}

int route_reconfigure(struct route *r, const struct route_opts *o)
{
	struct route_opts next;
	struct model_table old;

	if (route_opts_copy(&next, o) < 0)
		return -1;
	pthread_rwlock_wrlock(&r->opts_lock);
	if (swap_options(r, &next) < 0) {
		pthread_rwlock_unlock(&r->opts_lock);
		route_opts_free(&next);
		return -1;
	}
	pthread_mutex_lock(&r->lock);
	pools_take_options(r);
	r->models_asked = 0;
	room_options_changed(r);
	set_tenants(r);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	old = route_models(&next);
	request_env_drop_ids(&r->requests, &old);
	route_opts_free(&next);
	return 0;
}

struct route_scratch *route_scratch_new(struct route *r)
{
	struct route_scratch *s = mem_alloc(sizeof(*s));
	struct prompt_opts o;
	struct model_table models;
	bool ready;

	if (s == NULL)
		return NULL;
	pthread_rwlock_rdlock(&r->opts_lock);
	o = r->opts.prompt;
	models = route_models(&r->opts);
	ready = !models_have_tokenizer(&models);
	pthread_rwlock_unlock(&r->opts_lock);
	if (index_match_init(&s->match) == 0 && request_scratch_init(&s->rq, &o, &r->key) == 0 &&
	    (ready || request_scratch_ready(&s->rq)))
		return s;
	route_scratch_free(s);
	return NULL;
}

void route_scratch_wipe(struct route_scratch *s)
{
	assert(!s->unfinished);
	request_scratch_wipe(&s->rq);
}

void route_scratch_free(struct route_scratch *s)
{
	if (s == NULL)
		return;
	assert(!s->unfinished);
	request_scratch_fini(&s->rq);
	index_match_fini(&s->match);
	events_match_fini(&s->reports);
	page_vec_free(&s->report_pages);
	mem_free(s->chain);
	mem_free(s);
}
