/* conf.c - defaults, and the keys that a reload may change. */
#include <stdio.h>

#include "agent/conf/value.h"

void conf_defaults(struct conf *c)
{
	memset(c, 0, sizeof(*c));
	route_defaults(&c->route);
	loop_defaults(&c->loop);
	c->route.events_max_bytes = 64u << 20;
}

void conf_free(struct conf *c)
{
	route_opts_free(&c->route);
	loop_opts_free(&c->loop);
	memset(c, 0, sizeof(*c));
}

/* Values are compared as text, because equal text means equal values (print.c). */
static bool same_text(const struct conf_key *k, const struct conf *a, const struct conf *b)
{
	char va[CONF_VALUE_MAX], vb[CONF_VALUE_MAX];

	conf_value_text(k, conf_key_home(k, a), va, sizeof(va));
	conf_value_text(k, conf_key_home(k, b), vb, sizeof(vb));
	return strcmp(va, vb) == 0;
}

int conf_reloadable(const struct conf *now, const struct conf *next, struct err *e)
{
	char names[200] = "";
	size_t n = 0, found = 0, left_out = 0;

	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->reload || same_text(k, now, next))
			continue;
		found++;
		if (n + strlen(k->name) + 3 > sizeof(names))
			left_out++;
		else
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
					      k->name);
	}
	if (found == 0)
		return 0;
	if (left_out > 0)
		return err_set(e,
			"A reload cannot change %s and %zu more; restart for that, all settings stay as they "
			"were.", names, left_out);
	return err_set(e,
		"A reload cannot change %s; restart for that, all settings stay as they were.", names);
}
