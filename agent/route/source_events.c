/* source_events.c - decoded KV cache events, into the index of blocks.
 *
 * Blocks of tokens become page keys as those of requests do, under the root of their adapter, salt
 * and page size. What no request can match is stored under keys that match none, so that the blocks
 * after it match none either: images, embeddings, and adapters known by number only.
 *
 * Hybrid models publish the blocks of each group of layers. A group's kind of attention is learned
 * from its stored events, because removals do not name it. */
#include "agent/prompt/text.h"
#include "agent/route/job_in.h"

#define RUN_BLOCKS	64u
#define RUN_PAGES	1024u

enum { NO_MATCH = 0x6e6f6e65 };

/* One event on its way into the index. */
struct applying {
	struct route *r;
	struct source *s;
	source_id id;
	uint16_t rank;
	struct source_batch *out;
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

static bool note_page(struct sources *t, uint32_t page)
{
	for (unsigned i = 0; i < SOURCE_SIZES; i++) {
		if (t->sizes[i] == page)
			return true;
		if (t->sizes[i] == 0) {
			t->sizes[i] = page;
			return true;
		}
	}
	return false;
}

/* Return the tokens of a page of blocks of <block_size>: those of requests if blocks are whole
 * pages, else the block. Returns 0 if it can be no page. */
static uint32_t page_of(struct sources *t, uint32_t block_size)
{
	uint32_t page = block_size % t->token_page == 0 ? t->token_page : block_size;

	if (block_size > sizeof(t->tokens) / sizeof(t->tokens[0]) || page > PROMPT_TOKEN_PAGE_MAX ||
	    block_size / page > RUN_PAGES || !note_page(t, page))
		return 0;
	return page;
}

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

	if (e->lora_name.n > 0)
		adapter_note(a->r, span_str(a->s->pool), e->lora_name);
	else if (e->has_lora_id)
		cache = hash_mix(key, cache, NO_MATCH);
	source_root(a->r, cache, page, root);
}

/* Read the next block: its handle, its page keys, and at the start of a prompt its salt. Returns
 * false if the event ends or is malformed. */
static bool next_block(struct applying *a, struct kvevent *e, uint32_t page, bool first,
    uint64_t *handle, page_key *keys, struct span *salt)
{
	struct sources *t = &a->r->sources;
	struct kv_extra x = { 0 };
	struct page_vec v = { .p = keys, .n = 0, .cap = e->block_size / page };

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

static void store_blocks(struct applying *a, struct kvevent *e, uint32_t page)
{
	uint64_t handles[RUN_BLOCKS], root[2];
	page_key keys[RUN_PAGES];
	struct span salt = e->salt;
	struct events_run run = {
		.server = (server_id)a->id, .rank = a->rank, .tier = tier_of(e),
		.block_pages = e->block_size / page, .handles = handles, .keys = keys, .space = root,
		.has_parent = e->has_parent, .parent = e->parent,
	};
	bool first = !e->has_parent;

	while (e->hashes.left > 0) {
		for (run.n = 0; run.n < RUN_BLOCKS && (run.n + 1) * run.block_pages <= RUN_PAGES &&
		     e->hashes.left > 0; run.n++) {
			if (!next_block(a, e, page, first, &handles[run.n],
				keys + run.n * run.block_pages, &salt))
				break;
			if (first)
				root_of(a, e, salt, page, root);
			first = false;
		}
		if (run.n == 0) {
			a->out->skipped = true;
			return;
		}
		a->out->stored += events_stored(a->r->sources.events, &run);
		run.has_parent = true;
		run.parent = handles[run.n - 1];
	}
}

/* Add a copy in another tier to blocks whose tokens were published before. */
static void store_copies(struct applying *a, struct kvevent *e)
{
	uint64_t handles[RUN_BLOCKS];
	struct events_run run = {
		.server = (server_id)a->id, .rank = a->rank, .tier = tier_of(e), .handles = handles,
		.has_parent = true,
	};

	do {
		for (run.n = 0; run.n < RUN_BLOCKS && kvevent_hash(&e->hashes, &handles[run.n]); run.n++)
			;
		if (run.n > 0)
			a->out->stored += events_stored(a->r->sources.events, &run);
	} while (run.n == RUN_BLOCKS);
}

/* An event that says that blocks were found again stores none. */
static void apply_stored(struct applying *a, struct kvevent *e)
{
	uint32_t page;

	if (e->reused)
		return;
	if (e->tokens.left == 0) {
		a->s->tiers |= tier_of(e) != EVENTS_DEVICE;
		store_copies(a, e);
		return;
	}
	if (!kvevent_dense(e)) {
		a->s->count.not_dense++;
		return;
	}
	if ((page = page_of(&a->r->sources, e->block_size)) == 0) {
		a->s->count.odd_size++;
		a->s->odd_size = true;
		return;
	}
	if (tier_of(e) == EVENTS_DEVICE)
		a->s->block_size = e->block_size;
	else
		a->s->tiers = true;
	store_blocks(a, e, page);
}

static void apply_removed(struct applying *a, struct kvevent *e)
{
	uint64_t handles[RUN_BLOCKS];
	uint32_t n;

	do {
		for (n = 0; n < RUN_BLOCKS && kvevent_hash(&e->hashes, &handles[n]); n++)
			;
		if (n > 0)
			a->out->removed += events_removed(a->r->sources.events, (server_id)a->id, a->rank,
			    handles, n, tier_of(e));
	} while (n == RUN_BLOCKS);
}

static void apply_event(struct applying *a, struct kvevent *e)
{
	struct source_rank *k = &a->s->rank[a->rank];

	switch (e->kind) {
	case KVEVENT_STORED:
	case KVEVENT_REMOVED:
		if (!full_attention(k, e))
			a->s->count.other_layers++;
		else if (e->kind == KVEVENT_STORED)
			apply_stored(a, e);
		else
			apply_removed(a, e);
		break;
	case KVEVENT_CLEARED:
		events_cleared(a->r->sources.events, (server_id)a->id, a->rank);
		a->out->cleared = true;
		a->s->count.cleared++;
		k->from_start = true;
		break;
	case KVEVENT_UNKNOWN:
	case KVEVENT_BAD:
		a->out->skipped = true;
		a->s->count.skipped++;
		break;
	}
}

void source_apply(struct route *r, source_id id, unsigned rank, struct kvevent_batch *b,
    struct source_batch *out)
{
	struct source *s = &r->sources.of[id];
	struct applying a = { .r = r, .s = s, .id = id, .rank = (uint16_t)rank, .out = out };
	struct kvevent e;

	out->time = b->time;
	while (kvevent_next(b, &e)) {
		out->events++;
		apply_event(&a, &e);
	}
	s->count.batches++;
	s->count.events += out->events;
	s->count.stored += out->stored;
	s->count.removed += out->removed;
	if (s->good == s->ranks) {
		s->stored += out->stored;
		s->removed += out->removed;
	}
	s->blocks = events_server_records(r->sources.events, (server_id)id);
}
