/* Formatted text goes through a buffer on the stack, because printf() has no other bounded form. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/loop/page_text_in.h"

void page_addf(struct buf *b, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line))
		b->failed = true;
	else
		buf_add(b, line, (size_t)n);
}

static void label_byte(struct buf *b, unsigned char c)
{
	if (c == '\\' || c == '"')
		page_addf(b, "\\%c", c);
	else if (c == '\n')
		buf_str(b, "\\n");
	else if (c < 0x20 || c >= 0x7f)
		page_addf(b, "\\\\x%02x", c);
	else
		buf_add(b, &c, 1);
}

void page_label(struct buf *b, const char *name, struct span value)
{
	buf_str(b, name);
	buf_str(b, "=\"");
	for (size_t i = 0; i < value.n; i++)
		label_byte(b, (unsigned char)value.p[i]);
	buf_str(b, "\"");
}

void page_json(struct buf *b, const char *s)
{
	buf_str(b, "\"");
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c >= 0x7f)
			page_addf(b, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			page_addf(b, "\\%c", c);
		else
			buf_add(b, s, 1);
	}
	buf_str(b, "\"");
}
