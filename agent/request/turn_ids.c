/* turn_ids.c - write and read what a turn leaves. Each turn has only its own pages, so that a
 * conversation's memory grows with its length; after LINKS_MOST turns one has all of them. */
#include "agent/base/mem.h"
#include "agent/request/turn_ids.h"

#define LINKS_MOST	48u
#define WINDOW		((size_t)8 << 10)	/* last bytes of the body, which encrypt ids */

struct ids_memo {
	struct hash128 before;		/* key of the turn before; zeros: none */
	uint64_t n_ids;
	uint32_t n_before, n_pages;	/* pages of the turns before; of this one */
	uint32_t n_chat, links;
	uint16_t n_rest;
	uint8_t n_shown, n_lead, special;
};

void turn_ids_fini(struct turn_ids *t)
{
	vec_free(&t->state.copy.data);
	vec_free(&t->link.copy.data);
	vec_free(&t->pages);
	ids_free(&t->rest);
}

/* ---- the rest of the ids ---- */

static struct segcache_key rest_key(
    const struct turn_ids *t, const struct turn_place *p, struct hash128 key, size_t at)
{
	size_t n = at < WINDOW ? at : WINDOW;
	struct segcache_scope scope = { t->what ^ key.lo, p->tenant ^ key.hi };

	return segcache_key(p->cache, scope, span_of(p->raw.p + at - n, n), PART_SEGMENT);
}

static bool find_rest(struct turn_ids *t, const struct turn_place *p, size_t n)
{
	struct segcache_key k;

	t->rest.n = 0;
	if (n == 0)
		return true;
	k = rest_key(t, p, t->state.key, t->state.at);
	return segcache_get(p->cache, &k, &t->rest) > 0 && t->rest.n == n;
}

/* ---- pages ---- */

static bool read_memo(const struct turns_state *s, struct ids_memo *m)
{
	if (s->copy.data.n < sizeof(*m))
		return false;
	memcpy(m, s->copy.data.p, sizeof(*m));
	return s->copy.data.n ==
	       sizeof(*m) + m->n_lead + m->n_chat + (size_t)m->n_pages * sizeof(page_key);
}

/* Copy the pages of a turn to their place. */
static void place_pages(struct turn_ids *t, const struct turns_state *s, const struct ids_memo *m)
{
	if (m->n_pages > 0)
		memcpy(t->pages.p + m->n_before, s->copy.data.p + sizeof(*m) + m->n_lead + m->n_chat,
		    (size_t)m->n_pages * sizeof(page_key));
}

/* Collect the pages of this turn and of all before it. */
static bool collect(struct turn_ids *t, const struct turn_place *p, struct ids_memo m)
{
	size_t all = (size_t)m.n_before + m.n_pages;

	t->pages.n = 0;
	if (all != m.n_ids / t->page || vec_reserve(&t->pages, (uint32_t)all) < 0)
		return false;
	place_pages(t, &t->state, &m);
	for (uint32_t i = 0; m.n_before > 0; i++) {
		uint32_t before = m.n_before;

		if (i == LINKS_MOST || !turns_state_get(p->turns, m.before, &t->link) ||
		    !read_memo(&t->link, &m) || m.n_before + m.n_pages != before)
			return false;
		place_pages(t, &t->link, &m);
	}
	t->pages.n = (uint32_t)all;
	return true;
}

void turn_ids_find(struct turn_ids *t, const struct turn_place *p)
{
	const uint8_t *data;
	struct ids_memo m;

	t->found = t->good = t->apart = false;
	if (!turns_state_find(p->body, p->turns, t->what, p->raw, &t->state) ||
	    !read_memo(&t->state, &m) || m.n_rest != m.n_ids % t->page ||
	    m.n_lead > sizeof(t->lead) || m.n_shown > m.n_lead || !find_rest(t, p, m.n_rest) ||
	    !collect(t, p, m))
		return;
	data = t->state.copy.data.p + sizeof(m);
	memcpy(t->lead, data, m.n_lead);
	t->n_lead = m.n_lead;
	t->n_shown = m.n_shown;
	t->memo = span_of((const char *)data + m.n_lead, m.n_chat);
	t->links = m.links;
	t->special = m.special != 0;
	t->found = true;
}

/* ---- left ---- */

static bool is_space(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ' ' && s.p[i] != '\n' && s.p[i] != '\t' && s.p[i] != '\r')
			return false;
	return true;
}

void turn_ids_leave(struct turn_ids *t, struct span text, size_t at, size_t cut, size_t cut_n)
{
	size_t shown = cut_n < TURN_SHOWN ? cut_n : TURN_SHOWN, over = at - cut;

	t->good = false;
	if (cut == 0 || cut_n == 0 || over > TURN_OVER || !is_space(span_of(text.p + cut, over)))
		return;
	while (shown > 0 && ((unsigned char)text.p[cut - shown] & 0xc0) == 0x80)
		shown--;
	if (shown == 0)
		return;
	memcpy(t->left_lead, text.p + cut - shown, shown + over);
	t->left_shown = shown;
	t->left_n = shown + over;
	t->good = true;
}

void turn_ids_leave_runs(struct turn_ids *t, bool good)
{
	t->left_shown = t->left_n = 0;
	t->good = good;
}

static void put_rest(struct turn_ids *t, const struct turn_place *p, struct hash128 key,
    const token_id *rest, size_t n)
{
	struct segcache_key k;

	if (n == 0)
		return;
	k = rest_key(t, p, key, (size_t)t->at);
	segcache_put(p->cache, &k, rest, n);
}

void turn_ids_put(struct turn_ids *t, const struct turn_place *p, const struct page_vec *pages,
    const token_id *rest)
{
	bool on = t->found && !t->apart && t->links + 1 < LINKS_MOST;
	struct turns_copy *c = &t->link.copy;
	struct hash128 key;
	struct ids_memo m;

	memset(&m, 0, sizeof(m));		/* padding, too */
	m.n_ids = t->n_ids;
	m.n_before = on ? t->pages.n : 0;
	if (t->n_ids / t->page > pages->n || t->n_ids / t->page < m.n_before)
		return;
	if (on) {
		m.before = t->state.key;
		m.links = t->links + 1;
	}
	m.n_pages = (uint32_t)(t->n_ids / t->page) - m.n_before;
	m.n_rest = (uint16_t)(t->n_ids % t->page);
	m.n_chat = (uint32_t)t->left.n;
	m.n_shown = (uint8_t)t->left_shown;
	m.n_lead = (uint8_t)t->left_n;
	m.special = t->left_special;
	c->data.n = 0;
	if (vec_reserve(&c->data, sizeof(m) + m.n_lead + m.n_chat + m.n_pages * sizeof(page_key)) < 0)
		return;
	turns_copy_put(c, &m, sizeof(m));
	turns_copy_put(c, t->left_lead, m.n_lead);
	turns_copy_put(c, t->left.p, m.n_chat);
	turns_copy_put(c, pages->p + m.n_before, m.n_pages * sizeof(page_key));
	if (turns_state_put(
		p->body, p->turns, t->what, p->raw, (size_t)t->at, c->data.p, c->data.n, &key))
		put_rest(t, p, key, rest, m.n_rest);
}
