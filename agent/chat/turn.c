/* turn.c - render a conversation on from where an earlier body ended (agent/jinja/resume.h).
 *
 *   body    {"messages":[ m1 , m2 , ... mk , m(k+1) ... ],"model":...
 *                            |             |
 *                          first           at     the same bytes up to here
 *   read    {"messages":[ m1 ,"-"          , m(k+1) ... ],"model":...
 *   list                  m1   unread ...    m(k+1) ...
 *
 * The mark "-" shows, by its address, that the reader found the messages in this list and no other.
 * The first message is read each time, because most templates look for a system message there.
 *
 * Only what is sure to be made of each message by itself goes on: chat completions by a template,
 * nothing truncated or continued, no message of role developer, no U+FFFD in the old text
 * (chat_check_halves()). */
#include "agent/chat/chat_in.h"
#include "agent/chat/ends.h"

#define MARK	",\"-\""

struct memo {
	uint32_t first;		/* bytes of the body up to the end of the first message */
	uint32_t messages;
	uint32_t tool_use;	/* the template for bodies with tools was used */
};

static bool uses_tools(const struct rendering *r)
{
	return r->c->tool_use != NULL && is_list(r->tools);
}

static bool may_go_on(const struct rendering *r)
{
	return r->b->api == CHAT_COMPLETIONS && r->c->format == CHAT_TEMPLATE && !r->b->cut &&
	       r->out->keep == SIZE_MAX && !r->developer && !chat_goes_on(r);
}

/* ---- on ---- */

/* Read the body without the messages in the middle. */
static bool read_rest(struct rendering *r, const struct memo *m)
{
	struct buf *b = &r->s->closed;
	struct span raw = r->b->raw;
	uint64_t at = r->b->turn->at;
	struct jval list;

	if (m->first > at || at > raw.n || m->messages < 2)
		return false;
	buf_start(b, 0);
	buf_add(b, raw.p, m->first);
	buf_str(b, MARK);
	buf_add(b, raw.p + at, raw.n - (size_t)at);
	if (b->failed || chat_of_body(r, span_of(b->p, b->n)) != CHAT_DONE)
		return false;
	list = get(r->body, "messages");
	return is_list(list) && list.n >= 2 && is_str(list.v[1]) && list.v[1].n == 1 &&
	       list.v[1].s == b->p + m->first + 2;
}

/* Make the list of all messages: the first one, those that are not read, the new ones. */
static bool make_list(struct rendering *r, const struct memo *m)
{
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval list = get(r->body, "messages"), first, rest, *all;
	struct make_how how = { .aliases = r->c->aliases };

	r->tools = make_tools(&k, get(r->body, "tools"));
	how.parts = traits_of(r)->parts;
	first = make_messages(&k, &how, jval_list(list.v, 1));
	rest = make_messages(&k, &how, jval_list(list.v + 2, list.n - 2));
	r->developer = k.developer;
	all = make_take(&k, (m->messages + (size_t)rest.n) * sizeof(*all));
	if (k.state != MAKE_GOOD)
		return false;
	all[0] = first.v[0];
	for (uint32_t i = 1; i < m->messages; i++)
		all[i] = (struct jval){ .kind = JV_UNREAD };
	if (rest.n > 0)
		memcpy(all + m->messages, rest.v, rest.n * sizeof(*all));
	r->messages = jval_list(all, m->messages + rest.n);
	r->messages.flags = JV_HAS_UNREAD;
	return true;
}

static bool options_allow(struct rendering *r)
{
	struct jval tools = get(r->body, "tools");

	return chat_take_truncation(r) == CHAT_DONE && is_none(get(r->body, "chat_template")) &&
	       !(is_list(tools) && tools.n == 0);
}

bool chat_turn_on(struct rendering *r)
{
	struct chat_turn *t = r->b->turn;
	struct jinja_resume *as = &r->s->resume;
	struct span state = t->memo;
	struct memo m;
	size_t had;

	t->resumed = t->good = false;
	if (state.n <= sizeof(m) || !may_go_on(r))
		return false;
	memcpy(&m, state.p, sizeof(m));
	had = jinja_mem_used(r->s->mem);
	if (!read_rest(r, &m) || !options_allow(r) || !make_list(r, &m))
		return false;
	work_spend(r->work, (jinja_mem_used(r->s->mem) - had) / STEP_MADE);
	if (!may_go_on(r) || uses_tools(r) != m.tool_use)
		return false;
	as->key = t->key;
	as->from = span_of(state.p + sizeof(m), state.n - sizeof(m));
	as->lead = t->lead;
	r->resume = as;
	r->completion = chat_completes(r);
	if (chat_write(r, &r->s->text) != CHAT_DONE || chat_check_halves(r) != CHAT_DONE)
		return false;
	t->resumed = true;
	chat_turn_leave(r, m.messages, span_of(state.p, sizeof(m)));
	return true;
}

/* ---- leave ---- */

void chat_turn_start(struct rendering *r)
{
	struct chat_turn *t = r->b->turn;

	t->resumed = t->good = false;
	if (!may_go_on(r))
		return;
	r->resume = &r->s->resume;
	r->resume->key = t->key;
	r->resume->from = r->resume->lead = (struct span){ .n = 0 };
}

/* Set the ends of the messages; all after the first <known> ones are found. */
static bool find_ends(const struct rendering *r, uint32_t known, struct span memo, struct ends *e)
{
	struct memo m;

	if (known == 0)
		return ends_find(r->b->raw, e);
	memcpy(&m, memo.p, sizeof(m));
	*e = (struct ends){ .n = known, .first = m.first };
	return ends_go_on(r->b->raw, r->b->turn->at, e);
}

void chat_turn_leave(struct rendering *r, uint32_t known, struct span memo)
{
	const struct jinja_resume *as = r->resume;
	struct chat_turn *t = r->b->turn;
	struct buf *left = &r->s->left;
	struct memo m;
	struct ends e;

	if (!as->good || as->messages < 2 || as->messages <= known ||
	    r->messages.n - as->messages >= ENDS_KEPT ||
	    chat_has_replacement(span_of(r->s->text.p, as->text_at)) ||
	    !find_ends(r, known, memo, &e) || e.n != r->messages.n || e.first > UINT32_MAX)
		return;
	m = (struct memo){ (uint32_t)e.first, as->messages, uses_tools(r) };
	buf_start(left, 0);
	buf_add(left, &m, sizeof(m));
	buf_add(left, as->state.p, as->state.n);
	if (left->failed)
		return;
	t->good = true;
	t->left_at = e.last[(as->messages - 1) % ENDS_KEPT];
	t->text_at = as->text_at;
	t->left = span_of(left->p, left->n);
}
