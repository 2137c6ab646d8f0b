/* errors.c - a sorted array of errors; the last ones are dropped when it is full. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/conf/errors_in.h"

int conf_errors_init(struct conf_errors *es)
{
	memset(es, 0, sizeof(*es));
	if ((es->e = mem_calloc(CONF_ERRORS_MAX, sizeof(*es->e))) == NULL)
		return -1;
	es->cap = CONF_ERRORS_MAX;
	return 0;
}

void conf_errors_free(struct conf_errors *es)
{
	mem_free(es->e);
	memset(es, 0, sizeof(*es));
}

static bool is_after(const struct err *e, struct conf_mark at)
{
	return e->line != at.line ? e->line > at.line : e->column > at.column;
}

/* If the name is too long, its start is cut off, because the end of a path says more. */
static void put_file(struct err *e, const char *file)
{
	size_t n = strlen(file), max = sizeof(e->file) - 1;

	memset(e->file, 0, sizeof(e->file));
	memcpy(e->file, n > max ? file + (n - max) : file, n > max ? max : n);
}

bool conf_errors_lose(struct conf_errors *es, struct conf_mark at)
{
	if (es->n < es->cap || (es->n > 0 && is_after(&es->e[es->n - 1], at)))
		return false;
	es->lost++;
	return true;
}

void conf_errors_add(struct conf_errors *es, const char *file, struct conf_mark at,
		     const char *fmt, ...)
{
	size_t i = es->n;
	va_list ap;

	while (i > 0 && is_after(&es->e[i - 1], at))
		i--;
	if (es->n == es->cap) {
		es->lost++;
		if (i == es->n)
			return;
		es->n--;
	}
	memmove(&es->e[i + 1], &es->e[i], (es->n - i) * sizeof(*es->e));
	es->n++;
	put_file(&es->e[i], file);
	es->e[i].line = at.line;
	es->e[i].column = at.column;
	va_start(ap, fmt);
	vsnprintf(es->e[i].text, sizeof(es->e[i].text), fmt, ap);
	va_end(ap);
}
