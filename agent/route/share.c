/* share.c - begin to share, siblings and their open requests, figures. */
#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

#define ANCHORS_PART	16u	/* of the bytes of the index; a page there takes 9 and more */

#define MARKS_PART	64u

#define GONE_A_CALL	(SETTLE_MAX - 2)	/* entries closed under one lock */

static size_t anchor_bytes(const struct route_opts *o)
{
	return o->index.max_bytes / ANCHORS_PART;
}

static size_t kept_bytes(const struct route_opts *o)
{
	return o->index.max_bytes / MARKS_PART;
}

static size_t pages_bytes(const struct route_opts *o)
{
	return o->index.max_pages * sizeof(page_key);
}

static size_t chain_bytes(const struct route_opts *o)
{
	return (o->index.max_pages / ANCHOR_EVERY + 1) * sizeof(uint64_t);
}

uint64_t sharing_budget(const struct route_opts *o)
{
	return o->share ? sizeof(struct sharing) + anchor_bytes(o) + kept_bytes(o) + pages_bytes(o) +
	    chain_bytes(o) + sync_budget() : 0;
}

static struct sharing *sharing_new(struct route *r, const struct route_share *to)
{
	const struct route_opts *o = &r->opts;
	struct sharing *sh = mem_alloc(sizeof(*sh));

	if (sh == NULL)
		return NULL;
	sh->to = *to;
	sh->max_pages = o->index.max_pages;
	for (unsigned i = 0; i < SIBLINGS_MAX; i++)
		list_init(&sh->siblings[i].open);
	sh->anchors = anchors_new(anchor_bytes(o));
	sh->kept = kept_marks_new(kept_bytes(o));
	marks_depths(&sh->marks);
	sh->pages = mem_alloc(pages_bytes(o));
	sh->chain = mem_alloc(chain_bytes(o));
	sh->sync = sync_new(r, to->self);
	if (sh->anchors != NULL && sh->kept != NULL && sh->pages != NULL && sh->chain != NULL &&
	    sh->sync != NULL)
		return sh;
	sharing_free(sh);
	return NULL;
}

void sharing_free(struct sharing *sh)
{
	if (sh == NULL)
		return;
	anchors_free(sh->anchors);
	index_match_fini(&sh->match);
	kept_marks_free(sh->kept);
	mem_free(sh->pages);
	mem_free(sh->chain);
	sync_free(sh->sync);
	mem_free(sh);
}

int route_share(struct route *r, const struct route_share *to)
{
	struct sharing *sh = sharing_new(r, to);

	if (sh == NULL)
		return -1;
	pthread_mutex_lock(&r->lock);
	r->sharing = sh;
	r->nameless = hash_mix(&r->key, 15, to->self);	/* requests of two agents never get the same */
	pthread_mutex_unlock(&r->lock);
	heads_tell(r->requests.heads, share_head, r);
	return 0;
}

/* ---- siblings ------------------------------------------------------------------------------ */

struct sibling *sibling_met(struct sharing *sh, share_agent agent)
{
	struct sibling *idle = NULL;

	for (unsigned i = 0; i < SIBLINGS_MAX; i++) {
		if (sh->siblings[i].agent == agent)
			return &sh->siblings[i];
		if (sh->siblings[i].n_open == 0 && (idle == NULL || sh->siblings[i].agent == 0))
			idle = &sh->siblings[i];
		if (sh->siblings[i].agent == 0)
			break;
	}
	if (idle != NULL)
		idle->agent = agent;
	return idle;
}

void sibling_opened(struct sharing *sh, struct sibling *by, struct open_request *o)
{
	o->owner = by;
	list_append(&by->open, &o->of_owner);
	by->n_open++;
	sh->n_open++;
}

void sibling_closed(struct sharing *sh, struct open_request *o)
{
	list_remove(&o->of_owner);
	o->owner->n_open--;
	sh->n_open--;
}

bool route_share_gone(struct route *r, share_agent agent, msec now)
{
	struct sharing *sh = r->sharing;
	struct sibling *by;
	struct settling st;
	bool more = false;

	if (sh == NULL)
		return false;
	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	by = sibling_met(sh, agent);
	for (unsigned n = 0; by != NULL && (more = by->n_open > 0) && n < GONE_A_CALL; n++) {
		struct open_request *o = list_entry(by->open.next, struct open_request, of_owner);

		close_unheard(r, &o->e, &st, now);
		count_add_any(&sh->n.closed_by_lease, 1);
	}
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	pthread_rwlock_unlock(&r->opts_lock);
	return more;
}

/* ---- figures ------------------------------------------------------------------------------- */

static uint64_t count_of(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

void route_share_stats(struct route *r, struct route_share_stats *s)
{
	struct sharing *sh = r->sharing;

	*s = (struct route_share_stats){ 0 };
	if (sh == NULL)
		return;
	for (unsigned k = 0; k < SHARE_KINDS; k++) {
		s->put[k] = count_of(&sh->n.put[k]);
		s->applied[k] = count_of(&sh->n.applied[k]);
	}
	s->pages_put = count_of(&sh->n.pages_put);
	s->pages_skipped = count_of(&sh->n.pages_skipped);
	s->pages_applied = count_of(&sh->n.pages_applied);
	s->unplaced = count_of(&sh->n.unplaced);
	s->repeated = count_of(&sh->n.repeated);
	s->early = count_of(&sh->n.early);
	s->ignored = count_of(&sh->n.ignored);
	s->refused = count_of(&sh->n.refused);
	s->closed_by_lease = count_of(&sh->n.closed_by_lease);
	s->closed_as_lost = count_of(&sh->n.closed_as_lost);
	s->rounds = count_of(&sh->n.rounds);
	s->sums_dropped = count_of(&sh->n.sums_dropped);
	s->parts_differing = count_of(&sh->n.parts_differing);
	s->ends_lacked = count_of(&sh->n.ends_lacked);
	s->held_put = count_of(&sh->n.held_put);
	s->held_applied = count_of(&sh->n.held_applied);
	s->held_refused = count_of(&sh->n.held_refused);
	s->anchors = anchors_count(sh->anchors);
	pthread_mutex_lock(&r->lock);
	s->open = sh->n_open;
	pthread_mutex_unlock(&r->lock);
}
