/* ast_in.h - private to agent/jinja: a compiled template, which is an immutable tree.
 *
 * Every variable is a slot in the record of a function call (the template itself, or a macro). A
 * node addresses it by the number of functions up and the slot number. Rendering therefore looks
 * up only the names of the caller's variables and of members. scope.c decides which names are one
 * variable, as Jinja2 3.1 does. */
#ifndef KVROUTE_JINJA_AST_IN_H
#define KVROUTE_JINJA_AST_IN_H

#include "agent/base/err.h"
#include "agent/jinja/value.h"

#define AST_DEPTH	150	/* nesting of a template's text */

enum node_type {
	/* statements */
	N_OUTPUT,	/* kids */
	N_IF,		/* a: test, kids: body, b: the elifs, each an N_IF without b and alt; alt: else */
	/* a: target, b: iterable, c: N_OPERAND of filter (a) and its target (b), or NULL; kids:
	 * body, alt: else */
	N_FOR,
	N_SET,		/* a: target, b: value */
	N_SETBLOCK,	/* a: target, b: innermost filter or NULL; kids: body */
	N_FILTERBLOCK,	/* b: innermost filter; kids */
	N_MACRO,	/* fn; up and slot: its name's variable */
	N_CALLBLOCK,	/* a: the call; fn: the caller */
	N_GENERATION,	/* fn */
	N_WITH,		/* alt: targets, b: values; kids */
	N_BREAK, N_CONTINUE,
	/* expressions */
	N_CONST,	/* value */
	N_NAME,		/* name, up, slot */
	N_NSREF,	/* name, up, slot; b: the member as N_CONST */
	N_TUPLE, N_LIST,
	N_DICT,		/* kids: key, value, key, value ... */
	N_BINARY,	/* op, a, b */
	N_CONCAT,	/* kids */
	N_COMPARE,	/* a; kids: N_OPERAND */
	N_OPERAND,	/* op, a */
	N_AND, N_OR, N_NOT, N_NEG, N_POS,
	N_COND,		/* a: test, b: then, c: else or NULL */
	N_GETATTR,	/* a, value: the name, id: of the method of this name */
	N_GETITEM,	/* a, b */
	N_SLICE,	/* of a: b to c step alt, each may be NULL */
	N_CALL,		/* a; kids: arguments */
	N_FILTER,	/* a (NULL: the text of the block), name, id; kids: arguments */
	N_TEST,		/* the same */
	N_KEYWORD,	/* an argument: name, a */
	N_STAR,		/* an argument: *a */
	N_STARSTAR,	/* **a */
	N_HELD		/* the text of a block, to which its filter is applied */
};

enum op {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOORDIV,
	OP_MOD,
	OP_POW,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_IN,
	OP_NOT_IN
};

/* The initial value of a variable when its scope is entered. */
enum load { LOAD_NONE, LOAD_PARAMETER, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEFINED };

struct scope_load {
	uint8_t load;		/* LOAD_RESOLVE: the caller's variable <name>; LOAD_ALIAS: that of an outer scope */
	uint16_t up;
	uint32_t slot, from;
	struct span name;
};

struct scope {
	struct scope_load *loads;
	uint32_t n;
};

/* A macro, or the body of a call block. */
struct function {
	struct span name;
	struct node *params;	/* N_NAME */
	struct node *defaults;	/* of the last parameters */
	uint32_t n_params, n_defaults, n_slots;
	uint32_t number;	/* in the template */
	int32_t caller, kwargs, varargs;	/* slots of the special parameters; -1: unused */
	bool explicit_caller;			/* a parameter is called "caller" */
	struct scope scope;
	struct node *body;
};

struct node {
	uint8_t type, op;
	bool soft;		/* in a branch: an unknown filter or test fails only if executed */
	bool loop_var;		/* N_FOR: the body uses <loop> */
	bool top;		/* N_FOR: in no other scope than the template's */
	bool prints;		/* N_FOR: over a variable, and its text depends on nothing else */
	/* the node around it does no more with its value than to go through it, count it, name it or
	 * take an item; <indexed>: the last of these */
	bool carried, indexed;
	/* the node around it takes a member of its value, assigns it, or asks if it is true */
	bool member;
	bool presence;		/* it asks if it is none, or defined */
	uint16_t depth, id;
	uint32_t line;
	uint16_t up;
	uint32_t slot;
	uint32_t number;	/* N_FOR: its place in the template */
	struct node *next;	/* next node of a list */
	struct node *a, *b, *c, *kids, *alt;
	union {
		struct span name;
		struct jval value;
	};
	struct scope *scope;	/* N_FOR: three, of body, else and filter; blocks: one */
	struct function *fn;
};

struct jinja {
	struct jinja_mem *mem;	/* owns everything, including the text */
	struct node *body;
	struct scope scope;
	uint32_t n_slots;
	uint32_t *root, n_root;		/* slots of the top level */
	size_t bytes;
};

/* ---- tokens ------------------------------------------------------------------------------ */

enum token_type {
	T_EOF,
	T_DATA,
	T_BLOCK_BEGIN,
	T_BLOCK_END,
	T_VARIABLE_BEGIN,
	T_VARIABLE_END,
	T_NAME,
	T_STRING,
	T_NUMBER,
	T_ADD,
	T_SUB,
	T_MUL,
	T_DIV,
	T_FLOORDIV,
	T_MOD,
	T_POW,
	T_TILDE,
	T_LBRACKET,
	T_RBRACKET,
	T_LPAREN,
	T_RPAREN,
	T_LBRACE,
	T_RBRACE,
	T_EQ,
	T_NE,
	T_GT,
	T_GE,
	T_LT,
	T_LE,
	T_ASSIGN,
	T_DOT,
	T_COLON,
	T_PIPE,
	T_COMMA,
	T_SEMICOLON
};

struct token {
	uint8_t type;
	uint32_t line;
	struct span text;	/* T_DATA, T_NAME, T_STRING (decoded); of others as written */
	struct jval number;
};

struct tokens {
	struct token *v;	/* the last one is T_EOF */
	size_t n, room;
};

/* Split <text> into tokens, allocated in <m>, and apply the white space control of trim_blocks and
 * lstrip_blocks. Returns 0, or -1 and fills <e>. */
int jx_lex(struct jinja_mem *m, struct span text, struct tokens *out, struct err *e);

/* Parse the tokens into a tree without slots. Returns 0, or -1 and fills <e>. */
int jx_parse(struct jinja_mem *m, const struct tokens *t, struct node **body, struct err *e);
/* gap.c: tell if the loop <n> is over a variable and prints a function of its items, as
 * {% for t in tools %}{{ t | tojson }}{% endfor %}. */
bool jx_only_prints(const struct node *n);
/* Assign slots to all variables. Returns 0, or -1 and fills <e>. */
int jx_scope_resolve(struct jinja *t, struct err *e);

int jx_syntax_error(struct err *e, uint32_t line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int jx_no_memory(struct err *e);

#endif
