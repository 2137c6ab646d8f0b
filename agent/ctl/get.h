/* get.h - ask the metrics address of an agent for a page. */
#ifndef KVROUTE_CTL_GET_H
#define KVROUTE_CTL_GET_H

#include "agent/feed/http_answer.h"

#define CTL_ADDRESS	"127.0.0.1:9402"

/* GET <path> of <address>, host:port or unix@path. <a> is initialized; it takes the answer, of whatever status. -1: <why>, which is
 * static or strerror()'s. Waits 10 s at most for each read. */
int ctl_get(const char *address, const char *path, struct http_answer *a, const char **why);

#endif
