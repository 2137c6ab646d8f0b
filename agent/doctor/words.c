/* words.c - a line into words, as parse_line() of HAProxy does it (manual, 2.2 and 2.3).
 *
 *   outside quotes   blanks end a word, '#' ends the line, "\" escapes
 *   'strong'         nothing is special but the closing quote
 *   "weak"           "\" escapes, $NAME and ${NAME-default} become the value of a variable;
 *                    "${NAME[*]}" becomes one word for each word of it
 *
 * Variables outside of double quotes stay as they are; HAProxy expands those in addresses later. A
 * "\" before any other character stays. There is no continuation of lines. */
#include <ctype.h>

#include "agent/base/num.h"
#include "agent/doctor/doctor_in.h"

struct splitter {
	struct dr_mem *m;
	const struct dr_env *env;
	const char *p, *end;
	struct buf word;
	bool in_word;
	const char **words;
	int n;
	uint64_t unset;
	const char *why;
};

static bool end_word(struct splitter *s)
{
	if (!s->in_word)
		return true;
	if (s->n == DR_WORDS) {
		s->why = "the line has more than 64 words";
		return false;
	}
	if (s->word.failed)
		s->m->nomem = true;
	s->words[s->n++] = dr_text(s->m, s->word.p, s->word.n);
	s->in_word = false;
	buf_start(&s->word, 0);
	return true;
}

static void put(struct splitter *s, char c)
{
	s->in_word = true;
	buf_add(&s->word, &c, 1);
}

/* Take an escape; s->p is after the "\". */
static bool take_escape(struct splitter *s, bool weak)
{
	char c = s->p < s->end ? *s->p : '\0';
	const char *from, *to;
	static const char plain[] = " \\#\"'", letters[] = "nrt", values[] = "\n\r\t";

	if (c == 'x') {
		if (s->end - s->p < 3 || num_hex(s->p[1]) < 0 || num_hex(s->p[2]) < 0) {
			s->why = "\\x needs two hexadecimal digits";
			return false;
		}
		put(s, (char)(num_hex(s->p[1]) << 4 | num_hex(s->p[2])));
		s->p += 3;
		return true;
	}
	from = c != '\0' ? strchr(plain, c) : NULL;
	to = c != '\0' ? strchr(letters, c) : NULL;
	if (from != NULL || (weak && c == '$')) {
		put(s, c);
		s->p++;
	} else if (to != NULL) {
		put(s, values[to - letters]);
		s->p++;
	} else {
		put(s, '\\');
	}
	return true;
}

static bool put_value(struct splitter *s, const char *value, bool as_words)
{
	for (; *value != '\0'; value++) {
		if (!as_words || !isspace((unsigned char)*value))
			put(s, *value);
		else if (!end_word(s))
			return false;
	}
	return true;
}

/* Take a variable; s->p is after the "$". */
static bool take_variable(struct splitter *s)
{
	bool brace = s->p < s->end && *s->p == '{', as_words = false;
	const char *from, *value, *otherwise = NULL;
	struct span name;

	from = s->p += brace;
	while (s->p < s->end && (isalnum((unsigned char)*s->p) || *s->p == '_' ||
	    (*s->p == '.' && s->p == from)))
		s->p++;
	name = span_of(from, (size_t)(s->p - from));
	if (name.n == 0 || isdigit((unsigned char)*from)) {
		s->why = "a \"$\" in double quotes begins no name of a variable: write \"\\$\"";
		return false;
	}
	if (brace && s->end - s->p >= 3 && memcmp(s->p, "[*]", 3) == 0) {
		as_words = true;
		s->p += 3;
	}
	if (brace && s->p < s->end && *s->p == '-') {
		from = ++s->p;
		while (s->p < s->end && *s->p != '}')
			s->p++;
		otherwise = dr_text(s->m, from, (size_t)(s->p - from));
	}
	if (brace && (s->p == s->end || *s->p++ != '}')) {
		s->why = "a \"${\" has no \"}\"";
		return false;
	}
	value = dr_env_get(s->env, name);
	if (value == NULL || (*value == '\0' && otherwise != NULL))
		value = otherwise;
	if (value == NULL && s->n < DR_WORDS)
		s->unset |= (uint64_t)1 << s->n;
	return value == NULL || put_value(s, value, as_words);
}

/* Take what is between quotes; s->p is after the first. */
static bool take_quoted(struct splitter *s, char quote)
{
	s->in_word = true;
	while (s->p < s->end && *s->p != quote) {
		char c = *s->p++;

		if (quote == '"' && c == '\\') {
			if (!take_escape(s, true))
				return false;
		} else if (quote == '"' && c == '$') {
			if (!take_variable(s))
				return false;
		} else {
			put(s, c);
		}
	}
	if (s->p == s->end) {
		s->why = "a quote is not closed";
		return false;
	}
	s->p++;
	return true;
}

static bool take_one(struct splitter *s)
{
	char c = *s->p++;

	switch (c) {
	case ' ':
	case '\t':
	case '\r':
		return end_word(s);
	case '#':
		s->p = s->end;
		return true;
	case '\'':
	case '"':
		return take_quoted(s, c);
	case '\\':
		return take_escape(s, false);
	case '\0':
		s->why = "the line has a NUL byte";
		return false;
	default:
		put(s, c);
		return true;
	}
}

int dr_split(struct dr_mem *m, const struct dr_env *env, struct span line, const char **words,
	     uint64_t *unset, const char **why)
{
	struct splitter s = {
		.m = m, .env = env, .p = line.p, .end = line.p + line.n, .words = words,
	};

	while (s.p < s.end && s.why == NULL && take_one(&s))
		continue;
	if (s.why == NULL)
		end_word(&s);
	buf_free(&s.word);
	*why = s.why;
	*unset = s.unset;
	return s.why == NULL ? s.n : -1;
}
