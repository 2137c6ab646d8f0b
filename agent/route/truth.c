/* truth.c - what a server is expected to hold of a prompt: as its engine reports, or as requests
 * taught.
 *
 * An engine reports a block some milliseconds after it is computed, and a request may wait for
 * seconds before that. Meanwhile only the tree has the prompt. So the tree counts where it has more
 * than the events if an open request with the same beginning was sent to that server: at the
 * deepest mark (struct marks) that the tree's match reaches, the last request sent there with that
 * mark is looked up. The tree counts up to that mark. */
#include "agent/base/mem.h"
#include "agent/prompt/text.h"
#include "agent/route/job_in.h"

#define ONWAY_GRACE_MS	100	/* events may come so much later than the first token */
#define SENT_TRUST	0.9	/* of tokens that are not stored yet, for the cost */
#define GROWN_LOOKUPS	64u	/* servers whose answers are looked up for a match */

/* ---- the match ---- */

static void take_hits(struct route_scratch *s, uint32_t page)
{
	for (uint32_t i = 0; i < s->reports.n_hits; i++) {
		const struct events_hit *h = &s->reports.hits[i];
		struct reported *to = &s->reported[h->server];

		to->match = s->n_reports;
		to->rank = h->rank;
		for (unsigned t = 0; t < EVENTS_TIERS; t++)
			to->in_tier[t] = (uint64_t)h->in_tier[t] * page;
	}
}

/* Return the page keys of the prompt in pages of <page> tokens. Returns NULL if it cannot be
 * divided so. */
static const page_key *keys_of(const struct route *r, struct job *j, uint32_t page, uint32_t *n)
{
	struct route_scratch *s = j->scratch;
	const token_id *ids;

	if (page == j->rq.page) {
		*n = j->rq.n_pages;
		return s->rq.pages.p;
	}
	s->report_pages.n = 0;
	ids = request_ids(&j->rq, 0, j->rq.n_ids);
	if (ids == NULL || prompt_pages_of_ids(&r->key, ids, j->rq.n_ids, page, false,
				     j->opts->prompt.max_pages, &s->report_pages) != 0)
		return NULL;
	*n = (uint32_t)s->report_pages.n;
	return s->report_pages.p;
}

/* Return the most pages that some server holds of answers to earlier turns. */
static uint32_t grown_most(struct route *r, const struct job *j)
{
	const struct index_match *m = &j->scratch->match;
	uint32_t most = 0, left = GROWN_LOOKUPS;
	struct job_grown_at at;

	for (uint32_t i = 0; i < m->n_bands && i < JOB_GROWN; i++) {
		for (unsigned w = 0; w < SERVERS_MAX / 64; w++) {
			uint64_t bits = m->bands[i].servers.w[w];

			for (; bits != 0 && left > 0; bits &= bits - 1, left--) {
				unsigned id = w * 64 + (unsigned)__builtin_ctzll(bits);
				uint32_t end = m->bands[i].depth;

				if (r->fleet.by_id[id] != NULL)
					end += job_grown_pages(r, j, r->fleet.by_id[id], end, &at);
				most = end > most ? end : most;
			}
		}
	}
	return most;
}

/* Return the pages that requests of the same tenant account for. */
static uint32_t own_pages(struct route *r, const struct job *j)
{
	const struct index_match *m = &j->scratch->match;
	uint32_t own = m->n_bands > 0 ? m->bands[0].depth : 0, grown = 0;

	if (j->n_grown > 0) {
		pthread_mutex_lock(&r->lock);
		grown = grown_most(r, j);
		pthread_mutex_unlock(&r->lock);
	}
	return grown > own ? grown : own;
}

/* Return what separates the blocks of the prompt from others. A model without an entry in the
 * options is an adapter at engines that have named it so. */
static uint64_t cache_of(const struct route *r, struct job *j)
{
	struct span name = j->rq.space_model;

	j->reported_adapter = !j->rq.is_adapter && j->rq.prompt->lora.n == 0 && name.n > 0 &&
	    j->rq.model_opts == &r->opts.model_default && adapter_is_reported(r, j->rq.pool, name);
	return j->reported_adapter
	    ? space_cache_of(&r->key, name, span_of(j->rq.prompt->salt.s, j->rq.prompt->salt.n))
	    : j->rq.cache_of;
}

/* An isolated tenant gets no more hits by events than by its own requests (job_expect). No more
 * pages are matched for it either, because the time would reveal what others have sent. */
void job_match_events(struct route *r, struct job *j)
{
	struct events *ev = atomic_load_explicit(&r->sources.events, memory_order_acquire);
	struct route_scratch *s = j->scratch;
	const page_key *keys;
	uint64_t root[2], most = UINT64_MAX, cache;
	uint32_t page, n;

	if (ev == NULL || j->rq.mode != PROMPT_TOKENS || j->rq.front_unseen || j->rq.n_pages == 0 ||
	    (s->reports.hits == NULL && events_match_init(&s->reports) != 0))
		return;
	s->n_reports++;
	j->reported = true;
	cache = cache_of(r, j);
	if (j->isolated)
		most = (uint64_t)own_pages(r, j) * j->rq.page;
	for (unsigned i = 0; i < SOURCE_SIZES; i++) {
		s->report_sizes[i] = 0;
		if ((page = r->sources.sizes[i]) == 0 || (keys = keys_of(r, j, page, &n)) == NULL)
			continue;
		s->report_sizes[i] = page;
		source_root(r, cache, page, root);
		if (n > most / page)
			n = (uint32_t)(most / page);
		events_match(ev, root, keys, n, &s->reports);
		take_hits(s, page);
	}
}

/* ---- requests on their way ---- */

static struct onway *onway_at(const struct route *r, uint64_t mark, const struct server *s)
{
	uint64_t key = (mark ^ s->name_hash * 0x9e3779b97f4a7c15u) | 1;

	return &r->sources.onway[key / 2 % ONWAY_PLACES];
}

static uint64_t onway_key(uint64_t mark, const struct server *s)
{
	return (mark ^ s->name_hash * 0x9e3779b97f4a7c15u) | 1;
}

/* Tell if the blocks of request <uid> at <s> may not be reported yet. */
static bool still_due(const struct route *r, uint64_t uid, const struct server *s, msec now)
{
	const struct onway_end *end = &r->sources.ended[uid % ONWAY_ENDED];
	const struct ledger_entry *e = ledger_find(&r->ledger, uid);

	if (e != NULL)
		return e->server == s && (!e->answered || now - e->answered_at <= ONWAY_GRACE_MS);
	return end->uid == uid && now - end->at <= ONWAY_GRACE_MS;
}

void onway_ended(struct route *r, uint64_t uid, msec now)
{
	r->sources.ended[uid % ONWAY_ENDED] = (struct onway_end){ uid, now };
}

/* Return how many of the first <depth> pages are on their way to <s>: up to the mark at which they
 * were found, because a request that was sent there shares no more with this one for sure. */
static uint32_t pages_on_the_way(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth)
{
	const struct marks *m = &j->scratch->marks;
	const struct onway *w;
	uint32_t i = m->n;

	while (i > 0 && m->depth[i - 1] > depth)
		i--;
	if (i == 0)
		return 0;
	w = onway_at(r, m->key[i - 1], s);
	return w->key == onway_key(m->key[i - 1], s) && still_due(r, w->uid, s, j->rq.now)
	    ? m->depth[i - 1]
	    : 0;
}

void onway_sent(struct route *r, uint64_t uid, const struct marks *m, struct server *s,
    uint64_t new_tokens, msec now)
{
	struct source *src = s->source > 0 ? &r->sources.of[s->source - 1] : NULL;

	if (src == NULL || r->sources.onway == NULL)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		*onway_at(r, m->key[i], s) = (struct onway){ onway_key(m->key[i], s), uid };
	if (new_tokens > src->block_size && (s->stores_due == 0 || s->stores_due <= src->last_batch)) {
		s->stores_due = now;
		src->due = now;
	}
}

/* Tell if the blocks of <src> were compared with the prompt. They were not if they cannot be
 * stored, or if the ids of the prompt are not known in pages of their size. */
static bool was_compared(const struct source *src, const struct route_scratch *s)
{
	uint32_t page = src->page;

	for (unsigned i = 0; i < SOURCE_SIZES && !src->odd_size; i++)
		if (page == 0 || s->report_sizes[i] == page)
			return true;
	return false;
}

void job_note_asked(struct route *r, const struct job *j, const struct server *s)
{
	struct source *src = s->source > 0 ? &r->sources.of[s->source - 1] : NULL;

	if (src == NULL || !j->reported)
		return;
	src->asked_page = j->rq.page;
	src->asked_block = j->rq.model_opts->block_size;
	src->misfit = !was_compared(src, j->scratch);
}

void route_source_signs(const struct route *r, source_id id, msec now, struct source_signs *out)
{
	const struct source *src = &r->sources.of[id];
	msec due = src->due;

	*out = (struct source_signs){
		.silent = due > 0 && src->last_batch < due && now - due > SOURCE_SILENT_MS,
		.misfit = src->misfit, .block_size = src->block_size, .page = src->asked_page,
	};
	out->differs = src->asked_block > 0 && out->block_size > 0 &&
	    src->asked_block != out->block_size;
}

/* ---- trust ---- */

enum trust { TRUST_NONE, TRUST_PART, TRUST_ALL };

static bool is_quiet(const struct source *src, const struct server *s, msec now)
{
	return s->stores_due > 0 && src->last_batch < s->stores_due &&
	       now - s->stores_due > SOURCE_QUIET_MS;
}

/* Say why events do not tell all that the engine holds. No older event than the first one that came
 * may be missing. An engine that has stored as
 * many blocks as its cache has room for since then has evicted what was stored before, except
 * blocks that are still in use: then new blocks follow unknown ones (source_events.c), or those
 * reported are fewer than there is room for. Nor may blocks be missing for which there was no room
 * in our own index: the engine still has them. Blocks that expire may still be there. */
static enum truth_cause why_incomplete(
    const struct route *r, const struct source *src, const struct server *s)
{
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	if (events_server_lost(r->sources.events, (server_id)(s->source - 1)) > src->lost)
		return CAUSE_NO_ROOM;
	if (src->ttl_ms > 0)
		return CAUSE_EXPIRES;
	if (src->from_start ||
	    (by > CAPACITY_INFERRED && src->stored * src->block_size >= capacity &&
		src->blocks * src->block_size >= capacity - capacity / 8))
		return CAUSE_NONE;
	return src->page == 0 ? CAUSE_NO_BLOCK : CAUSE_OLDER;
}

/* Tell if the engine publishes only what cannot be stored: layers without full attention, or blocks
 * without all of their tokens. Then it seems to hold nothing. */
static bool is_useless(const struct source *src)
{
	return src->usable == 0 && src->unusable > 0;
}

static enum truth_cause cause_of_state(const struct source *src)
{
	static const enum truth_cause of[KVCURSOR_STATES] = {
		[KVCURSOR_OFF] = CAUSE_OFF, [KVCURSOR_SYNCED] = CAUSE_WAITING, [KVCURSOR_GAP] = CAUSE_GAP,
		[KVCURSOR_REPLAYING] = CAUSE_REPLAYING, [KVCURSOR_DEGRADED] = CAUSE_DEGRADED,
		[KVCURSOR_WAITING] = CAUSE_WAITING,
	};
	const uint8_t state = src->worst;	/* gcc 12 reads an atomic index as if it were none */

	return of[state];
}

/* Sets <*cause> if it is less than all. */
static enum trust trust_of(const struct route *r, const struct source *src, const struct server *s,
    msec now, enum truth_cause *cause)
{
	msec gap = src->gap_since;

	*cause = src->good == 0 || (gap != 0 && now - gap > SOURCE_GAP_MS) ? cause_of_state(src)
	    : is_useless(src)      ? CAUSE_UNUSABLE
	    : is_quiet(src, s, now) ? CAUSE_QUIET
				    : CAUSE_NONE;
	if (*cause != CAUSE_NONE)
		return TRUST_NONE;
	*cause = src->good < src->ranks ? cause_of_state(src) : why_incomplete(r, src, s);
	return *cause == CAUSE_NONE ? TRUST_ALL : TRUST_PART;
}

/* An engine does not know tenants. If they are isolated, a tenant must not learn from <hit> or from
 * the choice of a server what others have sent, so its own requests bound what events add. Requests
 * without a tenant are one more tenant if there are others. */
bool job_is_isolated(const struct job *j)
{
	if (!j->rq.in.isolate_tenants || j->pool_seen == NULL)
		return false;
	j->pool_seen->route->tenants |= j->rq.tenant.n > 0 || j->opts->n_tenants > 0;
	return j->pool_seen->route->tenants;
}

/* Take as many tokens away that only <most> are left, of the slowest tiers first, because these are
 * more likely to be those of longer prompts. */
static void keep_most(struct expected *x, uint64_t reported, uint64_t most)
{
	uint64_t excess = reported > most ? reported - most : 0;

	for (unsigned t = EVENTS_TIERS; t-- > 0;) {
		uint64_t n = x->in_tier[t] < excess ? x->in_tier[t] : excess;

		x->in_tier[t] -= n;
		excess -= n;
	}
}

/* Tell if events can name what separates the prompt from others. SGLang names no extra_key, and old
 * engines neither adapter nor salt. */
static bool can_name(const struct route *r, const struct source *src, const struct job *j)
{
	bool adapter = j->rq.is_adapter || j->rq.prompt->lora.n > 0;

	return (!j->rq.salted || src->salts) && (!adapter || src->adapters) &&
	       (!j->reported_adapter || adapter_is_reported_by(r, src, j->rq.space_model));
}

/* Say why the prompt was not compared with the blocks of <src>. */
static enum truth_cause why_unknown(
    const struct route *r, const struct job *j, const struct source *src)
{
	if (!j->reported)
		return CAUSE_TOKENS;
	if (!was_compared(src, j->scratch))
		return src->odd_size ? CAUSE_ODD_SIZE : CAUSE_OTHER_SIZE;
	return can_name(r, src, j) ? CAUSE_NONE : CAUSE_UNNAMED;
}

/* Of a request on its way only the prompt counts: its answer was not compared with this prompt, and
 * the engine reports the blocks of an answer as they fill. */
void job_expect(const struct route *r, const struct job *j, const struct server *s, uint32_t depth,
    uint32_t grown, struct expected *out)
{
	const struct source *src = s->source > 0 ? &r->sources.of[s->source - 1] : NULL;
	const struct reported *rep = src != NULL ? &j->scratch->reported[s->source - 1] : NULL;
	enum trust trust = TRUST_NONE;
	uint64_t tree = (uint64_t)(depth + grown) * j->rq.page_tokens;
	uint64_t sent, reported = 0;

	*out = (struct expected){ .truth = TRUTH_TREE, .tokens = tree, .rank = -1 };
	if (src == NULL)
		return;
	if ((out->cause = why_unknown(r, j, src)) == CAUSE_NONE)
		trust = trust_of(r, src, s, j->rq.now, &out->cause);
	if (trust == TRUST_NONE)
		return;
	if (rep->match == j->scratch->n_reports) {
		memcpy(out->in_tier, rep->in_tier, sizeof(out->in_tier));
		for (unsigned t = 0; t < EVENTS_TIERS; t++)
			reported += rep->in_tier[t];
	}
	if (j->isolated && reported > tree) {
		keep_most(out, reported, tree);
		reported = tree;
	}
	if (j->isolated && out->cause == CAUSE_NONE)
		out->cause = CAUSE_ISOLATED;
	if (reported > 0 && src->ranks > 1)
		out->rank = rep->rank;
	out->block = src->block_size;
	out->stored = reported;
	if (trust == TRUST_PART) {
		out->truth = TRUTH_BOTH;
		out->tokens = tree > reported ? tree : reported;
	} else if ((uint64_t)depth * j->rq.page_tokens > reported &&
	    (sent = (uint64_t)pages_on_the_way(r, j, s, depth) * j->rq.page_tokens) > reported) {
		out->truth = TRUTH_SENT;
		out->tokens = sent;
	} else {
		out->truth = TRUTH_EVENTS;
		out->tokens = reported;
	}
}

uint64_t expected_cached(const struct expected *x)
{
	if (x->truth != TRUTH_SENT || x->tokens <= x->stored)
		return x->tokens;
	return x->stored + (uint64_t)((double)(x->tokens - x->stored) * SENT_TRUST);
}

/* A cache that never evicted holds all that was sent to it. Blocks stored apart have another
 * size, and some of them are the same tokens again. */
uint64_t source_held_tokens(const struct route *r, const struct server *s)
{
	const struct source *src = s->source > 0 ? &r->sources.of[s->source - 1] : NULL;

	if (src == NULL || src->removed == 0 || src->apart || src->good < src->ranks ||
	    why_incomplete(r, src, s) != CAUSE_NONE)
		return 0;
	return src->blocks * src->block_size;
}
