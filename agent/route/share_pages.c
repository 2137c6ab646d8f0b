/* share_pages.c - the pages of an entry: those before its anchor are in the own tree.
 *
 *   known         the place of the anchor is the same (its era), and the marks up to it are kept:
 *                 the commit begins there, and nothing is read of the pages before it. O(new pages)
 *   not known     the pages before the anchor are collected from the tree, and hashed to see that
 *                 they are those of the anchor. O(all pages)
 *   neither       the entry has no pages here; a round of digests finds what is missing
 *
 * The server of a known place may have nothing there, because the request went to another server
 * than the turn before. Then the pages are collected after all, to commit them from the root. */
#include "agent/route/share_sync_in.h"

static struct space_key key_of(const struct route *r, const struct share_space *s)
{
	return (struct space_key){
		.h = { s->h[0], s->h[1] }, .tenant = tenant_of_hash(&r->requests.tenants, s->tenant),
		.part_room = s->part_room, .page_room = s->page_room,
	};
}

static bool find_anchor(
    const struct sharing *sh, const struct share_anchor *a, struct index_place *at)
{
	return a->depth > 0 && a->depth <= sh->max_pages && a->depth % ANCHOR_EVERY == 0 &&
	    anchors_get(sh->anchors, a->hash, a->depth, at);
}

static void unplaced(struct sharing *sh)
{
	count_add_any(&sh->n.unplaced, 1);
	sync_wanted(sh, RESYNC_SOON);
}

/* Copy the pages after the anchor. */
static void add_pages(struct sharing *sh, struct whole *w, const page_key *pages, uint32_t n)
{
	if (n > sh->max_pages - w->anchor)
		n = sh->max_pages - w->anchor;
	if (n > 0)
		memcpy(sh->pages + w->anchor, pages, n * sizeof(*pages));
	w->n = w->anchor + n;
}

/* Collect the pages before the anchor, and hash them. Returns false if they are others. */
static bool collect(
    struct route *r, const struct whole *w, const struct share_anchor *a, struct marks *m)
{
	struct sharing *sh = r->sharing;
	struct index_place at;

	sh->match.cursor.node = 0;
	m->n = 0;
	if (a->depth == 0)
		return true;
	if (!find_anchor(sh, a, &at) ||
	    !index_place_pages(r->index, &w->space, at, sh->pages, &sh->match))
		return false;
	marks_of(m, chain_start(&r->key, w->space.h), sh->pages, a->depth, sh->chain);
	return sh->chain[a->depth / ANCHOR_EVERY - 1] == a->hash;
}

/* Hash the pages after the anchor. */
static void go_on(struct route *r, const struct whole *w, const struct share_anchor *a)
{
	struct sharing *sh = r->sharing;

	marks_go_on(&sh->marks, w->anchor, a->depth > 0 ? a->hash : chain_start(&r->key, w->space.h),
	    sh->pages, w->n, sh->chain + w->anchor / ANCHOR_EVERY);
	anchors_prefetch(sh->anchors, sh->chain + w->anchor / ANCHOR_EVERY,
	    w->n / ANCHOR_EVERY - w->anchor / ANCHOR_EVERY);
	count_add_any(&sh->n.pages_applied, w->n - w->anchor);
}

void share_take_pages(struct route *r, const struct share_space *space,
    const struct share_anchor *a, const page_key *pages, uint32_t n, struct whole *w)
{
	struct sharing *sh = r->sharing;

	*w = (struct whole){ .space = key_of(r, space), .anchor = a->depth };
	if (n == 0 && a->depth == 0) {
		sh->marks.n = 0;
	} else if (collect(r, w, a, &sh->marks)) {
		add_pages(sh, w, pages, n);
		go_on(r, w, a);
	} else {
		sh->marks.n = 0;
		unplaced(sh);
	}
}

void share_prefetch_pages(const struct sharing *sh, const struct share_placed *p)
{
	if (p->anchor.depth == 0)
		return;
	anchors_prefetch(sh->anchors, &p->anchor.hash, 1);
	kept_marks_prefetch(sh->kept, p->anchor.hash);
}

void share_take_placed(struct route *r, const struct share_placed *p, struct whole *w)
{
	const struct share_anchor *a = &p->anchor;
	struct sharing *sh = r->sharing;
	struct index_place at;

	if (!find_anchor(sh, a, &at) || !index_place_same(r->index, at) ||
	    !kept_marks_get(sh->kept, a->hash, &sh->marks)) {
		share_take_pages(r, &p->space, a, p->pages, p->n, w);
		if (w->n > 0 && a->depth > 0)
			kept_marks_put(sh->kept, a->hash, a->depth, &sh->marks);
		return;
	}
	*w = (struct whole){ .space = key_of(r, &p->space), .anchor = a->depth, .at = at };
	sh->chain[a->depth / ANCHOR_EVERY - 1] = a->hash;
	add_pages(sh, w, p->pages, p->n);
	go_on(r, w, a);
}

index_claim share_commit(struct route *r, const struct whole *w, const struct share_anchor *a,
    server_id to, unsigned priority, msec now, struct index_place *end)
{
	struct sharing *sh = r->sharing;
	struct marks unused;
	index_claim claim;

	if (w->at.node != 0) {
		if (index_commit_from(r->index, &w->space, w->at, sh->pages, w->n, to, now, priority, &claim,
			end))
			return claim;
		if (!collect(r, w, a, &unused)) {
			*end = (struct index_place){ 0 };
			unplaced(sh);
			return 0;
		}
	}
	return index_commit_at(
	    r->index, &w->space, sh->pages, w->n, &sh->match, to, now, priority, end);
}

void share_enter_pages(struct route *r, const struct whole *w, struct index_place end)
{
	struct sharing *sh = r->sharing;
	uint32_t last = w->n / ANCHOR_EVERY;

	anchors_enter(sh->anchors, sh->chain, w->anchor, end);
	if (end.node != 0 && last > w->anchor / ANCHOR_EVERY)
		kept_marks_put(sh->kept, sh->chain[last - 1], last * ANCHOR_EVERY, &sh->marks);
}
