/* gap.c - loops over tools before the loop over messages, whose text is a function of them
 * (resume.h). */
#include "agent/jinja/run_in.h"

/* Tell if the value of <n> is a function of the variable <name>, which nothing sets. */
static bool is_function_of(const struct node *n, struct span name)
{
	switch (n->type) {
	case N_CONST:
		return true;
	case N_NAME:
		return span_eq(n->name, name);
	case N_BINARY:
		return n->op == OP_ADD && is_function_of(n->a, name) && is_function_of(n->b, name);
	case N_FILTER:
		if (n->a == NULL || !span_eq(n->name, SPAN("tojson")) || !is_function_of(n->a, name))
			return false;
		for (const struct node *k = n->kids; k != NULL; k = k->next)
			if (k->type != N_CONST && !(k->type == N_KEYWORD && k->a->type == N_CONST))
				return false;
		return true;
	default:
		return false;
	}
}

bool jx_only_prints(const struct node *n)
{
	if (n->a->type != N_NAME || n->b->type != N_NAME || n->c != NULL || n->alt != NULL)
		return false;
	for (const struct node *s = n->kids; s != NULL; s = s->next) {
		if (s->type != N_OUTPUT)
			return false;
		for (const struct node *k = s->kids; k != NULL; k = k->next)
			if (!is_function_of(k, n->a->name))
				return false;
	}
	return true;
}

static bool is_tools(const struct run *r, struct jval v)
{
	const struct jinja_resume *as = r->track.as;

	return memcmp(&as->tools, &v, sizeof(v)) == 0;
}

/* Add what the loop took when the state was left. */
static bool pass_over(struct run *r, const struct tools_gap *g)
{
	const struct jinja_resume *as = r->track.as;

	r->steps += g->steps;
	r->printed += g->printed;
	r->track.saved_steps += g->steps;
	r->limit.steps += g->steps;
	if (r->limit.steps > as->most_steps)
		r->limit.steps = as->most_steps;
	return (r->steps <= r->limit.steps && r->printed <= r->limit.output) || jx_missed(r);
}

bool jx_gap_begin(struct run *r, const struct node *n, bool *over, struct tools_gap *g)
{
	struct track *t = &r->track;
	struct tools_gap *known;
	struct jval v;

	*over = false;
	g->id = UINT64_MAX;
	if (t->as == NULL || t->on || t->as->resumed || r->into != NULL || n->b->up != 0)
		return true;
	v = r->rec->slot[n->b->slot];
	if (!is_tools(r, v))
		return true;
	if (v.kind == JV_UNREAD) {
		known = &t->gap[t->n_gaps];
		if (t->n_gaps == t->n_known || known->id != n->number)
			return jx_missed(r);
		t->n_gaps++;
		known->at = t->as->text->n;
		known->n = 0;
		*over = true;
		return pass_over(r, known);
	}
	if (v.kind == JV_LIST && v.n > 0 && t->as->from.n == 0)
		*g = (struct tools_gap){ r->steps, r->printed, n->number, t->as->text->n, 0 };
	return true;
}

void jx_gap_end(struct run *r, const struct tools_gap *g)
{
	struct track *t = &r->track;

	if (g->id == UINT64_MAX || t->n_gaps == TRACK_GAPS)
		return;
	t->gap[t->n_gaps++] = (struct tools_gap){
		r->steps - g->steps, r->printed - g->printed, g->id, g->at, t->as->text->n - g->at
	};
}
