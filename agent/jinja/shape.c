/* shape.c - detect if a template loops over the parts of a message's content.
 *
 * vLLM (renderers/hf.py, _detect_content_format) passes content as a list of parts to such
 * templates and as one text to others. Its rule is followed here with its blind spots: a loop
 * counts if it iterates over the content of a name that iterates over "messages", or over a name
 * that was set to messages, with filters, tests and slices ignored. Scopes do not matter. A loop
 * over two names at once means text. */
#include "agent/jinja/ast_in.h"
#include "agent/jinja/jinja.h"

#define NAMES_MAX	64

/* Names with one meaning. */
struct names {
	struct span of[NAMES_MAX];
	unsigned n;
};

struct walk {
	enum { WALK_SETS, WALK_MESSAGES, WALK_CONTENT } what;
	struct names lists, messages;
	bool found, odd;
};

static void note(struct names *s, struct span name)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (span_eq(s->of[i], name))
			return;
	}
	if (s->n < NAMES_MAX)
		s->of[s->n++] = name;
}

static bool is_one(const struct names *s, const struct node *n)
{
	if (n->type != N_NAME)
		return false;
	for (unsigned i = 0; i < s->n; i++) {
		if (span_eq(s->of[i], n->name))
			return true;
	}
	return false;
}

static bool is_content(const struct node *n)
{
	if (n->type == N_GETATTR)
		return span_eq(jval_span(n->value), SPAN("content"));	/* a constant text */
	return n->type == N_GETITEM && n->b != NULL && n->b->type == N_CONST &&
	       n->b->value.kind == JV_STR && span_eq(jval_span(n->b->value), SPAN("content"));
}

/* Return <n> without the filters, tests and slices around it. */
static const struct node *bare(const struct node *n)
{
	while (n != NULL && (n->type == N_FILTER || n->type == N_TEST || n->type == N_SLICE))
		n = n->a;
	return n;
}

static void look_at(struct walk *w, const struct node *n)
{
	const struct node *from = n->type == N_SET || n->type == N_FOR ? bare(n->b) : NULL;
	bool hit;

	if (from == NULL || (n->type == N_SET) != (w->what == WALK_SETS))
		return;
	hit = w->what == WALK_CONTENT ?
		      is_content(from) && from->a != NULL && is_one(&w->messages, from->a) :
		      is_one(&w->lists, from);
	if (!hit)
		return;
	if (n->a == NULL || n->a->type != N_NAME)
		w->odd = true;
	else if (w->what == WALK_CONTENT)
		w->found = true;
	else
		note(w->what == WALK_SETS ? &w->lists : &w->messages, n->a->name);
}

/* Visit every node below <n>. The parser bounds the depth. */
static void visit(struct walk *w, const struct node *n)
{
	for (; n != NULL; n = n->next) {
		look_at(w, n);
		visit(w, n->a);
		visit(w, n->b);
		visit(w, n->c);
		visit(w, n->kids);
		visit(w, n->alt);
		if (n->fn != NULL)
			visit(w, n->fn->body);
	}
}

bool jinja_walks_content(const struct jinja *t)
{
	struct walk w = { .what = WALK_SETS, .lists = { .of = { SPAN("messages") }, .n = 1 } };
	unsigned before;

	do {
		before = w.lists.n;
		visit(&w, t->body);
	} while (w.lists.n > before);
	w.what = WALK_MESSAGES;
	visit(&w, t->body);
	w.what = WALK_CONTENT;
	visit(&w, t->body);
	return w.found && !w.odd;
}
