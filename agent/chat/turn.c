/* turn.c - render a conversation on from where an earlier body ended (agent/jinja/resume.h).
 *
 *   body    {"messages":[ m1 , m2 , ... mk , m(k+1) ... ],"model":...
 *                            |             |
 *                          first           at     the same bytes up to here
 *   read    {"messages":[ m1 ,"-"          , m(k+1) ... ],"model":...
 *   list                  m1   unread ...    m(k+1) ...
 *
 * The mark "-" shows, by its address, that the reader found the messages in this list and no other.
 * The first message is read each time, because most templates look for a system message there. Of
 * the others the roles are known, and their places, if the template uses one of them after all.
 *
 * Clients that mark where a cache is to end move the marker with each turn, so what is left follows
 * from the messages before the marked ones.
 *
 * A cut body goes on in the same way, if a message has ended since; what is left follows from all
 * but the last message that has ended, because that one may go on.
 *
 * Only what is sure to be made of each message by itself goes on: nothing truncated or continued,
 * no cut body by harmony, no message of role developer or system that goes to the start, and no
 * U+FFFD in the old text (chat_check_halves()).
 *
 * In chat completions the tools of the last turn need not be read, if all of their bytes are the
 * same: a mark takes their place, and the template passes over the loops that print them.
 *
 * In the API of messages one message of the body becomes none, one or more, after the system text;
 * in that of responses ("input"), an item becomes one or joins the one before it, which follows the
 * instructions. A turn leaves something only where a message of the body ends, and goes on from
 * there if the next item does not join it. */
#include "agent/base/json_text.h"
#include "agent/chat/chat_in.h"
#include "agent/chat/ends.h"

#define MARK	",\"-\""
#define TOOLS_TRIES	8u	/* places of the name "tools" that are looked at */
#define MESSAGE_DEPTH	126	/* BODY_DEPTH in chat.c, less what is around a message */

struct memo {
	uint64_t system;	/* hash of the texts of <front>: one after the list may have changed */
	uint32_t first;		/* bytes of the body up to the end of the first message */
	uint32_t front;		/* messages made of it, and of the system text */
	uint32_t messages;
	uint32_t raw;		/* messages of the body */
	uint32_t tool_use;	/* the template for bodies with tools was used */
	uint32_t last;		/* API of responses: HAS_... of the last message */
	uint64_t n_tools;	/* bytes of "tools"; 0: they are to be read */
	struct hash128 tools;	/* of these */
};

_Static_assert(sizeof(struct memo) == 8 + 6 * 4 + 8 + 16, "its bytes are kept, so none is padding");

/* What follows <memo> for each message, as a word: jinja_role(), and the end of its bytes. After
 * these there is the state of the template. */
#define ROLE_SHIFT	28u
#define END_MOST	((1u << ROLE_SHIFT) - 1)

static uint32_t word_at(const char *words, uint32_t i)
{
	uint32_t w;

	memcpy(&w, words + (size_t)i * sizeof(w), sizeof(w));
	return w;
}

static bool may_go_on(const struct rendering *r)
{
	bool moves = r->b->api == CHAT_MESSAGES && r->map.system && r->c->anthropic.merge;
	bool harmony = r->c->format == CHAT_HARMONY;

	return !moves && !(harmony && r->b->cut) && r->out->keep == SIZE_MAX &&
	       (!r->developer || traits_of(r)->developer) && !chat_goes_on(r);
}

static uint64_t system_hash(const struct rendering *r, struct jval made, uint32_t front)
{
	uint64_t h = 0;

	for (uint32_t i = 0; chat_converts(r) && i < front; i++)
		h = hash_mix_span(r->b->turn->key, h, get_text(made.v[i], "content"));
	return h;
}

/* ---- on ---- */

/* Find the tools in <b>, if all of their bytes are those of the earlier body, and exchange them for
 * the mark. Sets <*at> to its place. That they are the value of "tools" is seen when it is read:
 * they are a whole list, so nothing else of the body is read differently. */
static bool leave_out_tools(struct rendering *r, const struct memo *m, struct buf *b, size_t *at)
{
	static const struct span name = { "\"tools\":", 8 }, mark = { "\"-\"", 3 };
	const char *p = b->p, *end = b->p + b->n;

	for (unsigned tries = TOOLS_TRIES; tries > 0; tries--) {
		if ((p = memmem(p, (size_t)(end - p), name.p, name.n)) == NULL)
			return false;
		p = json_blanks(p + name.n, end);
		if ((size_t)(end - p) >= m->n_tools && *p == '[') {
			struct hash128 h = hash128(r->b->turn->key, p, m->n_tools);

			work_spend(r->work, m->n_tools / STEP_JSON);
			if (h.lo == m->tools.lo && h.hi == m->tools.hi)
				break;
		}
		if (tries == 1)
			return false;
	}
	*at = (size_t)(p - b->p);
	if (*at >= m->first + strlen(MARK))
		r->same_tools.p = r->b->raw.p + r->b->turn->at + (*at - m->first - strlen(MARK));
	else if (*at + m->n_tools <= m->first)
		r->same_tools.p = r->b->raw.p + *at;
	else
		return false;
	r->same_tools.n = m->n_tools;
	memcpy(b->p + *at, mark.p, mark.n);
	memmove(b->p + *at + mark.n, p + m->n_tools, (size_t)(end - p) - m->n_tools);
	b->n -= m->n_tools - mark.n;
	return true;
}

/* Read the body without the messages in the middle. */
static bool read_rest(struct rendering *r, const struct memo *m, bool light)
{
	struct buf *b = &r->s->closed;
	struct span raw = r->b->raw;
	uint64_t at = r->b->turn->at;
	size_t tools_at = 0, mark;
	struct jval list;

	if (m->first > at || at > raw.n || m->raw < 2)
		return false;
	buf_start(b, 0);
	buf_add(b, raw.p, m->first);
	buf_str(b, MARK);
	buf_add(b, raw.p + at, raw.n - (size_t)at);
	if (light && (b->failed || !leave_out_tools(r, m, b, &tools_at)))
		return false;
	if (b->failed || (r->b->cut && chat_close(r) != CHAT_DONE) ||
	    chat_of_body(r, span_of(b->p, b->n)) != CHAT_DONE)
		return false;
	mark = m->first + 2;
	if (light) {
		list = get(r->body, "tools");
		if (!is_str(list) || list.s != b->p + tools_at + 1)
			return false;
		mark -= tools_at < m->first ? m->n_tools - strlen("\"-\"") : 0;
	}
	list = get(r->body, chat_list_name(r));
	return is_list(list) && list.n >= 2 && is_str(list.v[1]) && list.v[1].n == 1 &&
	       list.v[1].s == b->p + mark;
}

/* Convert a body of another API: its first message and what is around it, and the rest. Returns
 * false if the rest changes the message before it.
 *
 * Responses: whether the answer goes on is told by the status of the last item. <r->body> is the
 * shortened one, [first, "-", new ...], so its last item is that of the body only if <rest> is not
 * empty: otherwise it is the mark. */
static bool convert(struct rendering *r, struct make *k, const struct memo *m, struct jval *first,
    struct jval *rest)
{
	const struct make_anthropic *how = &r->c->anthropic;
	struct jval body = make_copy(k, r->body);
	struct make_map map = { .n = 0 };

	if (r->b->api == CHAT_RESPONSES && rest->n == 0)
		return false;
	make_put(k, body, chat_list_name(r), *first);
	if (r->b->api == CHAT_MESSAGES) {
		body = make_of_anthropic(k, how, body, &map);
		*rest = make_of_anthropic_list(k, how, *rest, &r->map);
	} else {
		body = make_of_responses(k, body, &map);
		make_responses_options(k, body, r->body);
		*rest = make_of_responses_list(k, *rest, m->last, &r->map);
	}
	r->map.system |= map.system;
	if (k->state != MAKE_GOOD || r->map.joins)
		return false;
	r->body = body;
	*first = get(body, "messages");
	return is_list(*first) && first->n == m->front &&
	       system_hash(r, *first, m->front) == m->system;
}

/* Make the list of all messages: the first ones, those that are not read, the new ones. */
static bool make_list(struct rendering *r, const struct memo *m)
{
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval list = get(r->body, chat_list_name(r)), *all;
	struct jval first = jval_list(list.v, 1), rest = jval_list(list.v + 2, list.n - 2);
	struct make_how how = { .aliases = r->c->aliases, .responses = r->b->api == CHAT_RESPONSES };

	r->known_n = m->messages;
	r->marked = chat_marked(rest);
	if (chat_converts(r) && !convert(r, &k, m, &first, &rest))
		return false;
	if (!chat_converts(r) && r->b->api == CHAT_RESPONSES)
		r->body = make_of_items(&k, r->body);
	r->made = rest;
	if (r->c->format == CHAT_TEMPLATE) {
		r->tools = r->same_tools.n > 0 ? jinja_unread_tools() : make_tools(&k, get(r->body, "tools"));
		how.parts = traits_of(r)->parts;
		first = make_messages(&k, &how, first);
		rest = make_messages(&k, &how, rest);
		r->developer = k.developer;
	}
	all = make_take(&k, (m->messages + (size_t)rest.n) * sizeof(*all));
	if (k.state != MAKE_GOOD || first.n != m->front || m->front > m->messages)
		return false;
	if (first.n > 0)
		memcpy(all, first.v, first.n * sizeof(*all));
	for (uint32_t i = first.n; i < m->messages; i++)
		all[i] = jinja_unread(i, word_at(r->known, i) >> ROLE_SHIFT);
	if (rest.n > 0)
		memcpy(all + m->messages, rest.v, rest.n * sizeof(*all));
	r->all = all;
	r->messages = jval_list(all, m->messages + rest.n);
	r->messages.flags = JV_HAS_UNREAD;
	return true;
}

static bool options_allow(struct rendering *r)
{
	struct jval tools = get(r->body, "tools");

	return chat_take_truncation(r) == CHAT_DONE && is_none(get(r->body, "chat_template")) &&
	       (r->b->api == CHAT_RESPONSES || !(is_list(tools) && tools.n == 0));
}

bool chat_turn_is_light(const struct chat_body *b)
{
	struct memo m;

	if (b->turn == NULL || b->cut || b->turn->memo.n <= sizeof(m))
		return false;
	memcpy(&m, b->turn->memo.p, sizeof(m));
	return m.n_tools > 0;
}

bool chat_turn_on(struct rendering *r, bool light)
{
	struct chat_turn *t = r->b->turn;
	struct jinja_resume *as = &r->s->resume;
	struct span state = t->memo;
	enum chat_result result;
	struct memo m;
	size_t had, words;

	t->resumed = t->good = false;
	if (state.n <= sizeof(m) || !may_go_on(r))
		return false;
	memcpy(&m, state.p, sizeof(m));
	had = jinja_mem_used(r->s->mem);
	if (m.messages > (state.n - sizeof(m)) / sizeof(uint32_t))
		return false;
	r->known = state.p + sizeof(m);
	words = m.messages * sizeof(uint32_t);
	if (!read_rest(r, &m, light) || !options_allow(r))
		return false;
	chat_note_unseen(r);
	if (!make_list(r, &m))
		return false;
	work_spend(r->work, (jinja_mem_used(r->s->mem) - had) / STEP_MADE);
	if (!may_go_on(r) || chat_uses_tools(r) != m.tool_use)
		return false;
	as->key = t->key;
	as->from = span_of(r->known + words, state.n - sizeof(m) - words);
	as->lead = t->lead;
	r->resume = as;
	r->completion = chat_completes(r) || r->c->format == CHAT_HARMONY;
	if (r->b->cut && r->messages.n == m.messages)	/* how the last one goes on */
		return false;
	result = r->b->cut ? chat_write_part(r) : chat_write(r, &r->s->text);
	if (result != CHAT_DONE || chat_check_halves(r) != CHAT_DONE)
		return false;
	t->resumed = true;
	chat_turn_leave(r, m.messages, state);
	return true;
}

/* Return item <at> of what is made of <list>, a message of the body, or the items of one. */
static struct jval made_of(struct rendering *r, struct make *k, struct jval list, uint32_t at)
{
	struct make_how how = {
		.aliases = r->c->aliases, .parts = traits_of(r)->parts,
		.responses = r->b->api == CHAT_RESPONSES,
	};
	struct make_map map;

	if (r->b->api == CHAT_MESSAGES)
		list = make_of_anthropic_list(k, &r->c->anthropic, list, &map);
	else if (r->b->api == CHAT_RESPONSES)
		list = make_of_responses_list(k, list, 0, &map);
	if (k->state != MAKE_GOOD || at >= list.n) {
		make_fail(k, MAKE_UNKNOWN);
		return jval_none();
	}
	list = make_messages(k, &how, jval_list(list.v + at, 1));
	return k->state == MAKE_GOOD ? list.v[0] : jval_none();
}

/* Read objects, with commas between them, as a list. */
static bool read_list(struct make *k, struct span text, struct jval *out)
{
	char *p = make_take(k, text.n + 2);

	if (p == NULL)
		return false;
	p[0] = '[';
	memcpy(p + 1, text.p, text.n);
	p[text.n + 1] = ']';
	return make_from_json(k->mem, k->work, span_of(p, text.n + 2), MESSAGE_DEPTH + 1, out) == 0 &&
	       is_list(*out);
}

static bool read_tools(struct rendering *r, struct jval *out)
{
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval v;

	if (r->read_tools.kind == JV_MISSING) {
		if (r->same_tools.n == 0 ||
		    make_from_json(k.mem, k.work, r->same_tools, MESSAGE_DEPTH + 1, &v) < 0)
			return false;
		r->read_tools = make_tools(&k, v);
	}
	*out = r->read_tools;
	return k.state == MAKE_GOOD && is_list(*out);
}

/* Read message <at> of those that are passed over, or the tools. */
bool chat_turn_read(void *rendering, uint32_t at, struct jval *out)
{
	struct rendering *r = rendering;
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct span raw = r->b->raw, text;
	uint32_t same = at;		/* the first one made of the same message */
	struct jval v;
	size_t from, to;

	if (at == TOOLS_AT)
		return read_tools(r, out);
	if (r->all[at].kind == JV_UNREAD) {
		to = word_at(r->known, at) & END_MOST;
		while (same > 0 && (word_at(r->known, same - 1) & END_MOST) == to)
			same--;
		from = same > 0 ? word_at(r->known, same - 1) & END_MOST : 0;
		if (to > r->b->turn->at || to > raw.n || from >= to)
			return false;
		text = span_of(raw.p + from, to - from);
		while (text.n > 0 && *text.p != '{') {		/* a comma and white space */
			text.p++;
			text.n--;
		}
		if (!read_list(&k, text, &v))
			return false;
		v = made_of(r, &k, v, at - same);
		if (k.state != MAKE_GOOD || (k.developer && !traits_of(r)->developer))
			return false;
		r->all[at] = v;
	}
	*out = r->all[at];
	return true;
}

/* ---- leave ---- */

#define MARKED_MOST	4u	/* clients mark the last message, the last two, or the last two of a user */

static bool is_marked(struct jval message)
{
	struct jval content = get(message, "content");

	for (uint32_t i = 0; is_list(content) && i < content.n; i++)
		if (!is_none(get(content.v[i], "cache_control")))
			return true;
	return false;
}

uint32_t chat_marked(struct jval list)
{
	uint32_t n = is_list(list) ? list.n : 0;

	for (uint32_t i = n > MARKED_MOST ? n - MARKED_MOST : 0; i < n; i++)
		if (is_marked(list.v[i]))
			return i;
	return UINT32_MAX;
}

uint32_t chat_lasting(const struct rendering *r)
{
	if (r->marked == UINT32_MAX)
		return r->messages.n;
	if (!chat_converts(r))
		return r->known_n + r->marked;
	return r->known_n + (r->marked > 0 ? r->map.after[r->marked - 1] : 0);
}

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
static bool find_ends(
    struct rendering *r, uint32_t known, struct span memo, struct ends *e, uint64_t *shift)
{
	const struct buf *closed = &r->s->closed;
	struct span body = r->b->cut ? span_of(closed->p, closed->n) : r->b->raw;
	uint64_t at = r->b->turn->at;
	struct memo m;

	*shift = 0;
	buf_start(&r->s->ends, 0);
	e->all = &r->s->ends;
	e->list = span_str(chat_list_name(r));
	if (known == 0)
		return ends_find(body, e) && !r->s->ends.failed;
	memcpy(&m, memo.p, sizeof(m));
	e->n = m.raw;
	e->first = m.first;
	if (r->b->cut) {
		*shift = at - (m.first + strlen(MARK));
		at -= *shift;
	}
	return ends_go_on(body, at, e) && !r->s->ends.failed;
}

/* Return the last item that joined the message of item <i>. */
static uint32_t with_joined(const struct rendering *r, uint32_t i)
{
	while (r->b->api == CHAT_RESPONSES && i + 1 < r->map.n && r->map.after[i + 1] == r->map.after[i])
		i++;
	return i;
}

/* Return how many messages of the body the first <n> made ones are of, without those of an earlier
 * body, of which <known> were made. Returns 0 if no message of the body ends there. */
static uint32_t raw_up_to(const struct rendering *r, uint32_t known, uint32_t n)
{
	uint32_t i = 0;

	if (!chat_converts(r))
		return n - known;
	while (i < r->map.n && known + r->map.after[i] < n)
		i++;
	return i < r->map.n && known + r->map.after[i] == n ? with_joined(r, i) + 1 : 0;
}

/* Write the roles and ends of the made messages that are new. */
static void add_words(struct rendering *r, uint32_t known, uint32_t messages, uint64_t shift)
{
	uint32_t raw = 0;	/* the message of the body, of the new ones */

	for (uint32_t i = known; i < messages; i++) {
		uint32_t w = jinja_role(get_text(r->messages.v[i], "role")) << ROLE_SHIFT;

		while (chat_converts(r) && known + r->map.after[raw] <= i)
			raw++;
		if (!chat_converts(r))
			raw = i - known;
		w |= word_at(r->s->ends.p, with_joined(r, raw)) + (uint32_t)shift;
		buf_add(&r->s->left, &w, sizeof(w));
	}
}

/* Set what is noted of a whole body: what its first message and those before it are. Returns false
 * if a later item is part of them. */
static bool note_front(const struct rendering *r, struct memo *m)
{
	m->front = chat_converts(r) ? r->map.after[0] : 1;
	m->system = system_hash(r, r->made, m->front);
	return with_joined(r, 0) == 0;
}

void chat_turn_leave(struct rendering *r, uint32_t known, struct span memo)
{
	const struct jinja_resume *as = r->resume;
	struct chat_turn *t = r->b->turn;
	struct buf *left = &r->s->left;
	uint32_t raw, all = chat_converts(r) ? r->map.n : r->messages.n - known;
	uint64_t shift;
	struct memo m = { .raw = 0 };
	struct ends e = { .n = 0 };

	if (!as->good || as->text_at > r->s->text.n || as->messages < 2 || as->messages <= known ||
	    chat_has_replacement(span_of(r->s->text.p, as->text_at)) ||
	    (raw = raw_up_to(r, known, as->messages)) == 0 ||
	    !find_ends(r, known, memo, &e, &shift) || r->b->raw.n > END_MOST)
		return;
	if (known > 0)
		memcpy(&m, memo.p, sizeof(m));
	if ((known == 0 && !note_front(r, &m)) || e.n != m.raw + all ||
	    raw + m.raw < 2)
		return;
	t->left_at = word_at(r->s->ends.p, raw - 1) + shift;
	m.first = (uint32_t)e.first;
	m.messages = as->messages;
	if (r->b->api == CHAT_RESPONSES && chat_converts(r))
		m.last = make_has(r->made.v[m.messages - known - 1]);
	m.raw += raw;
	m.tool_use = chat_uses_tools(r);
	if (!as->light)
		m.n_tools = 0;
	else if (known == 0 && (m.n_tools = e.tools.n) > 0)
		m.tools = hash128(t->key, e.tools.p, e.tools.n);
	buf_start(left, 0);
	buf_add(left, &m, sizeof(m));
	if (known > 0)
		buf_add(left, memo.p + sizeof(m), known * sizeof(uint32_t));
	add_words(r, known, m.messages, shift);
	buf_add(left, as->state.p, as->state.n);
	if (left->failed)
		return;
	t->good = true;
	t->text_at = as->text_at;
	t->left = span_of(left->p, left->n);
}
