/* load.h - the agent's configuration, for verbs that work as it would. */
#ifndef KVROUTE_CTL_LOAD_H
#define KVROUTE_CTL_LOAD_H

#include "agent/conf/conf.h"

/* <path> NULL: all defaults. -1: every mistake is on standard error, and there is nothing to free. */
int ctl_load_conf(struct conf *c, const char *path);

#endif
