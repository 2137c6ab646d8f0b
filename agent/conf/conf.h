/* conf.h - the configuration: YAML to the option structs of every module. The only folder that uses
 * libyaml.
 *
 * One table of keys (name, type, range, default, reload, help) drives the loader, the checks, the
 * printer, and the test that the man page describes every key. */
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
void conf_free(struct conf *c);		/* frees what it points to, not <c> */

/* All errors, in the order of the file. */
struct conf_errors {
	struct err *e;
	size_t n, cap;
	size_t lost;		/* errors beyond CONF_ERRORS_MAX */
};

void conf_errors_free(struct conf_errors *es);

/* Load the file <path> into <c>, which gets the defaults first. Returns 0; then <es> needs no free.
 * Or returns -1 with at least one entry in <es>, and frees <c>; without memory <es> has no entry,
 * but <lost> is not 0. */
int conf_load(struct conf *c, const char *path, struct conf_errors *es);
/* The same from <fd>, which is open for reading and stays open, or is the -errno of a failed
 * open(). <name> is for messages. */
int conf_load_fd(struct conf *c, const char *name, int fd, struct conf_errors *es);
int conf_load_text(struct conf *c, const char *name, const char *text, size_t n,
		   struct conf_errors *es);

/* Print all effective values as YAML that loads again to the same values, each with its help as a
 * comment. */
void conf_print(
    const struct conf *c, void (*put)(void *arg, const char *text, size_t n), void *arg);

/* Check whether <next> may replace <now> in a running agent. Returns 0, or -1 with <e>, which names
 * every changed key that needs a restart. */
int conf_reloadable(const struct conf *now, const struct conf *next, struct err *e);

#endif
