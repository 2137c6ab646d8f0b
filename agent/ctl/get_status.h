/* get_status.h - get /status.json from the metrics address of an agent. */
#ifndef KVROUTE_CTL_GET_STATUS_H
#define KVROUTE_CTL_GET_STATUS_H

#include "agent/ctl/get.h"
#include "agent/ctl/status.h"

/* Read it into <s>, which is zeroed or was read before, in at most <limit_ms>. Returns 0, or -1
 * with <why>, which is a literal or from strerror(). */
int ctl_get_status(const char *address, int limit_ms, struct status *s, const char **why);

#endif
