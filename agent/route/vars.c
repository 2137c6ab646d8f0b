/* vars.c - names of variables, one by one and in lists. */
#include <string.h>

#include "agent/route/vars.h"

#define NAME(text)	{ text, sizeof(text) - 1 }

const struct span route_var_names[N_VARS] = {
#define X(name, text) NAME(text),
	ROUTE_VARS(X)
#undef X
};

static bool is_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || c == '_';
}

static uint32_t var_named(const char *p, size_t n)
{
	for (unsigned i = 0; i < N_VARS; i++)
		if (n == route_var_names[i].n && memcmp(p, route_var_names[i].p, n) == 0)
			return 1u << i;
	return 0;
}

#define VARS_MAX	256

uint32_t route_vars(struct span names)
{
	size_t n = names.n < VARS_MAX ? names.n : VARS_MAX, at = 0, end;
	uint32_t vars = 0;

	if (n == 0)
		return VARS_ALL;
	while (at < n) {
		for (end = at; end < n && is_of_name(names.p[end]); end++)
			;
		if (end > at && (end < n || n == names.n || !is_of_name(names.p[n])))
			vars |= var_named(names.p + at, end - at);
		at = end + 1;
	}
	return vars;
}
