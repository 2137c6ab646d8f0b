/* continue_last.c - continue an answer ("continue_final_message").
 *
 * As in transformers (utils/chat_template_utils.py, render_jinja_template): append a tag to the
 * text of the last message, and end the rendered text at the tag. If the template stripped the
 * blank at the tag's end, white space before the tag goes too. */
#include "agent/chat/chat_in.h"

static const char tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";
#define TAG_N	(sizeof(tag) - 1)

static struct jval tagged(struct make *k, struct jval text)
{
	struct jval both[] = { text, make_str(tag) };

	return make_joined(k, &(struct make_list){ .v = both, .n = 2 }, "");
}

/* Append the tag to the last part that has text. Returns false if there is none. */
static bool tag_parts(struct make *k, struct jval *content, struct span *last)
{
	struct make_list l = { .n = 0 };
	uint32_t at = content->n;

	while (at > 0 && !is_str(get(content->v[at - 1], "text")))
		at--;
	if (at == 0)
		return false;
	*last = get_text(content->v[at - 1], "text");
	for (uint32_t i = 0; i < content->n && k->state == MAKE_GOOD; i++) {
		struct jval part = content->v[i];

		if (i == at - 1) {
			part = make_copy(k, part);
			make_put(k, part, "text", tagged(k, get(content->v[i], "text")));
		}
		make_add(k, &l, part);
	}
	*content = make_list_value(&l);
	return true;
}

enum chat_result chat_tag_last(struct rendering *r, struct span *last)
{
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct make_list l = { .n = 0 };
	uint8_t flags = r->messages.flags;
	struct jval content, m;

	*last = (struct span){ .n = 0 };
	if (r->messages.n == 0 || !traits_of(r)->content)
		return chat_why(r, CHAT_REFUSED, "there is no last message to go on with");
	m = make_copy(&k, r->messages.v[r->messages.n - 1]);
	content = get(m, "content");
	if (is_list(content) && !tag_parts(&k, &content, last))
		return chat_why(r, CHAT_REFUSED, "there is no text in the last message to go on with");
	if (is_str(content)) {
		*last = jval_span(content);
		content = tagged(&k, content);
	}
	make_put(&k, m, "content", content);
	for (uint32_t i = 0; i + 1 < r->messages.n; i++)
		make_add(&k, &l, r->messages.v[i]);
	make_add(&k, &l, m);
	if (k.state == MAKE_GOOD)
		r->messages = make_list_value(&l);
	r->messages.flags = flags;
	return chat_of_make(r, &k);
}

enum chat_result chat_end_at_tag(struct rendering *r, struct span last)
{
	struct buf *b = r->into;
	const char *at = NULL;

	last = jval_strip(last, true, true);
	if ((last.n > 0 && (b->n < last.n || memmem(b->p, b->n, last.p, last.n) == NULL)) ||
	    b->n < TAG_N - 1 ||
	    !jinja_find_last(r->s->mem, span_of(b->p, b->n), span_of(tag, TAG_N - 1), &at) ||
	    at == NULL)
		return chat_why(r, CHAT_REFUSED,
		    "the template changes the last message, so that it cannot go on");
	if (at + TAG_N <= b->p + b->n && memcmp(at, tag, TAG_N) == 0)
		b->n = (size_t)(at - b->p);
	else
		b->n = jval_strip(span_of(b->p, (size_t)(at - b->p)), false, true).n;
	return CHAT_DONE;
}
