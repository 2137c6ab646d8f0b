/* match.c - walk down the tree without a lock and find how many pages each server has.
 *
 * The walk keeps the set of servers that have all pages so far. At each node it compares the page
 * keys, reads the owner words and ends the servers that have less. The end of the walk becomes the
 * cursor, so that a commit of the same pages need not walk again. */
#include <stdlib.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "agent/index/tree_in.h"

/* Walks that start again because the tree changed. Eight were not enough on a busy machine: then a
 * server seemed to hold less than it did. */
#define AGAIN	64u

int index_match_init(struct index_match *m)
{
	*m = (struct index_match){ .cap = SERVERS_MAX };
	m->bands = mem_calloc(m->cap, sizeof(*m->bands));
	return m->bands ? 0 : -1;
}

void index_match_fini(struct index_match *m)
{
	reader_give(m);
	mem_free(m->bands);
	*m = (struct index_match){ 0 };
}

uint32_t index_match_depth(const struct index_match *m, server_id id)
{
	uint32_t i;

	if (id >= SERVERS_MAX)
		return 0;
	for (i = 0; i < m->n_bands; i++)
		if (server_set_has(&m->bands[i].servers, id))
			return m->bands[i].depth;
	return 0;
}

struct walk {
	struct index *ix;
	const struct page_run *pages;
	struct index_match *m;
	struct server_set here;		/* servers that hold all pages matched so far */
	uint32_t words, depth;
};

/* The first word is apart, or gcc calls memset() for it: five times a match, 6 % of its
 * instructions. */
static void set_clear(const struct walk *w, struct server_set *s)
{
	uint32_t i;

	s->w[0] = 0;
	for (i = 1; i < w->words; i++)
		s->w[i] = 0;
}

static bool set_any(const struct walk *w, const struct server_set *s)
{
	uint64_t any = 0;
	uint32_t i;

	for (i = 0; i < w->words; i++)
		any |= s->w[i];
	return any != 0;
}

/* Add a band. Bands come from the shallowest up and are reversed at the end. Words of a band beyond
 * w->words are 0 since index_match_init(). */
static void add_band(struct walk *w, uint32_t depth, const struct server_set *s)
{
	struct index_match *m = w->m;
	struct index_band *b = &m->bands[m->n_bands];
	uint32_t i;

	if (depth == 0 || !set_any(w, s))
		return;
	if (m->n_bands > 0 && b[-1].depth == depth) {
		for (i = 0; i < w->words; i++)
			b[-1].servers.w[i] |= s->w[i];
		return;
	}
	b->depth = depth;
	for (i = 0; i < w->words; i++)
		b->servers.w[i] = s->w[i];
	m->n_bands++;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Add bands for servers that hold a part of the matched pages of <nd>. <part>: extent << 16 |
 * server, which is sorted. */
static void partial_bands(
    struct walk *w, const struct node *nd, const struct server_set *on, uint32_t *part, uint32_t n)
{
	struct server_set one;
	uint32_t i;

	if (n > 1)
		qsort(part, n, sizeof(*part), by_number);
	for (i = 0; i < n; i++) {
		if (server_set_has(on, (server_id)(part[i] & 0xffff)))
			continue;
		set_clear(w, &one);
		server_set_add(&one, (server_id)(part[i] & 0xffff));
		add_band(w, nd->start + (part[i] >> 16), &one);
	}
}

/* The owners of a node, of the servers that hold all pages above it. */
struct owners {
	struct server_set on;		/* they have the matched pages of the node */
	struct server_set less;		/* they have fewer, or had when a slot was read */
	uint32_t n_part, part[SERVERS_MAX];	/* extent << 16 | server of each of <less> */
};

static void add_part(struct owners *o, uint32_t word)
{
	uint32_t s = word_server(word);

	/* a server may be in two slots while it goes and comes back */
	if (server_set_has(&o->less, (server_id)s))
		return;
	server_set_add(&o->less, (server_id)s);
	o->part[o->n_part++] = word_extent(word) << 16 | s;
}

static void read_owners(
    const struct walk *w, const struct node *nd, uint32_t same, struct owners *o)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_acquire), word, s;

	for (i = 0; i < n; i++) {
		word = atomic_load_explicit(&node_words(nd)[i], memory_order_acquire);
		s = word_server(word);
		if (word == 0 || s / 64 >= w->words)
			continue;
		if (nd->start > 0 && !server_set_has(&w->here, (server_id)s))
			continue;
		if (word_extent(word) >= same)
			server_set_add(&o->on, (server_id)s);
		else
			add_part(o, word);
	}
}

#ifdef __x86_64__
#define SLOTS_AVX	8u	/* with fewer the loop over single slots takes as long */

/* Read <n> / 4 times four owner words at once. Returns the servers below 64 with <same> pages, and
 * in <*less> those with fewer. The load is written in assembly because each word may change
 * meanwhile, and C has no atomic load of a vector: a CPU with AVX loads 16 aligned bytes in one. */
__attribute__((target("avx2")))
static uint64_t few_avx2(const _Atomic uint32_t *words, uint32_t n, uint32_t same, uint64_t *less)
{
	const __m256i one = _mm256_set1_epi64x(1), low = _mm256_set1_epi64x(0xffff);
	const __m256i least = _mm256_set1_epi64x((int64_t)same - 1);
	__m256i on = _mm256_setzero_si256(), all = on, w, bit;
	uint64_t sum[4];
	uint32_t i;

	for (i = 0; i + 4 <= n; i += 4) {
		__asm__ volatile("vpmovzxdq %1, %0" : "=x"(w) : "m"(*(const __m128i *)(const void *)(words + i)));
		/* nothing for a server of 64 or more; a word of 0 has no extent and is server 0 */
		bit = _mm256_sllv_epi64(one, _mm256_srli_epi64(w, 16));
		bit = _mm256_andnot_si256(_mm256_cmpeq_epi64(w, _mm256_setzero_si256()), bit);
		all = _mm256_or_si256(all, bit);
		w = _mm256_cmpgt_epi64(_mm256_and_si256(w, low), least);
		on = _mm256_or_si256(on, _mm256_and_si256(bit, w));
	}
	atomic_signal_fence(memory_order_acquire);	/* x86 keeps the order of loads, the compiler must */
	_mm256_storeu_si256((__m256i *)(void *)sum, all);
	*less = sum[0] | sum[1] | sum[2] | sum[3];
	_mm256_storeu_si256((__m256i *)(void *)sum, on);
	sum[0] |= sum[1] | sum[2] | sum[3];
	*less &= ~sum[0];
	return sum[0];
}
#endif

/* Read the first owner words at once, if all of their servers that hold the pages above have <same>
 * pages. Returns the number of words, and their servers in <*on>; 0: each has to be read. */
static uint32_t read_full_owners(
    const struct node *nd, uint32_t n, uint32_t same, uint64_t here, uint64_t *on)
{
#ifdef __x86_64__
	uint64_t less;

	if (n >= SLOTS_AVX && __builtin_cpu_supports("avx2")) {
		*on = few_avx2(node_words(nd), n, same, &less);
		if ((less & here) == 0)
			return n & ~3u;
	}
#else
	(void)nd, (void)n, (void)same, (void)here;
#endif
	*on = 0;
	return 0;
}

/* Do the same for servers below 64, whose set stays in a register. A node below which many servers
 * have been, as one of a system prompt, took two fifths of the time of a match of 1K tokens without
 * it (bench_index, 64 servers). */
static void read_few_owners(
    const struct walk *w, const struct node *nd, uint32_t same, struct owners *o)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_acquire), word, s;
	uint64_t here = nd->start > 0 ? w->here.w[0] : UINT64_MAX, on, all;

	for (i = read_full_owners(nd, n, same, here, &on); i < n; i++) {
		word = atomic_load_explicit(&node_words(nd)[i], memory_order_acquire);
		s = word_server(word);
		all = word_extent(word) >= same && s < 64;
		on |= all << (s & 63);
		if (!all && word != 0 && s < 64 && here >> s & 1)
			add_part(o, word);
	}
	o->on.w[0] = on & here;
}

/* Of the servers that reached <nd>, those with the <same> pages go on; the others end here. */
static void match_owners(struct walk *w, const struct node *nd, uint32_t same)
{
	struct owners o;
	uint32_t i;

	o.n_part = 0;
	set_clear(w, &o.less);
	set_clear(w, &o.on);
	if (w->words == 1)
		read_few_owners(w, nd, same, &o);
	else
		read_owners(w, nd, same, &o);
	for (i = 0; i < w->words; i++)
		w->here.w[i] &= ~(o.less.w[i] | o.on.w[i]);
	if (nd->start > 0)
		add_band(w, nd->start, &w->here);
	if (o.n_part > 0)
		partial_bands(w, nd, &o.on, o.part, o.n_part);
	for (i = 0; i < w->words; i++)
		w->here.w[i] = o.on.w[i];
}

struct next {			/* the first page of a child, and its hash */
	page_key first;
	uint64_t hash;
};

/* Compute them before the pages of <nd> are compared, so that the bucket is in the cache
 * afterwards. */
static struct next prefetch_child(const struct walk *w, const struct node *nd)
{
	struct next next = { 0, 0 };

	if (node_end(nd) >= w->pages->n)
		return next;
	next.first = w->pages->p[node_end(nd)];
	next.hash = table_hash(nd->id, next.first);
	table_prefetch(w->ix, next.hash);
	return next;
}

/* Walk down from the root. Returns the object at which the walk ended. */
static const struct node *go_down(struct walk *w, const struct node *nd)
{
	struct next next = prefetch_child(w, nd);
	struct index_match *m = w->m;
	const struct node *child;
	uint32_t same;

	while (w->depth < w->pages->n) {
		child = table_child(w->ix, next.hash, nd->id, next.first);
		if (child == NULL)
			return nd;
		/* after a cut the id may stand for other pages, and the child may belong to those */
		if (atomic_load_explicit(&nd->superseded, memory_order_relaxed))
			return nd;
		nd = child;
		if (nd->n_pages >= DIGEST_PAGES)
			node_pages_ahead(nd);
		next = prefetch_child(w, nd);
		same = node_same(nd, w->pages, nd->start);
		match_owners(w, nd, same);
		w->depth = nd->start + same;
		m->cursor.path[m->cursor.n_walked++ % CURSOR_PATH] = (struct index_step){ nd->id, nd->serial };
		if (same < nd->n_pages)
			break;
	}
	return nd;
}

static void add_leaving(const struct walk *w, struct server_set *gone)
{
	uint32_t s;

	for (s = 0; s < w->words * 64; s++)
		if (atomic_load_explicit(&w->ix->servers[s].leaving, memory_order_relaxed))
			server_set_add(gone, (server_id)s);
}

static void clear_leaving(struct walk *w, const struct server_set *gone)
{
	struct index_match *m = w->m;
	uint32_t i, k, kept = 0;

	for (i = 0; i < m->n_bands; i++) {
		for (k = 0; k < w->words; k++)
			m->bands[i].servers.w[k] &= ~gone->w[k];
		if (set_any(w, &m->bands[i].servers))
			m->bands[kept++] = m->bands[i];
	}
	m->n_bands = kept;
}

static void swap_bands(const struct walk *w, struct index_band *a, struct index_band *b)
{
	uint32_t depth = a->depth, i;
	uint64_t word;

	a->depth = b->depth;
	b->depth = depth;
	for (i = 0; i < w->words; i++) {
		word = a->servers.w[i];
		a->servers.w[i] = b->servers.w[i];
		b->servers.w[i] = word;
	}
}

static void reverse_bands(const struct walk *w)
{
	struct index_match *m = w->m;
	uint32_t i, k;

	for (i = 0, k = m->n_bands; i + 1 < k; i++)
		swap_bands(w, &m->bands[i], &m->bands[--k]);
}

/* Return the pages of <nd> after the first <depth> of the prompt, or UINT32_MAX if the tree
 * branches. */
static uint32_t pages_beyond(const struct node *nd, uint32_t depth)
{
	if (atomic_load_explicit(&nd->n_children, memory_order_relaxed) > 1)
		return UINT32_MAX;
	return node_end(nd) - depth;
}

static bool walk_once(struct walk *w, const struct space_key *space)
{
	struct index_match *m = w->m;
	const struct node *root = table_root(w->ix, space), *nd;

	m->n_bands = 0;
	m->cursor.node = m->cursor.n_walked = 0;
	m->beyond = 0;
	set_clear(w, &w->here);
	w->depth = 0;
	if (root == NULL)
		return true;
	nd = go_down(w, root);
	add_band(w, w->depth, &w->here);
	if (nd != root) {
		m->cursor.node = nd->id;
		m->cursor.serial = nd->serial;
	}
	m->cursor.depth = w->depth;
	m->beyond = pages_beyond(nd, w->depth);
	return w->depth == w->pages->n || !atomic_load_explicit(&nd->superseded, memory_order_acquire);
}

void index_match(struct index *ix, const struct space_key *space, const page_key *keys, size_t n,
    struct index_match *m)
{
	struct page_run pages = page_run(ix, keys, n);
	struct reader *r = reader_of(ix, m);
	struct server_set gone;
	struct walk w;
	bool leaving;
	unsigned i;

	m->n_bands = 0;
	m->n_pages = pages.n;
	m->beyond = 0;
	m->cursor.node = m->cursor.n_walked = m->cursor.depth = 0;
	if (r == NULL)
		return;
	w.ix = ix;
	w.pages = &pages;
	w.m = m;
	reader_enter(ix, r);
	w.words = atomic_load_explicit(&ix->server_words, memory_order_acquire);
	leaving = atomic_load_explicit(&ix->n_leaving, memory_order_acquire) > 0;
	if (leaving) {		/* a drop may finish while its server is still in the tree that this walk reads */
		set_clear(&w, &gone);
		add_leaving(&w, &gone);
	}
	for (i = 0; i < AGAIN && !walk_once(&w, space); i++)
		;
	reader_leave(r);
	if (leaving || atomic_load_explicit(&ix->n_leaving, memory_order_acquire) > 0) {
		if (!leaving)
			set_clear(&w, &gone);
		add_leaving(&w, &gone);
		clear_leaving(&w, &gone);
	}
	reverse_bands(&w);
	atomic_store_explicit(&r->matches, atomic_load_explicit(&r->matches, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}
