/* mem.c - text that lives until doctor_free(): a chain of blocks, each filled from its start. */
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/doctor/doctor_in.h"

#define BLOCK_BYTES	65536u

struct dr_block {
	struct dr_block *before;
	size_t used, size;
	_Alignas(16) char bytes[];
};

void *dr_alloc(struct dr_mem *m, size_t n)
{
	struct dr_block *b = m->last;
	size_t need = (n + 15) & ~(size_t)15, size = need > BLOCK_BYTES ? need : BLOCK_BYTES;

	if (b == NULL || need > b->size - b->used) {
		if ((b = mem_alloc(sizeof(*b) + size)) == NULL) {
			m->nomem = true;
			return NULL;
		}
		b->before = m->last;
		b->size = size;
		m->last = b;
	}
	b->used += need;
	return b->bytes + b->used - need;
}

const char *dr_text(struct dr_mem *m, const char *p, size_t n)
{
	char *to = dr_alloc(m, n + 1);

	if (to == NULL)
		return "";
	if (n > 0)
		memcpy(to, p, n);
	return to;
}

const char *dr_vprintf(struct dr_mem *m, const char *fmt, va_list ap)
{
	va_list again;
	char *to;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	to = n < 0 ? NULL : dr_alloc(m, (size_t)n + 1);
	if (to != NULL)
		vsnprintf(to, (size_t)n + 1, fmt, again);
	va_end(again);
	return to != NULL ? to : "";
}

const char *dr_printf(struct dr_mem *m, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = dr_vprintf(m, fmt, ap);
	va_end(ap);
	return text;
}

void dr_mem_free(struct dr_mem *m)
{
	for (struct dr_block *b = m->last, *before; b != NULL; b = before) {
		before = b->before;
		mem_free(b);
	}
	m->last = NULL;
}
