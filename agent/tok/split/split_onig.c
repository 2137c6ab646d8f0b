/* split_onig.c - translate regular expressions from Oniguruma's syntax to PCRE2's.
 *
 * Oniguruma runs the expressions of tokenizer.json (its own syntax, UTF-8, no options). PCRE2 finds
 * the same matches in the same order for nearly everything that both know; notation and the
 * contents of some sets differ. So the pattern is parsed completely and each part is written in
 * unambiguous form: sets as lists and properties (split_onig_class.c), anchors as (?m:^),
 * characters as \x{...}. Patching known differences only would let unknown ones pass; this
 * translator rejects what it does not understand, with its place.
 *
 * Differences, verified with tokenizers 0.22.2: ^ and $ are of lines always; (?m) lets . match any
 * character; {n,m}+ repeats a repetition and {n}? makes one optional; {,m} starts with 0; \h is a
 * hexadecimal digit; \w, \s, [[:punct:]]; && and nested classes; (?i) in the middle includes the
 * following alternatives (rejected); under (?i) ss is also U+00DF. */
#include "agent/tok/split/split_onig_in.h"

#include <stdio.h>

#include "agent/base/mem.h"

#define REPEAT_MOST	65535	/* PCRE2's */

/* ---- output ---------------------------------------------------------------------------------- */

static bool grow(struct onig *o, size_t more)
{
	if (buf_room(&o->text, more) && vec_reserve(&o->from, more) < 0)
		o->text.failed = true;
	return !o->text.failed;
}

void onig_put(struct onig *o, const char *s, size_t n, size_t from)
{
	size_t i;

	if (n == 0 || !grow(o, n))
		return;
	buf_add(&o->text, s, n);
	for (i = 0; i < n; i++)
		o->from.p[o->from.n++] = (uint32_t)from;
}

void onig_puts(struct onig *o, const char *s, size_t from)
{
	onig_put(o, s, strlen(s), from);
}

void onig_cp(struct onig *o, uint32_t cp, size_t from)
{
	uint8_t u[4];
	char s[16];

	if (cp >= 0x80 || uc_class(cp) & (UC_LETTER | UC_NUMBER) || cp == ' ' || cp == '_')
		onig_put(o, (const char *)u, utf8_put(u, cp), from);
	else
		onig_put(o, s, (size_t)snprintf(s, sizeof(s), "\\x{%x}", (unsigned)cp), from);
}

void onig_add(struct onig *o, const struct onig *more)
{
	o->text.failed |= more->text.failed;
	o->sets |= more->sets;
	if (more->text.n == 0 || !grow(o, more->text.n))
		return;
	buf_add(&o->text, more->text.p, more->text.n);
	memcpy(o->from.p + o->from.n, more->from.p, more->from.n * sizeof(*o->from.p));
	o->from.n += more->from.n;
}

void onig_insert(struct onig *o, size_t at, const char *s)
{
	size_t i, n = strlen(s);
	uint32_t from = at < o->text.n ? o->from.p[at] : 0;

	if (!grow(o, n))
		return;
	memmove(o->text.p + at + n, o->text.p + at, o->text.n - at);
	memmove(o->from.p + at + n, o->from.p + at, (o->from.n - at) * sizeof(*o->from.p));
	memcpy(o->text.p + at, s, n);
	for (i = 0; i < n; i++)
		o->from.p[at + i] = from;
	buf_wrote(&o->text, n);
	o->from.n += n;
}

void onig_fini(struct onig *o)
{
	buf_free(&o->text);
	vec_free(&o->from);
	*o = (struct onig){ 0 };
}

/* ---- input ----------------------------------------------------------------------------------- */

int onig_fail(const struct onig_in *t, size_t at, const char *why)
{
	return err_set(t->e, "the pattern is not understood at byte %zu: %s", at + 1, why);
}

uint32_t onig_peek(const struct onig_in *t)
{
	uint32_t cp;

	if (t->at >= t->n)
		return 0;
	utf8_get(t->p + t->at, t->n - t->at, &cp);
	return cp;
}

uint32_t onig_get(struct onig_in *t)
{
	uint32_t cp = 0;

	if (t->at < t->n)
		t->at += utf8_get(t->p + t->at, t->n - t->at, &cp);
	return cp;
}

bool onig_eat(struct onig_in *t, const char *s)
{
	size_t n = strlen(s);

	if (n > t->n - t->at || memcmp(t->p + t->at, s, n) != 0)
		return false;
	t->at += n;
	return true;
}

static bool digit_at(const struct onig_in *t, size_t at, uint8_t most)
{
	return at < t->n && t->p[at] >= '0' && t->p[at] <= most;
}

static int hex_value(uint32_t c)
{
	return c - '0' < 10 ? (int)(c - '0') : (c | 0x20) - 'a' < 6 ? (int)((c | 0x20) - 'a' + 10) : -1;
}

/* Read up to <most> hexadecimal digits. */
static size_t hex(struct onig_in *t, size_t most, uint32_t *cp)
{
	size_t i;
	int v;

	*cp = 0;
	for (i = 0; i < most && t->at < t->n && (v = hex_value(t->p[t->at])) >= 0; i++, t->at++)
		*cp = *cp << 4 | (uint32_t)v;
	return i;
}

static int valid_char(const struct onig_in *t, size_t at, uint32_t cp)
{
	if (cp > 0x10ffff || cp - 0xd800 < 0x800)
		return onig_fail(t, at, "no such character");
	return 1;
}

/* Read the digits after \x or \u. */
static int escape_hex(struct onig_in *t, bool u, uint32_t *cp)
{
	size_t at = t->at;

	if (u)
		return hex(t, 4, cp) == 4 ? valid_char(t, at, *cp)
					  : onig_fail(t, at, "\\u has four hexadecimal digits");
	if (onig_eat(t, "{")) {
		if (hex(t, 8, cp) == 0 || !onig_eat(t, "}"))
			return onig_fail(t, at, "\\x{...} is one hexadecimal number");
		return valid_char(t, at, *cp);
	}
	if (hex(t, 2, cp) == 0)
		return onig_fail(t, at, "\\x has no digits");
	return *cp < 0x80 ? 1 : onig_fail(t, at, "\\x of a byte that is no character");
}

int onig_escape_char(struct onig_in *t, uint32_t *cp)
{
	static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\x1b";
	size_t at = t->at;
	const char *k;
	uint32_t c = onig_get(t);

	if (t->at == at)
		return onig_fail(t, at, "nothing after the backslash");
	if (c != 0 && c < 0x80 && (k = strchr(from, (int)c)) != NULL)
		return *cp = (uint32_t)to[k - from], 1;
	if (c == 'x' || c == 'u')
		return escape_hex(t, c == 'u', cp);
	if (c == '0') {
		for (*cp = 0; t->at < at + 3 && digit_at(t, t->at, '7'); t->at++)
			*cp = *cp << 3 | (uint32_t)(t->p[t->at] - '0');
		return 1;
	}
	if (c >= 0x80 || !(uc_class(c) & (UC_LETTER | UC_NUMBER)))
		return *cp = c, 1;
	t->at = at;
	return 0;
}

/* ---- literals -------------------------------------------------------------------------------- */

/* Return the one character that two letters also are without regard to case (CaseFolding.txt, F;
 * ASCII only). */
static const char *folds_to(uint32_t a, uint32_t b)
{
	static const struct { char pair[3]; const char *one;
	} folds[] = {
		{ "ss", "\xc3\x9f\xe1\xba\x9e" },
		{ "ff", "\xef\xac\x80" },
		{ "fi", "\xef\xac\x81" },
		{ "fl", "\xef\xac\x82" },
		{ "st", "\xef\xac\x85\xef\xac\x86" },
	};
	size_t i;

	for (i = 0; i < sizeof(folds) / sizeof(folds[0]) && a < 0x80 && b < 0x80; i++)
		if ((a | 0x20) == (uint8_t)folds[i].pair[0] && (b | 0x20) == (uint8_t)folds[i].pair[1])
			return folds[i].one;
	return NULL;
}

bool onig_folds_alike(uint32_t cp)
{
	return cp < 0x80 ||
	    (!(uc_class(cp) & (UC_LETTER_LOWER | UC_LETTER_UPPER | UC_MARK)) && cp != 0x2bc &&
		cp != 0x2be);
}

static bool repeats(uint32_t c)
{
	return c == '*' || c == '+' || c == '?' || c == '{';
}

static int literal(struct onig_in *t, struct onig *o, uint32_t cp, size_t at)
{
	const char *one;
	uint32_t next, after;

	if (!t->icase) {
		t->last = 0;
		onig_cp(o, cp, at);
		return 0;
	}
	if (!onig_folds_alike(cp))
		return onig_fail(t, at, "(?i) on this character");
	if (folds_to(t->last, cp) != NULL)
		return onig_fail(t, at, "(?i) on letters that are one character, too, and a group between them");
	next = onig_peek(t);
	t->last = cp;
	after = t->at + 1 < t->n ? t->p[t->at + 1] : 0;
	if ((one = folds_to(cp, next)) == NULL || repeats(after)) {
		if (one != NULL)
			t->last = 0;
		onig_cp(o, cp, at);
		return 0;
	}
	if (folds_to(next, after) != NULL)
		return onig_fail(t, at, "(?i) on three letters that are one character, too");
	onig_get(t);
	onig_puts(o, "(?:", at);
	onig_cp(o, cp, at);
	onig_cp(o, next, at);
	onig_puts(o, "|[", at);
	onig_puts(o, one, at);
	onig_puts(o, "])", at);
	t->last = 0;
	return 0;
}

/* ---- escapes --------------------------------------------------------------------------------- */

static void word_boundary(struct onig *o, bool is, size_t at)
{
	struct onig w = { .plain = o->plain };

	onig_word(&w, at);
	onig_puts(o, "(?:(?<=[", at);
	onig_add(o, &w);
	onig_puts(o, is ? "])(?![" : "])(?=[", at);
	onig_add(o, &w);
	onig_puts(o, "])|(?<![", at);
	onig_add(o, &w);
	onig_puts(o, is ? "])(?=[" : "])(?![", at);
	onig_add(o, &w);
	onig_puts(o, "]))", at);
	onig_fini(&w);
}

static int back_reference(struct onig_in *t, struct onig *o, size_t at)
{
	unsigned k = t->p[t->at] - (unsigned)'0';
	char s[16];

	if (digit_at(t, t->at + 1, '9'))
		return onig_fail(t, at, "a reference to a group above 9");
	if (k > t->groups)
		return onig_fail(t, at, "a reference to a group that does not stand before it");
	t->at++;
	t->referred = true;
	onig_put(o, s, (size_t)snprintf(s, sizeof(s), "\\g{%u}", k), at);
	return 1;
}

/* Returns 1: an atom, 2: nothing that can be repeated, -1: rejected. */
static int escape(struct onig_in *t, struct onig *o, size_t at)
{
	struct onig_set s = { .in.plain = o->plain, .sub.plain = o->plain };
	uint32_t cp;
	int rc;

	if ((rc = onig_escape_char(t, &cp)) != 0)
		return rc < 0 || literal(t, o, cp, at) < 0 ? -1 : 1;
	t->last = 0;
	if ((rc = onig_escape_set(t, false, &s)) > 0)
		onig_set_put(o, &s, false, at);
	onig_set_fini(&s);
	if (rc != 0)
		return rc;
	cp = t->p[t->at];
	if (cp - '1' < 9)
		return back_reference(t, o, at);
	t->at++;
	switch (cp) {
	case 'A': case 'z': case 'Z': case 'G':
		onig_put(o, (const char[2]){ '\\', (char)cp }, 2, at);
		return 2;
	case 'b': case 'B':
		word_boundary(o, cp == 'b', at);
		return 2;
	case 'R':
		onig_puts(o, "(?:\\r\\n|\\r(?!\\n)|[\\n-\\f\\x{85}\\x{2028}\\x{2029}])", at);
		return 1;
	default:
		return onig_fail(t, at, "this letter after a backslash");
	}
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static bool number(struct onig_in *t, uint32_t *v)
{
	size_t at = t->at;

	for (*v = 0; digit_at(t, t->at, '9'); t->at++)
		if (*v <= REPEAT_MOST)
			*v = *v * 10 + (uint32_t)(t->p[t->at] - '0');
	return t->at > at;
}

struct repeat {
	uint32_t least, most;
	bool open, fixed;	/* no upper bound; {n} */
};

/* Read {n} {n,} {n,m} {,m} after the brace. Returns false if it is none: the brace is then literal.
 */
static bool interval(struct onig_in *t, struct repeat *r)
{
	size_t at = t->at;
	bool low = number(t, &r->least), comma = onig_eat(t, ","), high = comma && number(t, &r->most);

	r->open = comma && !high;
	r->fixed = !comma;
	if (r->fixed)
		r->most = r->least;
	if ((low || high) && onig_eat(t, "}"))
		return true;
	t->at = at;
	return false;
}

static int put_interval(struct onig_in *t, struct onig *o, const struct repeat *r, size_t at)
{
	char s[40];
	int n;

	if (r->least > REPEAT_MOST || (!r->open && (r->most > REPEAT_MOST || r->most < r->least)))
		return onig_fail(t, at, "numbers of a repetition");
	n = r->open ? snprintf(s, sizeof(s), "{%u,}", (unsigned)r->least) :
	    snprintf(s, sizeof(s), "{%u,%u}", (unsigned)r->least, (unsigned)r->most);
	onig_put(o, s, (size_t)n, at);
	return 0;
}

/* Read the quantifiers after an atom that was written from <start> on. Each after the first repeats
 * a group of what precedes it. */
static int quantifiers(struct onig_in *t, struct onig *o, size_t start, int kind)
{
	size_t at, times;
	struct repeat r;
	bool lazy = false;
	uint32_t c;

	for (times = 0; (c = onig_peek(t)), at = t->at, repeats(c); times++) {
		t->at++;
		if (c == '{' && !interval(t, &r)) {
			t->at = at;
			break;
		}
		if (kind != 1)
			return onig_fail(t, at, "nothing to repeat");
		if (lazy)
			return onig_fail(t, at, "a lazy repetition that is repeated");
		if (times > 0) {
			onig_insert(o, start, "(?:");
			onig_puts(o, ")", at);
		}
		if (c != '{') {
			onig_put(o, (const char[1]){ (char)c }, 1, at);
		} else if (put_interval(t, o, &r, at) < 0) {
			return -1;
		}
		t->last = 0;
		if (c == '{' && r.fixed)	/* {n}? is two quantifiers, and so is any {...}+ */
			continue;
		if (onig_eat(t, "?")) {
			onig_puts(o, "?", at);
			lazy = true;
		} else if (c != '{' && onig_eat(t, "+")) {
			onig_puts(o, "+", at);
			/* an atomic group */
			o->no_jit |= o->text.n > start + 3 && memcmp(o->text.p + start, "(", 1) == 0;
		}
	}
	return 0;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int alternatives(struct onig_in *t, struct onig *o);

/* Read (?i) (?i: (?-i: ... after the question mark. Returns 1 if a group follows, 0 for (?i), which
 * applies until the surrounding group ends. */
static int options(struct onig_in *t, struct onig *o, size_t at, bool leading)
{
	bool on = true, icase = t->icase, dot_all = t->dot_all;
	uint32_t c;

	for (; (c = onig_peek(t)) != ':' && c != ')'; t->at++) {
		if (c == '-' && on)
			on = false;
		else if (c == 'i')
			icase = on;
		else if (c == 'm')
			dot_all = on;
		else
			return onig_fail(t, at, "this kind of group");
	}
	t->at++;
	if (c == ')' && !leading)
		return onig_fail(t, at, "options in the middle of a group");
	t->icase = icase;
	t->dot_all = dot_all;
	onig_puts(o, icase ? "(?i" : "(?-i", at);
	onig_puts(o, c == ')' ? ")" : ":", at);
	return c == ':';
}

static int named_group(struct onig_in *t, struct onig *o, size_t at, char end)
{
	while (t->at < t->n && (uc_class(t->p[t->at]) & (UC_LETTER | UC_NUMBER) || t->p[t->at] == '_'))
		t->at++;
	if (t->at == t->n || t->p[t->at++] != (uint8_t)end)
		return onig_fail(t, at, "the name of a group");
	t->named = true;
	onig_puts(o, "(?:", at);
	return 1;
}

/* Read the start of a group after its parenthesis. As options(); 2: a look-around, 3: a comment,
 * skipped. */
static int open_group(struct onig_in *t, struct onig *o, size_t at, bool leading)
{
	static const char *const same[] = { "?:", "?>", "?=", "?!", "?<=", "?<!" };
	size_t i;

	for (i = 0; i < 6; i++)
		if (onig_eat(t, same[i])) {
			onig_puts(o, "(", at);
			onig_puts(o, same[i], at);
			if (i != 0)
				t->last = 0;
			o->no_jit |= i == 1;
			return i < 2 ? 1 : 2;
		}
	if (onig_eat(t, "?#")) {
		while (t->at < t->n && t->p[t->at] != ')')
			t->at += 1 + (t->p[t->at] == '\\');
		return onig_eat(t, ")") ? 3 : onig_fail(t, at, "a comment without an end");
	}
	if (onig_eat(t, "?<"))
		return named_group(t, o, at, '>');
	if (onig_eat(t, "?'"))
		return named_group(t, o, at, '\'');
	if (onig_eat(t, "?"))
		return options(t, o, at, leading);
	if (onig_peek(t) == '*')
		return onig_fail(t, at, "this kind of group");
	t->groups++;
	t->last = 0;
	onig_puts(o, "(", at);
	return 1;
}

/* Read a group after its parenthesis. As escape(); 0: it matches nothing. */
static int group(struct onig_in *t, struct onig *o, size_t at, bool leading)
{
	bool icase = t->icase, dot_all = t->dot_all;
	int kind;

	if ((kind = open_group(t, o, at, leading)) <= 0)
		return kind;
	if (kind == 3)
		return 0;
	if (++t->depth > ONIG_DEPTH_MOST)
		return onig_fail(t, at, "groups too deep in each other");
	if (alternatives(t, o) < 0)
		return -1;
	t->depth--;
	if (!onig_eat(t, ")"))
		return onig_fail(t, at, "a group without an end");
	onig_puts(o, ")", t->at - 1);
	t->icase = icase;
	t->dot_all = dot_all;
	return kind;
}

/* Read one atom that starts with <c>, already consumed. As escape() and group(). */
static int atom(struct onig_in *t, struct onig *o, uint32_t c, size_t at, bool leading)
{
	struct onig_set s = { .in.plain = o->plain, .sub.plain = o->plain };
	int rc;

	if (c == '(')
		return group(t, o, at, leading);
	if (c == '\\')
		return escape(t, o, at);
	if (c != '[' && c != '.' && c != '^' && c != '$')
		return literal(t, o, c, at) < 0 ? -1 : 1;
	t->last = 0;
	if (c == '^' || c == '$') {
		onig_puts(o, c == '^' ? "(?m:^)" : "(?m:$)", at);
		return 2;
	}
	if (c == '.') {
		onig_puts(o, t->dot_all ? "(?s:.)" : "[^\\n]", at);
		return 1;
	}
	if ((rc = onig_class(t, &s)) == 0)
		onig_set_put(o, &s, false, at);
	onig_set_fini(&s);
	return rc < 0 ? -1 : 1;
}

/* Read alternatives up to the closing parenthesis or the end. */
static int alternatives(struct onig_in *t, struct onig *o)
{
	bool leading = true;
	size_t at, start;
	uint32_t c;
	int rc;

	while (t->at < t->n && t->p[t->at] != ')') {
		at = t->at;
		start = o->text.n;
		c = onig_get(t);
		if (c == '|') {
			onig_puts(o, "|", at);
			t->last = 0;
			leading = false;
			continue;
		}
		if (c == '*' || c == '+' || c == '?')
			return onig_fail(t, at, "nothing to repeat");
		if ((rc = atom(t, o, c, at, leading)) < 0 || (rc > 0 && quantifiers(t, o, start, rc) < 0))
			return -1;
		leading &= rc == 0;
	}
	return 0;
}

static void as_literal(struct onig *o, struct span s)
{
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < s.n; at += len) {
		len = utf8_get((const uint8_t *)s.p + at, s.n - at, &cp);
		onig_cp(o, cp, at);
	}
}

int onig_translate(struct span pattern, bool is_literal, struct onig *out, struct err *e)
{
	struct onig_in t = { .p = (const uint8_t *)pattern.p, .n = pattern.n, .e = e };

	if (pattern.n > 1 << 20)
		return err_set(e, "a pattern of more than 1 MiB");
	if (is_literal)
		as_literal(out, pattern);
	else if (alternatives(&t, out) < 0)
		return -1;
	if (out->text.n == 0)
		onig_puts(out, "(?:)", 0);
	if (out->text.failed)
		return err_set(e, "no memory");
	if (!is_literal && t.at < t.n)
		return onig_fail(&t, t.at, "a parenthesis that closes nothing");
	if (t.named && t.referred)
		return onig_fail(&t, 0, "names of groups and references by number");
	return 0;
}
