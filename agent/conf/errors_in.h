/* errors_in.h - errors sorted by their place in the file. */
#ifndef KVROUTE_CONF_ERRORS_IN_H
#define KVROUTE_CONF_ERRORS_IN_H

#include "agent/conf/conf.h"

#define CONF_ERRORS_MAX	64

struct conf_mark {
	int line, column;	/* from 1; 0: unknown */
};

/* Allocate room for CONF_ERRORS_MAX errors. Returns -1 if there is no memory; then errors are only
 * counted as lost. */
int conf_errors_init(struct conf_errors *es);

/* Insert an error at its place in the order. Only the first CONF_ERRORS_MAX are kept. */
void conf_errors_add(struct conf_errors *es, const char *file, struct conf_mark at,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Returns true if an error at <at> would not be kept, and counts it as lost. Call it before
 * building a costly message. */
bool conf_errors_lose(struct conf_errors *es, struct conf_mark at);

static inline bool conf_errors_any(const struct conf_errors *es)
{
	return es->n > 0 || es->lost > 0;
}

#endif
