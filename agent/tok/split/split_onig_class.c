/* split_onig_class.c - sets of characters: classes, properties, and letters after a backslash.
 *
 * PCRE2 10.42 has neither nested classes nor &&, but it has look-ahead: "in A and in B" is (?=A)B,
 * "not in A" is (?!A) and any character. So a set is what fits into one pair of brackets, plus
 * alternatives that each match one character. Nested classes become brackets whenever possible.
 *
 * Properties are of Unicode 16, as in Oniguruma 6.9.10. PCRE2 may be older: characters newer than
 * 14 are added to each property as a list (unicode_newer.h), which is harmless if it knows them;
 * changed ones are in the code. Every property and letter here was compared with tokenizers 0.22.2
 * on all code points. */
#include "agent/tok/split/split_onig_in.h"

#include <stdio.h>

#include "agent/tok/unicode/unicode_newer.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

#define SPACE	"\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}" \
		"\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define HEX	"0-9A-Fa-f"

struct onig_set onig_set_like(const struct onig_set *s)
{
	return (struct onig_set){ .in.plain = s->in.plain, .sub.plain = s->in.plain };
}

void onig_set_fini(struct onig_set *s)
{
	onig_fini(&s->in);
	onig_fini(&s->sub);
	s->n_subs = 0;
}

/* Tell if <in> is one \p{..} or \s, which PCRE2 matches faster outside of brackets. */
static bool is_one_escape(const struct onig *in)
{
	const char *p = in->text.p;
	size_t n = in->text.n;

	if (n < 2 || p[0] != '\\')
		return false;
	return p[1] == 's' ? n == 2 : p[1] == 'p' && memchr(p, '}', n) == p + n - 1;
}

void onig_set_put(struct onig *o, const struct onig_set *s, bool negate, size_t from)
{
	bool group = s->n_subs + (s->in.text.n > 0) > 1;
	size_t at = o->text.n;

	o->text.failed |= s->in.text.failed || s->sub.text.failed;
	o->sets |= s->in.sets || s->sub.sets;
	if (s->sub.text.n == 0 && is_one_escape(&s->in)) {
		onig_add(o, &s->in);
		if (negate && !o->text.failed)
			o->text.p[at + 1] = (char)(o->text.p[at + 1] - 32);
		return;
	}
	if (s->sub.text.n == 0) {
		onig_puts(o, negate ? "[^" : "[", from);
		onig_add(o, &s->in);
		onig_puts(o, "]", from);
		return;
	}
	onig_puts(o, negate ? "(?:(?!" : "", from);
	onig_puts(o, group ? "(?:" : "", from);
	if (s->in.text.n > 0) {
		onig_puts(o, "[", from);
		onig_add(o, &s->in);
		onig_puts(o, "]|", from);
	}
	onig_add(o, &s->sub);
	onig_puts(o, group ? ")" : "", from);
	onig_puts(o, negate ? ")(?s:.))" : "", from);
}

/* Add an alternative to <s>: the set <sub>, or its complement. */
static void add_set(struct onig_set *s, const struct onig_set *sub, bool negate, size_t from)
{
	s->sub.text.failed |= sub->sub.text.failed;
	if (!negate && sub->sub.text.n == 0) {
		onig_add(&s->in, &sub->in);
		return;
	}
	onig_puts(&s->sub, s->n_subs++ ? "|" : "", from);
	onig_set_put(&s->sub, sub, negate, from);
}

/* ---- properties ------------------------------------------------------------------------------ */

static const struct category {
	const char *name, *as;
} categories[] = {
	{ "letter", "L" },
	{ "uppercaseletter", "Lu" },
	{ "lowercaseletter", "Ll" },
	{ "titlecaseletter", "Lt" },
	{ "modifierletter", "Lm" },
	{ "otherletter", "Lo" },
	{ "mark", "M" },
	{ "combiningmark", "M" },
	{ "nonspacingmark", "Mn" },
	{ "spacingmark", "Mc" },
	{ "enclosingmark", "Me" },
	{ "number", "N" },
	{ "decimalnumber", "Nd" },
	{ "letternumber", "Nl" },
	{ "othernumber", "No" },
	{ "digit", "Nd" },
	{ "punctuation", "P" },
	{ "punct", "P" },
	{ "connectorpunctuation", "Pc" },
	{ "dashpunctuation", "Pd" },
	{ "openpunctuation", "Ps" },
	{ "closepunctuation", "Pe" },
	{ "initialpunctuation", "Pi" },
	{ "finalpunctuation", "Pf" },
	{ "otherpunctuation", "Po" },
	{ "symbol", "S" },
	{ "mathsymbol", "Sm" },
	{ "currencysymbol", "Sc" },
	{ "modifiersymbol", "Sk" },
	{ "othersymbol", "So" },
	{ "separator", "Z" },
	{ "spaceseparator", "Zs" },
	{ "lineseparator", "Zl" },
	{ "paragraphseparator", "Zp" },
	{ "control", "Cc" },
	{ "cntrl", "Cc" },
	{ "format", "Cf" },
	{ "privateuse", "Co" },
	{ "l", "L" },
	{ "lu", "Lu" },
	{ "ll", "Ll" },
	{ "lt", "Lt" },
	{ "lm", "Lm" },
	{ "lo", "Lo" },
	{ "m", "M" },
	{ "mn", "Mn" },
	{ "mc", "Mc" },
	{ "me", "Me" },
	{ "n", "N" },
	{ "nd", "Nd" },
	{ "nl", "Nl" },
	{ "no", "No" },
	{ "p", "P" },
	{ "pc", "Pc" },
	{ "pd", "Pd" },
	{ "ps", "Ps" },
	{ "pe", "Pe" },
	{ "pi", "Pi" },
	{ "pf", "Pf" },
	{ "po", "Po" },
	{ "s", "S" },
	{ "sm", "Sm" },
	{ "sc", "Sc" },
	{ "sk", "Sk" },
	{ "so", "So" },
	{ "z", "Z" },
	{ "zs", "Zs" },
	{ "zl", "Zl" },
	{ "zp", "Zp" },
	{ "cc", "Cc" },
	{ "cf", "Cf" },
	{ "co", "Co" },
};

enum which { NEWER_CATEGORY, NEWER_ALPHA, NEWER_LOWER, NEWER_UPPER, NEWER_SCRIPT };

static bool is_newer(const struct newer *k, enum which which, const char *category, int script)
{
	switch (which) {
	case NEWER_CATEGORY:
		return strncmp(k->category, category, strlen(category)) == 0;
	case NEWER_ALPHA:
		return k->alpha;
	case NEWER_LOWER:
		return k->lower;
	case NEWER_UPPER:
		return k->upper;
	default:
		return k->script == script;
	}
}

static void put_newer(struct onig *o, enum which which, const char *category, int script,
    size_t from)
{
	uint32_t first, last;
	char s[40];
	size_t i;

	o->sets = true;
	for (i = 0; !o->plain && i < COUNT(newer); i++) {
		if (!is_newer(&newer[i], which, category, script))
			continue;
		first = newer[i].first;
		for (last = newer[i].last; i + 1 < COUNT(newer) && newer[i + 1].first == last + 1 &&
		     is_newer(&newer[i + 1], which, category, script); i++)
			last = newer[i + 1].last;
		onig_put(o, s,
		    (size_t)snprintf(s, sizeof(s), "\\x{%x}-\\x{%x}", (unsigned)first,
			(unsigned)last),
		    from);
	}
}

static void put_category(struct onig *o, const char *c, size_t from)
{
	onig_puts(o, "\\p{", from);
	onig_puts(o, c, from);
	onig_puts(o, "}", from);
	put_newer(o, NEWER_CATEGORY, c, 0, from);
}

static void put_space(struct onig *o, size_t from)
{
	o->sets = true;
	onig_puts(o, o->plain ? "\\s" : SPACE, from);
}

static void put_alpha(struct onig *o, size_t from)
{
	onig_puts(o, "\\p{Alphabetic}", from);
	onig_puts(o,
	    o->plain
		? ""
		: "\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}\\x{11080}\\x{11081}",
	    from);
	put_newer(o, NEWER_ALPHA, NULL, 0, from);
}

/* Alphabetic, M, Nd, Pc. Alphabetic marks are in two lists, which costs nothing. Used inside of
 * classes. */
static void put_word(struct onig *o, size_t from)
{
	put_alpha(o, from);
	put_category(o, "M", from);
	put_category(o, "Nd", from);
	put_category(o, "Pc", from);
}

void onig_word(struct onig *o, size_t from)
{
	put_word(o, from);
	onig_puts(o, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}", from);	/* from Oniguruma's table of Latin-1 */
}

/* Write a set that has the same name as a property and between [: and :]. */
static bool named_set(const char *name, struct onig *o, size_t from)
{
	if (strcmp(name, "alpha") == 0 || strcmp(name, "alphabetic") == 0) {
		put_alpha(o, from);
	} else if (strcmp(name, "alnum") == 0) {
		put_alpha(o, from);
		put_category(o, "Nd", from);
	} else if (strcmp(name, "upper") == 0 || strcmp(name, "uppercase") == 0) {
		onig_puts(o, "\\p{Uppercase}", from);
		put_newer(o, NEWER_UPPER, NULL, 0, from);
	} else if (strcmp(name, "lower") == 0 || strcmp(name, "lowercase") == 0) {
		onig_puts(o, "\\p{Lowercase}", from);
		onig_puts(o, o->plain ? "" : "\\x{10fc}\\x{a7f2}-\\x{a7f4}\\x{ab69}", from);
		put_newer(o, NEWER_LOWER, NULL, 0, from);
	} else if (strcmp(name, "space") == 0 || strcmp(name, "whitespace") == 0) {
		put_space(o, from);
	} else if (strcmp(name, "blank") == 0) {
		onig_puts(o, "\\x{9}\\p{Zs}", from);
	} else if (strcmp(name, "xdigit") == 0) {
		onig_puts(o, HEX, from);
	} else if (strcmp(name, "ascii") == 0) {
		onig_puts(o, "\\x{0}-\\x{7f}", from);
	} else {
		return false;
	}
	return true;
}

/* <name> is in small letters, without spaces, hyphens and underscores. */
static bool property(const char *name, bool in_class, struct onig *o, size_t from)
{
	char script[24];
	size_t i;

	for (i = 0; i < COUNT(categories); i++)
		if (strcmp(name, categories[i].name) == 0)
			return put_category(o, categories[i].as, from), true;
	if (strcmp(name, "word") == 0)
		return in_class ? put_word(o, from) : onig_word(o, from), true;
	if (strcmp(name, "any") == 0)
		return onig_puts(o, "\\x{0}-\\x{10ffff}", from), true;
	if (named_set(name, o, from))
		return true;
	for (i = 0; i < COUNT(scripts); i++) {
		if (strcasecmp(name, scripts[i]) != 0)
			continue;
		onig_put(o, script, (size_t)snprintf(script, sizeof(script), "\\p{sc:%s}", scripts[i]), from);
		put_newer(o, NEWER_SCRIPT, NULL, (int)i, from);
		return true;
	}
	return false;
}

static bool has_case(const char *name)
{
	return strcmp(name, "lu") == 0 || strcmp(name, "ll") == 0 || strcmp(name, "lt") == 0 ||
	    strstr(name, "case") != NULL || strcmp(name, "upper") == 0 ||
	    strcmp(name, "lower") == 0;
}

/* Add <mn> without U+1171E, which was Mn in Unicode 14. */
static void add_mn(struct onig_set *s, const struct onig_set *mn, bool negate, size_t from)
{
	struct onig_set sub = onig_set_like(s);

	sub.n_subs = 1;
	onig_puts(&sub.sub, sub.in.plain ? "(?:" : "(?:(?!\\x{1171e})", from);
	onig_set_put(&sub.sub, mn, false, from);
	onig_puts(&sub.sub, ")", from);
	add_set(s, &sub, negate, from);
	onig_set_fini(&sub);
}

/* Read the name after \p or \P. */
static int escape_property(struct onig_in *t, bool negate, bool in_class, struct onig_set *s,
    size_t at)
{
	struct onig_set sub = onig_set_like(s);
	char name[32];
	size_t n = 0;
	int rc = 1;

	if (!onig_eat(t, "{"))
		return onig_fail(t, at, "a property stands in braces");
	negate ^= onig_eat(t, "^");
	for (; t->at < t->n && t->p[t->at] != '}' && n < sizeof(name) - 1; t->at++)
		if (strchr(" -_", t->p[t->at]) == NULL || t->p[t->at] == '\0')
			name[n++] = (char)((uint8_t)(t->p[t->at] - 'A') < 26 ? t->p[t->at] + 32 : t->p[t->at]);
	name[n] = '\0';
	if (!onig_eat(t, "}"))
		return onig_fail(t, at, "a property without an end, or too long");
	if (t->icase && has_case(name))
		return onig_fail(t, at, "(?i) on a property of case");
	if (!property(name, in_class, &sub.in, at))
		rc = onig_fail(t, at, "this property");
	else if (strcmp(name, "mn") == 0 || strcmp(name, "nonspacingmark") == 0)
		add_mn(s, &sub, negate, at);
	else
		add_set(s, &sub, negate, at);
	onig_set_fini(&sub);
	return rc;
}

int onig_escape_set(struct onig_in *t, bool in_class, struct onig_set *s)
{
	struct onig_set sub = onig_set_like(s);
	size_t at = t->at;
	uint8_t c = t->p[at++];

	switch (c) {
	case 'p': case 'P':
		t->at++;
		return escape_property(t, c == 'P', in_class, s, at - 2);
	case 'w': case 'W':
		if (in_class)
			put_word(&sub.in, at);
		else
			onig_word(&sub.in, at);
		break;
	case 'd': case 'D':
		put_category(&sub.in, "Nd", at);
		break;
	case 's': case 'S':
		put_space(&sub.in, at);
		break;
	case 'h': case 'H':
		onig_puts(&sub.in, HEX, at);
		break;
	default:
		return 0;
	}
	t->at++;
	add_set(s, &sub, c < 'a', at);
	onig_set_fini(&sub);
	return 1;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Read [:name:] or [:^name:] after its bracket and colon. */
static int posix(struct onig_in *t, struct onig_set *s, size_t at)
{
	struct onig_set sub = onig_set_like(s);
	bool negate = onig_eat(t, "^"), known = true;
	char name[12];
	size_t n = 0;

	while (t->at < t->n && (uint8_t)(t->p[t->at] - 'a') < 26 && n < sizeof(name) - 1)
		name[n++] = (char)t->p[t->at++];
	name[n] = '\0';
	if (!onig_eat(t, ":]"))
		return onig_fail(t, at, "[: without :]");
	if (t->icase && has_case(name))
		return onig_fail(t, at, "(?i) on a property of case");
	if (strcmp(name, "word") == 0) {
		put_word(&sub.in, at);
	} else if (strcmp(name, "punct") == 0) {
		put_category(&sub.in, "P", at);
		put_category(&sub.in, "S", at);
	} else if (strcmp(name, "digit") == 0) {
		put_category(&sub.in, "Nd", at);
	} else if (strcmp(name, "cntrl") == 0) {
		put_category(&sub.in, "Cc", at);
	} else {
		known = named_set(name, &sub.in, at);
	}
	if (known)
		add_set(s, &sub, negate, at);
	onig_set_fini(&sub);
	return known ? 0 : onig_fail(t, at, "this name between [: and :]");
}

static bool range_folds_alike(uint32_t a, uint32_t b)
{
	if (b - a > 0x3000 && b >= 0x80)
		return false;
	for (; a <= b; a++)
		if (!onig_folds_alike(a))
			return false;
	return true;
}

/* Read the character or range that starts with <a>. */
static int range(struct onig_in *t, struct onig_set *s, uint32_t a, size_t at)
{
	uint32_t b = a;
	size_t back = t->at;
	int rc;

	if (onig_eat(t, "-")) {
		size_t mark = t->at;
		uint32_t c = onig_get(t);

		if (t->at == mark || c == ']') {
			t->at = back;		/* a hyphen at the end of the class */
		} else if (c == '[' || (c == '&' && onig_peek(t) == '&')) {
			return onig_fail(t, at, "a range that ends in a class");
		} else if (c != '\\') {
			b = c;
		} else if (onig_eat(t, "b")) {
			b = '\b';
		} else if ((rc = onig_escape_char(t, &b)) <= 0) {
			return rc < 0 ? -1 : onig_fail(t, at, "a range that ends in a class");
		}
	}
	if (b < a)
		return onig_fail(t, at, "a range from its end to its beginning");
	if (t->icase && !range_folds_alike(a, b))
		return onig_fail(t, at, "(?i) on these characters");
	onig_cp(&s->in, a, at);
	onig_puts(&s->in, b > a ? "-" : "", at);
	if (b > a)
		onig_cp(&s->in, b, at);
	return 0;
}

/* Read one item of a class that starts with <c>, already consumed. */
static int item(struct onig_in *t, struct onig_set *s, uint32_t c, size_t at)
{
	struct onig_set sub = onig_set_like(s);
	uint32_t cp;
	int rc;

	if (c == '[') {
		if (onig_eat(t, ":"))
			return posix(t, s, at);
		if ((rc = onig_class(t, &sub)) == 0)
			add_set(s, &sub, false, at);
		onig_set_fini(&sub);
		return rc;
	}
	if (c != '\\')
		return range(t, s, c, at);
	if (onig_eat(t, "b"))
		return range(t, s, '\b', at);
	if ((rc = onig_escape_char(t, &cp)) != 0)
		return rc < 0 ? -1 : range(t, s, cp, at);
	if ((rc = onig_escape_set(t, true, s)) != 0) {
		/* a hyphen after a set is literal: [\w-x] */
		if (rc > 0 && onig_eat(t, "-"))
			onig_cp(&s->in, '-', at);
		return rc < 0 ? -1 : 0;
	}
	return onig_fail(t, at, "this letter after a backslash, in a class");
}

static bool is_empty(const struct onig_set *s)
{
	return s->in.text.n == 0 && s->sub.text.n == 0 && !s->in.text.failed && !s->sub.text.failed;
}

/* Read up to && or the closing bracket, and consume it. Returns 1 for &&. */
static int operand(struct onig_in *t, struct onig_set *s, bool leading)
{
	size_t at;
	uint32_t c;

	for (;; leading = false) {
		at = t->at;
		if (onig_eat(t, "&&")) {
			if (is_empty(s))
				return onig_fail(t, at, "nothing in front of &&");
			return 1;
		}
		c = onig_get(t);
		if (t->at == at)
			return onig_fail(t, at, "a class without an end");
		if (c == ']' && !leading)
			return !is_empty(s) ? 0 : onig_fail(t, at, "a class of nothing");
		if (item(t, s, c, at) < 0)
			return -1;
	}
}

int onig_class(struct onig_in *t, struct onig_set *out)
{
	struct onig_set all = onig_set_like(out), one = all;
	struct onig both = { 0 };
	size_t at = t->at;
	bool negate = onig_eat(t, "^"), several = false;
	int rc = -1;

	if (++t->depth > ONIG_DEPTH_MOST) {
		onig_fail(t, at, "classes too deep in each other");
		return -1;
	}
	while ((rc = operand(t, &one, !several)) > 0) {
		several = true;
		onig_puts(&both, "(?=", at);
		onig_set_put(&both, &one, false, at);
		onig_puts(&both, ")", at);
		onig_set_fini(&one);
		one = onig_set_like(out);
	}
	if (rc == 0 && several) {
		onig_set_put(&both, &one, false, at);
		onig_puts(&all.sub, "(?:", at);
		onig_add(&all.sub, &both);
		onig_puts(&all.sub, ")", at);
		all.n_subs = 1;
	}
	if (rc == 0)
		add_set(out, several ? &all : &one, negate, at);
	t->depth--;
	onig_fini(&both);
	onig_set_fini(&all);
	onig_set_fini(&one);
	return rc;
}
