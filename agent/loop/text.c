/* The buffer doubles up to its limit; a failure is kept until the owner checks it. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/loop/text_in.h"

#define TEXT_FIRST	4096

void text_init(struct text *t, size_t max)
{
	memset(t, 0, sizeof(*t));
	t->max = max;
}

void text_fini(struct text *t)
{
	mem_free(t->p);
	memset(t, 0, sizeof(*t));
}

/* Make room for <n> more bytes. Returns false, and sets <failed>, if that is not possible. */
static bool text_room(struct text *t, size_t n)
{
	size_t cap = t->cap ? t->cap : TEXT_FIRST;
	char *p;

	if (t->failed || n > t->max - t->n)
		goto fail;
	if (t->cap - t->n >= n)
		return true;
	while (cap - t->n < n)
		cap *= 2;
	if (cap > t->max)
		cap = t->max;
	if ((p = mem_resize(t->p, cap, 1)) == NULL)
		goto fail;
	t->p = p;
	t->cap = cap;
	return true;
fail:
	t->failed = true;
	return false;
}

void text_add(struct text *t, const char *p, size_t n)
{
	if (n == 0 || !text_room(t, n))
		return;
	memcpy(t->p + t->n, p, n);
	t->n += n;
}

void text_addf(struct text *t, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line))
		t->failed = true;
	else
		text_add(t, line, (size_t)n);
}

static void text_label_byte(struct text *t, unsigned char c)
{
	if (c == '\\' || c == '"')
		text_addf(t, "\\%c", c);
	else if (c == '\n')
		text_add(t, "\\n", 2);
	else if (c < 0x20 || c >= 0x7f)
		text_addf(t, "\\\\x%02x", c);
	else
		text_add(t, (const char *)&c, 1);
}

void text_label(struct text *t, const char *name, struct span value)
{
	size_t i;

	text_add(t, name, strlen(name));
	text_add(t, "=\"", 2);
	for (i = 0; i < value.n; i++)
		text_label_byte(t, (unsigned char)value.p[i]);
	text_add(t, "\"", 1);
}
