/* heads.c - store heads by the opening pages of their messages.
 *
 *   opening (tenant, scope, first page)         --\
 *   opening (tenant, scope, first 2 pages)      ----> head: model, adapter, system and tools pages
 *   opening (tenant, scope, first 8, 32, 128 ...) --/   (one for all bodies with equal heads)
 *
 * An opening is 64 bits: a keyed hash of its pages, tenant and scope. Heads are shared by
 * content, because they take most of the memory and a thousand conversations of one agent have
 * one head. An opening seen again points to the head that came last. A head lives while an
 * opening points to it, a tenant while it has openings.
 *
 * Eviction follows use: one ring of all openings and one per tenant. A ring by use would write to
 * the neighbors of each opening, which are in no cache; so a use only sets a bit in the opening,
 * and the eviction reads it (CLOCK).
 *
 * Adding and finding touch at most log4(messages) openings, which costs about 1.3 hashes of the
 * message pages. One mutex guards everything. Tables are allocated once, in proportion to the
 * budget. The budget counts heap bytes with the allocator's own. */
#include "agent/base/mem.h"
#include "agent/prompt/heads_in.h"

#define MIN_BYTES	65536u
#define BYTES_AN_OPENING	128u	/* budget per bucket of the table of openings; one takes 64 */
#define BYTES_A_HEAD		1024u	/* the same for the other two tables */
#define KEY_BITS		(UINT64_MAX >> 1)
#define PASSED_MOST	16u	/* openings passed over for one that is evicted */

void heads_defaults(struct heads_opts *o)
{
	*o = (struct heads_opts){
		.max_bytes = 16u << 20, .max_tenant_bytes = 2u << 20, .max_head_pages = 8192
	};
}

/* ---- tables: chains of entries, keys are keyed hashes -------------------------------------- */

static struct entry **table_bucket(const struct table *t, uint64_t key)
{
	return &t->bucket[(key ^ key >> 32) & (t->n - 1)];
}

static struct entry **table_at(const struct table *t, uint64_t key)
{
	struct entry **e = table_bucket(t, key);

	while (*e != NULL && (*e)->key != (key & KEY_BITS))
		e = &(*e)->next;
	return e;
}

static void *table_get(const struct table *t, uint64_t key)
{
	return *table_at(t, key);
}

static void table_add(struct table *t, struct entry *e, uint64_t key)
{
	struct entry **at = table_at(t, key);

	e->key = key & KEY_BITS;
	e->next = NULL;
	*at = e;
}

static void table_del(struct table *t, struct entry *e)
{
	*table_at(t, e->key) = e->next;
}

static int table_init(struct table *t, size_t n)
{
	for (t->n = 1; t->n * 2 <= n; )
		t->n *= 2;
	t->bucket = mem_calloc(t->n, sizeof(*t->bucket));
	return t->bucket ? 0 : -1;
}

/* ---- room ------------------------------------------------------------------------------------ */

/* Return the heap bytes of a block of <n> bytes: a multiple of 16 that includes 8 of the
 * allocator. */
static size_t cost_of(size_t n)
{
	return (n + 8 + 15) & ~(size_t)15;
}

static void copy(void *to, const void *from, size_t n)
{
	if (n > 0)
		memcpy(to, from, n);
}

static void charge(struct heads *h, struct tenant *t, size_t n)
{
	t->bytes += cost_of(n);
	h->st.bytes += cost_of(n);
}

static void refund(struct heads *h, struct tenant *t, size_t n)
{
	t->bytes -= cost_of(n);
	h->st.bytes -= cost_of(n);
}

static void head_unref(struct heads *h, struct head *hd)
{
	if (--hd->n_openings > 0)
		return;
	table_del(&h->by_content, &hd->in);
	refund(h, hd->tenant, hd->size);
	h->st.heads--;
	mem_free(hd);
}

static void tenant_free(struct heads *h, struct tenant *t)
{
	table_del(&h->tenants, &t->in);
	refund(h, t, sizeof(*t));
	mem_free(t);
}

static void opening_free(struct heads *h, struct opening *o)
{
	struct tenant *t = o->head->tenant;

	table_del(&h->by_opening, &o->in);
	list_remove(&o->all);
	list_remove(&o->mine);
	refund(h, t, sizeof(*o));
	h->st.openings--;
	head_unref(h, o->head);
	mem_free(o);
	if (list_empty(&t->openings))
		tenant_free(h, t);
}

/* Make it the newest. */
static void opening_renew(struct heads *h, struct opening *o)
{
	list_remove(&o->all);
	list_remove(&o->mine);
	list_append(&h->openings, &o->all);
	list_append(&o->head->tenant->openings, &o->mine);
}

/* Evict <o>, the oldest, or pass over it if it was used; but pass over few in a row, because the
 * lock is held. */
static void evict(struct heads *h, struct opening *o, unsigned *passed)
{
	if (o->in.used && (*passed)++ < PASSED_MOST) {
		o->in.used = false;
		opening_renew(h, o);
		return;
	}
	opening_free(h, o);
	h->st.evicted++;
	*passed = 0;
}

/* Evict until the budgets hold. Any head fits alone with its openings (head_is_fit), so a tenant
 * with one opening is within its budget: <t> stays in the first loop. */
static void trim(struct heads *h, const struct tenant *t)
{
	unsigned passed = 0;

	while (t->bytes > h->opts.max_tenant_bytes)
		evict(h, list_entry(t->openings.next, struct opening, mine), &passed);
	while (h->st.bytes > h->opts.max_bytes)
		evict(h, list_entry(h->openings.next, struct opening, all), &passed);
}

/* ---- add ----------------------------------------------------------------------------------- */

static uint64_t hash_name(const struct hash_key *k, uint64_t x, const struct prompt_name *name)
{
	return hash_mix_span(k, x, span_of(name->s, name->n));
}

/* As hash_mix_span(). The pages of a long prompt are hashed 1.3 times in all, for its openings. */
static uint64_t hash_pages(const struct heads *h, uint64_t x, const page_key *p, uint32_t n)
{
	size_t bytes = n * sizeof(*p);

	x = hash_mix(h->key, x, bytes);
	return hash_mix(h->key, x, n > 0 ? h->hash(h->key, p, bytes) : 0);
}

static uint64_t content_key(const struct heads *h, uint64_t owner, const struct prompt *p)
{
	uint64_t x = hash_name(h->key, hash_name(h->key, owner, &p->model), &p->lora);

	x = hash_mix(h->key, hash_pages(h, x, p->system.p, p->system.n), p->developer);
	return hash_pages(h, x, p->tools.p, p->tools.n);
}

/* Hash everything that keeps heads apart: tenant, scope, API and mode. */
static uint64_t owner_key(const struct heads *h, uint64_t tenant, uint64_t scope,
			  const struct prompt *p)
{
	return hash_mix(h->key, hash_mix(h->key, tenant, scope), (uint64_t)p->api << 8 | p->mode);
}

static uint64_t opening_key(const struct heads *h, uint64_t owner, const struct prompt *p,
			    uint32_t n)
{
	return hash_pages(h, owner, p->messages.p, n);
}

/* Return the pages of the next opening. Two pages tell short messages apart. Each opening is cold
 * memory for each request, so the others are four times as long as the one before. */
static uint64_t next_depth(uint64_t n)
{
	return n == 1 ? 2 : n * 4;
}

/* The one before; 0: <n> is the first. */
static uint64_t depth_before(uint64_t n)
{
	return n == 2 ? 1 : n / 4;
}

static struct parts parts_of(const struct prompt *p)
{
	return (struct parts){
		.system = p->system.p, .n_system = p->system.n, .tools = p->tools.p, .n_tools = p->tools.n,
		.model = span_of(p->model.s, p->model.n), .lora = span_of(p->lora.s, p->lora.n),
		.developer = p->developer,
	};
}

size_t head_parts_bytes(const struct parts *x)
{
	return ((size_t)x->n_system + x->n_tools) * sizeof(page_key) + x->model.n + x->lora.n;
}

void head_copy_parts(void *to, const struct parts *x)
{
	page_key *pages = to;
	char *names = (char *)(pages + x->n_system + x->n_tools);

	copy(pages, x->system, x->n_system * sizeof(page_key));
	copy(pages + x->n_system, x->tools, x->n_tools * sizeof(page_key));
	copy(names, x->model.p, x->model.n);
	copy(names + x->model.n, x->lora.p, x->lora.n);
}

bool head_is_fit(const struct heads *h, const struct parts *x)
{
	size_t need = cost_of(sizeof(struct tenant)) + cost_of(sizeof(struct head) + head_parts_bytes(x)) +
		      DEPTHS_MAX * cost_of(sizeof(struct opening));

	return (uint64_t)x->n_system + x->n_tools <= h->opts.max_head_pages &&
	       need <= h->opts.max_tenant_bytes && need <= h->opts.max_bytes - h->fixed_bytes;
}

static bool may_keep(const struct heads *h, const struct prompt *p)
{
	struct parts x = parts_of(p);

	return p->json == JSON_DONE && !p->truncated && p->salt.n == 0 && p->messages.n > 0 &&
	       head_is_fit(h, &x);
}

static struct tenant *tenant_get(struct heads *h, uint64_t key)
{
	struct tenant *t = table_get(&h->tenants, key);

	if (t != NULL)
		return t;
	if ((t = mem_alloc(sizeof(*t))) == NULL)
		return NULL;
	list_init(&t->openings);
	table_add(&h->tenants, &t->in, key);
	charge(h, t, sizeof(*t));
	return t;
}

/* Return the head <key>, with one more reference. It is made of <x> if it is new; <x> NULL: it must
 * be known. Returns NULL if it is not, or if there is no memory. */
static struct head *head_get(
    struct heads *h, struct tenant *t, uint64_t key, const struct parts *x, bool *made)
{
	struct head *hd = table_get(&h->by_content, key);

	*made = hd == NULL && x != NULL;
	if (*made) {
		if ((hd = mem_alloc(sizeof(struct head) + head_parts_bytes(x))) == NULL)
			return NULL;
		hd->tenant = t;
		hd->size = sizeof(struct head) + head_parts_bytes(x);
		hd->n_system = x->n_system;
		hd->n_tools = x->n_tools;
		hd->n_model = (uint16_t)x->model.n;
		hd->n_lora = (uint16_t)x->lora.n;
		hd->developer = x->developer;
		head_copy_parts(hd->pages, x);
		table_add(&h->by_content, &hd->in, key);
		charge(h, t, hd->size);
		h->st.heads++;
	}
	if (hd == NULL || hd->tenant != t)
		return NULL;
	hd->n_openings++;
	return hd;
}

static struct opening *opening_new(struct heads *h, uint64_t key, struct head *hd)
{
	struct opening *o = mem_alloc(sizeof(*o));

	if (o == NULL)
		return NULL;
	table_add(&h->by_opening, &o->in, key);
	list_append(&h->openings, &o->all);
	list_append(&hd->tenant->openings, &o->mine);
	charge(h, hd->tenant, sizeof(*o));
	h->st.openings++;
	return o;
}

/* Returns true if the opening had no head or another one. */
static bool opening_set(struct heads *h, uint64_t key, struct head *hd)
{
	struct opening *o = table_get(&h->by_opening, key);
	struct head *old = o != NULL ? o->head : NULL;

	if (o == NULL && (o = opening_new(h, key, hd)) == NULL)
		return false;
	if (old != NULL && old->tenant != hd->tenant)	/* another agent's keys make no sense */
		return false;
	o->in.used = old != NULL;
	if (old == hd)
		return false;
	o->head = hd;
	hd->n_openings++;
	if (old != NULL)
		head_unref(h, old);
	return true;
}

void heads_store(struct heads *h, struct news *w, const struct parts *x)
{
	struct tenant *t = tenant_get(h, w->tenant);
	uint32_t changed = 0;
	struct head *hd;

	for (uint32_t i = 0; i < w->n; i++)
		__builtin_prefetch(*table_bucket(&h->by_opening, w->key[i]), 1);
	if (t == NULL) {
		w->n = 0;
		return;
	}
	if ((hd = head_get(h, t, w->content, x, &w->whole)) != NULL) {
		for (uint32_t i = 0; i < w->n; i++)
			if (opening_set(h, w->key[i], hd))
				w->key[changed++] = w->key[i];
		head_unref(h, hd);	/* frees it if no opening could be allocated */
	}
	w->n = changed;
	if (list_empty(&t->openings))
		tenant_free(h, t);
	else
		trim(h, t);
}

void heads_add(struct heads *h, uint64_t tenant, uint64_t scope, const struct prompt *p)
{
	uint64_t owner = owner_key(h, tenant, scope, p);
	struct parts x = parts_of(p);
	struct news w = { .n = 0 };

	if (!may_keep(h, p))
		return;
	w.tenant = hash_mix(h->key, tenant, 0);
	w.content = content_key(h, owner, p);
	for (uint64_t n = 1; n <= p->messages.n; n = next_depth(n)) {
		w.key[w.n] = opening_key(h, owner, p, (uint32_t)n);
		__builtin_prefetch(table_bucket(&h->by_opening, w.key[w.n++]));
	}
	pthread_mutex_lock(&h->lock);
	heads_store(h, &w, &x);
	pthread_mutex_unlock(&h->lock);
	if (h->tell != NULL && w.n > 0)
		heads_tell_news(h, &w, &x);
}

/* ---- find ------------------------------------------------------------------------------------ */

static const char *head_names(const struct head *hd)
{
	return (const char *)(hd->pages + hd->n_system + hd->n_tools);
}

static bool name_agrees(const struct prompt_name *seen, const char *s, uint16_t n)
{
	return !seen->seen || (seen->n == n && memcmp(seen->s, s, n) == 0);
}

/* Tell if the pages <seen>, complete or not, agree with the <n> pages at <p>. */
static bool pages_agree(const struct page_vec *seen, bool whole, const page_key *p, uint32_t n)
{
	if (whole ? seen->n != n : seen->n > n)
		return false;
	return seen->n == 0 || memcmp(seen->p, p, seen->n * sizeof(*p)) == 0;
}

static bool agrees(const struct head *hd, const struct prompt *p)
{
	const char *names = head_names(hd);

	return p->salt.n == 0 && name_agrees(&p->model, names, hd->n_model) &&
	       name_agrees(&p->lora, names + hd->n_model, hd->n_lora) &&
	       pages_agree(&p->system, p->system_seen, hd->pages, hd->n_system) &&
	       pages_agree(&p->tools, p->tools_seen, hd->pages + hd->n_system, hd->n_tools);
}

static struct opening *find(struct heads *h, uint64_t tenant, uint64_t scope,
			    const struct prompt *p)
{
	uint64_t owner = owner_key(h, tenant, scope, p), n = 1;
	struct opening *o = NULL;

	if (p->messages.n == 0)
		return NULL;
	while (next_depth(n) <= p->messages.n)
		n = next_depth(n);
	for (; n > 0 && o == NULL; n = depth_before(n))
		o = table_get(&h->by_opening, opening_key(h, owner, p, (uint32_t)n));
	return o != NULL && agrees(o->head, p) ? o : NULL;
}

/* Copy a head into one block: the struct, the pages, the names. */
static struct prompt_head *copy_head(const struct head *hd)
{
	size_t n_pages = (size_t)hd->n_system + hd->n_tools, n_names = hd->n_model + hd->n_lora;
	struct prompt_head *out;
	page_key *pages;
	char *names;

	if ((out = mem_alloc(sizeof(*out) + n_pages * sizeof(*pages) + n_names)) == NULL)
		return NULL;
	pages = (page_key *)(out + 1);
	names = (char *)(pages + n_pages);
	memcpy(pages, hd->pages, n_pages * sizeof(*pages) + n_names);
	*out = (struct prompt_head){
		.model = span_of(names, hd->n_model),
		.lora = span_of(names + hd->n_model, hd->n_lora),
		.system = pages, .n_system = hd->n_system,
		.tools = pages + hd->n_system, .n_tools = hd->n_tools, .developer = hd->developer,
	};
	return out;
}

struct prompt_head *heads_find(struct heads *h, uint64_t tenant, uint64_t scope,
			       const struct prompt *p)
{
	struct prompt_head *out = NULL;
	struct opening *o;

	pthread_mutex_lock(&h->lock);
	if ((o = find(h, tenant, scope, p)) != NULL && (out = copy_head(o->head)) != NULL)
		o->in.used = true;
	h->st.found += out != NULL;
	h->st.missed += out == NULL;
	pthread_mutex_unlock(&h->lock);
	return out;
}

void heads_release(struct prompt_head *head)
{
	mem_free(head);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int tables_init(struct heads *h)
{
	size_t n = h->opts.max_bytes;

	if (table_init(&h->by_opening, n / BYTES_AN_OPENING) < 0 ||
	    table_init(&h->by_content, n / BYTES_A_HEAD) < 0 ||
	    table_init(&h->tenants, n / BYTES_A_HEAD) < 0)
		return -1;
	n = h->by_opening.n + h->by_content.n + h->tenants.n;
	h->st.bytes = h->fixed_bytes = cost_of(sizeof(*h)) + 3 * 16 + n * sizeof(struct entry *);
	return 0;
}

struct heads *heads_new(const struct heads_opts *o, const struct hash_key *key)
{
	struct heads *h;

	if ((h = mem_alloc(sizeof(*h))) == NULL)
		return NULL;
	if (pthread_mutex_init(&h->lock, NULL) != 0) {
		mem_free(h);
		return NULL;
	}
	h->opts = *o;
	if (h->opts.max_bytes < MIN_BYTES)
		h->opts.max_bytes = MIN_BYTES;
	h->key = key;
	h->hash = hash64_best();
	list_init(&h->openings);
	if (tables_init(h) == 0)
		return h;
	heads_free(h);
	return NULL;
}

void heads_free(struct heads *h)
{
	if (h == NULL)
		return;
	while (!list_empty(&h->openings))
		opening_free(h, list_entry(h->openings.next, struct opening, all));
	mem_free(h->by_opening.bucket);
	mem_free(h->by_content.bucket);
	mem_free(h->tenants.bucket);
	pthread_mutex_destroy(&h->lock);
	mem_free(h);
}

void heads_stats(struct heads *h, struct heads_stats *s)
{
	pthread_mutex_lock(&h->lock);
	*s = h->st;
	pthread_mutex_unlock(&h->lock);
}
