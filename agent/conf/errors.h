/* errors.h - mistakes collected in the order of the file, however they were found. */
#ifndef KVROUTE_CONF_ERRORS_H
#define KVROUTE_CONF_ERRORS_H

#include "agent/conf/conf.h"

#define CONF_ERRORS_MAX	64

struct conf_mark {
	int line, column;	/* from 1; 0: nowhere */
};

/* Room for CONF_ERRORS_MAX. -1: no memory; then everything added is only counted as lost. */
int conf_errors_init(struct conf_errors *es);

/* Put it where it belongs in the order. Of more than CONF_ERRORS_MAX the first ones stay. */
void conf_errors_add(struct conf_errors *es, const char *file, struct conf_mark at,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* True when a mistake at <at> would only be counted as lost, which it then is: for sentences that are
 * work to make. */
bool conf_errors_lose(struct conf_errors *es, struct conf_mark at);

static inline bool conf_errors_any(const struct conf_errors *es)
{
	return es->n > 0 || es->lost > 0;
}

#endif
