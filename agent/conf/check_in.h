/* check_in.h - what must hold between keys, once each of them is fine by itself. */
#ifndef KVROUTE_CONF_CHECK_IN_H
#define KVROUTE_CONF_CHECK_IN_H

#include "agent/conf/errors.h"
#include "agent/conf/keys.h"

/* Which keys the file gave, by their place in conf_keys[]. */
struct conf_given {
	struct conf_mark at[CONF_KEYS_MAX];
	bool bad[CONF_KEYS_MAX];	/* and was refused: then nothing is compared with it */
	struct conf_mark pools_at, tenants_at;
};

void conf_check(struct conf_errors *es, const char *file, const struct conf *c,
		const struct conf_given *given);

/* The policy and each pool; a pool only answers for what it gave itself. */
void conf_check_pool(struct conf_errors *es, const char *file, const struct pool_opts *p,
		     const struct conf_given *given);

/* A model by itself; what <c> says of models_dir is known. */
void conf_check_model(struct conf_errors *es, const char *file, const struct conf *c, const struct model_opts *m,
		      const struct conf_given *given);

#endif
