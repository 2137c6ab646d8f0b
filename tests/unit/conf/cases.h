/* cases.h - the tables in tests/data/conf, and loading a text. */
#ifndef TESTS_CONF_CASES_H
#define TESTS_CONF_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/conf/keys.h"
#include "agent/conf/tree_in.h"
#include "agent/conf/value.h"

#define WANTS_MAX 32

struct conf_case {
	char title[200];
	char *text;			/* the file */
	size_t n;
	const char *want[WANTS_MAX];	/* the texts after "=> " */
	size_t n_wants;
};

static inline char *read_whole(const char *path, size_t *n)
{
	FILE *f = fopen(path, "r");
	char *s = calloc(1, CONF_FILE_MAX + 1);

	if (f == NULL)
		fail_msg("%s: run from the top of the tree", path);
	*n = fread(s, 1, CONF_FILE_MAX, f);
	fclose(f);
	return s;
}

/* \xHH, \t, \r, \e and \\ ; any other backslash stands for itself. Writes over <s>. */
static inline size_t unescape(char *s, size_t n)
{
	char hex[3] = "";
	size_t to = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\\' && i + 3 < n && s[i + 1] == 'x') {
			memcpy(hex, s + i + 2, 2);
			s[to++] = (char)strtol(hex, NULL, 16);
			i += 3;
		} else if (s[i] == '\\' && i + 1 < n && strchr("tre\\", s[i + 1]) != NULL) {
			i++;
			if (s[i] != 'e')
				s[to++] = s[i] == 't' ? '\t' : s[i] == 'r' ? '\r' : '\\';
		} else {
			s[to++] = s[i];
		}
	}
	return to;
}

/* Call <fn> for each case of the file; returns how many there were. */
static inline size_t each_case(const char *path, void (*fn)(struct conf_case *c))
{
	size_t n, count = 0;
	char *all = read_whole(path, &n), *p = strstr(all, "\n=== "), *end, *title, *arrow;
	struct conf_case c;

	for (; p != NULL; p = end) {
		memset(&c, 0, sizeof(c));
		if ((end = strstr(p + 1, "\n=== ")) != NULL)
			*end = '\0';
		title = p + 5;
		p = strchr(title, '\n');
		snprintf(c.title, sizeof(c.title), "%.*s", (int)(p - title), title);
		c.text = p + 1;
		arrow = strstr(p, "\n=> ");
		assert_non_null(arrow);
		c.n = unescape(c.text, (size_t)(arrow + 1 - c.text));
		for (; arrow != NULL && c.n_wants < WANTS_MAX; arrow = strstr(arrow + 1, "\n=> ")) {
			*arrow = c.n_wants ? '\0' : '\n';	/* the first "=>" ends the text of the file */
			c.want[c.n_wants++] = arrow + 4;
		}
		c.want[c.n_wants - 1] = strtok((char *)c.want[c.n_wants - 1], "\n");
		fn(&c);
		count++;
	}
	free(all);
	return count;
}

static inline void print_errors(const struct conf_errors *es)
{
	for (size_t i = 0; i < es->n; i++)
		printf("    %s:%d:%d %s\n", es->e[i].file, es->e[i].line, es->e[i].column,
		       es->e[i].text);
	if (es->lost)
		printf("    and %zu more\n", es->lost);
}

/* Load a text that must be valid. */
static inline void load_good(struct conf *c, const char *text, size_t n)
{
	struct conf_errors es;

	if (conf_load_text(c, "test", text, n, &es) != 0) {
		print_errors(&es);
		fail_msg("does not load: %.*s", (int)n, text);
	}
}

struct sink {
	char *p;
	size_t n;
};

static inline void sink_put(void *arg, const char *text, size_t n)
{
	struct sink *s = arg;

	s->p = realloc(s->p, s->n + n + 1);
	memcpy(s->p + s->n, text, n);
	s->n += n;
	s->p[s->n] = '\0';
}

#endif
