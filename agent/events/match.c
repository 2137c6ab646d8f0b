/* match.c - how many pages each server has: one walk over runs for each block size in use.
 *
 *   prompt  A B C D E F G Y          run 1 [A B C D E]   run 2 [F G H I]
 *           '---- 5 ----' '- 2 -'
 *
 * A walk keeps a bit for each holder that has all blocks so far. In a run it compares the keys with
 * those of the prompt, one after the other. Then it reads each member once, to count the blocks
 * from the start of the run that the member's holders have. So each block costs one comparison, and
 * the members are read once for up to 64 blocks. The keys of a run, its members and the next run
 * are prefetched together.
 *
 * What was read of a run counts only if its version is still the same afterwards, else the run is
 * read again; if a run is gone, the walk starts over. That happens once for each change that meets
 * a walk. After TRIES of them a walk ends where it is, so no match takes forever. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define TRIES	64u

/* Blocks of holders that do not have all matched ones of a run, and tiers. */
struct note {
	uint16_t holder;
	uint8_t blocks, tier;
};

#define NOTES_MAX	(EVENTS_HOLDERS_MAX * 5u)

struct events_scratch {
	uint16_t place[SERVERS_MAX];			/* of a server among the hits; check that the hit is its own */
	uint32_t lower[EVENTS_HOLDERS_MAX][EVENTS_TIERS];	/* pages whose best tier is not the device */
	struct note notes[NOTES_MAX];
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

/* ---- hits ---- */

struct walk {
	const struct events *ev;
	struct events_match *m;
	const page_key *keys;
	size_t n_blocks, done;		/* <done>: blocks that the active holders have */
	size_t known;			/* the block whose key is <key>, + 1 */
	uint64_t key;
	uint32_t block_pages;
	uint32_t given;			/* when the walk began */
	uint32_t n_notes, words;
	bool lower;			/* some active holder has blocks that are not in the device */
	uint64_t active[WORDS_MAX], all[WORDS_MAX];	/* <all>: have every matched block of this run */
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

/* Extend what a rank has by what is stored apart, of which the first pages are the same. */
static void extend(struct events_hit *h, const struct events_hit *apart)
{
	uint32_t skip = h->pages, n;
	unsigned t;

	for (t = 0; t < EVENTS_TIERS && apart->pages > h->pages; t++) {
		n = apart->in_tier[t] > skip ? apart->in_tier[t] - skip : 0;
		skip -= apart->in_tier[t] - n;
		h->in_tier[t] += n;
	}
	if (apart->pages > h->pages)
		h->pages = apart->pages;
}

/* Put <found> in the place of <old>, another hit of the same server, if it is better. Of the same
 * rank both count. */
static void improve(struct events_hit *old, const struct events_hit *found)
{
	struct events_hit both = *found;

	if ((old->rank ^ found->rank) != EVENTS_APART) {
		if (better(found, old))
			*old = *found;
	} else if (found->rank < old->rank) {
		extend(&both, old);
		*old = both;
	} else {
		extend(old, found);
	}
}

static void add_hit(struct walk *wk, uint32_t holder, size_t blocks)
{
	uint32_t who, t, pages = (uint32_t)(blocks * wk->block_pages);
	struct events_match *m = wk->m;
	struct events_hit found, *old, *h;
	uint16_t *place;

	who = GET(&wk->ev->who_is[holder]);
	if (blocks == 0 || (int32_t)(GET(&wk->ev->born[holder]) - wk->given) > 0)
		return;		/* the walked holder was cleared meanwhile, and <who> is another */
	place = &m->scratch->place[who >> 16];
	old = *place < m->n_hits && m->hits[*place].server == who >> 16 ? &m->hits[*place] : NULL;
	/* a copy of what was just written in parts would wait for these writes */
	h = old != NULL ? &found : &m->hits[m->n_hits];
	h->server = (server_id)(who >> 16);
	h->rank = (uint16_t)who;
	h->pages = h->in_tier[EVENTS_DEVICE] = pages;
	for (t = 1; t < EVENTS_TIERS; t++) {
		h->in_tier[t] = wk->lower ? m->scratch->lower[holder][t] : 0;
		h->in_tier[EVENTS_DEVICE] -= h->in_tier[t];
	}
	if (old == NULL)
		*place = (uint16_t)m->n_hits++;
	else
		improve(old, h);
}

static bool has_bit(const uint64_t *bits, uint32_t holder)
{
	return bits[holder / 64] >> holder % 64 & 1;
}

static void clear_lower(struct walk *wk)
{
	uint64_t bits;
	uint32_t w;

	for (w = 0; w < wk->words; w++)
		for (bits = wk->active[w]; bits != 0; bits &= bits - 1)
			memset(wk->m->scratch->lower[w * 64 + (uint32_t)__builtin_ctzll(bits)], 0,
			       sizeof(wk->m->scratch->lower[0]));
	wk->lower = true;
}

/* Apply what was read of a run with <n> matched blocks. Returns false if no holder goes on. */
static bool apply_run(struct walk *wk, uint32_t n)
{
	const struct note *note = wk->m->scratch->notes, *end = note + wk->n_notes;
	uint64_t left = 0, bits;
	uint32_t w;

	for (; note < end; note++) {
		if (note->tier == 0)
			continue;
		if (!wk->lower)
			clear_lower(wk);
		wk->m->scratch->lower[note->holder][note->tier] += note->blocks * wk->block_pages;
	}
	for (note = wk->m->scratch->notes; note < end; note++) {
		if (note->tier > 0 || has_bit(wk->all, note->holder) ||
		    !has_bit(wk->active, note->holder))
			continue;
		add_hit(wk, note->holder, wk->done + note->blocks);
		wk->active[note->holder / 64] &= ~(1ull << note->holder % 64);
	}
	for (w = 0; w < wk->words; w++) {
		bits = wk->done > 0 ? wk->active[w] & ~wk->all[w] : 0;
		for (; bits != 0; bits &= bits - 1)
			add_hit(wk, w * 64 + (uint32_t)__builtin_ctzll(bits), wk->done);
		wk->active[w] &= wk->all[w];
		left |= wk->active[w];
	}
	wk->done += n;
	return left != 0;
}

/* ---- members ---- */

static uint32_t blocks_from_start(uint64_t mask, uint32_t n)
{
	uint32_t have = ~mask != 0 ? (uint32_t)__builtin_ctzll(~mask) : RUN_BLOCKS;

	return have < n ? have : n;
}

static void add_note(struct walk *wk, uint32_t holder, uint32_t blocks, unsigned tier)
{
	if (wk->n_notes < NOTES_MAX && blocks > 0)
		wk->m->scratch->notes[wk->n_notes++] =
		    (struct note){ (uint16_t)holder, (uint8_t)blocks, (uint8_t)tier };
}

static void read_set(struct walk *wk, uint64_t mask, line_ref ref, uint32_t n)
{
	uint32_t have = blocks_from_start(mask, n), w;
	const _Atomic uint64_t *set;
	uint64_t bits;

	if (!line_is_there(wk->ev, ref) || have == 0)
		return;
	set = line_at(wk->ev, ref);
	for (w = 0; w < wk->words; w++) {
		bits = GET(&set[w]) & wk->active[w];
		if (have == n)
			wk->all[w] |= bits;
		else
			for (; bits != 0; bits &= bits - 1)
				add_note(wk, w * 64 + (uint32_t)__builtin_ctzll(bits), have, 0);
	}
}

/* Tell if a member has the blocks of an active holder that are not in the device. */
static bool read_member_tier(const struct walk *wk, uint64_t mask, uint64_t desc)
{
	return desc_kind(desc) == MEMBER_TIER && desc_tier(desc) == EVENTS_DEVICE && mask != 0 &&
	       desc_holder(desc) < wk->words * 64 && has_bit(wk->active, desc_holder(desc));
}

/* Read one member. Returns whether it is of blocks that are not in the device. */
static bool read_member(struct walk *wk, uint64_t mask, uint64_t desc, uint32_t n)
{
	uint32_t holder = desc_holder(desc), have;

	if (desc_kind(desc) == MEMBER_SET)
		read_set(wk, mask, desc_ref(desc), n);
	if (desc_kind(desc) != MEMBER_ONE)
		return read_member_tier(wk, mask, desc);
	have = blocks_from_start(mask, n);
	if (holder >= wk->words * 64 || !has_bit(wk->active, holder))
		return false;
	if (have == n)
		wk->all[holder / 64] |= 1ull << holder % 64;
	else
		add_note(wk, holder, have, 0);
	return false;
}

static uint64_t first_blocks(uint32_t n)
{
	return n < 64 ? (1ull << n) - 1 : ~0ull;
}

/* Return the blocks of <holder> from the start of the run, of <n> matched ones. */
static uint32_t noted_blocks(const struct walk *wk, uint32_t holder, uint32_t n)
{
	const struct note *notes = wk->m->scratch->notes;
	uint32_t i;

	if (has_bit(wk->all, holder))
		return n;
	for (i = 0; i < wk->n_notes; i++)
		if (notes[i].holder == holder && notes[i].tier == 0)
			return notes[i].blocks;
	return 0;
}

/* All members of a run, as a reader sees them: their memory may be in use for something else. */
struct members {
	const struct member *at;
	uint32_t left, arrays;
	uint64_t more;
};

static bool next_array(const struct events *ev, struct members *all)
{
	uint32_t n = desc_array_n(all->more);
	line_ref ref = desc_ref(all->more);

	if (desc_kind(all->more) != MEMBER_ARRAY || all->arrays++ > NOTES_MAX / 32 ||
	    !line_is_there(ev, ref) || !line_is_there(ev, ref + n * sizeof(struct member) / LINE_BYTES))
		return false;
	all->at = line_at(ev, ref);
	all->left = n;
	all->more = 0;
	return true;
}

static bool members_next(
    const struct events *ev, struct members *all, uint64_t *mask, uint64_t *desc)
{
	for (;;) {
		if (all->left == 0 && !next_array(ev, all))
			return false;
		if (all->left == 0)
			continue;
		*desc = GET(&all->at->desc);
		*mask = GET(&all->at->mask);
		all->at++;
		all->left--;
		if (desc_kind(*desc) != MEMBER_ARRAY)
			return true;
		all->more = *desc;
	}
}

/* Note the tiers of those blocks of <holder> that are not in the device, <out>. */
static void read_tiers(struct walk *wk, uint64_t first, uint32_t holder, uint64_t out, uint32_t n)
{
	struct members all = { .more = first };
	uint64_t mask, desc, in[EVENTS_TIERS] = { 0 }, here;
	unsigned t;

	out &= first_blocks(noted_blocks(wk, holder, n));
	while (members_next(wk->ev, &all, &mask, &desc))
		if (desc_kind(desc) == MEMBER_TIER && desc_holder(desc) == holder)
			in[desc_tier(desc)] |= mask;	/* an unused one may be in the list, too */
	for (t = 1; t < EVENTS_TIERS; t++) {
		here = t + 1 < EVENTS_TIERS ? out & in[t] : out;
		add_note(wk, holder, (uint32_t)__builtin_popcountll(here), t);
		out &= ~here;
	}
}

static void read_members(struct walk *wk, const struct run *r, uint32_t n)
{
	uint64_t first = GET(&r->member.desc), mask, desc;
	struct members all = { .more = first };
	bool tiers = false;

	wk->n_notes = 0;
	memset(wk->all, 0, wk->words * sizeof(wk->all[0]));
	if (desc_kind(first) == MEMBER_ONE)
		read_member(wk, GET(&r->member.mask), first, n);
	while (members_next(wk->ev, &all, &mask, &desc))
		tiers |= read_member(wk, mask, desc, n);
	all = (struct members){ .more = first };
	while (tiers && members_next(wk->ev, &all, &mask, &desc))
		if (read_member_tier(wk, mask, desc))
			read_tiers(wk, first, desc_holder(desc), mask, n);
}

/* ---- runs ---- */

static uint64_t prompt_key(struct walk *wk, size_t block)
{
	if (wk->block_pages == 1)
		return wk->keys[block];
	if (wk->known != block + 1) {
		wk->key = block_key(wk->ev, wk->keys + block * wk->block_pages, wk->block_pages);
		wk->known = block + 1;
	}
	return wk->key;
}

/* Return how many of <n> keys are those of the prompt. */
static uint32_t compare_some(struct walk *wk, const _Atomic uint64_t *k, size_t block, uint32_t n)
{
	const page_key *want = wk->keys + block;
	uint32_t i = 0;

	if (wk->block_pages == 1)
		for (; i + 4 <= n && ((GET(&k[i]) ^ want[i]) | (GET(&k[i + 1]) ^ want[i + 1]) |
			(GET(&k[i + 2]) ^ want[i + 2]) | (GET(&k[i + 3]) ^ want[i + 3])) == 0; i += 4)
			;
	for (; i < n && GET(&k[i]) == prompt_key(wk, block + i); i++)
		;
	return i;
}

static uint32_t compare_keys(struct walk *wk, const struct run *r, uint32_t len)
{
	size_t left = wk->n_blocks - wk->done;
	uint32_t n = left < len ? (uint32_t)left : len, i, some, same;
	line_ref seg;

	for (i = 0; i < n; i += SEG_KEYS) {
		seg = GET(&r->keys[i / SEG_KEYS]);
		if (!line_is_there(wk->ev, seg))
			return i;
		some = n - i < SEG_KEYS ? n - i : SEG_KEYS;
		same = compare_some(wk, line_at(wk->ev, seg), wk->done + i, some);
		if (same < some)
			return i + same;
	}
	return n;
}

/* Prefetch what a run points to. */
static void ask_run(const struct events *ev, const struct run *r, size_t blocks)
{
	uint64_t desc = GET(&r->member.desc);
	line_ref ref;
	unsigned i;

	for (i = 0; i < SEGS && i * SEG_KEYS < blocks; i++) {
		ref = GET(&r->keys[i]);
		if (!line_is_there(ev, ref))
			break;
		__builtin_prefetch(line_at(ev, ref));
		__builtin_prefetch(line_at(ev, ref + 1));
	}
	if (desc_kind(desc) == MEMBER_ARRAY && line_is_there(ev, desc_ref(desc)))
		__builtin_prefetch(line_at(ev, desc_ref(desc)));
	ref = GET(&r->next);
	if (line_is_there(ev, ref))
		__builtin_prefetch(run_at(ev, ref));
}

static bool is_child(const struct events *ev, line_ref ref, struct place p, uint64_t key)
{
	const struct run *r = run_at(ev, ref);
	uint32_t shape;
	line_ref seg;

	if (GET(&r->parent) != p.run)
		return false;
	shape = GET(&r->shape);
	seg = GET(&r->keys[0]);
	return shape_off(shape) == p.off && shape_len(shape) > 0 && line_is_there(ev, seg) &&
	       GET((const _Atomic uint64_t *)line_at(ev, seg)) == key;
}

static bool is_root(const struct events *ev, line_ref ref, uint64_t hash)
{
	const struct run *r = run_at(ev, ref);

	return desc_kind(GET(&r->member.desc)) == MEMBER_ROOT && GET(&r->member.mask) == hash;
}

#define HOPS_MAX	(1u << 16)	/* a list may lead to another while runs come and go */

/* Find the run that follows <p> with <key>, or if p.run is 0, the root of this hash. */
static line_ref find_run(const struct events *ev, struct place p, uint64_t key)
{
	uint32_t unlinked, hops, tries;
	line_ref ref;

	for (tries = 0; tries < TRIES; tries++) {
		unlinked = GET(&ev->unlinked);
		ref = p.run != 0 ? GET(&run_at(ev, p.run)->next) : 0;
		if (ref != 0 && is_child(ev, ref, p, key))
			return ref;
		ref = GET(&ev->heads[head_of(ev, p.run, p.off, key)]);
		for (hops = 0; ref != 0 && hops < HOPS_MAX; hops++) {
			if (p.run != 0 ? is_child(ev, ref, p, key) : is_root(ev, ref, key))
				return ref;
			ref = GET(&run_at(ev, ref)->chained);
		}
		if (GET(&ev->unlinked) == unlinked)
			break;
	}
	return 0;
}

/* ---- the walk ---- */

enum walk_end { WALK_ON, WALK_DONE, WALK_AGAIN };

/* Go from a block, of a run that had <*version>, to the next run, and through it. */
static enum walk_end walk_run(struct walk *wk, struct place *p, uint32_t *version)
{
	uint64_t key = prompt_key(wk, wk->done), child_at;
	const struct events *ev = wk->ev;
	const struct run *up = run_at(ev, p->run), *r;
	uint32_t was, n, len;
	line_ref ref;

	child_at = GET(&up->child_at);
	if ((child_at >> p->off & 1) == 0 || (ref = find_run(ev, *p, key)) == 0)
		return GET(&up->version) == *version ? WALK_DONE : WALK_AGAIN;
	r = run_at(ev, ref);
	was = GET(&r->version);
	ask_run(ev, r, wk->n_blocks - wk->done);
	if (!is_child(ev, ref, *p, key) || GET(&up->version) != *version)
		return WALK_AGAIN;
	len = shape_len(GET(&r->shape));
	n = compare_keys(wk, r, len);
	if (n == len && (ref = GET(&r->next)) != 0 && n < wk->n_blocks - wk->done)
		ask_run(ev, run_at(ev, ref), wk->n_blocks - wk->done - n);
	read_members(wk, r, n);
	if (n == 0 || GET(&r->version) != was)
		return WALK_AGAIN;
	*p = (struct place){ (line_ref)(((const uint8_t *)r - ev->slab.base) / LINE_BYTES), n - 1 };
	*version = was;
	return apply_run(wk, n) && wk->done < wk->n_blocks ? WALK_ON : WALK_DONE;
}

/* Returns false if the walk has to be done again. */
static bool walk_once(struct walk *wk, uint64_t root)
{
	const struct events *ev = wk->ev;
	struct place p = { 0 };
	enum walk_end end = WALK_ON;
	uint32_t version;
	unsigned w;

	if ((p.run = find_run(ev, p, root)) == 0)
		return true;
	version = GET(&run_at(ev, p.run)->version);
	if (!is_root(ev, p.run, root))
		return false;
	while (end == WALK_ON)
		end = walk_run(wk, &p, &version);
	if (end == WALK_AGAIN)
		return false;
	for (w = 0; w < wk->words; w++)
		for (; wk->active[w] != 0; wk->active[w] &= wk->active[w] - 1)
			add_hit(wk, w * 64 + (uint32_t)__builtin_ctzll(wk->active[w]), wk->done);
	return true;
}

static void walk_size(struct walk *wk, unsigned size, const uint64_t *space)
{
	const struct events *ev = wk->ev;
	uint64_t root = root_hash(ev, space, wk->block_pages), any;
	unsigned tries, w;

	for (tries = 0; tries < TRIES; tries++) {
		wk->done = wk->known = 0;
		wk->lower = false;
		wk->words = 0;
		for (w = 0, any = 0; w < ev->words; w++) {
			wk->active[w] = GET(&ev->live[size * ev->words + w]);
			any |= wk->active[w];
			if (wk->active[w] != 0)
				wk->words = w + 1;
		}
		if (any == 0 || walk_once(wk, root))
			break;
	}
}

void events_match(const struct events *ev, const uint64_t *space, const page_key *keys, size_t n,
		  struct events_match *m)
{
	struct walk wk;
	unsigned i;

	wk.ev = ev;
	wk.m = m;
	wk.keys = keys;
	wk.given = GET(&ev->given);
	m->n_hits = 0;
	for (i = 0; i < EVENTS_SIZES_MAX; i++) {
		wk.block_pages = GET(&ev->sizes[i]);
		if (wk.block_pages == 0 || n < wk.block_pages)
			continue;
		wk.n_blocks = n / wk.block_pages;
		walk_size(&wk, i, space);
	}
	for (i = 0; i < m->n_hits; i++)
		m->hits[i].rank &= (uint16_t)~EVENTS_APART;
}
