/* One event, a few bytes. One flag is enough for commas: the end of a value of any kind sets it, the
 * start of an object or array and a key clear it. */
#include "agent/prompt/canon.h"

static struct span put(bool comma, struct span text, char quote, char behind, char *room)
{
	char *q = room;

	if (comma)
		*q++ = ',';
	if (quote)
		*q++ = quote;
	memcpy(q, text.p, text.n);
	q += text.n;
	if (behind) {
		*q++ = quote;
		*q++ = behind;
	}
	return span_of(room, (size_t)(q - room));
}

struct span canon_event(struct canon *c, enum json_event ev, struct span text, char *room)
{
	bool comma = c->comma;

	switch (ev) {
	case JSON_OBJECT:
		c->comma = false;
		return put(comma, SPAN("{"), 0, 0, room);
	case JSON_ARRAY:
		c->comma = false;
		return put(comma, SPAN("["), 0, 0, room);
	case JSON_OBJECT_END:
		c->comma = true;
		return SPAN("}");
	case JSON_ARRAY_END:
		c->comma = true;
		return SPAN("]");
	case JSON_KEY:
		c->comma = false;
		return put(comma, text, CANON_QUOTE, ':', room);
	case JSON_STRING:
		return put(comma, SPAN(""), CANON_QUOTE, 0, room);
	case JSON_STRING_PART:
		return text;
	case JSON_STRING_END:
		c->comma = true;
		return SPAN("\xff");
	case JSON_NUMBER:
		c->comma = true;
		return put(comma, text, 0, 0, room);
	case JSON_TRUE:
		c->comma = true;
		return put(comma, SPAN("true"), 0, 0, room);
	case JSON_FALSE:
		c->comma = true;
		return put(comma, SPAN("false"), 0, 0, room);
	case JSON_NULL:
		c->comma = true;
		return put(comma, SPAN("null"), 0, 0, room);
	}
	return SPAN("");
}
