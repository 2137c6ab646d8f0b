/* cut_prefix.c - the text that a cut body surely starts with.
 *
 * The body is closed after its last whole message and rendered three times: with a whole turn more,
 * with one more message, and as it is. Their common prefix does not depend on what follows, so the
 * text of the whole body starts with it, for templates that look no further ahead. "As it is" means
 * that its last message continues, which omits what the template writes after it: the body may end
 * there and say so.
 *
 * Tools, "system" and the text of a developer message change the start of the text: the last of
 * them moves there if the template does not know that role (system.c). Nothing would be certain
 * then, so the text is that of a body without them, and the result says which of them have not
 * arrived. */
#include "agent/chat/chat_in.h"

#define COMPARED	64u	/* bytes compared at a time */

/* Tell if more messages may follow in the body, so that its start may change. */
static bool front_may_change(const struct rendering *r)
{
	const struct chat *c = r->c;

	if (c->format == CHAT_HARMONY)
		return false;
	if (c->moves_system)
		return true;
	if (r->b->api == CHAT_MESSAGES)
		return c->anthropic.merge;
	return !c->plain_traits.developer || (c->tool_use != NULL && !c->tool_traits.developer);
}

void chat_note_unseen(struct rendering *r)
{
	if (!r->b->cut)
		return;
	if (r->b->api != CHAT_COMPLETIONS)
		r->out->system_unseen =
		    get(r->body, r->b->api == CHAT_MESSAGES ? "system" : "instructions").kind ==
		    JV_MISSING;
	r->out->developer_unseen = r->in_list && front_may_change(r);
}

/* Where the first of the renderings left a state (turn.c), from which the others go on: messages
 * before the last one are rendered once. */
struct shared {
	bool good, more;
	uint32_t messages;
	size_t at;		/* bytes of the text before it */
};

static void swap_states(struct chat_scratch *s)
{
	struct buf b = s->resume.state;

	s->resume.state = s->shared;
	s->shared = b;
}

static void keep_state(struct rendering *r, struct shared *k)
{
	const struct jinja_resume *as = r->resume;

	*k = (struct shared){ .good = as != NULL && as->good && as->text_at <= r->s->text.n };
	if (!k->good)
		return;
	k->more = as->more;
	k->messages = as->messages;
	k->at = as->text_at;
	swap_states(r->s);
}

/* The state that it left is what the next turn goes on from. */
static void return_state(struct rendering *r, const struct shared *k)
{
	struct jinja_resume *as = r->resume;

	if (as != NULL)
		as->good = k->good;
	if (!k->good)
		return;
	swap_states(r->s);
	as->more = k->more;
	as->messages = k->messages;
	as->text_at = k->at;
}

/* Write r->messages to <other>; on from the state if there is one, and then without the text before
 * it. */
static enum chat_result write_other(struct rendering *r, const struct shared *k)
{
	struct jinja_resume *as = r->resume;
	struct span from, lead;
	enum chat_result result;

	if (!k->good)
		return chat_write(r, &r->s->other);
	from = as->from;
	lead = as->lead;
	as->from = span_of(r->s->shared.p, r->s->shared.n);
	as->lead = (struct span){ .n = 0 };
	result = chat_write(r, &r->s->other);
	as->from = from;
	as->lead = lead;
	return result;
}

/* Render with <n> more messages: a user's, an answer, a user's; or starting with an answer, for
 * templates that reject two of a kind in a row. <k>: NULL: to <text> */
static enum chat_result write_longer(
    struct rendering *r, unsigned n, bool from_answer, const struct shared *k)
{
	struct jval messages = r->messages, dummy = { .kind = JV_MISSING };
	struct make m = { .mem = r->s->mem, .work = r->work };
	struct make_list l = { .n = 0 };
	struct make_how how = { .parts = traits_of(r)->parts };
	enum chat_result result;

	for (uint32_t i = 0; i < messages.n; i++)
		make_add(&m, &l, messages.v[i]);
	for (unsigned i = 0; i < n && m.state == MAKE_GOOD; i++) {
		dummy = make_dict(&m);
		make_put(&m, dummy, "role", make_str((i % 2 == 0) != from_answer ? "user" : "assistant"));
		make_put(&m, dummy, "content", make_str("x"));
		dummy = make_messages(&m, &how, jval_list(&dummy, 1));
		if (m.state == MAKE_GOOD)
			make_add(&m, &l, dummy.v[0]);
	}
	if (m.state != MAKE_GOOD)
		return chat_of_make(r, &m);
	r->messages = make_list_value(&l);
	r->messages.flags = messages.flags;
	result = k != NULL ? write_other(r, k) : chat_write(r, &r->s->text);
	r->messages = messages;
	return result;
}

/* Write the text of the messages that have arrived, with the last one going on if it can. If not
 * all of them were read, it is unknown whether it can go on unless it does: its text may be among
 * what was not written. */
static enum chat_result write_as_it_is(struct rendering *r, const struct shared *k)
{
	struct jval messages = r->messages;
	enum chat_result result = CHAT_REFUSED;
	struct span last;

	if (r->c->format != CHAT_HARMONY)
		result = chat_tag_last(r, &last);
	if (result == CHAT_DONE)
		result = write_other(r, k);
	if (result == CHAT_DONE)
		result = chat_end_at_tag(r, last);
	r->messages = messages;
	if (result == CHAT_REFUSED && (k->good || (r->resume != NULL && r->resume->from.n > 0)))
		return CHAT_UNKNOWN;
	return result == CHAT_REFUSED ? write_other(r, k) : result;
}

static size_t common(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n, i = 0;

	while (n - i >= COMPARED && memcmp(a.p + i, b.p + i, COMPARED) == 0)
		i += COMPARED;
	while (i < n && a.p[i] == b.p[i])
		i++;
	while (i > 0 && i < a.n && ((unsigned char)a.p[i] & 0xc0) == 0x80)
		i--;
	return i;
}

/* End the text where <other> is another. */
static void trim_text(struct chat_scratch *s, const struct shared *k)
{
	size_t from = k->good ? k->at : 0;

	s->text.n = from + common(span_of(s->text.p + from, s->text.n - from),
			       span_of(s->other.p, s->other.n));
}

/* Write to <other>, with <more> messages more or, if that is 0, as it is; then trim the text. What
 * does not go on from the shared state is rendered as the first one was. */
static enum chat_result compare(
    struct rendering *r, unsigned more, bool from_answer, const struct shared *k)
{
	static const struct shared none = { .good = false };
	enum chat_result result =
	    more > 0 ? write_longer(r, more, from_answer, k) : write_as_it_is(r, k);

	if (k->good && result == CHAT_UNKNOWN) {
		k = &none;
		result = more > 0 ? write_longer(r, more, from_answer, k) : write_as_it_is(r, k);
	}
	if (result == CHAT_DONE)
		trim_text(r->s, k);
	return result;
}

/* One message more may be the last of its kind; three are a turn of their own, because some
 * templates write the last answer or the last turn in another way. */
static enum chat_result write_all(struct rendering *r)
{
	struct shared k;
	enum chat_result result;

	for (unsigned from_answer = 0; from_answer < 2; from_answer++) {
		if ((result = write_longer(r, 3, from_answer, NULL)) == CHAT_REFUSED)
			continue;
		if (result != CHAT_DONE)
			return result;
		keep_state(r, &k);
		if ((result = compare(r, 1, from_answer, &k)) == CHAT_DONE)
			result = compare(r, 0, false, &k);
		return_state(r, &k);
		if (result != CHAT_REFUSED)
			break;
	}
	return result;
}

/* The start of an answer is written as in the whole body, so that a template has the same variables
 * and the whole body goes on from what this one leaves (turn.c). */
enum chat_result chat_write_part(struct rendering *r)
{
	enum chat_result result;
	size_t same;

	if (r->messages.n == 0)
		return chat_why(r, CHAT_UNKNOWN, "it is cut before its first message ends");
	r->completion = r->c->format != CHAT_HARMONY && !chat_goes_on(r) && chat_completes(r);
	r->sure = r->messages.n - 1;
	result = write_all(r);
	if (result == CHAT_REFUSED && r->completion) {
		r->completion = false;
		result = write_all(r);
	}
	if (result != CHAT_DONE)
		return result;
	/* the runs are those of the last text */
	same = r->s->text.n;
	if (r->c->format == CHAT_HARMONY && (result = chat_write(r, &r->s->text)) != CHAT_DONE)
		return result;
	r->s->text.n = same;
	r->out->part = true;
	r->out->why[0] = '\0';
	return CHAT_DONE;
}
