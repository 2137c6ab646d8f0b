/* load.c - load the agent's configuration and print its errors. */
#include <stdio.h>

#include "agent/ctl/load.h"

int ctl_load_conf(struct conf *c, const char *path)
{
	struct conf_errors es = { .e = NULL };

	if (path == NULL) {
		conf_defaults(c);
		return 0;
	}
	if (conf_load(c, path, &es) == 0)
		return 0;
	for (size_t i = 0; i < es.n; i++)
		fprintf(stderr, "%s:%d:%d: %s\n", es.e[i].file, es.e[i].line, es.e[i].column, es.e[i].text);
	conf_errors_free(&es);
	return -1;
}
