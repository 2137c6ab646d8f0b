/* response_id.c - pass strings, and count braces, until the key is found.
 *
 *   {"id":"resp_1","object":"response",...
 *   event: response.created
 *   data: {"type":"response.created","response":{"id":"resp_1",...
 *
 * This is no check of JSON: of what is none, some text may be returned, which is an id that no
 * request will name. */
#include "agent/feed/response_id.h"

struct walk {
	const char *p, *end;
	unsigned depth;			/* of braces and brackets */
	unsigned response;		/* depth inside of the member "response"; 0: not there */
};

/* Pass the string that begins at w->p. Returns what is between its quotes; .p NULL if it is cut. */
static struct span pass_string(struct walk *w)
{
	const char *from = ++w->p;

	while (w->p < w->end && *w->p != '"')
		w->p += *w->p == '\\' && w->end - w->p > 1 ? 2 : 1;
	if (w->p >= w->end)
		return (struct span){ .p = NULL };
	w->p++;
	return span_of(from, (size_t)(w->p - 1 - from));
}

static void pass_space(struct walk *w)
{
	while (w->p < w->end && (*w->p == ' ' || *w->p == '\t' || *w->p == '\n' || *w->p == '\r'))
		w->p++;
}

/* Pass a colon. Returns false if there is none, so that the string before it is no key. */
static bool pass_colon(struct walk *w)
{
	pass_space(w);
	if (w->p >= w->end || *w->p != ':')
		return false;
	w->p++;
	pass_space(w);
	return true;
}

struct span response_id_checked(struct span id)
{
	bool good = id.n > 0 && id.n <= RESPONSE_ID_MAX;

	for (size_t i = 0; good && i < id.n; i++) {
		char c = id.p[i];

		good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '_' || c == '.' || c == ':';
	}
	return good ? id : SPAN("");
}

/* Pass a string, and its colon if it is a key. Returns true if the value of the key is the id. */
static bool at_id(struct walk *w)
{
	struct span key = pass_string(w);

	if (key.p == NULL || !pass_colon(w) || w->p >= w->end)
		return false;
	if (w->depth == 1 && *w->p == '{' && span_eq(key, SPAN("response")))
		w->response = 2;
	return span_eq(key, SPAN("id")) && *w->p == '"' && (w->depth == 1 || w->depth == w->response);
}

struct span response_id(struct span head)
{
	struct walk w = { .p = head.n > 0 ? memchr(head.p, '{', head.n) : NULL };
	struct span id;

	if (w.p == NULL)
		return SPAN("");
	w.end = head.p + head.n;
	while (w.p < w.end) {
		switch (*w.p) {
		case '"':
			if (at_id(&w)) {
				id = pass_string(&w);
				return id.p != NULL ? response_id_checked(id) : SPAN("");
			}
			continue;
		case '{': case '[':
			w.depth++;
			break;
		case '}': case ']':
			if (--w.depth == 0)
				return SPAN("");
			if (w.depth < w.response)
				w.response = 0;
			break;
		default:
			break;
		}
		w.p++;
	}
	return SPAN("");
}
