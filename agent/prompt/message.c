/* Messages, their parts and calls; message_in.h draws their pages.
 *
 * Snapshots exist because a key may come twice: the engine's parser keeps the last value only,
 * so the pages of the first are removed. A snapshot costs a copy of less than a page per part.
 * The result is exact if a key comes twice in a row. A part with two different payloads, one of
 * them twice, loses the other; no engine defines such a part. */
#include "agent/prompt/message_in.h"

enum { FINAL = 0x46494e41 };

void mark_add(struct page_env *env, struct pager *pg, uint8_t mark)
{
	char c = (char)mark;

	pager_add(env, pg, &c, 1);
}

static void name_add(struct page_env *env, struct pager *pg, uint64_t name)
{
	char b[9];

	b[0] = (char)MARK_CALL;
	memcpy(b + 1, &name, 8);
	pager_add(env, pg, b, sizeof(b));
}

/* ---- snapshots ----------------------------------------------------------------------------- */

static void snapshot_take(struct snapshot *s, const struct pager *pg, bool any)
{
	s->n = pg->v->n;
	s->fill = pg->fill;
	s->n_units = pg->n_units;
	s->any = any;
	memcpy(s->buf, pg->buf, pg->fill);
}

static void snapshot_restore(struct page_env *env, const struct snapshot *s, struct pager *pg)
{
	page_drop(env, pg->v, s->n);
	pg->fill = s->fill;
	pg->n_units = s->n_units;
	memcpy(pg->buf, s->buf, s->fill);
}

/* ---- the message --------------------------------------------------------------------------- */

void message_open(struct page_env *env, struct message *m, struct page_vec *v,
		  struct page_vec *side)
{
	m->open = true;
	m->role_seen = m->any = false;
	m->done = 0;
	m->n_parts = 0;
	m->start = v->n;
	m->tail = 0;
	m->role = m->name = m->type = 0;
	memset(m->last, 0, sizeof(m->last));
	m->v = v;
	side[0].n = side[1].n = 0;
	pager_start(&m->run[RUN_CONTENT], v, 0);
	pager_start(&m->run[RUN_CALLS], &side[0], 0);
	pager_start(&m->run[RUN_ASIDE], &side[1], 0);
}

static void hide(struct message *m)
{
	m->v->n -= m->tail;
	m->tail = 0;
}

void message_run(struct page_env *env, struct message *m, const struct rule *r, enum run run,
		 bool null)
{
	if (null && m->last[run] != r)
		return;
	if (m->last[run] != NULL || (m->done >> run & 1)) {	/* done without a value: null */
		hide(m);
		page_drop(env, m->run[run].v, run == RUN_CONTENT ? m->start : 0);
		pager_start(&m->run[run], m->run[run].v, 0);
		m->done &= (uint8_t)~(1u << run);
		if (run == RUN_CONTENT)
			m->any = false;
	}
	m->last[run] = r;
}

void message_run_done(struct message *m, enum run run)
{
	m->done |= (uint8_t)(1u << run);
}

/* The tail is calls, then aside. It only grows until hide(). */
void message_show(struct page_env *env, struct message *m)
{
	const struct page_vec *calls = m->run[RUN_CALLS].v, *aside = m->run[RUN_ASIDE].v;
	uint32_t before = m->v->n;

	if (!(m->done & 1u << RUN_CONTENT))
		return;
	if (m->tail < calls->n)
		page_append(env, m->v, calls->p + m->tail, calls->n - m->tail);
	m->tail += m->v->n - before;
	before = m->v->n;
	if (m->tail < calls->n || !(m->done & 1u << RUN_CALLS))
		return;
	if (m->tail - calls->n < aside->n)
		page_append(env, m->v, aside->p + (m->tail - calls->n),
			    aside->n - (m->tail - calls->n));
	m->tail += m->v->n - before;
}

/* Hash the final page: role, name and type, the lengths of the runs, and their unfinished pages. */
static page_key final_key(const struct page_env *env, const struct message *m)
{
	uint64_t word[4 + 2 * RUNS] = { FINAL, m->role, m->name, m->type };
	int i;

	for (i = 0; i < RUNS; i++) {
		if (i > RUN_CONTENT && m->run[i].n_units == 0)
			continue;
		word[4 + 2 * i] = m->run[i].n_units;
		word[5 + 2 * i] = pager_rest(env, &m->run[i]);
	}
	return hash64(env->key, word, sizeof(word));
}

void message_close(struct page_env *env, struct message *m, bool keep_empty)
{
	int i;

	hide(m);
	m->open = false;
	if (!keep_empty && m->v->n == m->start && m->run[RUN_CONTENT].fill == 0)
		return;
	for (i = RUN_CALLS; i < RUNS; i++)
		if (m->run[i].v->n > 0)
			page_append(env, m->v, m->run[i].v->p, m->run[i].v->n);
	page_push(env, m->v, final_key(env, m));
}

/* ---- parts --------------------------------------------------------------------------------- */

void part_open(struct message *m)
{
	struct part *p = &m->part[m->n_parts++];

	p->seen = 0;
	p->call = false;
	p->name = 0;
	snapshot_take(&p->before, &m->run[RUN_CONTENT], m->any);
}

void part_close(struct page_env *env, struct message *m)
{
	const struct part *p = &m->part[--m->n_parts];

	if (p->call)
		name_add(env, &m->run[RUN_CONTENT], p->name);
}

static void mark(struct page_env *env, struct message *m, uint8_t byte)
{
	if (byte == MARK_TEXT ? m->any : byte != 0)
		mark_add(env, &m->run[RUN_CONTENT], byte);
	m->any = true;
}

/* Drop what the part held if it has had a payload of <r>. */
static void drop_payload(struct page_env *env, struct message *m, const struct rule *r)
{
	struct part *p = &m->part[m->n_parts - 1];

	if (!(p->seen >> rule_part_bit(r) & 1))
		return;
	snapshot_restore(env, &p->before, &m->run[RUN_CONTENT]);
	m->any = p->before.any;
	p->seen = 0;
	p->call = false;
}

void part_payload_later(struct page_env *env, struct message *m, const struct rule *r)
{
	drop_payload(env, m, r);
	m->part[m->n_parts - 1].seen |= 1ull << rule_part_bit(r);
}

void part_payload(struct page_env *env, struct message *m, const struct rule *r, uint8_t byte,
		  bool null)
{
	if (null) {
		drop_payload(env, m, r);
		return;
	}
	part_payload_later(env, m, r);
	mark(env, m, byte);
}

void part_text(struct page_env *env, struct message *m)
{
	mark(env, m, MARK_TEXT);
}

/* ---- calls: no part is open meanwhile, so they use the first part's snapshot -------------- */

void call_open(struct message *m)
{
	m->args_seen = false;
	m->call_name = 0;
	snapshot_take(&m->part[0].before, &m->run[RUN_CALLS], false);
}

void call_arguments(struct page_env *env, struct message *m)
{
	if (m->args_seen) {
		hide(m);	/* pages that were shown may be dropped */
		snapshot_restore(env, &m->part[0].before, &m->run[RUN_CALLS]);
	}
	m->args_seen = true;
}

void call_close(struct page_env *env, struct message *m)
{
	name_add(env, &m->run[RUN_CALLS], m->call_name);
}
