/* conf.h - YAML to the option structs of every module: the only folder that knows libyaml.
 *
 * One table of keys (name, type, range, default, whether a reload may change it, one line of help)
 * drives the loader, the checks, the printer and the test that the man page names every key. */
#ifndef KVROUTE_CONF_CONF_H
#define KVROUTE_CONF_CONF_H

#include "agent/base/err.h"
#include "agent/loop/loop.h"
#include "agent/route/route.h"

struct conf {
	struct route_opts route;
	struct loop_opts loop;
};

void conf_defaults(struct conf *c);
void conf_free(struct conf *c);		/* what it points to; not <c> */

/* Every mistake, in the order of the file. */
struct conf_errors {
	struct err *e;
	size_t n, cap;
	size_t lost;		/* more than fitted (64) */
};

void conf_errors_free(struct conf_errors *es);

/* Fill <c>, which is set to the defaults first, and <es>, which is set up here. <name> is for messages.
 * 0, and nothing to free in <es>; or -1 with at least one entry in <es> (without memory: none, but
 * <lost> is not 0), and <c> freed. */
int conf_load(struct conf *c, const char *path, struct conf_errors *es);
/* <fd> is open for reading and stays open, or is the -errno of an open() that failed. */
int conf_load_fd(struct conf *c, const char *name, int fd, struct conf_errors *es);
int conf_load_text(struct conf *c, const char *name, const char *text, size_t n,
		   struct conf_errors *es);

/* All effective values as YAML that loads again to the same, each with its help as a comment. */
void conf_print(const struct conf *c, void (*put)(void *arg, const char *text, size_t n), void *arg);

/* 0 when <next> may replace <now> in a running agent; else -1 and <e> names every key that differs
 * and needs a restart. */
int conf_reloadable(const struct conf *now, const struct conf *next, struct err *e);

/* For tests and the man page: calls back for every key, with its dotted name. Keys that a pool may
 * have as well come once, as "policy.rule". */
void conf_each_key(void (*fn)(void *arg, const char *name, const char *type, const char *range,
			      const char *def, bool reload, const char *help), void *arg);

#endif
