/* load.h - the agent's configuration, for verbs that need its options. */
#ifndef KVROUTE_CTL_LOAD_H
#define KVROUTE_CTL_LOAD_H

#include "agent/conf/conf.h"

/* Load <path>; NULL: all defaults. Returns 0, or -1 after printing every error to standard error;
 * then there is nothing to free. */
int ctl_load_conf(struct conf *c, const char *path);

#endif
