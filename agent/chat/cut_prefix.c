/* cut_prefix.c - the text that a cut body surely starts with.
 *
 * The body is closed after its last whole message and rendered three times: as it is, with one more
 * message, and with a whole turn more; never with the start of an answer. Their common prefix does
 * not depend on what follows, so the text of the whole body starts with it, for templates that look
 * no further ahead. "As it is" means that its last message continues, which omits what the template
 * writes after it: the body may end there and say so.
 *
 * Tools, "system" and the text of a developer message change the start of the text: the last of
 * them moves there if the template does not know that role (system.c). Nothing would be certain
 * then, so the text is that of a body without them, and the result says which of them have not
 * arrived. */
#include "agent/chat/chat_in.h"

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

/* Render with <n> more messages: a user's, an answer, a user's; or starting with an answer, for
 * templates that reject two of a kind in a row. */
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

/* One message more may be the last of its kind; three are a turn of their own, because some
 * templates write the last answer or the last turn in another way. */
/* Write the text of the messages that have arrived. */
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
	/* the runs are those of the last text */
	if (r->c->format == CHAT_HARMONY && (result = chat_write(r, &r->s->text)) != CHAT_DONE)
		return result;
	r->s->text.n = same;
	r->out->part = true;
	r->out->why[0] = '\0';
	return CHAT_DONE;
}
