/* parse_in.h - private to parse.c, parse_expr.c and parse_atom.c. */
#ifndef KVROUTE_JINJA_PARSE_IN_H
#define KVROUTE_JINJA_PARSE_IN_H

#include "agent/jinja/ast_in.h"

struct parser {
	struct jinja_mem *m;
	const struct token *at;		/* the current token; T_EOF stays current */
	unsigned depth;			/* nesting of the parser's calls */
	unsigned loops;			/* loops around the statement, within its macro */
	struct err *e;
};

/* A list of nodes; nodes are appended. */
struct kids {
	struct node *first, **last;
};

static inline void kids_init(struct kids *k)
{
	k->first = NULL;
	k->last = &k->first;
}

static inline void kids_add(struct kids *k, struct node *n)
{
	*k->last = n;
	k->last = &n->next;
}

static inline void advance(struct parser *p)
{
	if (p->at->type != T_EOF)
		p->at++;
}

static inline bool is_name(const struct token *t, const char *name)
{
	return t->type == T_NAME && span_eq(t->text, span_str(name));
}

static inline bool skip_name(struct parser *p, const char *name)
{
	if (!is_name(p->at, name))
		return false;
	advance(p);
	return true;
}

static inline bool skip(struct parser *p, enum token_type type)
{
	if (p->at->type != type)
		return false;
	advance(p);
	return true;
}

/* On failure, all functions below return NULL or -1 and fill p->e. */
struct node *jx_node_new(struct parser *p, enum node_type type, uint32_t line);
struct node *jx_node_done(struct parser *p, struct node *n);	/* compute its depth from its parts */
int jx_expect(struct parser *p, enum token_type type);
struct node *jx_unexpected(struct parser *p);

struct node *jx_parse_expression(struct parser *p, bool with_cond);
/* Parse a tuple without brackets, or one expression. <end>: a name that ends it, or NULL. */
struct node *jx_parse_tuple(struct parser *p, bool with_cond, const char *end);
/* Parse the target of an assignment. */
struct node *jx_parse_target(struct parser *p, bool with_ns, const char *end);
/* parse_atom.c */
struct node *jx_parse_primary(struct parser *p, bool with_ns);
struct node *jx_parse_postfix(struct parser *p, struct node *n);
struct node *jx_parse_filter_expr(struct parser *p, struct node *n);
struct node *jx_parse_filters(struct parser *p, struct node *n, bool inline_first);

#endif
