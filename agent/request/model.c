/* model.c - names of models: exact names first, then patterns. */
#include "agent/request/model.h"

void model_defaults(struct model_opts *o)
{
	memset(o, 0, sizeof(*o));
	strcpy(o->name, "*");
	o->text_order = (struct text_order){ { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES } };
}

static bool is_called(const struct model_opts *m, struct span name)
{
	if (span_eq(name, span_str(m->name)))
		return true;
	for (size_t i = 0; i < MODEL_ALIASES_MAX && m->aliases[i][0] != '\0'; i++)
		if (span_eq(name, span_str(m->aliases[i])))
			return true;
	return false;
}

/* Match <name> with <pattern>, where each "*" is any text, also none. Only the last "*" passed is
 * tried at further places, because what an earlier one took can stay as short as it was. Cost: at
 * most the product of both lengths. */
static bool name_fits(const char *pattern, struct span name)
{
	const char *star = NULL;
	size_t i = 0, from = 0;

	while (i < name.n) {
		if (*pattern == '*') {
			star = ++pattern;
			from = i;
		} else if (*pattern != '\0' && *pattern == name.p[i]) {
			pattern++;
			i++;
		} else if (star != NULL) {
			pattern = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

static bool is_adapter(const struct model_opts *m, struct span name)
{
	for (size_t i = 0; i < MODEL_ALIASES_MAX && m->adapters[i][0] != '\0'; i++)
		if (name_fits(m->adapters[i], name))
			return true;
	return false;
}

bool models_have_tokenizer(const struct model_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].tok != NULL)
			return true;
	}
	return t->fallback->tok != NULL;
}

const struct model_opts *model_options_of(const struct model_table *t, struct span name)
{
	for (size_t i = 0; i < t->n; i++)
		if (is_called(&t->list[i], name))
			return &t->list[i];
	for (size_t i = 0; i < t->n; i++)
		if (is_adapter(&t->list[i], name))
			return &t->list[i];
	for (size_t i = 0; i < t->n; i++)
		if (strchr(t->list[i].name, '*') != NULL && name_fits(t->list[i].name, name))
			return &t->list[i];
	return t->fallback;
}

bool model_has_adapter(const struct model_opts *m, struct span name)
{
	return !is_called(m, name) && is_adapter(m, name);
}

struct span model_name_of(const struct model_opts *m, struct span asked)
{
	return strchr(m->name, '*') != NULL || !is_called(m, asked) ? asked : span_str(m->name);
}
