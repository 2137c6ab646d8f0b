/* Parse statements. Unsupported tags are rejected by name: extends, include, import, block (a chat
 * template is a single file), autoescape, do, trans. */
#include "agent/jinja/parse_in.h"
#include "agent/jinja/run_in.h"

static int parse_body(struct parser *p, const char *const *ends, struct node **out);

static int statements_until(struct parser *p, const char *const *ends, struct node **out)
{
	skip(p, T_COLON);
	if (jx_expect(p, T_BLOCK_END) != 0)
		return -1;
	return parse_body(p, ends, out);
}

/* Parse statements up to the tag <end>, and consume its name. */
static int statements_to(struct parser *p, const char *end, struct node **out)
{
	const char *const ends[] = { end, NULL };

	if (statements_until(p, ends, out) != 0)
		return -1;
	advance(p);
	return 0;
}

static struct node *parse_set(struct parser *p)
{
	struct node *n = jx_node_new(p, N_SET, p->at->line), *held;

	if (n == NULL)
		return NULL;
	advance(p);
	n->a = jx_parse_target(p, true, NULL);
	if (n->a == NULL)
		return NULL;
	if (skip(p, T_ASSIGN)) {
		n->b = jx_parse_tuple(p, true, NULL);
		return n->b == NULL ? NULL : jx_node_done(p, n);
	}
	n->type = N_SETBLOCK;
	if (p->at->type == T_PIPE) {
		held = jx_node_new(p, N_HELD, p->at->line);
		n->b = held == NULL ? NULL : jx_parse_filters(p, held, false);
		if (n->b == NULL)
			return NULL;
	}
	return statements_to(p, "endset", &n->kids) == 0 ? jx_node_done(p, n) : NULL;
}

static struct node *copy_target(struct parser *p, const struct node *from)
{
	struct node *n = jx_node_new(p, from->type, from->line), *k;
	const struct node *f;
	struct kids kids;

	if (n == NULL)
		return NULL;
	*n = *from;
	n->next = NULL;
	kids_init(&kids);
	for (f = from->kids; f != NULL; f = f->next) {
		k = copy_target(p, f);
		if (k == NULL)
			return NULL;
		kids_add(&kids, k);
	}
	n->kids = kids.first;
	return n;
}

/* Parse the filter of a loop. It has a scope and therefore a copy of the target of its own. */
static struct node *parse_loop_filter(struct parser *p, const struct node *target)
{
	struct node *n = jx_node_new(p, N_OPERAND, p->at->line);

	if (n == NULL || (n->a = jx_parse_expression(p, true)) == NULL ||
	    (n->b = copy_target(p, target)) == NULL)
		return NULL;
	return jx_node_done(p, n);
}

static struct node *parse_for(struct parser *p)
{
	static const char *const ends[] = { "endfor", "else", NULL };
	struct node *n = jx_node_new(p, N_FOR, p->at->line);

	if (n == NULL)
		return NULL;
	advance(p);
	n->a = jx_parse_target(p, false, "in");
	if (n->a == NULL)
		return NULL;
	if (!skip_name(p, "in"))
		return jx_unexpected(p);
	n->b = jx_parse_tuple(p, false, "recursive");
	if (n->b == NULL)
		return NULL;
	if (skip_name(p, "if") && (n->c = parse_loop_filter(p, n->a)) == NULL)
		return NULL;
	if (is_name(p->at, "recursive")) {
		jx_syntax_error(p->e, n->line, "recursive loops are not known here");
		return NULL;
	}
	p->loops++;
	if (statements_until(p, ends, &n->kids) != 0)
		return NULL;
	p->loops--;
	if (is_name(p->at, "else")) {
		advance(p);
		if (statements_to(p, "endfor", &n->alt) != 0)
			return NULL;
	} else {
		advance(p);
	}
	return jx_node_done(p, n);
}

static int parse_branch(struct parser *p, struct node *n)
{
	static const char *const ends[] = { "elif", "else", "endif", NULL };

	n->a = jx_parse_tuple(p, false, NULL);
	return n->a == NULL ? -1 : statements_until(p, ends, &n->kids);
}

static struct node *parse_if(struct parser *p)
{
	struct node *n = jx_node_new(p, N_IF, p->at->line), *elif;
	struct kids elifs;

	if (n == NULL)
		return NULL;
	kids_init(&elifs);
	advance(p);
	if (parse_branch(p, n) != 0)
		return NULL;
	while (skip_name(p, "elif")) {
		elif = jx_node_new(p, N_IF, p->at->line);
		if (elif == NULL || parse_branch(p, elif) != 0 || jx_node_done(p, elif) == NULL)
			return NULL;
		kids_add(&elifs, elif);
	}
	n->b = elifs.first;
	if (skip_name(p, "else"))
		return statements_to(p, "endif", &n->alt) == 0 ? jx_node_done(p, n) : NULL;
	advance(p);
	return jx_node_done(p, n);
}

/* Parse (a, b=1), the parameters of a macro or a call block. */
static int parse_signature(struct parser *p, struct function *fn)
{
	struct kids params, defaults;
	struct node *n;

	kids_init(&params);
	kids_init(&defaults);
	if (jx_expect(p, T_LPAREN) != 0)
		return -1;
	while (p->at->type != T_RPAREN) {
		if (params.first != NULL && jx_expect(p, T_COMMA) != 0)
			return -1;
		n = p->at->type == T_NAME ? jx_node_new(p, N_NAME, p->at->line) : jx_unexpected(p);
		if (n == NULL)
			return -1;
		n->name = p->at->text;
		advance(p);
		kids_add(&params, n);
		fn->n_params++;
		if (skip(p, T_ASSIGN)) {
			n = jx_parse_expression(p, true);
			if (n == NULL)
				return -1;
			kids_add(&defaults, n);
			fn->n_defaults++;
		} else if (fn->n_defaults > 0) {
			return jx_syntax_error(
				p->e, p->at->line,
				"a parameter without a default is behind one that has one");
		}
	}
	advance(p);
	fn->params = params.first;
	fn->defaults = defaults.first;
	return 0;
}

static struct function *function_new(struct parser *p, struct span name)
{
	struct function *fn = jinja_mem_take(p->m, sizeof(*fn));

	if (fn == NULL) {
		jx_no_memory(p->e);
		return NULL;
	}
	memset(fn, 0, sizeof(*fn));
	fn->name = name;
	fn->caller = fn->kwargs = fn->varargs = -1;
	return fn;
}

static struct node *function_body(struct parser *p, struct node *n, const char *end)
{
	unsigned loops = p->loops;
	const struct node *k;

	p->loops = 0;
	if (statements_to(p, end, &n->kids) != 0)
		return NULL;
	p->loops = loops;
	n->fn->body = n->kids;
	for (k = n->fn->defaults; k != NULL; k = k->next)
		if (k->depth >= n->depth)
			n->depth = (uint16_t)(k->depth + 1);
	return jx_node_done(p, n);
}

static struct node *parse_macro(struct parser *p)
{
	struct node *n = jx_node_new(p, N_MACRO, p->at->line);

	if (n == NULL)
		return NULL;
	advance(p);
	if (p->at->type != T_NAME)
		return jx_unexpected(p);
	n->name = p->at->text;
	n->fn = function_new(p, n->name);
	advance(p);
	if (n->fn == NULL || parse_signature(p, n->fn) != 0)
		return NULL;
	return function_body(p, n, "endmacro");
}

static struct node *parse_call_block(struct parser *p)
{
	struct node *n = jx_node_new(p, N_CALLBLOCK, p->at->line);

	if (n == NULL)
		return NULL;
	advance(p);
	n->fn = function_new(p, SPAN("caller"));
	if (n->fn == NULL || (p->at->type == T_LPAREN && parse_signature(p, n->fn) != 0))
		return NULL;
	n->a = jx_parse_expression(p, true);
	if (n->a == NULL)
		return NULL;
	if (n->a->type != N_CALL) {
		jx_syntax_error(p->e, n->line, "a call block needs a call");
		return NULL;
	}
	return function_body(p, n, "endcall");
}

static struct node *parse_generation(struct parser *p)
{
	struct node *n = jx_node_new(p, N_GENERATION, p->at->line);

	if (n == NULL)
		return NULL;
	advance(p);
	n->fn = function_new(p, SPAN("caller"));
	return n->fn == NULL ? NULL : function_body(p, n, "endgeneration");
}

static struct node *parse_filter_block(struct parser *p)
{
	struct node *n = jx_node_new(p, N_FILTERBLOCK, p->at->line), *held;

	if (n == NULL)
		return NULL;
	advance(p);
	held = jx_node_new(p, N_HELD, n->line);
	n->b = held == NULL ? NULL : jx_parse_filters(p, held, true);
	if (n->b == NULL)
		return NULL;
	return statements_to(p, "endfilter", &n->kids) == 0 ? jx_node_done(p, n) : NULL;
}

static struct node *parse_with(struct parser *p)
{
	struct node *n = jx_node_new(p, N_WITH, p->at->line), *part;
	struct kids targets, values;

	if (n == NULL)
		return NULL;
	advance(p);
	kids_init(&targets);
	kids_init(&values);
	while (p->at->type != T_BLOCK_END) {
		if (targets.first != NULL && jx_expect(p, T_COMMA) != 0)
			return NULL;
		if (p->at->type != T_NAME || p->at[1].type != T_ASSIGN)
			return jx_unexpected(p);
		part = jx_parse_target(p, false, NULL);
		if (part == NULL || jx_expect(p, T_ASSIGN) != 0)
			return NULL;
		kids_add(&targets, part);
		part = jx_parse_expression(p, true);
		if (part == NULL)
			return NULL;
		kids_add(&values, part);
	}
	n->alt = targets.first;
	n->b = values.first;
	return statements_to(p, "endwith", &n->kids) == 0 ? jx_node_done(p, n) : NULL;
}

static struct node *parse_jump(struct parser *p)
{
	struct node *n = jx_node_new(p, is_name(p->at, "break") ? N_BREAK : N_CONTINUE, p->at->line);

	if (n != NULL && p->loops == 0) {
		jx_syntax_error(p->e, n->line, "break and continue need a loop around them");
		return NULL;
	}
	advance(p);
	return n;
}

static struct node *parse_print(struct parser *p)
{
	struct node *n = jx_node_new(p, N_OUTPUT, p->at->line), *part;
	struct kids kids;

	if (n == NULL)
		return NULL;
	advance(p);
	kids_init(&kids);
	while (p->at->type != T_BLOCK_END) {
		if (kids.first != NULL && jx_expect(p, T_COMMA) != 0)
			return NULL;
		part = jx_parse_expression(p, true);
		if (part == NULL)
			return NULL;
		kids_add(&kids, part);
	}
	n->kids = kids.first;
	return jx_node_done(p, n);
}

static const struct {
	const char *name;
	struct node *(*parse)(struct parser *p);
} statements[] = {
	{ "if", parse_if },           { "for", parse_for },
	{ "set", parse_set },         { "macro", parse_macro },
	{ "call", parse_call_block }, { "filter", parse_filter_block },
	{ "with", parse_with },       { "break", parse_jump },
	{ "continue", parse_jump },   { "generation", parse_generation },
	{ "print", parse_print },
};

static struct node *parse_statement(struct parser *p)
{
	struct node *n;
	size_t i;

	if (p->at->type != T_NAME)
		return jx_unexpected(p);
	for (i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
		if (!is_name(p->at, statements[i].name))
			continue;
		if (++p->depth > AST_DEPTH * 2) {
			jx_syntax_error(p->e, p->at->line, "this is nested more than %d deep", AST_DEPTH);
			return NULL;
		}
		n = statements[i].parse(p);
		p->depth--;
		return n;
	}
	jx_syntax_error(p->e, p->at->line, "the statement '" SPAN_FMT "' is not known here",
		     p->at->text.n < 60 ? (int)p->at->text.n : 60, p->at->text.p);
	return NULL;
}

static struct node *parse_data(struct parser *p)
{
	struct node *n = jx_node_new(p, N_CONST, p->at->line);

	if (n == NULL)
		return NULL;
	n->value = jval_str(p->at->text.p, p->at->text.n);
	n->value.flags = JV_CONST;
	if (jval_ascii(n->value))
		n->value.flags |= JV_ASCII;
	advance(p);
	return n;
}

static struct node *parse_variable(struct parser *p)
{
	struct node *n;

	advance(p);
	n = jx_parse_tuple(p, true, NULL);
	return n == NULL || jx_expect(p, T_VARIABLE_END) != 0 ? NULL : n;
}

static bool ends_here(const struct parser *p, const char *const *ends)
{
	for (; ends != NULL && *ends != NULL; ends++)
		if (is_name(p->at, *ends))
			return true;
	return false;
}

/* Parse up to a tag that starts with one of <ends>, which is then current, or to the end of the
 * template if <ends> is NULL. */
static int parse_body(struct parser *p, const char *const *ends, struct node **out)
{
	struct node *n, *output;
	struct kids body;

	kids_init(&body);
	while (p->at->type != T_EOF) {
		if (skip(p, T_BLOCK_BEGIN)) {
			if (ends_here(p, ends)) {
				*out = body.first;
				return 0;
			}
			n = parse_statement(p);
			if (n == NULL || jx_expect(p, T_BLOCK_END) != 0)
				return -1;
			kids_add(&body, n);
			continue;
		}
		n = p->at->type == T_DATA ? parse_data(p) : p->at->type == T_VARIABLE_BEGIN ? parse_variable(p) :
		     jx_unexpected(p);
		output = n == NULL ? NULL : jx_node_new(p, N_OUTPUT, n->line);
		if (output == NULL)
			return -1;
		output->kids = n;
		output = jx_node_done(p, output);
		if (output == NULL)
			return -1;
		kids_add(&body, output);
	}
	if (ends != NULL) {
		jx_unexpected(p);
		return -1;
	}
	*out = body.first;
	return 0;
}

int jx_parse(struct jinja_mem *m, const struct tokens *t, struct node **body, struct err *e)
{
	struct parser p = { .m = m, .at = t->v, .e = e };

	return parse_body(&p, NULL, body);
}
