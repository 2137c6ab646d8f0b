/* turn_ids.c - write and read what a turn leaves.
 *
 *   turn   0    1    2    3    4    5  ...  8  ...  12 ... 16 ... 20
 *   pages  all  |    |    |    1-4  |       5-8     9-12   1-16   17-20
 *
 * Turns are numbered. One has the pages of as many turns as the largest power of four that divides
 * its number, so the pages of any of the first 256 are collected from at most 13, on average 7. If
 * each had only its own, a turn of a long conversation would wait for dozens of items that are in
 * no cache; if each had all, the memory would grow with the square of the length. The last number
 * is followed by 0, which has all pages. */
#include "agent/base/mem.h"
#include "agent/request/turn_ids.h"

#define NUMBERS		256u
#define WINDOW		((size_t)8 << 10)	/* last bytes of the body, which encrypt ids */

struct ids_memo {
	struct hash128 before;		/* key of the turn with the pages before; zeros: none */
	uint64_t n_ids;
	uint32_t n_before, n_pages;	/* pages up to that turn's end; after it, which this one has */
	uint32_t n_last;		/* the last of <n_before>, which that turn has itself */
	uint32_t n_chat, number;
	uint16_t n_rest;
	uint8_t n_shown, n_lead, special;
};

void turn_ids_fini(struct turn_ids *t)
{
	vec_free(&t->state.copy.data);
	vec_free(&t->item.data);
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

/* Return the number of the turn that has the pages before those of turn <number>, if that is not 0.
 */
static uint32_t number_before(uint32_t number)
{
	uint32_t low = number & -number;		/* a power of two */

	return number - ((low & 0x55555555u) != 0 ? low : low / 2);
}

/* Collect the pages of the turn that was found and of all before it, each directly in its place. */
static bool collect(struct turn_ids *t, const struct turn_place *p, struct ids_memo m)
{
	size_t all = (size_t)m.n_before + m.n_pages;
	struct hash128 key = t->state.key;

	t->pages->n = t->n_steps = 0;
	if (all != m.n_ids / t->page || vec_reserve(t->pages, (uint32_t)all) < 0)
		return false;
	if (m.n_pages > 0)
		memcpy(t->pages->p + m.n_before, t->state.copy.data.p + sizeof(m) + m.n_lead + m.n_chat,
		    (size_t)m.n_pages * sizeof(page_key));
	for (;;) {
		uint32_t n = m.n_last, upto = m.n_before, number;

		t->step[t->n_steps++] = (struct turn_step){ key, m.number, upto + m.n_pages, m.n_pages };
		if (m.number == 0)
			break;
		number = number_before(m.number);
		key = m.before;
		if (t->n_steps == TURN_STEPS || n > upto ||
		    !turns_get_ends(p->turns, key, &m, sizeof(m), t->pages->p + (upto - n),
			n * sizeof(page_key)) ||
		    m.number != number || m.n_pages != n || m.n_before != upto - n)
			return false;
	}
	t->n_pages = (uint32_t)all;
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

/* Return the turn that has the pages before those of the next turn, or NULL if that is to have all.
 */
static const struct turn_step *step_before(const struct turn_ids *t)
{
	uint32_t next = t->n_steps > 0 ? t->step[0].number + 1 : NUMBERS;

	if (!t->found || t->apart || next >= NUMBERS)
		return NULL;
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].number == number_before(next))
			return &t->step[i];
	return NULL;
}

void turn_ids_put(struct turn_ids *t, const struct turn_place *p, const token_id *rest)
{
	const struct turn_step *before = step_before(t);
	struct turns_copy *c = &t->item;
	struct hash128 key;
	struct ids_memo m;

	memset(&m, 0, sizeof(m));		/* padding, too */
	m.n_ids = t->n_ids;
	if (before != NULL) {
		m.before = before->key;
		m.n_before = before->n_pages;
		m.n_last = before->n_own;
		m.number = t->step[0].number + 1;
	}
	if (t->n_ids / t->page > t->pages->n || t->n_ids / t->page < m.n_before)
		return;
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
	turns_copy_put(c, t->pages->p + m.n_before, m.n_pages * sizeof(page_key));
	if (turns_state_put(
		p->body, p->turns, t->what, p->raw, (size_t)t->at, c->data.p, c->data.n, &key))
		put_rest(t, p, key, rest, m.n_rest);
}
