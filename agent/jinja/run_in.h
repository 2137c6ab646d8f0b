/* run_in.h - private to agent/jinja: the state of one rendering, and functions shared by its files.
 *
 * A function that fails sets r->code and r->why and returns false; its caller returns false at
 * once. Nothing is undone, because the arena is released as a whole. */
#ifndef KVROUTE_JINJA_RUN_IN_H
#define KVROUTE_JINJA_RUN_IN_H

#include "agent/base/utf8.h"
#include "agent/jinja/ast_in.h"
#include "agent/jinja/jinja.h"
#include "agent/jinja/resume_in.h"

#define NAME_UNKNOWN	0	/* a filter or test that Jinja2 does not have */
#define NAME_REFUSED	0xffff	/* one that Jinja2 has and this module does not support */

/* The variables of one call of a function. */
struct record {
	struct record *up;	/* record of the enclosing function when the macro was defined */
	struct jval slot[];
};

struct macro {
	const struct function *fn;
	struct record *up;
};

struct jrange {
	int64_t start, stop, step;
	uint64_t n;
};

/* A text under construction. */
struct text {
	char *p;
	size_t n, room;
};

struct run {
	const struct jinja *t;
	struct jinja_mem *m;
	const struct jdict *vars;
	const struct jinja_time *now;
	struct jinja_limits limit;
	jinja_sink *sink;
	void *arg;
	struct text *into;	/* output goes here instead of to the sink, unless NULL */
	struct record *rec;
	uint64_t steps;
	size_t printed;
	unsigned depth;
	uint32_t line;
	struct jval held;	/* N_HELD */
	struct track track;
	struct text last;	/* last result of "+" or "~", which may be continued in place */
	enum jinja_result code;
	struct jinja_error why;
};

/* The arguments of a call. */
struct named {
	struct span name;
	struct jval v;
};

struct args {
	const struct jval *v;
	const struct named *kw;
	uint32_t n, n_kw;
};

/* Bytes per step: STEP_BYTES if copied or searched, STEP_CHARS if examined one by one. */
enum { STEP_BYTES = 64, STEP_CHARS = 4 };
/* Steps per item of a filter: STEPS_PATH for each part of an attribute's path, STEPS_CALL and
 * STEPS_NAME if a test or filter is found by name and called, STEPS_FIELD if a field is formatted.
 */
enum { STEPS_PATH = 3, STEPS_CALL = 2, STEPS_FIELD = 4, STEPS_NAME = 6 };

enum jinja_result jx_render(struct run *r, struct jinja_error *why);

/* ---- run.c: failure, steps, text --------------------------------------------------------- */

bool jx_raise(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool jx_unknown(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool jx_over(struct run *r, const char *what);
bool jx_use_undefined(struct run *r, struct jval v);	/* raise the error of an undefined value */
void *jx_take(struct run *r, size_t n);			/* allocate; on NULL r->code is set */
bool jx_no_room(struct run *r);				/* report that the arena is full; false */
bool jx_step_bytes(struct run *r, size_t n);
bool jx_step_chars(struct run *r, size_t n);
/* memmem() of <what> in <n> bytes */
bool jx_step_search(struct run *r, size_t n, struct jval what);
bool jx_deeper(struct run *r);				/* enter a level; leave it by r->depth-- */
bool jx_print(struct run *r, const char *p, size_t n, enum jinja_origin origin);
bool jx_print_value(struct run *r, struct jval v);		/* str(v) */
bool jx_text_add(struct run *r, struct text *t, const char *p, size_t n);
bool jx_text_char(struct run *r, struct text *t, char c);
struct jval jx_text_value(const struct text *t);
/* Prepare to append to string <v>. If <v> is the last result of an append, the next text is written
 * directly after it, where no value refers to; otherwise <v> is copied. A text that grows in a loop
 * is therefore not copied at each turn. */
bool jx_text_continue(struct run *r, struct text *t, struct jval v);
/* return it; it may be continued */
struct jval jx_text_finish(struct run *r, const struct text *t);

static inline bool step(struct run *r)
{
	return ++r->steps <= r->limit.steps || jx_over(r, "steps");
}

static inline bool is_undef(struct jval v)
{
	return v.kind == JV_UNDEF || v.kind == JV_MISSING;
}

static inline bool is_text(struct jval v)
{
	return v.kind == JV_STR;
}

static inline bool is_integer(struct jval v)
{
	return v.kind == JV_INT || v.kind == JV_BOOL;
}

static inline struct jval lit(const char *s)
{
	struct jval v = jval_str(s, strlen(s));

	v.flags = JV_ASCII;
	return v;
}

static inline struct jval undefined(enum jval_why why, const char *p, size_t n, unsigned of)
{
	return (struct jval){ .kind = JV_UNDEF,
			      .flags = (uint8_t)why,
			      .aux = (uint16_t)of,
			      .n = (uint32_t)n,
			      .s = p };
}

/* ---- value.c ----------------------------------------------------------------------------- */

void *jinja_mem_grow(struct jinja_mem *m, void *p, size_t n, size_t want);	/* keeps <n> bytes */

static inline uint64_t range_length(struct jval v)
{
	return ((const struct jrange *)v.p)->n;
}

/* ---- unicode.c --------------------------------------------------------------------------- */

/* length of the character at <p> */
unsigned jx_space_at(const char *p, const char *end);	/* length of white space at <p>, or 0 */
unsigned jx_space_before(const char *begin, const char *p);
bool jx_is_space_char(uint32_t c);
const char *jx_chars_on(const char *p, const char *end, size_t n);	/* skip <n> code points */
/* start of the character before <p> */
const char *jx_char_before(const char *begin, const char *p);
bool jx_char_prints(uint32_t c);						/* str.isprintable() */
enum letter_case { TO_LOWER, TO_UPPER, TO_TITLE };
/* Convert the case of one character. <out> has room for 3; returns their number. */
unsigned jx_char_case(uint32_t c, enum letter_case to, uint32_t out[3]);
bool jx_char_cased(uint32_t c);

/* ---- eval.c: expressions; exec.c: statements --------------------------------------------- */

bool jx_eval(struct run *r, const struct node *n, struct jval *out);
bool jx_eval_args(struct run *r, const struct node *kids, struct args *a);
bool jx_print_node(struct run *r, const struct node *n);

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED };
enum flow jx_exec_all(struct run *r, const struct node *n);
void jx_enter(struct run *r, const struct scope *s);

/* ---- call.c ------------------------------------------------------------------------------ */

bool jx_call(struct run *r, struct jval f, const struct args *a, struct jval *out);
/* Call a macro and print its text instead of collecting it. */
bool jx_call_print(struct run *r, struct jval f, const struct args *a);
bool jx_global_named(struct run *r, struct span name, struct jval *out);
/* Bind the arguments <a> to the parameters <names>: fill <v>[n]; absent ones are JV_MISSING. */
bool jx_bind(struct run *r, const char *what, const struct args *a, const char *const *names,
	     unsigned n, struct jval *v);

/* ---- attr.c: members --------------------------------------------------------------------- */

uint16_t jx_method_id(struct span name);
const char *jx_method_name(unsigned id);
/* Evaluate obj.name and obj[key]. <name> is a string. */
bool jx_get_attr(struct run *r, struct jval obj, struct jval name, unsigned id, struct jval *out);
bool jx_get_item(struct run *r, struct jval obj, struct jval key, struct jval *out);
bool jx_get_slice(struct run *r, struct jval obj, const struct jval part[3], struct jval *out);
/* Evaluate obj["a.b.0"], as for the argument attribute= of filters. */
bool jx_get_path(struct run *r, struct jval obj, struct jval path, struct jval *out);

/* ---- method.c, dict methods included ----------------------------------------------------- */

bool jx_call_method(struct run *r, struct jval self, unsigned id, const struct args *a,
		    struct jval *out);
bool jx_str_strip(struct run *r, struct jval s, struct jval chars, int sides, struct jval *out);
bool jx_str_replace(struct run *r, struct jval s, struct jval old, struct jval new, int64_t count,
		    struct jval *out);
bool jx_str_join(struct run *r, struct jval sep, const struct jval *v, size_t n, struct jval *out);
/* Change the case of the first character, or of the first one of each word. WORDS_CASED: as
 * str.title(); WORDS_SEPARATED: as the filter title. */
enum words { WORDS_ONE, WORDS_CASED, WORDS_SEPARATED };
bool jx_str_case(struct run *r, struct jval s, enum letter_case first, enum letter_case rest,
		 enum words words, struct jval *out);
bool jx_str_lines(struct run *r, struct jval s, bool keep_ends, struct jval *out);

/* ---- op.c -------------------------------------------------------------------------------- */

bool jx_binary_op(struct run *r, enum op op, struct jval a, struct jval b, struct jval *out);
/* ==, <, in ... */
bool jx_compare_values(struct run *r, enum op op, struct jval a, struct jval b, bool *out);
bool jx_equal(struct run *r, struct jval a, struct jval b, bool *is);	/* ==, one step per pair */
bool jx_negate(struct run *r, struct jval v, bool minus, struct jval *out);
bool jx_markup_escape(struct run *r, struct jval s, struct jval *out);

/* ---- iter.c ------------------------------------------------------------------------------ */

struct iter {
	struct jval of;
	uint64_t at;
	bool any;		/* JV_UNREAD may be returned: the caller only assigns it */
};

bool jx_iter_start(struct run *r, struct jval v, struct iter *it);
/* 1; 0 at the end; -1: failed */
int jx_iter_next(struct run *r, struct iter *it, struct jval *out);
bool jx_iterable(struct jval v);
bool jx_to_list(struct run *r, struct jval v, struct jval *out);
bool jx_length_of(struct run *r, struct jval v, uint64_t *n);
/* A list under construction. */
struct list {
	struct jval *v;
	size_t n, room;
};
bool jx_list_add(struct run *r, struct list *l, struct jval v);

struct gen;
bool jx_gen_new(struct run *r, int (*next)(struct run *, struct gen *, struct jval *),
		struct jval source, const struct args *a, unsigned flags, struct jval *out);
struct gen {
	int (*next)(struct run *r, struct gen *g, struct jval *out);
	struct jval source;
	struct iter it;
	struct args args;
	unsigned flags;
	bool started, done;
	struct list seen;
};

struct loop {
	struct iter it;
	struct jval source, before, now, after, changed;
	uint64_t index;		/* from 0 */
	bool has_after, has_changed;
	struct list rest;	/* items that loop.length had to take out of an iterator */
	size_t rest_at;
};
bool jx_loop_start(struct run *r, struct loop *l, struct jval source);
void jx_loop_skip(struct loop *l, uint64_t n);	/* pass over the first <n> items of a list */
int jx_loop_next(struct run *r, struct loop *l);
bool jx_loop_attr(struct run *r, struct loop *l, struct span name, struct jval *out, bool *found);

/* ---- filter.c, test.c -------------------------------------------------------------------- */

uint16_t jx_filter_id(struct span name);
uint16_t jx_test_id(struct span name);
bool jx_filter_call(struct run *r, unsigned id, struct span name, struct jval v,
		    const struct args *a, struct jval *out);
bool jx_test_call(struct run *r, unsigned id, struct span name, struct jval v, const struct args *a,
		  bool *out);

/* ---- repr.c, tojson.c, format.c, strftime.c ---------------------------------------------- */

bool jx_to_str(struct run *r, struct jval v, struct jval *out);		/* str(v) */
bool jx_add_str(struct run *r, struct text *t, struct jval v);
bool jx_add_repr(struct run *r, struct text *t, struct jval v);
size_t jx_float_repr(double f, char out[32]);
struct json_style {
	bool ascii, sort;
	int64_t indent;			/* -1: none */
	struct jval indent_text;	/* JV_STR: used instead of <indent> */
	struct jval comma, colon;
};
bool jx_to_json(struct run *r, struct jval v, const struct json_style *style, struct jval *out);
bool jx_format_percent(struct run *r, struct jval fmt, const struct args *a, struct jval *out);
bool jx_format_braces(struct run *r, struct jval fmt, const struct args *a, struct jval *out);
bool jx_parse_int(struct jval s, int64_t base, struct jval *out);	/* int("..."); false: invalid */
bool jx_parse_float(struct jval s, double *out);
bool jx_strftime_now(struct run *r, struct jval fmt, struct jval *out);

#endif
