/* match.c - how many pages each server has: one walk over chains for each block size in use.
 *
 * A walk keeps a bit for each holder that has all blocks so far, and at each block drops those that
 * do not hold it. It ends when none is left, so it costs a hash and a line for each matched block,
 * and the records that entries point to. Chains are computed a few blocks ahead and their lines
 * prefetched, so that it waits for memory once. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define AHEAD	8u

struct events_scratch {
	uint16_t place[SERVERS_MAX];			/* of a server among the hits; check that the hit is its own */
	uint32_t lower[EVENTS_HOLDERS_MAX][EVENTS_TIERS];	/* pages whose best tier is not the device */
};

struct bits {
	uint64_t in[EVENTS_TIERS][WORDS_MAX];
};

int events_match_init(struct events_match *m)
{
	*m = (struct events_match){ 0 };
	m->hits = mem_calloc(SERVERS_MAX, sizeof(*m->hits));
	m->scratch = mem_alloc(sizeof(*m->scratch));
	if (m->hits != NULL && m->scratch != NULL)
		return 0;
	events_match_fini(m);
	return -1;
}

void events_match_fini(struct events_match *m)
{
	mem_free(m->hits);
	mem_free(m->scratch);
	*m = (struct events_match){ 0 };
}

uint32_t events_match_pages(const struct events_match *m, server_id server)
{
	uint32_t i;

	for (i = 0; i < m->n_hits; i++)
		if (m->hits[i].server == server)
			return m->hits[i].pages;
	return 0;
}

/* ---- holders of a chain ---- */

static void add_set(const struct events *ev, const struct set *s, struct bits *h)
{
	unsigned t, w;

	for (t = 0; t < EVENTS_TIERS; t++)
		for (w = 0; w < ev->words; w++)
			h->in[t][w] |= atomic_load_explicit(&s->bits[t * ev->words + w], memory_order_acquire);
}

static void add_record(const struct events *ev, uint32_t who, struct bits *h)
{
	unsigned t, tiers = tiers_of(who);
	uint32_t s = who_holder(who);

	for (t = 0; t < EVENTS_TIERS && s / 64 < ev->words; t++)
		h->in[t][s / 64] |= (uint64_t)(tiers >> t & 1) << s % 64;
}

static void add_entry(const struct events *ev, uint64_t chain, uint32_t entry, struct bits *h)
{
	uint32_t ref = entry & REF_MASK, n_recs = ev->n_groups * GROUP;
	const struct set *s;

	if (ref <= n_recs) {
		if (rec_chain(rec_at(ev, ref)) == chain)
			add_record(ev, rec_who(rec_at(ev, ref)), h);
		return;
	}
	s = set_at(ev, ref - n_recs - 1);
	if (atomic_load_explicit(&s->chain, memory_order_acquire) == chain)
		add_set(ev, s, h);
}

static void find_bits(const struct events *ev, uint64_t chain, struct bits *h)
{
	const struct line *ln = line_of(ev, chain, 0);
	uint32_t version, e, tag = chain_tag(chain);
	unsigned hop, i, t;

again:
	version = atomic_load_explicit(&ln->head, memory_order_acquire) >> 8;
	for (t = 0; t < EVENTS_TIERS; t++)
		memset(h->in[t], 0, ev->words * sizeof(h->in[t][0]));
	for (hop = 0; hop < LINES_MAX && hop < ev->n_lines; hop++) {
		ln = line_of(ev, chain, hop);
		for (i = 0; i < GROUP; i++) {
			e = atomic_load_explicit(&ln->entry[i], memory_order_acquire);
			if (e != 0 && (e & ~REF_MASK) == tag)
				add_entry(ev, chain, e, h);
		}
		if ((atomic_load_explicit(&ln->head, memory_order_acquire) & 0xff) == 0)
			break;
	}
	ln = line_of(ev, chain, 0);
	if (atomic_load_explicit(&ln->head, memory_order_acquire) >> 8 != version)
		goto again;
}

/* Prefetch what the entries of a chain's first line point to. */
static void ask_entries(const struct events *ev, uint64_t chain)
{
	const struct line *ln = line_of(ev, chain, 0);
	uint32_t e, ref, n_recs = ev->n_groups * GROUP;
	unsigned i;

	for (i = 0; i < GROUP; i++) {
		e = atomic_load_explicit(&ln->entry[i], memory_order_relaxed);
		ref = e & REF_MASK;
		if (e == 0 || (e & ~REF_MASK) != chain_tag(chain))
			continue;
		if (ref <= n_recs)
			__builtin_prefetch(rec_at(ev, ref));
		else
			__builtin_prefetch(set_at(ev, ref - n_recs - 1));
	}
}

/* ---- the walk ---- */

struct walk {
	const struct events *ev;
	struct events_match *m;
	uint32_t block_pages, done;		/* <done>: pages that the active holders have */
	uint32_t given;				/* when the walk began */
	uint64_t active[WORDS_MAX];
};

static bool better(const struct events_hit *a, const struct events_hit *b)
{
	unsigned t;

	if (a->pages != b->pages)
		return a->pages > b->pages;
	for (t = 0; t + 1 < EVENTS_TIERS && a->in_tier[t] == b->in_tier[t]; t++)
		;
	return a->in_tier[t] > b->in_tier[t];
}

/* Add hits for the holders of word <w> that have no more blocks. */
static void add_hits(struct walk *wk, unsigned w, uint64_t bits)
{
	struct events_match *m = wk->m;
	struct events_hit found, *old;
	uint32_t holder, who, t;
	uint16_t *place;

	for (; bits != 0 && wk->done != 0; bits &= bits - 1) {
		holder = w * 64 + (uint32_t)__builtin_ctzll(bits);
		who = atomic_load_explicit(&wk->ev->who_is[holder], memory_order_acquire);
		if ((int32_t)(atomic_load_explicit(&wk->ev->born[holder], memory_order_acquire) - wk->given) > 0)
			continue;	/* the walked holder was cleared meanwhile, and <who> is another */
		found = (struct events_hit){ .server = (server_id)(who >> 16), .rank = (uint16_t)who,
					     .pages = wk->done, .in_tier[EVENTS_DEVICE] = wk->done };
		for (t = 1; t < EVENTS_TIERS; t++) {
			found.in_tier[t] = m->scratch->lower[holder][t];
			found.in_tier[EVENTS_DEVICE] -= found.in_tier[t];
		}
		place = &m->scratch->place[found.server];
		old = *place < m->n_hits && m->hits[*place].server == found.server ? &m->hits[*place] : NULL;
		if (old == NULL) {
			*place = (uint16_t)m->n_hits;
			m->hits[m->n_hits++] = found;
		} else if (better(&found, old)) {
			*old = found;
		}
	}
}

static void count_lower(struct walk *wk, const struct bits *h, unsigned w, uint64_t bits)
{
	unsigned holder, t;

	for (; bits != 0; bits &= bits - 1) {
		holder = w * 64 + (unsigned)__builtin_ctzll(bits);
		for (t = 1; t + 1 < EVENTS_TIERS && (h->in[t][w] >> holder % 64 & 1) == 0; t++)
			;
		wk->m->scratch->lower[holder][t] += wk->block_pages;
	}
}

static void clear_lower(struct walk *wk, unsigned w, uint64_t bits)
{
	for (; bits != 0; bits &= bits - 1)
		memset(wk->m->scratch->lower[w * 64 + (unsigned)__builtin_ctzll(bits)], 0,
		       sizeof(wk->m->scratch->lower[0]));
}

/* Apply the holders of one more block. Returns false if none goes on. */
static bool apply_block(struct walk *wk, const struct bits *h)
{
	uint64_t any, left = 0;
	unsigned w;

	for (w = 0; w < wk->ev->words; w++) {
		if (wk->active[w] == 0)
			continue;
		any = h->in[0][w] | h->in[1][w] | h->in[2][w] | h->in[3][w];
		add_hits(wk, w, wk->active[w] & ~any);
		wk->active[w] &= any;
		if (wk->done == 0)
			clear_lower(wk, w, wk->active[w]);
		count_lower(wk, h, w, wk->active[w] & ~h->in[EVENTS_DEVICE][w]);
		left |= wk->active[w];
	}
	wk->done += wk->block_pages;
	return left != 0;
}

static void walk_size(struct walk *wk, const uint64_t *space, const page_key *keys, size_t n_blocks)
{
	const struct events *ev = wk->ev;
	uint64_t chain = chain_root(ev, space, wk->block_pages), ahead[AHEAD];
	size_t made = 0, b;
	struct bits h;
	unsigned w;

	wk->done = 0;
	for (b = 0; b < n_blocks; b++) {
		/* most prompts have no holder: so compute the first block alone */
		for (; made < n_blocks && made < (b == 0 ? 1 : b + AHEAD); made++) {
			chain = chain_next(ev, chain, pages_hash(ev, keys + made * wk->block_pages, wk->block_pages));
			ahead[made % AHEAD] = chain;
			__builtin_prefetch(line_of(ev, chain, 0));
		}
		if (b + AHEAD / 2 < made)
			ask_entries(ev, ahead[(b + AHEAD / 2) % AHEAD]);
		find_bits(ev, ahead[b % AHEAD], &h);
		if (!apply_block(wk, &h))
			return;
	}
	for (w = 0; w < ev->words; w++)
		add_hits(wk, w, wk->active[w]);
}

void events_match(const struct events *ev, const uint64_t *space, const page_key *keys, size_t n,
		  struct events_match *m)
{
	unsigned i, w;
	struct walk wk;
	uint64_t any;

	wk.ev = ev;
	wk.m = m;
	wk.given = atomic_load_explicit(&ev->given, memory_order_acquire);
	m->n_hits = 0;
	for (i = 0; i < EVENTS_SIZES_MAX; i++) {
		wk.block_pages = atomic_load_explicit(&ev->sizes[i], memory_order_acquire);
		if (wk.block_pages == 0 || n < wk.block_pages)
			continue;
		for (w = 0, any = 0; w < ev->words; w++) {
			wk.active[w] = atomic_load_explicit(&ev->live[i * ev->words + w], memory_order_acquire);
			any |= wk.active[w];
		}
		if (any != 0)
			walk_size(&wk, space, keys, n / wk.block_pages);
	}
}
