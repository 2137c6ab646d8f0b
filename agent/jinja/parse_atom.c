/* Parse the parts of an expression that bind closest: literals, names, brackets; then members,
 * calls, filters and tests after them. */
#include "agent/jinja/parse_in.h"
#include "agent/jinja/run_in.h"

struct node *jx_node_new(struct parser *p, enum node_type type, uint32_t line)
{
	struct node *n = jinja_mem_take(p->m, sizeof(*n));

	if (n == NULL) {
		jx_no_memory(p->e);
		return NULL;
	}
	memset(n, 0, sizeof(*n));
	n->type = (uint8_t)type;
	n->line = line;
	return n;
}

static void count_depth(struct node *n, const struct node *part)
{
	for (; part != NULL; part = part->next)
		if (part->depth >= n->depth)
			n->depth = (uint16_t)(part->depth + 1);
}

struct node *jx_node_done(struct parser *p, struct node *n)
{
	count_depth(n, n->a);
	count_depth(n, n->b);
	count_depth(n, n->c);
	count_depth(n, n->kids);
	count_depth(n, n->alt);
	if (n->depth > AST_DEPTH) {
		jx_syntax_error(p->e, n->line, "this is nested more than %d deep", AST_DEPTH);
		return NULL;
	}
	return n;
}

struct node *jx_unexpected(struct parser *p)
{
	if (p->at->type == T_EOF)
		jx_syntax_error(p->e, p->at->line, "unexpected end of the template");
	else
		jx_syntax_error(p->e, p->at->line, "unexpected '" SPAN_FMT "'",
			     p->at->text.n < 60 ? (int)p->at->text.n : 60, p->at->text.p);
	return NULL;
}

int jx_expect(struct parser *p, enum token_type type)
{
	if (p->at->type != type) {
		jx_unexpected(p);
		return -1;
	}
	advance(p);
	return 0;
}

/* ---- atoms ------------------------------------------------------------------------------- */

static struct node *constant(struct parser *p, struct jval v, uint32_t line)
{
	struct node *n = jx_node_new(p, N_CONST, line);

	if (n != NULL)
		n->value = v;
	return n;
}

static struct jval text_constant(struct span s)
{
	struct jval v = jval_str(s.p, s.n);

	v.flags = JV_CONST;
	if (jval_ascii(v))
		v.flags |= JV_ASCII;
	return v;
}

/* Parse a string. Adjacent strings are joined. */
static struct node *parse_string(struct parser *p)
{
	const struct token *first = p->at;
	size_t n = 0;
	char *joined, *o;

	for (; p->at->type == T_STRING; advance(p))
		n += p->at->text.n;
	if (p->at == first + 1)
		return constant(p, text_constant(first->text), first->line);
	joined = o = jinja_mem_take(p->m, n + 1);
	if (joined == NULL) {
		jx_no_memory(p->e);
		return NULL;
	}
	for (; first < p->at; first++) {
		memcpy(o, first->text.p, first->text.n);
		o += first->text.n;
	}
	return constant(p, text_constant(span_of(joined, n)), p->at[-1].line);
}

static struct node *parse_name(struct parser *p, bool with_ns)
{
	const struct token *t = p->at;
	struct node *n;

	advance(p);
	if (is_name(t, "true") || is_name(t, "True"))
		return constant(p, jval_bool(true), t->line);
	if (is_name(t, "false") || is_name(t, "False"))
		return constant(p, jval_bool(false), t->line);
	if (is_name(t, "none") || is_name(t, "None"))
		return constant(p, jval_none(), t->line);
	n = jx_node_new(p, N_NAME, t->line);
	if (n == NULL)
		return NULL;
	n->name = t->text;
	if (!with_ns || !skip(p, T_DOT))
		return n;
	if (p->at->type != T_NAME)
		return jx_unexpected(p);
	n->type = N_NSREF;
	n->b = constant(p, text_constant(p->at->text), t->line);
	advance(p);
	return n->b == NULL ? NULL : n;
}

/* Parse items up to <close>, after the opening bracket; <pairs>: each is key: value. */
static struct node *parse_items(struct parser *p, enum node_type type, enum token_type close,
				bool pairs, uint32_t line)
{
	struct node *n = jx_node_new(p, type, line), *item;
	struct kids kids;

	if (n == NULL)
		return NULL;
	kids_init(&kids);
	while (p->at->type != close) {
		if (kids.first != NULL && jx_expect(p, T_COMMA) != 0)
			return NULL;
		if (p->at->type == close)
			break;
		item = jx_parse_expression(p, true);
		if (item == NULL)
			return NULL;
		kids_add(&kids, item);
		if (!pairs)
			continue;
		if (jx_expect(p, T_COLON) != 0 || (item = jx_parse_expression(p, true)) == NULL)
			return NULL;
		kids_add(&kids, item);
	}
	advance(p);
	n->kids = kids.first;
	return jx_node_done(p, n);
}

static struct node *parse_brackets(struct parser *p)
{
	struct node *n;
	uint32_t line = p->at->line;

	advance(p);
	if (skip(p, T_RPAREN))
		return jx_node_new(p, N_TUPLE, line);
	n = jx_parse_tuple(p, true, NULL);
	if (n == NULL || jx_expect(p, T_RPAREN) != 0)
		return NULL;
	return n;
}

struct node *jx_parse_primary(struct parser *p, bool with_ns)
{
	const struct token *t = p->at;

	switch (t->type) {
	case T_NAME:
		return parse_name(p, with_ns);
	case T_STRING:
		return parse_string(p);
	case T_NUMBER:
		advance(p);
		return constant(p, t->number, t->line);
	case T_LPAREN:
		return parse_brackets(p);
	case T_LBRACKET:
		advance(p);
		return parse_items(p, N_LIST, T_RBRACKET, false, t->line);
	case T_LBRACE:
		advance(p);
		return parse_items(p, N_DICT, T_RBRACE, true, t->line);
	default:
		return jx_unexpected(p);
	}
}

/* ---- after an atom ----------------------------------------------------------------------- */

/* Parse a subscript: a, a:b or a:b:c, where parts of a slice may be absent. */
static struct node *parse_subscribed(struct parser *p, struct node *of)
{
	struct node *part[3] = { NULL, NULL, NULL }, *n;
	uint32_t line = p->at->line;
	unsigned i = 0;
	bool slice = false;

	for (;;) {
		if (p->at->type == T_COLON && i < 2) {
			slice = true;
			i++;
			advance(p);
		} else if (p->at->type == T_RBRACKET && slice) {
			break;
		} else if (part[i] == NULL) {
			part[i] = jx_parse_expression(p, true);
			if (part[i] == NULL)
				return NULL;
			if (p->at->type == T_RBRACKET)
				break;
		} else {
			return jx_unexpected(p);
		}
	}
	n = jx_node_new(p, slice ? N_SLICE : N_GETITEM, line);
	if (n == NULL)
		return NULL;
	n->a = of;
	n->b = part[0];
	n->c = part[1];
	n->alt = part[2];
	return jx_node_done(p, n);
}

static struct node *parse_dot(struct parser *p, struct node *of)
{
	const struct token *t = p->at;
	struct node *n;

	advance(p);
	if (t->type != T_NAME && t->type != T_NUMBER) {
		p->at = t;
		return jx_unexpected(p);
	}
	n = jx_node_new(p, t->type == T_NAME ? N_GETATTR : N_GETITEM, t->line);
	if (n == NULL)
		return NULL;
	n->a = of;
	if (t->type == T_NAME) {
		n->value = text_constant(t->text);
		n->id = jx_method_id(t->text);
	} else {
		n->b = constant(p, t->number, t->line);
		if (n->b == NULL)
			return NULL;
	}
	return jx_node_done(p, n);
}

static struct node *parse_argument(struct parser *p)
{
	struct node *n;
	uint32_t line = p->at->line;
	enum node_type type = N_KEYWORD;

	if (p->at->type == T_MUL)
		type = N_STAR;
	else if (p->at->type == T_POW)
		type = N_STARSTAR;
	else if (p->at->type != T_NAME || p->at[1].type != T_ASSIGN)
		return jx_parse_expression(p, true);
	n = jx_node_new(p, type, line);
	if (n == NULL)
		return NULL;
	if (type == N_KEYWORD) {
		n->name = p->at->text;
		advance(p);
	}
	advance(p);
	n->a = jx_parse_expression(p, true);
	return n->a == NULL ? NULL : jx_node_done(p, n);
}

/* Parse arguments into a fixed order: positional, named, *a, **a. */
static int parse_arguments(struct parser *p, struct node *call)
{
	struct node *n, *star = NULL, *starstar = NULL;
	struct kids kids;
	bool named = false, any = false;

	advance(p);
	kids_init(&kids);
	while (p->at->type != T_RPAREN) {
		if (any && jx_expect(p, T_COMMA) != 0)
			return -1;
		if (p->at->type == T_RPAREN)
			break;
		any = true;
		n = parse_argument(p);
		if (n == NULL)
			return -1;
		if (starstar != NULL || (n->type == N_STAR && star != NULL) ||
		    (n->type != N_KEYWORD && n->type != N_STAR && n->type != N_STARSTAR &&
		     (named || star != NULL)))
			return jx_syntax_error(p->e, n->line, "the arguments are in an order that is not possible");
		if (n->type == N_STAR) {
			star = n;
		} else if (n->type == N_STARSTAR) {
			starstar = n;
		} else {
			named = named || n->type == N_KEYWORD;
			kids_add(&kids, n);
		}
	}
	advance(p);
	if (star != NULL)
		kids_add(&kids, star);
	if (starstar != NULL)
		kids_add(&kids, starstar);
	call->kids = kids.first;
	return 0;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
	struct node *n = jx_node_new(p, N_CALL, p->at->line);

	if (n == NULL)
		return NULL;
	n->a = callee;
	return parse_arguments(p, n) == 0 ? jx_node_done(p, n) : NULL;
}

struct node *jx_parse_postfix(struct parser *p, struct node *n)
{
	while (n != NULL) {
		if (skip(p, T_DOT))
			n = parse_dot(p, n);
		else if (p->at->type == T_LPAREN)
			n = parse_call(p, n);
		else if (!skip(p, T_LBRACKET))
			break;
		else if ((n = parse_subscribed(p, n)) != NULL && jx_expect(p, T_RBRACKET) != 0)
			return NULL;
	}
	return n;
}

struct node *jx_parse_filters(struct parser *p, struct node *n, bool inline_first)
{
	struct node *f;

	while (inline_first || p->at->type == T_PIPE) {
		if (!inline_first)
			advance(p);
		inline_first = false;
		if (p->at->type != T_NAME)
			return jx_unexpected(p);
		f = jx_node_new(p, N_FILTER, p->at->line);
		if (f == NULL)
			return NULL;
		f->a = n;
		f->name = p->at->text;
		f->id = jx_filter_id(f->name);
		advance(p);
		if (p->at->type == T_DOT)
			return jx_unexpected(p);
		if (p->at->type == T_LPAREN && parse_arguments(p, f) != 0)
			return NULL;
		n = jx_node_done(p, f);
		if (n == NULL)
			return NULL;
	}
	return n;
}

static bool starts_operand(const struct token *t)
{
	switch (t->type) {
	case T_STRING: case T_NUMBER: case T_LBRACKET: case T_LBRACE:
		return true;
	case T_NAME:
		return !is_name(t, "else") && !is_name(t, "or") && !is_name(t, "and");
	default:
		return false;
	}
}

static struct node *parse_test(struct parser *p, struct node *of)
{
	struct node *n, *not;
	bool negated;

	advance(p);
	negated = skip_name(p, "not");
	if (p->at->type != T_NAME)
		return jx_unexpected(p);
	n = jx_node_new(p, N_TEST, p->at->line);
	if (n == NULL)
		return NULL;
	n->a = of;
	n->name = p->at->text;
	n->id = jx_test_id(n->name);
	advance(p);
	if (p->at->type == T_LPAREN) {
		if (parse_arguments(p, n) != 0)
			return NULL;
	} else if (starts_operand(p->at)) {
		if (is_name(p->at, "is"))
			return jx_unexpected(p);
		n->kids = jx_parse_postfix(p, jx_parse_primary(p, false));
		if (n->kids == NULL)
			return NULL;
	}
	n = jx_node_done(p, n);
	if (n == NULL || !negated)
		return n;
	not = jx_node_new(p, N_NOT, n->line);
	if (not == NULL)
		return NULL;
	not->a = n;
	return jx_node_done(p, not);
}

struct node *jx_parse_filter_expr(struct parser *p, struct node *n)
{
	while (n != NULL) {
		if (p->at->type == T_PIPE)
			n = jx_parse_filters(p, n, false);
		else if (is_name(p->at, "is"))
			n = parse_test(p, n);
		else if (p->at->type == T_LPAREN)
			n = parse_call(p, n);
		else
			break;
	}
	return n;
}
