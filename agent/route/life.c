/* life.c - from options to a route and back. */
#include "agent/base/mem.h"
#include "agent/route/internal.h"
#include "agent/route/talk.h"

#define SEGMENTS_THREADS	16	/* that use the cache of segments at a time, as far as its locks care */

static void pool_defaults(struct pool_opts *o)
{
	memset(o, 0, sizeof(*o));
	strcpy(o->name, "*");
	o->isolate_tenants = true;
	o->eviction = INDEX_LRU;
	o->capacity_guess = 400000;
	policy_defaults(&o->policy);
}

static void model_defaults(struct model_opts *o)
{
	memset(o, 0, sizeof(*o));
	strcpy(o->name, "*");
	o->text_order = (struct text_order){ { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES } };
}

void route_defaults(struct route_opts *o)
{
	memset(o, 0, sizeof(*o));
	prompt_defaults(&o->prompt);
	index_defaults(&o->index);
	heads_defaults(&o->heads);
	o->segcache_max_bytes = 64u << 20;
	o->slices_max_bytes = 64u << 20;
	o->slices_max_age_ms = 5000;
	o->ledger_max_entries = 65536;
	o->ledger_max_age_ms = 600000;
	o->ledger_max_silence_ms = 30000;
	o->server_max_age_ms = 600000;
	o->max_pools = 64;
	o->decisions_keep = 4096;
	pool_defaults(&o->pool_default);
	model_defaults(&o->model_default);
	strcpy(o->tenant_default.name, "*");
	problems_defaults(&o->problems);
}

/* An entry, its place in a table that is at most half empty, and what malloc() adds. */
#define OPEN_BYTES	320

_Static_assert(sizeof(struct open_request) + 2 * sizeof(void *) + 16 <= OPEN_BYTES, "route_budget() counts too little");

/* Of a pool's rule and of those compared with it. */
static uint64_t rules_max(const struct pool_opts *p)
{
	struct policy_opts one = p->policy;
	uint64_t n = policy_memory_max(&one);

	for (unsigned i = 0; i < COMPARE_MAX && p->compare[i] != 0; i++) {
		one.rule = (enum policy_rule)(p->compare[i] - 1);
		n += policy_memory_max(&one);
	}
	return n;
}

/* Pools that no entry names take the default's. */
static uint64_t all_rules_max(const struct route_opts *o)
{
	uint64_t n = o->max_pools > o->n_pools ? (o->max_pools - o->n_pools) * rules_max(&o->pool_default) : 0;

	for (size_t i = 0; i < o->n_pools; i++)
		n += rules_max(&o->pools[i]);
	return n;
}

/* The <i>th model's options; the first one is the default. */
static const struct model_opts *model_at(const struct route_opts *o, size_t i)
{
	return i == 0 ? &o->model_default : &o->models[i - 1];
}

/* Each tokenizer once, however many models share it; templates are small. */
static uint64_t tokenizers(const struct route_opts *o)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i <= o->n_models; i++) {
		const struct tok *t = model_at(o, i)->tok;
		size_t j = 0;

		while (t != NULL && j < i && model_at(o, j)->tok != t)
			j++;
		if (t != NULL && j == i)
			bytes += tok_bytes(t);
		if (model_at(o, i)->chat != NULL)
			bytes += chat_bytes(model_at(o, i)->chat);
	}
	return bytes;
}

uint64_t route_budget(const struct route_opts *o)
{
	return all_rules_max(o) + tokenizers(o) + (uint64_t)o->index.max_bytes + o->heads.max_bytes + o->slices_max_bytes +
	       o->segcache_max_bytes +
	       (uint64_t)o->ledger_max_entries * OPEN_BYTES + decisions_bytes(o->decisions_keep) + marks_table_bytes() +
	       shared_table_bytes() + grown_table_bytes() + problems_bytes() +
	       scanned_most_bytes();
}

void route_opts_free(struct route_opts *o)
{
	tok_unref(o->model_default.tok);
	chat_unref(o->model_default.chat);
	o->model_default.tok = NULL;
	o->model_default.chat = NULL;
	for (size_t i = 0; i < o->n_models; i++) {
		tok_unref(o->models[i].tok);
		chat_unref(o->models[i].chat);
	}
	mem_free(o->pools);
	mem_free(o->models);
	mem_free(o->tenants);
	o->pools = NULL;
	o->models = NULL;
	o->tenants = NULL;
	o->n_pools = o->n_models = o->n_tenants = 0;
}

static void ref_model(const struct model_opts *m)
{
	if (m->tok != NULL)
		tok_ref(m->tok);
	chat_ref(m->chat);
}

static void ref_tokenizers(struct route_opts *o)
{
	for (size_t i = 0; i <= o->n_models; i++)
		ref_model(model_at(o, i));
}

int route_opts_copy(struct route_opts *to, const struct route_opts *from)
{
	*to = *from;
	to->pools = mem_copy(from->pools, from->n_pools * sizeof(*from->pools));
	to->models = mem_copy(from->models, from->n_models * sizeof(*from->models));
	to->tenants = mem_copy(from->tenants, from->n_tenants * sizeof(*from->tenants));
	if (to->pools != NULL && to->models != NULL && to->tenants != NULL) {
		ref_tokenizers(to);
		return 0;
	}
	to->model_default.tok = NULL;		/* not counted yet */
	to->n_models = 0;
	route_opts_free(to);
	return -1;
}

static bool is_called(const struct model_opts *m, struct span name)
{
	if (span_eq(name, span_str(m->name)))
		return true;
	for (size_t i = 0; i < MODEL_ALIASES_MAX && m->aliases[i][0] != '\0'; i++)
		if (span_eq(name, span_str(m->aliases[i])))
			return true;
	return false;
}

/* Each "*" in <pattern> is any text, also none. Only the last one met is tried at further places: what an earlier one
 * took can stay as short as it was. At most the product of both lengths. */
static bool name_fits(const char *pattern, struct span name)
{
	const char *star = NULL;
	size_t i = 0, from = 0;

	while (i < name.n) {
		if (*pattern == '*') {
			star = ++pattern;
			from = i;
		} else if (*pattern != '\0' && *pattern == name.p[i]) {
			pattern++;
			i++;
		} else if (star != NULL) {
			pattern = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

static bool is_adapter(const struct model_opts *m, struct span name)
{
	for (size_t i = 0; i < MODEL_ALIASES_MAX && m->adapters[i][0] != '\0'; i++)
		if (name_fits(m->adapters[i], name))
			return true;
	return false;
}

const struct model_opts *model_options_of(const struct route_opts *o, struct span model)
{
	for (size_t i = 0; i < o->n_models; i++)
		if (is_called(&o->models[i], model))
			return &o->models[i];
	for (size_t i = 0; i < o->n_models; i++)
		if (is_adapter(&o->models[i], model))
			return &o->models[i];
	for (size_t i = 0; i < o->n_models; i++)
		if (strchr(o->models[i].name, '*') != NULL && name_fits(o->models[i].name, model))
			return &o->models[i];
	return &o->model_default;
}

struct span model_name_of(const struct model_opts *m, struct span asked)
{
	return strchr(m->name, '*') != NULL || !is_called(m, asked) ? asked : span_str(m->name);
}

/* Numbers and floors of the tenants that the options name. */
static void take_tenants(struct route *r)
{
	const struct route_opts *o = &r->opts;
	uint64_t floor[TENANTS_MAX] = { o->tenant_default.index_floor };

	tenant_numbers_set(&r->tenants, &r->key, o->tenants, o->n_tenants);
	for (size_t i = 0; i < o->n_tenants; i++) {
		uint32_t n = tenant_number(&r->tenants, &r->key, span_str(o->tenants[i].name));

		if (n != 0)
			floor[n] = o->tenants[i].index_floor;
	}
	for (uint32_t i = 0; i < TENANTS_MAX; i++)
		index_set_floor(r->index, i, floor[i]);
}

/* Pools may have orders of their own, now or after a reload. */
static struct index *new_index(const struct route_opts *o)
{
	struct index_opts io = o->index;

	io.order = o->pool_default.eviction;
	io.mixed = true;
	return index_new(&io);
}

/* By default whoever reads goes before whoever waits to write: threads that are always busy deciding would keep a
 * reload waiting for ever. No thread reads twice at once, as this kind of lock asks. */
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

static bool has_tokenizer(const struct route_opts *o)
{
	for (size_t i = 0; i < o->n_models; i++) {
		if (o->models[i].tok != NULL)
			return true;
	}
	return o->model_default.tok != NULL;
}

/* With the first tokenizer; it stays, wiped, when that goes. */
static int keep_segments(struct route *r, const struct route_opts *o)
{
	struct segcache_opts so = { .max_bytes = o->segcache_max_bytes, .threads = SEGMENTS_THREADS };

	if (r->segments != NULL || o->segcache_max_bytes < SEGCACHE_LEAST || !has_tokenizer(o))
		return 0;
	r->segments = segcache_new(&so, &r->key);
	return r->segments != NULL ? 0 : -1;
}

static bool has_model_of(const struct route_opts *o, uint64_t fingerprint)
{
	for (size_t i = 0; i < o->n_models; i++) {
		if (o->models[i].tok != NULL && tok_fingerprint(o->models[i].tok) == fingerprint)
			return true;
	}
	return o->model_default.tok != NULL && tok_fingerprint(o->model_default.tok) == fingerprint;
}

/* Whether a tokenizer of <old> is in <next> no more. */
static bool loses_tokenizer(const struct route_opts *old, const struct route_opts *next)
{
	for (size_t i = 0; i < old->n_models; i++) {
		if (old->models[i].tok != NULL && !has_model_of(next, tok_fingerprint(old->models[i].tok)))
			return true;
	}
	return old->model_default.tok != NULL && !has_model_of(next, tok_fingerprint(old->model_default.tok));
}

struct route *route_new(const struct route_opts *o, const struct hash_key *key, uint64_t seed)
{
	struct route *r = mem_alloc(sizeof(*r));

	if (r == NULL)
		return NULL;
	r->key = *key;
	opts_lock_init(&r->opts_lock);
	pthread_mutex_init(&r->lock, NULL);
	slices_init(&r->slices);
	scanned_init(&r->scanned);
	fleet_init(&r->fleet);
	rng_init(&r->rng, seed);
	r->by_chance = seed != 0;
	r->marks = marks_table_new();
	r->shared = shared_table_new();
	r->grown = grown_table_new();
	if (ledger_init(&r->ledger, sizeof(struct open_request)) == 0 && problems_init(&r->problems) == 0 && route_opts_copy(&r->opts, o) == 0 &&
	    (r->heads = heads_new(&o->heads, &r->key)) != NULL && (r->index = new_index(o)) != NULL && keep_decisions(r, o, seed) == 0 &&
	    keep_segments(r, o) == 0) {
		take_tenants(r);
		return r;
	}
	route_free(r);
	return NULL;
}

void route_free(struct route *r)
{
	if (r == NULL)
		return;
	marks_table_free(r->marks);
	shared_table_free(r->shared);
	grown_table_free(r->grown);
	ledger_fini(&r->ledger);
	problems_fini(&r->problems);
	pools_free(r);
	fleet_fini(&r->fleet);
	slices_fini(&r->slices);
	scanned_fini(&r->scanned);
	segcache_free(r->segments);
	heads_free(r->heads);
	index_free(r->index);
	decisions_free(r->decisions);
	route_opts_free(&r->opts);
	pthread_mutex_destroy(&r->lock);
	pthread_rwlock_destroy(&r->opts_lock);
	mem_wipe(&r->key, sizeof(r->key));
	mem_free(r);
}

int route_reconfigure(struct route *r, const struct route_opts *o)
{
	struct route_opts next, old;

	if (route_opts_copy(&next, o) < 0)
		return -1;
	pthread_rwlock_wrlock(&r->opts_lock);
	old = r->opts;
	next.segcache_max_bytes = old.segcache_max_bytes;
	if (keep_segments(r, &next) < 0) {
		pthread_rwlock_unlock(&r->opts_lock);
		route_opts_free(&next);
		return -1;
	}
	next.prompt = old.prompt;
	next.index = old.index;
	next.heads = old.heads;
	next.decisions_keep = old.decisions_keep;
	r->opts = next;
	pthread_mutex_lock(&r->lock);
	pools_take_options(r);
	r->models_asked = 0;
	keep_options(r);
	take_tenants(r);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	if (loses_tokenizer(&old, o))
		segcache_clear(r->segments);
	route_opts_free(&old);
	return 0;
}

struct route_scratch *route_scratch_new(struct route *r)
{
	struct route_scratch *s = mem_alloc(sizeof(*s));
	struct prompt_opts o;

	if (s == NULL)
		return NULL;
	pthread_rwlock_rdlock(&r->opts_lock);
	o = r->opts.prompt;
	pthread_rwlock_unlock(&r->opts_lock);
	if (index_match_init(&s->match) == 0 && (s->body = body_new(&o, &r->key)) != NULL)
		return s;
	route_scratch_free(s);
	return NULL;
}

void route_scratch_wipe(struct route_scratch *s)
{
	body_reset(s->body, API_NONE);
	words_free(s->words);
	talk_free(s->talk);
	tok_scratch_free(s->tok);
	s->words = NULL;
	s->talk = NULL;
	s->tok = NULL;
	mem_wipe(s->model, sizeof(s->model));
}

void route_scratch_free(struct route_scratch *s)
{
	if (s == NULL)
		return;
	body_free(s->body);
	words_free(s->words);
	talk_free(s->talk);
	tok_scratch_free(s->tok);
	index_match_fini(&s->match);
	page_vec_free(&s->pages);
	mem_free(s);
}
