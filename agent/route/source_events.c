/* source_events.c - decoded KV cache events, into the index of blocks.
 *
 * Blocks of tokens become page keys as those of requests do, under the root of their adapter, salt
 * and page size. What no request can match is stored under keys that match none, so that the blocks
 * after it match none either: images, embeddings, and adapters known by number only.
 *
 * Hybrid models publish the blocks of each group of layers. A group's kind of attention is learned
 * from its stored events, because removals do not name it. */
#include "agent/base/mem.h"
#include "agent/prompt/text.h"
#include "agent/route/job_in.h"

#define RUN_BLOCKS	64u
#define RUN_PAGES	1024u

enum { NO_MATCH = 0x6e6f6e65 };

/* One slice of a batch on its way into the index. */
struct applying {
	struct route *r;
	struct source *s;
	source_id id;
	uint16_t rank;
	uint32_t most_tokens;		/* of a block that was read */
	struct source_slices *w;
	struct source_batch *out;	/* in <w> */
	int64_t left;			/* of the work */
};

static enum events_tier tier_of(const struct kvevent *e)
{
	static const enum events_tier tiers[TIERS] = {
		[TIER_DEVICE] = EVENTS_DEVICE, [TIER_HOST] = EVENTS_HOST, [TIER_DISK] = EVENTS_DISK,
		[TIER_REMOTE] = EVENTS_OTHER,
	};

	return e->remote ? EVENTS_OTHER : tiers[e->tier];
}

/* Tell if the blocks of <e> hold the whole prefix. A group without a kind is taken if it is the
 * first, because old engines name the group but not the kind. */
static bool full_attention(struct source_rank *k, const struct kvevent *e)
{
	uint64_t bit;

	if (!e->has_group)
		return e->attention != ATTENTION_OTHER;
	if (e->group >= SOURCE_GROUPS)
		return false;
	bit = (uint64_t)1 << e->group;
	if (e->attention == ATTENTION_OTHER)
		k->other |= bit;
	else if (e->attention == ATTENTION_FULL || (e->kind == KVEVENT_STORED && e->group == 0))
		k->full |= bit;
	return (k->full & bit) != 0 && (k->other & bit) == 0;
}

/* ---- sizes of blocks ----------------------------------------------------------------------- */

/* A publisher has one size at a time, so that it takes no more than one place from others. */
bool source_use_page(struct sources *t, struct source *s, uint32_t page)
{
	unsigned i, free = SOURCE_SIZES;

	for (i = 0; s->page != 0 && i < SOURCE_SIZES; i++)
		if (t->sizes[i] == s->page && --t->size_users[i] == 0)
			t->sizes[i] = 0;
	s->page = 0;
	if (page == 0)
		return true;
	for (i = 0; i < SOURCE_SIZES && t->sizes[i] != page; i++)
		if (t->sizes[i] == 0 && free == SOURCE_SIZES)
			free = i;
	if (i == SOURCE_SIZES && (i = free) == SOURCE_SIZES)
		return false;
	t->sizes[i] = page;
	t->size_users[i]++;
	s->page = page;
	return true;
}

/* Return the tokens of a page of blocks of <block_size>: those of requests if blocks are whole
 * pages, else the block. Returns 0 if it can be no page. */
static uint32_t page_of(const struct sources *t, uint32_t block_size)
{
	uint32_t page = block_size % t->token_page == 0 ? t->token_page : block_size;

	if (block_size > sizeof(t->tokens) / sizeof(t->tokens[0]) || page > PROMPT_TOKEN_PAGE_MAX ||
	    block_size / page > RUN_PAGES)
		return 0;
	return page;
}

/* Tell if the blocks of <e> show the size of all blocks of <k> better than those before. A block
 * that is stored in part has a smaller size, and a chunk of several blocks in a slower tier has a
 * larger one. */
static bool size_is_better(const struct source_rank *k, const struct kvevent *e)
{
	bool device = tier_of(e) == EVENTS_DEVICE;

	return device != k->by_device ? device : e->block_size > k->block_size;
}

/* Tell if blocks that are not on the device are stored apart from those that are. LMCache has
 * chunks of its own size, with handles of its own, and does not report their removal; others store
 * their blocks a second time, as copies of those on the device. */
static bool is_apart(const struct applying *a, const struct kvevent *e)
{
	const struct source_rank *k = &a->s->rank[a->rank];

	return tier_of(e) != EVENTS_DEVICE &&
	       (a->s->ttl_ms > 0 ||
		   (k->by_device && e->tokens.left > 0 && e->block_size != k->block_size));
}

/* Return the tokens of a page of blocks stored apart, or 0 if it can be no page. */
static uint32_t page_apart(struct applying *a, uint32_t block_size)
{
	struct sources *t = &a->r->sources;
	uint32_t page = a->s->page;

	if (block_size > sizeof(t->tokens) / sizeof(t->tokens[0]))
		return 0;
	if (page == 0 && ((page = page_of(t, block_size)) == 0 || !source_use_page(t, a->s, page)))
		return 0;
	return block_size % page == 0 && block_size / page <= RUN_PAGES ? page : 0;
}

static void forget_apart(struct applying *a)
{
	events_cleared(
	    a->r->sources.events, (server_id)a->id, (uint16_t)(a->rank | EVENTS_APART));
	a->s->rank[a->rank].apart_size = 0;
}

/* Learn the size of blocks from <e>. Blocks of another size, which were parts, are dropped. */
static void learn_size(struct applying *a, const struct kvevent *e)
{
	struct sources *t = &a->r->sources;
	struct source_rank *k = &a->s->rank[a->rank];
	uint32_t page = page_of(t, e->block_size);

	if (k->block_size != 0 && k->block_size != e->block_size)
		events_cleared(t->events, (server_id)a->id, a->rank);
	k->block_size = e->block_size;
	k->by_device = tier_of(e) == EVENTS_DEVICE;
	if (k->by_device)
		a->s->block_size = e->block_size;
	if (page != a->s->page)
		forget_apart(a);
	k->odd_size = page == 0 || (page != a->s->page && !source_use_page(t, a->s, page));
}

/* ---- events -------------------------------------------------------------------------------- */

void source_root(const struct route *r, uint64_t cache_of, uint32_t page, uint64_t root[2])
{
	root[0] = hash_mix(&r->key, cache_of, page);
	root[1] = hash_mix(&r->key, ~cache_of, page);
}

/* Set the root of the chain that <e> begins. */
static void root_of(
    struct applying *a, const struct kvevent *e, struct span salt, uint32_t page, uint64_t root[2])
{
	const struct hash_key *key = &a->r->key;
	uint64_t cache = space_cache_of(key, e->lora_name, salt);

	if (salt.n > 0)
		a->s->salts = true;
	if (e->lora_name.n > 0) {
		adapter_note_event(a->r, a->s, e->lora_name);
	} else if (e->has_lora_id) {
		cache = hash_mix(key, cache, NO_MATCH);
	}
	source_root(a->r, cache, page, root);
}

static void skip_event(struct applying *a)
{
	a->out->skipped = true;
	a->s->count.skipped++;
}

/* Read the next block: its handle, its page keys, and at the start of a prompt its salt. Returns
 * false if the event ends or is malformed. */
static bool next_block(struct applying *a, struct kvevent *e, uint32_t page, bool first,
    uint64_t *handle, page_key *keys, struct span *salt)
{
	struct sources *t = &a->r->sources;
	struct kv_extra x = { 0 };
	struct page_vec v = { .p = keys, .n = 0, .cap = e->block_size / page };

	if (a->most_tokens < e->block_size)
		a->most_tokens = e->block_size;
	if (!kvevent_hash(&e->hashes, handle) ||
	    !kvevent_tokens(&e->tokens, t->tokens, e->block_size) ||
	    (e->extra.left > 0 && !kvevent_extra(&e->extra, e->lora_name, first, &x)))
		return false;
	prompt_pages_of_ids(
	    &a->r->key, t->tokens, e->block_size, page, false, e->block_size / page, &v);
	if (first && x.salt.n > 0)
		*salt = x.salt;
	for (uint32_t i = 0; x.other && i < v.n; i++)
		keys[i] = hash_mix(&a->r->key, keys[i], NO_MATCH);
	return true;
}

/* Store a run. While older blocks may be missing, a parent that is unknown is one of them, and is
 * still in use: then the engine has not evicted all that was stored before its first event. */
static void store_run(struct applying *a, const struct events_run *run)
{
	const struct events *ev = a->r->sources.events;
	struct events_stats before, after;
	uint32_t n;

	if (a->s->from_start || (run->rank & EVENTS_APART) != 0) {
		n = events_stored(a->r->sources.events, run);
	} else {
		events_stats(ev, &before);
		n = events_stored(a->r->sources.events, run);
		events_stats(ev, &after);
		if (after.parked + after.parked_dropped > before.parked + before.parked_dropped) {
			a->s->stored = 0;
			a->w->on_device = 0;
			a->out->stored += n;
			return;
		}
	}
	a->out->stored += n;
	if (run->ttl_ms > 0)
		a->out->expiring += n;
	if (run->tier == EVENTS_DEVICE)
		a->w->on_device += n;
}

/* Begin to store the blocks of the event. <apart>: EVENTS_APART, or 0. */
static void store_begin(struct applying *a, const struct kvevent *e, uint32_t page, unsigned apart)
{
	struct source_slices *w = a->w;

	w->part = SLICE_STORE;
	w->page = page;
	w->apart = (uint16_t)apart;
	w->salt = e->salt;
	w->first = !e->has_parent;
	w->has_parent = e->has_parent;
	w->parent = e->parent;
}

/* Store the next blocks of the event. */
static void store_blocks(struct applying *a)
{
	struct source_slices *w = a->w;
	struct kvevent *e = &w->event;
	uint64_t handles[RUN_BLOCKS];
	page_key keys[RUN_PAGES];
	struct events_run run = {
		.server = (server_id)a->id, .rank = (uint16_t)(a->rank | w->apart), .tier = tier_of(e),
		.block_pages = e->block_size / w->page, .handles = handles, .keys = keys, .space = w->root,
		.has_parent = w->has_parent, .parent = w->parent,
		.ttl_ms = w->apart != 0 ? a->s->ttl_ms : 0,
	};
	bool good = true;

	for (run.n = 0; run.n < RUN_BLOCKS && (run.n + 1) * run.block_pages <= RUN_PAGES &&
	     e->hashes.left > 0; run.n++) {
		good = next_block(a, e, w->page, w->first, &handles[run.n],
		    keys + run.n * run.block_pages, &w->salt);
		if (!good)
			break;
		if (w->first)
			root_of(a, e, w->salt, w->page, w->root);
		w->first = false;
	}
	if (run.n > 0)
		store_run(a, &run);
	w->has_parent = true;
	w->parent = run.n > 0 ? handles[run.n - 1] : 0;
	a->left -= run.n;
	if (!good)
		skip_event(a);
	if (!good || e->hashes.left == 0)
		w->part = SLICE_NEXT;
}

/* Add a copy in another tier to the next blocks, whose tokens were published before. */
static void store_copies(struct applying *a)
{
	struct kvevent *e = &a->w->event;
	uint64_t handles[RUN_BLOCKS];
	struct events_run run = {
		.server = (server_id)a->id, .rank = a->rank, .tier = tier_of(e), .handles = handles,
		.has_parent = true,
	};
	uint32_t n;

	if (is_apart(a, e)) {
		run.rank |= EVENTS_APART;
		run.ttl_ms = a->s->ttl_ms;
	}
	while (run.n < RUN_BLOCKS && kvevent_hash(&e->hashes, &handles[run.n]))
		run.n++;
	if (run.n < RUN_BLOCKS)
		a->w->part = SLICE_NEXT;
	if (run.n == 0)
		return;
	n = events_stored(a->r->sources.events, &run);
	a->out->stored += n;
	a->out->expiring += run.ttl_ms > 0 ? n : 0;
	a->left -= run.n;
}

/* A chunk that is not whole is smaller than the others, and left out. */
static void store_apart(struct applying *a, struct kvevent *e)
{
	struct source_rank *k = &a->s->rank[a->rank];
	uint32_t page = page_apart(a, e->block_size);

	if (page == 0 || e->block_size < k->apart_size) {
		a->s->count.odd_size++;
		return;
	}
	if (e->block_size > k->apart_size)
		forget_apart(a);
	k->apart_size = e->block_size;
	a->s->apart = true;
	store_begin(a, e, page, EVENTS_APART);
	a->s->usable++;
}

/* An event that says that blocks were found again stores none. */
static void apply_stored(struct applying *a, struct kvevent *e)
{
	const struct source_rank *k = &a->s->rank[a->rank];

	if (e->reused)
		return;
	if (e->tokens.left == 0) {
		a->s->tiers |= tier_of(e) != EVENTS_DEVICE;
		a->w->part = SLICE_COPY;
		return;
	}
	if (!kvevent_dense(e)) {
		a->s->count.not_dense++;
		a->s->unusable++;
		return;
	}
	a->s->tiers |= tier_of(e) != EVENTS_DEVICE;
	if (is_apart(a, e)) {
		store_apart(a, e);
		return;
	}
	if (size_is_better(k, e))
		learn_size(a, e);
	if (k->odd_size || e->block_size != k->block_size) {
		a->s->count.odd_size++;
		return;
	}
	store_begin(a, e, page_of(&a->r->sources, e->block_size), 0);
	a->s->usable++;
}

static void remove_blocks(
    struct applying *a, const struct kvevent *e, const uint64_t *handles, uint32_t n)
{
	struct events *ev = a->r->sources.events;
	server_id id = (server_id)a->id;
	uint16_t apart = (uint16_t)(a->rank | EVENTS_APART);

	if (!a->s->apart || tier_of(e) == EVENTS_DEVICE) {
		a->out->removed += events_removed(ev, id, a->rank, handles, n, tier_of(e));
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		a->out->removed += events_removed(ev, id,
		    events_has(ev, id, apart, handles[i]) ? apart : a->rank, &handles[i], 1, tier_of(e));
}

static void apply_removed(struct applying *a)
{
	struct kvevent *e = &a->w->event;
	uint64_t handles[RUN_BLOCKS];
	uint32_t n = 0;

	while (n < RUN_BLOCKS && kvevent_hash(&e->hashes, &handles[n]))
		n++;
	if (n < RUN_BLOCKS)
		a->w->part = SLICE_NEXT;
	if (n > 0)
		remove_blocks(a, e, handles, n);
	a->left -= n;
}

static void apply_event(struct applying *a, struct kvevent *e)
{
	struct source_rank *k = &a->s->rank[a->rank];

	switch (e->kind) {
	case KVEVENT_STORED:
	case KVEVENT_REMOVED:
		if (!full_attention(k, e)) {
			a->s->count.other_layers++;
			a->s->unusable += e->kind == KVEVENT_STORED;
		} else if (e->kind == KVEVENT_STORED) {
			apply_stored(a, e);
		} else {
			a->w->part = SLICE_REMOVE;
		}
		break;
	case KVEVENT_CLEARED:
		source_rank_forget(&a->r->sources, a->id, a->rank);
		a->out->cleared = true;
		a->s->count.cleared++;
		k->from_start = true;
		k->lost = events_server_lost(a->r->sources.events, (server_id)a->id);
		break;
	case KVEVENT_UNKNOWN:
	case KVEVENT_BAD:
		skip_event(a);
		break;
	}
}

/* A source that began in the middle is complete when enough was stored since the last loss. */
static void count_again_after_loss(struct applying *a)
{
	uint64_t lost = events_server_lost(a->r->sources.events, (server_id)a->id);

	if (a->s->from_start || lost == a->s->lost)
		return;
	for (unsigned i = 0; i < a->s->n_ranks; i++)
		a->s->rank[i].lost = lost;
	a->s->lost = lost;
	a->s->stored = 0;
	a->w->on_device = 0;
}

/* Returns false after the last event. */
static bool next_event(struct applying *a)
{
	if (!kvevent_next(&a->w->batch, &a->w->event))
		return false;
	a->left--;
	a->out->events++;
	apply_event(a, &a->w->event);
	return true;
}

static bool apply_some(struct applying *a)
{
	switch (a->w->part) {
	case SLICE_NEXT: return next_event(a);
	case SLICE_STORE: store_blocks(a); break;
	case SLICE_COPY: store_copies(a); break;
	case SLICE_REMOVE: apply_removed(a); break;
	}
	return true;
}

static void count_batch(struct applying *a)
{
	struct source *s = a->s;

	s->count.batches++;
	s->rank[a->rank].batches++;
	s->count.events += a->out->events;
	s->count.stored += a->out->stored;
	s->count.removed += a->out->removed;
	if (s->good == s->ranks) {
		s->stored += a->w->on_device;
		s->removed += a->out->removed;
	}
}

bool source_apply(
    struct route *r, source_id id, unsigned rank, struct source_slices *w, int64_t *work)
{
	struct source *s = &r->sources.of[id];
	struct applying a = { .r = r, .s = s, .id = id, .rank = (uint16_t)rank, .w = w,
			      .out = &w->did, .left = *work };
	bool more = true;

	w->did.time = w->batch.time;
	while (more && a.left > 0)
		more = apply_some(&a);
	mem_wipe(r->sources.tokens, a.most_tokens * sizeof(*r->sources.tokens));
	source_sum_ranks(s);
	count_again_after_loss(&a);
	if (!more)
		count_batch(&a);
	s->blocks = events_server_records(r->sources.events, (server_id)id);
	*work = a.left;
	return !more;
}
