/* check_in.h - rules between keys that are valid one by one. */
#ifndef KVROUTE_CONF_CHECK_IN_H
#define KVROUTE_CONF_CHECK_IN_H

#include "agent/conf/errors_in.h"
#include "agent/conf/keys.h"

/* Where the file gives each key, by its index in conf_keys[]. */
struct conf_given {
	struct conf_mark at[CONF_KEYS_MAX];
	bool bad[CONF_KEYS_MAX];	/* given but rejected: it takes part in no further check */
	struct conf_mark pools_at, tenants_at;
};

/* Returns the index of the key with this full name, or -1. */
int conf_key_of(const char *name);

/* Find the place of an error between keys <a> and <b>. Returns false if it must not be reported. */
bool conf_error_place(const struct conf_given *given, int a, int b, struct conf_mark *at);

/* <own>: the absolute path of the configuration file, or NULL if it is unknown. */
void conf_check(struct conf_errors *es, const char *file, const char *own, const struct conf *c,
		const struct conf_given *given);

/* Check the policy or a pool. A pool is only blamed for keys that it gives. */
void conf_check_pool(struct conf_errors *es, const char *file, const struct pool_opts *p,
		     const struct conf_given *given);

/* Check one engine. stats_feed in <c> is already read; <sockets_bad>: its list was rejected. */
void conf_check_engine(struct conf_errors *es, const char *file, const struct conf *c,
    const struct engine_opts *e, const struct conf_given *given, bool sockets_bad);

/* Check the section share. */
void conf_check_share(
    struct conf_errors *es, const char *file, const struct conf *c, const struct conf_given *given);

/* Check one model. models_dir in <c> is already read. */
void conf_check_model(struct conf_errors *es, const char *file, const struct conf *c,
    const struct model_opts *m, const struct conf_given *given);

#endif
