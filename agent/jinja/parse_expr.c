/* Parse expressions by recursive descent, with the precedence of Jinja2 3.1:
 *
 *	if-else  or  and  not  compare, in  + -  ~  * / // %  **  unary  . [] ()  | is
 *
 * Its peculiarities are kept: "~" binds closer than "+", "**" is left-associative, a filter after a
 * sign applies to the signed value, "is" takes one operand without brackets. AST_DEPTH bounds the
 * nesting of the parser's calls and the depth of the tree, because a chain of "+" is a deep tree
 * without nested calls. */
#include "agent/jinja/parse_in.h"

static struct node *binary(struct parser *p, enum node_type type, enum op op, struct node *a,
			   struct node *b, uint32_t line)
{
	struct node *n = b == NULL ? NULL : jx_node_new(p, type, line);

	if (n == NULL)
		return NULL;
	n->op = (uint8_t)op;
	n->a = a;
	n->b = b;
	return jx_node_done(p, n);
}

static struct node *parse_unary(struct parser *p, bool with_filter);

/* ---- operators --------------------------------------------------------------------------- */

static struct node *signed_unary(struct parser *p, enum node_type type)
{
	struct node *n = jx_node_new(p, type, p->at->line);

	if (n == NULL)
		return NULL;
	advance(p);
	n->a = parse_unary(p, false);
	return n->a == NULL ? NULL : jx_node_done(p, n);
}

static struct node *parse_unary(struct parser *p, bool with_filter)
{
	struct node *n;

	if (++p->depth > AST_DEPTH * 2) {
		jx_syntax_error(p->e, p->at->line, "this is nested more than %d deep", AST_DEPTH);
		return NULL;
	}
	if (p->at->type == T_SUB)
		n = signed_unary(p, N_NEG);
	else if (p->at->type == T_ADD)
		n = signed_unary(p, N_POS);
	else
		n = jx_parse_primary(p, false);
	n = jx_parse_postfix(p, n);
	if (with_filter)
		n = jx_parse_filter_expr(p, n);
	p->depth--;
	return n;
}

static struct node *parse_pow(struct parser *p)
{
	struct node *n = parse_unary(p, true);
	uint32_t line;

	while (n != NULL && p->at->type == T_POW) {
		line = p->at->line;
		advance(p);
		n = binary(p, N_BINARY, OP_POW, n, parse_unary(p, true), line);
	}
	return n;
}

static struct node *parse_math2(struct parser *p)
{
	static const uint8_t ops[] = {
		[T_MUL] = OP_MUL, [T_DIV] = OP_DIV, [T_FLOORDIV] = OP_FLOORDIV, [T_MOD] = OP_MOD
	};
	struct node *n = parse_pow(p);
	uint32_t line;
	uint8_t t;

	while (n != NULL && p->at->type >= T_MUL && p->at->type <= T_MOD) {
		t = p->at->type;
		line = p->at->line;
		advance(p);
		n = binary(p, N_BINARY, ops[t], n, parse_pow(p), line);
	}
	return n;
}

static struct node *parse_concat(struct parser *p)
{
	struct node *first = parse_math2(p), *n;
	struct kids kids;

	if (first == NULL || p->at->type != T_TILDE)
		return first;
	n = jx_node_new(p, N_CONCAT, p->at->line);
	if (n == NULL)
		return NULL;
	kids_init(&kids);
	kids_add(&kids, first);
	while (skip(p, T_TILDE)) {
		first = parse_math2(p);
		if (first == NULL)
			return NULL;
		kids_add(&kids, first);
	}
	n->kids = kids.first;
	return jx_node_done(p, n);
}

static struct node *parse_math1(struct parser *p)
{
	struct node *n = parse_concat(p);
	enum op op;
	uint32_t line;

	while (n != NULL && (p->at->type == T_ADD || p->at->type == T_SUB)) {
		op = p->at->type == T_ADD ? OP_ADD : OP_SUB;
		line = p->at->line;
		advance(p);
		n = binary(p, N_BINARY, op, n, parse_concat(p), line);
	}
	return n;
}

/* Consume a comparison operator, if the current token is one. */
static bool compare_op(struct parser *p, uint8_t *op)
{
	static const uint8_t ops[] = { [T_EQ] = OP_EQ, [T_NE] = OP_NE, [T_GT] = OP_GT,
				       [T_GE] = OP_GE, [T_LT] = OP_LT, [T_LE] = OP_LE };

	if (p->at->type >= T_EQ && p->at->type <= T_LE) {
		*op = ops[p->at->type];
	} else if (is_name(p->at, "in")) {
		*op = OP_IN;
	} else if (is_name(p->at, "not") && is_name(p->at + 1, "in")) {
		*op = OP_NOT_IN;
		advance(p);
	} else {
		return false;
	}
	advance(p);
	return true;
}

static struct node *parse_compare(struct parser *p)
{
	struct node *first = parse_math1(p), *n, *operand;
	uint32_t line = p->at->line;
	struct kids kids;
	uint8_t op;

	kids_init(&kids);
	while (first != NULL && compare_op(p, &op)) {
		operand = jx_node_new(p, N_OPERAND, line);
		if (operand == NULL || (operand->a = parse_math1(p)) == NULL)
			return NULL;
		operand->op = op;
		if (jx_node_done(p, operand) == NULL)
			return NULL;
		kids_add(&kids, operand);
	}
	if (first == NULL || kids.first == NULL)
		return first;
	n = jx_node_new(p, N_COMPARE, line);
	if (n == NULL)
		return NULL;
	n->a = first;
	n->kids = kids.first;
	return jx_node_done(p, n);
}

static struct node *parse_not(struct parser *p)
{
	struct node *n;

	if (!is_name(p->at, "not"))
		return parse_compare(p);
	n = jx_node_new(p, N_NOT, p->at->line);
	if (n == NULL)
		return NULL;
	advance(p);
	if (++p->depth > AST_DEPTH * 2) {
		jx_syntax_error(p->e, n->line, "this is nested more than %d deep", AST_DEPTH);
		return NULL;
	}
	n->a = parse_not(p);
	p->depth--;
	return n->a == NULL ? NULL : jx_node_done(p, n);
}

static struct node *parse_and(struct parser *p)
{
	struct node *n = parse_not(p);
	uint32_t line = p->at->line;

	while (n != NULL && skip_name(p, "and"))
		n = binary(p, N_AND, 0, n, parse_not(p), line);
	return n;
}

static struct node *parse_or(struct parser *p)
{
	struct node *n = parse_and(p);
	uint32_t line = p->at->line;

	while (n != NULL && skip_name(p, "or"))
		n = binary(p, N_OR, 0, n, parse_and(p), line);
	return n;
}

static struct node *parse_cond(struct parser *p)
{
	struct node *then = parse_or(p), *n;

	while (then != NULL && is_name(p->at, "if")) {
		n = jx_node_new(p, N_COND, p->at->line);
		if (n == NULL)
			return NULL;
		advance(p);
		n->b = then;
		n->a = parse_or(p);
		if (n->a == NULL)
			return NULL;
		if (skip_name(p, "else") && (n->c = jx_parse_expression(p, true)) == NULL)
			return NULL;
		then = jx_node_done(p, n);
	}
	return then;
}

struct node *jx_parse_expression(struct parser *p, bool with_cond)
{
	struct node *n;

	if (++p->depth > AST_DEPTH * 2) {
		jx_syntax_error(p->e, p->at->line, "this is nested more than %d deep", AST_DEPTH);
		return NULL;
	}
	n = with_cond ? parse_cond(p) : parse_or(p);
	p->depth--;
	return n;
}

/* ---- tuples and targets ------------------------------------------------------------------ */

static bool tuple_ends(const struct parser *p, const char *end)
{
	return p->at->type == T_VARIABLE_END || p->at->type == T_BLOCK_END || p->at->type == T_RPAREN ||
		(end != NULL && is_name(p->at, end));
}

enum part { PART_EXPRESSION, PART_NO_COND, PART_TARGET, PART_NS_TARGET };

static struct node *parse_list_of(struct parser *p, enum part part, const char *end)
{
	struct node *n, *item;
	uint32_t line = p->at->line;
	struct kids kids;
	bool tuple = false;

	kids_init(&kids);
	while (!tuple_ends(p, end)) {
		item = part == PART_EXPRESSION || part == PART_NO_COND ?
			       jx_parse_expression(p, part == PART_EXPRESSION) :
			       jx_parse_primary(p, part == PART_NS_TARGET);
		if (item == NULL)
			return NULL;
		kids_add(&kids, item);
		if (!skip(p, T_COMMA))
			break;
		tuple = true;
	}
	if (kids.first == NULL)
		return jx_unexpected(p);
	if (!tuple)
		return kids.first;
	n = jx_node_new(p, N_TUPLE, line);
	if (n == NULL)
		return NULL;
	n->kids = kids.first;
	return jx_node_done(p, n);
}

struct node *jx_parse_tuple(struct parser *p, bool with_cond, const char *end)
{
	return parse_list_of(p, with_cond ? PART_EXPRESSION : PART_NO_COND, end);
}

static bool can_assign(const struct node *n)
{
	const struct node *k;

	if (n->type != N_TUPLE)
		return n->type == N_NAME || n->type == N_NSREF;
	for (k = n->kids; k != NULL; k = k->next)
		if (!can_assign(k))
			return false;
	return true;
}

struct node *jx_parse_target(struct parser *p, bool with_ns, const char *end)
{
	struct node *n = parse_list_of(p, with_ns ? PART_NS_TARGET : PART_TARGET, end);

	if (n != NULL && !can_assign(n)) {
		jx_syntax_error(p->e, n->line, "this cannot be assigned to");
		return NULL;
	}
	return n;
}
