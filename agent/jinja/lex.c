/* Split a template into tokens.
 *
 * Outside of tags, text is data up to the next "{%", "{{" or "{#"; inside, it is the tokens of
 * an expression. White space is handled here, as by Jinja2's lexer with trim_blocks and
 * lstrip_blocks: the line break after a block or a comment is removed, and so are the blanks
 * between the start of a line and a block or a comment. "-" removes all white space on its side,
 * "+" keeps it. An end tag counts only if all brackets are closed, so that "{{ {'a': {}} }}"
 * ends correctly.
 *
 * All tokens are created at once, because the parser looks two ahead and a template has some
 * kilobytes. O(n). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/num.h"
#include "agent/jinja/ast_in.h"
#include "agent/jinja/run_in.h"

#define BRACKETS_MAX	256

struct lexer {
	struct jinja_mem *m;
	struct tokens *out;
	struct err *e;
	const char *p, *end;
	uint32_t line;
	bool line_starting;
	char closing[BRACKETS_MAX];	/* for each open bracket the one that closes it */
	unsigned n_open;
};

int jx_syntax_error(struct err *e, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (e == NULL)
		return -1;
	e->line = (int)line;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return -1;
}

int jx_no_memory(struct err *e)
{
	return err_set(e, "there is no memory for the template");
}

/* ---- helpers ----------------------------------------------------------------------------- */

static uint32_t count_lines(const char *p, const char *end)
{
	uint32_t n = 0;

	for (; p < end; p++)
		n += *p == '\n';
	return n;
}

static const char *skip_space(const char *p, const char *end)
{
	unsigned n;

	while (p < end && (n = jx_space_at(p, end)) > 0)
		p += n;
	return p;
}

static const char *strip_end(const char *p, const char *end)
{
	unsigned n;

	while (end > p && (n = jx_space_before(p, end)) > 0)
		end -= n;
	return end;
}

static bool starts(const struct lexer *l, const char *lit)
{
	size_t n = strlen(lit);

	return (size_t)(l->end - l->p) >= n && memcmp(l->p, lit, n) == 0;
}

static int push(struct lexer *l, enum token_type type, const char *p, size_t n)
{
	struct tokens *t = l->out;
	size_t room = t->room ? t->room * 2 : 256;
	struct token *v;

	if (t->n == t->room) {
		v = jinja_mem_grow(l->m, t->v, t->n * sizeof(*v), room * sizeof(*v));
		if (v == NULL)
			return jx_no_memory(l->e);
		t->v = v;
		t->room = room;
	}
	t->v[t->n++] = (struct token){ .type = type, .line = l->line, .text = span_of(p, n) };
	return 0;
}

/* Normalize line breaks as Jinja2 does: "\r\n" and "\r" become "\n", and the last one is
 * removed. */
static bool normal_text(struct lexer *l, struct span text)
{
	char *copy = jinja_mem_take(l->m, text.n + 1), *o = copy;
	size_t i;

	if (copy == NULL)
		return false;
	for (i = 0; i < text.n; i++) {
		if (text.p[i] == '\r') {
			*o++ = '\n';
			if (i + 1 < text.n && text.p[i + 1] == '\n')
				i++;
		} else {
			*o++ = text.p[i];
		}
	}
	if (o > copy && o[-1] == '\n')
		o--;
	*o = '\0';
	l->p = copy;
	l->end = o;
	return true;
}

/* ---- outside of tags --------------------------------------------------------------------- */

static const char *next_tag(const char *p, const char *end)
{
	while (p < end && (p = memchr(p, '{', (size_t)(end - p))) != NULL) {
		if (end - p >= 2 && (p[1] == '%' || p[1] == '{' || p[1] == '#'))
			return p;
		p++;
	}
	return NULL;
}

/* Add the text from <p> to <tag> as data. <sign>: the character after the two brackets of the
 * tag. */
static int data_before(struct lexer *l, const char *p, const char *tag, char sign, bool variable)
{
	const char *end = tag, *line;

	if (sign == '-') {
		end = strip_end(p, tag);
	} else if (sign != '+' && !variable) {
		line = memrchr(p, '\n', (size_t)(tag - p));
		if (line != NULL || l->line_starting) {
			line = line != NULL ? line + 1 : p;
			if (skip_space(line, tag) == tag)
				end = line;
		}
	}
	if (end > p && push(l, T_DATA, p, (size_t)(end - p)) != 0)
		return -1;
	l->line += count_lines(p, tag);
	return 0;
}

/* Continue after an end tag, which starts at <from>. */
static void end_tag(struct lexer *l, const char *from, bool strip, bool trim)
{
	if (strip)
		l->p = skip_space(l->p, l->end);
	else if (trim && l->p < l->end && *l->p == '\n')
		l->p++;
	l->line += count_lines(from, l->p);
	l->line_starting = l->p[-1] == '\n';
}

static int comment(struct lexer *l)
{
	const char *from = l->p, *q = memmem(l->p, (size_t)(l->end - l->p), "#}", 2);
	char before;

	if (q == NULL)
		return jx_syntax_error(l->e, l->line, "the comment has no end");
	before = q > from ? q[-1] : '\0';
	l->p = q + 2;
	end_tag(l, from, before == '-', before != '+');
	return 0;
}

/* Tell if the tag at <p>, "{%", "{%-" or "{%+", holds only <word>; set <*behind> to the byte
 * after it. */
static bool is_word_tag(const char *p, const char *end, const char *word, char *last,
			const char **behind)
{
	size_t n = strlen(word);

	p += 2;
	if (p < end && (*p == '-' || *p == '+'))
		p++;
	p = skip_space(p, end);
	if ((size_t)(end - p) < n || memcmp(p, word, n) != 0)
		return false;
	p = skip_space(p + n, end);
	*last = '\0';
	if (p < end && (*p == '-' || *p == '+'))
		*last = *p++;
	if (end - p < 2 || p[0] != '%' || p[1] != '}')
		return false;
	*behind = p + 2;
	return true;
}

static int raw(struct lexer *l, const char *behind, char last)
{
	const char *from = l->p, *text, *tag, *after;
	char sign, ending;

	l->p = behind;
	end_tag(l, from, last == '-', false);
	text = l->p;
	for (tag = text; (tag = memmem(tag, (size_t)(l->end - tag), "{%", 2)) != NULL; tag++)
		if (is_word_tag(tag, l->end, "endraw", &ending, &after))
			break;
	if (tag == NULL)
		return jx_syntax_error(l->e, l->line, "the raw block has no end");
	sign = tag[2];
	if (data_before(l, text, tag, sign, false) != 0)
		return -1;
	l->p = after;
	end_tag(l, tag, ending == '-', ending != '+');
	return 0;
}

/* ---- inside of tags: strings and numbers ------------------------------------------------- */

/* Return the value of <n> hexadecimal digits at <p>, or -1. */
static int64_t hex_value(const char *p, const char *end, unsigned n)
{
	int64_t v = 0;
	unsigned i;
	int d;

	if ((size_t)(end - p) < n)
		return -1;
	for (i = 0; i < n; i++) {
		d = num_hex(p[i]);
		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

/* Decode a backslash before a character that is not ASCII. Python converts such characters to
 * escapes first, so the result is the character's number as text. */
static char *escaped_wide(const char **p, const char *end, char *o)
{
	uint32_t c;

	*p += utf8_get(*p, (size_t)(end - *p), &c);
	*o++ = '\\';
	o += sprintf(o, c < 0x100 ? "x%02x" : c < 0x10000 ? "u%04x" : "U%08x", c);
	return o;
}

static char *numbered(const char **p, const char *end, unsigned digits, char *o)
{
	int64_t c = hex_value(*p + 1, end, digits);

	if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return NULL;
	*p += 1 + digits;
	return o + utf8_put(o, (uint32_t)c);
}

/* Decode one escape; <*p> is after the backslash. Returns NULL if it is invalid. */
static char *unescape(const char **p, const char *end, char *o)
{
	static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
	const char *q = **p != '\0' ? strchr(from, **p) : NULL;
	unsigned c = 0, n;

	if (q != NULL) {
		*o++ = to[q - from];
		(*p)++;
		return o;
	}
	switch (**p) {
	case '\n':
		(*p)++;
		return o;
	case 'x':
		return numbered(p, end, 2, o);
	case 'u':
		return numbered(p, end, 4, o);
	case 'U':
		return numbered(p, end, 8, o);
	case 'N':
		return NULL;
	}
	if ((uint8_t)**p >= 0x80)
		return escaped_wide(p, end, o);
	if (**p < '0' || **p > '7') {
		*o++ = '\\';
		return o;
	}
	for (n = 0; n < 3 && *p < end && **p >= '0' && **p <= '7'; n++)
		c = c * 8 + (unsigned)(*(*p)++ - '0');
	return o + utf8_put(o, c);
}

static int string(struct lexer *l)
{
	const char *from = l->p, *p = l->p + 1, *q;
	char quote = *l->p, *copy, *o;

	for (q = p; q < l->end && *q != quote; q++)
		if (*q == '\\')
			q++;
	if (q >= l->end)
		return jx_syntax_error(l->e, l->line, "the string has no end");
	l->p = q + 1;
	if (memchr(p, '\\', (size_t)(q - p)) == NULL) {
		if (push(l, T_STRING, p, (size_t)(q - p)) != 0)
			return -1;
	} else {
		copy = jinja_mem_take(l->m, (size_t)(q - p) * 3 + 16);
		if (copy == NULL)
			return jx_no_memory(l->e);
		for (o = copy; p < q; ) {
			if (*p != '\\') {
				*o++ = *p++;
				continue;
			}
			p++;
			o = unescape(&p, q, o);
			if (o == NULL)
				return jx_syntax_error(l->e, l->line, "an escape in the string is not one that is known");
		}
		if (push(l, T_STRING, copy, (size_t)(o - copy)) != 0)
			return -1;
	}
	l->line += count_lines(from, l->p);
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *digits(const char *p, const char *end)
{
	while (p < end && (is_digit(*p) || (*p == '_' && p + 1 < end && is_digit(p[1]))))
		p++;
	return p;
}

/* Return the end of a float whose integer digits end at <p>, or NULL if it is an integer. */
static const char *float_end(const struct lexer *l, const char *p)
{
	const char *q = NULL, *x;

	if (p + 1 < l->end && *p == '.' && is_digit(p[1]))
		p = q = digits(p + 1, l->end);
	x = p;
	if (x < l->end && (*x | 0x20) == 'e') {
		x++;
		if (x < l->end && (*x == '+' || *x == '-'))
			x++;
		if (x < l->end && is_digit(*x))
			q = digits(x, l->end);
	}
	return q;
}

static struct jval based_integer(struct jinja_mem *m, const char *p, size_t n, unsigned base)
{
	int64_t v = 0;
	size_t i;
	int d;

	for (i = 0; i < n; i++) {
		d = num_hex(p[i]);
		if (d < 0 || (unsigned)d >= base || __builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, d, &v))
			return (struct jval){ .kind = JV_MISSING };
	}
	return n == 0 ? (struct jval){ .kind = JV_MISSING } : jval_int(v);
}

static unsigned base_of(const char *p, const char *end)
{
	if (end - p < 3 || *p != '0')
		return 10;
	switch (p[1] | 0x20) {
	case 'b':
		return 2;
	case 'o':
		return 8;
	case 'x':
		return 16;
	}
	return 10;
}

/* Read a number: copy its digits without '_', then convert them. */
static int number(struct lexer *l)
{
	const char *from = l->p, *p = digits(l->p, l->end), *fend;
	unsigned base = base_of(from, l->end);
	char text[64];
	size_t n = 0;
	bool after_dot = l->out->n > 0 && l->out->v[l->out->n - 1].type == T_DOT;

	fend = base == 10 && !after_dot ? float_end(l, p) : NULL;
	if (base != 10)
		for (p = from + 2; p < l->end && (num_hex(*p) >= 0 || *p == '_'); p++)
			;
	if (fend != NULL)
		p = fend;
	for (l->p = from; l->p < p; l->p++) {
		if (n == sizeof(text) - 1)
			return jx_syntax_error(l->e, l->line, "the number is too long");
		if (*l->p != '_')
			text[n++] = *l->p;
	}
	text[n] = '\0';
	if (push(l, T_NUMBER, from, (size_t)(p - from)) != 0)
		return -1;
	l->out->v[l->out->n - 1].number = fend != NULL ? jval_float(strtod(text, NULL)) :
		base != 10 ? based_integer(l->m, text + 2, n - 2, base) : based_integer(l->m, text, n, 10);
	if (l->out->v[l->out->n - 1].number.kind == JV_MISSING ||
	    (base == 10 && fend == NULL && n > 1 && text[0] == '0' && strspn(text, "0") != n))
		return jx_syntax_error(l->e, l->line, "the number %s is not one that is known", text);
	return 0;
}

/* ---- inside of tags: the rest ------------------------------------------------------------ */

static bool in_name(const char *p, const char *end)
{
	return p < end &&
	       ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || is_digit(*p));
}

static int name(struct lexer *l)
{
	const char *p = l->p;

	while (in_name(p, l->end))
		p++;
	if (p < l->end && (uint8_t)*p >= 0x80 && jx_space_at(p, l->end) == 0)
		return jx_syntax_error(l->e, l->line, "a name has letters that are not ASCII");
	if (push(l, T_NAME, l->p, (size_t)(p - l->p)) != 0)
		return -1;
	l->p = p;
	return 0;
}

static const struct {
	char text[3];
	uint8_t type;
} operators[] = {
	{ "//", T_FLOORDIV }, { "**", T_POW },      { "==", T_EQ },    { "!=", T_NE },
	{ ">=", T_GE },       { "<=", T_LE },       { "+", T_ADD },    { "-", T_SUB },
	{ "/", T_DIV },       { "*", T_MUL },       { "%", T_MOD },    { "~", T_TILDE },
	{ "[", T_LBRACKET },  { "]", T_RBRACKET },  { "(", T_LPAREN }, { ")", T_RPAREN },
	{ "{", T_LBRACE },    { "}", T_RBRACE },    { ">", T_GT },     { "<", T_LT },
	{ "=", T_ASSIGN },    { ".", T_DOT },       { ":", T_COLON },  { "|", T_PIPE },
	{ ",", T_COMMA },     { ";", T_SEMICOLON },
};

static int balance(struct lexer *l, char c)
{
	switch (c) {
	case '{': case '(': case '[':
		if (l->n_open == BRACKETS_MAX)
			return jx_syntax_error(l->e, l->line, "brackets are nested more than %d deep", BRACKETS_MAX);
		l->closing[l->n_open++] = c == '(' ? ')' : (char)(c + 2);
		return 0;
	case '}': case ')': case ']':
		if (l->n_open == 0 || l->closing[l->n_open - 1] != c)
			return jx_syntax_error(l->e, l->line, "unexpected '%c'", c);
		l->n_open--;
	}
	return 0;
}

static int operator(struct lexer *l)
{
	size_t i;

	for (i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		if (!starts(l, operators[i].text))
			continue;
		if (balance(l, *l->p) != 0 || push(l, operators[i].type, l->p, strlen(operators[i].text)) != 0)
			return -1;
		l->p += strlen(operators[i].text);
		return 0;
	}
	return jx_syntax_error(l->e, l->line, "unexpected character '%c'",
			       (uint8_t)*l->p < 0x80 ? *l->p : '?');
}

/* Tell if the tag ends here. */
static bool at_end(struct lexer *l, bool variable, bool *strip, bool *trim, size_t *n)
{
	const char *close = variable ? "}}" : "%}";

	*strip = *trim = false;
	*n = 2;
	if (starts(l, close)) {
		*trim = !variable;
		return true;
	}
	*n = 3;
	*strip = *l->p == '-';
	return l->end - l->p >= 3 && (*strip || (*l->p == '+' && !variable)) &&
	       memcmp(l->p + 1, close, 2) == 0;
}

static int tag(struct lexer *l, bool variable)
{
	bool strip, trim;
	const char *from;
	size_t n;
	int rc;

	l->n_open = 0;
	for (;;) {
		from = l->p;
		l->p = skip_space(l->p, l->end);
		l->line += count_lines(from, l->p);
		if (l->p == l->end)
			return jx_syntax_error(l->e, l->line, "the tag has no end");
		if (l->n_open == 0 && at_end(l, variable, &strip, &trim, &n))
			break;
		if (is_digit(*l->p))
			rc = number(l);
		else if (in_name(l->p, l->end) || (uint8_t)*l->p >= 0x80)
			rc = name(l);
		else if (*l->p == '\'' || *l->p == '"')
			rc = string(l);
		else
			rc = operator(l);
		if (rc != 0)
			return -1;
	}
	from = l->p;
	if (push(l, variable ? T_VARIABLE_END : T_BLOCK_END, l->p, n) != 0)
		return -1;
	l->p += n;
	end_tag(l, from, strip, trim);
	return 0;
}

static int one_tag(struct lexer *l, const char *at)
{
	const char *behind;
	char kind = at[1], sign = at[2], last;	/* the text is NUL-terminated */

	if (data_before(l, l->p, at, sign, kind == '{') != 0)
		return -1;
	l->p = at;
	if (kind == '%' && is_word_tag(at, l->end, "raw", &last, &behind) && last != '+')
		return raw(l, behind, last);
	l->p = at + 2;
	if (sign == '-' || sign == '+')
		l->p++;
	if (kind == '#')
		return comment(l);
	if (push(l, kind == '{' ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN, at, 2) != 0)
		return -1;
	return tag(l, kind == '{');
}

int jx_lex(struct jinja_mem *m, struct span text, struct tokens *out, struct err *e)
{
	struct lexer l = { .m = m, .out = out, .e = e, .line = 1, .line_starting = true };
	const char *at;

	memset(out, 0, sizeof(*out));
	if (!normal_text(&l, text))
		return jx_no_memory(e);
	while ((at = next_tag(l.p, l.end)) != NULL)
		if (one_tag(&l, at) != 0)
			return -1;
	if (l.p < l.end && push(&l, T_DATA, l.p, (size_t)(l.end - l.p)) != 0)
		return -1;
	return push(&l, T_EOF, l.end, 0);
}
