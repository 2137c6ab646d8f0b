/* share_put.c - what this agent tells its siblings about its own requests.
 *
 * Of a prompt only the pages after an anchor are sent: the deepest one of the pages that were in
 * the tree before. Siblings applied those pages as well, and entered the same anchors. The entry is
 * put before its own anchors can be used by another thread, so that siblings get both in order. */
#include "agent/base/mem.h"
#include "agent/base/num.h"
#include "agent/route/job_in.h"

#define TRIES_NEAR	8u	/* anchors tried one after the other; then in steps that double */

static void put(struct sharing *sh, uint32_t part, const struct share_entry *e)
{
	count_add_any(&sh->n.put[e->kind], 1);
	sh->to.put(sh->to.arg, part, e);
}

/* Find the deepest anchor in the first <known> pages. <chain>: their hashes. */
static struct share_anchor anchor_of(
    const struct route *r, const uint64_t *chain, uint32_t known)
{
	uint32_t k = known / ANCHOR_EVERY, step = 1, tries = 0;
	struct index_place at;

	while (k > 0) {
		if (anchors_get(r->sharing->anchors, chain[k - 1], k * ANCHOR_EVERY, &at) &&
		    index_place_exists(r->index, at))
			return (struct share_anchor){ chain[k - 1], at.depth };
		step = ++tries < TRIES_NEAR ? 1 : step * 2;
		k = k > step ? k - step : 0;
	}
	return (struct share_anchor){ 0, 0 };
}

struct share_space share_space_of(const struct route *r, const struct space_key *k)
{
	return (struct share_space){
		.h = { k->h[0], k->h[1] }, .tenant = tenant_hash(&r->requests.tenants, k->tenant),
		.part_room = k->part_room, .page_room = k->page_room,
	};
}

/* In shadow mode HAProxy chooses, and it is not known yet. */
static struct span server_chosen(const struct job *j)
{
	const char *chosen = j->sent.server != NULL ? j->sent.server : j->scratch->server;

	return span_str(j->pool_opts->mode == MODE_ON ? chosen : "");
}

/* Return the hidden tokens that the turn adds to the cache: those of the turns before are there. */
static uint32_t hidden_more(const struct job *j)
{
	uint32_t hidden = j->sent.lesson.hidden;

	return hidden > j->sent.taken_up ? hidden - j->sent.taken_up : 0;
}

void share_placed(struct route *r, const struct job *j, struct index_place end)
{
	struct sharing *sh = r->sharing;
	const page_key *pages = j->scratch->rq.pages.p;
	const struct index_match *m = &j->scratch->match;
	uint32_t n = (uint32_t)at_most(j->rq.n_pages, sh->max_pages);
	uint32_t known = n > 0 && m->n_bands > 0 ? (uint32_t)at_most(m->bands[0].depth, n) : 0;
	const uint64_t *chain = n > 0 ? j->sent.chain : NULL;
	struct share_anchor anchor = { 0, 0 };
	struct share_entry e = { .kind = SHARE_PLACED };
	struct share_placed *p = &e.u.placed;

	if (chain != NULL)
		anchor = anchor_of(r, chain, known);
	*p = (struct share_placed){
		.uid = j->rq.uid,
		.process = j->rq.process,
		.at = { .pool = span_str(j->pool_seen->name), .server = server_chosen(j) },
		.space = share_space_of(r, &j->rq.space),
		.anchor = anchor,
		.pages = pages + anchor.depth,
		.n = (uint32_t)at_most(n - anchor.depth, SHARE_PAGES_MAX),
		.priority = (uint8_t)(j->rq.prompt->priority - PROMPT_PRIORITY_MIN),
		.uncertain = job_uncertain(j),
		.nominal_s = j->sent.nominal_s,
		.unseen_s = j->sent.unseen_s,
		.work_tokens = j->sent.work_tokens,
		.prompt_tokens = j->sent.tokens,
		.common_tokens = j->common_tokens,
		.branched = j->sent.branched,
		.grown = j->grown_pages,
		.grown_ago_ms = j->grown_pages > 0 ? j->rq.now - j->grown_since : 0,
		.block = j->sent.lesson.block,
		.streams = j->sent.lesson.streams,
		.whole = j->sent.lesson.whole,
		.generates = j->sent.lesson.generates,
		.end = {
			.key = j->end.key, .tokens = j->end.tokens, .tail = j->end.tail,
			.n_tail = j->end.n_tail,
		},
		.session = {
			.key = j->turn.key, .tenant = j->turn.tenant, .kind = j->turn.kind,
			.tokens = j->turn.tokens, .hidden = hidden_more(j), .cut = j->turn.cut,
			.again = j->previous_turn == j->turn.key, .rough = j->turn.rough,
		},
		.stores = j->sent.lesson.stores,
	};
	if (chain != NULL)
		anchors_prefetch(sh->anchors, chain + anchor.depth / ANCHOR_EVERY,
		    (n - anchor.depth) / ANCHOR_EVERY);
	count_add_any(&sh->n.pages_put, p->n);
	count_add_any(&sh->n.pages_skipped, anchor.depth);
	put(sh, share_part(sh, j->rq.space.h[0]), &e);
	if (chain == NULL)
		return;
	anchors_enter(sh->anchors, chain, anchor.depth, end);
	if (end.node != 0 && n / ANCHOR_EVERY > anchor.depth / ANCHOR_EVERY)
		kept_marks_put(sh->kept, chain[n / ANCHOR_EVERY - 1], n / ANCHOR_EVERY * ANCHOR_EVERY,
		    &j->scratch->marks);
}

void share_fact(
    struct route *r, uint64_t uid, uint32_t part, const struct fact *f, uint64_t stored)
{
	struct share_entry e = { .kind = SHARE_FACT, .u.fact = { .uid = uid, .fact = *f } };

	e.u.fact.fact.stored = stored;
	put(r->sharing, part, &e);
}

void share_taken_back(struct route *r, uint64_t uid, uint32_t part, bool served)
{
	struct share_entry e = { .kind = SHARE_TAKEN_BACK, .u.taken_back = { uid, served } };

	put(r->sharing, part, &e);
}

void share_head(void *route, uint64_t tenant, struct span bytes)
{
	struct route *r = route;
	struct share_entry e = { .kind = SHARE_HEAD, .u.head.bytes = bytes };

	put(r->sharing, share_part(r->sharing, tenant), &e);
}

void share_unheard(
    struct route *r, const struct ledger_entry *e, bool served, struct settling *st)
{
	const struct open_request *o = (const struct open_request *)e;

	seen_put(r->sharing, e->uid, SEEN_CLOSED);
	if (o->owner != NULL || st->n_unheard >= SETTLE_MAX)
		return;
	st->unheard[st->n_unheard].uid = e->uid;
	st->unheard[st->n_unheard].part = o->part;
	st->unheard[st->n_unheard++].served = served;
}
