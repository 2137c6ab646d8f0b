/* render.h - renders a template with variables for a test, and keeps the result. For unit tests. */
#ifndef TESTS_JINJA_RENDER_H
#define TESTS_JINJA_RENDER_H

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/jinja/jinja.h"

static const struct jinja_time story_time = { 2026, 8, 1, 12, 0, 0, 0 };
static struct hash_key test_key = { "a secret of a test: it need not be one" };

struct rendered {
	enum jinja_result result;
	struct jinja_error why;
	struct buf text;
};

static inline struct rendered render_dict(const struct jinja *t, struct jinja_mem *m,
    const struct jdict *vars)
{
	struct jinja_limits limits = jinja_limits_defaults();
	struct rendered r = { .text = { .max = 16 << 20 } };

	r.result = jinja_render(t, m, vars, &story_time, &limits, jinja_buf_sink, &r.text, &r.why);
	return r;
}

/* Read a whole file, and add a NUL. Returns NULL if it does not exist. The caller frees it. */
static inline char *whole_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *p;

	if (f == NULL)
		return NULL;
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	p = malloc(*n + 1);
	assert_non_null(p);
	assert_int_equal(fread(p, 1, *n, f), *n);
	p[*n] = '\0';
	fclose(f);
	return p;
}

static inline struct jval member(struct jval d, const char *name)
{
	const struct jval *v = d.kind == JV_DICT ? jdict_get_str(d.d, name, strlen(name)) : NULL;

	return v != NULL ? *v : (struct jval){ .kind = JV_MISSING };
}

#endif
