/* ends.c - one walk over the bytes that knows strings and brackets. The body was read as values
 * before, so it is valid; only names at the top level are looked at. A walk that goes on ends with
 * the list, because its caller has found the list by its place. */
#include "agent/chat/close_body.h"
#include "agent/chat/ends.h"

struct walk {
	struct span raw;
	size_t at;
	unsigned depth;
	bool key_next;		/* a string at the top level would be a name */
	bool named;		/* the last name was that of the list */
	bool tools;		/* it was "tools" */
	bool seen;		/* and there was one before */
	bool in_list;
	bool whole;		/* what follows the list is looked at, too */
	struct ends *e;
};

static bool string(struct walk *w)
{
	size_t from = w->at + 1, end = chat_string_end(w->raw, w->at), n = end - from - 1;

	w->at = end < w->raw.n ? end : w->raw.n;
	if (w->depth != 1 || !w->key_next)
		return true;
	if (memchr(w->raw.p + from, '\\', n) != NULL)
		return false;
	w->key_next = false;
	w->named = span_eq(span_of(w->raw.p + from, n), w->e->list);
	w->tools = span_eq(span_of(w->raw.p + from, n), SPAN("tools"));
	if (w->named && w->seen)
		return false;
	w->seen |= w->named;
	return true;
}

static void open_bracket(struct walk *w, char c)
{
	w->depth++;
	w->at++;
	if (w->depth == 1)
		w->key_next = true;
	if (w->depth == 2 && c == '[' && w->named)
		w->in_list = true;
	if (w->depth == 2 && c == '[' && w->tools)
		w->e->tools = span_of(w->raw.p + w->at - 1, 0);
}

static void add_end(struct buf *to, size_t at)
{
	uint32_t end = at < UINT32_MAX ? (uint32_t)at : UINT32_MAX;

	buf_add(to, &end, sizeof(end));
}

static void close_bracket(struct walk *w)
{
	struct ends *e = w->e;

	w->at++;
	if (w->depth == 2 && w->tools && e->tools.p != NULL)
		e->tools.n = (size_t)(w->raw.p + w->at - e->tools.p);
	if (w->depth == 2)
		w->in_list = false;
	w->depth -= w->depth > 0;
	if (w->depth != 2 || !w->in_list)
		return;
	if (e->n == 0)
		e->first = w->at;
	add_end(e->all, w->at);
	e->n++;
}

static bool walk(struct walk *w)
{
	while (w->at < w->raw.n && (w->whole || w->in_list)) {
		char c = w->raw.p[w->at];

		if (c == '"') {
			if (!string(w))
				return false;
			continue;
		}
		if (c == '{' || c == '[') {
			open_bracket(w, c);
			continue;
		}
		if (c == '}' || c == ']') {
			close_bracket(w);
			continue;
		}
		if (c == ',' && w->depth == 1)
			w->key_next = true;
		w->at++;
	}
	return true;
}

bool ends_find(struct span raw, struct ends *e)
{
	struct walk w = { .raw = raw, .whole = true, .e = e };

	e->n = 0;
	e->tools = (struct span){ .n = 0 };
	return walk(&w);
}

bool ends_go_on(struct span raw, uint64_t at, struct ends *e)
{
	struct walk w = {
		.raw = raw, .at = (size_t)at, .depth = 2, .seen = true, .in_list = true, .e = e
	};

	return walk(&w);
}
