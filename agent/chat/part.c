/* part.c - a body that was cut.
 *
 * It is closed behind its last whole message and rendered three times: as it is, with one more message, and with a whole turn
 * more, without the beginning of an answer in any. What they have in common does not depend on what comes next, so it is what
 * the whole body's text begins with, for templates that look no further ahead than that. As it is means that its last message goes
 * on, which leaves out what the template puts behind it: the body may end there and say so.
 *
 * What does not come next but in front is another matter: tools, "system", and the text of a developer message, which goes there where
 * the template does not know that role (system.c). Nothing in front would be sure then, so that the text is that of a body
 * without them, and it is said what was not seen. */
#include "agent/chat/chat_in.h"

/* Of a body whose messages may go on. */
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
		r->out->system_unseen = get(r->body, r->b->api == CHAT_MESSAGES ? "system" : "instructions").kind == JV_MISSING;
	r->out->developer_unseen = r->in_list && front_may_change(r);
}

/* With <n> more messages: a user's, an answer, a user's; or from an answer on, for templates that take no two of a kind in a row. */
static enum chat_result write_longer(struct rendering *r, unsigned n, bool from_answer)
{
	struct jval messages = r->messages, dummy = { .kind = JV_MISSING };
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct make_list l = { .n = 0 };
	struct make_how how = { .parts = traits_of(r)->parts };
	enum chat_result result;

	for (uint32_t i = 0; i < messages.n; i++)
		make_add(&k, &l, messages.v[i]);
	for (unsigned i = 0; i < n && k.state == MAKE_GOOD; i++) {
		dummy = make_dict(&k);
		make_put(&k, dummy, "role", make_str((i % 2 == 0) != from_answer ? "user" : "assistant"));
		make_put(&k, dummy, "content", make_str("x"));
		dummy = make_messages(&k, &how, jval_list(&dummy, 1));
		if (k.state == MAKE_GOOD)
			make_add(&k, &l, dummy.v[0]);
	}
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	r->messages = make_list_value(&l);
	result = chat_write(r, &r->s->other);
	r->messages = messages;
	return result;
}

static size_t common(const struct buf *a, const struct buf *b)
{
	size_t n = a->n < b->n ? a->n : b->n, i = 0;

	while (i < n && a->p[i] == b->p[i])
		i++;
	while (i > 0 && i < a->n && ((unsigned char)a->p[i] & 0xc0) == 0x80)
		i--;
	return i;
}

/* One message behind it may be the last one of its kind, and three are a turn of their own: some templates write the last answer or
 * the last turn in another way. */
/* The text of the messages that are there. */
static enum chat_result write_as_it_is(struct rendering *r)
{
	struct jval messages = r->messages;
	enum chat_result result = CHAT_REFUSED;
	struct span last;

	if (r->c->format != CHAT_HARMONY)
		result = chat_tag_last(r, &last);
	if (result == CHAT_DONE)
		result = chat_write(r, &r->s->text);
	if (result == CHAT_DONE)
		result = chat_end_at_tag(r, last);
	r->messages = messages;
	return result == CHAT_REFUSED ? chat_write(r, &r->s->text) : result;
}

enum chat_result chat_write_part(struct rendering *r)
{
	static const unsigned more[] = { 1, 3 };
	size_t same = SIZE_MAX;
	bool from_answer = false;
	enum chat_result result;

	if (r->messages.n == 0)
		return chat_why(r, CHAT_UNKNOWN, "it is cut before its first message ends");
	r->completion = false;
	if ((result = write_as_it_is(r)) != CHAT_DONE)
		return result;
	for (unsigned i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		result = write_longer(r, more[i], from_answer);
		if (result == CHAT_REFUSED && i == 0)
			result = write_longer(r, more[i], from_answer = true);
		if (result != CHAT_DONE)
			return result;
		if (common(&r->s->text, &r->s->other) < same)
			same = common(&r->s->text, &r->s->other);
	}
	if (r->c->format == CHAT_HARMONY && (result = chat_write(r, &r->s->text)) != CHAT_DONE)	/* the runs are of the last one */
		return result;
	r->s->text.n = same;
	r->out->part = true;
	r->out->why[0] = '\0';
	return CHAT_DONE;
}
