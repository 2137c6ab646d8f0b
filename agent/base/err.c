/* Format an error's text. A text longer than ERR_TEXT_MAX is truncated. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/err.h"

int err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (e == NULL)
		return -1;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return -1;
}
