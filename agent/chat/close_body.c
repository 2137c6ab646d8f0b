/* close_body.c - find where a cut body can be closed: one walk over the bytes that knows strings
 * and brackets, and keeps the last place where the object could end.
 *
 *     {"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","cont
 *                                                           ^ here, followed by ]}
 *
 * The walk does not check values; the reader of the closed body does. */
#include "agent/chat/close_body.h"

struct scan {
	struct span raw, list;
	size_t at;
	unsigned depth;
	size_t key_at, key_n;	/* of the open member at the top level */
	bool key_next;		/* a string at the top level would be a key */
	bool list_open;		/* inside the list, at depth 2 */
	struct cut best;
	bool found;
};

static void may_end(struct scan *s, size_t n, const char *close)
{
	s->best = (struct cut){ .n = n, .close = close, .in_list = close[0] == ']' };
	s->found = true;
}

size_t chat_string_end(struct span raw, size_t at)
{
	const char *end = raw.p + raw.n, *p = raw.p + at;

	while ((p = memchr(p + 1, '"', (size_t)(end - p - 1))) != NULL) {
		const char *q = p;

		while (q[-1] == '\\')
			q--;
		if ((p - q) % 2 == 0)
			return (size_t)(p + 1 - raw.p);
	}
	return raw.n + 1;
}

static bool is_list_key(const struct scan *s)
{
	return span_eq(span_of(s->raw.p + s->key_at, s->key_n), s->list);
}

static void string(struct scan *s)
{
	size_t end = chat_string_end(s->raw, s->at);

	if (end > s->raw.n) {
		s->at = s->raw.n;
		return;
	}
	if (s->depth == 1 && s->key_next) {
		s->key_at = s->at + 1;
		s->key_n = end - s->at - 2;
		s->key_next = false;
	} else if (s->depth == 1) {
		may_end(s, end, "}");
	} else if (s->depth == 2 && s->list_open) {
		may_end(s, end, "]}");
	}
	s->at = end;
}

static void open_bracket(struct scan *s, char c)
{
	s->depth++;
	if (s->depth == 1)
		s->key_next = true;
	if (s->depth == 2 && c == '[' && is_list_key(s)) {
		s->list_open = true;
		may_end(s, s->at + 1, "]}");
	}
	s->at++;
}

/* Returns false at the end of the object, or if more brackets close than open. */
static bool close_bracket(struct scan *s)
{
	if (s->depth <= 1)
		return false;
	s->depth--;
	s->at++;
	if (s->depth == 1) {
		s->list_open = false;
		may_end(s, s->at, "}");
	} else if (s->depth == 2 && s->list_open) {
		may_end(s, s->at, "]}");
	}
	return true;
}

/* Note a place after a number or a word, which have no end of their own. */
static void comma(struct scan *s)
{
	if (s->depth == 1) {
		may_end(s, s->at, "}");
		s->key_next = true;
	} else if (s->depth == 2 && s->list_open) {
		may_end(s, s->at, "]}");
	}
	s->at++;
}

bool cut_find(struct span raw, const char *list, struct cut *out)
{
	struct scan s = { .raw = raw, .list = span_str(list) };

	while (s.at < raw.n) {
		char c = raw.p[s.at];

		if (s.depth == 0 && c != '{' && c != ' ' && c != '\t' && c != '\n' && c != '\r')
			break;
		if (c == '"')
			string(&s);
		else if (c == '{' || c == '[')
			open_bracket(&s, c);
		else if (c == ',')
			comma(&s);
		else if (c != '}' && c != ']')
			s.at++;
		else if (!close_bracket(&s))
			break;
	}
	*out = s.best;
	return s.found;
}
