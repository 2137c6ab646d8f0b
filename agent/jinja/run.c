/* Failure, budgets and printing.
 *
 * Output goes directly to the sink, constants of the template without a copy. Only the text of a
 * block or a macro is collected in the arena. The line of an error is that of the last statement
 * or expression executed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/jinja/run_in.h"

struct jinja_limits jinja_limits_defaults(void)
{
	return (struct jinja_limits){ .steps = 4000000, .output = 16u << 20, .depth = 1000 };
}

const char *jinja_result_name(enum jinja_result res)
{
	static const char *const names[] = { "ok", "raised", "unknown", "limit", "no-memory", "stopped",
					     "missed" };

	return names[res];
}

__attribute__((format(printf, 3, 0)))
static bool fail(struct run *r, enum jinja_result code, const char *fmt, va_list ap)
{
	if (r->code != JINJA_OK)
		return false;
	r->code = code;
	r->why.line = r->line;
	vsnprintf(r->why.text, sizeof(r->why.text), fmt, ap);
	return false;
}

bool jx_raise(struct run *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(r, JINJA_RAISED, fmt, ap);
	va_end(ap);
	return false;
}

bool jx_unknown(struct run *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(r, JINJA_UNKNOWN, fmt, ap);
	va_end(ap);
	return false;
}

__attribute__((format(printf, 3, 4)))
static bool fail_as(struct run *r, enum jinja_result code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(r, code, fmt, ap);
	va_end(ap);
	return false;
}

bool jx_over(struct run *r, const char *what)
{
	return fail_as(r, JINJA_LIMIT, "more %s than allowed", what);
}

static const char *object_name(unsigned kind, char out[64])
{
	if (kind == JV_NONE)
		return "None";
	if (kind == JV_NS)
		return "jinja2.utils.Namespace object";
	if (kind == JV_MACRO)
		return "jinja2.runtime.Macro object";
	if (kind == JV_LOOP)
		return "jinja2.runtime.LoopContext object";
	snprintf(out, 64, "%s object", jval_type(kind));
	return out;
}

bool jx_use_undefined(struct run *r, struct jval v)
{
	struct text key = { 0 };
	char of[64];

	switch (v.flags) {
	case UNDEF_NAME:
		return jx_raise(r, "UndefinedError: '" SPAN_FMT "' is undefined", SPAN_ARG(jval_span(v)));
	case UNDEF_ATTR:
		return jx_raise(r, "UndefinedError: '%s' has no attribute '" SPAN_FMT "'", object_name(v.aux, of),
		     SPAN_ARG(jval_span(v)));
	case UNDEF_UNSAFE:
		return jx_raise(r, "SecurityError: access to attribute '" SPAN_FMT "' of '%s' object is unsafe.",
			     SPAN_ARG(jval_span(v)), jval_type(v.aux));
	case UNDEF_HINT:
		return jx_raise(r, "UndefinedError: " SPAN_FMT, SPAN_ARG(jval_span(v)));
	}
	if (!jx_add_repr(r, &key, *v.v))
		return false;
	return jx_raise(r, "UndefinedError: %s has no element " SPAN_FMT, object_name(v.aux, of),
			(int)key.n, key.p);
}

bool jx_no_room(struct run *r)
{
	if (jinja_mem_full(r->m))
		return jx_over(r, "memory");
	return fail_as(r, JINJA_NO_MEMORY, "there is no memory");
}

void *jx_take(struct run *r, size_t n)
{
	void *p = jinja_mem_take(r->m, n);

	if (p == NULL)
		jx_no_room(r);
	return p;
}

bool jx_step_bytes(struct run *r, size_t n)
{
	r->steps += n / STEP_BYTES;
	return step(r);
}

bool jx_step_chars(struct run *r, size_t n)
{
	r->steps += n / STEP_CHARS;
	return step(r);
}

/* Tell if a pair of adjacent bytes occurs twice in <s>. */
static bool has_pair_twice(struct jval s)
{
	uint64_t seen[4] = { 0 };

	for (uint32_t i = 0; i + 1 < s.n; i++) {
		uint8_t h = (uint8_t)((uint8_t)s.s[i] * 31u + (uint8_t)s.s[i + 1]);

		for (uint32_t k = 0; seen[h / 64] >> h % 64 & 1 && k < i; k++)
			if (memcmp(s.s + k, s.s + i, 2) == 0)
				return true;
		seen[h / 64] |= 1ull << h % 64;
	}
	return false;
}

/* Charge a search. The worst cost of memmem() depends on <what>: each step advances by the distance
 * of the pair of bytes at its place from the end of <what>. In a text of one letter that is one
 * byte, and each step compares 256: 3 ns a byte. If no pair occurs twice, as in "</think>", at most
 * 1.5 ns; two bytes cost 0.5 ns, one byte as much as a copy. */
bool jx_step_search(struct run *r, size_t n, struct jval what)
{
	if (what.n <= 1)
		return jx_step_bytes(r, n);
	r->steps += what.n == 2 ? n / 16 : what.n <= 32 && !has_pair_twice(what) ? n / 8 : n / 3;
	return step(r);
}

bool jx_deeper(struct run *r)
{
	return ++r->depth <= r->limit.depth || jx_over(r, "nesting");
}

/* ---- text -------------------------------------------------------------------------------- */

static bool text_room(struct run *r, struct text *t, size_t n)
{
	size_t room = t->room ? t->room * 2 : 64;
	char *p;

	if (n <= t->room - t->n)
		return true;
	if (room < t->n + n)
		room = t->n + n + 64;
	p = jinja_mem_grow(r->m, t->p, t->n, room);
	if (p == NULL)
		return jx_no_room(r);
	t->p = p;
	t->room = (room + 15) & ~(size_t)15;
	return true;
}

bool jx_text_add(struct run *r, struct text *t, const char *p, size_t n)
{
	if (n == 0)
		return true;
	if (!text_room(r, t, n))
		return false;
	memcpy(t->p + t->n, p, n);
	t->n += n;
	return true;
}

bool jx_text_char(struct run *r, struct text *t, char c)
{
	return jx_text_add(r, t, &c, 1);
}

struct jval jx_text_value(const struct text *t)
{
	return jval_str(t->n ? t->p : "", t->n);
}

bool jx_text_continue(struct run *r, struct text *t, struct jval v)
{
	*t = (struct text){ 0 };
	if (r->last.p == NULL || v.s != r->last.p || v.n != r->last.n)
		return jx_text_add(r, t, v.s, v.n);
	*t = r->last;
	r->last.p = NULL;	/* the caller may write into that room */
	return true;
}

struct jval jx_text_finish(struct run *r, const struct text *t)
{
	r->last = *t;
	return jx_text_value(t);
}

bool jx_print(struct run *r, const char *p, size_t n, enum jinja_origin origin)
{
	if (n == 0)
		return true;
	if (r->into != NULL)
		return jx_text_add(r, r->into, p, n);
	if (n > r->limit.output - r->printed)
		return jx_over(r, "output");
	r->printed += n;
	if (r->sink(r->arg, p, n, origin))
		return true;
	return fail_as(r, JINJA_STOPPED, "the text was not wanted");
}

bool jx_print_value(struct run *r, struct jval v)
{
	struct text t = { 0 };

	if (v.kind == JV_STR)
		return jx_print(r, v.s, v.n, v.flags & JV_CONST ? JINJA_CONST : JINJA_VALUE);
	if (is_undef(v))
		return true;
	return jx_add_str(r, &t, v) && jx_print(r, t.p, t.n, JINJA_VALUE);
}

bool jinja_buf_sink(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	struct buf *b = arg;

	buf_add(b, p, n);
	return !b->failed;
}

/* ---- rendering --------------------------------------------------------------------------- */

enum jinja_result jx_render(struct run *r, struct jinja_error *why)
{
	const struct jinja *t = r->t;

	r->rec = jx_take(r, sizeof(*r->rec) + t->n_slots * sizeof(r->rec->slot[0]));
	if (r->rec != NULL) {
		memset(r->rec, 0, sizeof(*r->rec) + t->n_slots * sizeof(r->rec->slot[0]));
		jx_enter(r, &t->scope);
		jx_exec_all(r, t->body);
	}
	if (why != NULL)
		*why = r->why;
	if (r->limit.took != NULL)
		*r->limit.took += r->steps;
	return r->code;
}

enum jinja_result jinja_render(const struct jinja *t, struct jinja_mem *m, const struct jdict *vars,
			       const struct jinja_time *now, const struct jinja_limits *limits,
			       jinja_sink *sink, void *arg, struct jinja_error *why)
{
	struct run r = {
		.t = t, .m = m, .vars = vars, .now = now, .limit = *limits, .sink = sink, .arg = arg
	};

	return jx_render(&r, why);
}

static const struct hash_key no_key;	/* compiling creates no dict that is hashed */

struct jinja *jinja_compile(struct span text, struct err *e)
{
	struct jinja *t = mem_alloc(sizeof(*t));
	struct tokens tokens;

	if (t == NULL || (t->mem = jinja_mem_new(1u << 28, &no_key)) == NULL) {
		jx_no_memory(e);
		goto fail;
	}
	if (text.n > JINJA_TEXT_MAX) {
		err_set(e, "the template has more than %u bytes", JINJA_TEXT_MAX);
		goto fail;
	}
	if (utf8_check(text, NULL, e) < 0)
		goto fail;
	if (jx_lex(t->mem, text, &tokens, e) != 0 || jx_parse(t->mem, &tokens, &t->body, e) != 0 ||
	    jx_scope_resolve(t, e) != 0)
		goto fail;
	t->bytes = sizeof(*t) + jinja_mem_used(t->mem);
	return t;
fail:
	jinja_free(t);
	return NULL;
}

void jinja_free(struct jinja *t)
{
	if (t == NULL)
		return;
	jinja_mem_free(t->mem);
	mem_free(t);
}

size_t jinja_bytes(const struct jinja *t)
{
	return t->bytes;
}
