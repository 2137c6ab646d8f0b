/* split_onig.c - regular expressions of Oniguruma for PCRE2: only strings so far, expressions are refused. */
#include "agent/tok/split_regex.h"

#include "agent/base/mem.h"

static void put(struct onig *o, char c, size_t from)
{
	o->from[o->n] = (uint32_t)from;
	o->p[o->n++] = c;
}

int onig_translate(struct span pattern, bool literal, struct onig *out, struct err *e)
{
	size_t i;

	if (!literal)
		return err_set(e, "this regular expression is none of those that are known");
	out->cap = 2 * pattern.n + 1;
	out->p = mem_alloc(out->cap);
	out->from = mem_calloc(out->cap, sizeof(*out->from));
	if (out->p == NULL || out->from == NULL)
		return err_set(e, "no memory");
	for (i = 0; i < pattern.n; i++) {
		if (pattern.p[i] != 0 && strchr("\\^$.[]|()?*+{}#", pattern.p[i]) != NULL)
			put(out, '\\', i);
		put(out, pattern.p[i], i);
	}
	return 0;
}

void onig_fini(struct onig *o)
{
	mem_free(o->p);
	mem_free(o->from);
	*o = (struct onig){ 0 };
}
