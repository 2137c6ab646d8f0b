/* get.h - get a page from the metrics address of an agent. */
#ifndef KVROUTE_CTL_GET_H
#define KVROUTE_CTL_GET_H

#include "agent/feed/http_answer.h"

#define CTL_ADDRESS	"127.0.0.1:9402"

/* Connect to <address>, which is host:port or unix@path. Returns a descriptor whose reads and
 * writes wait at most 10 s, or -1 with <why>, which is a literal or from strerror(). */
int ctl_connect(const char *address, const char **why);

int64_t ctl_now_ms(void);	/* of a clock that never goes back */

/* Read what comes before <until>, a time of ctl_now_ms(), and within 10 s. Returns as recv(), with
 * ETIMEDOUT. */
ssize_t ctl_receive(int fd, char *buf, size_t cap, int64_t until);

/* GET <path> from <address>, which is host:port or unix@path. <a> is initialized and gets the
 * answer, of any status. Returns 0, or -1 with <why>, which is a literal or from strerror(). Each
 * read waits at most 10 s, and the whole at most 60 s and the time to find a name's addresses. */
int ctl_get(const char *address, const char *path, struct http_answer *a, const char **why);

/* The same, and the whole takes at most <limit_ms>. */
int ctl_get_within(const char *address, const char *path, int limit_ms, struct http_answer *a,
    const char **why);

#endif
